//! Hosts in a swarm of libp2p, with the wire format of GossipSub.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use libp2p::core::Transport as _;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, identify, noise, yamux};
use samara_engine::{Driver, Engine, FrameCodec, PeerIdentity};
use samara_gossipsub::WithGossipSub;
use samara_gossipsub::rpc::RpcFrame;
use samara_gossipsub::wire::Limits;
use samara_libp2p::transport::{Meters, quic, tcp};
use samara_libp2p::{Behaviour, LinkEvent, Options, Terms};
use samara_net::hosted::secret_of;
use samara_sim::{App, Work, host_of, identity_of};

use super::serve::{Begin, Links, Moved, Place, TOKEN_BYTES, Waiting};
use super::{Looked, ProtocolOf, Transport};

/// Links stay up as long as the run.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1 << 20);
/// The protocol family of hosts, which nobody reads.
const IDENTIFY: &str = "samara/host";
/// Time that the last frames have to leave.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn open<A>(
    place: Place,
    codec: Arc<dyn FrameCodec<RpcFrame>>,
) -> Waiting<'static, Result<Begin<A>, String>>
where
    A: App + WithGossipSub + Engine<Event: Send>,
{
    let opened = check_free(&place).map(|()| {
        let begin: Begin<A> = Box::new(move |driver| {
            let hosts = Hosting::new(driver, place, codec).map_err(|error| error.to_string())?;
            let links: Box<dyn Links<A>> = Box::new(hosts);
            Ok(links)
        });
        begin
    });
    Box::pin(std::future::ready(opened))
}

/// Checks that nothing listens at the address of the host: libp2p would share it.
fn check_free(place: &Place) -> Result<(), String> {
    let at = place.listen;
    let bound = match place.transport {
        Transport::Quic => std::net::UdpSocket::bind(at).map(drop),
        Transport::Tcp => std::net::TcpListener::bind(at).map(drop),
    };
    bound.map_err(|error| format!("{at}: {error}"))
}

/// Returns the address of a socket, with the protocols above it.
fn address(at: SocketAddr, kind: Transport) -> Multiaddr {
    let ip = Multiaddr::from(at.ip());
    match kind {
        Transport::Quic => ip.with(Protocol::Udp(at.port())).with(Protocol::QuicV1),
        Transport::Tcp => ip.with(Protocol::Tcp(at.port())),
    }
}

/// Returns the key pair of a host. All hosts of a run know the names of all.
fn keypair(token: &[u8; TOKEN_BYTES], host: u32) -> Keypair {
    Keypair::ed25519_from_bytes(secret_of(token, host)).expect("32 bytes are a key")
}

/// The protocols of a host: GossipSub, and identify, which announces it.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct Speaking<A: App + WithGossipSub + Engine<Event: Send>> {
    gossip: Behaviour<A, Report<<A as Engine>::Event>>,
    identify: identify::Behaviour,
}

/// An event of the application or of a link.
#[derive(Debug)]
enum Report<E> {
    Event(Instant, E),
    Link(Instant, LinkEvent),
}

impl<E> From<LinkEvent> for Report<E> {
    fn from(event: LinkEvent) -> Self {
        Self::Link(Instant::now(), event)
    }
}

/// The peers of a run by their numbers.
struct Hosts {
    own: u32,
    peers: Vec<PeerId>,
    numbers: HashMap<PeerId, u32>,
    addresses: Vec<Multiaddr>,
    protocol: Option<ProtocolOf>,
    codec: Arc<dyn FrameCodec<RpcFrame>>,
}

impl Hosts {
    fn new(place: &mut Place, codec: Arc<dyn FrameCodec<RpcFrame>>) -> Self {
        let kind = place.transport;
        let count = place.peers.len() as u32;
        let peers: Vec<PeerId> =
            (0..count).map(|host| keypair(&place.token, host).public().to_peer_id()).collect();
        Self {
            own: place.own,
            numbers: peers.iter().copied().zip(0..).collect(),
            peers,
            addresses: place.peers.iter().map(|at| address(*at, kind)).collect(),
            protocol: place.protocol.take(),
            codec,
        }
    }
}

impl Terms for Hosts {
    fn identity(&self, peer: &PeerId) -> PeerIdentity {
        // A stranger has no number.
        identity_of(self.numbers.get(peer).copied().unwrap_or(u32::MAX))
    }

    fn peer(&self, identity: &PeerIdentity) -> Option<PeerId> {
        self.peers.get(host_of(identity)? as usize).copied()
    }

    fn addresses(&self, peer: &PeerId) -> Vec<Multiaddr> {
        let number = self.numbers.get(peer);
        number.map(|number| self.addresses[*number as usize].clone()).into_iter().collect()
    }

    fn protocols(&self, peer: &PeerId, is_outbound: bool) -> Option<Arc<[StreamProtocol]>> {
        let Some(other) = self.numbers.get(peer).copied() else {
            // A stranger does not know the secret of the run: it speaks with nobody.
            return Some([].into());
        };
        let (dialler, listener) = if is_outbound { (self.own, other) } else { (other, self.own) };
        let agreed = self.protocol.as_ref()?(dialler, listener);
        Some([StreamProtocol::try_from_owned(agreed.to_string()).ok()?].into())
    }

    fn recognise(&self, frame: RpcFrame) -> RpcFrame {
        self.codec.recognise(frame)
    }
}

/// A host in a swarm.
struct Hosting<A: App + WithGossipSub + Engine<Event: Send>> {
    swarm: Swarm<Speaking<A>>,
    hosts: Arc<Hosts>,
    /// Hosts to dial as soon as their links are gone.
    again: Vec<u32>,
    emitted: Vec<(Instant, A::Event)>,
    moved: Vec<Moved<RpcFrame>>,
    /// Whether connections that the host dials have ports of their own.
    has_ports: bool,
}

impl<A: App + WithGossipSub + Engine<Event: Send>> Hosting<A> {
    fn new(
        driver: Driver<A>,
        mut place: Place,
        codec: Arc<dyn FrameCodec<RpcFrame>>,
    ) -> Result<Self, Box<dyn Error>> {
        let kind = place.transport;
        let hosts = Arc::new(Hosts::new(&mut place, codec));
        let terms = Arc::clone(&hosts);
        let mut options = Options { limits: Some(Limits::NONE), report_frames: true, ..Options::default() };
        options.uplink = options.uplink.filter(|_| place.has_limit);
        let meters = options.meters.clone();
        let report = |_: &mut Behaviour<A, _>, event| Some(Report::Event(Instant::now(), event));
        let gossip = Behaviour::around(driver, terms, options, report);
        let key = keypair(&place.token, place.own);
        let identify = identify::Config::new(IDENTIFY.to_owned(), key.public()).with_interval(IDLE_TIMEOUT);
        let behaviour = Speaking { gossip, identify: identify::Behaviour::new(identify) };
        let mut swarm = libp2p::SwarmBuilder::with_existing_identity(key)
            .with_tokio()
            .with_other_transport(|key| transport(key, &meters))?
            .with_behaviour(|_| behaviour)?
            .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE_TIMEOUT))
            .build();
        swarm.listen_on(address(place.listen, kind))?;
        let has_ports = kind == Transport::Tcp;
        Ok(Self { swarm, hosts, again: Vec::new(), emitted: Vec::new(), moved: Vec::new(), has_ports })
    }

    fn note(&mut self, at: Instant, peer: PeerId, is_sent: bool, frame: RpcFrame) {
        if let Some(peer) = self.hosts.numbers.get(&peer).copied() {
            self.moved.push(Moved { at, peer, is_sent, frame });
        }
    }

    fn call(&mut self, host: u32) {
        let at = host as usize;
        let known = self.hosts.peers.get(at).copied().zip(self.hosts.addresses.get(at).cloned());
        let Some((peer, address)) = known else { return };
        let dial = DialOpts::peer_id(peer).addresses(vec![address]);
        // The port of a listener can be shared only if all programs and the kernel agree.
        let dial = if self.has_ports { dial.allocate_new_port() } else { dial };
        let dial = dial.build();
        if let Err(error) = self.swarm.dial(dial) {
            tracing::debug!(%peer, %error, "not dialled");
        }
    }

    fn handle(&mut self, event: SwarmEvent<SpeakingEvent<A>>) {
        match event {
            SwarmEvent::Behaviour(SpeakingEvent::Identify(_)) => {}
            SwarmEvent::Behaviour(SpeakingEvent::Gossip(Report::Event(at, event))) => {
                self.emitted.push((at, event))
            }
            SwarmEvent::Behaviour(SpeakingEvent::Gossip(Report::Link(
                at,
                LinkEvent::FrameSent { peer, frame },
            ))) => {
                self.note(at, peer, true, frame);
            }
            SwarmEvent::Behaviour(SpeakingEvent::Gossip(Report::Link(
                at,
                LinkEvent::FrameReceived { peer, frame },
            ))) => {
                let frame = self.hosts.recognise(frame);
                self.note(at, peer, false, frame);
            }
            SwarmEvent::Behaviour(SpeakingEvent::Gossip(Report::Link(
                _,
                event @ (LinkEvent::Up { .. } | LinkEvent::Down { .. }),
            ))) => {
                tracing::info!(?event);
            }
            // Copies are lost, or the peer is no host of this run.
            SwarmEvent::Behaviour(SpeakingEvent::Gossip(Report::Link(_, event))) => tracing::warn!(?event),
            SwarmEvent::ConnectionClosed { peer_id, num_established: 0, cause, .. } => {
                tracing::info!(peer = %peer_id, ?cause, "disconnected");
                let host = self.hosts.numbers.get(&peer_id).copied();
                if let Some(host) = host.filter(|host| self.again.contains(host)) {
                    self.again.retain(|again| *again != host);
                    self.call(host);
                }
            }
            SwarmEvent::OutgoingConnectionError { peer_id, error, .. } => {
                tracing::warn!(peer = ?peer_id, %error, "cannot connect");
            }
            SwarmEvent::ListenerClosed { reason: Err(error), .. }
            | SwarmEvent::ListenerError { error, .. } => {
                tracing::error!(%error, "stopped listening");
            }
            _ => {}
        }
    }
}

/// TCP with Noise and Yamux, and QUIC.
fn transport(
    key: &Keypair,
    meters: &Meters,
) -> Result<libp2p::core::transport::Boxed<(PeerId, StreamMuxerBox)>, Box<dyn Error + Send + Sync>> {
    let tcp = tcp::Transport::new(tcp::Config::default().nodelay(true), meters)
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(yamux::Config::default())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let quic = quic::Transport::new(quic::Config::default(), key, meters)?
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    Ok(tcp.or_transport(quic).map(|either, _| either.into_inner()).boxed())
}

impl<A: App + WithGossipSub + Engine<Event: Send>> Links<A> for Hosting<A> {
    fn dial(&mut self, host: u32) {
        self.call(host);
    }

    fn reconnect(&mut self, host: u32) {
        let Some(peer) = self.hosts.peers.get(host as usize).copied() else { return };
        if self.swarm.disconnect_peer_id(peer).is_ok() {
            self.again.push(host);
        }
    }

    fn command(&mut self, command: A::Command) {
        self.swarm.behaviour_mut().gossip.command(command);
    }

    /// Timers fire and copies leave when the swarm is polled.
    fn settle(&mut self) -> Vec<(Instant, A::Event)> {
        std::mem::take(&mut self.emitted)
    }

    fn take_work(&mut self) -> Vec<Work<A::Command>> {
        self.swarm.behaviour_mut().gossip.with(App::take_work)
    }

    fn frames(&mut self) -> Vec<Moved<RpcFrame>> {
        std::mem::take(&mut self.moved)
    }

    fn next(&mut self, until: Option<Instant>) -> Waiting<'_, ()> {
        Box::pin(async move {
            let event = self.swarm.select_next_some();
            let event = match until {
                Some(until) => tokio::time::timeout_at(until.into(), event).await.ok(),
                None => Some(event.await),
            };
            if let Some(event) = event {
                self.handle(event);
            }
        })
    }

    fn look(&mut self) -> Looked<A::Counters> {
        let behaviour = &mut self.swarm.behaviour_mut().gossip;
        let traffic = behaviour.traffic();
        Looked {
            counters: behaviour.engine().counters(),
            frames_sent: traffic.frames_up,
            payload_bytes_sent: traffic.payload_bytes_up,
            control_bytes_sent: traffic.control_bytes_up,
            frames_received: traffic.frames_down,
            payload_bytes_received: traffic.payload_bytes_down,
            control_bytes_received: traffic.control_bytes_down,
            bytes_sent: traffic.payload_bytes_up + traffic.control_bytes_up,
            bytes_received: traffic.payload_bytes_down + traffic.control_bytes_down,
            withdrawn: behaviour.counters().total().withdrawn.copies,
            owed: behaviour.pending() as u64,
            late_ns: Vec::new(),
        }
    }

    fn finish(mut self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(async move {
            let until = tokio::time::Instant::now() + FINISH_TIMEOUT;
            while self.swarm.behaviour().gossip.sizes().in_flight_bytes > 0 {
                let Ok(event) = tokio::time::timeout_at(until, self.swarm.select_next_some()).await else {
                    return;
                };
                self.handle(event);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::Reader;
    use samara_sim::Connection;

    use super::*;

    struct NoFrames;

    impl FrameCodec<RpcFrame> for NoFrames {
        fn write(&self, _: &RpcFrame, _: &mut Vec<u8>) {}

        fn read(&self, _: &mut Reader<'_>) -> Option<RpcFrame> {
            None
        }
    }

    #[test]
    fn strangers_speak_no_protocol_and_hosts_that_of_their_pair() {
        let token = [7; TOKEN_BYTES];
        let at = SocketAddr::from(([127, 0, 0, 1], 4001));
        let mut place = Place {
            own: 1,
            token,
            listen: at,
            peers: vec![at; 3],
            protocol: Some(Box::new(|dialler, listener| format!("/{dialler}/{listener}").into())),
            transport: Transport::Tcp,
            has_limit: true,
            unsent_bytes: 0,
            connection: Connection::Direct,
        };
        let hosts = Arc::new(Hosts::new(&mut place, Arc::new(NoFrames)));
        let protocol = |peer: &Keypair, is_outbound| {
            let protocols = hosts.protocols(&peer.public().to_peer_id(), is_outbound).expect("a choice");
            protocols.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let other = keypair(&token, 2);
        assert_eq!(protocol(&other, true), ["/1/2"]);
        assert_eq!(protocol(&other, false), ["/2/1"]);
        // The same host of another run.
        assert!(protocol(&keypair(&[8; TOKEN_BYTES], 2), false).is_empty());
        let peer = other.public().to_peer_id();
        assert_eq!(hosts.identity(&peer), identity_of(2));
        assert_eq!(hosts.peer(&identity_of(2)), Some(peer));
        assert_eq!(hosts.peer(&identity_of(3)), None);
    }
}
