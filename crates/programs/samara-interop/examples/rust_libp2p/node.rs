//! A node that executes its script. While it waits, it serves its peers.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures::StreamExt;
use libp2p::gossipsub::{self, IdentTopic, MessageAcceptance, MessageId, TopicHash};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{DialError, NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, identify, noise, tcp, yamux};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::identity::NodeId;
use crate::message::{ALL, Message};
use crate::params::{GossipSubParams, Instruction, Nanos};

const PORT: u16 = 9000;
const ID_BYTES: usize = 8;
const RPC_BYTES_MAX: usize = 10 << 20;
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// A year: no node dials again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);
/// The behaviour sets the timer of its next heartbeat without polling it (0.50.1): without other
/// events, there is no heartbeat.
const POLL_AT_LEAST_EVERY: Duration = Duration::from_millis(50);

#[derive(NetworkBehaviour)]
struct Host {
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    identify: identify::Behaviour,
    gossip: gossipsub::Behaviour,
}

pub(crate) struct Node {
    id: NodeId,
    started: Instant,
    swarm: Option<Swarm<Host>>,
    delays: HashMap<TopicHash, Duration>,
    /// Messages in validation, by the end of their delay.
    checked: BTreeMap<(Instant, u64), (MessageId, PeerId)>,
    next_check: u64,
    partials: HashMap<(TopicHash, u64), Message>,
}

impl Node {
    pub(crate) fn new(id: NodeId, started: Instant) -> Self {
        report("PeerID", json!({"id": id.peer_id().to_string(), "node_id": id.number()}));
        Self {
            id,
            started,
            swarm: None,
            delays: HashMap::new(),
            checked: BTreeMap::new(),
            next_check: 0,
            partials: HashMap::new(),
        }
    }

    pub(crate) async fn run(&mut self, script: Vec<Instruction>) -> Result<(), String> {
        for (at, instruction) in script.into_iter().enumerate() {
            self.step(instruction).await.map_err(|error| format!("script[{at}]: {error}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, mut instruction: Instruction) -> Result<(), String> {
        while let Instruction::IfNodeIdEquals { node_id, instruction: inner } = instruction {
            if node_id != self.id {
                return Ok(());
            }
            instruction = *inner;
        }
        match instruction {
            Instruction::IfNodeIdEquals { .. } => unreachable!("the loop removes the conditions"),
            Instruction::InitGossipSub { gossip_sub_params } => self.init(&gossip_sub_params),
            Instruction::Connect { connect_to } => {
                for node in connect_to {
                    self.connect(node).await?;
                }
                Ok(())
            }
            Instruction::WaitUntil { elapsed_seconds } => {
                let until = self.started + Duration::from_secs(elapsed_seconds);
                while Instant::now() < until {
                    self.serve(until).await;
                }
                Ok(())
            }
            Instruction::Publish { message_id, message_size_bytes, topic_id } => {
                let mut data = message_id.to_be_bytes().to_vec();
                data.resize(ID_BYTES.max(message_size_bytes as usize), 0);
                let published = self.gossip()?.publish(IdentTopic::new(topic_id), data);
                published.map(drop).map_err(|error| error.to_string())
            }
            Instruction::SubscribeToTopic { topic_id, partial } => {
                let topic = IdentTopic::new(topic_id);
                let gossip = self.gossip()?;
                if partial {
                    gossip.enable_partials_for_topic(topic.hash(), true);
                }
                gossip.subscribe(&topic).map(drop).map_err(|error| error.to_string())
            }
            Instruction::SetTopicValidationDelay { topic_id, delay_seconds } => {
                let delay = Duration::try_from_secs_f64(delay_seconds).map_err(|error| error.to_string())?;
                self.delays.insert(IdentTopic::new(topic_id).hash(), delay);
                Ok(())
            }
            Instruction::AddPartialMessage { parts, topic_id, group_id } => {
                let topic = IdentTopic::new(topic_id).hash();
                self.extend(&topic, group_id, |message| {
                    message.fill(parts);
                    Ok(())
                })
            }
            // The library has no choice of peers.
            Instruction::PublishPartial { topic_id, group_id, publish_to_node_ids: _ } => {
                let topic = IdentTopic::new(topic_id).hash();
                if !self.partials.contains_key(&(topic.clone(), group_id)) {
                    return Err(format!("found no parts of group {group_id}, expected addPartialMessage"));
                }
                // For a publisher that does not subscribe. Has no effect if it is enabled already.
                if !self.gossip()?.topics().any(|subscribed| *subscribed == topic) {
                    self.gossip()?.enable_partials_for_topic(topic.clone(), false);
                }
                self.publish_partial(&topic, group_id)
            }
        }
    }

    fn init(&mut self, params: &GossipSubParams) -> Result<(), String> {
        let mut swarm = build_swarm(self.id, config(params)?)?;
        let address = Multiaddr::from(Ipv4Addr::UNSPECIFIED).with(Protocol::Tcp(PORT));
        swarm.listen_on(address).map_err(|error| error.to_string())?;
        self.swarm = Some(swarm);
        Ok(())
    }

    fn swarm(&mut self) -> Result<&mut Swarm<Host>, String> {
        self.swarm.as_mut().ok_or_else(|| "found no initGossipSub before it".to_owned())
    }

    fn gossip(&mut self) -> Result<&mut gossipsub::Behaviour, String> {
        Ok(&mut self.swarm()?.behaviour_mut().gossip)
    }

    async fn connect(&mut self, node: NodeId) -> Result<(), String> {
        let (host, peer) = (node.host(), node.peer_id());
        let wrong = |error: &dyn std::fmt::Display| format!("cannot connect to {host}: {error}");
        let addresses =
            tokio::net::lookup_host((host.as_str(), PORT)).await.map_err(|error| wrong(&error))?;
        let addresses = addresses.filter(SocketAddr::is_ipv4);
        let addresses = addresses.map(|at| Multiaddr::from(at.ip()).with(Protocol::Tcp(PORT))).collect();
        // Dials from a new port: Shadow does not let two sockets share one.
        let dial = DialOpts::peer_id(peer).addresses(addresses).allocate_new_port().build();
        match self.swarm()?.dial(dial) {
            // The peer has connected, or is about to.
            Ok(()) | Err(DialError::DialPeerConditionFalse(_)) => {}
            Err(error) => return Err(wrong(&error)),
        }
        let until = Instant::now() + CONNECT_WITHIN;
        while !self.swarm()?.is_connected(&peer) {
            if Instant::now() > until {
                return Err(wrong(&"timed out"));
            }
            if let Some(SwarmEvent::OutgoingConnectionError { peer_id, error, .. }) = self.serve(until).await
                && peer_id == Some(peer)
            {
                return Err(wrong(&error));
            }
        }
        Ok(())
    }

    /// Adds parts to those known of a message, which peers may have sent before the script adds any.
    fn extend(
        &mut self,
        topic: &TopicHash,
        group: u64,
        add: impl FnOnce(&mut Message) -> Result<(), String>,
    ) -> Result<(), String> {
        let message = self.partials.entry((topic.clone(), group)).or_insert_with(|| Message::new(group));
        let before = message.has();
        add(message)?;
        if message.has() == ALL && before != ALL {
            report("All parts received", json!({"topic": topic.as_str(), "group id": group}));
        }
        Ok(())
    }

    /// Publishes the known parts of a group.
    fn publish_partial(&mut self, topic: &TopicHash, group: u64) -> Result<(), String> {
        let message = self.partials[&(topic.clone(), group)].clone();
        match self.gossip()?.publish_partial(topic.clone(), message) {
            Ok(()) => Ok(()),
            // Other implementations do not take this for an error.
            Err(gossipsub::PublishError::NoPeersSubscribedToTopic) => {
                tracing::warn!(%topic, group, "no peer supports partial messages on the topic");
                Ok(())
            }
            Err(error) => Err(format!("cannot publish group {group}: {error}")),
        }
    }

    /// Handles the next event, or waits for one. Returns the swarm's events other than gossip.
    async fn serve(&mut self, until: Instant) -> Option<SwarmEvent<HostEvent>> {
        let Some(swarm) = &mut self.swarm else {
            tokio::time::sleep_until(until.into()).await;
            return None;
        };
        let check = self.checked.keys().next().map(|(at, _)| *at);
        let wake = check.map_or(until, |at| at.min(until)).min(Instant::now() + POLL_AT_LEAST_EVERY);
        tokio::select! {
            () = tokio::time::sleep_until(wake.into()) => {
                let now = Instant::now();
                while let Some(first) = self.checked.first_entry().filter(|first| first.key().0 <= now) {
                    let (id, from) = first.remove();
                    let gossip = &mut swarm.behaviour_mut().gossip;
                    gossip.report_message_validation_result(&id, &from, MessageAcceptance::Accept);
                }
                None
            }
            event = swarm.select_next_some() => match event {
                SwarmEvent::Behaviour(HostEvent::Gossip(event)) => {
                    self.on_gossip(event);
                    None
                }
                event => Some(event),
            }
        }
    }

    fn on_gossip(&mut self, event: gossipsub::Event) {
        match event {
            gossipsub::Event::Message { propagation_source, message_id, message } => {
                if let Some(id) = message.data.first_chunk::<ID_BYTES>() {
                    let fields = json!({"service": "gossipsub", "from": propagation_source.to_string(),
                        "topic": message.topic.as_str(), "id": u64::from_be_bytes(*id).to_string()});
                    report("Received Message", fields);
                }
                let delay = self.delays.get(&message.topic).copied().unwrap_or_default();
                self.next_check += 1;
                self.checked
                    .insert((Instant::now() + delay, self.next_check), (message_id, propagation_source));
            }
            gossipsub::Event::Partial { topic_hash, peer_id, group_id, message, metadata: _ } => {
                if let Err(error) = self.on_partial(&topic_hash, &group_id, message.as_deref()) {
                    tracing::warn!(%peer_id, error, "a partial message is invalid");
                    if let Ok(gossip) = self.gossip() {
                        gossip.report_invalid_partial(peer_id, &topic_hash);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the parts of a body. Then publishes what is known of the group, which also requests the
    /// rest. The library ignores it if nothing is new.
    fn on_partial(&mut self, topic: &TopicHash, group: &[u8], body: Option<&[u8]>) -> Result<(), String> {
        let group: [u8; 8] =
            group.try_into().map_err(|_| format!("found a group id of {} bytes, expected 8", group.len()))?;
        let group = u64::from_be_bytes(group);
        self.extend(topic, group, |message| body.map_or(Ok(()), |body| message.extend(body)))?;
        if let Err(error) = self.publish_partial(topic, group) {
            tracing::warn!(error);
        }
        Ok(())
    }
}

/// Writes an event to standard output.
fn report(msg: &str, fields: Value) {
    let time = OffsetDateTime::now_utc().format(&Rfc3339).expect("a time of this century");
    let mut line = json!({"time": time, "level": "INFO", "msg": msg});
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    println!("{line}");
}

/// Returns the configuration. Absent parameters have the defaults of go-libp2p-pubsub.
fn config(params: &GossipSubParams) -> Result<gossipsub::Config, String> {
    let time = |given: Option<Nanos>, default_ms| {
        given.map_or(Duration::from_millis(default_ms), |Nanos(duration)| duration)
    };
    let id = |message: &gossipsub::Message| MessageId::new(&message.data[..ID_BYTES.min(message.data.len())]);
    gossipsub::ConfigBuilder::default()
        .mesh_n(params.d.unwrap_or(6))
        .mesh_n_low(params.dlo.unwrap_or(5))
        .mesh_n_high(params.dhi.unwrap_or(12))
        .mesh_outbound_min(params.dout.unwrap_or(2))
        .history_length(params.history_length.unwrap_or(5))
        .history_gossip(params.history_gossip.unwrap_or(3))
        .gossip_lazy(params.dlazy.unwrap_or(6))
        .gossip_factor(params.gossip_factor.unwrap_or(0.25))
        .heartbeat_initial_delay(time(params.heartbeat_initial_delay, 100))
        .heartbeat_interval(time(params.heartbeat_interval, 1000))
        .fanout_ttl(time(params.fanout_ttl, 60_000))
        .prune_backoff(time(params.prune_backoff, 60_000))
        .unsubscribe_backoff(time(params.unsubscribe_backoff, 10_000))
        .flood_publish(false)
        .max_transmit_size(RPC_BYTES_MAX)
        .validation_mode(gossipsub::ValidationMode::Anonymous)
        .validate_messages()
        .message_id_fn(id)
        .build()
        .map_err(|error| error.to_string())
}

fn build_swarm(id: NodeId, config: gossipsub::Config) -> Result<Swarm<Host>, String> {
    let gossip = gossipsub::Behaviour::new(gossipsub::MessageAuthenticity::Anonymous, config)?;
    let swarm = libp2p::SwarmBuilder::with_existing_identity(id.key())
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(|error| format!("cannot set up the TCP transport: {error}"))?
        .with_behaviour(|key| Host {
            identify: identify::Behaviour::new(identify::Config::new("ipfs/0.1.0".to_owned(), key.public())),
            gossip,
        })
        .map_err(|error| format!("cannot set up the node: {error}"))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(IDLE_TIMEOUT))
        .build();
    Ok(swarm)
}
