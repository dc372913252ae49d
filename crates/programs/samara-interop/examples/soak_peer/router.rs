//! The two behaviours with equal settings, and what the soak needs of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use libp2p::PeerId;
use libp2p::gossipsub::{self, IdentTopic};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use samara_gossipsub::Config;
use samara_gossipsub::config::Authenticity;
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::Topic;
use samara_gossipsub::score::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};
use samara_libp2p::{Behaviour, Event, KeyVerifier, Options};

/// Heartbeats and backoffs of all nodes in the soak.
const HEARTBEAT: Duration = Duration::from_secs(1);
const BACKOFF: Duration = Duration::from_secs(3);

/// The methods of a behaviour that the soak calls.
pub(crate) trait Router: NetworkBehaviour {
    fn subscribe(&mut self, topic: &str);
    /// # Errors
    /// The message was not published.
    fn publish(&mut self, topic: &str, data: Vec<u8>) -> Result<(), String>;
    /// Returns the payload, if the event is a message.
    fn message(event: Self::ToSwarm) -> Option<Vec<u8>>;
    fn subscribers(&self, topic: &str) -> Vec<PeerId>;
    fn mesh_size(&self, topic: &str) -> usize;
    fn scores(&self) -> BTreeMap<PeerId, f64>;
}

pub(crate) fn samara(key: &Keypair) -> Result<Behaviour, Box<dyn Error>> {
    let mut config = Config::spec();
    config.authenticity = Authenticity::strict(KeyVerifier);
    config.message_id = MessageIdFn::FromSeqno;
    config.heartbeat_interval = HEARTBEAT;
    config.prune_backoff = BACKOFF;
    config.unsubscribe_backoff = BACKOFF;
    config.deliver_own = false;
    // Scores without rewards: the score of an honest peer is 0.
    config.peer_score = Some(PeerScoreParams {
        behaviour_penalty_weight: -10.0,
        behaviour_penalty_threshold: 6.0,
        behaviour_penalty_decay: 0.9,
        ..PeerScoreParams::neutral()
    });
    config.topic_score = Some(TopicScoreParams {
        topic_weight: 1.0,
        invalid_message_deliveries_weight: -10.0,
        invalid_message_deliveries_decay: 0.9,
        ..TopicScoreParams::neutral()
    });
    config.thresholds =
        PeerScoreThresholds { gossip: -10.0, publish: -50.0, graylist: -80.0, ..config.thresholds };
    Ok(Behaviour::new(key, config, Options::default())?)
}

impl Router for Behaviour {
    fn subscribe(&mut self, topic: &str) {
        self.subscribe(&Topic::new(topic)).expect("no filter excludes the topic");
    }

    fn publish(&mut self, topic: &str, data: Vec<u8>) -> Result<(), String> {
        self.publish(Topic::new(topic), data).map(drop).map_err(|error| error.to_string())
    }

    fn message(event: Event) -> Option<Vec<u8>> {
        match event {
            Event::Message { message, .. } => Some(message.data.to_vec()),
            _ => None,
        }
    }

    fn subscribers(&self, topic: &str) -> Vec<PeerId> {
        let handles = self.engine().topic_peers(&Topic::new(topic));
        handles.iter().filter_map(|handle| self.peer_id(*handle)).collect()
    }

    fn mesh_size(&self, topic: &str) -> usize {
        self.mesh_peers(&Topic::new(topic)).len()
    }

    fn scores(&self) -> BTreeMap<PeerId, f64> {
        let handles = self.engine().peers().iter();
        handles.filter_map(|peer| Some((self.peer_id(*peer)?, self.engine().peer_score(*peer)))).collect()
    }
}

pub(crate) fn rust(key: &Keypair) -> Result<gossipsub::Behaviour, Box<dyn Error>> {
    let id = |message: &gossipsub::Message| {
        let mut id = message.source.map(|peer| peer.to_bytes()).unwrap_or_default();
        id.extend(message.sequence_number.unwrap_or(0).to_be_bytes());
        gossipsub::MessageId::from(id)
    };
    let config = gossipsub::ConfigBuilder::default()
        .heartbeat_interval(HEARTBEAT)
        .prune_backoff(BACKOFF)
        .unsubscribe_backoff(BACKOFF)
        .message_id_fn(id)
        // rust-libp2p requests messages of its own earlier process, rejects them as its own, and counts
        // the promise as broken: an honest peer would lose its score.
        .iwant_followup_time(Duration::from_secs(86_400))
        // By default, frames that waited for a second are dropped: a busy machine loses messages.
        .publish_queue_duration(Duration::from_secs(30))
        .forward_queue_duration(Duration::from_secs(30))
        .build()?;
    let authenticity = gossipsub::MessageAuthenticity::Signed(key.clone());
    let mut behaviour = gossipsub::Behaviour::new(authenticity, config)?;
    // Invalid messages (P4) do not count here: rust-libp2p takes messages of its own earlier process,
    // which others pass on, for invalid ones.
    let params = gossipsub::PeerScoreParams {
        ip_colocation_factor_weight: 0.0,
        behaviour_penalty_weight: -10.0,
        behaviour_penalty_threshold: 6.0,
        behaviour_penalty_decay: 0.9,
        slow_peer_weight: 0.0,
        ..Default::default()
    };
    let thresholds = gossipsub::PeerScoreThresholds {
        gossip_threshold: -10.0,
        publish_threshold: -50.0,
        graylist_threshold: -80.0,
        ..Default::default()
    };
    behaviour.with_peer_score(params, thresholds)?;
    Ok(behaviour)
}

impl Router for gossipsub::Behaviour {
    fn subscribe(&mut self, topic: &str) {
        self.subscribe(&IdentTopic::new(topic)).expect("subscribed");
    }

    fn publish(&mut self, topic: &str, data: Vec<u8>) -> Result<(), String> {
        self.publish(IdentTopic::new(topic), data).map(drop).map_err(|error| error.to_string())
    }

    fn message(event: gossipsub::Event) -> Option<Vec<u8>> {
        match event {
            gossipsub::Event::Message { message, .. } => Some(message.data),
            _ => None,
        }
    }

    fn subscribers(&self, topic: &str) -> Vec<PeerId> {
        let topic = IdentTopic::new(topic).hash();
        self.all_peers().filter(|(_, topics)| topics.contains(&&topic)).map(|(peer, _)| *peer).collect()
    }

    fn mesh_size(&self, topic: &str) -> usize {
        self.mesh_peers(&IdentTopic::new(topic).hash()).count()
    }

    fn scores(&self) -> BTreeMap<PeerId, f64> {
        self.all_peers().filter_map(|(peer, _)| Some((*peer, self.peer_score(peer)?))).collect()
    }
}
