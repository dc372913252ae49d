//! Publications at given times.
//!
//! The timers of tokio have a resolution of a millisecond, so this module does not use them. It
//! waits with a timer of its own thread, and polls the clock at the end. Payloads are made earlier.

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_timer::Delay;
use samara_engine::outbox::Schedule;
use samara_engine::{NodeRng, Purpose};
use samara_gossipsub::rpc::Topic;

pub(crate) use crate::model::Late;
use crate::model::{PlannedReport, PlannedState};
use crate::part::unix_ns;

/// The payloads of a publication are made this long before its time.
const PREPARE_NS: u64 = 50_000_000;
/// The node only polls the clock this long before a publication. Threads wake up late by some 60 us
/// (`PR_GET_TIMERSLACK` is 50 us on Linux).
const SPIN_NS: u64 = 200_000;
/// Maximum interval between reads of the clock, since it can be set.
const CLOCK_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of publications to keep, including finished ones.
pub(crate) const PLANNED_MAX: usize = 10_000;
/// Maximum bytes of waiting payload, with random payloads that are not made yet.
const BYTES_MAX: usize = 256 << 20;

/// A given payload, or random bytes to make when they are needed.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Data(Bytes),
    Random(usize),
}

impl Payload {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Random(len) => *len,
        }
    }

    pub(crate) fn make(self) -> Bytes {
        match self {
            Self::Data(data) => data,
            Self::Random(len) => random(len),
        }
    }
}

/// Returns bytes that no other message has: ids are often computed from payloads. Not for secrets.
fn random(len: usize) -> Bytes {
    // The hasher of the standard library is seeded by the operating system.
    let mut rng = NodeRng::new(RandomState::new().build_hasher().finish(), 0, Purpose::Workload);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// A block whose cells and columns the node publishes.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) group: Bytes,
    pub(crate) topics: Vec<Topic>,
    /// The blobs whose cells leave unasked.
    pub(crate) push: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Planned {
    pub(crate) at_unix_ns: u64,
    pub(crate) messages: Vec<(String, Payload)>,
    /// Published instead of messages.
    pub(crate) block: Option<Block>,
    /// The order of the copies; `None` for that of the configuration.
    pub(crate) schedule: Option<Schedule>,
}

impl Planned {
    fn bytes(&self) -> usize {
        self.messages.iter().map(|(_, payload)| payload.len()).fold(0, usize::saturating_add)
    }
}

#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) number: u64,
    pub(crate) messages: Vec<(String, Bytes)>,
    pub(crate) block: Option<Block>,
    pub(crate) schedule: Option<Schedule>,
}

/// All planned publications, with their results.
#[derive(Debug)]
pub(crate) struct Plan {
    name: &'static str,
    waiting: BTreeMap<(u64, u64), Planned>,
    /// The first publication, with its payloads made.
    prepared: Option<(u64, Due)>,
    reports: BTreeMap<u64, PlannedReport>,
    next: u64,
    delay: Delay,
    /// The time at which the timer fires, if it is set.
    wake: Option<u64>,
    clock: fn() -> u64,
}

impl Plan {
    /// Creates a plan. `name` is the key of its entries in requests.
    pub(crate) fn new(name: &'static str) -> Self {
        let (waiting, reports) = (BTreeMap::new(), BTreeMap::new());
        Self {
            name,
            waiting,
            prepared: None,
            reports,
            next: 0,
            delay: Delay::new(CLOCK_CHECK_EVERY),
            wake: None,
            clock: unix_ns,
        }
    }

    /// Adds publications, all or none.
    ///
    /// # Errors
    /// Describes the fault: a time is in the past although `late` refuses that, or there are too
    /// many publications.
    pub(crate) fn add(&mut self, planned: Vec<Planned>, late: Late) -> Result<Vec<u64>, String> {
        let now = unix_ns();
        for (at, planned) in planned.iter().enumerate() {
            let found = planned.at_unix_ns;
            if found <= now && matches!(late, Late::Refuse) {
                let late = (now - found) as f64 / 1e6;
                return Err(format!(
                    "{}[{at}].at_unix_ns: found {found}, which is {late:.3} ms ago; expected a time after {now}",
                    self.name
                ));
            }
        }
        let waiting = self.waiting.len() + usize::from(self.prepared.is_some());
        if waiting + planned.len() > PLANNED_MAX {
            return Err(format!(
                "found {} {} while {waiting} wait; expected at most {PLANNED_MAX} together",
                planned.len(),
                self.name
            ));
        }
        let bytes = self.waiting.values().chain(&planned).map(Planned::bytes).fold(0, usize::saturating_add);
        if bytes > BYTES_MAX {
            return Err(format!("found {bytes} bytes of waiting payload; expected at most {BYTES_MAX}"));
        }
        let mut numbers = Vec::with_capacity(planned.len());
        for planned in planned {
            let number = self.next;
            self.next += 1;
            let report = PlannedReport {
                number,
                at_unix_ns: planned.at_unix_ns,
                messages: planned.block.as_ref().map_or(planned.messages.len(), |block| block.topics.len()),
                ..PlannedReport::default()
            };
            self.reports.insert(number, report);
            self.waiting.insert((planned.at_unix_ns, number), planned);
            numbers.push(number);
        }
        self.put_back();
        self.forget_old();
        Ok(numbers)
    }

    /// Returns the prepared publication to the queue, if an earlier one has been added.
    fn put_back(&mut self) {
        let first = self.waiting.keys().next().map(|(at, _)| *at);
        let Some((at, due)) = self.prepared.take_if(|(at, _)| first.is_some_and(|first| first < *at)) else {
            return;
        };
        let messages = due.messages.into_iter().map(|(topic, data)| (topic, Payload::Data(data))).collect();
        let planned = Planned { at_unix_ns: at, messages, block: due.block, schedule: due.schedule };
        self.waiting.insert((at, due.number), planned);
    }

    fn forget_old(&mut self) {
        while self.reports.len() > PLANNED_MAX {
            let over = self.reports.iter().find(|(_, report)| report.state != PlannedState::Waiting);
            let Some(number) = over.map(|(number, _)| *number) else { return };
            self.reports.remove(&number);
        }
    }

    pub(crate) fn done(&mut self, number: u64, actual_unix_ns: u64, took_ns: u64, batch: Option<u64>) {
        if let Some(report) = self.reports.get_mut(&number) {
            report.state = PlannedState::Published;
            report.actual_unix_ns = Some(actual_unix_ns);
            report.late_ns = Some(actual_unix_ns as i64 - report.at_unix_ns as i64);
            report.took_ns = Some(took_ns);
            report.batch = batch;
        }
    }

    /// Cancels the waiting publications. Returns their number.
    pub(crate) fn cancel(&mut self) -> usize {
        self.waiting.clear();
        self.prepared = None;
        let waiting = self.reports.values_mut().filter(|report| report.state == PlannedState::Waiting);
        waiting.map(|report| report.state = PlannedState::Cancelled).count()
    }

    /// Reports all known publications, in the order of their requests.
    pub(crate) fn report(&self) -> Vec<PlannedReport> {
        self.reports.values().cloned().collect()
    }

    fn first(&self) -> Option<u64> {
        let prepared = self.prepared.as_ref().map(|(at, _)| *at);
        prepared.or_else(|| self.waiting.keys().next().map(|(at, _)| *at))
    }

    fn prepare(&mut self) {
        if self.prepared.is_none()
            && let Some(((at, number), planned)) = self.waiting.pop_first()
        {
            let messages = planned.messages.into_iter().map(|(topic, payload)| (topic, payload.make()));
            let (block, schedule) = (planned.block, planned.schedule);
            let due = Due { number, messages: messages.collect(), block, schedule };
            self.prepared = Some((at, due));
        }
    }

    /// Returns the next publication at its time. Pending while there is none.
    pub(crate) fn due(&mut self) -> DueFuture<'_> {
        DueFuture(self)
    }
}

/// The future of [`Plan::due`]. Dropping it before it is ready loses nothing.
#[derive(Debug)]
pub(crate) struct DueFuture<'a>(&'a mut Plan);

impl Future for DueFuture<'_> {
    type Output = Due;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Due> {
        let plan = &mut *self.0;
        loop {
            let Some(at) = plan.first() else { return Poll::Pending };
            if at.saturating_sub((plan.clock)()) <= PREPARE_NS {
                plan.prepare();
            }
            let now = (plan.clock)();
            let left = at.saturating_sub(now);
            if left <= SPIN_NS
                && let Some((_, due)) = plan.prepared.take()
            {
                // Not by the clock, which can be set back: this would block the node until then.
                let start = Instant::now();
                while start.elapsed() < Duration::from_nanos(left) {
                    std::hint::spin_loop();
                }
                return Poll::Ready(due);
            }
            let until = if plan.prepared.is_some() { SPIN_NS } else { PREPARE_NS };
            let wait = Duration::from_nanos(left.saturating_sub(until)).min(CLOCK_CHECK_EVERY);
            let wake = now + wait.as_nanos() as u64;
            if plan.wake.is_none_or(|known| wake < known) {
                plan.delay.reset(wait);
                plan.wake = Some(wake);
            }
            match Pin::new(&mut plan.delay).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => plan.wake = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_payloads_differ_and_have_the_requested_length() {
        for len in [0, 1, 7, 8, 9, 4096] {
            assert_eq!(Payload::Random(len).make().len(), len);
        }
        assert_ne!(Payload::Random(32).make(), Payload::Random(32).make());
    }

    thread_local! {
        /// The times that [`set_back`] returns, in reverse.
        static TIMES: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    /// A clock that is set back by an hour, and stands still then.
    fn set_back() -> u64 {
        TIMES.with_borrow_mut(|times| if times.len() > 1 { times.pop().unwrap() } else { times[0] })
    }

    /// A clock that is set back just before the time of a publication does not hold the node.
    #[test]
    fn a_clock_that_is_set_back_does_not_block() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let at_unix_ns = 2 * unix_ns();
        let mut plan = Plan::new("publications");
        plan.add(vec![Planned { at_unix_ns, ..Planned::default() }], Late::Refuse).unwrap();
        // The publication is prepared, and is 100 us away when the node looks for the last time.
        TIMES.set(vec![at_unix_ns - HOUR_NS, at_unix_ns - 100_000, at_unix_ns - 100_000]);
        plan.clock = set_back;
        let mut due = std::pin::pin!(plan.due());
        let waker = std::task::Waker::noop();
        assert!(due.as_mut().poll(&mut Context::from_waker(waker)).is_ready());
    }

    #[test]
    fn payloads_that_are_not_made_count() {
        let mut plan = Plan::new("publications");
        let planned = |bytes| Planned {
            at_unix_ns: u64::MAX,
            messages: vec![(String::new(), Payload::Random(bytes))],
            ..Planned::default()
        };
        assert!(plan.add(vec![planned(BYTES_MAX / 2), planned(BYTES_MAX / 2)], Late::Refuse).is_ok());
        let refused = plan.add(vec![planned(1)], Late::Refuse).unwrap_err();
        assert!(refused.contains("268435457 bytes"), "{refused}");
        assert!(plan.add(vec![planned(usize::MAX)], Late::Refuse).is_err());
        plan.cancel();
        assert!(plan.add(vec![planned(BYTES_MAX)], Late::Refuse).is_ok());
    }
}
