use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NEW: StreamProtocol = StreamProtocol::new("/meshsub/1.3.0");

fn id(number: usize) -> ConnectionId {
    ConnectionId::new_unchecked(number)
}

/// A peer, and a model of its streams that follows the steps.
struct Played {
    life: Life,
    now: Instant,
    /// The connections that exist: whether the stream of this node is being opened or is open, and
    /// whether it carries frames.
    streams: BTreeMap<usize, (bool, bool)>,
    /// The connections with a stream of the peer.
    theirs: BTreeMap<usize, bool>,
    is_up: bool,
    is_heard: bool,
    greetings: usize,
    steps: Vec<Step>,
}

impl Played {
    fn new() -> Self {
        Self {
            life: Life::default(),
            now: Instant::now(),
            streams: BTreeMap::new(),
            theirs: BTreeMap::new(),
            is_up: false,
            is_heard: true,
            greetings: 0,
            steps: Vec::new(),
        }
    }

    fn on(&mut self, number: usize, happened: Happened) -> &[Step] {
        match &happened {
            Happened::Connected { .. } => {
                self.streams.insert(number, (false, false));
                self.theirs.insert(number, false);
            }
            Happened::Closed => {
                self.streams.remove(&number);
                self.theirs.remove(&number);
            }
            Happened::Broken | Happened::Refused => _ = self.streams.insert(number, (false, false)),
            Happened::TheirsOpened { .. } => {}
            Happened::TheirsEnded => _ = self.theirs.insert(number, false),
            Happened::Opened(_) => {}
        }
        let speaks = matches!(happened, Happened::TheirsOpened { .. });
        self.steps = self.life.on(id(number), happened, self.now);
        if speaks && !self.steps.contains(&Step::GiveUp(id(number))) {
            let connection = self.life.connections.iter().find(|connection| connection.id == id(number));
            self.theirs.insert(number, connection.is_some_and(|connection| connection.is_heard));
        }
        let numbers: Vec<usize> = self.streams.keys().copied().collect();
        let number_of = |wanted: ConnectionId| numbers.iter().copied().find(|number| id(*number) == wanted);
        for step in &self.steps {
            match step {
                Step::Up(at, _) => {
                    assert!(!std::mem::replace(&mut self.is_up, true), "a link comes up once");
                    assert!(number_of(*at).is_some());
                    self.is_heard = true;
                }
                Step::Down => assert!(std::mem::take(&mut self.is_up) && numbers.is_empty()),
                Step::Open(at) => {
                    let stream = self.streams.get_mut(&number_of(*at).expect("a connection")).expect("it");
                    assert!(!stream.0, "a second stream on one connection");
                    stream.0 = true;
                }
                Step::Greet(at, _) => {
                    assert!(self.is_up);
                    let stream = self.streams.get_mut(&number_of(*at).expect("a connection")).expect("it");
                    assert!(stream.0 && !stream.1, "a stream is greeted once");
                    stream.1 = true;
                    self.greetings += 1;
                }
                Step::Finish(at) => {
                    let number = number_of(*at).expect("a connection");
                    self.streams.insert(number, (false, false));
                }
                Step::Heard(is_heard) => {
                    assert!(self.is_up && self.is_heard != *is_heard);
                    self.is_heard = *is_heard;
                }
                Step::Repeat => assert!(self.is_up),
                Step::GiveUp(at) => assert!(number_of(*at).is_some()),
                Step::NotSupported => assert!(!self.is_up),
            }
        }
        self.check();
        &self.steps
    }

    fn check(&self) {
        let carriers = self.streams.values().filter(|(_, carries)| *carries).count();
        assert!(carriers <= 1, "{carriers} streams carry frames");
        if self.is_up && self.life.was_heard {
            assert_eq!(self.is_heard, self.theirs.values().any(|is_open| *is_open));
        }
        // As long as a connection is neither refused nor given up, a stream is open or on its way.
        let hopeful = self.life.connections.iter().any(|connection| connection.ours == Ours::Closed);
        let routes = self.streams.values().filter(|(is_open, _)| *is_open).count();
        assert!(routes > 0 || !hopeful || self.streams.is_empty(), "no stream is on its way");
    }

    fn connect(&mut self, number: usize) {
        self.on(number, Happened::Connected { is_outbound: number.is_multiple_of(2), address: None });
    }

    fn carrier(&self) -> Option<usize> {
        self.streams.iter().find(|(_, (_, carries))| *carries).map(|(number, _)| *number)
    }

    fn speak(&mut self, number: usize) -> &[Step] {
        self.on(number, Happened::TheirsOpened { protocol: NEW, is_late: false })
    }
}

#[test]
fn a_peer_that_restarts_behind_an_open_connection_is_greeted_on_its_new_one() {
    let mut peer = Played::new();
    peer.connect(1);
    peer.on(1, Happened::Opened(NEW));
    peer.speak(1);
    // Another connection alone changes nothing: it may belong to other protocols.
    peer.connect(2);
    assert_eq!(peer.steps, []);
    assert_eq!(peer.speak(2), [Step::Open(id(2))]);
    assert_eq!(peer.carrier(), Some(1), "until the new stream is open");
    assert_eq!(peer.on(2, Happened::Opened(NEW)), [Step::Finish(id(1)), Step::Greet(id(2), NEW)]);
    // A stream on the older connection moves nothing back.
    assert_eq!(peer.speak(1), [Step::Repeat]);
    assert_eq!(peer.on(1, Happened::Closed), []);
    assert_eq!(peer.carrier(), Some(2));
}

#[test]
fn a_broken_stream_moves_to_a_connection_that_works() {
    let mut peer = Played::new();
    peer.connect(1);
    peer.on(1, Happened::Opened(NEW));
    peer.connect(2);
    assert_eq!(peer.on(1, Happened::Closed), [Step::Open(id(2))]);
    peer.on(2, Happened::Opened(NEW));
    assert_eq!(peer.carrier(), Some(2));
    assert_eq!(peer.on(2, Happened::Closed), [Step::Down]);
}

#[test]
fn streams_recover_with_time_and_too_many_end_the_connection() {
    let mut peer = Played::new();
    peer.connect(1);
    peer.speak(1);
    for _ in 1..OURS_MAX {
        peer.on(1, Happened::Opened(NEW));
        assert_eq!(peer.on(1, Happened::Broken), [Step::Open(id(1))]);
    }
    peer.now += REFILL;
    peer.on(1, Happened::Opened(NEW));
    assert_eq!(peer.on(1, Happened::Broken), [Step::Open(id(1))], "one more");
    assert_eq!(peer.on(1, Happened::Broken), [Step::GiveUp(id(1))]);

    let mut peer = Played::new();
    peer.connect(1);
    for day in 0..1000 {
        assert!(!peer.speak(1).contains(&Step::GiveUp(id(1))), "stream {day} of a long connection");
        peer.now += REFILL;
    }
    let refused = (0..2 * THEIRS_MAX).find(|_| peer.speak(1).contains(&Step::GiveUp(id(1))));
    assert_eq!(refused, Some(THEIRS_MAX));
}

#[test]
fn a_peer_without_our_protocols_is_reported_once_all_connections_refuse() {
    let mut peer = Played::new();
    peer.connect(1);
    peer.connect(2);
    assert_eq!(peer.on(1, Happened::Refused), [Step::Open(id(2))]);
    assert_eq!(peer.on(2, Happened::Refused), [Step::NotSupported]);
}

proptest! {
    /// Connects, restarts, resets, half-closed streams and both dial directions in any order.
    #[test]
    fn one_stream_carries_frames_in_any_order(
        events in prop::collection::vec((0..9_u8, 0..4_usize, 0..8_u64), 1..120),
    ) {
        let mut peer = Played::new();
        let mut next = 0;
        for (event, which, pause) in events {
            peer.now += Duration::from_secs(pause * pause);
            let existing: Vec<usize> = peer.streams.keys().copied().collect();
            let Some(number) = existing.get(which % existing.len().max(1)).copied().filter(|_| event > 0) else {
                if existing.len() < 4 {
                    next += 1;
                    peer.connect(next);
                }
                continue;
            };
            let is_pending = peer.streams[&number].0 && !peer.streams[&number].1;
            match event {
                1 => _ = peer.on(number, Happened::Closed),
                2 | 3 if is_pending => {
                    let greetings = peer.greetings;
                    peer.on(number, Happened::Opened(NEW));
                    prop_assert!(peer.greetings <= greetings + 1);
                    // It carries frames, unless a newer connection does.
                    prop_assert!(peer.carrier() >= Some(number));
                }
                4 if is_pending => _ = peer.on(number, Happened::Refused),
                5 if peer.streams[&number].0 => _ = peer.on(number, Happened::Broken),
                6 | 7 => _ = peer.speak(number),
                8 if peer.theirs[&number] => _ = peer.on(number, Happened::TheirsEnded),
                _ => {}
            }
        }
        // All that is on its way arrives, and the peer speaks on its newest connection, which has had
        // time: it carries the frames.
        if let Some(newest) = peer.streams.keys().next_back().copied() {
            let usable = |peer: &Played| {
                let last = peer.life.connections.last();
                last.is_some_and(|last| !matches!(last.ours, Ours::Refused | Ours::GivenUp))
            };
            peer.now += 100 * REFILL;
            peer.speak(newest);
            for number in peer.streams.keys().copied().collect::<Vec<_>>() {
                if peer.streams[&number] == (true, false) {
                    peer.on(number, Happened::Opened(NEW));
                }
            }
            prop_assert!(!usable(&peer) || peer.carrier() == Some(newest));
        }
        for number in peer.streams.keys().copied().collect::<Vec<_>>() {
            peer.on(number, Happened::Closed);
        }
        prop_assert!(!peer.is_up && peer.life.is_over());
    }
}
