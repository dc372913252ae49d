//! GossipSub for a libp2p swarm.

mod insight;
mod links;
mod swarm;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_timer::Delay;
use indexmap::IndexMap;
use libp2p::core::{PeerRecord, SignedEnvelope};
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{CloseConnection, ToSwarm};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_engine::outbox::{Dispatch, Schedule};
use samara_engine::{Input, LinkRequest, Outbox, PeerId as Handle};
use samara_gossipsub::config::{ConfigError, SignerHook, VerifierHook};
use samara_gossipsub::rpc::{MessageId, RpcFrame, Topic};
use samara_gossipsub::{Acceptance, BatchReceipt, Config, GossipSub, PublishError, Receipt};

use crate::event::{Event, Traffic};
use crate::identity::{KeySigner, KeyVerifier, identity_of, peer_id_of};
use crate::options::Options;
use crate::peer::Peer;
use samara_net::Driver;

/// A [`NetworkBehaviour`](libp2p::swarm::NetworkBehaviour) around the GossipSub engine.
///
/// Peers are neighbours as soon as they are connected and speak one of the [protocols](Options::protocols); whom to connect
/// to is for other behaviours to decide, except for direct peers and those that peer exchange recommends.
pub struct Behaviour {
    driver: Driver<GossipSub>,
    options: Options,
    protocols: Arc<[StreamProtocol]>,
    limits: Arc<samara_gossipsub::wire::Limits>,
    dispatch: Dispatch,
    peers: HashMap<PeerId, Peer>,
    /// Who has which number.
    handles: Vec<Option<PeerId>>,
    /// Peers whose link is gone, with their numbers: the engine remembers scores and backoffs by them. The oldest first.
    departed: IndexMap<PeerId, Handle>,
    /// Addresses from signed records of recommended peers, until they are dialled.
    recommended: BTreeMap<PeerId, Vec<Multiaddr>>,
    /// Links to offer room to.
    ready: Vec<Handle>,
    actions: VecDeque<ToSwarm<Event, std::convert::Infallible>>,
    traffic: Traffic,
    timer: Delay,
    timer_at: Option<Instant>,
}

/// Recommended peers whose addresses are kept at most.
const RECOMMENDED_MAX: usize = 256;

/// Peers without a link that are remembered at most. Enough that whoever wants a bad score forgotten needs as many identities, and
/// little enough that searching them costs nothing beside a handshake.
const DEPARTED_MAX: usize = 1024;

impl Behaviour {
    /// A behaviour for the identity of this key pair, which signs where the configuration asks for it.
    ///
    /// # Errors
    /// A value of the configuration is not possible.
    ///
    /// # Panics
    /// If the operating system has no random numbers.
    pub fn new(keypair: &Keypair, mut config: Config, options: Options) -> Result<Self, ConfigError> {
        if config.authenticity.policy.signs() {
            let verifier = || VerifierHook::new(KeyVerifier);
            config.authenticity.signer.get_or_insert_with(|| SignerHook::new(KeySigner::new(keypair)));
            config.authenticity.verifier.get_or_insert_with(verifier);
        }
        let outbox = Outbox::new(config.outbox_config());
        let dispatch = config.sending.dispatch;
        let engine = GossipSub::new(config, identity_of(&keypair.public().to_peer_id()))?;
        let driver = Driver::new(engine, outbox).expect("the operating system has random numbers");
        Ok(Self {
            driver,
            protocols: Arc::clone(&options.protocols),
            limits: Arc::new(options.limits.clone()),
            options,
            dispatch,
            peers: HashMap::new(),
            handles: Vec::new(),
            departed: IndexMap::new(),
            recommended: BTreeMap::new(),
            ready: Vec::new(),
            actions: VecDeque::new(),
            traffic: Traffic::default(),
            timer: Delay::new(std::time::Duration::ZERO),
            timer_at: None,
        })
    }

    /// Joins a topic.
    pub fn subscribe(&mut self, topic: &Topic) {
        self.call(|engine, cx| engine.subscribe(topic, cx));
    }

    /// Leaves a topic.
    pub fn unsubscribe(&mut self, topic: &Topic) {
        self.call(|engine, cx| engine.unsubscribe(topic, cx));
    }

    /// Publishes one message.
    ///
    /// # Errors
    /// It is not new, too long, or cannot be signed.
    pub fn publish(&mut self, topic: &Topic, data: impl Into<Bytes>) -> Result<Receipt, PublishError> {
        let data = data.into();
        self.call(|engine, cx| engine.publish(topic, data, cx))
    }

    /// Publishes messages that belong together, in the order of a schedule.
    pub fn publish_batch(
        &mut self,
        messages: impl IntoIterator<Item = (Topic, Bytes)>,
        schedule: &Schedule,
    ) -> BatchReceipt {
        self.call(|engine, cx| engine.publish_batch(messages, schedule, cx))
    }

    /// Answers [`Event::NeedsValidation`].
    pub fn report_validation(&mut self, id: &MessageId, acceptance: Acceptance) {
        let id = id.clone();
        self.driver.input(Input::Command(samara_gossipsub::Command::ReportValidation { id, acceptance }));
        self.after_call();
    }

    /// Keeps a link to a peer, and sends it everything. Its address must be known to the swarm.
    pub fn add_direct_peer(&mut self, peer: &PeerId) {
        self.driver.input(Input::Command(samara_gossipsub::Command::AddDirectPeer(identity_of(peer))));
        self.after_call();
    }

    /// The signed record of a peer with a link, which identify brings
    /// ([`Info::signed_peer_record`](https://docs.rs/libp2p-identify/latest/libp2p_identify/struct.Info.html)): peer exchange
    /// passes it on, so that whoever is pruned knows an address. `false` if it is not about the one who signed it, or
    /// there is no link.
    pub fn set_signed_record(&mut self, record: &SignedEnvelope) -> bool {
        let Ok(about) = PeerRecord::from_signed_envelope(record.clone()) else { return false };
        let Some(handle) = self.handle(&about.peer_id()) else { return false };
        let record = record.clone().into_protobuf_encoding();
        self.call(|engine, _| engine.set_signed_record(handle, record.into()));
        true
    }

    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut GossipSub, &mut samara_engine::Context<'_, RpcFrame, samara_gossipsub::Event>) -> R,
    ) -> R {
        let answer = self.driver.with(call);
        self.after_call();
        answer
    }

    /// Takes what a call has left: events, links, copies.
    fn after_call(&mut self) {
        self.tell_events();
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Dial(identity) => match peer_id_of(&identity) {
                    Some(peer) => {
                        let addresses = self.recommended.remove(&peer).unwrap_or_default();
                        let opts = DialOpts::peer_id(peer)
                            .condition(PeerCondition::DisconnectedAndNotDialing)
                            .addresses(addresses)
                            .extend_addresses_through_behaviour()
                            .build();
                        self.actions.push_back(ToSwarm::Dial { opts });
                    }
                    None => self.driver.input(Input::DialFailed { identity }),
                },
                LinkRequest::Close(handle) => {
                    if let Some(peer_id) = self.peer_id(handle) {
                        let connection = CloseConnection::All;
                        self.actions.push_back(ToSwarm::CloseConnection { peer_id, connection });
                    }
                }
            }
        }
        self.drain();
    }

    fn tell_events(&mut self) {
        for event in self.driver.take_events() {
            if let Some(event) = self.translate(event) {
                self.actions.push_back(ToSwarm::GenerateEvent(event));
            }
        }
    }

    fn translate(&mut self, event: samara_gossipsub::Event) -> Option<Event> {
        use samara_gossipsub::Event as Engine;
        Some(match event {
            Engine::Message { id, key, topic, message, from } => {
                let from = from.and_then(|from| self.peer_id(from));
                Event::Message { id, key, topic, message, from }
            }
            Engine::NeedsValidation { id, topic, message, from, .. } => {
                Event::NeedsValidation { id, topic, message, from: self.peer_id(from)? }
            }
            Engine::Duplicate { key, from } => Event::Duplicate { key, from: self.peer_id(from)? },
            Engine::Published(receipt) => Event::Published(receipt),
            Engine::PeerSubscribed { peer, topic } => Event::Subscribed { peer: self.peer_id(peer)?, topic },
            Engine::PeerUnsubscribed { peer, topic } => {
                Event::Unsubscribed { peer: self.peer_id(peer)?, topic }
            }
            Engine::PeerExchanged { identity, signed_record, .. } => {
                self.recommend(peer_id_of(&identity)?, &signed_record?);
                return None;
            }
            Engine::Lost(lost) => Event::Lost(lost),
            Engine::Trace(trace) => {
                let peer = trace.peer().and_then(|peer| self.peer_id(peer));
                Event::Trace { trace, peer }
            }
        })
    }

    /// Keeps the addresses of a recommended peer, if they are its own word.
    fn recommend(&mut self, peer: PeerId, signed_record: &[u8]) {
        let record = SignedEnvelope::from_protobuf_encoding(signed_record)
            .ok()
            .and_then(|envelope| PeerRecord::from_signed_envelope(envelope).ok());
        match record {
            Some(record) if record.peer_id() == peer => {
                if self.recommended.len() >= RECOMMENDED_MAX {
                    self.recommended.pop_first();
                }
                self.recommended.insert(peer, record.addresses().to_vec());
            }
            _ => tracing::debug!(%peer, "the record of a recommended peer is not its own"),
        }
    }
}

impl std::fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Behaviour").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}
