//! Reports of a node's state.

use std::collections::BTreeMap;

use libp2p::PeerId;

use super::Node;
use crate::metrics::{Snapshot, State};
use crate::model::{PeerStatus, Status, TopicStatus};

impl Node {
    pub(crate) fn status(&mut self) -> Status {
        let peer_id = self.peer_id().to_string();
        let listen = self.swarm.listeners().map(ToString::to_string).collect();
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let owed = gossip.owed_by_peer();
        let gossip = &*gossip;
        let peers = self.peers.iter().map(|(peer, protocol)| PeerStatus {
            peer_id: peer.to_string(),
            protocol: protocol.clone(),
            score: gossip.handle(peer).map_or(0.0, |handle| gossip.engine().peer_score(handle)),
            owed_copies: owed.get(peer).copied().unwrap_or(0),
        });
        let texts = |handles: &[samara_engine::PeerId]| -> Vec<String> {
            let known = handles.iter().filter_map(|handle| gossip.peer_id(*handle));
            known.map(|peer: PeerId| peer.to_string()).collect()
        };
        let mut topics: Vec<TopicStatus> = gossip
            .engine()
            .subscriptions()
            .map(|topic| TopicStatus {
                topic: topic.as_str().to_owned(),
                subscribers: texts(gossip.engine().topic_peers(topic)),
                mesh: texts(gossip.engine().mesh_peers(topic)),
            })
            .collect();
        topics.sort_by(|a, b| a.topic.cmp(&b.topic));
        Status {
            peer_id,
            listen,
            started_at_unix_ns: self.started_at_unix_ns,
            stopping: self.stopping.get(),
            peers: peers.collect(),
            topics,
            owed_copies: owed.values().sum(),
        }
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let lanes = gossip.counters();
        let owed_copies = gossip.owed_by_peer().values().sum();
        let engine = gossip.engine();
        let topics = || engine.subscriptions().map(|topic| (topic, topic.as_str().to_owned()));
        let mut peers = BTreeMap::new();
        for protocol in self.peers.values() {
            let name = protocol.clone().unwrap_or_else(|| "none".to_owned());
            *peers.entry(name).or_insert(0) += 1;
        }
        Snapshot {
            engine: engine.metrics().clone(),
            sizes: engine.sizes(),
            lanes,
            traffic: gossip.traffic(),
            uplink: gossip.uplink(),
            state: State {
                owed_copies,
                peers,
                mesh_size: topics().map(|(topic, name)| (name, engine.mesh_peers(topic).len())).collect(),
                topic_peers: topics().map(|(topic, name)| (name, engine.topic_peers(topic).len())).collect(),
                unfinished_frame_bytes: gossip.sizes().unfinished_bytes,
                dials_failed: self.redial.failed,
            },
            links: self.counts,
            refused: self.swarm.behaviour().limits.refused(),
            trace: self.tracer.as_ref().map(|tracer| tracer.writer.counts()),
        }
    }
}
