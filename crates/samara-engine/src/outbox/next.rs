//! Which copy leaves next.

use super::queue;
use super::{Lane, Outbox, Outgoing, Room};
use crate::{Frame, PeerId, Time};

/// The copy that leaves next, and where it was found.
#[derive(Clone, Copy)]
struct Found {
    class: usize,
    lane: u8,
    slot: u32,
}

/// Lanes in turn; more than four of one priority are rare.
type Turn = smallvec::SmallVec<[u8; 4]>;

impl<F: Frame> Outbox<F> {
    /// The next copy for one link. Copies whose deadline has passed are counted and skipped. Releases held-back copies
    /// whose time has come, as [`wake`](Self::wake) does.
    pub fn pop_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<F>> {
        self.pop_among(now, peer, self.classes.len(), |_| true)
    }

    /// The next copy for one link among those of the smallest priority: what a driver takes first on all links that were
    /// touched, so that control messages of one link do not wait behind data of another.
    pub fn pop_urgent_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<F>> {
        self.pop_among(now, peer, self.classes.len().min(1), |_| true)
    }

    /// The next copy for one link among those of some lanes, in the order of [`pop_for`](Self::pop_for): for transports
    /// whose lanes have queues of their own. A lane that takes turns with others has its turn when one of its copies leaves.
    pub fn pop_lanes_for(&mut self, now: Time, peer: PeerId, lanes: &[Lane]) -> Option<Outgoing<F>> {
        self.pop_among(now, peer, self.classes.len(), |lane| lanes.contains(&Lane(lane)))
    }

    fn pop_among(
        &mut self,
        now: Time,
        peer: PeerId,
        classes: usize,
        among: impl Fn(u8) -> bool,
    ) -> Option<Outgoing<F>> {
        self.wake(now);
        if self.store.orders.is_some() && self.pending_to(peer) > 0 {
            let lanes: Turn = self.classes[..classes].iter().flatten().copied().collect();
            lanes.into_iter().filter(|lane| among(*lane)).for_each(|lane| self.reorder(now, lane));
        }
        let found = self.settle(|outbox| outbox.first_for(now, peer, classes, &among))?;
        if self.classes[found.class].len() > 1 {
            let classes = self.classes.len();
            self.link_mut(peer)?.note_turn(found.class, classes, found.lane);
        }
        Some(self.send(now, found.slot))
    }

    fn first_for(
        &mut self,
        now: Time,
        peer: PeerId,
        classes: usize,
        among: &impl Fn(u8) -> bool,
    ) -> Option<Found> {
        for class in 0..classes {
            let link = self.link(peer).filter(|link| link.copies > 0)?;
            if let [lane] = self.classes[class][..] {
                if among(lane)
                    && let Some(slot) = self.first_in_time(now, peer, lane)
                {
                    return Some(Found { class, lane, slot });
                }
                continue;
            }
            let turn: Turn = queue::in_turn(&self.classes[class], link.last_lane(class)).collect();
            for lane in turn.into_iter().filter(|lane| among(*lane)) {
                if let Some(slot) = self.first_in_time(now, peer, lane) {
                    return Some(Found { class, lane, slot });
                }
            }
        }
        None
    }

    /// The next copy over all links that have room: what a driver asks for in [`Dispatch::Node`](super::Dispatch::Node). Copies whose deadline has
    /// passed are counted and skipped. Releases held-back copies whose time has come, as [`wake`](Self::wake) does.
    ///
    /// `room` is a [`Room`], or a `bool` where the driver does not know how much fits.
    pub fn pop<R: Into<Room>>(&mut self, now: Time, room: impl Fn(PeerId) -> R) -> Option<Outgoing<F>> {
        self.wake(now);
        if self.store.orders.is_some() {
            (0..self.lanes() as u8).for_each(|lane| self.reorder(now, lane));
        }
        let room = |peer| room(peer).into();
        let found = self.settle(|outbox| outbox.first_of_all(now, &room))?;
        self.turns[found.class] = Some(found.lane);
        Some(self.send(now, found.slot))
    }

    fn first_of_all(&mut self, now: Time, room: &impl Fn(PeerId) -> Room) -> Option<Found> {
        for class in 0..self.classes.len() {
            let turn: Turn = queue::in_turn(&self.classes[class], self.turns[class]).collect();
            for lane in turn {
                while let Some(peer) = self.best_link(lane, room) {
                    if let Some(slot) = self.first_unless_expired(now, peer, lane) {
                        return Some(Found { class, lane, slot });
                    }
                }
            }
        }
        None
    }

    /// Looks again while looking puts copies in line: one that is found to have expired can release the next one of its
    /// message, into a lane that goes before the one looked at, or that was found empty already.
    fn settle(&mut self, look: impl Fn(&mut Self) -> Option<Found>) -> Option<Found> {
        loop {
            let lined_up = self.lined_up;
            let found = look(self);
            if self.lined_up == lined_up {
                return found;
            }
        }
    }
}
