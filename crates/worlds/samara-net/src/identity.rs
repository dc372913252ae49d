//! The identity of a node, a sender or a member: its certificate, named by its fingerprint. Also TLS
//! in which both sides show a certificate.
//!
//! The signer of a certificate does not matter: nodes know each other's fingerprints, and TLS (1.3
//! only) proves that the other side has the key of the certificate that it shows.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use hex::FromHex;
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
#[cfg(all(feature = "hosted", feature = "mix"))]
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};

/// SHA-256 of a certificate in DER: the name of the holder of its key. `openssl x509 -fingerprint
/// -sha256` prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate.as_ref()).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {0:?}; expected SHA-256 of a certificate, 64 hexadecimal digits with or without colons")]
pub struct NoFingerprint(String);

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits = text.replace(':', "");
        <[u8; 32]>::from_hex(digits).map(Self).map_err(|_| NoFingerprint(text.to_owned()))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}; expected a certificate and its private key in PEM")]
    Pem(String),
    #[error("cannot create a certificate: {0}")]
    Generate(String),
}

/// The bytes before the secret of an Ed25519 key in PKCS #8 (RFC 8410, 7).
#[cfg(all(feature = "hosted", feature = "mix"))]
const ED25519_PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A certificate with its private key, which is never printed.
#[derive(Clone)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Arc<PrivateKeyDer<'static>>,
    /// Certificate and key in PEM.
    pem: String,
}

impl Identity {
    /// Creates a key (ECDSA, P-256) and a self-signed certificate: nodes trust fingerprints, not
    /// signers.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, IdentityError> {
        let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()]);
        let made = made.map_err(|error| IdentityError::Generate(error.to_string()))?;
        Self::from_pem(&(made.cert.pem() + &made.key_pair.serialize_pem()))
    }

    /// Creates the key (Ed25519) of a secret, and a self-signed certificate. The same secret has the
    /// same certificate everywhere.
    ///
    /// # Errors
    /// The certificate cannot be made.
    #[cfg(all(feature = "hosted", feature = "mix"))]
    pub(crate) fn of_secret(secret: [u8; 32]) -> Result<Self, IdentityError> {
        let failed = |error: rcgen::Error| IdentityError::Generate(error.to_string());
        let key = PrivatePkcs8KeyDer::from([&ED25519_PKCS8[..], &secret].concat());
        let key = rcgen::KeyPair::try_from(&key).map_err(failed)?;
        let certificate = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()]).map_err(failed)?;
        let certificate = certificate.self_signed(&key).map_err(failed)?;
        Self::from_pem(&(certificate.pem() + &key.serialize_pem()))
    }

    /// Reads the first certificate and the first key of a text in PEM.
    pub fn from_pem(text: &str) -> Result<Self, IdentityError> {
        let wrong = |what: &str, error: &dyn fmt::Display| IdentityError::Pem(format!("{what}: {error}"));
        let certificate = CertificateDer::from_pem_slice(text.as_bytes());
        let certificate = certificate.map_err(|error| wrong("certificate", &error))?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| wrong("key", &error))?;
        Ok(Self { certificate, key: Arc::new(key), pem: text.to_owned() })
    }

    /// Writes certificate and key to a new file in PEM that only the owner can read.
    ///
    /// # Errors
    /// The file exists already, or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), IdentityError> {
        use std::io::Write;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(options.open(path)?.write_all(self.pem.as_bytes())?)
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (vec![self.certificate.clone()], self.key.clone_key())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

/// The name in certificates and in requests. No check depends on it.
pub(crate) const SERVER_NAME: &str = "samara";

#[derive(Clone, Debug)]
pub(crate) enum Allowed {
    Known(BTreeSet<Fingerprint>),
    /// Every certificate: senders create their own.
    Anybody,
}

#[derive(Debug)]
struct ByFingerprint {
    allowed: Allowed,
    provider: Arc<CryptoProvider>,
}

impl ByFingerprint {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        match &self.allowed {
            Allowed::Known(known) if !known.contains(&Fingerprint::of(certificate)) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
            _ => Ok(()),
        }
    }
}

/// The methods that the verifiers of both sides share: TLS 1.3 only.
macro_rules! proof_of_key {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for ByFingerprint {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    proof_of_key!();
}

impl ClientCertVerifier for ByFingerprint {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    proof_of_key!();
}

fn verifier(allowed: Allowed) -> (Arc<ByFingerprint>, Arc<CryptoProvider>) {
    let provider = Arc::new(ring::default_provider());
    (Arc::new(ByFingerprint { allowed, provider: Arc::clone(&provider) }), provider)
}

/// Returns the TLS configuration of a server for this application protocol (ALPN).
pub(crate) fn server_tls(
    identity: &Identity,
    allowed: Allowed,
    protocol: &[u8],
) -> Result<Arc<ServerConfig>, Error> {
    let (verifier, provider) = verifier(allowed);
    let (chain, key) = identity.parts();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// Returns the TLS configuration of a client that accepts one server.
pub(crate) fn client_tls(
    identity: &Identity,
    other: Fingerprint,
    protocol: &[u8],
) -> Result<Arc<ClientConfig>, Error> {
    let (verifier, provider) = verifier(Allowed::Known([other].into()));
    let (chain, key) = identity.parts();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

#[cfg(all(test, feature = "hosted", feature = "mix"))]
mod tests {
    use super::*;

    #[test]
    fn secret_has_the_same_certificate_everywhere() {
        let name = |secret: u8| Identity::of_secret([secret; 32]).unwrap().fingerprint();
        assert_eq!(name(7), name(7));
        assert_ne!(name(7), name(8));
    }
}
