//! Pushes to some mesh peers, announcements to others, and one request at a time
//! ([`Config::spread`](crate::Config::spread)).

mod pull;

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::outbox::Weight;
use samara_engine::{PeerId, Time};

use super::tables::TopicIdx;
use super::{Cx, GossipSub, SPREAD};
use crate::config::Announce;
use crate::rpc::{Control, IHave, MessageId};

pub(super) use pull::Pulls;

/// Round trips count as this one while they are unknown: the first timeout of TCP (RFC 6298 section
/// 2.1).
const ROUND_TRIP_FIRST: Duration = Duration::from_secs(1);
/// Longer round trips count as this one: what a driver measures can be anything.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(10);

/// The announcements that a node has not sent yet.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// The ids that wait for each peer, with their topics, in the order in which they came.
    waiting: BTreeMap<PeerId, Vec<(TopicIdx, MessageId)>>,
    /// The time at which they leave.
    at: Option<Time>,
    /// Copies of the batch that is being published, by peer.
    pub(super) loads: BTreeMap<PeerId, u32>,
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
    /// that get an announcement. `announcers` have announced the message.
    pub(super) fn split(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        mut candidates: Vec<PeerId>,
        (from, announcers): (Option<PeerId>, &[PeerId]),
        cx: &mut Cx<'_>,
    ) -> Split {
        let Some(spread) = &self.config.spread else {
            return Split { push: candidates, announce: Vec::new() };
        };
        let mesh = &self.topics.get(topic).mesh;
        let refusals = self.unwanted.refusals(id);
        let mut holders = 0;
        if spread.count_holders {
            holders = match spread.announce {
                Announce::Mesh => refusals.iter().filter(|refusal| mesh.contains(refusal.peer)).count(),
                Announce::Nearest(_) => {
                    let is_new = |peer: &&PeerId| refusals.iter().all(|refusal| refusal.peer != **peer);
                    refusals.len() + announcers.iter().filter(is_new).count()
                }
            };
        }
        if spread.announce != Announce::Mesh {
            candidates.retain(|peer| !announcers.contains(peer));
        }
        let pushed = spread.push_copies.saturating_sub(holders).min(candidates.len());
        if from.is_none() && spread.publish_to_all {
            let loads = &mut self.announcements.loads;
            candidates.sort_by_key(|peer| loads.get(peer).copied());
            candidates[..pushed].iter().for_each(|peer| *loads.entry(*peer).or_default() += 1);
        }
        let mut rest = candidates.split_off(pushed);
        let push = candidates;
        let announce = match spread.announce {
            Announce::Mesh => {
                rest.retain(|peer| mesh.contains(*peer));
                rest
            }
            Announce::Nearest(count) => {
                let lacks = |peer: &PeerId| {
                    Some(*peer) != from
                        && !push.contains(peer)
                        && !announcers.contains(peer)
                        && !self.unwanted.contains(*peer, id)
                        && self.peers.has_mesh(*peer)
                };
                let subscribers = self.topics.get(topic).subscribers.iter().copied();
                let mut nearest: Vec<PeerId> = subscribers.filter(lacks).collect();
                self.sort_by_distance(&mut nearest, cx);
                nearest.truncate(count);
                nearest
            }
        };
        Split { push, announce }
    }

    /// Returns the round trip of a link, as the driver measured it.
    fn round_trip(peer: PeerId, cx: &mut Cx<'_>) -> Duration {
        cx.outbox().round_trip(peer).unwrap_or(ROUND_TRIP_FIRST).min(ROUND_TRIP_MAX)
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
        let quiet = is_own && self.config.spread.as_ref().is_some_and(|spread| spread.publish_to_all);
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
        if self.config.spread.as_ref().is_some_and(|spread| spread.announce != Announce::Mesh) {
            self.announce_to_meshes();
        }
        self.pulls_heartbeat(cx);
    }

    /// Announces recent messages to the peers of meshes and fanouts that may lack them. They got neither
    /// a push nor an announcement if others are nearer, and gossip goes to all other peers.
    fn announce_to_meshes(&mut self) {
        let topics: Vec<TopicIdx> =
            self.topics.joined().iter().chain(self.topics.fanouts()).copied().collect();
        for topic in topics {
            let is_quiet = |id: &MessageId| self.announcements.quiet.iter().any(|(.., quiet)| quiet == id);
            let ids: Vec<MessageId> =
                self.mcache.gossip_ids(topic).map(|(_, id)| id.clone()).filter(|id| !is_quiet(id)).collect();
            let state = self.topics.get(topic);
            let peers = if state.joined { &state.mesh } else { &state.fanout };
            for peer in peers.iter() {
                let lacking = ids.iter().filter(|id| !self.unwanted.contains(*peer, id)).cloned();
                let ids: Vec<MessageId> = lacking.take(self.config.gossip.ihave_ids_max).collect();
                if !ids.is_empty() {
                    let ihave = IHave { topic: state.name.clone(), ids };
                    self.outgoing.entry(*peer).or_default().ihave.push(ihave);
                }
            }
        }
    }

    pub(super) fn forget_spread_of(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        self.announcements.waiting.remove(&peer);
        self.forget_pulls_of(peer, cx);
    }
}
