//! Tests of the network in which engines are tested.

use std::time::Duration;

use samara_engine::outbox::{Lane, LaneConfig, OutboxConfig};
use samara_engine::testing::{Crash, Network, Path, Uniform, World, host_of, identity_of};
use samara_engine::{Context, Engine, Frame, Input, Outbox, PeerId, PeerIdentity, Time, TimerToken};

/// A number in a frame of 940 bytes, which is 1,000 bytes with the headers of a segment.
#[derive(Clone, Debug, PartialEq)]
struct Number(u64);

impl Frame for Number {
    fn encoded_len(&self) -> usize {
        940
    }

    fn payload_len(&self) -> usize {
        940
    }
}

#[derive(Debug)]
enum Order {
    Dial(u32),
    /// Sends this number and the next ones to all peers.
    Send(u64, u64),
    Close,
    Remind(Duration),
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Up(u32, bool),
    Down,
    Failed(u32),
    Got(u64),
    Reminded,
}

/// An engine that executes commands and reports its inputs.
#[derive(Default)]
struct Puppet {
    peers: Vec<PeerId>,
}

impl Engine for Puppet {
    type Frame = Number;
    type Command = Order;
    type Event = Seen;

    fn handle(&mut self, input: Input<Number, Order>, cx: &mut Context<'_, Number, Seen>) {
        let now = cx.now();
        match input {
            Input::Start => {}
            Input::LinkUp { peer, info } => {
                self.peers.push(peer);
                cx.emit(Seen::Up(host_of(&info.identity), info.outbound));
            }
            Input::LinkDown { peer } => {
                self.peers.retain(|known| *known != peer);
                cx.emit(Seen::Down);
            }
            Input::DialFailed { identity } => cx.emit(Seen::Failed(host_of(&identity))),
            Input::Frame { frame, .. } => cx.emit(Seen::Got(frame.0)),
            Input::Timer(_) => cx.emit(Seen::Reminded),
            Input::Command(Order::Dial(host)) => cx.dial(identity_of(host)),
            Input::Command(Order::Close) => self.peers.clone().into_iter().for_each(|peer| cx.close(peer)),
            Input::Command(Order::Remind(span)) => cx.set_timer(now + span, TimerToken(0)),
            Input::Command(Order::Send(first, count)) => {
                for number in first..first + count {
                    for peer in &self.peers {
                        cx.outbox().owe(now, *peer, Lane(0), Number(number), None, None).unwrap();
                    }
                }
            }
        }
    }
}

fn outbox() -> Outbox<Number> {
    let lanes = vec![LaneConfig::unbounded("all", 0)];
    Outbox::new(OutboxConfig { dispatch: samara_engine::outbox::Dispatch::Node, lanes })
}

const MS: Duration = Duration::from_millis(1);

fn network<W: World<Puppet>>(hosts: u32, world: W) -> Network<Puppet, W> {
    let mut net = Network::new(1, world);
    (0..hosts).for_each(|_| _ = net.add(Puppet::default(), outbox()));
    net
}

/// A network with links of 10 ms and uplinks of 8 Mbit/s: a frame takes a millisecond.
fn slow(hosts: u32) -> Network<Puppet, Uniform<Seen>> {
    network(hosts, Uniform::new(10 * MS, 8_000_000))
}

/// Returns the events of a host, each with its millisecond.
fn seen(net: &Network<Puppet, Uniform<Seen>>, host: u32) -> Vec<(u64, Seen)> {
    let of_host = net.events.iter().filter(|(_, at, _)| *at == host);
    of_host.map(|(at, _, event)| (at.as_nanos() / 1_000_000, event.clone())).collect()
}

#[test]
fn dial_takes_a_round_trip_and_frames_leave_in_sequence() {
    let mut net = slow(3);
    net.command(0, Order::Dial(1));
    net.command(2, Order::Remind(5 * MS));
    net.run_for(20 * MS);
    assert_eq!(seen(&net, 0), [(20, Seen::Up(1, true))]);
    assert_eq!(seen(&net, 2), [(5, Seen::Reminded)]);
    net.command(0, Order::Send(7, 2));
    net.run_for(20 * MS);
    assert_eq!(seen(&net, 1)[1..], [(31, Seen::Got(7)), (32, Seen::Got(8))]);
    net.command(1, Order::Close);
    assert_eq!(seen(&net, 0)[1..], [(40, Seen::Down)]);
    assert_eq!((net.links(), net.frames), (0, 2));
}

#[test]
fn dials_fail_at_once_without_a_listener_and_late_in_a_partition() {
    let mut net = slow(3);
    net.crash(1, Crash::Closes);
    net.cut(0, 2);
    (1..4).for_each(|host| net.command(0, Order::Dial(host)));
    net.run_for(Duration::from_secs(2));
    let failed = [(1, Seen::Failed(3)), (21, Seen::Failed(1)), (1_020, Seen::Failed(2))];
    assert_eq!(seen(&net, 0), failed);
    net.heal();
    net.command(0, Order::Dial(2));
    net.run_until(Duration::from_secs(1), |net| net.is_up(0, 2) && net.is_up(2, 0));
}

#[test]
fn broken_link_loses_its_frames() {
    let mut net = slow(2);
    net.connect(0, 1);
    net.command(0, Order::Send(0, 5));
    // One frame has arrived, nine milliseconds of frames are on their way, and the rest is in the
    // outbox.
    net.run_for(11 * MS);
    net.disconnect(0, 1);
    net.connect(1, 0);
    net.command(0, Order::Send(9, 1));
    net.run_for(100 * MS);
    let got = [Seen::Up(0, false), Seen::Got(0), Seen::Down, Seen::Up(0, true), Seen::Got(9)];
    assert_eq!(seen(&net, 1).into_iter().map(|(_, seen)| seen).collect::<Vec<_>>(), got);
    assert_eq!(net.outbox(0).pending(), 0);
}

#[test]
fn peers_notice_a_restart_but_not_a_silent_crash() {
    let mut net = slow(3);
    net.connect(0, 1);
    net.connect(0, 2);
    net.command(0, Order::Remind(50 * MS));
    net.crash(0, Crash::Silent);
    net.command(1, Order::Send(1, 1));
    net.run_for(20 * MS);
    assert!(net.is_up(1, 0) && !net.is_alive(0));
    net.restart(0, Puppet::default(), outbox());
    net.run_for(100 * MS);
    assert_eq!(
        seen(&net, 0),
        [(0, Seen::Up(1, true)), (0, Seen::Up(2, true))],
        "a timer of an earlier life does not fire"
    );
    assert_eq!(seen(&net, 1)[1..], [(20, Seen::Down)]);
    assert_eq!(seen(&net, 2)[1..], [(20, Seen::Down)]);
}

#[test]
fn a_partition_cuts_all_links_between_its_sides() {
    let mut net = slow(4);
    (0..4).for_each(|a| (0..a).for_each(|b| net.connect(a, b)));
    net.partition(|host| host % 2);
    assert_eq!(net.links(), 2);
    assert!(net.is_up(0, 2) && net.is_up(1, 3));
}

#[test]
fn frames_of_a_held_direction_arrive_late_and_in_order() {
    let mut net = slow(2);
    net.connect(0, 1);
    net.hold(0, 1, 50 * MS);
    net.command(0, Order::Send(1, 3));
    net.command(1, Order::Send(7, 1));
    net.run_for(100 * MS);
    assert_eq!(seen(&net, 1)[1..], [(50, Seen::Got(1)), (50, Seen::Got(2)), (50, Seen::Got(3))]);
    assert_eq!(seen(&net, 0)[1..], [(11, Seen::Got(7))]);
}

/// Hosts 0 and 1 share a pipe to host 2. The world drops every fifth number, changes others, and
/// answers the first one.
#[derive(Default)]
struct Shared {
    got: Vec<(u32, u64)>,
    handled: u32,
}

impl World<Puppet> for Shared {
    fn path(&self, _: u32, to: u32) -> Path {
        Path { latency: MS, bps: 8_000_000, pipe: (to, to), ahead: 2 * MS, ..Path::default() }
    }

    fn event(&mut self, now: Time, host: u32, event: Seen) -> Option<(Time, Order)> {
        let Seen::Got(number) = event else { return None };
        self.got.push((host, number));
        (host == 2 && self.got.len() == 1).then_some((now + MS, Order::Send(500, 1)))
    }

    fn frame(&mut self, from: u32, _: u32, sender: &Puppet, frame: Number) -> Option<Number> {
        assert!(!sender.peers.is_empty());
        (!frame.0.is_multiple_of(5) || from == 2).then(|| Number(frame.0 + 1_000 * u64::from(from)))
    }

    fn handled(&mut self, _: u32, _: &Puppet) {
        self.handled += 1;
    }

    fn identity(&self, host: u32) -> PeerIdentity {
        identity_of(host + 50)
    }
}

#[test]
fn hosts_take_turns_on_a_shared_pipe_and_the_world_sees_all_frames() {
    let mut net = network(3, Shared::default());
    net.connect(0, 2);
    net.connect(1, 2);
    net.command(0, Order::Send(1, 50));
    net.command(1, Order::Send(1, 50));
    net.run_for(Duration::from_secs(1));
    let at_2: Vec<u64> = net.got.iter().filter(|(host, _)| *host == 2).map(|(_, number)| *number).collect();
    assert_eq!(at_2.len(), 80);
    let of_host = |host: u64| at_2.iter().filter(move |number| **number / 1_000 == host).collect::<Vec<_>>();
    assert!(of_host(0).is_sorted() && of_host(1).is_sorted());
    // The first host fills the pipe, two milliseconds ahead of time; then both take turns.
    let of_1 = at_2[..40].iter().filter(|number| **number >= 1_000).count();
    assert!((16..=20).contains(&of_1), "{of_1} of 40");
    assert!(net.got.contains(&(0, 2_500)) && net.got.contains(&(1, 2_500)), "the answer");
    // Three starts, four link inputs, three commands, 80 frames and two answers.
    assert_eq!(net.handled, 3 + 4 + 3 + 80 + 2);
}

#[test]
fn flush_throttle_releases_frames_together() {
    let mut world = Uniform::new(MS, 0);
    world.path.flush = 10 * MS;
    let mut net = network(2, world);
    net.connect(0, 1);
    net.command(0, Order::Send(1, 1));
    net.run_for(4 * MS);
    net.command(0, Order::Send(2, 1));
    net.run_for(20 * MS);
    assert_eq!(seen(&net, 1)[1..], [(11, Seen::Got(1)), (11, Seen::Got(2))]);
}

#[test]
fn seed_defines_the_run() {
    let run = |seed| {
        let mut net = Network::new(seed, Uniform::new(MS, 8_000_000));
        (0..5).for_each(|_| _ = net.add(Puppet::default(), outbox()));
        for _ in 0..50 {
            let (a, b) = (net.rng.below(5) as u32, net.rng.below(5) as u32);
            match net.rng.below(4) {
                0 => net.command(a, Order::Dial(b)),
                1 if a != b => net.disconnect(a, b),
                _ => net.command(a, Order::Send(net.now.as_nanos(), 3)),
            }
            let wait = Duration::from_micros(net.rng.below(3_000));
            net.run_for(wait);
        }
        net.events.clone()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
#[should_panic(expected = "does not hold within 1s")]
fn run_until_panics_after_its_limit() {
    slow(1).run_until(Duration::from_secs(1), |_| false);
}
