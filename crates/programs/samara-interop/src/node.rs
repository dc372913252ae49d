//! A node that executes its script. While it waits, it continues to receive, check and forward
//! messages.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufWriter, Stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{DialError, NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, identify, noise, tcp, yamux};
use samara_engine::PeerId as Handle;
use samara_gossipsub::Acceptance;
use samara_gossipsub::config::{Config, ValidatorHook, Verdict};
use samara_gossipsub::rpc::{Message, MessageId, PartialMode, Topic};
use samara_libp2p::{Event, LinkEvent, Options};

use crate::engine::{self, Profile};
use crate::identity::NodeId;
use crate::lines::{Lines, Way};
use crate::params::GossipSubParams;
use crate::parts::{self, Parts};
use crate::script::{self, Action, ID_BYTES, Step};

/// Maximum time for a connection, including repeated attempts: not all processes of a run start at
/// the same moment.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Wait between two attempts.
const CONNECT_AGAIN: Duration = Duration::from_millis(200);

type Delays = Arc<Mutex<HashMap<Topic, Duration>>>;

pub(crate) struct Node {
    id: NodeId,
    profile: Profile,
    started: Instant,
    lines: Lines<BufWriter<Stdout>>,
    delays: Delays,
    /// Messages in validation, by the end of their delay.
    checked: BTreeMap<(Instant, u64), MessageId>,
    next_check: u64,
    /// The mode of partial messages on each topic.
    partial_topics: BTreeMap<Topic, PartialMode>,
    groups: HashMap<(Topic, u64), Parts>,
    running: Option<Running>,
}

struct Running {
    swarm: Swarm<Host>,
    config: Config,
}

impl Node {
    /// Creates a node, and writes its first line.
    pub(crate) fn new(id: NodeId, profile: Profile, started: Instant) -> Result<Self, String> {
        let mut lines = Lines::new(BufWriter::new(std::io::stdout()));
        lines.started(id).map_err(stdout)?;
        Ok(Self {
            id,
            profile,
            started,
            lines,
            delays: Delays::default(),
            checked: BTreeMap::new(),
            next_check: 0,
            partial_topics: BTreeMap::new(),
            groups: HashMap::new(),
            running: None,
        })
    }

    pub(crate) async fn run(&mut self, steps: &[Step]) -> Result<(), String> {
        self.partial_topics = script::partial_topics(steps);
        for Step { at, action } in steps {
            self.step(action).await.map_err(|error| format!("script[{at}]: {error}"))?;
        }
        if let Some(running) = &mut self.running {
            let pending = running.swarm.behaviour_mut().gossip.pending();
            if pending > 0 {
                tracing::warn!(
                    pending,
                    "copies are still owed at the end of the script; add a longer waitUntil"
                );
            }
        }
        Ok(())
    }

    async fn step(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Init(params) => self.init(params).await,
            Action::Connect(nodes) => {
                for node in nodes {
                    self.connect(*node).await?;
                }
                tracing::info!(connected = nodes.len(), "connected");
                Ok(())
            }
            Action::WaitUntil(elapsed) => {
                let until = self.started + *elapsed;
                while Instant::now() < until {
                    self.serve(until).await?;
                }
                Ok(())
            }
            Action::Publish { id, bytes, topic } => self.publish(*id, *bytes, topic),
            Action::Subscribe { topic, partial: _ } => {
                self.swarm()?.behaviour_mut().gossip.subscribe(topic).map_err(|error| error.to_string())?;
                Ok(())
            }
            Action::AddPartial { topic, group, parts } => {
                self.extend(topic, *group, parts::fill(*group, *parts))
            }
            Action::PublishPartial { topic, group } => self.provide(topic, *group),
            Action::Delay { topic, delay } => {
                self.delays.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.clone(), *delay);
                Ok(())
            }
        }
    }

    async fn init(&mut self, params: &GossipSubParams) -> Result<(), String> {
        let (mut config, without) =
            engine::config(params, self.profile).map_err(|error| format!("gossipSubParams: {error}"))?;
        for name in without {
            tracing::warn!("gossipSubParams.{name} has no effect in this engine");
        }
        config.validator = Some(validator(&self.delays));
        config.partial = engine::partial(self.partial_topics.clone(), self.profile);
        let mut swarm = build_swarm(self.id.key(), config.clone())?;
        let address = Multiaddr::from(Ipv4Addr::UNSPECIFIED).with(Protocol::Tcp(PORT));
        let wrong = |error: &dyn std::fmt::Display| format!("cannot listen on {address}: {error}");
        let listener = swarm.listen_on(address.clone()).map_err(|error| wrong(&error))?;
        loop {
            match swarm.select_next_some().await {
                SwarmEvent::NewListenAddr { listener_id, .. } if listener_id == listener => break,
                SwarmEvent::ListenerClosed { listener_id, reason: Err(error), .. }
                    if listener_id == listener =>
                {
                    return Err(wrong(&error));
                }
                _ => {}
            }
        }
        self.running = Some(Running { swarm, config });
        Ok(())
    }

    /// Connects like go-libp2p's runner: the next instruction starts when the connection is up.
    async fn connect(&mut self, node: NodeId) -> Result<(), String> {
        let until = Instant::now() + CONNECT_WITHIN;
        let peer = node.peer_id();
        loop {
            if self.swarm()?.is_connected(&peer) {
                return Ok(());
            }
            let attempt = match resolve(node).await {
                Ok(address) => self.dial(peer, address, until).await?,
                Err(error) => Err(error),
            };
            match attempt {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() + CONNECT_AGAIN >= until => {
                    return Err(format!(
                        "cannot connect to {} within {CONNECT_WITHIN:?}: {error}",
                        node.host()
                    ));
                }
                Err(error) => {
                    tracing::info!(node = %node.host(), error, "cannot connect yet");
                    let again = Instant::now() + CONNECT_AGAIN;
                    while Instant::now() < again {
                        self.serve(again).await?;
                    }
                }
            }
        }
    }

    /// Attempts to connect. The outer error is that of standard output.
    async fn dial(
        &mut self,
        peer: PeerId,
        address: Multiaddr,
        until: Instant,
    ) -> Result<Result<(), String>, String> {
        // Dials from a new port: Shadow does not let two sockets share one.
        let dial = DialOpts::peer_id(peer).addresses(vec![address]).allocate_new_port().build();
        match self.swarm()?.dial(dial) {
            // The peer may have dialled first.
            Ok(()) | Err(DialError::DialPeerConditionFalse(_)) => {}
            Err(error) => return Ok(Err(error.to_string())),
        }
        while Instant::now() < until {
            match self.serve(until).await? {
                Some(SwarmEvent::OutgoingConnectionError { peer_id, error, .. }) if peer_id == Some(peer) => {
                    return Ok(Err(error.to_string()));
                }
                _ if self.swarm()?.is_connected(&peer) => return Ok(Ok(())),
                _ => {}
            }
        }
        Ok(Err("no answer".to_owned()))
    }

    fn publish(&mut self, id: u64, bytes: usize, topic: &Topic) -> Result<(), String> {
        let mut data = vec![0; bytes];
        data[..ID_BYTES].copy_from_slice(&id.to_be_bytes());
        let receipt = self.swarm()?.behaviour_mut().gossip.publish(topic, Bytes::from(data));
        let receipt = receipt.map_err(|error| format!("cannot publish message {id}: {error}"))?;
        if receipt.peers == 0 {
            tracing::warn!(id, topic = topic.as_str(), "published, but no known peer wants the message");
        } else {
            tracing::info!(id, topic = topic.as_str(), peers = receipt.peers, "published");
        }
        Ok(())
    }

    /// Adds parts to those known of a group, which peers may have sent before the script adds any.
    fn extend(
        &mut self,
        topic: &Topic,
        group: u64,
        parts: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<(), String> {
        if self.groups.entry((topic.clone(), group)).or_default().add(parts) {
            self.lines.complete(topic, group).map_err(stdout)?;
        }
        Ok(())
    }

    /// Publishes the known parts of a group, and requests the others.
    fn provide(&mut self, topic: &Topic, group: u64) -> Result<(), String> {
        let content = self.groups.get(&(topic.clone(), group)).map(Parts::content).unwrap_or_default();
        let id = Bytes::copy_from_slice(&group.to_be_bytes());
        let provided = self.swarm()?.behaviour_mut().gossip.provide(topic, &id, content);
        provided.map(drop).map_err(|error| format!("cannot publish group {group}: {error}"))
    }

    /// Takes part in a group that a peer has mentioned, if the script subscribes to the topic with
    /// partial messages, or has added parts of the group.
    fn on_group(&mut self, topic: &Topic, group: u64) -> Result<(), String> {
        let requests = self.partial_topics.get(topic) == Some(&PartialMode::Requests);
        if requests || self.groups.contains_key(&(topic.clone(), group)) {
            self.provide(topic, group)?;
        }
        Ok(())
    }

    fn swarm(&mut self) -> Result<&mut Swarm<Host>, String> {
        let running = self.running.as_mut().map(|running| &mut running.swarm);
        running.ok_or_else(|| "GossipSub is not running yet".to_owned())
    }

    /// Handles the next event for other nodes, or waits for one. Returns the swarm's events other
    /// than gossip.
    async fn serve(&mut self, until: Instant) -> Result<Option<SwarmEvent<HostEvent>>, String> {
        let Some(running) = &mut self.running else {
            tokio::time::sleep_until(until.into()).await;
            return Ok(None);
        };
        let check = self.checked.keys().next().map(|(at, _)| *at);
        let wake = check.map_or(until, |at| at.min(until));
        tokio::select! {
            () = tokio::time::sleep_until(wake.into()) => {
                let now = Instant::now();
                while let Some(first) = self.checked.first_entry().filter(|first| first.key().0 <= now) {
                    running.swarm.behaviour_mut().gossip.report_validation(&first.remove(), Acceptance::Accept);
                }
                Ok(None)
            }
            event = running.swarm.select_next_some() => {
                if let SwarmEvent::Behaviour(HostEvent::Gossip(event)) = event {
                    self.on_gossip(event)?;
                    return Ok(None);
                }
                Ok(Some(event))
            }
        }
    }

    fn on_gossip(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Link(LinkEvent::FrameReceived { peer, frame }) => {
                self.write_frame(Way::Received, peer, &frame)?
            }
            Event::Link(LinkEvent::FrameSent { peer, frame }) => self.write_frame(Way::Sent, peer, &frame)?,
            Event::NeedsValidation { id, topic, .. } => {
                let delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
                let delay = delays.get(&topic).copied().unwrap_or_default();
                self.next_check += 1;
                self.checked.insert((Instant::now() + delay, self.next_check), id);
            }
            Event::Message { id, topic, message, .. } => {
                tracing::debug!(?id, topic = topic.as_str(), bytes = message.data.len(), "delivered");
            }
            Event::Group { topic, group, .. } => self.on_group(&topic, number(&group))?,
            Event::Parts { ticket, topic, group, parts, .. } => {
                let group = number(&group);
                self.on_group(&topic, group)?;
                self.swarm()?.behaviour_mut().gossip.report_parts(ticket, Acceptance::Accept);
                self.extend(&topic, group, parts)?;
            }
            Event::Link(LinkEvent::Up { peer, protocol }) => tracing::info!(%peer, %protocol, "a link is up"),
            Event::Link(LinkEvent::Down { peer, lost_copies }) => {
                tracing::warn!(%peer, lost_copies, "a link is down")
            }
            Event::Link(LinkEvent::Cut { peer, copies }) => tracing::warn!(%peer, copies, "a stream broke"),
            Event::Link(LinkEvent::Malformed { peer, error }) => {
                tracing::warn!(%peer, %error, "received a malformed frame")
            }
            Event::Link(LinkEvent::NotSupported { peer }) => tracing::warn!(%peer, "no common protocol"),
            Event::Lost(lost) => tracing::warn!(?lost, "a copy did not fit into its queue"),
            _ => {}
        }
        Ok(())
    }

    fn write_frame(
        &mut self,
        way: Way,
        peer: PeerId,
        frame: &samara_gossipsub::rpc::RpcFrame,
    ) -> Result<(), String> {
        if let Some(partial) = &frame.rpc().partial {
            let (group, metadata) = (number(&partial.group), partial.metadata.as_deref());
            let parts = partial.body.as_ref().and_then(|body| body.first());
            tracing::debug!(?way, %peer, group, ?parts, ?metadata, "partial message");
        }
        let Some(running) = &self.running else { return Ok(()) };
        self.lines.frame(way, &peer, frame.rpc(), &running.config).map_err(stdout)
    }
}

fn stdout(error: std::io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// Returns the number of a group. The engine has checked the length of its id.
fn number(group: &[u8]) -> u64 {
    group.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Defers messages on topics with a delay, and rejects messages too short for an id.
fn validator(delays: &Delays) -> ValidatorHook {
    let delays = Arc::clone(delays);
    ValidatorHook::new(move |_: Handle, topic: &Topic, message: &Message| {
        if message.data.len() < ID_BYTES {
            return Verdict::Reject;
        }
        let delays = delays.lock().unwrap_or_else(PoisonError::into_inner);
        if delays.get(topic).is_some_and(|delay| !delay.is_zero()) { Verdict::Defer } else { Verdict::Accept }
    })
}

async fn resolve(node: NodeId) -> Result<Multiaddr, String> {
    let host = node.host();
    let addresses = tokio::net::lookup_host((host.as_str(), PORT)).await;
    let mut addresses = addresses.map_err(|error| format!("the name {host}: {error}"))?;
    match addresses
        .find_map(|address| if let SocketAddr::V4(address) = address { Some(*address.ip()) } else { None })
    {
        Some(address) => Ok(Multiaddr::from(address).with(Protocol::Tcp(PORT))),
        None => Err(format!("the name {host} has no IPv4 address")),
    }
}

const PORT: u16 = 9000;

/// The protocol version of identify: the name that go-libp2p uses.
const IDENTIFY_PROTOCOL: &str = "ipfs/0.1.0";

/// A year: connections stay open, as no node dials again. The other runners have no limit.
const IDLE_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);

#[derive(NetworkBehaviour)]
struct Host {
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    identify: identify::Behaviour,
    gossip: samara_libp2p::Behaviour,
}

/// Builds a libp2p host (TCP, Noise, Yamux, identify and the engine), which neither listens nor
/// dials yet. The error is a text.
fn build_swarm(key: Keypair, config: Config) -> Result<Swarm<Host>, String> {
    let options = Options {
        // As in the simulator.
        lane_bytes: u64::MAX,
        report_frames: true,
        ..Options::default()
    };
    let host = |key: &Keypair| -> Result<Host, Box<dyn std::error::Error + Send + Sync>> {
        let identify = identify::Config::new(IDENTIFY_PROTOCOL.to_owned(), key.public())
            .with_agent_version(concat!("samara-interop/", env!("CARGO_PKG_VERSION")).to_owned());
        Ok(Host {
            identify: identify::Behaviour::new(identify),
            gossip: samara_libp2p::Behaviour::new(key, config, options)?,
        })
    };
    let swarm = libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(|error| format!("cannot set up the TCP transport: {error}"))?
        .with_behaviour(host)
        .map_err(|error| format!("cannot set up the node: {error}"))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(IDLE_TIMEOUT))
        .build();
    Ok(swarm)
}
