//! From the site to the bridge, and from the bridge to the site.

use samara_engine::{Engine, Input};

use super::letter::Letter;
use super::{Federation, FederationCx, Sender, Unused};
use crate::{BroadcastError, Command};

impl Federation {
    /// A leader notes what was delivered: it goes over the bridge once all members of the site have it.
    pub(super) fn note_delivered(&mut self, sender: &Sender, number: u64, (rank, on_ring): (u16, u64)) {
        let Some(leader) = &mut self.leader else { return };
        if let Some(pending) = leader.pending.get_mut(usize::from(rank)) {
            pending.push_back((on_ring, sender.clone(), number));
        }
        self.adopt(sender);
    }

    /// Looks which messages all members of the site have now.
    pub(super) fn note_secured(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        // While the application is paused, the ring may have gone on to another view.
        let is_current =
            self.view.as_ref().is_some_and(|view| self.local.view().is_some_and(|now| now.id == view.id));
        if !is_current {
            return;
        }
        let mut secured = Vec::new();
        for (rank, pending) in (0u16..).zip(&mut leader.pending) {
            let stable = self.local.stable_messages(rank);
            let until = pending.partition_point(|(on_ring, ..)| *on_ring <= stable);
            secured.extend(pending.drain(..until).map(|(_, sender, number)| (sender, number)));
        }
        for (sender, number) in secured {
            if let Some(log) = self.logs.get_mut(&sender) {
                log.secured = log.secured.max(number);
                self.make_ready(&sender);
            }
        }
    }

    /// Lines a sender up for the bridge, if there is something of it to be sent.
    fn make_ready(&mut self, sender: &Sender) {
        let (Some(leader), Some(log)) = (&mut self.leader, self.logs.get_mut(sender)) else { return };
        let secured = log.secured;
        let Some(route) = log.route.as_mut().filter(|route| !route.is_ready && route.cursor < secured) else {
            return;
        };
        route.is_ready = true;
        leader.ready.push_back(sender.clone());
    }

    pub(super) fn ready_all(&mut self) {
        let senders: Vec<Sender> = self.logs.iter().map(|(sender, _)| sender.clone()).collect();
        senders.iter().for_each(|sender| self.make_ready(sender));
    }

    /// Hands messages to the bridge, one of each sender in turn, as long as it takes them.
    pub(super) fn feed(&mut self, cx: &mut FederationCx<'_>) {
        if self.leader.as_ref().is_some_and(|leader| leader.owes_state) {
            let Some(statement) = self.statement() else { return };
            let letter = statement.encode();
            if self.on_bridge(cx, |ring, cx| ring.broadcast(letter, cx)) != Some(Ok(())) {
                return;
            }
            self.leader.iter_mut().for_each(|leader| leader.owes_state = false);
            self.logs.iter_mut().for_each(|(_, log)| log.misses = false);
        }
        loop {
            let Some(leader) = self.leader.as_ref().filter(|leader| leader.is_routing) else { return };
            let view = leader.view.as_ref().map(|view| view.id.counter);
            let Some(sender) = leader.ready.front().cloned() else { return };
            let next = self.next_of(&sender);
            if let Some((number, is_fresh, content)) = next {
                let len = content.len() as u64;
                let start = view.filter(|_| is_fresh);
                let letter = Letter::Relay { start, sender: sender.clone(), number, content }.encode();
                if self.on_bridge(cx, |ring, cx| ring.broadcast(letter, cx)) != Some(Ok(())) {
                    return;
                }
                self.metrics.bridged.0 += 1;
                self.metrics.bridged.1 += len;
                if let Some(route) = self.logs.get_mut(&sender).and_then(|log| log.route.as_mut()) {
                    (route.cursor, route.is_fresh) = (number, false);
                }
            }
            let Some(leader) = &mut self.leader else { return };
            leader.ready.pop_front();
            if let Some(route) = self.logs.get_mut(&sender).and_then(|log| log.route.as_mut()) {
                route.is_ready = false;
            }
            self.make_ready(&sender);
        }
    }

    /// The next message of a sender for the bridge, and whether it is the first of its round.
    fn next_of(&mut self, sender: &Sender) -> Option<(u64, bool, bytes::Bytes)> {
        let log = self.logs.get_mut(sender)?;
        let (base, secured) = (log.base(), log.secured);
        let route = log.route.as_mut()?;
        if route.cursor < base {
            // There were too many of them.
            (route.cursor, route.is_fresh) = (base, true);
        }
        let (number, is_fresh) = (route.cursor + 1, route.is_fresh);
        (number <= secured)
            .then(|| log.get(number).cloned())
            .flatten()
            .map(|content| (number, is_fresh, content))
    }

    /// Hands to the ring of the site what came from the bridge; while it has no room, the bridge has to wait.
    pub(super) fn hand_in(&mut self, cx: &mut FederationCx<'_>) {
        let base = self.leader.as_ref().and_then(|leader| Some((leader.number, leader.base.clone()?)));
        if let Some((leadership, last)) = base {
            let letter = Letter::Base { leadership, last }.encode();
            if self.on_site(cx, |ring, cx| ring.broadcast(letter, cx)).is_err() {
                return;
            }
            self.leader.iter_mut().for_each(|leader| leader.base = None);
        }
        while let Some((leadership, relayed)) =
            self.leader.as_ref().and_then(|leader| Some((leader.number, leader.stash.front()?.clone())))
        {
            let len = relayed.content.len() as u64;
            let start = relayed.leaps.then_some(leadership);
            let (sender, number, content) = (relayed.sender, relayed.number, relayed.content);
            let letter = Letter::Relay { start, sender, number, content }.encode();
            match self.on_site(cx, |ring, cx| ring.broadcast(letter, cx)) {
                Ok(()) => {
                    self.metrics.relayed.0 += 1;
                    self.metrics.relayed.1 += len;
                }
                // Other sites may have messages that are too long for this one.
                Err(BroadcastError::TooLong { .. }) => self.metrics.ignore(Unused::Malformed),
                Err(BroadcastError::Full | BroadcastError::Leaving) => break,
            }
            self.leader.iter_mut().for_each(|leader| drop(leader.stash.pop_front()));
        }
        let Some(leader) = &mut self.leader else { return };
        let waits = !leader.stash.is_empty();
        if std::mem::replace(&mut leader.is_paused, waits) != waits {
            let command = if waits { Command::Pause } else { Command::Unpause };
            self.on_bridge(cx, |ring, cx| ring.handle(Input::Command(command), cx));
        }
    }

    /// Tells the other leaders what all of this site have, and the site what all sites have.
    pub(super) fn tell_progress(&mut self, cx: &mut FederationCx<'_>) {
        self.begin_round_if_wanted();
        if self.leader.is_none() {
            return;
        }
        let mut secured = Vec::new();
        let mut stable = Vec::new();
        for (sender, log) in self.logs.iter() {
            if log.secured > log.told.0 {
                secured.push((sender.clone(), log.secured));
            }
            let known = self.stable_of(sender, log.secured);
            if known > log.told.1 {
                stable.push((sender.clone(), known));
            }
        }
        if !secured.is_empty() && self.has_company() {
            let letter = Letter::Progress { last: secured.clone() }.encode();
            if self.on_bridge(cx, |ring, cx| ring.broadcast(letter, cx)) == Some(Ok(())) {
                self.note_told(&secured, |told| &mut told.0);
            }
        }
        if !stable.is_empty() {
            let letter = Letter::Progress { last: stable.clone() }.encode();
            if self.on_site(cx, |ring, cx| ring.broadcast(letter, cx)).is_ok() {
                self.note_told(&stable, |told| &mut told.1);
            }
        }
    }

    fn note_told(&mut self, last: &[(Sender, u64)], which: impl Fn(&mut (u64, u64)) -> &mut u64) {
        for (sender, number) in last {
            if let Some(log) = self.logs.get_mut(sender) {
                *which(&mut log.told) = *number;
            }
        }
    }
}
