//! The path of copies into the outbox, through it, and out of it.

use std::time::Duration;

use super::message::{Batch, Key, Origin, Pending, Rounds, Stagger, Waiting};
use super::queue::{Entry, Link, NONE};
use super::{Lane, LossCause, Lost, Outbox, Outgoing, Overflow, Room};
use crate::{Frame, MessageKey, PeerId, Time};

/// A link with copies in line on a lane. The key of its first copy is not smaller than the bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    bound: Key,
    peer: PeerId,
}

impl Active {
    pub(super) fn peer(&self) -> PeerId {
        self.peer
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent(Time),
    Withdrawn,
    Expired,
    DroppedOldest,
}

impl<F: Frame> Outbox<F> {
    pub(super) fn link(&self, peer: PeerId) -> Option<&Link> {
        self.links.get(peer.index())?.as_ref()
    }

    pub(super) fn link_mut(&mut self, peer: PeerId) -> Option<&mut Link> {
        self.links.get_mut(peer.index())?.as_mut()
    }

    /// Returns the oldest copy on a lane of a link.
    pub(super) fn oldest(&self, peer: PeerId, lane: usize) -> Option<u32> {
        self.link(peer)?.lanes.get(lane).map(|queue| queue.head).filter(|head| *head != NONE)
    }

    // ---- in ----

    /// Takes a copy in if there is a link and room.
    pub(super) fn take_in(
        &mut self,
        now: Time,
        peer: PeerId,
        frame: F,
        message: Option<MessageKey>,
        origin: Origin,
        lost: &mut Vec<Lost>,
    ) -> bool {
        let len = u32::try_from(frame.encoded_len()).unwrap_or(u32::MAX);
        let lane = usize::from(origin.lane);
        if let Err(cause) = self.make_room(now, peer, lane, len, lost) {
            let counters = &mut self.counters[lane];
            match cause {
                LossCause::Refused => counters.refused.add(len),
                LossCause::DroppedNewest => counters.dropped_newest.add(len),
                LossCause::NotConnected | LossCause::DroppedOldest => {}
            }
            lost.push(Lost { peer, message, cause });
            return false;
        }
        let lanes = self.config.lanes.len();
        let Some(link) = self.links.get_mut(peer.index()).and_then(Option::as_mut) else { return false };
        let queue = link.lane_mut(lane, lanes, &mut self.spare);
        let timeout = match self.store.batches.get(origin.batch as usize) {
            Some(Batch { rounds: Rounds::Staggered { timeout }, .. }) => Some(*timeout),
            _ => None,
        };
        let copy = Pending {
            frame,
            serial: self.serial,
            origin,
            owed_at: now,
            peer,
            len,
            group: NONE,
            older: queue.tail,
            younger: NONE,
            before: NONE,
            after: NONE,
            held: timeout.is_some(),
        };
        let slot = self.store.insert(copy, message);
        self.serial += 1;
        match self.store.copies.get_mut(queue.tail as usize) {
            Some(tail) => tail.younger = slot,
            None => queue.head = slot,
        }
        queue.tail = slot;
        queue.copies += 1;
        queue.bytes += u64::from(len);
        queue.expires = queue.expires.min(origin.deadline);
        link.copies += 1;
        self.counters[lane].owed.add(len);
        self.counters[lane].pending.add(len);
        match timeout {
            Some(timeout) => self.hold(slot, timeout),
            None => self.line_up(slot),
        }
        true
    }

    /// Applies the lane's capacity to a copy that is about to come in.
    fn make_room(
        &mut self,
        now: Time,
        peer: PeerId,
        lane: usize,
        len: u32,
        lost: &mut Vec<Lost>,
    ) -> Result<(), LossCause> {
        let lanes = &self.config.lanes;
        assert!(
            lane < lanes.len(),
            "a copy is owed on lane {lane}, but the outbox has {} lanes",
            lanes.len()
        );
        let capacity = lanes[lane].capacity;
        let link = self.link(peer).ok_or(LossCause::NotConnected)?;
        let fits = |link: Option<&Link>| {
            let queue = link.and_then(|link| link.lanes.get(lane));
            let (copies, bytes) = queue.map_or((0, 0), |queue| (queue.copies as usize, queue.bytes));
            copies < capacity.copies && bytes.saturating_add(u64::from(len)) <= capacity.bytes
        };
        if fits(Some(link)) {
            return Ok(());
        }
        self.purge_expired(now, peer, lane);
        if fits(self.link(peer)) {
            return Ok(());
        }
        match capacity.overflow {
            Overflow::Block => return Err(LossCause::Refused),
            Overflow::DropNewest => return Err(LossCause::DroppedNewest),
            Overflow::DropOldest => {}
        }
        if capacity.copies == 0 || u64::from(len) > capacity.bytes {
            return Err(LossCause::DroppedNewest);
        }
        while !fits(self.link(peer)) {
            let Some(slot) = self.oldest(peer, lane) else { break };
            let message = self.message_of(slot);
            self.take_out(slot, Outcome::DroppedOldest);
            lost.push(Lost { peer, message, cause: LossCause::DroppedOldest });
        }
        Ok(())
    }

    fn purge_expired(&mut self, now: Time, peer: PeerId, lane: usize) {
        if self.link(peer).and_then(|link| link.lanes.get(lane)).is_none_or(|queue| queue.expires >= now) {
            return;
        }
        let (mut next, mut expires) = (self.oldest(peer, lane), Time::MAX);
        while let Some(slot) = next {
            let Some(copy) = self.store.copies.get(slot as usize) else { break };
            next = Some(copy.younger);
            if copy.origin.deadline < now {
                self.take_out(slot, Outcome::Expired);
            } else {
                expires = expires.min(copy.origin.deadline);
            }
        }
        let link = self.links.get_mut(peer.index()).and_then(Option::as_mut);
        if let Some(queue) = link.and_then(|link| link.lanes.get_mut(lane)) {
            queue.expires = expires;
        }
    }

    fn message_of(&self, slot: u32) -> Option<MessageKey> {
        let group = self.store.copies[slot as usize].group;
        self.store.groups.get(group as usize).map(|group| group.message)
    }

    /// Puts a copy in line, where it can leave.
    fn line_up(&mut self, slot: u32) {
        self.note_custom(slot);
        let copy = &self.store.copies[slot as usize];
        let (peer, lane) = (copy.peer, usize::from(copy.origin.lane));
        let entry = Entry { key: self.store.key(slot, copy), serial: copy.serial, slot };
        let lanes = self.config.lanes.len();
        let Some(link) = self.links.get_mut(peer.index()).and_then(Option::as_mut) else { return };
        let queue = link.lane_mut(lane, lanes, &mut self.spare);
        queue.push(entry);
        self.lined_up += 1;
        let active = &mut self.active[lane];
        match active.get_mut(queue.active as usize) {
            Some(active) => active.bound = active.bound.min(entry.key),
            None => {
                queue.active = active.len() as u32;
                active.push(Active { bound: entry.key, peer });
            }
        }
        if !link.touched {
            link.touched = true;
            self.touched.push(peer);
        }
    }

    /// Puts a copy that a policy orders behind the others until the policy decides.
    fn note_custom(&mut self, slot: u32) {
        let Some(orders) = &mut self.store.orders else { return };
        let copy = &self.store.copies[slot as usize];
        let batch = self.store.batches.get(copy.origin.batch as usize);
        if batch.is_some_and(|batch| batch.rounds == Rounds::Custom) {
            orders.set_key(slot, copy.key_without_batch());
            orders.note(copy.origin.lane);
        }
    }

    /// Rebuilds the queues of a lane after the keys of copies have changed.
    pub(super) fn line_up_again(&mut self, lane: usize) {
        let mut i = 0;
        while let Some(active) = self.active[lane].get(i).copied() {
            let link = self.links.get_mut(active.peer.index()).and_then(Option::as_mut);
            if let Some(queue) = link.and_then(|link| link.lanes.get_mut(lane)) {
                queue.rekey(&self.store);
            }
            // A link without copies leaves the list, and another one takes its place.
            if self.freshen(lane, active.peer).is_some() {
                i += 1;
            }
        }
    }

    /// Rebuilds the queues of a link after the keys of its copies have changed.
    pub(super) fn rekey_link(&mut self, peer: PeerId) {
        for lane in 0..self.config.lanes.len() {
            let link = self.links.get_mut(peer.index()).and_then(Option::as_mut);
            let queue = link.and_then(|link| link.lanes.get_mut(lane));
            if let Some(queue) = queue.filter(|queue| queue.active != NONE) {
                queue.rekey(&self.store);
                self.freshen(lane, peer);
            }
        }
    }

    // ---- out ----

    /// Returns the first copy in line on a lane of a link. If that copy has expired, counts it and
    /// returns `None`.
    pub(super) fn first_unless_expired(&mut self, now: Time, peer: PeerId, lane: u8) -> Option<u32> {
        let link = self.links.get_mut(peer.index())?.as_mut()?;
        let entry = link.lanes.get_mut(usize::from(lane))?.first(&self.store)?;
        if self.store.copies[entry.slot as usize].origin.deadline < now {
            self.take_out(entry.slot, Outcome::Expired);
            return None;
        }
        Some(entry.slot)
    }

    /// Returns the first copy in line on a lane of a link that has not expired. Counts the expired
    /// copies before it.
    pub(super) fn first_in_time(&mut self, now: Time, peer: PeerId, lane: u8) -> Option<u32> {
        loop {
            let found = self.first_unless_expired(now, peer, lane);
            if found.is_some() {
                return found;
            }
            let link = self.links.get_mut(peer.index())?.as_mut()?;
            link.lanes.get_mut(usize::from(lane))?.first(&self.store)?;
        }
    }

    /// Returns the link with room whose first copy on a lane goes first.
    pub(super) fn best_link(&mut self, lane: u8, room: &impl Fn(PeerId) -> Room) -> Option<PeerId> {
        let lane = usize::from(lane);
        // First the link that looks best; then those that might beat its up-to-date key.
        let mut likely: Option<(Key, PeerId)> = None;
        for active in &self.active[lane] {
            if likely.is_none_or(|(key, _)| active.bound < key) && room(active.peer).is_some() {
                likely = Some((active.bound, active.peer));
            }
        }
        let likely = likely?.1;
        let start = self.freshen(lane, likely).map(|key| (key, likely));
        let (key, peer) = self.smallest(
            lane,
            start,
            |best, active| best.is_none_or(|best| active.bound < best) && room(active.peer).is_some(),
            |_| true,
        )?;
        // Among links that are owed the same message in the same round, prefer one that takes the
        // whole copy.
        let slot = self.links.get_mut(peer.index())?.as_mut()?.lanes.get_mut(lane)?.first(&self.store)?.slot;
        let len = self.store.copies[slot as usize].len;
        if room(peer).takes(len) {
            return Some(peer);
        }
        let whole = self.smallest(
            lane,
            None,
            |_, active| active.bound.of_any_peer() <= key && room(active.peer).takes(len),
            |fresh| fresh.of_any_peer() == key.of_any_peer(),
        );
        Some(whole.map_or(peer, |(_, peer)| peer))
    }

    /// Returns the link with the smallest key on a lane, and the key. `worth` decides from a link's
    /// bound and the best key so far whether the link's key is brought up to date; `counts` decides
    /// whether the up-to-date key is eligible.
    fn smallest(
        &mut self,
        lane: usize,
        start: Option<(Key, PeerId)>,
        worth: impl Fn(Option<Key>, Active) -> bool,
        counts: impl Fn(Key) -> bool,
    ) -> Option<(Key, PeerId)> {
        let mut best = start;
        let mut i = 0;
        while let Some(active) = self.active[lane].get(i).copied() {
            if worth(best.map(|(key, _)| key), active) {
                match self.freshen(lane, active.peer) {
                    Some(key) if counts(key) && best.is_none_or(|(smallest, _)| key < smallest) => {
                        best = Some((key, active.peer));
                    }
                    Some(_) => {}
                    // The link has left the list; another one took its place.
                    None => continue,
                }
            }
            i += 1;
        }
        best
    }

    /// Brings the bound of a link up to date, or removes the link from the list if it has nothing
    /// in line.
    fn freshen(&mut self, lane: usize, peer: PeerId) -> Option<Key> {
        let queue = self.links.get_mut(peer.index())?.as_mut()?.lanes.get_mut(lane)?;
        let first = queue.first(&self.store);
        match first {
            Some(entry) => self.active[lane][queue.active as usize].bound = entry.key,
            None => {
                let place = std::mem::replace(&mut queue.active, NONE);
                self.leave_list(lane, place);
            }
        }
        first.map(|entry| entry.key)
    }

    fn leave_list(&mut self, lane: usize, place: u32) {
        if place == NONE {
            return;
        }
        self.active[lane].swap_remove(place as usize);
        if let Some(moved) = self.active[lane].get(place as usize).copied()
            && let Some(link) = self.link_mut(moved.peer)
        {
            link.lanes[lane].active = place;
        }
    }

    pub(super) fn send(&mut self, now: Time, slot: u32) -> Outgoing<F> {
        let group = self.store.groups.get(self.store.copies[slot as usize].group as usize);
        let (message, rank) = group.map_or((None, 0), |group| (Some(group.message), group.progress.sent));
        let copy = self.take_out(slot, Outcome::Sent(now));
        Outgoing {
            peer: copy.peer,
            lane: Lane(copy.origin.lane),
            message,
            frame: copy.frame,
            len: copy.len,
            owed_at: copy.owed_at,
            rank,
            mark: copy.origin.mark,
        }
    }

    pub(super) fn take_out(&mut self, slot: u32, outcome: Outcome) -> Pending<F> {
        let copy = self.store.remove(slot);
        let lane = usize::from(copy.origin.lane);
        let counters = &mut self.counters[lane];
        counters.pending.remove(copy.len);
        match outcome {
            Outcome::Sent(_) => counters.sent.add(copy.len),
            Outcome::Withdrawn => counters.withdrawn.add(copy.len),
            Outcome::Expired => counters.expired.add(copy.len),
            Outcome::DroppedOldest => counters.dropped_oldest.add(copy.len),
        }
        debug_assert!(counters.add_up(), "the counters do not add up: {counters:?}");
        self.leave_link(&copy, lane);
        if let Some(orders) = &mut self.store.orders {
            orders.note(copy.origin.lane);
        }
        if let Some(batch) = self.store.batches.get_mut(copy.origin.batch as usize)
            && matches!(outcome, Outcome::Sent(_))
            && let Some(load) = batch.loads.get_mut(copy.origin.column as usize)
        {
            *load += 1;
        }
        self.close_batch(copy.origin.batch);
        if copy.group != NONE {
            self.leave_group(slot, &copy, outcome);
        }
        copy
    }

    fn leave_link(&mut self, copy: &Pending<F>, lane: usize) {
        let Some(link) = self.links.get_mut(copy.peer.index()).and_then(Option::as_mut) else { return };
        let queue = &mut link.lanes[lane];
        match self.store.copies.get_mut(copy.older as usize) {
            Some(older) => older.younger = copy.younger,
            None => queue.head = copy.younger,
        }
        match self.store.copies.get_mut(copy.younger as usize) {
            Some(younger) => younger.older = copy.older,
            None => queue.tail = copy.older,
        }
        queue.copies -= 1;
        queue.bytes -= u64::from(copy.len);
        queue.tidy(&self.store);
        let idle = if queue.copies == 0 { std::mem::replace(&mut queue.active, NONE) } else { NONE };
        link.copies -= 1;
        link.tidy(&mut self.spare);
        self.leave_list(lane, idle);
    }

    fn leave_group(&mut self, slot: u32, copy: &Pending<F>, outcome: Outcome) {
        let group = &mut self.store.groups[copy.group as usize];
        let progress = &mut group.progress;
        progress.pending -= 1;
        *match outcome {
            Outcome::Sent(_) => &mut progress.sent,
            Outcome::Withdrawn => &mut progress.withdrawn,
            Outcome::Expired => &mut progress.expired,
            Outcome::DroppedOldest => &mut progress.dropped_oldest,
        } += 1;
        let done = progress.pending == 0;
        if done {
            self.stop_waiting(copy.group);
            self.store.forget_group(copy.group);
            return;
        }
        let noted = group.noted.contains(&copy.peer);
        let Some(stagger) = &mut group.stagger else { return };
        if copy.held {
            stagger.held.retain(|held| *held != slot);
            if stagger.held.is_empty() && matches!(stagger.waiting, Waiting::Left { .. }) {
                self.stop_waiting(copy.group);
            }
        } else if matches!(stagger.waiting, Waiting::Queued { slot: queued, .. } if queued == slot) {
            match outcome {
                // There is nothing to wait for if the peer has the message already or no copy
                // follows.
                Outcome::Sent(now) if !noted && !stagger.held.is_empty() => {
                    let until = now + stagger.timeout;
                    stagger.waiting = Waiting::Left { until, peer: copy.peer };
                    self.wakes.insert((until, copy.group));
                }
                _ => self.advance(copy.group),
            }
        }
    }

    // ---- staggered ----

    /// Holds a copy back behind the other held-back copies of its message.
    fn hold(&mut self, slot: u32, timeout: Duration) {
        let id = self.store.copies[slot as usize].group;
        let group = &mut self.store.groups[id as usize];
        let fresh = || Box::new(Stagger { timeout, held: Default::default(), waiting: Waiting::Idle });
        let stagger = group.stagger.get_or_insert_with(fresh);
        stagger.timeout = timeout;
        stagger.held.push_back(slot);
        if stagger.waiting == Waiting::Idle {
            self.advance(id);
        }
    }

    /// Ends the wait for a message and releases its next copy, if any.
    pub(super) fn advance(&mut self, id: u32) {
        let Some(stagger) = self.store.groups[id as usize].stagger.as_mut() else { return };
        if let Waiting::Left { until, .. } = stagger.waiting {
            self.wakes.remove(&(until, id));
        }
        let Some(slot) = stagger.held.pop_front() else {
            stagger.waiting = Waiting::Idle;
            return;
        };
        let copy = &mut self.store.copies[slot as usize];
        copy.held = false;
        stagger.waiting = Waiting::Queued { slot, peer: copy.peer };
        self.line_up(slot);
    }

    /// Notes that a peer has a message. Ends the wait if the message waits for this peer.
    pub(super) fn confirm(&mut self, id: u32, peer: PeerId) {
        let waiting = self.store.groups[id as usize].stagger.as_ref().map(|stagger| stagger.waiting);
        if let Some(Waiting::Queued { peer: awaited, .. } | Waiting::Left { peer: awaited, .. }) = waiting
            && awaited == peer
        {
            self.advance(id);
        }
    }

    /// Stops releasing copies until a new one is held back.
    pub(super) fn stop_waiting(&mut self, id: u32) {
        if let Some(stagger) = self.store.groups[id as usize].stagger.as_mut() {
            if let Waiting::Left { until, .. } = stagger.waiting {
                self.wakes.remove(&(until, id));
            }
            stagger.held.clear();
            stagger.waiting = Waiting::Idle;
        }
    }
}
