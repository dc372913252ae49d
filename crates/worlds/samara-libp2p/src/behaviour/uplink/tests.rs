use std::sync::{Arc, Mutex};

use futures::channel::mpsc::UnboundedReceiver;
use futures::task::noop_waker_ref;
use libp2p::Multiaddr;
use libp2p::identity::Keypair;
use libp2p::swarm::{ConnectionId, NetworkBehaviour, NotifyHandler, ToSwarm};
use samara_engine::outbox::{Dispatch, LaneCapacity};
use samara_gossipsub::Config;
use samara_gossipsub::rpc::{Rpc, RpcFrame, SubOpts, Topic};

use super::*;
use crate::Options;
use crate::handler::{FromHandler, ToHandler};
use crate::transport::{Ends, Registered, Socket};

const FRAME_BYTES: u64 = 16 << 10;

/// A connection that the test lets move.
#[derive(Default)]
struct Fake(Mutex<Reading>);

impl Meter for Fake {
    fn read(&self) -> Option<Reading> {
        let mut reading = self.0.lock().unwrap();
        let answer = *reading;
        reading.round_trip = Duration::ZERO;
        Some(answer)
    }
}

struct Link {
    peer: PeerId,
    id: ConnectionId,
    meter: Option<(Arc<Fake>, Registered)>,
    frames: UnboundedReceiver<RpcFrame>,
    handed: u64,
    subscriptions: usize,
    /// Whether the stream takes what is handed over.
    is_read: bool,
}

struct Node {
    behaviour: Behaviour,
    links: Vec<Link>,
}

impl Node {
    fn new(options: Options) -> Self {
        let mut config = Config::spec();
        config.sending.dispatch = Dispatch::Node;
        config.sending.publish = LaneCapacity::UNBOUNDED;
        config.flood_publish = true;
        config.peer_score = None;
        let mut behaviour = Behaviour::new(&Keypair::generate_ed25519(), config, options).unwrap();
        behaviour.subscribe(&Topic::new("t")).unwrap();
        Self { behaviour, links: Vec::new() }
    }

    /// Connects a peer that has joined the topic.
    fn connect(&mut self, number: usize, is_metered: bool) {
        let (peer, id) = (PeerId::random(), ConnectionId::new_unchecked(number));
        let local: Multiaddr = "/ip4/192.0.2.1/tcp/1".parse().unwrap();
        let remote: Multiaddr = format!("/ip4/192.0.2.2/tcp/{number}").parse().unwrap();
        let meter = is_metered.then(|| {
            let meter = Arc::new(Fake(Mutex::new(Reading {
                window: 1 << 20,
                round_trip_mean: Duration::from_millis(40),
                round_trip_min: Duration::from_millis(40),
                ..Reading::default()
            })));
            let ends = Ends::Inbound {
                local: Socket::Tcp("192.0.2.1:1".parse().unwrap()),
                remote: Socket::Tcp(format!("192.0.2.2:{number}").parse().unwrap()),
            };
            let weak = Arc::downgrade(&meter);
            let registered = self.behaviour.options.meters.register(ends, weak);
            (meter, registered)
        });
        self.behaviour.handle_established_inbound_connection(id, peer, &local, &remote).unwrap();
        let protocol = crate::PROTOCOLS[0].clone();
        let theirs = FromHandler::TheirsOpened { protocol: protocol.clone(), is_late: false };
        self.behaviour.on_connection_handler_event(peer, id, theirs);
        let mut cx = Context::from_waker(noop_waker_ref());
        let frames = loop {
            let Poll::Ready(action) = NetworkBehaviour::poll(&mut self.behaviour, &mut cx) else {
                panic!("no stream is opened")
            };
            if let ToSwarm::NotifyHandler { handler: NotifyHandler::One(_), event, .. } = action {
                let ToHandler::Open(1, frames) = event else { panic!("another stream") };
                break frames;
            }
        };
        self.behaviour.on_connection_handler_event(peer, id, FromHandler::Opened(1, protocol));
        let joins = SubOpts {
            subscribe: true,
            topic: Topic::new("t"),
            partial: Default::default(),
            unknown: Default::default(),
        };
        let frame = RpcFrame::new(Rpc { subscriptions: vec![joins], ..Rpc::default() });
        self.behaviour.on_connection_handler_event(peer, id, FromHandler::Frame(frame, true));
        self.links.push(Link { peer, id, meter, frames, handed: 0, subscriptions: 0, is_read: true });
        self.settle();
    }

    fn publish(&mut self, count: u8) {
        for number in 0..count {
            let data = vec![number; FRAME_BYTES as usize];
            self.behaviour.publish(Topic::new("t"), data).unwrap();
        }
        self.settle();
    }

    /// Polls, and takes the frames that were handed over.
    fn settle(&mut self) {
        let mut cx = Context::from_waker(noop_waker_ref());
        while NetworkBehaviour::poll(&mut self.behaviour, &mut cx).is_ready() {}
        for link in &mut self.links {
            let mut written = 0;
            while let Ok(frame) = link.frames.try_recv() {
                use samara_engine::Frame;
                written += 1;
                link.handed += frame.encoded_len() as u64;
                link.subscriptions += frame.rpc().subscriptions.len();
            }
            if written > 0 && link.is_read {
                let event = FromHandler::Written(written);
                self.behaviour.on_connection_handler_event(link.peer, link.id, event);
            }
        }
        while NetworkBehaviour::poll(&mut self.behaviour, &mut cx).is_ready() {}
    }

    fn handed(&self) -> u64 {
        self.links.iter().map(|link| link.handed).sum()
    }

    /// Lets everything arrive that was handed to a link, after this round trip.
    fn arrive(&mut self, at: usize, round_trip: Duration) {
        let link = &self.links[at];
        let (meter, _) = link.meter.as_ref().unwrap();
        let mut reading = meter.0.lock().unwrap();
        (reading.written, reading.acknowledged, reading.under_way) = (link.handed, link.handed, 0);
        (reading.round_trip, reading.round_trip_mean) = (round_trip, round_trip);
    }
}

fn wait() {
    std::thread::sleep(READ_EVERY_MAX + Duration::from_millis(1));
}

#[test]
fn copies_wait_for_the_limit_and_urgent_frames_do_not() {
    let mut node = Node::new(Options::default());
    (1..=4).for_each(|number| node.connect(number, true));
    node.publish(20);
    let limit = LimitConfig::default().first;
    // The pacer lets the first bytes out over a round trip.
    let deadline = Instant::now() + Duration::from_secs(20);
    while node.behaviour.uplink().unwrap().under_way_bytes < limit {
        assert!(Instant::now() < deadline, "{:?}", node.behaviour.uplink());
        wait();
        node.settle();
    }
    let uplink = node.behaviour.uplink().unwrap();
    assert_eq!((uplink.limit_bytes, uplink.metered_links, uplink.other_links), (limit, 4, 0));
    assert!((limit..limit + FRAME_BYTES + 100).contains(&uplink.under_way_bytes), "{uplink:?}");
    assert!(node.handed() < limit + FRAME_BYTES + 4 * 1000, "{}", node.handed());
    assert!(node.behaviour.pending() > 60);

    // Every peer learns of another topic meanwhile.
    let before: Vec<usize> = node.links.iter().map(|link| link.subscriptions).collect();
    node.behaviour.subscribe(&Topic::new("other")).unwrap();
    node.settle();
    for (link, before) in node.links.iter().zip(before) {
        assert_eq!(link.subscriptions, before + 1);
    }

    // The rest leaves as bytes arrive, faster and faster while there is no delay.
    let mut rounds = 0;
    while node.behaviour.pending() > 0 {
        (0..4).for_each(|at| node.arrive(at, Duration::from_millis(40)));
        wait();
        node.settle();
        rounds += 1;
        assert!(rounds < 20, "{:?}", node.behaviour.uplink());
    }
    assert!(rounds > 2, "{rounds}");
    node.settle();
    assert!(node.handed() > 80 * FRAME_BYTES);
    assert!(node.behaviour.uplink().unwrap().limit_bytes > limit);
}

#[test]
fn a_peer_that_does_not_read_keeps_no_part_of_the_limit() {
    let mut node = Node::new(Options::default());
    (1..=2).for_each(|number| node.connect(number, true));
    node.links[0].is_read = false;
    node.publish(40);
    let stuck = node.links[0].handed;
    let deadline = Instant::now() + Duration::from_secs(20);
    while node.links[1].handed < 40 * FRAME_BYTES {
        node.arrive(1, Duration::from_millis(40));
        wait();
        node.settle();
        assert!(Instant::now() < deadline, "{:?}", node.behaviour.uplink());
    }
    assert!(stuck > 0 && node.links[0].handed < 20 * FRAME_BYTES, "{}", node.links[0].handed);
    assert!(node.behaviour.pending() > 20);
}

#[test]
fn weights_follow_round_trips() {
    let mut node = Node::new(Options::default());
    node.connect(1, true);
    let handle = node.behaviour.handle(&node.links[0].peer).unwrap();
    let weight = |node: &mut Node| node.behaviour.driver.outbox().weight(handle, Weight::Latency);
    assert_eq!(weight(&mut node), 25.0);
    node.publish(1);
    node.arrive(0, Duration::from_millis(80));
    wait();
    node.settle();
    assert_eq!(weight(&mut node), 12.5);
}

#[test]
fn the_rate_follows_the_window_though_the_round_trip_stays() {
    let mut node = Node::new(Options::default());
    node.connect(1, true);
    let handle = node.behaviour.handle(&node.links[0].peer).unwrap();
    let rate = |node: &mut Node| node.behaviour.driver.outbox().weight(handle, Weight::Bandwidth);
    assert_eq!(rate(&mut node), f64::from(25 << 20));
    node.publish(1);
    let (meter, _) = node.links[0].meter.as_ref().unwrap();
    meter.0.lock().unwrap().window = 4 << 20;
    node.arrive(0, Duration::from_millis(40));
    wait();
    node.settle();
    assert_eq!(rate(&mut node), f64::from(100 << 20));
}

#[test]
fn weights_are_read_when_a_batch_needs_them_and_not_kept_without_a_meter() {
    let mut node = Node::new(Options { uplink: None, ..Options::default() });
    node.connect(1, true);
    let handle = node.behaviour.handle(&node.links[0].peer).unwrap();
    let topics = [Topic::new("t")];
    node.arrive(0, Duration::from_millis(80));
    let trip = |node: &mut Node| node.behaviour.driver.outbox().round_trip(handle);
    let deadline = Instant::now() + Duration::from_secs(20);
    while trip(&mut node) != Some(Duration::from_millis(80)) {
        // The driver's clock skips longer pauses.
        std::thread::sleep(Duration::from_millis(20));
        node.behaviour.driver.fire_timers();
        node.behaviour.measure(Weight::Latency, &topics).unwrap();
        assert!(Instant::now() < deadline, "{:?}", trip(&mut node));
    }
    let connection = node.behaviour.peers.get_mut(&node.links[0].peer).and_then(Peer::active).unwrap();
    connection.gauge = None;
    let peer = node.links[0].peer;
    node.behaviour.meter_up(peer, handle);
    assert_eq!(trip(&mut node), None);
    assert!(node.behaviour.measure(Weight::Bandwidth, &topics).is_err());
}

#[test]
fn round_trips_are_known_without_the_limit() {
    let mut node = Node::new(Options { uplink: None, ..Options::default() });
    node.connect(1, true);
    node.connect(2, false);
    let [metered, foreign] = [0, 1].map(|at| node.behaviour.handle(&node.links[at].peer).unwrap());
    let outbox = node.behaviour.driver.outbox();
    assert_eq!(outbox.round_trip(metered), Some(Duration::from_millis(40)));
    assert_eq!(outbox.round_trip(foreign), None);
    node.arrive(0, Duration::from_millis(80));
    // A frame that leaves later reads it.
    let trip = |node: &mut Node| node.behaviour.driver.outbox().round_trip(metered);
    let deadline = Instant::now() + Duration::from_secs(20);
    while trip(&mut node) != Some(Duration::from_millis(80)) {
        // The driver's clock skips longer pauses.
        std::thread::sleep(Duration::from_millis(20));
        node.publish(1);
        assert!(Instant::now() < deadline, "{:?}", trip(&mut node));
    }
}

#[test]
fn links_without_a_meter_have_their_constant_budget() {
    let mut node = Node::new(Options::default());
    (1..=4).for_each(|number| node.connect(number, false));
    let budget = node.behaviour.options.in_flight_bytes as u64;
    node.publish(20);
    let uplink = node.behaviour.uplink().unwrap();
    assert_eq!((uplink.metered_links, uplink.other_links, uplink.under_way_bytes), (0, 4, 0));
    // Each poll passes another budget, since the test writes everything at once.
    assert!(node.links.iter().all(|link| link.handed >= budget), "{}", node.handed());
    assert!(node.behaviour.has_warned);
}

#[test]
fn the_limit_can_be_switched_off() {
    let mut node = Node::new(Options { uplink: None, in_flight_bytes: 1 << 20, ..Options::default() });
    node.connect(1, true);
    node.publish(60);
    assert_eq!(node.behaviour.uplink(), None);
    assert!(node.handed() > LimitConfig::default().first + FRAME_BYTES + 1000);
    assert!(!node.behaviour.has_warned);
}
