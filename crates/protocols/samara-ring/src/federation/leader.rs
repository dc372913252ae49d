//! The leader of a site: the members of the bridge, their statements, the assignment of senders to
//! leaders, and the transfer of messages between the site and the bridge.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Engine, Input, Time};

use super::letter::{Entry, Letter};
use super::log::Accepted;
use super::{Federation, FederationCx, FederationEvent, Sender, Unused};
use crate::{BroadcastError, Command, Event, Member, Ring, View};

/// Maximum number of rounds by which another leader's statement may be ahead of this leader. This
/// bound keeps round numbers from running out, whatever another leader claims.
const ROUNDS_AHEAD_MAX: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct Leader {
    pub(super) bridge: Ring,
    /// The ordinal of this leadership among those of this node.
    pub(super) number: u64,
    pub(super) view: Option<Arc<View>>,
    /// The ordinal of the round of statements in that view.
    pub(super) round: u64,
    /// Another round is necessary.
    pub(super) wants_round: bool,
    /// This leader has not sent its statement of this round.
    owes_state: bool,
    /// The leaders on the bridge, by rank.
    others: Vec<Other>,
    /// Sites without a leader for which messages are kept.
    absent: BTreeMap<u16, Absent>,
    /// All leaders have sent their statements.
    is_routing: bool,
    /// Senders whose messages another leader forwards.
    assigned: BTreeSet<Sender>,
    /// Senders with messages for the bridge, in round-robin order.
    ready: VecDeque<Sender>,
    /// By rank in the site: delivered messages that are not yet known to be at all its members, as
    /// (number on the ring, sender, number).
    pub(super) pending: Vec<VecDeque<(u64, Sender, u64)>>,
    /// The starting points for newcomers, until the ring of the site has room for them.
    pub(super) base: Option<Vec<(Sender, u64)>>,
    /// Messages from the bridge that wait for room on the ring of the site.
    stash: VecDeque<Relayed>,
    is_paused: bool,
}

/// A message that goes from the bridge to the site.
#[derive(Clone, Debug)]
struct Relayed {
    pub(super) sender: Sender,
    pub(super) number: u64,
    pub(super) content: Bytes,
    /// The messages before it are lost for good.
    leaps: bool,
}

/// A leader on the bridge, this one included.
#[derive(Debug)]
struct Other {
    member: Member,
    site: Option<u16>,
    /// Its statement in this round.
    stated: Option<Vec<Entry>>,
    /// The last message of each sender that all members of its site have.
    secured: BTreeMap<Sender, u64>,
}

#[derive(Debug)]
struct Absent {
    until: Time,
    secured: BTreeMap<Sender, u64>,
}

impl Federation {
    pub(super) fn begin_to_lead(&mut self, cx: &mut FederationCx<'_>) {
        let number = self.metrics.leaderships + 1;
        let identity = self.local.member().identity.clone();
        let config = Arc::new(self.config.bridge.clone());
        // `new` has validated the configuration of the bridge.
        let Ok(bridge) = Ring::between_leaders(config, identity, number) else { return };
        self.metrics.leaderships = number;
        self.logs.iter_mut().for_each(|(_, log)| log.lead());
        let until = cx.now() + self.config.absent_after;
        let absent = |(site, _): &(u16, _)| (*site, Absent { until, secured: BTreeMap::new() });
        self.leader = Some(Box::new(Leader {
            bridge,
            number,
            view: None,
            round: 0,
            wants_round: false,
            owes_state: false,
            others: Vec::new(),
            absent: self.config.sites.iter().map(absent).collect(),
            is_routing: false,
            assigned: BTreeSet::new(),
            ready: VecDeque::new(),
            pending: Vec::new(),
            base: None,
            stash: VecDeque::new(),
            is_paused: false,
        }));
        self.on_bridge(cx, |ring, cx| ring.handle(Input::Start, cx));
        self.dial_leaders(cx);
    }

    pub(super) fn stop_leading(&mut self, cx: &mut FederationCx<'_>) {
        if self.leader.take().is_some() {
            self.unbridge();
            self.announce(cx);
        }
    }

    pub(super) fn on_bridge_event(&mut self, number: u64, event: Event, cx: &mut FederationCx<'_>) {
        if self.leader.as_ref().is_none_or(|leader| leader.number != number) {
            return;
        }
        match event {
            Event::View(view) => self.on_bridge_view(view, cx),
            Event::Delivered { rank, payload, .. } => self.on_bridge_letter(rank, &payload.to_bytes()),
            Event::Suspected { member, cause } => cx.emit(FederationEvent::Suspected { member, cause }),
            Event::Slow { member } => cx.emit(FederationEvent::Slow { member }),
            Event::Room | Event::Refused(_) | Event::Left => {}
        }
    }

    fn on_bridge_view(&mut self, view: Arc<View>, cx: &mut FederationCx<'_>) {
        let own = self.config.site;
        let until = cx.now() + self.config.absent_after;
        let Some(leader) = &mut self.leader else { return };
        let mut before = std::mem::take(&mut leader.others);
        let known = |member: &Member| match before.iter().position(|other| other.member == *member) {
            Some(place) => before.swap_remove(place),
            None => Other { member: member.clone(), site: None, stated: None, secured: BTreeMap::new() },
        };
        leader.others = view.members.iter().map(known).collect();
        for gone in before {
            let Some(site) = gone.site.filter(|site| *site != own) else { continue };
            if leader.others.iter().all(|other| other.site != Some(site)) {
                leader.absent.insert(site, Absent { until, secured: gone.secured });
            }
        }
        leader.view = Some(view.clone());
        leader.round = 0;
        self.begin_round(true);
        cx.emit(FederationEvent::Leaders(view));
    }

    /// Starts a round: all leaders state what they have. Until all have done so, nothing new goes
    /// over the bridge.
    fn begin_round(&mut self, is_new_view: bool) {
        let Some(leader) = &mut self.leader else { return };
        leader.is_routing = false;
        leader.wants_round = false;
        leader.owes_state = true;
        leader.ready.clear();
        leader.assigned.clear();
        leader.others.iter_mut().for_each(|other| other.stated = None);
        self.logs.iter_mut().for_each(|(_, log)| log.begin_round(is_new_view));
        self.metrics.rounds += 1;
    }

    fn begin_round_if_wanted(&mut self) {
        let Some(leader) = self.leader.as_mut().filter(|leader| leader.wants_round && leader.is_routing)
        else {
            return;
        };
        leader.round += 1;
        self.begin_round(false);
    }

    pub(super) fn statement(&self) -> Option<Letter> {
        let leader = self.leader.as_ref()?;
        let round = (leader.view.as_ref()?.id.counter, leader.round);
        let (site, view) = (self.config.site, self.view.as_ref()?);
        let entries = self.logs.iter().map(|(sender, log)| Entry {
            sender: sender.clone(),
            is_local: sender.site == site && view.rank_of(&sender.member).is_some(),
            misses: log.misses,
            base: log.base,
            have: log.coming(),
            secured: log.secured,
        });
        Some(Letter::State { round, site, entries: entries.collect() })
    }

    fn on_bridge_letter(&mut self, rank: u16, message: &Bytes) {
        let Ok(letter) = Letter::decode(message, self.config.entries_max()) else {
            return self.metrics.ignore(Unused::Malformed);
        };
        let Some(leader) = &mut self.leader else { return };
        let Some(other) = leader.others.get_mut(usize::from(rank)) else { return };
        let is_own = other.member == *leader.bridge.member();
        match letter {
            Letter::State { round, site, entries } => self.on_state(rank, round, site, entries),
            Letter::Relay { .. } | Letter::Progress { .. } if is_own => {}
            Letter::Relay { start, sender, number, content } => {
                let view = leader.view.as_ref().map(|view| view.id.counter);
                let may_leap = start.is_some() && start == view;
                self.on_relay(sender, number, content, may_leap);
            }
            Letter::Progress { last } => {
                for (sender, number) in last {
                    if other.secured.len() < self.config.entries_max() || other.secured.contains_key(&sender)
                    {
                        other.secured.insert(sender, number);
                    }
                }
            }
            Letter::Own { .. } | Letter::Base { .. } => self.metrics.ignore(Unused::Malformed),
        }
    }

    fn on_state(&mut self, rank: u16, (view, round): (u64, u64), site: u16, mut entries: Vec<Entry>) {
        let Some(leader) = &self.leader else { return };
        let is_current = leader.view.as_ref().is_some_and(|current| current.id.counter == view);
        if !is_current || round < leader.round || round - leader.round > ROUNDS_AHEAD_MAX {
            return self.metrics.ignore(Unused::Malformed);
        }
        if round > leader.round {
            if let Some(leader) = &mut self.leader {
                leader.round = round;
            }
            self.begin_round(false);
        }
        let Some(leader) = &mut self.leader else { return };
        // A leader can claim only the senders of its own site. Sorted, because `Other::have`
        // searches the list.
        entries.iter_mut().for_each(|entry| entry.is_local &= entry.sender.site == site);
        entries.sort_by(|a, b| a.sender.cmp(&b.sender));
        leader.absent.remove(&site);
        let Some(other) = leader.others.get_mut(usize::from(rank)) else { return };
        other.site = Some(site);
        other.secured = entries.iter().map(|entry| (entry.sender.clone(), entry.secured)).collect();
        other.stated = Some(entries);
        if leader.others.iter().all(|other| other.stated.is_some()) {
            self.route();
        }
    }

    /// Assigns each sender to a leader, now that all leaders know the same. That leader continues
    /// from the lowest message number that any site has.
    fn route(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        let own = leader.others.iter().position(|other| other.member == *leader.bridge.member());
        // By sender: the leader that sends its messages, whether the sender is a member of its
        // site, and the number of messages it has.
        let mut best: BTreeMap<&Sender, (usize, bool, u64)> = BTreeMap::new();
        for (rank, other) in leader.others.iter().enumerate() {
            for entry in other.stated.iter().flatten() {
                let known = best.entry(&entry.sender).or_insert((rank, entry.is_local, entry.have));
                if (entry.is_local, entry.have) > (known.1, known.2) && !(known.1 && entry.is_local) {
                    *known = (rank, entry.is_local, entry.have);
                }
            }
        }
        let least = |sender: &Sender| {
            let foreign = leader.others.iter().enumerate().filter(|(rank, _)| Some(*rank) != own);
            foreign.map(|(_, other)| other.have(sender)).min_by_key(|(have, _)| *have)
        };
        let mut assigned = BTreeSet::new();
        for (sender, log) in self.logs.iter_mut() {
            match best.get(sender) {
                Some((rank, ..)) if Some(*rank) != own => {
                    assigned.insert(sender.clone());
                }
                _ => {
                    let (from, is_missed) = least(sender).unwrap_or((u64::MAX, false));
                    log.begin_route(from, is_missed);
                }
            }
        }
        leader.assigned = assigned;
        leader.is_routing = true;
        self.ready_all();
    }

    /// Takes on a sender of this site that was unknown when the leaders sent their statements.
    fn adopt(&mut self, sender: &Sender) {
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.is_routing) else { return };
        if sender.site != self.config.site || leader.assigned.contains(sender) {
            return;
        }
        if let Some(log) = self.logs.get_mut(sender).filter(|log| log.route.is_none()) {
            log.begin_route(0, true);
        }
    }

    /// Handles a message that another leader sent.
    fn on_relay(&mut self, sender: Sender, number: u64, content: Bytes, may_leap: bool) {
        // No other site can have more messages of a member of this site than this site's ring has
        // delivered.
        if self.is_here(&sender) {
            return self.metrics.ignore(Unused::Duplicate);
        }
        if !self.open(&sender) {
            return;
        }
        let (Some(leader), Some(log)) = (&mut self.leader, self.logs.get_mut(&sender)) else { return };
        let accepted = log.classify(number, may_leap);
        match accepted {
            Accepted::New | Accepted::Skipped => {
                log.hand(number);
                let leaps = accepted == Accepted::Skipped;
                leader.stash.push_back(Relayed { sender, number, content, leaps });
            }
            Accepted::Duplicate => self.metrics.ignore(Unused::Duplicate),
            Accepted::Gap => {
                // Until all statements are in, messages that waited for the last view may arrive.
                // They are sent again.
                if leader.is_routing {
                    (leader.wants_round, log.misses) = (true, true);
                }
                self.metrics.ignore(Unused::Gap);
            }
        }
    }

    /// Returns the last message of a sender up to which all sites are known to have all of its
    /// messages.
    fn stable_of(&self, sender: &Sender, secured: u64) -> u64 {
        let Some(leader) = &self.leader else { return 0 };
        let own = leader.bridge.member();
        let present = leader.others.iter().filter(|other| other.member != *own).map(|other| &other.secured);
        let absent = leader.absent.values().map(|absent| &absent.secured);
        let known = present.chain(absent).map(|secured| secured.get(sender).copied().unwrap_or(0));
        known.fold(secured, u64::min)
    }

    /// Returns true if there are other leaders on the bridge.
    fn has_other_leaders(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.others.len() > 1)
    }

    /// Returns true if a leader of `site` is on the bridge.
    pub(super) fn has_on_bridge(&self, site: u16) -> bool {
        let others = self.leader.iter().flat_map(|leader| &leader.others);
        others.into_iter().any(|other| other.site == Some(site))
    }

    pub(super) fn forget_absent_sites(&mut self, cx: &mut FederationCx<'_>) {
        let Some(leader) = &mut self.leader else { return };
        leader.absent.retain(|site, absent| {
            let waits = absent.until > cx.now();
            if !waits {
                cx.emit(FederationEvent::Absent { site: *site });
            }
            waits
        });
    }
}

impl Other {
    /// Returns the number of messages that it has of a sender by its statement, and whether it
    /// misses later ones.
    fn have(&self, sender: &Sender) -> (u64, bool) {
        // Statements are sorted by sender, like the logs.
        let entries = self.stated.as_deref().unwrap_or_default();
        let place = entries.binary_search_by(|entry| entry.sender.cmp(sender));
        place.map_or((0, false), |place| (entries[place].have, entries[place].misses))
    }
}

// ---- between the site and the bridge ----

impl Federation {
    /// Records a delivered message at a leader: it goes over the bridge once all members of the
    /// site have it.
    pub(super) fn note_delivered(&mut self, sender: &Sender, number: u64, (rank, on_ring): (u16, u64)) {
        let Some(leader) = &mut self.leader else { return };
        if let Some(pending) = leader.pending.get_mut(usize::from(rank)) {
            pending.push_back((on_ring, sender.clone(), number));
        }
        self.adopt(sender);
    }

    /// Updates which messages all members of the site have.
    pub(super) fn note_secured(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        // While the application is paused, the ring may already have installed another view.
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

    /// Queues a sender for the bridge if it has messages to send.
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

    /// Passes messages to the bridge, one of each sender in turn, until the bridge has no room.
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
                let len = content.len() as u32;
                let start = view.filter(|_| is_fresh);
                let letter = Letter::Relay { start, sender: sender.clone(), number, content }.encode();
                if self.on_bridge(cx, |ring, cx| ring.broadcast(letter, cx)) != Some(Ok(())) {
                    return;
                }
                self.metrics.bridged.add(len);
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

    /// Returns the next message of a sender for the bridge, and whether it is the first of its
    /// round.
    fn next_of(&mut self, sender: &Sender) -> Option<(u64, bool, Bytes)> {
        let log = self.logs.get_mut(sender)?;
        let (base, secured) = (log.base, log.secured);
        let route = log.route.as_mut()?;
        if route.cursor < base {
            // The memory limit dropped the messages before `base`.
            (route.cursor, route.is_fresh) = (base, true);
        }
        let (number, is_fresh) = (route.cursor + 1, route.is_fresh);
        (number <= secured)
            .then(|| log.get(number).cloned())
            .flatten()
            .map(|content| (number, is_fresh, content))
    }

    /// Passes messages from the bridge to the ring of the site. While that has no room, the bridge
    /// waits.
    pub(super) fn feed_site(&mut self, cx: &mut FederationCx<'_>) {
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
            let len = relayed.content.len() as u32;
            let start = relayed.leaps.then_some(leadership);
            let (sender, number, content) = (relayed.sender, relayed.number, relayed.content);
            let letter = Letter::Relay { start, sender, number, content }.encode();
            match self.on_site(cx, |ring, cx| ring.broadcast(letter, cx)) {
                Ok(()) => self.metrics.relayed.add(len),
                // Other sites may allow longer messages than this one.
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

    /// Reports to the other leaders the messages that all members of this site have, and to the
    /// site those that all sites have.
    pub(super) fn report_progress(&mut self, cx: &mut FederationCx<'_>) {
        self.begin_round_if_wanted();
        if self.leader.is_none() {
            return;
        }
        let mut secured = Vec::new();
        let mut stable = Vec::new();
        for (sender, log) in self.logs.iter() {
            if log.secured > log.reported.0 {
                secured.push((sender.clone(), log.secured));
            }
            let known = self.stable_of(sender, log.secured);
            if known > log.reported.1 {
                stable.push((sender.clone(), known));
            }
        }
        if !secured.is_empty() && self.has_other_leaders() {
            let letter = Letter::Progress { last: secured.clone() }.encode();
            if self.on_bridge(cx, |ring, cx| ring.broadcast(letter, cx)) == Some(Ok(())) {
                self.record_reported(&secured, |reported| &mut reported.0);
            }
        }
        if !stable.is_empty() {
            let letter = Letter::Progress { last: stable.clone() }.encode();
            if self.on_site(cx, |ring, cx| ring.broadcast(letter, cx)).is_ok() {
                self.record_reported(&stable, |reported| &mut reported.1);
            }
        }
    }

    fn record_reported(&mut self, last: &[(Sender, u64)], which: impl Fn(&mut (u64, u64)) -> &mut u64) {
        for (sender, number) in last {
            if let Some(log) = self.logs.get_mut(sender) {
                *which(&mut log.reported) = *number;
            }
        }
    }
}
