//! Requests for announced messages: one at a time for each message, and another announcer after a
//! while ([`Config::spread`](crate::Config::spread)).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use hashbrown::HashMap;
use samara_engine::{PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use crate::config::Pull;
use crate::engine::{Cx, GossipSub, SPREAD};
use crate::message_id::{MessageIdFn, Piece};
use crate::rpc::{Control, MessageId, RpcFrame};

/// A peer that has announced a message.
#[derive(Clone, Copy, Debug)]
struct Offer {
    peer: PeerId,
    at: Time,
    /// The last request to the peer.
    tried: Option<Time>,
}

/// A message that was announced and has not arrived.
#[derive(Debug, Default)]
pub(in crate::engine) struct Wanted {
    offers: SmallVec<[Offer; 4]>,
    /// Requests with the time from which on they no longer count as outstanding.
    asked: SmallVec<[(PeerId, Time); 1]>,
}

impl Wanted {
    /// Returns the number of outstanding requests to such peers.
    fn outstanding(&self, now: Time, counts: impl Fn(PeerId) -> bool) -> usize {
        self.asked.iter().filter(|(peer, until)| *until > now && counts(*peer)).count()
    }
}

/// A task at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Retry,
    Promise(PeerId),
}

/// The pieces of a payload that have arrived.
#[derive(Clone, Copy, Debug)]
struct Progress {
    received: u32,
    /// The heartbeat of the first piece: the oldest payload makes room for a new one.
    since: u64,
}

/// The messages that a node asks for.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pulls {
    pub(in crate::engine) by_id: HashMap<MessageId, Wanted, PeerKeyed>,
    due: BinaryHeap<Reverse<(Time, MessageId, Due)>>,
    payloads: BTreeMap<Piece, Progress>,
    timer: Option<Time>,
}

/// Number of payloads whose pieces a node counts.
const PAYLOADS_MAX: usize = 256;

impl Pulls {
    pub(in crate::engine) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of payloads whose pieces are counted.
    pub(in crate::engine) fn payloads(&self) -> usize {
        self.payloads.len()
    }

    fn missing(&self, payload: Piece) -> u32 {
        let received = self.payloads.get(&payload).map_or(0, |progress| progress.received);
        u32::from(payload.needed).saturating_sub(received)
    }
}

impl GossipSub {
    fn pull_config(&self) -> Option<Pull> {
        self.config.spread.as_ref()?.pull().cloned()
    }

    /// Returns the payload that a message is a piece of.
    fn payload_of(&self, id: &MessageId) -> Option<Piece> {
        matches!(self.config.message_id, MessageIdFn::Pieces { .. }).then(|| Piece::of(id)).flatten()
    }

    /// Takes the announced messages that this node lacks. Returns those to request from the peer now.
    pub(in crate::engine) fn take_offers(
        &mut self,
        from: PeerId,
        ids: Vec<MessageId>,
        cx: &mut Cx<'_>,
    ) -> Vec<MessageId> {
        let Some(pull) = self.pull_config() else { return ids };
        let now = cx.now();
        let Some(peer) = self.peers.get(from) else { return Vec::new() };
        let is_parked = self.peers.is_parked(from, now);
        if is_parked && pull.offers_max == 0 {
            self.metrics.offers_ignored += ids.len() as u64;
            return Vec::new();
        }
        let mut room = Pull::OFFERS_PER_PEER_MAX.saturating_sub(peer.offers);
        let mut asked = Vec::new();
        for id in ids {
            let payload = self.payload_of(&id);
            let missing = payload.map_or(u32::MAX, |payload| self.pulls.missing(payload));
            if missing == 0 {
                continue;
            }
            let copies = if missing <= pull.hedge_missing { pull.hedge_copies } else { 1 };
            let wanted = self.pulls.by_id.get(&id);
            let is_free = !is_parked
                && wanted.is_none_or(|wanted| {
                    wanted.outstanding(now, |peer| !self.peers.is_parked(peer, now)) < copies
                        && wanted.asked.iter().all(|(peer, until)| *peer != from || *until <= now)
                });
            if !wanted.is_some_and(|wanted| wanted.offers.iter().any(|offer| offer.peer == from)) {
                let offers = wanted.map_or(0, |wanted| wanted.offers.len());
                if offers > 0 && pull.offers_max == 0 && is_free {
                    // Nobody but the asked peer is remembered.
                    self.take_wanted(&id);
                } else if room == 0 || offers >= pull.offers_max.max(1) && !self.forget_overdue(&id, now) {
                    self.metrics.offers_ignored += 1;
                    continue;
                }
                let wanted = self.pulls.by_id.entry(id.clone()).or_default();
                wanted.offers.push(Offer { peer: from, at: now, tried: None });
                room = room.saturating_sub(1);
                if let Some(peer) = self.peers.get_mut(from) {
                    peer.offers += 1;
                }
                if is_parked && offers == 0 {
                    // Unless somebody else offers the message until then, nobody else has it.
                    self.pulls.due.push(Reverse((now + pull.promise, id.clone(), Due::Retry)));
                    self.wake_pulls(cx);
                }
            }
            if is_free {
                self.note_asked(&id, from, &pull, cx);
                asked.push(id);
            }
        }
        asked
    }

    /// Forgets an announcer of a message that was asked and has not answered in time. Returns false if
    /// there is none.
    fn forget_overdue(&mut self, id: &MessageId, now: Time) -> bool {
        let Some(wanted) = self.pulls.by_id.get_mut(id) else { return false };
        let is_overdue = |offer: &Offer| {
            let is_outstanding = wanted.asked.iter().any(|(peer, until)| *peer == offer.peer && *until > now);
            offer.tried.is_some() && (!is_outstanding || self.peers.is_parked(offer.peer, now))
        };
        let Some(at) = wanted.offers.iter().position(is_overdue) else { return false };
        let peer = wanted.offers.remove(at).peer;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.offers = peer.offers.saturating_sub(1);
        }
        true
    }

    /// Notes a request, and sets its deadlines.
    fn note_asked(&mut self, id: &MessageId, of: PeerId, pull: &Pull, cx: &mut Cx<'_>) {
        let now = cx.now();
        let trip = if pull.add_round_trip { Self::round_trip(of, cx) } else { Duration::ZERO };
        // A parked peer is asked less often.
        let retry = if self.peers.is_parked(of, now) { pull.promise } else { pull.retry } + trip;
        let until = now + retry;
        let Some(wanted) = self.pulls.by_id.get_mut(id) else { return };
        wanted.asked.retain(|(peer, _)| *peer != of);
        wanted.asked.push((of, until));
        if let Some(offer) = wanted.offers.iter_mut().find(|offer| offer.peer == of) {
            offer.tried = Some(now);
        }
        if pull.offers_max > 0 {
            self.pulls.due.push(Reverse((until, id.clone(), Due::Retry)));
        }
        if !pull.park_for.is_zero() {
            let promise = pull.promise.max(retry);
            self.pulls.due.push(Reverse((now + promise, id.clone(), Due::Promise(of))));
        }
        self.wake_pulls(cx);
    }

    fn wake_pulls(&mut self, cx: &mut Cx<'_>) {
        let Some(Reverse((at, ..))) = self.pulls.due.peek() else { return };
        if self.pulls.timer.is_none_or(|timer| *at < timer) {
            self.pulls.timer = Some(*at);
            cx.set_timer(*at, SPREAD);
        }
    }

    /// Asks other announcers for messages that have not arrived, and parks peers that broke a promise.
    pub(super) fn pulls_due(&mut self, cx: &mut Cx<'_>) {
        let Some(pull) = self.pull_config() else { return };
        let now = cx.now();
        if self.pulls.timer.is_none_or(|timer| timer > now) {
            return;
        }
        self.pulls.timer = None;
        let mut requests: BTreeMap<PeerId, Vec<MessageId>> = BTreeMap::new();
        while self.pulls.due.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, id, due))) = self.pulls.due.pop() else { break };
            if !self.pulls.by_id.contains_key(&id) {
                continue;
            }
            match due {
                Due::Promise(peer) => self.park(peer, now, &pull),
                Due::Retry => {
                    self.metrics.requests_overdue += 1;
                    self.ask_another(&id, 1, &pull, &mut requests, cx);
                }
            }
        }
        self.send_requests(requests, cx);
        self.wake_pulls(cx);
    }

    /// Asks announcers until `copies` requests are outstanding.
    fn ask_another(
        &mut self,
        id: &MessageId,
        copies: usize,
        pull: &Pull,
        requests: &mut BTreeMap<PeerId, Vec<MessageId>>,
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now();
        loop {
            let Some(wanted) = self.pulls.by_id.get(id) else { return };
            let is_parked = |peer: PeerId| self.peers.is_parked(peer, now);
            let all_parked = wanted.offers.iter().all(|offer| is_parked(offer.peer));
            if wanted.outstanding(now, |peer| all_parked || !is_parked(peer)) >= copies {
                return;
            }
            let is_free = |offer: &&Offer| {
                wanted.asked.iter().all(|(peer, until)| *peer != offer.peer || *until <= now)
                    && (all_parked || !is_parked(offer.peer))
            };
            let rank = |offer: &&Offer| {
                let trip =
                    if pull.add_round_trip { Self::round_trip(offer.peer, cx) } else { Duration::ZERO };
                (offer.tried, trip, offer.peer)
            };
            let Some(peer) = wanted.offers.iter().filter(is_free).min_by_key(rank).map(|offer| offer.peer)
            else {
                return;
            };
            self.note_asked(id, peer, pull, cx);
            requests.entry(peer).or_default().push(id.clone());
        }
    }

    /// Sends each request in a frame of its own: a peer may answer all ids of an IWANT in one frame, of
    /// which nothing has arrived before its end.
    fn send_requests(&mut self, requests: BTreeMap<PeerId, Vec<MessageId>>, cx: &mut Cx<'_>) {
        for (peer, ids) in requests {
            self.promises.add(cx.now(), peer, &ids, cx.rng());
            for id in ids {
                self.send_control(peer, Control { iwant: vec![id], ..Control::default() }, cx);
            }
        }
    }

    fn park(&mut self, id: PeerId, now: Time, pull: &Pull) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if peer.parked_until <= now {
            peer.parked_until = now + pull.park_for;
            self.metrics.peers_parked += 1;
        }
    }

    /// Notes the arrival of a message: it is no longer wanted. Returns the peers that had announced it.
    pub(in crate::engine) fn note_arrival(
        &mut self,
        from: PeerId,
        id: &MessageId,
        cx: &mut Cx<'_>,
    ) -> SmallVec<[PeerId; 4]> {
        let Some(wanted) = self.take_wanted(id) else { return SmallVec::new() };
        for (peer, _) in &wanted.asked {
            if *peer == from {
                let tried = wanted.offers.iter().find(|offer| offer.peer == *peer);
                if let Some(at) = tried.and_then(|offer| offer.tried) {
                    self.peers.note_response(*peer, cx.now().since(at));
                }
            } else if self.config.withdraw.on_idontwant {
                let frame = RpcFrame::control(Control { idontwant: vec![id.clone()], ..Control::default() });
                self.send_urgent(*peer, frame, cx);
            }
        }
        wanted.offers.iter().map(|offer| offer.peer).collect()
    }

    /// Counts a piece that is valid: one that is not must not end the requests for its payload. With
    /// the last piece that is needed, no other is wanted.
    pub(in crate::engine) fn note_piece(&mut self, id: &MessageId, cx: &mut Cx<'_>) {
        let Some(pull) = self.pull_config() else { return };
        let Some(payload) = self.payload_of(id) else { return };
        let payloads = &mut self.pulls.payloads;
        if payloads.len() >= PAYLOADS_MAX && !payloads.contains_key(&payload) {
            let oldest = payloads.iter().min_by_key(|(_, progress)| progress.since);
            let oldest = oldest.map(|(payload, _)| *payload);
            oldest.map(|payload| payloads.remove(&payload));
        }
        let progress = payloads.entry(payload).or_insert(Progress { received: 0, since: self.ticks });
        progress.received += 1;
        if progress.received > u32::from(payload.needed) {
            return;
        }
        let missing = self.pulls.missing(payload);
        if missing > pull.hedge_missing {
            return;
        }
        let mut ids: Vec<MessageId> =
            self.pulls.by_id.keys().filter(|id| Piece::of(id) == Some(payload)).cloned().collect();
        ids.sort_unstable();
        if missing == 0 {
            ids.iter().for_each(|id| _ = self.take_wanted(id));
            return;
        }
        let mut requests = BTreeMap::new();
        for id in &ids {
            self.ask_another(id, pull.hedge_copies, &pull, &mut requests, cx);
        }
        self.send_requests(requests, cx);
    }

    /// Forgets a message with its offers.
    pub(in crate::engine) fn take_wanted(&mut self, id: &MessageId) -> Option<Wanted> {
        // Without requests, the table has no key to hash with.
        if self.pulls.by_id.is_empty() {
            return None;
        }
        let wanted = self.pulls.by_id.remove(id)?;
        for offer in &wanted.offers {
            if let Some(peer) = self.peers.get_mut(offer.peer) {
                peer.offers = peer.offers.saturating_sub(1);
            }
        }
        Some(wanted)
    }

    pub(super) fn pulls_heartbeat(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let is_old = |wanted: &Wanted| wanted.offers.iter().all(|offer| offer.at + Pull::OFFER_TTL <= now);
        let old: Vec<MessageId> =
            self.pulls.by_id.iter().filter(|(_, wanted)| is_old(wanted)).map(|(id, _)| id.clone()).collect();
        old.iter().for_each(|id| _ = self.take_wanted(id));
    }

    pub(in crate::engine) fn forget_pulls_of(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        if self.pulls.by_id.is_empty() {
            return;
        }
        let now = cx.now();
        let mut again = Vec::new();
        for (id, wanted) in &mut self.pulls.by_id {
            wanted.offers.retain(|offer| offer.peer != peer);
            let before = wanted.asked.len();
            wanted.asked.retain(|(asked, _)| *asked != peer);
            if before > wanted.asked.len() {
                again.push(Reverse((now, id.clone(), Due::Retry)));
            }
        }
        self.pulls.due.extend(again);
        self.wake_pulls(cx);
    }
}
