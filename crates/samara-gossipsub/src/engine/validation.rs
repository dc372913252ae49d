//! Verdicts on messages, at once or later.

use std::collections::VecDeque;

use hashbrown::HashMap;
use samara_engine::{PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use super::receive::Arrival;
use super::{Acceptance, Cx, Event, GossipSub, Ignored};
use crate::config::{ValidatorHook, Verdict};
use crate::ids::TopicIdx;
use crate::rpc::MessageId;
use crate::score::RejectReason;

/// A message that waits for its verdict.
#[derive(Debug)]
struct Pending {
    arrival: Arrival,
    since: Time,
    /// Who sent a copy meanwhile.
    holders: SmallVec<[PeerId; 4]>,
}

/// All messages that wait.
#[derive(Debug)]
pub(super) struct PendingValidations {
    by_id: HashMap<MessageId, Box<Pending>, PeerKeyed>,
    /// In the order of arrival; those that have their verdict are skipped.
    queue: VecDeque<(Time, MessageId)>,
}

impl PendingValidations {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self { by_id: HashMap::with_hasher(hasher), queue: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// A copy of a message came. Nothing happens unless it waits.
    pub(super) fn note_copy(&mut self, id: &MessageId, from: PeerId) {
        if self.by_id.is_empty() {
            return;
        }
        if let Some(pending) = self.by_id.get_mut(id)
            && !pending.holders.contains(&from)
        {
            pending.holders.push(from);
        }
    }

    fn insert(&mut self, now: Time, arrival: Arrival) {
        let id = arrival.id.clone();
        self.queue.push_back((now, id.clone()));
        self.by_id.insert(id, Box::new(Pending { arrival, since: now, holders: SmallVec::new() }));
    }

    fn take(&mut self, id: &MessageId) -> Option<Box<Pending>> {
        let pending = self.by_id.remove(id)?;
        self.skip_decided();
        Some(pending)
    }

    /// The oldest message, if it has waited since `before` or longer.
    fn take_older(&mut self, before: Time) -> Option<Box<Pending>> {
        let (_, id) = self.queue.front().filter(|(since, _)| *since <= before)?;
        let id = id.clone();
        self.take(&id)
    }

    /// Keeps the head of the queue one that still waits. An id may have been decided on, forgotten, and come again: then its
    /// older entry does not count.
    fn skip_decided(&mut self) {
        while let Some((since, id)) = self.queue.front() {
            if self.by_id.get(id).is_some_and(|pending| pending.since == *since) {
                return;
            }
            self.queue.pop_front();
        }
    }
}

impl GossipSub {
    pub(super) fn validator_of(&self, topic: TopicIdx) -> Option<&ValidatorHook> {
        let state = self.topics.get(topic);
        if state.special { self.config.validator_of(&state.name) } else { self.config.validator.as_ref() }
    }

    /// Asks the validator of the topic, if there is one.
    pub(super) fn validate(&mut self, arrival: Arrival, cx: &mut Cx<'_>) {
        let state = self.topics.get(arrival.topic);
        let verdict = self.validator_of(arrival.topic).map_or(Verdict::Accept, |validator| {
            validator.validate(arrival.from, &state.name, &arrival.message)
        });
        match verdict {
            Verdict::Accept => self.accept(arrival, &[], cx),
            Verdict::Ignore => {
                self.reject(&arrival, RejectReason::Ignored, Ignored::MessageIgnored, cx);
            }
            Verdict::Reject => {
                self.reject(&arrival, RejectReason::Invalid, Ignored::MessageRejected, cx);
            }
            Verdict::Defer => {
                cx.emit(Event::NeedsValidation {
                    id: arrival.id.clone(),
                    key: arrival.key,
                    topic: state.name.clone(),
                    message: arrival.message.clone(),
                    from: arrival.from,
                });
                self.pending.insert(cx.now(), arrival);
            }
        }
    }

    /// The verdict on a message that waits for it. `false` if no such message waits: it never did, it has its verdict, or it
    /// waited for too long.
    pub fn report_validation(&mut self, id: &MessageId, acceptance: Acceptance, cx: &mut Cx<'_>) -> bool {
        let Some(pending) = self.pending.take(id) else { return false };
        let Pending { arrival, holders, .. } = *pending;
        match acceptance {
            Acceptance::Accept if !self.topics.get(arrival.topic).joined => {
                // The topic was left meanwhile.
                self.reject(&arrival, RejectReason::Ignored, Ignored::MessageNotSubscribed, cx);
            }
            Acceptance::Accept => self.accept(arrival, &holders, cx),
            Acceptance::Ignore => {
                self.reject(&arrival, RejectReason::Ignored, Ignored::MessageIgnored, cx);
            }
            Acceptance::Reject => {
                self.reject(&arrival, RejectReason::Invalid, Ignored::MessageRejected, cx);
            }
        }
        true
    }

    /// Gives up on verdicts that never came.
    pub(super) fn expire_validations(&mut self, cx: &mut Cx<'_>) {
        let timeout = self.config.validation_timeout;
        let now = cx.now();
        if now.since(Time::ZERO) < timeout {
            return;
        }
        let before = Time::ZERO + (now.since(Time::ZERO) - timeout);
        while let Some(pending) = self.pending.take_older(before) {
            self.reject(&pending.arrival, RejectReason::Ignored, Ignored::ValidationTimedOut, cx);
        }
    }
}
