//! The choice of the next copy.

use super::queue;
use super::{Lane, Outbox, Outgoing, Room};
use crate::{Frame, PeerId, Time};

/// The copy that leaves next, and the class and lane that it was found in.
#[derive(Clone, Copy)]
struct Found {
    class: usize,
    lane: u8,
    slot: u32,
}

/// Lanes in turn. More than four lanes of one priority are rare.
type Turn = smallvec::SmallVec<[u8; 4]>;

impl<F: Frame> Outbox<F> {
    /// Pops the next copy for one link. Counts and skips copies whose deadline has passed. Releases
    /// held-back copies whose time has come, as [`wake`](Self::wake) does.
    pub fn pop_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<F>> {
        self.pop_among(now, peer, self.classes.len(), |_| true)
    }

    /// Pops the next copy for one link among those of the smallest priority. A driver first calls
    /// this for all touched links, so that control messages of one link do not wait behind data of
    /// another.
    pub fn pop_urgent_for(&mut self, now: Time, peer: PeerId) -> Option<Outgoing<F>> {
        self.pop_among(now, peer, self.classes.len().min(1), |_| true)
    }

    /// Pops the next copy for one link from some of its lanes, in the order of
    /// [`pop_for`](Self::pop_for), for transports whose lanes have their own queues. A lane that
    /// takes turns with others uses its turn when one of its copies leaves.
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
        let found = self.search(|outbox| outbox.first_for(now, peer, classes, &among))?;
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

    /// Pops the next copy over all links that have room. Drivers call this in
    /// [`Dispatch::Node`](super::Dispatch::Node). Counts and skips copies whose deadline has
    /// passed. Releases held-back copies whose time has come, as [`wake`](Self::wake) does.
    ///
    /// `room` returns a [`Room`], or a `bool` if the driver does not know how much fits.
    pub fn pop<R: Into<Room>>(&mut self, now: Time, room: impl Fn(PeerId) -> R) -> Option<Outgoing<F>> {
        self.pop_of_all(now, self.classes.len(), room)
    }

    /// Pops the next copy over all links that have room among those of the smallest priority, for a
    /// node that may send nothing else now.
    pub fn pop_urgent<R: Into<Room>>(
        &mut self,
        now: Time,
        room: impl Fn(PeerId) -> R,
    ) -> Option<Outgoing<F>> {
        self.pop_of_all(now, self.classes.len().min(1), room)
    }

    fn pop_of_all<R: Into<Room>>(
        &mut self,
        now: Time,
        classes: usize,
        room: impl Fn(PeerId) -> R,
    ) -> Option<Outgoing<F>> {
        self.wake(now);
        if self.store.orders.is_some() {
            let lanes: Turn = self.classes[..classes].iter().flatten().copied().collect();
            lanes.into_iter().for_each(|lane| self.reorder(now, lane));
        }
        let room = |peer| room(peer).into();
        let found = self.search(|outbox| outbox.first_of_all(now, classes, &room))?;
        self.turns[found.class] = Some(found.lane);
        Some(self.send(now, found.slot))
    }

    fn first_of_all(&mut self, now: Time, classes: usize, room: &impl Fn(PeerId) -> Room) -> Option<Found> {
        for class in 0..classes {
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

    /// Repeats the search while it puts copies in line. An expired copy can release the next copy
    /// of its message into a lane that was already found empty or that goes before the current one.
    fn search(&mut self, look: impl Fn(&mut Self) -> Option<Found>) -> Option<Found> {
        loop {
            let lined_up = self.lined_up;
            let found = look(self);
            if self.lined_up == lined_up {
                return found;
            }
        }
    }
}
