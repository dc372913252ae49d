//! The number of this node, and the key of each node.

use std::fmt;

use libp2p::PeerId;
use libp2p::identity::Keypair;
use serde::Deserialize;

/// The number of a node: `node17` is 17. It has 31 bits, as much as all implementations can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct NodeId(u32);

impl TryFrom<u64> for NodeId {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        match i32::try_from(number) {
            Ok(number) => Ok(Self(number.unsigned_abs())),
            Err(_) => Err(format!("found node {number}, expected at most {}", i32::MAX)),
        }
    }
}

impl NodeId {
    /// Returns the number of this host.
    ///
    /// # Errors
    /// A text: the host's name is not `node<N>`.
    pub(crate) fn of_host() -> Result<Self, String> {
        let name = nix::unistd::gethostname().map_err(|error| format!("the host's name: {error}"))?;
        Self::of_name(&name.to_string_lossy())
    }

    /// Parses a host name. Text behind the digits, such as a domain, is ignored.
    fn of_name(name: &str) -> Result<Self, String> {
        let digits = name.strip_prefix("node").map_or("", |rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            &rest[..end]
        });
        let number: Option<u64> = digits.parse().ok();
        let wrong = || {
            format!("the host's name: found {name:?}, expected node<N>, where N is the number of this node")
        };
        Self::try_from(number.ok_or_else(wrong)?).map_err(|error| format!("the host's name: {error}"))
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn host(self) -> String {
        format!("node{}", self.0)
    }

    /// Returns the node's key: an Ed25519 secret that is the number in little endian. It is not
    /// secret.
    pub(crate) fn key(self) -> Keypair {
        let mut secret = [0; 32];
        secret[..4].copy_from_slice(&self.0.to_le_bytes());
        Keypair::ed25519_from_bytes(secret).expect("32 bytes are a secret")
    }

    pub(crate) fn peer_id(self) -> PeerId {
        self.key().public().to_peer_id()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// The hash that all runners of test-plans check (`go-libp2p/main_test.go`,
    /// `rust-libp2p/src/key.rs`, `NodeKeyTest.kt`).
    #[test]
    fn all_implementations_agree_on_peer_ids() {
        let mut hash = Sha256::new();
        for id in 0..10_000 {
            hash.update(format!(">{id}:{}\n", NodeId(id).peer_id()));
        }
        let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "11395ea896d00ca25f7f648ebb336488ee092096a5498d90d76b92eaec27867a");
    }

    #[test]
    fn host_names_are_parsed() {
        assert_eq!(NodeId::of_name("node0"), Ok(NodeId(0)));
        assert_eq!(NodeId::of_name("node17.example"), Ok(NodeId(17)));
        for name in ["", "node", "nodex", "host3", "node99999999999", "node99999999999999999999999"] {
            let error = NodeId::of_name(name).unwrap_err();
            assert!(error.starts_with("the host's name: found "), "{error}");
            assert!(error.contains("expected"), "{error}");
        }
    }
}
