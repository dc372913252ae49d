//! Tests of the driver's clock.

use super::*;
use crate::outbox::{Dispatch, OutboxConfig};
use crate::{Frame, Purpose};

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
            _ => self.0.push(cx.now()),
        }
    }
}

fn start() -> Driver<Timed> {
    let outbox = Outbox::new(OutboxConfig { dispatch: Dispatch::default(), lanes: Vec::new() });
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
