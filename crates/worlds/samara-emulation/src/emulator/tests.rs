//! Tests in virtual time: closed forms, statistics, and properties over arbitrary traffic.

use std::collections::HashMap;

use proptest::prelude::*;
use samara_sim::{DownlinkQueue, FqCoDel, GatewayConfig, NicDiscipline, PairLatencies, QueueSize};

use super::*;
use crate::config::{Servers, UplinkQueue};

const MBIT: u64 = 1_000_000;
const MS: u64 = 1_000_000;

fn uniform(hosts: usize, rate_bps: u64, latency_ms: u64) -> EmulationConfig {
    EmulationConfig {
        downlink_queue: DownlinkQueue::DropTail { bytes: 1 << 30 },
        ..EmulationConfig::uniform(hosts, rate_bps, Duration::from_millis(latency_ms))
    }
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn send(emulator: &mut Emulator<u64>, now: u64, from: u32, to: u32, flow: u64, id: u64) {
    emulator.push(at(now), flow, Packet { from, to, bytes: 1000, payload: id });
}

/// Returns all remaining deliveries: (time in nanoseconds, receiver, id).
fn drain(emulator: &mut Emulator<u64>) -> Vec<(u64, u32, u64)> {
    let mut all = Vec::new();
    while let Some(next) = emulator.next_at() {
        while let Some(Delivery { due, packet }) = emulator.poll(next) {
            all.push((due.as_nanos(), packet.to, packet.payload));
        }
    }
    all
}

#[test]
fn n_packets_take_their_serialisation_and_the_latency() {
    let mut emulator = Emulator::new(&uniform(2, 8 * MBIT, 50)).unwrap();
    (0..100).for_each(|id| send(&mut emulator, 0, 0, 1, 7, id));
    let heard = drain(&mut emulator);
    // 1,000 bytes at 8 Mbit/s: 1 ms each.
    let expected: Vec<_> = (0..100).map(|id| ((id + 1) * MS + 50 * MS, 1, id)).collect();
    assert_eq!(heard, expected);
}

#[test]
fn a_slower_downlink_spaces_the_packets() {
    let mut config = uniform(2, 8 * MBIT, 50);
    config.hosts[1].downlink_bps = 2 * MBIT;
    let mut emulator = Emulator::new(&config).unwrap();
    (0..10).for_each(|id| send(&mut emulator, 0, 0, 1, 7, id));
    let heard = drain(&mut emulator);
    assert_eq!(heard[0].0, 51 * MS);
    assert!(heard.windows(2).all(|pair| pair[1].0 - pair[0].0 == 4 * MS), "{heard:?}");
}

#[test]
fn senders_share_the_downlink_of_a_receiver() {
    let mut emulator = Emulator::new(&uniform(5, 8 * MBIT, 10)).unwrap();
    for from in 1..5 {
        (0..25).for_each(|id| send(&mut emulator, 0, from, 0, 7, id));
    }
    let heard = drain(&mut emulator);
    assert_eq!((heard.len(), heard[99].0), (100, 11 * MS + 99 * MS));
}

#[test]
fn flows_send_in_turn() {
    let mut emulator = Emulator::new(&uniform(3, 8 * MBIT, 1)).unwrap();
    (0..50).for_each(|id| send(&mut emulator, 0, 0, 1, 1, id));
    (50..55).for_each(|id| send(&mut emulator, 0, 0, 2, 2, id));
    let order: Vec<u64> = drain(&mut emulator).iter().map(|heard| heard.2).collect();
    assert_eq!(order[..11], [0, 1, 50, 2, 51, 3, 52, 4, 53, 5, 54]);
}

#[test]
fn fifo_keeps_the_order_of_arrival() {
    let config = EmulationConfig { nic: NicDiscipline::Fifo, ..uniform(3, 8 * MBIT, 1) };
    let mut emulator = Emulator::new(&config).unwrap();
    for id in 0..40 {
        send(&mut emulator, 0, 0, 1 + (id % 2) as u32, id % 5, id);
    }
    let order: Vec<u64> = drain(&mut emulator).iter().map(|heard| heard.2).collect();
    assert_eq!(order, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_full_flow_leaves_room_for_other_flows() {
    let limits = UplinkQueue { flow_bytes: 3_000, total_bytes: 5_000 };
    let mut emulator =
        Emulator::new(&EmulationConfig { uplink_queue: limits, ..uniform(2, 8 * MBIT, 1) }).unwrap();
    // One packet leaves, three wait, six are too many. Then two of flow 2 fit into the total, and
    // the third does not.
    (0..10).for_each(|id| send(&mut emulator, 0, 0, 1, 1, id));
    (10..13).for_each(|id| send(&mut emulator, 0, 0, 1, 2, id));
    let order: Vec<u64> = drain(&mut emulator).iter().map(|heard| heard.2).collect();
    assert_eq!(order, [0, 1, 10, 2, 11, 3]);
    let counters = emulator.counters().next().unwrap();
    assert_eq!(counters.drops.uplink_full, Count { packets: 7, bytes: 7_000 });
    assert_eq!(counters.uplink_wait_max, Duration::from_millis(5));
}

#[test]
fn fair_queues_behind_sockets_let_new_flows_go_first_and_drop_nothing() {
    let nic = NicDiscipline::FqCoDel(FqCoDel::without_drops());
    let mut emulator = Emulator::new(&EmulationConfig { nic, ..uniform(3, 8 * MBIT, 1) }).unwrap();
    (0..1_000).for_each(|id| send(&mut emulator, 0, 0, 1, 1, id));
    (1_000..1_003).for_each(|id| send(&mut emulator, 500 * MS, 0, 2, 2, id));
    let heard = drain(&mut emulator);
    assert_eq!(heard.len(), 1_003);
    // An idle uplink passes 1,500 bytes at once, so all packets are 1.5 ms early.
    assert_eq!(heard[1_002].0, 1_003 * MS - 1_500_000 + MS);
    let second: Vec<u64> = heard.iter().filter(|heard| heard.2 >= 1_000).map(|heard| heard.0).collect();
    assert!(second.iter().all(|due| *due < 510 * MS), "{second:?}");
    assert_eq!(emulator.counters().next().unwrap().drops.total(), Count::default());
}

#[test]
fn fq_codel_drops_packets_of_the_flow_with_a_standing_delay() {
    let nic = NicDiscipline::FqCoDel(FqCoDel::default());
    let mut emulator = Emulator::new(&EmulationConfig { nic, ..uniform(3, 8 * MBIT, 1) }).unwrap();
    // Flow 1 sends 5 % more than the rate for 20 s; flow 2 sends a packet in 100 ms.
    for id in 0..21_000 {
        send(&mut emulator, id * 952_381, 0, 1, 1, id);
        if id % 100 == 0 {
            send(&mut emulator, id * 952_381, 0, 2, 2, 100_000 + id);
        }
    }
    let heard = drain(&mut emulator);
    let counters = emulator.counters().next().unwrap();
    let dropped = counters.drops.uplink_codel;
    assert_eq!(dropped, counters.drops.total());
    assert!((500..3_000).contains(&dropped.packets), "{dropped:?}");
    assert_eq!(heard.len() as u64 + dropped.packets, 21_210);
    assert_eq!(heard.iter().filter(|heard| heard.1 == 2).count(), 210);
    assert_eq!(emulator.hosts[0].uplink.flows(), 0, "dropped packets keep no flow");
}

#[test]
fn one_queue_drops_what_does_not_fit_into_its_time() {
    let nic = NicDiscipline::DropTail(QueueSize::Time(Duration::from_millis(10)));
    let mut emulator = Emulator::new(&EmulationConfig { nic, ..uniform(3, 8 * MBIT, 1) }).unwrap();
    (0..40).for_each(|id| send(&mut emulator, 0, 0, 1 + (id % 2) as u32, id % 5, id));
    let order: Vec<u64> = drain(&mut emulator).iter().map(|heard| heard.2).collect();
    // The bucket passes the first packet and takes the second; ten wait.
    assert!(order.is_sorted() && (10..=12).contains(&order.len()), "{order:?}");
    let dropped = emulator.counters().next().unwrap().drops.uplink_full.packets;
    assert_eq!(order.len() as u64 + dropped, 40);
}

/// A packet to a server waits in the queue of the host, and counts apart from the host's own
/// packets.
#[test]
fn packets_for_a_server_share_the_queue_of_a_host() {
    let servers = Servers { count: 1, latency: Duration::from_millis(30) };
    let nic = NicDiscipline::DropTail(QueueSize::Bytes(4_000));
    let config = EmulationConfig { nic, servers, loss: 0.99, ..uniform(2, 8 * MBIT, 1) };
    let mut emulator = Emulator::new(&config).unwrap();
    // The bucket of 1,500 bytes lets two packets out at once, and owes half of the second one. Of the
    // others, four fit into the queue: the last two of them are the host's third, and the server's.
    for id in 0..6 {
        send(&mut emulator, 0, 0, 1, 1, id);
        send(&mut emulator, 0, 0, 2, 2, 10 + id);
    }
    let heard = drain(&mut emulator);
    let of_server: Vec<_> = heard.into_iter().filter(|(_, to, _)| *to == 2).collect();
    let at = |half_ms: u64| 30 * MS + half_ms * MS / 2;
    assert_eq!(of_server, [(at(1), 2, 10), (at(5), 2, 11), (at(9), 2, 12)]);
    let counters: Vec<HostCounters> = emulator.counters().copied().collect();
    let packets = |of: usize| {
        let HostCounters { sent, left, received, drops, .. } = counters[of];
        (sent.packets, left.packets, received.packets, drops.uplink_full.packets)
    };
    assert_eq!((packets(0), packets(2)), ((6, 3, 0, 3), (6, 3, 3, 3)));
    // The way back has the latency, too, and counts nowhere.
    send(&mut emulator, 100 * MS, 2, 0, 3, 20);
    assert_eq!(drain(&mut emulator), [(130 * MS, 0, 20)]);
    let counted: u64 = emulator.counters().map(|host| host.sent.packets + host.received.packets).sum();
    assert_eq!(counted, 6 + 6 + 3);
}

#[test]
fn a_full_downlink_drops_the_tail() {
    let mut config = uniform(2, 80 * MBIT, 1);
    config.hosts[1].downlink_bps = 8 * MBIT;
    config.downlink_queue = DownlinkQueue::DropTail { bytes: 5_000 };
    let mut emulator = Emulator::new(&config).unwrap();
    (0..20).for_each(|id| send(&mut emulator, 0, 0, 1, 1, id));
    let order: Vec<u64> = drain(&mut emulator).iter().map(|heard| heard.2).collect();
    // One packet is received at once. Five wait when the sixth arrives. While 20 arrive in 2 ms,
    // one or two more leave.
    assert_eq!(order[..6], [0, 1, 2, 3, 4, 5]);
    let receiver = emulator.counters().nth(1).unwrap();
    assert_eq!(receiver.drops.downlink_full.packets + order.len() as u64, 20);
    assert!(order.len() <= 8, "{order:?}");
    assert!(receiver.downlink_wait_max <= Duration::from_millis(5));
}

#[test]
fn codel_bounds_the_standing_delay() {
    let target = Duration::from_millis(5);
    let mut config = uniform(2, 80 * MBIT, 1);
    config.hosts[1].downlink_bps = 8 * MBIT;
    config.downlink_queue = DownlinkQueue::CoDel { target, interval: Duration::from_millis(100) };
    let mut emulator = Emulator::new(&config).unwrap();
    // 5 % more than the rate of the downlink, for 60 s: without drops the delay would grow to 3 s.
    for id in 0..63_000 {
        send(&mut emulator, id * 952_381, 0, 1, 1, id);
    }
    let heard = drain(&mut emulator);
    let late: Vec<u64> = heard
        .iter()
        .filter(|(due, _, id)| *id > 30_000 && due - id * 952_381 > 100 * MS)
        .map(|heard| heard.2)
        .collect();
    assert!(late.is_empty(), "{late:?}");
    let dropped = emulator.counters().nth(1).unwrap().drops.downlink_codel.packets;
    assert_eq!(dropped + heard.len() as u64, 63_000);
    assert!((2_000..6_000).contains(&dropped), "{dropped}");
}

#[test]
fn losses_match_the_probability_in_each_direction() {
    let mut emulator = Emulator::new(&EmulationConfig { loss: 0.1, ..uniform(3, 1_000 * MBIT, 1) }).unwrap();
    let n = 20_000;
    for id in 0..n {
        send(&mut emulator, id * MS, 0, 1, 1, id);
        send(&mut emulator, id * MS, 1, 0, 1, id);
    }
    let heard = drain(&mut emulator);
    let of = |host| heard.iter().filter(|heard| heard.1 == host).map(|heard| heard.2).collect::<Vec<_>>();
    // Four standard deviations: 4 * sqrt(20,000 * 0.1 * 0.9) = 170.
    for host in [0, 1] {
        assert!((of(host).len() as i64 - 18_000).abs() < 170, "{}", of(host).len());
    }
    assert_ne!(of(0), of(1));
    // Other traffic does not change the losses of a direction.
    let mut again = Emulator::new(&EmulationConfig { loss: 0.1, ..uniform(3, 1_000 * MBIT, 1) }).unwrap();
    for id in 0..n {
        send(&mut again, id * MS, 0, 2, 9, id);
        send(&mut again, id * MS, 0, 1, 1, id);
    }
    let heard = drain(&mut again);
    assert_eq!(heard.iter().filter(|h| h.1 == 1).map(|h| h.2).collect::<Vec<_>>(), of(1));
}

#[test]
fn jitter_is_spread_and_keeps_the_order_of_a_flow() {
    let config = EmulationConfig { jitter: Duration::from_millis(10), ..uniform(2, 8_000 * MBIT, 20) };
    let mut emulator = Emulator::new(&config).unwrap();
    // Without other packets, a packet is delayed by 0 to 10 ms.
    let mut delays = Vec::new();
    for id in 0..1_000 {
        send(&mut emulator, id * 100 * MS, 0, 1, 1, id);
        delays.extend(drain(&mut emulator).iter().map(|heard| heard.0 - id * 100 * MS - 1_000));
    }
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!(delays.iter().all(|delay| (20 * MS..=30 * MS).contains(delay)));
    assert!(mean.abs_diff(25 * MS) < MS / 2, "{mean}");
    // Packets of one flow in a train must stay in order. Packets of two flows may overtake each
    // other.
    let start = 200_000 * MS;
    (0..2_000).for_each(|id| send(&mut emulator, start + id * 100_000, 0, 1, id % 2, id));
    let heard = drain(&mut emulator);
    let ids: Vec<u64> = heard.iter().map(|heard| heard.2).collect();
    for flow in 0..2 {
        assert!(ids.iter().filter(|id| *id % 2 == flow).is_sorted());
    }
    assert!(!ids.is_sorted());
}

#[test]
fn latencies_come_from_the_matrix_or_the_seed_of_the_simulator() {
    let ms = Duration::from_millis;
    let arrival = |latency: Latency, from, to| {
        let mut config = EmulationConfig { latency, ..uniform(3, 8_000 * MBIT, 0) };
        config.hosts[2].region = 1;
        let mut emulator = Emulator::new(&config).unwrap();
        send(&mut emulator, 0, from, to, 0, 0);
        drain(&mut emulator)[0].0 - 1_000
    };
    let regions = Latency::Regions(vec![vec![ms(1), ms(2)], vec![ms(3), ms(4)]]);
    assert_eq!(
        [(0, 1), (0, 2), (2, 0), (2, 2)].map(|(from, to)| arrival(regions.clone(), from, to)),
        [1, 2, 3, 4].map(|ms| ms * MS)
    );
    let nanos: Vec<u32> = (0..9).map(|at| (10 * (at / 3) + at % 3) * MS as u32).collect();
    let pairs = Latency::Pairs(PairLatencies::new(3, nanos).unwrap());
    assert_eq!(arrival(pairs.clone(), 2, 1), 21 * MS);
    assert_eq!(arrival(pairs, 1, 2), 12 * MS);
    let drawn = Latency::Uniform { min: ms(10), max: ms(90) };
    let one = arrival(drawn.clone(), 0, 1);
    assert_eq!(one, arrival(drawn.clone(), 1, 0));
    assert_ne!(one, arrival(drawn, 0, 2));
    assert!((10 * MS..=90 * MS).contains(&one));
}

#[test]
fn idle_flows_are_forgotten() {
    let mut emulator = Emulator::new(&EmulationConfig { loss: 0.3, ..uniform(2, 8 * MBIT, 50) }).unwrap();
    (0..500).for_each(|id| send(&mut emulator, 0, 0, 1, id, id));
    assert!(emulator.hosts[0].uplink.flows() > 400);
    drain(&mut emulator);
    assert_eq!(emulator.hosts[0].uplink.flows(), 0);
    assert_eq!(emulator.travelling.len(), 0);
}

/// Packets as (gap in microseconds, from, to, flow, bytes).
type Traffic = Vec<(u16, u32, u32, u64, u16)>;

fn traffic() -> impl Strategy<Value = Traffic> {
    prop::collection::vec((0..2_000u16, 0..4u32, 0..4u32, 0..3u64, 20..1501u16), 1..400)
}

fn disciplines() -> impl Strategy<Value = NicDiscipline> {
    let ms = Duration::from_millis;
    prop_oneof![
        Just(NicDiscipline::RoundRobin),
        Just(NicDiscipline::Fifo),
        (0..10u64, 1..50u64, 1..5u32).prop_map(move |(target, interval, buckets)| {
            let fair = FqCoDel { target: ms(target), interval: ms(interval), buckets, ..FqCoDel::default() };
            NicDiscipline::FqCoDel(fair)
        }),
        (1_500..20_000u64).prop_map(|bytes| NicDiscipline::DropTail(QueueSize::Bytes(bytes))),
        (1..100u64).prop_map(move |time| NicDiscipline::DropTail(QueueSize::Time(ms(time)))),
    ]
}

fn queues() -> impl Strategy<Value = DownlinkQueue> {
    prop_oneof![
        (1_500..20_000u64).prop_map(|bytes| DownlinkQueue::DropTail { bytes }),
        (0..10u64, 1..50u64).prop_map(|(target, interval)| DownlinkQueue::CoDel {
            target: Duration::from_millis(target),
            interval: Duration::from_millis(interval),
        }),
    ]
}

/// No gateways, or those of two regions.
fn gateways() -> impl Strategy<Value = Vec<GatewayConfig>> {
    let gateway = (MIN..50 * MBIT, MIN..50 * MBIT, queues());
    let gateway = gateway.prop_map(|(up_bps, down_bps, queue)| GatewayConfig { up_bps, down_bps, queue });
    prop_oneof![Just(Vec::new()), prop::collection::vec(gateway, 2)]
}

fn networks() -> impl Strategy<Value = EmulationConfig> {
    let rates = prop::collection::vec((MIN..50 * MBIT, MIN..50 * MBIT), 4);
    (
        any::<u64>(),
        rates,
        0..50u64,
        0..20u64,
        0.0..0.3,
        disciplines(),
        (1_500..30_000u64, 1_500..60_000u64),
        queues(),
        gateways(),
    )
        .prop_map(
            |(
                seed,
                rates,
                latency,
                jitter,
                loss,
                nic,
                (flow_bytes, total_bytes),
                downlink_queue,
                gateways,
            )| {
                let host = |(region, (uplink_bps, downlink_bps)): (u16, _)| HostConfig {
                    uplink_bps,
                    downlink_bps,
                    region: region % 2,
                };
                EmulationConfig {
                    seed,
                    hosts: (0..).zip(rates).map(host).collect(),
                    latency: Latency::Constant(Duration::from_millis(latency)),
                    jitter: Duration::from_millis(jitter),
                    loss,
                    nic,
                    uplink_queue: UplinkQueue { flow_bytes, total_bytes },
                    downlink_queue,
                    gateways,
                    servers: Servers::default(),
                }
            },
        )
}

const MIN: u64 = 100_000;

#[derive(Debug, PartialEq)]
struct Ran {
    /// Deliveries in order, with their times.
    heard: Vec<(u64, Packet<u64>)>,
    counters: Vec<HostCounters>,
    gateways: Vec<[GateStats; 2]>,
}

/// Runs a network, and polls at every packet and at the end.
fn run(config: &EmulationConfig, traffic: &Traffic) -> Ran {
    let mut emulator = Emulator::new(config).unwrap();
    let (mut now, mut heard) = (0, Vec::new());
    for (id, (gap, from, to, flow, bytes)) in traffic.iter().enumerate() {
        now += u64::from(*gap) * 1_000;
        let packet = Packet { from: *from, to: *to, bytes: u32::from(*bytes), payload: id as u64 };
        emulator.push(at(now), *flow << 8 | u64::from(*to), packet);
        while let Some(delivery) = emulator.poll(at(now)) {
            assert!(delivery.due <= at(now));
            heard.push((delivery.due.as_nanos(), delivery.packet));
        }
    }
    while let Some(next) = emulator.next_at() {
        while let Some(delivery) = emulator.poll(next) {
            heard.push((delivery.due.as_nanos(), delivery.packet));
        }
    }
    assert_eq!(emulator.hosts.iter().map(|host| host.uplink.flows()).sum::<usize>(), 0);
    let (counters, gateways) = (emulator.counters().copied().collect(), emulator.gateways().collect());
    Ran { heard, counters, gateways }
}

proptest! {
    #[test]
    fn every_lost_packet_is_counted(config in networks(), traffic in traffic()) {
        let Ran { heard, counters, gateways } = run(&config, &traffic);
        let mut sent = Count::default();
        let mut ended = Count::default();
        for host in &counters {
            sent += host.sent;
            ended += host.received;
            ended += host.drops.total();
        }
        gateways.iter().flatten().for_each(|gate| ended += gate.dropped);
        prop_assert_eq!(sent.packets, traffic.len() as u64);
        prop_assert_eq!(sent, ended);
        prop_assert_eq!(heard.len() as u64, counters.iter().map(|host| host.received.packets).sum::<u64>());
    }

    #[test]
    fn the_same_calls_give_the_same_deliveries(config in networks(), traffic in traffic()) {
        prop_assert_eq!(run(&config, &traffic), run(&config, &traffic));
    }

    #[test]
    fn flows_stay_in_order_and_rates_are_kept(config in networks(), traffic in traffic()) {
        let Ran { heard, .. } = run(&config, &traffic);
        prop_assert!(heard.is_sorted_by_key(|(due, _)| *due));
        let mut last: HashMap<(u32, u32, u64), u64> = HashMap::new();
        let mut received: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut sent_at = 0;
        let sent: Vec<u64> = traffic.iter().map(|(gap, ..)| { sent_at += u64::from(*gap) * 1_000; sent_at }).collect();
        for (due, packet) in heard {
            let (_, from, to, flow, bytes) = traffic[packet.payload as usize];
            prop_assert_eq!((from, to, u32::from(bytes)), (packet.from, packet.to, packet.bytes));
            if let Some(before) = last.insert((from, to, flow), packet.payload) {
                prop_assert!(before < packet.payload);
            }
            // No packet is earlier than its own serialisation and the latency. The queues behind the
            // sockets pass it in no time if they are idle.
            let Latency::Constant(latency) = &config.latency else { unreachable!() };
            let uplink = match config.nic {
                NicDiscipline::RoundRobin | NicDiscipline::Fifo => {
                    serialisation(packet.bytes, config.hosts[from as usize].uplink_bps)
                }
                NicDiscipline::FqCoDel(_) | NicDiscipline::DropTail(_) => 0,
            };
            prop_assert!(due >= sent[packet.payload as usize] + uplink + nanos(*latency));
            // The gap between two packets of a host is at least the serialisation of the second
            // one.
            if let Some((before, _)) = received.insert(to, (due, packet.payload)) {
                prop_assert!(due - before >= serialisation(packet.bytes, config.hosts[to as usize].downlink_bps));
            }
        }
    }
}

#[test]
fn packets_on_a_cut_way_are_lost_until_the_last_cut_ends() {
    let mut emulator = Emulator::new(&uniform(3, 8 * MBIT, 50)).unwrap();
    send(&mut emulator, 0, 0, 1, 7, 0);
    // The packet has left: it travels on.
    emulator.cut(at(10 * MS), &[(0, 1)], true);
    emulator.cut(at(10 * MS), &[(0, 1), (2, 1)], true);
    send(&mut emulator, 10 * MS, 0, 1, 7, 1);
    send(&mut emulator, 10 * MS, 1, 0, 7, 2);
    send(&mut emulator, 10 * MS, 0, 2, 7, 3);
    emulator.cut(at(20 * MS), &[(0, 1)], false);
    send(&mut emulator, 20 * MS, 0, 1, 7, 4);
    emulator.cut(at(30 * MS), &[(0, 1)], false);
    send(&mut emulator, 30 * MS, 0, 1, 7, 5);
    let mut heard: Vec<_> = drain(&mut emulator).into_iter().map(|(_, _, id)| id).collect();
    heard.sort_unstable();
    assert_eq!(heard, [0, 2, 3, 5]);
    let drops: Vec<_> = emulator.counters().map(|counters| counters.drops.cut.packets).collect();
    assert_eq!(drops, [2, 0, 0]);
    assert_eq!(emulator.counters().map(|counters| counters.drops.total().packets).sum::<u64>(), 2);
}

#[test]
fn rates_change_for_the_packets_that_follow() {
    for (uplink, downlink) in [(2, 8), (8, 2)] {
        let mut emulator = Emulator::new(&uniform(2, 8 * MBIT, 50)).unwrap();
        (0..20).for_each(|id| send(&mut emulator, 0, 0, 1, 7, id));
        let halfway = at(60 * MS);
        while emulator.poll(halfway).is_some() {}
        emulator.set_rates(halfway, 0, uplink * MBIT, 8 * MBIT);
        emulator.set_rates(halfway, 1, 8 * MBIT, downlink * MBIT);
        (20..30).for_each(|id| send(&mut emulator, 100 * MS, 0, 1, 7, id));
        let heard = drain(&mut emulator);
        let last: Vec<_> = heard[heard.len() - 10..].iter().map(|(at, ..)| *at).collect();
        assert!(last.windows(2).all(|pair| pair[1] - pair[0] == 4 * MS), "{uplink}, {downlink}: {heard:?}");
        assert_eq!(heard.last().map(|(_, _, id)| *id), Some(29));
        assert_eq!(emulator.counters().nth(1).map(|counters| counters.received.packets), Some(30));
    }
}

/// Two regions with `each` hosts of 80 Mbit/s, and gateways with this rate and room.
fn behind_gateways(each: usize, gateway_bps: u64, bytes: u64) -> EmulationConfig {
    let mut config = uniform(2 * each, 80 * MBIT, 20);
    config.hosts[each..].iter_mut().for_each(|host| host.region = 1);
    let queue = DownlinkQueue::DropTail { bytes };
    config.gateways = vec![GatewayConfig { up_bps: gateway_bps, down_bps: gateway_bps, queue }; 2];
    config
}

/// As in the simulator (`narrowest_link_of_the_way_limits_the_rate`).
#[test]
fn a_gateway_limits_the_rate_and_has_whole_packets_before_they_leave() {
    let mut emulator = Emulator::new(&behind_gateways(1, 8 * MBIT, 1 << 30)).unwrap();
    (0..100).for_each(|id| send(&mut emulator, 0, 0, 1, 7, id));
    let heard = drain(&mut emulator);
    // 0.1 ms on the uplink of the host, 1 ms for each packet at the gateway, and the latency.
    let expected: Vec<_> = (0..100).map(|id| (MS / 10 + (id + 1) * MS + 20 * MS, 1, id)).collect();
    assert_eq!(heard, expected);
    let passed = |gate: &GateStats| (gate.passed.packets, gate.dropped.packets);
    let gateways: Vec<_> = emulator.gateways().map(|both| both.each_ref().map(passed)).collect();
    assert_eq!(gateways, [[(100, 0), (0, 0)], [(0, 0), (100, 0)]]);
    assert_eq!(emulator.hosts[0].uplink.flows(), 0);
}

#[test]
fn hosts_share_their_gateway_but_no_link_within_the_region() {
    let mut emulator = Emulator::new(&behind_gateways(6, 8 * MBIT, 1 << 30)).unwrap();
    for id in 0..100 {
        (0..4).for_each(|from| send(&mut emulator, 0, from, 6 + from, 7, id));
        send(&mut emulator, 0, 4, 5, 7, id);
    }
    let heard = drain(&mut emulator);
    let last = |hosts: std::ops::Range<u32>| {
        heard.iter().filter(|(_, to, _)| hosts.contains(to)).map(|(due, ..)| *due).max()
    };
    assert_eq!(last(6..12), Some(MS / 10 + 400 * MS + 20 * MS));
    assert_eq!(last(0..6), Some(10 * MS + 20 * MS));
    assert_eq!(emulator.gateways().next().unwrap()[0].passed.packets, 400);
}

#[test]
fn a_full_gateway_counts_what_it_drops() {
    let mut emulator = Emulator::new(&behind_gateways(1, 8 * MBIT, 20_000)).unwrap();
    (0..100).for_each(|id| send(&mut emulator, 0, 0, 1, 7, id));
    let heard = drain(&mut emulator);
    let [out, _] = emulator.gateways().next().unwrap();
    assert_eq!((out.passed.packets, heard.len()), (heard.len() as u64, 100 - out.dropped.packets as usize));
    // In the 10 ms in which they come, ten packets leave, and 20 wait.
    assert!((65..=75).contains(&out.dropped.packets), "{out:?}");
    assert!((18 * MS..=21 * MS).contains(&out.wait_nanos_max), "20 kB are 20 ms: {out:?}");
    assert_eq!(emulator.hosts[0].uplink.flows(), 0, "dropped packets keep no flow");
}

#[test]
fn gateways_that_cannot_be_emulated_are_named() {
    let wrong = |change: fn(&mut EmulationConfig)| {
        let mut config = behind_gateways(1, 8 * MBIT, 20_000);
        change(&mut config);
        config.check().expect_err("it cannot be emulated").to_string()
    };
    let few = wrong(|config| config.gateways.truncate(1));
    assert!(few.contains("gateways: found 1, but a host is in region 1"), "{few}");
    let slow = wrong(|config| config.gateways[1].down_bps = 1);
    assert!(slow.contains("gateways[1].down_bps: found 1 bit/s"), "{slow}");
    let fair = wrong(|config| config.gateways[0].queue = DownlinkQueue::FqCoDel(FqCoDel::default()));
    assert!(fair.contains("gateways[0].queue: found FQ-CoDel"), "{fair}");
    let short = wrong(|config| config.gateways[0].queue = DownlinkQueue::DropTail { bytes: 10 });
    assert!(short.contains("gateways[0].queue.bytes: found 10"), "{short}");
}
