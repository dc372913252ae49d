//! The record of a host: its uplink, the reasons why its links cannot send, and what arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use samara_engine::outbox::Outgoing;
use smallvec::SmallVec;

use super::uplink::{Busy, Counters, LinkTime, Packet, Uplink};
use super::{Arrival, Cause, Compact, Describe, Parts, Sent, Trace, Trigger};

/// A host forgets the past of its uplink when it remembers this many periods, or twice as many as
/// after the last time.
const PERIODS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// True if the uplink has a queue of its own, so that links do not wait for the uplink itself.
    has_queue: bool,
    uplink: Uplink,
    /// The times at which the limit over all links had no room, and the start of the current one.
    full: Busy,
    full_since: Option<u64>,
    /// The links that have carried items, or could not send.
    links: Vec<Option<Box<Link>>>,
    /// The last reason of each link, with [`HAS_LOST`]: most calls change nothing, and visit nothing
    /// else.
    last: Vec<u8>,
    /// Number of entries of all `holds`.
    holds: usize,
    arrivals: FxHashMap<u64, Arrival>,
    /// For each item that was requested and has not arrived, by its name: the links over which it was
    /// requested, with the time of the first request on each.
    asked: FxHashMap<u64, SmallVec<[(u32, u64); 1]>>,
    /// The packet that leaves next.
    leaving: Option<Leaving>,
    /// The packet that is being received: its number at the sender, and its arrival at the downlink.
    arriving: Option<(u32, u64)>,
    forget_at: usize,
}

/// A packet with data that leaves.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// The write rank of its data.
    pub(crate) rank: u64,
    pub(crate) again: bool,
    /// The records of the frames that end in it.
    pub(crate) complete: SmallVec<[Arc<Trace>; 1]>,
}

#[derive(Debug, Default)]
struct Link {
    time: LinkTime,
    /// The reasons why the link cannot send. It stays at the last reason while the link can send.
    /// Before the first one, nothing keeps the link from sending.
    holds: Vec<Hold>,
    /// The copies that were taken and have not left.
    waiting: VecDeque<Box<Waiting>>,
    /// Those of earlier incarnations of the link, whose last packets are in the queue of the uplink.
    gone: Vec<Waiting>,
    /// The frame that leaves, and the time of its packets so far.
    own: (u64, u64),
    /// Number of packets with data that were lost on their way and not repeated yet.
    lost: u32,
}

/// A reason why a link cannot send.
#[derive(Clone, Copy, Debug)]
struct Hold {
    since: u64,
    cause: Cause,
    /// The time before `since` in which the reasons of the link count: see [`Recorder::free`].
    free: u64,
}

/// A copy that was taken and has not left.
#[derive(Debug)]
struct Waiting {
    trace: Arc<Trace>,
    /// Those of the trace.
    batch: Option<u64>,
    rank: u64,
    taken_at: u64,
    /// The parts from the time when it was owed.
    parts: Parts,
    /// The counters when it was taken.
    start: Counters,
    /// The time at which its last byte entered the queue of the uplink, with the counters then.
    queued: Option<(u64, Counters)>,
}

/// A bit beside a cause: a packet was lost and not repeated yet.
const HAS_LOST: u8 = 1 << 7;

impl Recorder {
    /// Creates the record of a host; `has_queue` says whether its uplink has a queue of its own.
    pub(crate) fn new(has_queue: bool) -> Self {
        Self { has_queue, ..Self::default() }
    }

    // ---- the sender ----

    /// Records a copy that is passed to its link. Returns `None` for a frame without items.
    pub(crate) fn take<F>(
        &mut self,
        now: u64,
        copy: &Outgoing<F>,
        rank: u64,
        describe: &Describe<F>,
    ) -> Option<Arc<Trace>> {
        let contents = describe(&copy.frame, copy.message);
        let (slot, batch, owed_at) = (copy.peer.0, contents.batch, copy.owed_at.as_nanos());
        for name in contents.asked {
            let asked = self.asked.entry(name).or_default();
            if !asked.iter().any(|(of, _)| *of == slot) {
                asked.push((slot, owed_at));
            }
        }
        if contents.items.is_empty() {
            return None;
        }
        let waited = self.waited(slot, batch, (owed_at, now));
        let last = self.uplink.last_batch();
        let link = link_of(&mut self.links, slot);
        if link.waiting.is_empty() {
            link.own = (0, 0);
            link.time.keep(|batch| last == Some(batch));
        }
        let start = link.time.counters(&self.uplink, now, slot, batch);
        let trace = Arc::new(Trace {
            items: contents.items,
            names: contents.names,
            batch,
            owed_at,
            trigger: Trigger::of_mark(copy.mark),
            sent: Default::default(),
        });
        link.waiting.push_back(Box::new(Waiting {
            trace: Arc::clone(&trace),
            batch,
            rank,
            taken_at: now,
            parts: waited,
            start,
            queued: None,
        }));
        Some(trace)
    }

    /// Divides the time of a copy in the outbox.
    fn waited(&self, slot: u32, batch: Option<u64>, (owed_at, now): (u64, u64)) -> Parts {
        let mut parts = Parts::default();
        if self.has_queue {
            // A copy that leaves while the limit is full is urgent: it seldom waits for the limit.
            let full = |at| if self.full_since.is_some() { 0 } else { self.full.until(at) };
            let [before, after] = [owed_at, now].map(full);
            parts.add(Cause::NodeLimit, after - before);
            let free = |hold: &Hold| hold.since - full(hold.since);
            self.add_holds(&mut parts, slot, (owed_at, owed_at - before), now - after, free);
            return parts;
        }
        let [before, after] = [owed_at, now].map(|at| self.uplink.busy.until(at));
        let of_batch = batch.and_then(|batch| self.uplink.batches.get(&batch));
        let same = of_batch.map_or(0, |busy| busy.until(now) - busy.until(owed_at));
        parts.add(Cause::SameBatch, same);
        parts.add(Cause::OtherTraffic, after - before - same);
        self.add_holds(&mut parts, slot, (owed_at, owed_at - before), now - after, |hold| hold.free);
        parts
    }

    /// Divides the time from a moment on by the reasons of a link. Only some time counts: the moment
    /// comes with what counts before it, `end` is what counts before the end, and `free` returns what
    /// counts before a reason.
    fn add_holds(
        &self,
        parts: &mut Parts,
        slot: u32,
        from: (u64, u64),
        mut end: u64,
        free: impl Fn(&Hold) -> u64,
    ) {
        let link = self.links.get(slot as usize).and_then(Option::as_ref);
        let holds = link.map_or(&[][..], |link| &link.holds);
        for hold in holds.iter().rev() {
            if end <= from.1 {
                return;
            }
            let start = if hold.since <= from.0 { from.1 } else { free(hold).clamp(from.1, end) };
            parts.add(hold.cause, end - start);
            end = start;
        }
        parts.add(Cause::Timer, end - from.1);
    }

    /// Returns the time before `at` in which the reasons of a link count: the uplink is idle or, if it
    /// has a queue, does not send data of the link.
    const fn free(&self, at: u64, counters: &Counters) -> u64 {
        at - if self.has_queue { counters.link } else { counters.uplink }
    }

    /// Notes whether the limit over all links has room.
    pub(crate) fn limit_has_room(&mut self, now: u64, has_room: bool) {
        if !has_room {
            self.full_since.get_or_insert(now);
        } else if let Some(since) = self.full_since.take()
            && since < now
        {
            self.full.add(since, now);
        }
    }

    /// Notes why a link cannot send from now on.
    pub(crate) fn hold(&mut self, now: u64, slot: u32, mut cause: Cause) {
        let last = self.last_of(slot);
        let is_window =
            matches!(cause, Cause::SlowStart | Cause::IdleRestart | Cause::Avoidance | Cause::Recovery);
        if is_window && *last & HAS_LOST != 0 {
            cause = Cause::Loss;
        }
        if *last & !HAS_LOST != cause as u8 {
            *last = cause as u8 | *last & HAS_LOST;
            let counters = link_of(&mut self.links, slot).time.counters(&self.uplink, now, slot, None);
            let free = self.free(now, &counters);
            link_of(&mut self.links, slot).holds.push(Hold { since: now, cause, free });
            self.holds += 1;
        }
    }

    fn last_of(&mut self, slot: u32) -> &mut u8 {
        let index = slot as usize;
        if self.last.len() <= index {
            self.last.resize(index + 1, Cause::Timer as u8);
        }
        &mut self.last[index]
    }

    /// Announces the packet with data that leaves next.
    pub(crate) fn leaves(&mut self, leaving: Leaving) {
        self.leaving = Some(leaving);
    }

    /// Returns the announced packet, which waits in the queue of the uplink from now on and is
    /// announced again when it leaves.
    pub(crate) fn enqueue(&mut self, now: u64, slot: u32) -> Option<Leaving> {
        let leaving = self.leaving.take()?;
        if !leaving.again
            && let Some(Some(link)) = self.links.get_mut(slot as usize)
        {
            for trace in &leaving.complete {
                let counters = link.time.counters(&self.uplink, now, slot, trace.batch);
                if let Some(waiting) = link.waiting.iter_mut().find(|it| Arc::ptr_eq(&it.trace, trace)) {
                    waiting.queued = Some((now, counters));
                }
            }
        }
        Some(leaving)
    }

    /// Records a packet on the uplink. `is_lost` says whether the network loses it.
    pub(crate) fn sent(&mut self, slot: u32, order: u32, (start, end): (u64, u64), is_lost: bool) {
        let Some(Leaving { rank, again, complete }) = self.leaving.take() else {
            self.uplink.send(Packet { slot: None, batch: None, again: false, start, end }, None);
            return;
        };
        if again || is_lost {
            let link = link_of(&mut self.links, slot);
            link.lost = link.lost.saturating_sub(u32::from(again)) + u32::from(is_lost);
            let has_lost = if link.lost > 0 { HAS_LOST } else { 0 };
            let last = self.last_of(slot);
            *last = *last & !HAS_LOST | has_lost;
        }
        let Some(Some(link)) = self.links.get_mut(slot as usize) else {
            // Nobody has waited for the link so far.
            self.uplink.send(Packet { slot: None, batch: None, again, start, end }, None);
            return;
        };
        let mut oldest = link.waiting.front().map(|front| &**front).into_iter().chain(&link.gone);
        let front = oldest.find(|front| front.rank == rank || front.rank == 0);
        let batch = match complete.first() {
            Some(trace) => trace.batch,
            None => front.and_then(|front| front.batch),
        };
        if !again {
            // Where ranks do not belong to frames, the data are those of the oldest copy.
            let id = if front.is_some_and(|front| front.rank == 0) { 0 } else { rank };
            if link.own.0 != id {
                link.own = (id, 0);
            }
            link.own.1 += end - start;
        }
        let own = link.own.1;
        let packet = Packet { slot: Some(slot), batch, again, start, end };
        self.uplink.send(packet, Some(&mut link.time));
        if !again {
            for (place, trace) in complete.iter().enumerate() {
                self.complete(slot, trace, (order, end), if place == 0 { own } else { end - start });
            }
        }
    }

    /// Divides the time of a copy whose last byte leaves.
    fn complete(&mut self, slot: u32, trace: &Arc<Trace>, (order, end): (u32, u64), own: u64) {
        let link = link_of(&mut self.links, slot);
        // Only on connections with channels it may not be the first one.
        let place = link.waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.trace, trace));
        let waiting = match place {
            Some(place) => link.waiting.remove(place).map(|waiting| *waiting),
            None => {
                let gone = link.gone.iter().position(|waiting| Arc::ptr_eq(&waiting.trace, trace));
                gone.map(|place| link.gone.swap_remove(place))
            }
        };
        let Some(waiting) = waiting else { return };
        link.own = (0, 0);
        let Waiting { taken_at, mut parts, start: first, queued, .. } = waiting;
        let last = link.time.counters(&self.uplink, end, slot, trace.batch);
        // The bytes that the uplink sent before the last byte entered its queue; without a queue, up to the end.
        let (until, middle) = queued.unwrap_or((end, last));
        let queue_again = last.again - middle.again;
        let queue_own = own.min(last.link - middle.link - queue_again);
        let again = middle.again - first.again;
        let ahead = middle.link - first.link - again;
        let own = own - queue_own;
        let (batch, own) = match trace.batch {
            Some(_) => {
                let batch = middle.batch.saturating_sub(first.batch).min(ahead);
                (batch, own.min(batch))
            }
            None => (own.min(ahead), own.min(ahead)),
        };
        parts.add(Cause::Serialisation, own + queue_own);
        parts.add(Cause::SameBatch, batch - own);
        parts.add(Cause::OtherTraffic, ahead - batch);
        parts.add(Cause::Loss, again + queue_again);
        parts.add(Cause::UplinkQueue, end - until - queue_again - queue_own);
        if !self.has_queue {
            parts.add(Cause::Interface, middle.uplink - first.uplink - again - ahead);
        }
        let from = (taken_at, self.free(taken_at, &first));
        self.add_holds(&mut parts, slot, from, self.free(until, &middle), |hold| hold.free);
        debug_assert_eq!(parts.total(), end - trace.owed_at, "the parts of a copy do not add up");
        let _ = trace.sent.set(Sent { order, at: end, parts: Compact::from(&parts) });
    }

    /// Notes that a link is down. Of the copies that it has taken, only those can still leave whose
    /// last packet is in the queue of the uplink, `queued`.
    pub(crate) fn clear(&mut self, slot: u32, queued: &[Arc<Trace>]) {
        if let Some(Some(link)) = self.links.get_mut(slot as usize) {
            let is_queued = |copy: &Waiting| queued.iter().any(|trace| Arc::ptr_eq(trace, &copy.trace));
            link.gone.extend(link.waiting.drain(..).filter(|copy| is_queued(copy)).map(|copy| *copy));
            link.lost = 0;
            *self.last_of(slot) &= !HAS_LOST;
        }
    }

    fn remembered(&self) -> usize {
        self.uplink.busy.len() + self.uplink.batches.len() + self.full.len() + self.holds
    }

    /// Returns true if the past should be forgotten.
    pub(crate) fn is_full(&self) -> bool {
        self.remembered() >= self.forget_at.max(PERIODS)
    }

    /// Forgets the past before `oldest`, the time since which the oldest copy in the outbox is owed.
    pub(crate) fn forget(&mut self, oldest: u64) {
        let taken = self
            .links
            .iter()
            .flatten()
            .flat_map(|link| link.waiting.front().map(|front| &**front).into_iter().chain(&link.gone))
            .map(|waiting| waiting.taken_at);
        let oldest = taken.min().unwrap_or(u64::MAX).min(oldest);
        self.uplink.busy.forget(oldest);
        self.full.forget(oldest);
        self.uplink.batches.retain(|_, busy| !busy.forget(oldest));
        self.holds = 0;
        for link in self.links.iter_mut().flatten() {
            let old = link.holds.partition_point(|hold| hold.since <= oldest);
            link.holds.drain(..old.saturating_sub(1));
            link.holds.shrink_to(2 * link.holds.len());
            self.holds += link.holds.len();
            if link.time.batches() > PERIODS {
                let waiting = &link.waiting;
                let last = self.uplink.last_batch();
                link.time.keep(|batch| {
                    last == Some(batch) || waiting.iter().any(|waiting| waiting.batch == Some(batch))
                });
            }
        }
        self.forget_at = 2 * self.remembered();
    }

    // ---- the receiver ----

    /// Notes the packet that is being received, if one is: its number at the sender, and the time of
    /// its arrival at the downlink.
    pub(crate) fn receives(&mut self, packet: Option<(u32, u64)>) {
        self.arriving = packet;
    }

    /// Records the items of a frame that is delivered, if they have not arrived before. `latency` is
    /// that of the way from `from`, over the link `slot`. The time of a packet beyond it, without a loss,
    /// has the cause `beyond`: jitter, or gateways.
    pub(crate) fn arrived(
        &mut self,
        now: u64,
        (slot, from): (u32, u32),
        trace: &Trace,
        (latency, beyond): (u64, Cause),
    ) {
        let Some(sent) = trace.sent.get() else { return };
        if trace.items.iter().all(|item| self.arrivals.contains_key(item)) {
            return;
        }
        let mut parts = Parts::default();
        parts += &sent.parts;
        let rest = now - sent.at;
        match self.arriving {
            Some((order, at)) => {
                let downlink = (now - at).min(rest);
                let way = rest - downlink;
                let nominal = latency.min(way);
                let cause = if order == sent.order { beyond } else { Cause::Loss };
                parts.add(Cause::Downlink, downlink);
                parts.add(Cause::Latency, nominal);
                parts.add(cause, way - nominal);
            }
            // The data arrived before and waited for the limit of the receive rate.
            None => {
                parts.add(Cause::Latency, latency.min(rest));
                parts.add(Cause::FlowControl, rest - latency.min(rest));
            }
        }
        let compact = Compact::from(&parts);
        let names = trace.names.iter().map(Some).chain(std::iter::repeat(None));
        for (item, name) in trace.items.iter().zip(names) {
            let asked = name.and_then(|name| self.asked.remove(name));
            let of_sender = asked.and_then(|asked| {
                let (_, sender) = asked.iter().find(|(of, _)| *of == slot)?;
                Some(Box::new([asked[0].1, *sender]))
            });
            self.arrivals.entry(*item).or_insert_with(|| Arrival {
                item: *item,
                from,
                at: now,
                owed_at: trace.owed_at,
                trigger: trace.trigger,
                asked: of_sender,
                parts: compact.clone(),
            });
        }
    }

    pub(crate) fn take_arrivals(&mut self) -> FxHashMap<u64, Arrival> {
        std::mem::take(&mut self.arrivals)
    }
}

fn link_of(links: &mut Vec<Option<Box<Link>>>, slot: u32) -> &mut Link {
    let index = slot as usize;
    if links.len() <= index {
        links.resize_with(index + 1, || None);
    }
    links[index].get_or_insert_default()
}
