//! Tests of the driver's clock.

use super::*;
use crate::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use crate::{PeerIdentity, PeerInfo, Purpose};

/// An engine that sets a timer at its start and records when it fires.
#[derive(Default)]
struct Timed(Vec<Time>);

#[derive(Clone, Debug)]
struct NoFrame;

impl Frame for NoFrame {
    fn encoded_len(&self) -> usize {
        0
    }

    fn payload_len(&self) -> usize {
        0
    }
}

impl Engine for Timed {
    type Frame = NoFrame;
    type Command = ();
    type Event = ();

    fn handle(&mut self, input: Input<NoFrame, ()>, cx: &mut Context<'_, NoFrame, ()>) {
        match input {
            Input::Start => cx.set_timer(cx.now() + Duration::from_millis(10), TimerToken(0)),
            Input::Timer(_) => self.0.push(cx.now()),
            _ => {}
        }
    }
}

const PEER: PeerId = PeerId(0);

/// Returns the number of copies that leave.
fn leave(driver: &mut Driver<Timed>) -> usize {
    std::iter::from_fn(|| driver.pop(|outbox| outbox.pop_for(Time::ZERO, PEER))).count()
}

fn start() -> Driver<Timed> {
    let outbox = Outbox::new(OutboxConfig {
        dispatch: Dispatch::default(),
        lanes: vec![LaneConfig::unbounded("all", 0)],
    });
    Driver::new(Timed::default(), outbox, NodeRng::new(1, 0, Purpose::Engine))
}

#[test]
fn clock_skips_time_while_the_process_was_suspended() {
    let mut driver = start();
    let due = driver.timers.peek().expect("a timer").0.0;
    driver.started -= Duration::from_secs(3);
    driver.fire_timers();
    assert_eq!(driver.engine().0, [due], "the timer fires as if it were on time");
    let now = driver.now();
    assert!(now >= due && now.since(due) < Duration::from_secs(2), "{now:?}");
    assert!(driver.now() >= now, "the clock never goes back");
}

#[test]
fn a_host_breaks_the_rules_from_their_times_on() {
    let mut driver = start();
    let hours = |hours: u64| Time::from_secs(hours * 3_600);
    let rng = NodeRng::new(1, 0, Purpose::Hostile);
    // A process that starts later is in the state of its time.
    let plan = vec![
        (hours(2), Misconduct::Withhold, 0.0),
        (Time::ZERO, Misconduct::Flood, 3.0),
        (hours(1), Misconduct::Withhold, 1.0),
    ];
    driver.misbehave(plan, None, rng);
    driver.outbox().link_up(PEER);
    let info =
        PeerInfo { identity: PeerIdentity::new(b"peer"), outbound: true, address: None, protocol: "".into() };
    driver.input(Input::LinkUp { peer: PEER, info });
    driver.input(Input::Frame { peer: PEER, frame: NoFrame });
    assert_eq!(leave(&mut driver), 3, "it floods already");
    driver.last = hours(1);
    assert!(driver.leaving(PEER, NoFrame).is_none());
    let now = driver.last;
    driver.outbox().owe(now, PEER, Lane(0), NoFrame, None, None).expect("room");
    assert_eq!(leave(&mut driver), 0);
    driver.last = hours(2);
    assert!(driver.leaving(PEER, NoFrame).is_some());
}
