//! The same peers for all transactions of a signer.

use std::sync::Arc;

use hashbrown::HashMap;
use samara_engine::{PeerId, PeerKeyed};
use sha2::{Digest, Sha256};

use super::peers::{Address, Peers};
use crate::pool::Signer;

/// `stickyHashNamespace` in `mempool/cat/sticky_peers.go`.
const NAMESPACE: &[u8] = b"cat/sticky/v1";

/// Orders of so many signers are remembered; beyond, all are forgotten.
const SIGNERS_MAX: usize = 4_096;

/// The order of peers for each signer, by rendezvous hashing (`selectStickyPeers`).
#[derive(Debug)]
pub(super) struct Sticky {
    /// The node's own id.
    salt: String,
    version: u64,
    /// All peers and their ids.
    names: Vec<(String, PeerId)>,
    orders: HashMap<Option<Signer>, Arc<[PeerId]>, PeerKeyed>,
}

impl Sticky {
    pub(super) fn new(address: &Address, hasher: PeerKeyed) -> Self {
        let orders = HashMap::with_hasher(hasher);
        Self { salt: address.hex(), version: 0, names: Vec::new(), orders }
    }

    /// All peers, the stickiest first.
    pub(super) fn order(&mut self, signer: Option<&Signer>, peers: &Peers) -> Arc<[PeerId]> {
        if self.version != peers.version {
            self.version = peers.version;
            self.orders.clear();
            let ids = (0..peers.len()).filter_map(|place| peers.nth(place));
            self.names = ids.filter_map(|id| Some((peers.get(id)?.address.hex(), id))).collect();
        }
        if self.orders.len() >= SIGNERS_MAX {
            self.orders.clear();
        }
        if let Some(order) = self.orders.get(&signer.cloned()) {
            return Arc::clone(order);
        }
        let salted = self.salted(signer);
        let mut scored: Vec<(u64, &str, PeerId)> =
            self.names.iter().map(|(name, peer)| (score(&salted, name), name.as_str(), *peer)).collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let order: Arc<[PeerId]> = scored.into_iter().map(|(.., peer)| peer).collect();
        self.orders.insert(signer.cloned(), Arc::clone(&order));
        order
    }

    /// What the scores of all peers have in common.
    fn salted(&self, signer: Option<&Signer>) -> Sha256 {
        Sha256::new()
            .chain_update(NAMESPACE)
            .chain_update(&self.salt)
            .chain_update(signer.map_or(&[][..], Signer::as_bytes))
            .chain_update([0])
    }
}

/// `stickyScore64`.
fn score(salted: &Sha256, peer: &str) -> u64 {
    let digest = salted.clone().chain_update(peer).finalize();
    digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}
