//! Pushes to some mesh peers, announcements to others, and one request at a time
//! ([`Config::spread`](crate::Config::spread)).

mod pull;

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::outbox::Weight;
use samara_engine::{PeerId, Time};

use super::tables::TopicIdx;
use super::{Cx, GossipSub, SPREAD};
use crate::rpc::{Control, IHave, MessageId};

pub(super) use pull::Pulls;

/// The announcements that a node has not sent yet.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// The ids that wait for each peer, with their topics, in the order in which they came.
    waiting: BTreeMap<PeerId, Vec<(TopicIdx, MessageId)>>,
    /// The time at which they leave.
    at: Option<Time>,
    /// Copies of the batch that is being published, by peer.
    pub(super) loads: BTreeMap<PeerId, u32>,
    /// The peers that had announced the message that arrived last.
    holders: Vec<PeerId>,
    /// Own messages that nobody learns of before a heartbeat, and the heartbeat.
    quiet: Vec<(u64, TopicIdx, MessageId)>,
}

/// The peers that a message goes to.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) push: Vec<PeerId>,
    announce: Vec<PeerId>,
}

impl GossipSub {
    /// Divides the candidates for a push, which are in random order, into those that get one and those
    /// that get an announcement.
    pub(super) fn split(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        mut candidates: Vec<PeerId>,
        from: Option<PeerId>,
        cx: &mut Cx<'_>,
    ) -> Split {
        let Some(spread) = &self.config.spread else {
            return Split { push: candidates, announce: Vec::new() };
        };
        let is_idle = [self.lanes.publish, self.lanes.forward, self.lanes.answer]
            .iter()
            .all(|lane| cx.outbox().counters(*lane).pending.copies == 0);
        let mesh = &self.topics.get(topic).mesh;
        let holders = if spread.count_holders {
            let refusals = self.unwanted.refusals(id);
            if spread.announce_to > 0 {
                let announced = self.announcements.holders.iter();
                let announced = announced.filter(|peer| refusals.iter().all(|known| known.peer != **peer));
                refusals.len() + announced.count()
            } else {
                refusals.iter().filter(|refusal| mesh.contains(refusal.peer)).count()
            }
        } else {
            0
        };
        if spread.announce_to > 0 {
            candidates.retain(|peer| !self.announcements.holders.contains(peer));
        }
        if spread.push_near {
            self.sort_by_distance(&mut candidates, cx);
        }
        let copies = match from {
            None => spread.publish_copies,
            Some(_) if is_idle => spread.push_copies_idle,
            Some(_) => spread.push_copies,
        };
        let pushed = copies.saturating_sub(holders).min(candidates.len());
        if from.is_none() && spread.publish_to_all {
            let loads = &mut self.announcements.loads;
            candidates.sort_by_key(|peer| loads.get(peer).copied());
            candidates[..pushed].iter().for_each(|peer| *loads.entry(*peer).or_default() += 1);
        }
        let mut announce = candidates.split_off(pushed);
        if from.is_none() && spread.publish_to_all {
            announce.retain(|peer| mesh.contains(*peer));
        }
        if spread.announce_near && spread.announce_to > 0 {
            announce.clear();
        }
        if spread.announce_to > announce.len() {
            let subscribers = self.topics.get(topic).subscribers.iter().copied();
            let mut others: Vec<PeerId> = subscribers
                .filter(|peer| {
                    (spread.announce_near || !mesh.contains(*peer))
                        && Some(*peer) != from
                        && !candidates.contains(peer)
                        && !announce.contains(peer)
                        && !self.unwanted.contains(*peer, id)
                        && !self.announcements.holders.contains(peer)
                        && self.peers.has_mesh(*peer)
                })
                .collect();
            if spread.announce_near {
                self.sort_by_distance(&mut others, cx);
                others.truncate(spread.announce_to);
            }
            super::mesh::draw(&mut others, spread.announce_to - announce.len(), cx.rng());
            announce.append(&mut others);
        }
        Split { push: candidates, announce }
    }

    fn sort_by_distance(&self, peers: &mut [PeerId], cx: &mut Cx<'_>) {
        let outbox = cx.outbox();
        let near = |peer: &PeerId| outbox.weight(*peer, Weight::Latency);
        peers.sort_by(|a, b| near(b).total_cmp(&near(a)));
    }

    /// Announces a message to peers: at once, or together with later ones.
    pub(super) fn announce_message(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        peers: Vec<PeerId>,
        cx: &mut Cx<'_>,
    ) {
        let Some(delay) = self.config.spread.as_ref().map(|spread| spread.announce_delay) else { return };
        for peer in peers {
            if delay == Duration::ZERO {
                let ihave = vec![IHave { topic: self.topics.get(topic).name.clone(), ids: vec![id.clone()] }];
                self.send_control(peer, Control { ihave, ..Control::default() }, cx);
            } else {
                self.announcements.waiting.entry(peer).or_default().push((topic, id.clone()));
            }
        }
        if !self.announcements.waiting.is_empty() && self.announcements.at.is_none() {
            let at = cx.now() + delay;
            self.announcements.at = Some(at);
            cx.set_timer(at, SPREAD);
        }
    }

    /// Announces what was not pushed, or keeps an own message quiet for a while.
    pub(super) fn announce_rest(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        split: Split,
        is_own: bool,
        cx: &mut Cx<'_>,
    ) {
        let quiet = is_own && self.config.spread.as_ref().is_some_and(|spread| spread.quiet_publisher);
        if quiet {
            self.announcements.quiet.push((self.ticks + 2, topic, id.clone()));
        } else {
            self.announce_message(topic, id, split.announce, cx);
        }
    }

    /// Handles the timer of this module.
    pub(super) fn spread_timer(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.announcements.at.is_some_and(|at| at <= now) {
            self.announcements.at = None;
            for (peer, ids) in std::mem::take(&mut self.announcements.waiting) {
                let mut ihave: Vec<IHave> = Vec::new();
                for (topic, id) in ids {
                    if self.unwanted.contains(peer, &id) {
                        continue;
                    }
                    let name = &self.topics.get(topic).name;
                    match ihave.last_mut().filter(|last| last.topic == *name) {
                        Some(last) => last.ids.push(id),
                        None => ihave.push(IHave { topic: name.clone(), ids: vec![id] }),
                    }
                }
                if !ihave.is_empty() {
                    self.send_control(peer, Control { ihave, ..Control::default() }, cx);
                }
            }
        }
        self.pulls_due(cx);
    }

    /// Announces own messages that were quiet, and forgets old offers.
    pub(super) fn spread_heartbeat(&mut self, cx: &mut Cx<'_>) {
        if self.config.spread.is_none() {
            return;
        }
        let ticks = self.ticks;
        let quiet = std::mem::take(&mut self.announcements.quiet);
        let (due, rest): (Vec<_>, Vec<_>) = quiet.into_iter().partition(|(tick, ..)| *tick <= ticks);
        self.announcements.quiet = rest;
        for (_, topic, id) in due {
            let mut peers = self.routed(topic);
            peers.retain(|peer| !self.unwanted.contains(*peer, &id));
            self.announce_message(topic, &id, peers, cx);
        }
        self.pulls_heartbeat(cx);
    }

    pub(super) fn forget_spread_of(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        self.announcements.waiting.remove(&peer);
        self.forget_pulls_of(peer, cx);
    }
}
