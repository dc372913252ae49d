use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use proptest::prelude::*;

use super::*;
use crate::{NodeRng, Purpose};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Two packets, which are acknowledged at once.
const PACKET: u64 = 3_000;

const fn flight(in_flight: u64) -> Load {
    Load { in_flight, waiting: 0 }
}

/// A node that always has data for all its links, behind one queue.
struct Model {
    /// Rate of the uplink, in bits per second.
    rate: u64,
    /// The least round trip of each link.
    trips: Vec<u64>,
    /// The most that an acknowledgement is late, drawn uniformly.
    jitter: u64,
    loss: f64,
    /// The time of a full queue, beyond which packets are lost.
    queue: u64,
    /// Links whose peers receive a packet only in this time.
    slow: BTreeMap<usize, u64>,
    /// Links whose peers stop reading after their first packets, each with this many bytes.
    stopped: BTreeMap<usize, u64>,
    /// The part of the uplink that others take, without regard to its queue.
    others: f64,
    /// The queue of others, in nanoseconds, from one time until another.
    standing: (u64, u64, u64),
}

/// The figures of the second half of a run.
#[derive(Debug)]
struct Outcome {
    /// Bytes that left, in relation to what the uplink passes.
    use_of_uplink: f64,
    /// Mean and largest time of a packet in the queue, in milliseconds.
    wait: f64,
    wait_max: f64,
}

impl Model {
    fn new(mbits: f64, trip: u64) -> Self {
        Self {
            rate: (mbits * 1e6) as u64,
            trips: vec![trip * MS; 40],
            jitter: 0,
            loss: 0.0,
            queue: S,
            slow: BTreeMap::new(),
            stopped: BTreeMap::new(),
            others: 0.0,
            standing: (0, 0, 0),
        }
    }

    fn run(&self, limit: &mut Limit, until: u64) -> Outcome {
        let mut rng = NodeRng::new(1, 0, Purpose::Transport);
        let nanos = |bytes: u64| (bytes as f64 * 8e9 / (self.rate as f64 * (1.0 - self.others))) as u64;
        // Times, links, and the times at which the packets left; `None` for lost ones.
        let mut acks: BinaryHeap<Reverse<(u64, usize, Option<u64>)>> = BinaryHeap::new();
        let mut under_way = vec![0_u64; self.trips.len()];
        let mut peer_free = vec![0_u64; self.trips.len()];
        let mut lost = vec![0_u64; self.trips.len()];
        for (link, trip) in self.trips.iter().enumerate() {
            limit.link_up(Time::ZERO, PeerId(link as u32), Some(Duration::from_nanos(*trip)));
        }
        let (mut now, mut free_at, mut turn) = (0, 0_u64, 0);
        let (mut left, mut waits, mut most, mut packets) = (0, 0, 0, 0_u64);
        for (link, bytes) in &self.stopped {
            under_way[*link] = *bytes;
            limit.set_load(Time::ZERO, PeerId(*link as u32), flight(*bytes));
        }
        while now < until {
            while limit.room(Time::from_nanos(now)) > 0 {
                while self.stopped.contains_key(&(turn % self.trips.len())) {
                    turn += 1;
                }
                let link = turn % self.trips.len();
                turn += 1;
                under_way[link] += PACKET;
                limit.set_load(Time::from_nanos(now), PeerId(link as u32), flight(under_way[link]));
                let wait = free_at.saturating_sub(now);
                let is_lost = wait > self.queue || self.loss > 0.0 && rng.chance(self.loss);
                if is_lost {
                    // The sender learns it with later packets, after about a round trip.
                    acks.push(Reverse((now + wait + self.trips[link], link, None)));
                    continue;
                }
                free_at = free_at.max(now) + nanos(PACKET);
                if now > until / 2 {
                    (left, packets) = (left + PACKET, packets + 1);
                    (waits, most) = (waits + wait, most.max(wait));
                }
                let late = (rng.unit() * self.jitter as f64) as u64;
                let (standing, from, until) = self.standing;
                let behind = if (from..until).contains(&now) { standing } else { 0 };
                let mut arrives = free_at + behind + self.trips[link] + late;
                if let Some(slow) = self.slow.get(&link) {
                    peer_free[link] = peer_free[link].max(arrives) + slow;
                    arrives = peer_free[link];
                }
                acks.push(Reverse((arrives, link, Some(now))));
            }
            let paced = limit.next_at().map_or(u64::MAX, Time::as_nanos);
            let acked = acks.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            assert!(paced.min(acked) < u64::MAX, "the node never sends again");
            now = paced.min(acked).max(now);
            while acks.peek().is_some_and(|Reverse((at, ..))| *at <= now)
                && let Some(Reverse((_, link, sent))) = acks.pop()
            {
                under_way[link] -= PACKET;
                let (peer, at) = (PeerId(link as u32), Time::from_nanos(now));
                let Some(sent) = sent else {
                    lost[link] += PACKET;
                    let (lost, load) = (lost[link], flight(under_way[link]));
                    limit.report(at, peer, Report { lost, load, ..Report::default() });
                    continue;
                };
                {
                    let round_trip = Duration::from_nanos(now - sent);
                    let load = flight(under_way[link]);
                    let lost = lost[link];
                    let report = Report { arrived: PACKET, round_trip, lost, load, ..Report::default() };
                    limit.report(at, peer, report);
                }
            }
        }
        let passed = self.rate as f64 * (1.0 - self.others) / 8.0 * (until / 2) as f64 / 1e9;
        Outcome {
            use_of_uplink: left as f64 / passed,
            wait: waits as f64 / packets.max(1) as f64 / MS as f64,
            wait_max: most as f64 / MS as f64,
        }
    }

    fn outcome(&self) -> Outcome {
        self.run(&mut Limit::new(LimitConfig::default()), 10 * S)
    }
}

#[test]
fn any_rate_and_latency_is_used_with_a_short_queue() {
    for mbits in [2.0, 5.0, 20.0, 100.0, 1_000.0] {
        for trip in [2, 20, 100, 600] {
            if mbits * trip as f64 > 100_000.0 {
                // Debug builds take seconds for so many packets.
                continue;
            }
            // Where a round trip is long, the start is.
            let until = if trip > 300 { 60 * S } else { 10 * S };
            let found = Model::new(mbits, trip).run(&mut Limit::new(LimitConfig::default()), until);
            assert!(found.use_of_uplink > 0.9, "{mbits} Mbit/s, {trip} ms: {found:?}");
            let burst = TARGET_BYTES * 8.0 / (mbits * 1e3);
            let most = 30.0_f64.max(0.15 * trip as f64).max(burst);
            assert!(found.wait < most, "{mbits} Mbit/s, {trip} ms: {found:?}");
        }
    }
}

#[test]
fn a_cold_node_reaches_the_rate_in_a_few_round_trips() {
    for (mbits, trips) in [(20.0, 5), (100.0, 6)] {
        let model = Model::new(mbits, 100);
        let found = model.run(&mut Limit::new(LimitConfig::default()), 2 * trips * 100 * MS);
        assert!(found.use_of_uplink > 0.75, "{mbits} Mbit/s: {found:?}");
    }
}

#[test]
fn four_hundred_cold_links_start_with_a_few_windows() {
    let mut limit = Limit::new(LimitConfig::default());
    let mut sent = 0;
    for link in 0..400 {
        limit.link_up(Time::ZERO, PeerId(link), Some(Duration::from_millis(100)));
        if limit.room(Time::ZERO) > 0 {
            limit.set_load(Time::ZERO, PeerId(link), flight(14_600));
            sent += 14_600;
        }
    }
    // And no 5.8 MB: a window more than the pacer lets out at once.
    assert_eq!(sent, 3 * 14_600);
}

#[test]
fn latencies_of_links_may_differ() {
    let trips = (0..40).map(|link| (5 + 15 * link) * MS).collect();
    let found = Model { trips, ..Model::new(20.0, 0) }.outcome();
    assert!(found.use_of_uplink > 0.9 && found.wait < 30.0, "{found:?}");
}

#[test]
fn jitter_and_loss_cost_little() {
    let jitter = Model { jitter: 10 * MS, ..Model::new(20.0, 100) }.outcome();
    assert!(jitter.use_of_uplink > 0.85 && jitter.wait < 40.0, "{jitter:?}");
    let loss = Model { loss: 0.01, ..Model::new(20.0, 100) }.outcome();
    assert!(loss.use_of_uplink > 0.9 && loss.wait < 30.0, "{loss:?}");
}

#[test]
fn a_few_slow_peers_are_no_slow_uplink() {
    // Four of 40 receive at 0.1 Mbit/s, a fifth of their share.
    let slow = (0..4).map(|link| (link, 120 * MS)).collect();
    let mut model = Model { slow, ..Model::new(20.0, 100) };
    model.trips.truncate(40);
    let found = model.run(&mut Limit::new(LimitConfig::default()), 2 * S);
    assert!(found.use_of_uplink > 0.5, "{found:?}");
}

#[test]
fn peers_that_stop_reading_hold_nothing_back() {
    let stopped = (0..10).map(|link| (link, 64 << 10)).collect();
    let found = Model { stopped, ..Model::new(20.0, 100) }.outcome();
    assert!(found.use_of_uplink > 0.9, "{found:?}");
}

#[test]
fn a_short_queue_loses_little_after_the_start() {
    let found = Model { queue: 100 * MS, ..Model::new(20.0, 100) }.outcome();
    assert!(found.use_of_uplink > 0.9 && found.wait_max < 100.0, "{found:?}");
}

#[test]
fn it_finds_a_smaller_share_and_a_larger_one() {
    let mut limit = Limit::new(LimitConfig::default());
    for mbits in [20.0, 5.0, 40.0] {
        let found = Model::new(mbits, 100).run(&mut limit, 10 * S);
        assert!(found.use_of_uplink > 0.9 && found.wait < 30.0, "{mbits} Mbit/s: {found:?}");
        let rate = limit.rate() * 8.0 / 1e6;
        assert!((0.8 * mbits..1.25 * mbits).contains(&rate), "{mbits} Mbit/s, estimated {rate}");
    }
}

#[test]
fn a_longer_route_counts_after_two_minutes() {
    let mut link = Link { least: [100 * MS, u64::MAX], ..Link::default() };
    link.sample(S, 150 * MS);
    assert_eq!(link.least(), 100 * MS);
    link.sample(61 * S, 150 * MS);
    assert_eq!(link.least(), 100 * MS);
    link.sample(122 * S, 150 * MS);
    assert_eq!(link.least(), 150 * MS);
}

#[test]
fn acknowledgements_that_wait_are_no_queue() {
    let mut limit = Limit::new(LimitConfig::default());
    limit.link_up(Time::ZERO, PeerId(0), Some(Duration::from_millis(100)));
    for step in 1..100 {
        let now = Time::from_nanos(step * 200 * MS);
        limit.set_load(now, PeerId(0), flight(40_000));
        let round_trip = Duration::from_millis(140);
        let ack_delay = TCP_ACK_DELAY;
        limit.report(now, PeerId(0), Report { arrived: 1_400, round_trip, ack_delay, ..Report::default() });
    }
    assert_eq!(limit.delay(), Duration::ZERO);
    assert!(limit.bytes() >= LimitConfig::default().first);
}

/// A call of 50 packets a second has its packets in the same queue.
#[test]
fn a_call_waits_no_longer_than_the_target_allows() {
    for mbits in [5.0, 20.0, 100.0] {
        let found = Model::new(mbits, 50).outcome();
        assert!(found.wait < 30.0, "{mbits} Mbit/s: {found:?}");
    }
}

proptest! {
    /// Transports may report anything, in any order and at any time.
    #[test]
    fn sums_are_right_and_the_limit_stays_sane(
        steps in prop::collection::vec(
            (0..5_u8, 0..4_u32, 0..u64::from(u32::MAX), 0..u64::from(u32::MAX), 0..10 * S),
            1..200,
        ),
    ) {
        let mut limit = Limit::new(LimitConfig::default());
        let mut links: BTreeMap<u32, u64> = BTreeMap::new();
        for (what, link, bytes, more, at) in steps {
            // Times need not be in order.
            let (now, peer) = (Time::from_nanos(at), PeerId(link));
            let load = Load { in_flight: bytes / 2, waiting: bytes - bytes / 2 };
            match what {
                0 => {
                    let trip = (bytes % 2 == 0).then(|| Duration::from_nanos(more));
                    limit.link_up(now, peer, trip);
                    links.insert(link, 0);
                }
                1 => {
                    limit.link_down(peer);
                    links.remove(&link);
                }
                2 => limit.set_load(now, peer, load),
                _ => {
                    let round_trip = Duration::from_nanos(more);
                    limit.report(now, peer, Report { arrived: more, round_trip, load, ..Report::default() });
                }
            }
            if what >= 2 && let Some(under_way) = links.get_mut(&link) {
                *under_way = bytes;
            }
            // Links that stall do not count.
            prop_assert!(limit.under_way() <= links.values().sum::<u64>());
            let unstalled = limit.links.connected().iter().filter_map(|peer| limit.links.get(*peer));
            let sum = unstalled.filter(|link| !link.is_stalled).map(|link| link.load.total()).sum::<u64>();
            prop_assert_eq!(limit.under_way(), sum);
            prop_assert!(limit.bytes() >= LimitConfig::default().least);
            prop_assert!(limit.room(now) <= limit.bytes());
            prop_assert!(limit.rate().is_finite());
        }
    }
}

/// Half of a load far beyond the limit is still more than the limit.
#[test]
fn a_long_queue_never_raises_the_limit() {
    let mut limit = Limit::new(LimitConfig::default());
    let first = limit.bytes();
    let (links, bytes, trip) = (400, 7_000, Duration::from_millis(100));
    for link in 0..links {
        limit.link_up(Time::ZERO, PeerId(link), Some(trip));
        limit.set_load(Time::ZERO, PeerId(link), flight(bytes));
    }
    assert!(limit.under_way() > 10 * first);
    for link in 0..links {
        let round_trip = trip + Duration::from_millis(200 + u64::from(link));
        let at = Time::from_nanos(round_trip.as_nanos() as u64);
        limit.report(at, PeerId(link), Report { arrived: bytes, round_trip, ..Report::default() });
        assert!(limit.bytes() <= first, "{} bytes at {at:?}", limit.bytes());
    }
}

#[test]
fn urgent_frames_exceed_the_limit_by_a_quarter() {
    let mut limit = Limit::new(LimitConfig::default());
    limit.link_up(Time::ZERO, PeerId(0), Some(Duration::from_millis(50)));
    let first = limit.bytes();
    limit.set_load(Time::ZERO, PeerId(0), flight(first));
    assert_eq!((limit.room(Time::ZERO), limit.urgent_room()), (0, first / 4));
    limit.set_load(Time::ZERO, PeerId(0), flight(first + first / 4));
    assert_eq!(limit.urgent_room(), 0);
}

/// Without its share of the queue, a node behind others would get nothing.
#[test]
fn a_queue_of_others_does_not_starve_the_node() {
    for standing in [50, 200, 1_000] {
        let model = Model { standing: (standing * MS, 2 * S, 60 * S), queue: 4 * S, ..Model::new(20.0, 50) };
        let found = model.run(&mut Limit::new(LimitConfig::default()), 58 * S);
        assert!(found.use_of_uplink > 0.8, "{standing} ms: {found:?}");
        // The node adds about as much; beside short queues more, as it overshoots by a round trip.
        assert!(found.wait < 4.0 * standing as f64, "{standing} ms: {found:?}");
    }
}

#[test]
fn the_queue_is_short_again_when_the_others_are_gone() {
    let model = Model { standing: (200 * MS, 2 * S, 20 * S), ..Model::new(20.0, 50) };
    let found = model.run(&mut Limit::new(LimitConfig::default()), 80 * S);
    assert!(found.use_of_uplink > 0.9 && found.wait < 30.0, "{found:?}");
}

/// Losses make the node leave part of the queue, as CUBIC does.
#[test]
fn losses_lower_the_share_of_the_queue() {
    let share = |queue| {
        let model = Model { standing: (100 * MS, 2 * S, 60 * S), queue, ..Model::new(20.0, 50) };
        model.run(&mut Limit::new(LimitConfig::default()), 50 * S)
    };
    let (deep, shallow) = (share(2 * S), share(100 * MS));
    assert!(shallow.wait < 0.8 * deep.wait && shallow.use_of_uplink > 0.8, "{shallow:?} {deep:?}");
}

/// Returns the parts of the uplink that two nodes behind one queue get in the second half of a run, and
/// the mean wait in milliseconds. Both always have data. The second begins later, and takes this much
/// of the queue of the first for a part of its least round trips.
fn two_nodes(mbits: f64, trip: u64, (begins, hidden): (u64, u64), until: u64) -> ([f64; 2], f64) {
    const LINKS: usize = 40;
    let nanos = |bytes: u64| (bytes as f64 * 8e3 / mbits) as u64;
    let mut limits = [(); 2].map(|()| Limit::new(LimitConfig::default()));
    let mut under_way = [[0_u64; LINKS]; 2];
    let mut turns = [0; 2];
    let mut acks: BinaryHeap<Reverse<(u64, usize, usize, u64)>> = BinaryHeap::new();
    let (mut now, mut free_at) = (0_u64, 0_u64);
    let (mut left, mut waits, mut packets) = ([0_u64; 2], 0_u64, 0_u64);
    for (node, limit) in limits.iter_mut().enumerate() {
        for link in 0..LINKS {
            let at = Time::from_nanos(node as u64 * begins);
            let seen = trip + node as u64 * hidden;
            limit.link_up(at, PeerId(link as u32), Some(Duration::from_nanos(seen)));
        }
    }
    while now < until {
        let at = Time::from_nanos(now);
        // In turns, so that none always comes first.
        let mut has_room = true;
        while has_room {
            has_room = false;
            for (node, limit) in limits.iter_mut().enumerate() {
                if now < node as u64 * begins || limit.room(at) == 0 {
                    continue;
                }
                has_room = true;
                let link = turns[node] % LINKS;
                turns[node] += 1;
                under_way[node][link] += PACKET;
                limit.set_load(at, PeerId(link as u32), flight(under_way[node][link]));
                let wait = free_at.saturating_sub(now);
                free_at = free_at.max(now) + nanos(PACKET);
                if now > until / 2 {
                    left[node] += PACKET;
                    (waits, packets) = (waits + wait, packets + 1);
                }
                acks.push(Reverse((free_at + trip, node, link, now)));
            }
        }
        let paced = limits
            .iter()
            .enumerate()
            .map(|(node, limit)| limit.next_at().map_or(u64::MAX, Time::as_nanos).max(node as u64 * begins));
        let acked = acks.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        now = paced.min().unwrap_or(u64::MAX).min(acked).max(now);
        while acks.peek().is_some_and(|Reverse((at, ..))| *at <= now)
            && let Some(Reverse((_, node, link, sent))) = acks.pop()
        {
            under_way[node][link] -= PACKET;
            let (round_trip, load) = (Duration::from_nanos(now - sent), flight(under_way[node][link]));
            let report = Report { arrived: PACKET, round_trip, load, ..Report::default() };
            limits[node].report(Time::from_nanos(now), PeerId(link as u32), report);
        }
    }
    let passed = mbits * 1e6 / 8.0 * (until - until / 2) as f64 / 1e9;
    (left.map(|bytes| bytes as f64 / passed), waits as f64 / packets.max(1) as f64 / MS as f64)
}

#[test]
fn two_nodes_behind_one_router_share_it() {
    for (mbits, least, longest) in [(5.0, 0.4, 50.0), (20.0, 0.4, 15.0), (100.0, 0.4, 15.0)] {
        for (trip, begins) in [(10, 0), (50, 5 * S), (200, 5 * S)] {
            let (parts, wait) = two_nodes(mbits, trip * MS, (begins, 0), 60 * S);
            assert!(parts[0].min(parts[1]) > least, "{mbits} Mbit/s, {trip} ms: {parts:.2?}");
            assert!(
                parts[0] + parts[1] > 0.97 && wait < longest,
                "{mbits} Mbit/s, {trip} ms: {parts:.2?} {wait}"
            );
        }
    }
}

/// A node that takes the queue of another for its own least round trip would leave it almost nothing (the
/// latecomer of LEDBAT). Both leave the queue for a moment, and see the least round trip then.
#[test]
fn latecomers_leave_the_first_its_part() {
    for mbits in [5.0, 20.0, 100.0] {
        for trip in [10, 50, 200] {
            let (parts, _) = two_nodes(mbits, trip * MS, (5 * S, 10 * MS), 120 * S);
            assert!(parts[0] > 0.2 && parts[0] + parts[1] > 0.95, "{mbits} Mbit/s, {trip} ms: {parts:.2?}");
        }
    }
}
