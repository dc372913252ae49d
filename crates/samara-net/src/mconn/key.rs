//! Who a node is: an Ed25519 key, and the address that follows from it.

use std::fmt;
use std::str::FromStr;

use ed25519_consensus::{SigningKey, VerificationKey};
use samara_engine::PeerIdentity;
use sha2::{Digest, Sha256};

/// A node's secret key.
#[derive(Clone)]
pub struct NodeKey(SigningKey);

impl NodeKey {
    /// The key with this secret (the seed of RFC 8032).
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(SigningKey::from(secret))
    }

    /// A new key.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub fn generate() -> std::io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        Ok(Self::from_secret(secret))
    }

    /// The node's name.
    pub fn id(&self) -> NodeId {
        NodeId::of(&self.0.verification_key())
    }

    pub(super) fn signing(&self) -> SigningKey {
        self.0.clone()
    }
}

impl fmt::Debug for NodeKey {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.id())
    }
}

/// A node's name: the first 20 bytes of SHA-256 of its public key (`PubKeyToID` in `p2p/key.go`), written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; Self::LEN]);

impl NodeId {
    /// Its bytes.
    pub const LEN: usize = 20;

    pub(super) fn of(key: &VerificationKey) -> Self {
        let digest = Sha256::digest(key.as_bytes());
        Self(std::array::from_fn(|index| digest[index]))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The name that engines know.
    pub fn identity(&self) -> PeerIdentity {
        PeerIdentity::new(&self.0)
    }

    /// The node that an engine knows by this name, if it is one.
    pub fn from_identity(identity: &PeerIdentity) -> Option<Self> {
        identity.as_bytes().try_into().ok().map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}; expected {expected}")]
pub struct AddressError {
    found: String,
    expected: &'static str,
}

impl FromStr for NodeId {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError { found: text.to_owned(), expected: "40 hexadecimal digits" };
        if text.len() != 2 * Self::LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut id = [0; Self::LEN];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
}

/// Where a node is: `id@host:port`, as in `persistent_peers` of CometBFT.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress {
    /// Who it has to turn out to be.
    pub id: NodeId,
    /// A name or an IP address, and a port.
    pub host: String,
}

impl FromStr for PeerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError {
            found: text.to_owned(),
            expected: "id@host:port, with an id of 40 hexadecimal digits",
        };
        let (id, host) = text.split_once('@').ok_or_else(wrong)?;
        let id = id.parse().map_err(|_| wrong())?;
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        if name.is_empty() || port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(wrong());
        }
        Ok(Self { id, host: host.to_owned() })
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.host)
    }
}
