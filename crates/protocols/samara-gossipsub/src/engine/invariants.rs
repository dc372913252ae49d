//! Invariants of a node between two inputs.

use samara_engine::Outbox;

use super::GossipSub;
use crate::rpc::RpcFrame;

impl GossipSub {
    pub(super) fn check_invariants(&self, outbox: &Outbox<RpcFrame>) {
        outbox.assert_invariants();
        for peer in outbox.owed_peers() {
            assert!(self.peers.get(peer).is_some(), "copies are owed to {peer:?}, which is gone");
        }
        self.assert_meshes();
        self.assert_limits();
    }

    fn assert_meshes(&self) {
        for topic in self.topics.joined() {
            let state = self.topics.get(*topic);
            assert!(state.fanout.is_empty(), "{} is joined and has a fanout", state.name.as_str());
            for peer in state.mesh.iter() {
                assert!(
                    self.peers.get(*peer).is_some(),
                    "{peer:?} is gone and in the mesh of {}",
                    state.name.as_str()
                );
                assert!(
                    !self.peers.is_direct(*peer),
                    "{peer:?} is direct and in the mesh of {}",
                    state.name.as_str()
                );
            }
        }
        for topic in self.topics.fanouts() {
            let state = self.topics.get(*topic);
            assert!(state.mesh.is_empty(), "{} has a fanout and a mesh", state.name.as_str());
            for peer in state.fanout.iter() {
                assert!(
                    self.peers.get(*peer).is_some(),
                    "{peer:?} is gone and in the fanout of {}",
                    state.name.as_str()
                );
            }
        }
    }

    fn assert_limits(&self) {
        let (config, sizes) = (&self.config, self.sizes());
        for (name, found, max) in [
            ("seen", sizes.seen_bytes, config.seen_bytes_max),
            ("cached", sizes.cached_bytes, config.history_bytes_max),
            ("unwanted", sizes.unwanted_bytes, config.idontwant.bytes_max),
            ("promises", sizes.promises, config.gossip.promises_max),
            ("validations", sizes.pending_validations, config.pending_validations_max),
            ("dialling", sizes.dialling, config.pending_dials_max),
        ] {
            assert!(found <= max, "the table `{name}` has {found} of at most {max}");
        }
        for id in self.peers.connected() {
            let Some(peer) = self.peers.get(*id) else { continue };
            let limits = &config.subscriptions;
            assert!(
                peer.topics.len() <= limits.per_peer_max && peer.topic_bytes <= limits.bytes_per_peer_max,
                "{id:?} has {} topics with {} bytes",
                peer.topics.len(),
                peer.topic_bytes
            );
            assert!(peer.unwanted <= config.idontwant.ids_per_peer_max, "{id:?} has {} ids", peer.unwanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::PeerId;
    use samara_engine::testing::{Single, identity_of};

    use super::*;
    use crate::Config;
    use crate::rpc::Topic;

    fn node() -> Single<GossipSub> {
        let config = Config::default();
        let outbox = Outbox::new(config.outbox_config());
        let gossip = GossipSub::new(config, identity_of(0)).expect("a valid configuration");
        let mut node = Single::start(gossip, outbox, 1);
        node.connect(PeerId(0), identity_of(1), "/meshsub/1.2.0", true);
        node.with(|gossip, cx| gossip.subscribe(&Topic::new("t"), cx));
        node
    }

    #[test]
    #[should_panic(expected = "peer7 is gone and in the mesh of t")]
    fn a_departed_peer_in_a_mesh_is_found() {
        node().with(|gossip, _| {
            let topic = gossip.topics.joined()[0];
            gossip.topics.get_mut(topic).mesh.insert(PeerId(7));
        });
    }

    #[test]
    #[should_panic(expected = "the table `dialling` has")]
    fn a_table_beyond_its_limit_is_found() {
        node().with(|gossip, _| {
            let max = gossip.config.pending_dials_max as u32;
            gossip.dialling.extend((0..=max).map(identity_of));
        });
    }

    #[test]
    #[should_panic(expected = "copies are owed to peer9, which is gone")]
    fn a_copy_for_a_departed_peer_is_found() {
        let mut node = node();
        node.outbox.link_up(PeerId(9));
        node.with(|_, cx| {
            let (now, lane) = (cx.now(), samara_engine::outbox::Lane(0));
            let frame = RpcFrame::new(crate::rpc::Rpc::default());
            let _ = cx.outbox().owe(now, PeerId(9), lane, frame, None, None);
        });
    }
}
