//! A node that sends blobs on command and forwards them along a chain, and networks of such nodes.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Owe, Schedule};
use samara_engine::{Context, Engine, Frame, Input, MessageKey, NodeRng, Outbox, PeerId, Time, TimerToken};
use samara_sim::{
    ChannelConfig, Control, DownlinkQueue, Flush, FqCoDel, Framing, HostConfig, Latency, MConnectionConfig,
    Network, NicDiscipline, NodeFactory, QuicConfig, Record, SimConfig, Simulation, TcpConfig, Transport,
    host_of,
};

pub(crate) const MBIT: u64 = 1_000_000;
/// The time at which most tests begin to send.
pub(crate) const START: Time = Time::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) id: u64,
    pub(crate) len: u32,
    /// The remaining route of the blob, the next host last.
    pub(crate) route: Arc<Vec<u32>>,
}

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        self.len as usize
    }

    fn payload_len(&self) -> usize {
        self.len as usize
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Say {
    // Sends one blob to each of these hosts.
    To { hosts: Vec<u32>, id: u64, len: u32 },
    // Sends a blob along these hosts.
    Along { route: Vec<u32>, id: u64, len: u32 },
    On { lane: u8, host: u32, id: u64, len: u32 },
    // Sends messages to all hosts by this schedule.
    Batch { hosts: Vec<u32>, messages: u64, len: u32, schedule: Schedule },
    Dial(u32),
    Close(u32),
    Remind(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Blob { from: u32, id: u64 },
    Up { peer: u32, outbound: bool },
    Down { peer: u32 },
    DialFailed { peer: u32 },
    Reminder,
}

#[derive(Default)]
pub(crate) struct Talker {
    peers: FxHashMap<u32, PeerId>,
    hosts: FxHashMap<PeerId, u32>,
}

impl Engine for Talker {
    type Frame = Blob;
    type Command = Say;
    type Event = Heard;

    fn handle(&mut self, input: Input<Blob, Say>, cx: &mut Context<'_, Blob, Heard>) {
        match input {
            Input::Start => {}
            Input::LinkUp { peer, info } => {
                let host = host_of(&info.identity).unwrap();
                self.peers.insert(host, peer);
                self.hosts.insert(peer, host);
                cx.emit(Heard::Up { peer: host, outbound: info.outbound });
            }
            Input::LinkDown { peer } => {
                let host = self.hosts[&peer];
                cx.emit(Heard::Down { peer: host });
            }
            Input::DialFailed { identity } => {
                cx.emit(Heard::DialFailed { peer: host_of(&identity).unwrap() })
            }
            Input::Frame { peer, frame } => {
                cx.emit(Heard::Blob { from: self.hosts[&peer], id: frame.id });
                self.pass_on(frame.route.to_vec(), frame.id, frame.len, cx);
            }
            Input::Timer(TimerToken(_)) => cx.emit(Heard::Reminder),
            Input::Command(say) => self.say(say, cx),
        }
    }
}

impl Talker {
    fn say(&mut self, say: Say, cx: &mut Context<'_, Blob, Heard>) {
        match say {
            Say::To { hosts, id, len } => {
                for host in hosts {
                    self.pass_on(vec![host], id, len, cx);
                }
            }
            Say::On { lane, host, id, len } => self.owe(Lane(lane), vec![host], id, len, cx),
            Say::Along { route, id, len } => self.pass_on(route.into_iter().rev().collect(), id, len, cx),
            Say::Batch { hosts, messages, len, schedule } => {
                let peers: Vec<PeerId> = hosts.iter().map(|host| self.peers[host]).collect();
                let batch: Vec<Owe<Blob>> = (0..messages)
                    .map(|id| Owe {
                        message: MessageKey(id),
                        frame: Blob { id, len, route: Arc::default() },
                        peers: peers.clone(),
                        deadline: None,
                    })
                    .collect();
                let now = cx.now();
                let mut lost = Vec::new();
                let (outbox, rng) = cx.outbox_and_rng();
                outbox.owe_batch(now, Lane(0), batch, &schedule, rng, &mut lost);
                assert!(lost.is_empty());
            }
            Say::Dial(host) => cx.dial(samara_sim::identity_of(host)),
            Say::Close(host) => cx.close(self.peers[&host]),
            Say::Remind(after) => {
                let at = cx.now() + after;
                cx.set_timer(at, TimerToken(1));
            }
        }
    }

    fn pass_on(&mut self, route: Vec<u32>, id: u64, len: u32, cx: &mut Context<'_, Blob, Heard>) {
        self.owe(Lane(0), route, id, len, cx);
    }

    fn owe(&mut self, lane: Lane, mut route: Vec<u32>, id: u64, len: u32, cx: &mut Context<'_, Blob, Heard>) {
        let Some(next) = route.pop() else { return };
        let Some(peer) = self.peers.get(&next).copied() else { return };
        let now = cx.now();
        let blob = Blob { id, len, route: Arc::new(route) };
        let _ = cx.outbox().owe(now, peer, lane, blob, Some(MessageKey(id)), None);
    }
}

/// Returns a factory of nodes whose outboxes have this many lanes.
pub(crate) fn talkers(dispatch: Dispatch, lanes: usize) -> NodeFactory<Talker> {
    Arc::new(move |_| {
        let lanes = vec![LaneConfig::unbounded("data", 0); lanes];
        (Talker::default(), Outbox::new(OutboxConfig { dispatch, lanes }))
    })
}

/// The channels of a transaction pool, one for each of two lanes, without pings and limits.
pub(crate) fn channels(flush: Flush) -> MConnectionConfig {
    let channel = |id, priority, lane| ChannelConfig { id, priority, queue: 1, lanes: vec![Lane(lane)] };
    MConnectionConfig {
        flush,
        ping_interval: Duration::ZERO,
        send_rate: 0,
        receive_rate: 0,
        ..MConnectionConfig::cometbft(vec![channel(0x30, 6, 0), channel(0x31, 5, 1)])
    }
}

/// Channels over TCP, or over the ideal transport.
pub(crate) fn over(tcp: Option<TcpConfig>, config: MConnectionConfig) -> Transport {
    Transport { control: tcp.map_or(Control::Ideal, Control::Tcp), ..Transport::mconnection(config) }
}

/// A transport without framing, headers and handshake cost worth the name, to keep closed forms
/// short.
pub(crate) fn bare(tcp: Option<TcpConfig>) -> Transport {
    let control = tcp.map_or(Control::Ideal, Control::Tcp);
    Transport { mss: 1000, header: 0, framing: Framing::PLAIN, control, ..Transport::tcp() }
}

/// The same transport with QUIC.
pub(crate) fn bare_quic(quic: QuicConfig) -> Transport {
    let control = Control::Quic(quic);
    Transport { mss: 1000, header: 0, framing: Framing::PLAIN, control, ..Transport::quic() }
}

pub(crate) fn config(latency_ms: u64, transport: Transport) -> SimConfig {
    SimConfig {
        seed: 1,
        threads: 1,
        network: Network::uniform(Duration::from_millis(latency_ms)),
        transport,
        nic: NicDiscipline::RoundRobin,
        downlink_queue: DownlinkQueue::DropTail { bytes: u64::MAX },
    }
}

/// A configuration with different latencies, jitter, and loss if the transport can repair it.
pub(crate) fn rough(seed: u64, transport: &Transport) -> SimConfig {
    let mut config = config(10, transport.clone());
    config.seed = seed;
    config.network.latency =
        Latency::Uniform { min: Duration::from_millis(3), max: Duration::from_millis(80) };
    config.network.jitter = Duration::from_millis(4);
    config.network.loss = if transport.control == Control::Ideal { 0.0 } else { 0.01 };
    config
}

/// Returns the configuration with FQ-CoDel at both ends, with few buckets, so that flows share them.
pub(crate) fn fair_queues(config: SimConfig) -> SimConfig {
    let fair = FqCoDel { buckets: 16, ..FqCoDel::default() };
    SimConfig { nic: NicDiscipline::FqCoDel(fair), downlink_queue: DownlinkQueue::FqCoDel(fair), ..config }
}

/// Returns random pairs of hosts.
pub(crate) fn pairs(hosts: u32, chance: f64, rng: &mut NodeRng) -> Vec<(u32, u32)> {
    let all = (0..hosts).flat_map(|a| (a + 1..hosts).map(move |b| (a, b)));
    all.filter(|_| rng.chance(chance)).collect()
}

/// Lets random hosts send blobs along random routes, within three seconds.
pub(crate) fn chatter(sim: &mut Simulation<Talker>, hosts: u32, blobs: u64, rng: &mut NodeRng) {
    for id in 0..blobs {
        let at = Time::from_millis(1000 + rng.below(3000));
        let route = (0..5).map(|_| rng.below(hosts.into()) as u32).collect();
        let say = Say::Along { route, id, len: 100 + rng.below(30_000) as u32 };
        sim.command(at, rng.below(hosts.into()) as u32, say);
    }
}

pub(crate) fn hosts(n: usize, bps: u64) -> Vec<HostConfig> {
    vec![HostConfig { uplink_bps: bps, downlink_bps: bps, region: 0 }; n]
}

pub(crate) fn network(config: SimConfig, hosts: Vec<HostConfig>, edges: &[(u32, u32)]) -> Simulation<Talker> {
    network_with(config, hosts, edges, Dispatch::PerLink, 1)
}

/// Returns two hosts with a link, with a rate in Mbit/s.
pub(crate) fn pair(config: SimConfig, mbit: u64) -> Simulation<Talker> {
    network(config, hosts(2, mbit * MBIT), &[(0, 1)])
}

/// Returns a network of nodes whose outboxes have two lanes.
pub(crate) fn two_lanes(
    config: SimConfig,
    hosts: Vec<HostConfig>,
    edges: &[(u32, u32)],
) -> Simulation<Talker> {
    network_with(config, hosts, edges, Dispatch::PerLink, 2)
}

pub(crate) fn network_with(
    config: SimConfig,
    hosts: Vec<HostConfig>,
    edges: &[(u32, u32)],
    dispatch: Dispatch,
    lanes: usize,
) -> Simulation<Talker> {
    let mut sim = Simulation::new(config, hosts, talkers(dispatch, lanes)).unwrap();
    for (a, b) in edges {
        sim.establish(Time::ZERO, *a, *b);
    }
    sim
}

pub(crate) fn run(sim: &mut Simulation<Talker>, until: Time) -> Vec<Record<Heard>> {
    let mut records = Vec::new();
    sim.run_until(until, |record| records.push(record));
    records
}

/// Returns the received blobs in the order of reception: (time, host, id).
pub(crate) fn heard(records: &[Record<Heard>]) -> Vec<(Time, u32, u64)> {
    let blob = |record: &Record<Heard>| match record.event {
        Heard::Blob { id, .. } => Some((record.at, record.host, id)),
        _ => None,
    };
    records.iter().filter_map(blob).collect()
}

/// Lets host 0 send blobs of these lengths to host 1 at [`START`]. Returns the time of each
/// reception, in milliseconds after that, and the id.
pub(crate) fn transfer(sim: &mut Simulation<Talker>, lens: &[u32]) -> Vec<(f64, u64)> {
    for (id, len) in (0..).zip(lens) {
        sim.command(START, 0, Say::To { hosts: vec![1], id, len: *len });
    }
    let heard = heard(&run(sim, Time::from_secs(3600)));
    heard.iter().map(|(at, _, id)| (at.as_millis_f64() - 1000.0, *id)).collect()
}

/// Returns the time of reception of the only blob of a [`transfer`].
pub(crate) fn one(sim: &mut Simulation<Talker>, len: u32) -> f64 {
    let heard = transfer(sim, &[len]);
    assert_eq!(heard.len(), 1, "{heard:?}");
    heard[0].0
}

/// Asserts that two times in milliseconds differ by no more than the rounding to nanoseconds per
/// packet.
pub(crate) fn assert_close(found: f64, expected: f64, what: &dyn std::fmt::Debug) {
    assert!((found - expected).abs() < 0.01, "{what:?}: {found} ms, not {expected}");
}

/// Returns true if two times differ by no more than the rounding to nanoseconds per packet.
pub(crate) fn close_to(found: Time, expected_ms: f64) -> bool {
    (found.as_millis_f64() - expected_ms).abs() < 0.01
}
