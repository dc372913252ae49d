//! Who a node or a sender is: its certificate, by its fingerprint.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use samara_engine::PeerIdentity;
use samara_mix::SenderId;
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// SHA-256 of a certificate in DER: the name of whoever holds its key. `openssl x509 -fingerprint -sha256` prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// That of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate.as_ref()).into())
    }

    pub(super) fn peer(self) -> PeerIdentity {
        PeerIdentity::new(&self.0)
    }

    pub(super) fn of_peer(peer: &PeerIdentity) -> Option<Self> {
        peer.as_bytes().try_into().ok().map(Self)
    }

    /// The name of the sender with this certificate.
    pub const fn sender(self) -> SenderId {
        SenderId(self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {0:?}; expected SHA-256 of a certificate, 64 hexadecimal digits with or without colons")]
pub struct NoFingerprint(String);

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let wrong = || NoFingerprint(text.to_owned());
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let digits: Vec<u32> = digits
            .iter()
            .map(|byte| char::from(*byte).to_digit(16))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8))
            .collect();
        if digits.len() != 64 {
            return Err(wrong());
        }
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not what it should be.
    #[error("{0}; expected a certificate and its private key in PEM")]
    Pem(String),
    /// None could be made.
    #[error("no certificate could be made: {0}")]
    Generate(String),
}

/// A certificate with its private key, which is never printed.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// A new key (ECDSA, P-256), and a certificate that it has signed itself: fingerprints are what is trusted, not who has signed.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, IdentityError> {
        let failed = |error: rcgen::Error| IdentityError::Generate(error.to_string());
        let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()]).map_err(failed)?;
        let key = PrivateKeyDer::try_from(made.key_pair.serialize_der());
        let key = key.map_err(|error| IdentityError::Generate(error.to_owned()))?;
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    /// The first certificate and the first key of a text in PEM.
    ///
    /// # Errors
    /// One of them is missing, or cannot be read.
    pub fn from_pem(text: &str) -> Result<Self, IdentityError> {
        let wrong = |what: &str, error: &dyn fmt::Display| IdentityError::Pem(format!("{what}: {error}"));
        let certificate = CertificateDer::from_pem_slice(text.as_bytes());
        let certificate = certificate.map_err(|error| wrong("certificate", &error))?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| wrong("key", &error))?;
        Ok(Self { certificate, key })
    }

    /// The identity of a file in PEM, which is made, for its owner only, if it is not there.
    ///
    /// # Errors
    /// The file cannot be read or written, or is something else.
    pub fn load_or_generate(path: &Path) -> Result<Self, IdentityError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::from_pem(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let identity = Self::generate()?;
                identity.save(path)?;
                Ok(identity)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes certificate and key to a new file in PEM, for its owner only.
    ///
    /// # Errors
    /// The file is there already, or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), IdentityError> {
        use std::io::Write;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        for (label, der) in
            [("CERTIFICATE", self.certificate.as_ref()), (key_label(&self.key), self.key.secret_der())]
        {
            file.write_all(pem::encode(&pem::Pem::new(label, der)).as_bytes())?;
        }
        Ok(())
    }

    /// Its name.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    pub(super) fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (vec![self.certificate.clone()], self.key.clone_key())
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { certificate: self.certificate.clone(), key: self.key.clone_key() }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

/// The name in certificates and in requests. Nobody relies on it.
pub(super) const SERVER_NAME: &str = "samara-mix";

/// What the formats of keys are called in PEM.
const fn key_label(key: &PrivateKeyDer<'_>) -> &'static str {
    match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    }
}
