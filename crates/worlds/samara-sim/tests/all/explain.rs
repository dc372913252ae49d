//! Where the time went: each cause alone in a closed form, and sums over everything at once.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rustc_hash::FxHashMap;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Schedule};
use samara_engine::uplink::LimitConfig;
use samara_engine::{Context, Engine, Input, NodeRng, Outbox, PeerId, Purpose, Time};
use samara_sim::{
    Arrivals, Cause, Contents, Control, DownlinkQueue, Flush, FqCoDel, GatewayConfig, HostConfig,
    Http2Config, Items, Latency, MConnectionConfig, NicDiscipline, Origin, Parts, QueueSize, QuicConfig,
    SendBuffer, SimConfig, Simulation, StreamOrder, TcpConfig, Transport, Window, host_of, parts_of,
};

use crate::common::*;

const START_NANOS: u64 = START.as_nanos();

/// Records the blobs of a simulation: a hundred consecutive ids are a batch.
fn explain(sim: &mut Simulation<Talker>) {
    sim.explain(|blob: &Blob, _| Contents {
        items: [blob.id].into_iter().collect(),
        batch: Some(blob.id / 100),
        ..Contents::default()
    });
}

/// Runs a simulation for a minute, and returns the arrivals.
fn arrivals(mut sim: Simulation<Talker>, say: impl FnOnce(&mut Simulation<Talker>)) -> Arrivals {
    explain(&mut sim);
    say(&mut sim);
    run(&mut sim, Time::from_secs(60));
    sim.take_arrivals()
}

/// Returns the parts of the path of an item from host 0, which published it at [`START`].
fn parts(arrivals: &Arrivals, host: u32, item: u64) -> Parts {
    let path = arrivals.path(host, item, Origin { host: 0, at: START_NANOS }).expect("it arrives");
    let parts = parts_of(&path);
    assert_eq!(START_NANOS + parts.total(), arrivals.get(host, item).unwrap().at, "{path:?}");
    parts
}

/// Asserts that a path has these parts in milliseconds, and no others.
fn assert_parts(parts: Parts, expected: &[(Cause, f64)]) {
    let close = |cause: Cause| {
        let ms = expected.iter().find(|(other, _)| *other == cause).map_or(0.0, |(_, ms)| *ms);
        (parts.get(cause) as f64 / 1e6 - ms).abs() < 0.02
    };
    assert!(Cause::ALL.into_iter().all(close), "{:?}, not {expected:?}", parts.iter().collect::<Vec<_>>());
}

fn to_all(hosts: Vec<u32>, id: u64, len: u32) -> impl FnOnce(&mut Simulation<Talker>) {
    move |sim| sim.command(START, 0, Say::To { hosts, id, len })
}

fn tcp() -> TcpConfig {
    TcpConfig { delayed_ack: Duration::from_micros(1), ack_every: 1, ..TcpConfig::default() }
}

const STAR: [(u32, u32); 4] = [(0, 1), (0, 2), (0, 3), (0, 4)];

#[test]
fn bytes_of_a_copy_are_serialisation_on_every_transport() {
    let channels = over(None, channels(Flush::WhenIdle));
    let http2 = Transport { control: Control::Ideal, ..Transport::grpc(Default::default()) };
    for transport in [bare(None), bare(Some(tcp())), bare_quic(QuicConfig::default()), channels, http2] {
        let transport = Transport { mss: 1044, header: 0, ..transport };
        let took = parts(&arrivals(pair(config(50, transport.clone()), 8), to_all(vec![1], 7, 5_000)), 1, 7);
        assert_eq!(took.get(Cause::Latency), 50_000_000, "{transport:?}");
        assert!((5_000_000..=6_300_000).contains(&took.get(Cause::Serialisation)), "{transport:?}: {took:?}");
        assert_eq!(took.iter().count(), 2, "{transport:?}: {took:?}");
    }
}

#[test]
fn copies_of_a_batch_wait_for_each_other() {
    // Node dispatch: the copies leave one after the other.
    let sim = network_with(config(50, bare(None)), hosts(5, 8 * MBIT), &STAR, Dispatch::Node, 1);
    let say = |sim: &mut Simulation<Talker>| {
        let schedule = Schedule::INTERLEAVED;
        sim.command(START, 0, Say::Batch { hosts: vec![1, 2, 3, 4], messages: 2, len: 5_000, schedule });
    };
    let arrivals = arrivals(sim, say);
    let mut waits: Vec<u64> = (1..5)
        .flat_map(|host| [0, 1].map(|id| parts(&arrivals, host, id)))
        .map(|parts| {
            let waited = parts.get(Cause::SameBatch);
            let rest = [
                (Cause::SameBatch, waited as f64 / 1e6),
                (Cause::Serialisation, 5.0),
                (Cause::Latency, 50.0),
            ];
            assert_parts(parts, &rest);
            waited / 1_000_000
        })
        .collect();
    waits.sort_unstable();
    assert_eq!(waits, [0, 5, 10, 15, 20, 25, 30, 35]);
}

#[test]
fn other_frames_on_the_link_are_other_traffic() {
    let say = |sim: &mut Simulation<Talker>| {
        to_all(vec![1], 100, 20_000)(sim);
        to_all(vec![1], 7, 5_000)(sim);
    };
    let arrivals = arrivals(pair(config(50, bare(None)), 8), say);
    let expected = [(Cause::OtherTraffic, 20.0), (Cause::Serialisation, 5.0), (Cause::Latency, 50.0)];
    assert_parts(parts(&arrivals, 1, 7), &expected);
}

#[test]
fn other_links_share_the_interface() {
    let tcp = TcpConfig { initial_window: 1000, ..tcp() };
    let sim = network(config(50, bare(Some(tcp))), hosts(5, 8 * MBIT), &STAR);
    let arrivals = arrivals(sim, to_all(vec![1, 2, 3, 4], 7, 25_000));
    // The last segments of the four leave one after the other at the very end.
    for host in 1..5 {
        let interface = f64::from(71 + host);
        let expected = [(Cause::Interface, interface), (Cause::Serialisation, 25.0), (Cause::Latency, 50.0)];
        assert_parts(parts(&arrivals, host, 7), &expected);
    }
}

/// Returns a star of hosts around host 0 whose uplink of 8 Mbit/s, a byte in a microsecond, has an
/// endless queue.
fn star_behind_queue(leaves: u32, tcp: TcpConfig) -> Simulation<Talker> {
    let hosts =
        vec![HostConfig { uplink_bps: 8 * MBIT, downlink_bps: 8_000 * MBIT, region: 0 }; 1 + leaves as usize];
    let edges: Vec<(u32, u32)> = (1..=leaves).map(|host| (0, host)).collect();
    network(behind_queue(bare(Some(tcp))), hosts, &edges)
}

fn behind_queue(transport: Transport) -> SimConfig {
    SimConfig { nic: NicDiscipline::DropTail(QueueSize::Bytes(u64::MAX)), ..config(50, transport) }
}

/// The time that the full token bucket of a queue saves on an uplink of 8 Mbit/s, in milliseconds.
const SAVED_MS: f64 = FqCoDel::BURST_BYTES as f64 / 1e3;

#[test]
fn data_behind_their_connection_wait_in_the_queue_of_the_uplink() {
    let sim = star_behind_queue(2, TcpConfig { initial_window: 1000, ..tcp() });
    let arrivals = arrivals(sim, |sim| {
        to_all(vec![1], 100, 20_000)(sim);
        to_all(vec![2], 200, 10_000)(sim);
        to_all(vec![1], 7, 5_000)(sim);
    });
    // The windows keep nothing back.
    let expected =
        [(Cause::UplinkQueue, 30.0 - SAVED_MS), (Cause::Serialisation, 5.0), (Cause::Latency, 50.0)];
    assert_parts(parts(&arrivals, 1, 7), &expected);
}

/// A packet that a full queue drops does not occupy the uplink on which another one leaves, and the
/// acknowledgements between them are not data of their link.
#[test]
fn packets_that_a_full_queue_drops_move_no_times() {
    let tcp = TcpConfig { initial_window: 1000, ..tcp() };
    let nic = NicDiscipline::DropTail(QueueSize::Bytes(8_000));
    let config = SimConfig { nic, ..config(5, bare(Some(tcp))) };
    let mut sim = network(config, hosts(2, 8 * MBIT), &[(0, 1)]);
    explain(&mut sim);
    for id in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            let at = START + Duration::from_micros(id * 4_700);
            sim.command(at, from, Say::To { hosts: vec![to], id: 100 * u64::from(from) + id, len: 6_001 });
        }
    }
    run(&mut sim, Time::from_secs(60));
    assert!(sim.stats(0).drops.uplink_full.packets > 10, "{:?}", sim.stats(0).drops);
    let arrivals = sim.take_arrivals();
    for id in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            let at = START.as_nanos() + id * 4_700_000;
            let item = 100 * u64::from(from) + id;
            let path = arrivals.path(to, item, Origin { host: from, at }).expect("it arrives");
            assert_eq!(at + parts_of(&path).total(), arrivals.get(to, item).unwrap().at, "{path:?}");
        }
    }
}

#[test]
fn data_in_a_connection_wait_for_its_window_and_not_for_other_links() {
    let arrivals = arrivals(star_behind_queue(11, tcp()), |sim| {
        to_all(vec![1], 7, 20_000)(sim);
        to_all((2..12).collect(), 100, 10_000)(sim);
    });
    // The first window of ten packets leaves first, and those of the other links behind it. The fifth
    // acknowledgement lets out the last two packets, which follow their forerunners out of the queue.
    let (first_left, fifth_ack, others_left) = (10.0 - SAVED_MS, 105.0 - SAVED_MS, 110.0 - SAVED_MS);
    let expected = [
        (Cause::SlowStart, fifth_ack - first_left),
        (Cause::UplinkQueue, others_left - fifth_ack),
        (Cause::Serialisation, first_left + 10.0),
        (Cause::Latency, 50.0),
    ];
    assert_parts(parts(&arrivals, 1, 7), &expected);
}

/// Returns a network with one order over all links, in which blobs are not urgent.
fn ordered(config: SimConfig, hosts: Vec<HostConfig>, edges: &[(u32, u32)]) -> Simulation<Talker> {
    let lanes = vec![LaneConfig::unbounded("data", 1), LaneConfig::unbounded("urgent", 0)];
    let outbox = OutboxConfig { dispatch: Dispatch::Node, lanes };
    let talker = move |_| (Talker::default(), Outbox::new(outbox.clone()));
    let mut sim = Simulation::new(config, hosts, Arc::new(talker)).unwrap();
    edges.iter().for_each(|(a, b)| sim.establish(Time::ZERO, *a, *b));
    sim
}

/// Sends a copy to each of four hosts under a limit over all links, on an uplink that takes no time.
/// Returns what they waited for the limit, the least first, in milliseconds.
fn waits_for_limit(first: u64, len: u32) -> [f64; 4] {
    let tcp = TcpConfig { initial_window: 1000, receive_window: 1000, ..tcp() };
    let limit = Some(LimitConfig { first, ..LimitConfig::default() });
    let config = behind_queue(Transport { limit, ..bare(Some(tcp)) });
    let sim = ordered(config, hosts(5, 1_000_000 * MBIT), &STAR);
    let arrivals = arrivals(sim, to_all(vec![1, 2, 3, 4], 7, len));
    let mut waits = [1, 2, 3, 4].map(|host| {
        let parts = parts(&arrivals, host, 7);
        let waited = parts.get(Cause::NodeLimit) as f64 / 1e6;
        assert_parts(parts, &[(Cause::NodeLimit, waited), (Cause::Latency, 50.0)]);
        waited
    });
    waits.sort_unstable_by(f64::total_cmp);
    waits
}

#[test]
fn copies_in_the_outbox_wait_for_the_limit_over_all_links() {
    // The first copy fills the limit until its first acknowledgement, after a round trip.
    let [first, second, ..] = waits_for_limit(10_000, 10_000);
    assert_eq!(first, 0.0);
    assert!((second - 100.0).abs() < 0.02, "{second}");
}

#[test]
fn pacer_of_the_limit_holds_copies_back() {
    // The pace at the start is twice the limit in a round trip of 100 ms, and what passes in half of
    // the target of 10 ms may leave at once: a copy each after the first, which leaves unpaced.
    let waits = waits_for_limit(1_000_000, 100_000);
    let expected = [0.0, 0.0, 0.0, 5.0];
    assert!(waits.iter().zip(expected).all(|(wait, ms)| (wait - ms).abs() < 0.02), "{waits:?}");
}

/// Sends blobs to the host on their routes; a blob with this number asks for another one, which only
/// host 0 sends.
struct Puller {
    answers: bool,
    peers: FxHashMap<u32, PeerId>,
}

const ASKS: u64 = 1_000;

impl Engine for Puller {
    type Frame = Blob;
    type Command = Blob;
    type Event = ();

    fn handle(&mut self, input: Input<Blob, Blob>, cx: &mut Context<'_, Blob, ()>) {
        let (peer, blob) = match input {
            Input::LinkUp { peer, info } => {
                self.peers.insert(host_of(&info.identity).unwrap(), peer);
                return;
            }
            Input::Command(blob) => (self.peers[&blob.route[0]], blob),
            Input::Frame { peer, frame } if self.answers && frame.id >= ASKS => {
                (peer, Blob { id: frame.id - ASKS, len: 5_000, route: Arc::default() })
            }
            _ => return,
        };
        let now = cx.now();
        cx.outbox().owe(now, peer, Lane(0), blob, None, None).unwrap();
    }
}

#[test]
fn peers_that_do_not_answer_withhold() {
    let lanes = vec![LaneConfig::unbounded("data", 0)];
    let outbox = OutboxConfig { dispatch: Dispatch::PerLink, lanes };
    let puller =
        move |host| (Puller { answers: host == 0, peers: FxHashMap::default() }, Outbox::new(outbox.clone()));
    let mut sim = Simulation::new(config(50, bare(None)), hosts(3, 8 * MBIT), Arc::new(puller)).unwrap();
    sim.explain(|blob: &Blob, _| match blob.id.checked_sub(ASKS) {
        Some(id) => Contents { asked: [id].into_iter().collect(), ..Contents::default() },
        None => {
            let items: Items = [blob.id].into_iter().collect();
            Contents { names: items.clone(), items, ..Contents::default() }
        }
    });
    sim.establish(Time::ZERO, 0, 1);
    sim.establish(Time::ZERO, 2, 1);
    // Host 1 asks host 2 after 70 ms, which has nothing to say, and host 0 after 200 ms; then both
    // again.
    let ask = |from| Blob { id: ASKS + 7, len: 2_000, route: Arc::new(vec![from]) };
    for (ms, host) in [(70, 2), (200, 0), (210, 2), (215, 0)] {
        sim.command(START + Duration::from_millis(ms), 1, ask(host));
    }
    sim.run_until(Time::from_secs(60), |_| {});
    let expected = [
        (Cause::Announcement, 70.0),
        (Cause::Withheld, 130.0),
        // The request's bytes and way.
        (Cause::Request, 52.0),
        (Cause::Serialisation, 5.0),
        (Cause::Latency, 50.0),
    ];
    assert_parts(parts(&sim.take_arrivals(), 1, 7), &expected);
}

/// Sends a blob to every peer as soon as the link is up.
struct Greeter;

impl Engine for Greeter {
    type Frame = Blob;
    type Command = ();
    type Event = ();

    fn handle(&mut self, input: Input<Blob, ()>, cx: &mut Context<'_, Blob, ()>) {
        if let Input::LinkUp { peer, .. } = input {
            let (now, blob) = (cx.now(), Blob { id: 7, len: 1_000, route: Arc::default() });
            cx.outbox().owe(now, peer, Lane(0), blob, None, None).unwrap();
        }
    }
}

#[test]
fn links_that_come_up_late_are_handshakes() {
    let lanes = vec![LaneConfig::unbounded("data", 0)];
    let outbox = OutboxConfig { dispatch: Dispatch::PerLink, lanes };
    let greeter = Arc::new(move |_| (Greeter, Outbox::new(outbox.clone())));
    let mut sim = Simulation::new(config(50, bare(Some(tcp()))), hosts(2, 8_000 * MBIT), greeter).unwrap();
    sim.dial(START, 0, 1);
    sim.explain(|blob: &Blob, _| Contents { items: [blob.id].into_iter().collect(), ..Contents::default() });
    sim.run_until(Time::from_secs(3), |_| {});
    // Four round trips until the dialler's link is up.
    let parts = parts(&sim.take_arrivals(), 1, 7);
    assert_parts(parts, &[(Cause::Handshake, 400.0), (Cause::Latency, 50.0)]);
}

#[test]
fn slow_start_waits_for_acknowledgements() {
    let fixed = SendBuffer::Fixed { bytes: u64::MAX };
    let tcp = TcpConfig { send_buffer: fixed, ..tcp() };
    // Windows of 10, 20 and 40 segments.
    let arrivals = arrivals(pair(config(50, bare(Some(tcp))), 1_000_000), to_all(vec![1], 7, 70_000));
    assert_parts(parts(&arrivals, 1, 7), &[(Cause::SlowStart, 200.0), (Cause::Latency, 50.0)]);
}

#[test]
fn copies_in_the_outbox_wait_for_the_window_of_their_link() {
    for dispatch in [Dispatch::PerLink, Dispatch::Node] {
        let sim =
            network_with(config(50, bare(Some(tcp()))), hosts(2, 1_000_000 * MBIT), &[(0, 1)], dispatch, 1);
        let say = |sim: &mut Simulation<Talker>| (0..7).for_each(|id| to_all(vec![1], id, 10_000)(sim));
        let arrivals = arrivals(sim, say);
        let waited = parts(&arrivals, 1, 6).get(Cause::SlowStart);
        assert!((199_000_000..=201_000_000).contains(&waited), "{dispatch:?}: {waited}");
    }
}

#[test]
fn idle_connections_wait_for_a_window_that_shrank() {
    let sim = pair(config(50, bare(Some(tcp()))), 1_000_000);
    let say = |sim: &mut Simulation<Talker>| {
        sim.command(Time::ZERO, 0, Say::To { hosts: vec![1], id: 100, len: 150_000 });
        sim.command(Time::from_secs(20), 0, Say::To { hosts: vec![1], id: 7, len: 70_000 });
    };
    let arrivals = arrivals(sim, say);
    let path = arrivals.path(1, 7, Origin { host: 0, at: Time::from_secs(20).as_nanos() }).unwrap();
    assert_parts(parts_of(&path), &[(Cause::IdleRestart, 200.0), (Cause::Latency, 50.0)]);
}

#[test]
fn receive_window_and_credit_are_flow_control() {
    let tcp = TcpConfig { receive_window: 10, initial_window: 100, ..tcp() };
    let of_tcp = arrivals(pair(config(50, bare(Some(tcp))), 1_000_000), to_all(vec![1], 7, 30_000));
    assert_parts(parts(&of_tcp, 1, 7), &[(Cause::FlowControl, 200.0), (Cause::Latency, 50.0)]);
    let window = Window::Fixed { bytes: 65_535 };
    let http2 = Transport { control: Control::Ideal, ..Transport::grpc(Http2Config { window }) };
    let of_http2 = arrivals(pair(config(50, http2), 1_000_000), to_all(vec![1], 7, 100_000));
    assert_eq!(parts(&of_http2, 1, 7).first(), Some(Cause::FlowControl));
}

#[test]
fn pacer_holds_packets_back() {
    let quic = QuicConfig { initial_window: 100, pacing: true, ..QuicConfig::default() };
    let sim = pair(config(50, bare_quic(quic)), 1_000_000);
    let say = |sim: &mut Simulation<Talker>| {
        sim.command(Time::ZERO, 0, Say::To { hosts: vec![1], id: 100, len: 10_000 });
        to_all(vec![1], 7, 40_000)(sim);
    };
    let parts = parts(&arrivals(sim, say), 1, 7);
    assert_eq!(parts.first(), Some(Cause::Latency), "{parts:?}");
    assert!(parts.get(Cause::Pacing) > 10_000_000, "{parts:?}");
}

#[test]
fn channels_wait_for_their_flush() {
    let flush = Flush::Throttle(Duration::from_millis(100));
    let sim = two_lanes(config(50, over(Some(tcp()), channels(flush))), hosts(2, 1000 * MBIT), &[(0, 1)]);
    let arrivals = arrivals(sim, to_all(vec![1], 7, 500));
    let parts = parts(&arrivals, 1, 7);
    assert!((parts.get(Cause::Flush), parts.get(Cause::Latency)) == (100_000_000, 50_000_000), "{parts:?}");
}

#[test]
fn gateways_and_downlinks_have_their_own_causes() {
    let mut slow = hosts(5, 80 * MBIT);
    slow[0].downlink_bps = 8 * MBIT;
    let mut sim = network(config(50, bare(None)), slow, &STAR);
    explain(&mut sim);
    for host in 1..5 {
        sim.command(START, host, Say::To { hosts: vec![0], id: u64::from(host), len: 25_000 });
    }
    run(&mut sim, Time::from_secs(3));
    let arrivals = sim.take_arrivals();
    let last =
        (1..5).map(|host| arrivals.path(0, host, Origin { host: host as u32, at: START_NANOS }).unwrap());
    let last = last.map(|path| parts_of(&path).get(Cause::Downlink)).max().unwrap();
    // All have arrived after 2.5 ms; the downlink is busy for 100 ms with them.
    assert!((96_500_000..=96_700_000).contains(&last), "{last}");

    let mut config = config(10, bare(None));
    let rows = [[1, 50], [50, 1]].map(|row| row.map(Duration::from_millis).to_vec());
    config.network.latency = Latency::Regions(rows.to_vec());
    let queue = DownlinkQueue::DropTail { bytes: u64::MAX };
    config.network.gateways = vec![GatewayConfig { up_bps: 8 * MBIT, down_bps: 8000 * MBIT, queue }; 2];
    let of = |region| HostConfig { uplink_bps: 800 * MBIT, downlink_bps: 800 * MBIT, region };
    let arrivals = self::arrivals(network(config, vec![of(0), of(1)], &[(0, 1)]), to_all(vec![1], 7, 10_000));
    // Ten segments of 1 ms each, less what the uplink takes for them.
    assert_parts(
        parts(&arrivals, 1, 7),
        &[(Cause::Gateway, 9.9), (Cause::Latency, 50.0), (Cause::Serialisation, 0.1)],
    );
}

#[test]
fn repeated_packets_and_those_behind_them_are_losses() {
    let mut config = config(50, bare(Some(tcp())));
    config.network.loss = 0.2;
    let lost = (0..40).map(|seed| {
        let config = SimConfig { seed, ..config.clone() };
        parts(&arrivals(pair(config, 1_000_000), to_all(vec![1], 7, 5_000)), 1, 7)
    });
    let lost: Vec<Parts> = lost.filter(|parts| parts.total() > 60_000_000).collect();
    assert!(lost.len() > 10);
    for parts in lost {
        assert_eq!(parts.first(), Some(Cause::Loss), "{parts:?}");
        assert!(parts.get(Cause::Latency) == 50_000_000, "{parts:?}");
    }
}

#[test]
fn copies_that_are_owed_later_have_the_cause_of_their_trigger() {
    let arrivals = arrivals(pair(config(50, bare(None)), 8), |sim| {
        sim.command(Time::from_millis(1250), 0, Say::To { hosts: vec![1], id: 7, len: 5_000 });
    });
    // Nothing but the application delays a command.
    assert_parts(
        parts(&arrivals, 1, 7),
        &[(Cause::Processor, 250.0), (Cause::Serialisation, 5.0), (Cause::Latency, 50.0)],
    );
}

#[test]
fn copies_in_the_queue_of_an_uplink_outlive_their_link() {
    let tcp = TcpConfig { initial_window: 1000, ..tcp() };
    let sim = network(fair_queues(config(50, bare(Some(tcp)))), hosts(2, 8 * MBIT), &[(0, 1)]);
    let arrivals = arrivals(sim, |sim| {
        to_all(vec![1], 7, 60_000)(sim);
        // All segments wait in the queue of the uplink, which the operating system still sends.
        sim.crash(START + Duration::from_millis(10), 0, false);
    });
    let parts = parts(&arrivals, 1, 7);
    assert_eq!(parts.get(Cause::Latency), 50_000_000, "{parts:?}");
    assert!(parts.get(Cause::Serialisation) > 40_000_000, "{parts:?}");
}

/// Returns every transport, all in use somewhere.
fn transports() -> Vec<(Transport, usize)> {
    let quic = QuicConfig { streams: StreamOrder::PerFrame, ..QuicConfig::default() };
    // Channels with limits of both rates.
    let limited =
        MConnectionConfig { send_rate: 500_000, receive_rate: 300_000, ..channels(Flush::WhenIdle) };
    vec![
        (bare(None), 1),
        (Transport::tcp(), 1),
        (Transport::quic(), 1),
        (Transport { control: Control::Quic(quic), ..Transport::quic() }, 1),
        (Transport::udp(), 1),
        (Transport::grpc(Default::default()), 1),
        (over(Some(TcpConfig::default()), channels(Flush::Throttle(Duration::from_millis(20)))), 2),
        (over(Some(TcpConfig::default()), limited), 2),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The parts of every path add up to its time under loss, jitter and faults, and the record
    /// changes nothing.
    #[test]
    fn parts_add_up(
        seed in 0..u64::MAX,
        transport in 0..8_usize,
        node_dispatch in any::<bool>(),
        queue in 0..3_u32,
        first in prop_oneof![Just(10_000), Just(256_000)],
        mbit in 2..50_u64,
    ) {
        let (transport, lanes) = transports().swap_remove(transport);
        let dispatch =
            if node_dispatch && lanes == 1 { Dispatch::Node } else { Dispatch::PerLink };
        let mut digests = Vec::new();
        for explained in [false, true] {
            let mut rng = NodeRng::new(seed, 0, Purpose::Workload);
            let mut config = rough(seed, &transport);
            config.downlink_queue = DownlinkQueue::DropTail { bytes: 60_000 };
            config.transport.limit = Some(LimitConfig { first, ..LimitConfig::default() });
            if queue == 1 {
                config = fair_queues(config);
            } else if queue == 2 {
                config.nic = NicDiscipline::DropTail(QueueSize::Bytes(60_000));
            }
            let edges = pairs(12, 0.4, &mut rng);
            let is_ideal = config.transport.control == Control::Ideal;
            let mut sim = match dispatch {
                Dispatch::Node => ordered(config, hosts(12, mbit * MBIT), &edges),
                Dispatch::PerLink => network_with(config, hosts(12, mbit * MBIT), &edges, dispatch, lanes),
            };
            if explained {
                explain(&mut sim);
            }
            let mut said = Vec::new();
            for id in 0..150 {
                let at = Time::from_millis(1000 + rng.below(3000));
                let from = rng.below(12) as u32;
                let route = (0..5).map(|_| rng.below(12) as u32).collect();
                sim.command(at, from, Say::Along { route, id, len: 100 + rng.below(30_000) as u32 });
                said.push((from, at));
            }
            sim.crash(Time::from_millis(2100), 3, false);
            sim.restart(Time::from_millis(2600), 3);
            sim.crash(Time::from_millis(2200), 4, true);
            sim.set_rates(Time::from_millis(1800), 5, MBIT, MBIT);
            run(&mut sim, Time::from_secs(120));
            digests.push(sim.digest());
            let arrivals = sim.take_arrivals();
            let mut paths = 0;
            for host in 0..12 {
                for (item, arrival) in arrivals.at(host) {
                    let (publisher, at) = said[item as usize];
                    if publisher == host {
                        continue;
                    }
                    let at = at.as_nanos();
                    let path = arrivals.path(host, item, Origin { host: publisher, at }).unwrap();
                    prop_assert_eq!(parts_of(&path).total(), arrival.at - at);
                    prop_assert!(path.windows(2).all(|hops| hops[0].at == hops[1].since));
                    prop_assert!(path.iter().all(|hop| hop.parts.total() == hop.at - hop.since));
                    let without: &[Cause] = if queue == 0 || is_ideal {
                        &[Cause::Unknown, Cause::NodeLimit, Cause::UplinkQueue]
                    } else {
                        &[Cause::Unknown, Cause::Interface]
                    };
                    prop_assert!(without.iter().all(|cause| parts_of(&path).get(*cause) == 0), "{:?}", path);
                    paths += 1;
                }
            }
            prop_assert!(!explained || paths > 5, "{} paths", paths);
        }
        prop_assert_eq!(digests[0], digests[1]);
    }
}
