//! What nodes tell each other of themselves once the connection is secret (`p2p/node_info.go`).

use super::key::NodeId;

/// The version of the peer-to-peer protocol (`P2PProtocol` in `version/version.go`).
pub(super) const P2P_VERSION: u64 = 8;
/// The longest node info (`MaxNodeInfoSize`).
pub(super) const INFO_MAX: usize = 10_240;
/// The most channels in it (`maxNumChannels`).
const CHANNELS_MAX: usize = 16;

/// What a node tells of itself (`DefaultNodeInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// The version of blocks: nodes must agree on it.
    pub block_version: u64,
    /// The version of the application.
    pub app_version: u64,
    /// Its name, in hexadecimal.
    pub id: String,
    /// Where it can be dialled, as it says.
    pub listen_addr: String,
    /// The network (chain): nodes must agree on it.
    pub network: String,
    /// The version of its software.
    pub version: String,
    /// Its channels.
    pub channels: Vec<u8>,
    /// What its operator calls it.
    pub moniker: String,
}

/// Why a connection is refused although the handshake went well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// The node info does not fit the rules.
    #[error("its node info is not valid: {0}")]
    Invalid(&'static str),
    /// Somebody else than expected.
    #[error("it is {found}; expected {expected}")]
    OtherNode {
        /// Who was dialled, or whose key it is.
        expected: NodeId,
        /// Who it is, or says it is.
        found: String,
    },
    /// Another version of blocks.
    #[error("it has blocks of version {found}; expected {expected}")]
    BlockVersion {
        /// Ours.
        expected: u64,
        /// Its own.
        found: u64,
    },
    /// Another network.
    #[error("it belongs to the network {found:?}; expected {expected:?}")]
    Network {
        /// Ours.
        expected: String,
        /// Its own.
        found: String,
    },
    /// No protocol in common.
    #[error("it has the channels {found:02x?}, which are those of no protocol that is spoken here")]
    Channels {
        /// Its own.
        found: Vec<u8>,
    },
    /// This very node.
    #[error("it is this node itself")]
    Myself,
}

impl NodeInfo {
    /// Whether a peer's info is valid, its own, and of a node to talk to; the order of the checks is that of
    /// `upgrade` in `p2p/transport.go`. Channels are for the codec to look at.
    pub(super) fn check(&self, peer: &Self, key: NodeId) -> Result<(), Incompatible> {
        peer.validate()?;
        if peer.id != key.to_string() {
            return Err(Incompatible::OtherNode { expected: key, found: peer.id.clone() });
        }
        if self.id == peer.id {
            return Err(Incompatible::Myself);
        }
        if self.block_version != peer.block_version {
            return Err(Incompatible::BlockVersion {
                expected: self.block_version,
                found: peer.block_version,
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
            return Err(Incompatible::Invalid("a channel twice"));
        }
        if !is_text(&self.moniker) || self.moniker.trim().is_empty() {
            return Err(Incompatible::Invalid("a moniker that is not text"));
        }
        if !is_text(&self.version) {
            return Err(Incompatible::Invalid("a version that is not text"));
        }
        Ok(())
    }
}

/// ASCII from space to tilde (`IsASCIIText` in `libs/strings/string.go`).
pub(super) fn is_text(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
