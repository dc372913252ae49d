//! The node: one task that owns the swarm and handles one event at a time.

mod batches;
mod connections;
mod drain;
mod handshakes;
mod redial;
mod report;
mod tracer;

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use futures::StreamExt;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::{Transport, upgrade};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{DialError, NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, identify, noise, yamux};
use samara_engine::outbox::Schedule;
use samara_gossipsub::PublishError;
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::transport::{Meters, quic, tcp};
use samara_libp2p::{Event, LinkEvent};
use socket2::{Domain, Socket, Type};
use tokio::sync::mpsc;

use crate::config::{Checked, ip_of};
use crate::model::BatchReport;
use crate::part::{Refusal, Request, Stopping};
use crate::payload::Payload;
use batches::Batches;
use connections::Limits;
pub(crate) use connections::Refused;
use handshakes::{Gate, Handshakes};
use redial::Redial;
use samara_trace::unix_ns;
pub(crate) use tracer::Tracer;

samara_engine::counters! {
    /// Counters of links since the start.
    #[derive(Copy)]
    pub(crate) struct LinkCounts {
        /// Copies still owed when their link went down.
        pub(crate) link_lost_copies: u64,
        /// Copies in flight when a stream broke.
        pub(crate) link_cut_copies: u64,
        /// Streams closed because of frames that were bad, too slow, or the oldest of too many.
        pub(crate) malformed_frames: u64,
        /// Connections closed because streams kept ending on them.
        pub(crate) connections_given_up: u64,
        /// Connections with peers that support none of the protocols.
        pub(crate) peers_not_supported: u64,
    }
}

pub(crate) struct Node {
    swarm: Swarm<Host>,
    config: Checked,
    requests: mpsc::Receiver<Request<Self>>,
    redial: Redial,
    batches: Batches,
    tracer: Option<Tracer>,
    /// Connected peers, and the protocol of their link once it is up.
    peers: BTreeMap<PeerId, Option<String>>,
    counts: LinkCounts,
    started_at_unix_ns: u64,
    stopping: Stopping,
    /// Whether a client has requested a stop.
    is_stop_requested: bool,
}

impl Node {
    /// Creates a node that neither listens nor dials yet.
    pub(crate) fn new(
        key: Keypair,
        config: Checked,
        requests: mpsc::Receiver<Request<Self>>,
        stopping: Stopping,
    ) -> Result<Self, String> {
        let swarm = build(key, &config)?;
        let network = &config.written.network;
        let (first, max) = (network.redial_first.duration(), network.redial_max.duration());
        let redial = Redial::new(config.dial.clone(), (first, max), Instant::now());
        Ok(Self {
            swarm,
            config,
            requests,
            redial,
            batches: Batches::default(),
            tracer: None,
            peers: BTreeMap::new(),
            counts: LinkCounts::default(),
            started_at_unix_ns: unix_ns(),
            stopping,
            is_stop_requested: false,
        })
    }

    /// Opens the sockets. Returns their addresses in the order of the configuration, followed by
    /// those of further interfaces.
    pub(crate) async fn listen(&mut self) -> Result<Vec<Multiaddr>, String> {
        let mut open = Vec::new();
        let addresses = self.config.listen.clone();
        for (at, address) in addresses.iter().enumerate() {
            check_free(address).map_err(|error| cannot_listen(at, address, &error))?;
        }
        for (at, address) in addresses.into_iter().enumerate() {
            let wrong = |error: &dyn Error| cannot_listen(at, &address, error);
            let listener = self.swarm.listen_on(address.clone()).map_err(|error| wrong(&error))?;
            loop {
                match self.swarm.select_next_some().await {
                    SwarmEvent::NewListenAddr { listener_id, address } if listener_id == listener => {
                        tracing::info!(%address, "listening");
                        open.push(address);
                        break;
                    }
                    SwarmEvent::ListenerClosed { listener_id, reason: Err(error), .. }
                        if listener_id == listener =>
                    {
                        return Err(wrong(&error));
                    }
                    event => self.on_event(event),
                }
            }
        }
        let mut others: Vec<_> =
            self.swarm.listeners().filter(|other| !open.contains(other)).cloned().collect();
        others.sort();
        open.extend(others);
        Ok(open)
    }

    /// Joins the topics of the configuration. These are the first events of the trace.
    pub(crate) fn join(&mut self, tracer: Option<Tracer>) {
        self.tracer = tracer;
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        for topic in &self.config.topics {
            gossip.subscribe(topic).expect("the configuration has no filter of topics");
        }
    }

    pub(crate) fn peer_id(&self) -> PeerId {
        *self.swarm.local_peer_id()
    }

    /// Runs until the channel or a command stops it.
    pub(crate) async fn run(&mut self, stop: &mut mpsc::Receiver<()>) {
        loop {
            let redial = sleep_until(self.redial.next());
            tokio::select! {
                // Biased: rare events come before frequent ones, which would starve them.
                biased;
                _ = stop.recv() => return,
                () = redial => self.dial_due(),
                Some(request) = self.requests.recv() => {
                    request(self);
                    if self.is_stop_requested {
                        return;
                    }
                }
                event = self.swarm.select_next_some() => self.on_event(event),
            }
        }
    }

    fn dial_due(&mut self) {
        let now = Instant::now();
        for dial in self.redial.due(now) {
            let connection = dial.connection_id();
            if let Err(error) = self.swarm.dial(dial) {
                tracing::debug!(%error, "cannot dial");
                self.redial.failed(connection, now);
            }
        }
    }

    fn on_event(&mut self, event: SwarmEvent<HostEvent>) {
        let now = Instant::now();
        match event {
            SwarmEvent::Behaviour(HostEvent::Gossip(event)) => self.on_gossip(event),
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                tracing::debug!(peer = %peer_id, address = %endpoint.get_remote_address(), "connected");
                self.peers.entry(peer_id).or_default();
                self.redial.connected(connection_id, peer_id);
            }
            SwarmEvent::ConnectionClosed { peer_id, num_established: 0, cause, .. } => {
                let cause = cause.map_or_else(|| "closed".to_owned(), |cause| cause.to_string());
                tracing::info!(peer = %peer_id, cause, "disconnected");
                self.peers.remove(&peer_id);
                self.redial.lost(peer_id, now);
            }
            SwarmEvent::OutgoingConnectionError { connection_id, peer_id, error } => {
                let peer = peer_id.map(tracing::field::display);
                for (address, error) in failures(&error) {
                    tracing::warn!(address, peer, error, "cannot connect");
                }
                self.redial.failed(connection_id, now);
            }
            SwarmEvent::IncomingConnectionError { send_back_addr, error, .. } => {
                tracing::debug!(address = %send_back_addr, %error, "an incoming connection failed");
            }
            SwarmEvent::NewListenAddr { address, .. } => tracing::info!(%address, "listening"),
            SwarmEvent::ListenerClosed { addresses, reason: Err(error), .. } => {
                tracing::error!(?addresses, %error, "stopped listening");
            }
            SwarmEvent::ListenerError { error, .. } => tracing::warn!(%error, "a listener failed"),
            _ => {}
        }
    }

    fn on_gossip(&mut self, event: Event) {
        if let Some(tracer) = &self.tracer {
            tracer.event(&event);
        }
        match event {
            Event::Link(LinkEvent::Sent { key, peer, rank }) => self.batches.sent(key, peer, rank),
            Event::Message { id, topic, message, from: Some(from), .. } => {
                let bytes = message.data.len();
                tracing::debug!(?id, topic = topic.as_str(), bytes, %from, "delivered");
            }
            Event::Link(LinkEvent::Up { peer, protocol }) => {
                tracing::info!(%peer, %protocol, "a link is up");
                self.peers.insert(peer, Some(protocol.to_string()));
            }
            Event::Link(LinkEvent::Down { peer, lost_copies }) => {
                tracing::info!(%peer, lost_copies, "a link is down");
                self.counts.link_lost_copies += lost_copies as u64;
                if let Some(protocol) = self.peers.get_mut(&peer) {
                    *protocol = None;
                }
            }
            Event::Link(LinkEvent::Cut { peer, copies }) => {
                tracing::info!(%peer, copies, "a stream broke");
                self.counts.link_cut_copies += copies as u64;
            }
            Event::Link(LinkEvent::Malformed { peer, error }) => {
                tracing::warn!(%peer, %error, "received a malformed frame");
                self.counts.malformed_frames += 1;
            }
            Event::Link(LinkEvent::GaveUp { peer }) => {
                tracing::warn!(%peer, "closed a connection on which streams kept ending");
                self.counts.connections_given_up += 1;
            }
            Event::Link(LinkEvent::NotSupported { peer }) => {
                tracing::info!(%peer, "no common protocol");
                self.counts.peers_not_supported += 1;
            }
            _ => {}
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn stop(&mut self) {
        self.is_stop_requested = true;
    }

    pub(crate) fn dial(&mut self, address: Multiaddr) -> Result<(), Refusal> {
        self.stopping.check()?;
        self.swarm.dial(address).map_err(|error| Refusal::Wrong(format!("address: cannot dial: {error}")))
    }

    /// Joins a topic, or leaves it. Returns whether the membership changed.
    pub(crate) fn set_joined(&mut self, topic: &Topic, joins: bool) -> Result<bool, Refusal> {
        self.stopping.check()?;
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        if joins {
            gossip.subscribe(topic).map_err(|error| Refusal::Wrong(error.to_string()))
        } else {
            Ok(gossip.unsubscribe(topic))
        }
    }

    /// Publishes messages. Without a schedule, copies have the order of the configuration.
    pub(crate) fn publish(
        &mut self,
        messages: Vec<(String, Payload)>,
        schedule: Option<Schedule>,
    ) -> Result<BatchReport, Refusal> {
        self.stopping.check()?;
        let (topics, messages): (Vec<String>, Vec<_>) = messages
            .into_iter()
            .map(|(name, payload)| {
                let topic = Topic::new(&name);
                (name, (topic, payload.make()))
            })
            .unzip();
        let schedule = schedule.as_ref().unwrap_or(&self.config.engine.schedule_publish);
        let at_unix_ns = unix_ns();
        let receipt = self.swarm.behaviour_mut().gossip.publish_batch(messages, schedule);
        let receipt = receipt.map_err(|error| Refusal::Wrong(format!("schedule: {error}")))?;
        if let Some(tracer) = &self.tracer {
            receipt.published().for_each(|receipt| tracer.published(&receipt.id, &receipt.topic));
        }
        let engine = self.swarm.behaviour().gossip.engine();
        let joined = |topic: &Topic| engine.topic_peers(topic).len();
        let id = &self.config.engine.message_id;
        let receipts =
            receipt.messages.into_iter().map(|receipt| receipt.map_err(|error| explain(error, id)));
        let batch = self.batches.add(at_unix_ns, topics, receipts.collect(), joined);
        self.batch(batch)
            .ok_or_else(|| Refusal::Wrong("the batch has more messages than the node keeps".to_owned()))
    }

    pub(crate) fn batch(&mut self, id: u64) -> Option<BatchReport> {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        self.batches.report(id, |key| gossip.owed_to(key))
    }
}

/// Describes in the terms of the configuration why a message was not published.
fn explain(error: PublishError, id: &MessageIdFn) -> String {
    match error {
        PublishError::Duplicate(_)
            if !matches!(id, MessageIdFn::FromSeqno | MessageIdFn::FromSeqnoBase58) =>
        {
            format!(
                "{error}: format.id derives its id from the contents; change the contents, or set \
                 format.id = \"from-seqno\" and format.authenticity = \"signed\" at all nodes"
            )
        }
        PublishError::TooLong { found, allowed, .. } => format!(
            "found a payload of {found} bytes; expected at most {allowed}, which protocol.message_max sets at all nodes"
        ),
        error => error.to_string(),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

// ---- the swarm: TCP and QUIC, limits on connections, identify, and GossipSub ----

/// The protocol version in identify: the name that go-libp2p and Kubo use.
const IDENTIFY_PROTOCOL: &str = "ipfs/0.1.0";

/// All behaviours of a node. The limits come first, so that a connection they reject reaches no
/// other behaviour.
#[derive(NetworkBehaviour)]
struct Host {
    limits: Limits,
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    identify: identify::Behaviour,
    gossip: samara_libp2p::Behaviour,
}

/// Fails if another process listens at a TCP address. libp2p listens with `SO_REUSEPORT`, with which
/// both would succeed and each would get some of the connections.
fn check_free(address: &Multiaddr) -> std::io::Result<()> {
    let (Some(ip), Some(Protocol::Tcp(port))) = (ip_of(address), address.iter().nth(1)) else {
        return Ok(());
    };
    let address = SocketAddr::new(ip, port);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Ended connections of an earlier process do not count.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1)
}

/// Returns the text of the innermost cause: outer errors of libp2p have none, or repeat it.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn cannot_listen(at: usize, address: &Multiaddr, error: &dyn Error) -> String {
    format!(
        "network.listen.{at}: cannot listen on {address}: {}; \
         expected a free port at an address of this machine",
        innermost(error)
    )
}

/// Builds the swarm, which neither listens nor dials yet.
fn build(key: Keypair, config: &Checked) -> Result<Swarm<Host>, String> {
    let network = &config.written.network;
    let idle = network.idle_timeout.duration();
    let handshakes = Handshakes::new(network.pending_max as usize);
    let host = |key: &Keypair| -> Result<Host, Box<dyn std::error::Error + Send + Sync>> {
        let identify = identify::Config::new(IDENTIFY_PROTOCOL.to_owned(), key.public())
            .with_agent_version(concat!("samara/", env!("CARGO_PKG_VERSION")).to_owned());
        Ok(Host {
            limits: Limits::new(network, handshakes.clone()),
            identify: identify::Behaviour::new(identify),
            gossip: samara_libp2p::Behaviour::new(key, config.engine.clone(), config.options.clone())?,
        })
    };
    let swarm = libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_other_transport(|key| transport(key, &config.options.meters, handshakes.clone()))
        .map_err(|error| format!("cannot set up the transports: {error}"))?
        .with_behaviour(host)
        .map_err(|error| format!("cannot set up the node: {error}"))?
        .with_swarm_config(|config| config.with_idle_connection_timeout(idle))
        .build();
    Ok(swarm)
}

/// TCP with Noise and Yamux, and QUIC, behind the gate of handshakes.
fn transport(
    key: &Keypair,
    meters: &Meters,
    handshakes: Handshakes,
) -> Result<Gate<(PeerId, StreamMuxerBox)>, Box<dyn Error + Send + Sync>> {
    let tcp = tcp::Transport::new(tcp::Config::default().nodelay(true), meters)
        .upgrade(upgrade::Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(yamux::Config::default())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let quic = quic::Transport::new(quic::Config::default(), key, meters)?
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let both = tcp.or_transport(quic).map(|either, _| either.into_inner());
    Ok(Gate::new(both.boxed(), handshakes))
}

/// Returns the addresses that could not be dialled, each with the cause.
fn failures(error: &DialError) -> Vec<(String, String)> {
    match error {
        DialError::Transport(failed) => {
            failed.iter().map(|(address, error)| (address.to_string(), innermost(error))).collect()
        }
        _ => vec![("unknown".to_owned(), innermost(error))],
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use libp2p::TransportError;

    use super::*;

    #[test]
    fn failed_dials_name_each_address_and_the_cause_once() {
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        let refused = io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused));
        let error = DialError::Transport(vec![(address, TransportError::Other(refused))]);
        assert_eq!(failures(&error), [("/ip4/127.0.0.1/tcp/1".to_owned(), "connection refused".to_owned())]);
    }
}
