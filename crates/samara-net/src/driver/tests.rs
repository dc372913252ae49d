//! Random numbers and the clock of the driver.

use samara_engine::Frame;
use samara_engine::outbox::{Dispatch, OutboxConfig};

use super::*;

/// An engine that draws at its start, and notes when its timers fire.
#[derive(Default)]
struct Drawing(Option<(PeerKeyed, u64)>, Vec<Time>);

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

impl Engine for Drawing {
    type Frame = NoFrame;
    type Command = ();
    type Event = ();

    fn handle(&mut self, input: Input<NoFrame, ()>, cx: &mut Context<'_, NoFrame, ()>) {
        if let Input::Timer(_) = input {
            return self.1.push(cx.now());
        }
        assert!(matches!(input, Input::Start) && self.0.is_none());
        let number = cx.rng().clone().next_u64();
        self.0 = Some((cx.rng().table_hasher(), number));
        cx.set_timer(cx.now() + Duration::from_millis(10), TimerToken(0));
    }
}

fn start() -> Driver<Drawing> {
    let outbox = Outbox::new(OutboxConfig { dispatch: Dispatch::default(), lanes: Vec::new() });
    Driver::new(Drawing::default(), outbox).unwrap()
}

#[test]
fn no_two_engines_draw_the_same() {
    let draw = || {
        let drawn = start().engine().0.expect("it has started");
        assert_ne!(drawn.0, PeerKeyed::from_key([0, drawn.1]), "a key that follows from a number");
        drawn
    };
    let (one, two) = (draw(), draw());
    assert_ne!(one.0, two.0, "the keys of their tables");
    assert_ne!(one.1, two.1, "their random numbers");
}

#[test]
fn the_clock_leaves_out_the_time_in_which_the_process_did_not_run() {
    let mut driver = start();
    let due = driver.timers.peek().expect("a timer").0.0;
    driver.started -= Duration::from_secs(3);
    driver.fire_timers();
    assert_eq!(driver.engine().1, [due], "it fires as if on time");
    let now = driver.now();
    assert!(now >= due && now.since(due) < Duration::from_secs(2), "{now:?}");
    assert!(driver.now() >= now, "the clock never goes back");
}
