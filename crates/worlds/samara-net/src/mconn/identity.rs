//! A node's identity and its description of itself: its Ed25519 key, the name derived from it, and
//! its node info (`p2p/key.go`, `p2p/node_info.go`). Also the ways in which a peer breaks the
//! rules.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{SigningKey, VerifyingKey};
use hex::FromHex;
use prost::Message;
use samara_engine::PeerIdentity;
use sha2::{Digest, Sha256};

#[derive(Clone)]
pub struct NodeKey(SigningKey);

impl NodeKey {
    /// Creates a key from its secret (the seed of RFC 8032).
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&secret))
    }

    /// Generates a new key.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub fn generate() -> std::io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        Ok(Self::from_secret(secret))
    }

    pub fn id(&self) -> NodeId {
        NodeId::of(&self.public())
    }

    pub(super) fn public(&self) -> VerifyingKey {
        self.0.verifying_key()
    }

    pub(super) const fn signing(&self) -> &SigningKey {
        &self.0
    }
}

impl fmt::Debug for NodeKey {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.id())
    }
}

/// A node's name: the first 20 bytes of SHA-256 of its public key (`PubKeyToID` in `p2p/key.go`),
/// written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; Self::LEN]);

impl NodeId {
    pub const LEN: usize = 20;

    pub(super) fn of(key: &VerifyingKey) -> Self {
        let digest = Sha256::digest(key.as_bytes());
        Self(std::array::from_fn(|index| digest[index]))
    }

    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The name by which engines know the node.
    pub fn identity(&self) -> PeerIdentity {
        PeerIdentity::new(&self.0)
    }

    /// The node with this name, or `None` if the name is not one of a node.
    pub fn from_identity(identity: &PeerIdentity) -> Option<Self> {
        identity.as_bytes().try_into().ok().map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not the address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}; expected {expected}")]
pub struct AddressError {
    found: String,
    expected: &'static str,
}

impl FromStr for NodeId {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |_| AddressError { found: text.to_owned(), expected: "40 hexadecimal digits" };
        FromHex::from_hex(text).map(Self).map_err(wrong)
    }
}

/// The address of a node: `id@host:port`, as in `persistent_peers` of CometBFT.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress {
    /// The name that the node must prove.
    pub id: NodeId,
    /// A host name or an IP address, and a port.
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

/// The version of the peer-to-peer protocol (`P2PProtocol` in `version/version.go`).
pub(super) const P2P_VERSION: u64 = 8;
/// Maximum length of a node info in bytes (`MaxNodeInfoSize`).
pub(super) const INFO_MAX: usize = 10_240;
/// Maximum number of channels in a node info (`maxNumChannels`).
const CHANNELS_MAX: usize = 16;

/// A node's description of itself (`DefaultNodeInfo`).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeInfo {
    #[prost(message, required, tag = "1")]
    pub versions: Versions,
    /// The node's name, in hexadecimal.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The address at which it claims to be reachable.
    #[prost(string, tag = "3")]
    pub listen_addr: String,
    /// The network (chain), on which nodes must agree.
    #[prost(string, tag = "4")]
    pub network: String,
    #[prost(string, tag = "5")]
    pub version: String,
    #[prost(bytes = "vec", tag = "6")]
    pub channels: Vec<u8>,
    /// The operator's name for the node.
    #[prost(string, tag = "7")]
    pub moniker: String,
    #[prost(message, required, tag = "8")]
    pub other: Other,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Versions {
    #[prost(uint64, tag = "1")]
    pub p2p: u64,
    /// The version of blocks, on which nodes must agree.
    #[prost(uint64, tag = "2")]
    pub block: u64,
    #[prost(uint64, tag = "3")]
    pub app: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Other {
    /// Whether the node has an index of transactions: "on" or "off".
    #[prost(string, tag = "1")]
    pub tx_index: String,
    #[prost(string, tag = "2")]
    pub rpc_address: String,
}

/// Why a node refuses a peer although the handshake succeeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    #[error("invalid node info: {0}")]
    Invalid(&'static str),
    #[error("the peer is node {found}; expected {expected}")]
    OtherNode {
        /// The dialled name, or the name derived from the key.
        expected: NodeId,
        /// The name that the peer proved or claims.
        found: String,
    },
    #[error("the peer has block version {found}; expected {expected}")]
    BlockVersion { expected: u64, found: u64 },
    #[error("the peer belongs to network {found:?}; expected {expected:?}")]
    Network { expected: String, found: String },
    #[error("the peer offers the channels {found:02x?}, which match no protocol of this node")]
    Channels { found: Vec<u8> },
    #[error("the peer is this node itself")]
    Myself,
}

impl NodeInfo {
    /// Checks that a peer's info is valid, matches its key, and is compatible. The order of the
    /// checks is that of `upgrade` in `p2p/transport.go`. The codec checks the channels.
    pub fn check(&self, peer: &Self, key: NodeId) -> Result<(), Incompatible> {
        peer.validate()?;
        if peer.id != key.to_string() {
            return Err(Incompatible::OtherNode { expected: key, found: peer.id.clone() });
        }
        if self.id == peer.id {
            return Err(Incompatible::Myself);
        }
        if self.versions.block != peer.versions.block {
            return Err(Incompatible::BlockVersion {
                expected: self.versions.block,
                found: peer.versions.block,
            });
        }
        if self.network != peer.network {
            return Err(Incompatible::Network {
                expected: self.network.clone(),
                found: peer.network.clone(),
            });
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), Incompatible> {
        if self.channels.len() > CHANNELS_MAX {
            return Err(Incompatible::Invalid("too many channels"));
        }
        if self.channels.iter().enumerate().any(|(at, id)| self.channels[..at].contains(id)) {
            return Err(Incompatible::Invalid("duplicate channel"));
        }
        if !is_text(&self.moniker) || self.moniker.trim().is_empty() {
            return Err(Incompatible::Invalid("the moniker is empty or not printable ASCII"));
        }
        if !is_text(&self.version) {
            return Err(Incompatible::Invalid("the version is not printable ASCII"));
        }
        Ok(())
    }
}

/// ASCII from space to tilde (`IsASCIIText` in `libs/strings/string.go`).
pub(super) fn is_text(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("cannot open a sealed frame: wrong key or missing frames")]
    Seal,
    #[error("a packet exceeds the maximum length")]
    PacketLength,
    #[error("malformed packet")]
    Packet,
    #[error("a packet is for the unknown channel {0}")]
    UnknownChannel(i32),
    #[error("a message on channel {channel:#04x} is longer than {longest} bytes")]
    MessageTooLong { channel: u8, longest: usize },
    #[error("a message on channel {channel:#04x} is not a valid frame: {error}")]
    Frame { channel: u8, error: String },
}
