//! TLS in which both sides show a certificate, and are who it says.
//!
//! Certificates are not signed by anybody that matters: who is let in is a list of fingerprints, and TLS proves that the other side
//! has the key of the certificate that it shows. Only TLS 1.3.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};

use super::identity::{Fingerprint, Identity};

/// Who is let in.
#[derive(Clone, Debug)]
pub(super) enum Allowed {
    /// These.
    Known(BTreeSet<Fingerprint>),
    /// Whoever has a certificate: senders.
    Anybody,
}

/// Lets in who is allowed, by fingerprint.
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

    fn proves(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

const NO_TLS12: Error = Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered);

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

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NO_TLS12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proves(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
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

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NO_TLS12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proves(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

fn verifier(allowed: Allowed) -> (Arc<ByFingerprint>, Arc<CryptoProvider>) {
    let provider = Arc::new(ring::default_provider());
    (Arc::new(ByFingerprint { allowed, provider: Arc::clone(&provider) }), provider)
}

/// The side that listens.
///
/// # Errors
/// The key is none that TLS can use.
pub(super) fn server(identity: &Identity, allowed: Allowed) -> Result<Arc<ServerConfig>, Error> {
    let (verifier, provider) = verifier(allowed);
    let (chain, key) = identity.parts();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The side that dials this one and nobody else.
///
/// # Errors
/// The key is none that TLS can use.
pub(super) fn client(identity: &Identity, other: Fingerprint) -> Result<Arc<ClientConfig>, Error> {
    let (verifier, provider) = verifier(Allowed::Known([other].into()));
    let (chain, key) = identity.parts();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
