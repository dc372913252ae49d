//! Partial messages that arrive.

use std::collections::BTreeSet;

use bytes::Bytes;
use samara_engine::{MessageKey, PeerId};

use super::groups::{GroupKey, Pending, bytes_of};
use crate::engine::tables::TopicIdx;
use crate::engine::{Acceptance, Cx, Event, GossipSub, Ignored};
use crate::partial::{Bits, FormatError, Metadata, PartialConfig};
use crate::rpc::Partial;

/// The share of [`PartialLimits::early_bytes`](crate::partial::PartialLimits::early_bytes) that a peer can
/// fill is one part in this many.
const EARLY_PEERS: usize = 16;

impl GossipSub {
    pub(in crate::engine) fn receive_partial(&mut self, from: PeerId, partial: &Partial, cx: &mut Cx<'_>) {
        let Some((config, topic)) = self.partial_topic(&partial.topic) else {
            self.metrics.ignore(Ignored::PartialTopic, 1);
            return;
        };
        let Some(peer) = self.peers.get_mut(from) else { return };
        peer.counts.partials += 1;
        if peer.counts.partials > config.limits.frames_per_heartbeat {
            self.metrics.ignore(Ignored::PartialFramesOverLimit, 1);
            return;
        }
        if config.format.check_group(&partial.topic, &partial.group).is_err() {
            return self.malformed(from, topic);
        }
        let key = (topic, partial.group.clone());
        let is_new = !self.partials.groups.contains_key(&key);
        if !self.admit_group(&key, from, &config) {
            return;
        }
        // A body comes before the metadata, which may ask for other parts.
        if let Some(body) = &partial.body {
            match self.receive_body(from, &key, body, &config, cx) {
                Ok(()) => {}
                Err(_) => return self.malformed(from, topic),
            }
        }
        if let Some(metadata) = &partial.metadata {
            let metadata = config.format.read_metadata(metadata);
            let known = self.partials.groups.get(&key).map_or(0, |group| group.len);
            let fits = |metadata: &Metadata| {
                let len = metadata.available.len();
                len <= config.limits.parts && (known == 0 || len == known)
            };
            match metadata {
                Ok(metadata) if fits(&metadata) => self.receive_metadata(from, &key, metadata, cx),
                _ => return self.malformed(from, topic),
            }
        }
        if partial.body.is_none() {
            if let Some(group) = self.partials.groups.get_mut(&key) {
                group.view(from).announces |= partial.metadata.is_some();
            }
            if is_new {
                let (topic, group) = (partial.topic.clone(), key.1.clone());
                cx.emit(Event::Group { topic, group, from });
            }
        }
        self.act(&key, cx);
    }

    fn partial_topic(&self, name: &crate::rpc::Topic) -> Option<(std::sync::Arc<PartialConfig>, TopicIdx)> {
        let config = self.partial_config(name)?;
        let topic = self.topics.find(name)?;
        let state = self.topics.get(topic);
        // A publisher that has not joined answers requests for what it has published.
        (state.joined || state.fanout_used.is_some()).then_some((config, topic))
    }

    fn malformed(&mut self, from: PeerId, topic: TopicIdx) {
        self.metrics.ignore(Ignored::PartialMalformed, 1);
        self.scores.reject_malformed(from, topic);
    }

    /// Returns true if the group is known, or if the peer may create it.
    fn admit_group(&mut self, key: &GroupKey, from: PeerId, config: &PartialConfig) -> bool {
        if !self.partials.groups.contains_key(key) {
            let state = self.topics.get(key.0);
            if !state.joined {
                self.metrics.ignore(Ignored::PartialTopic, 1);
                return false;
            }
            let limits = config.limits;
            let of_topic = (key.0, Bytes::new())..;
            let created: Vec<PeerId> = self
                .partials
                .groups
                .range(of_topic)
                .take_while(|((topic, _), _)| *topic == key.0)
                .filter_map(|(_, group)| group.created_by)
                .collect();
            // Half of the room is for peers of the mesh.
            let room = match state.mesh.contains(from) {
                true => limits.groups_per_topic,
                false => limits.groups_per_topic / 2,
            };
            let of_peer = created.iter().filter(|creator| **creator == from).count();
            if created.len() >= room || of_peer >= limits.groups_per_peer {
                self.metrics.ignore(Ignored::PartialGroupsFull, 1);
                return false;
            }
            let group = self.partials.groups.entry(key.clone()).or_default();
            group.created_by = Some(from);
            group.until = self.ticks + config.group_ttl_heartbeats;
            if let Some(bytes) = self.partials.headers.get(&key.1).and_then(|header| header.bytes.as_ref())
                && let Ok(Some(len)) = config.format.len_of(Some(bytes))
            {
                group.set_len(len);
            }
        }
        let Some(group) = self.partials.groups.get_mut(key) else { return false };
        group.parent.get_or_insert(from);
        group.view(from).heard = true;
        // A peer that speaks of a group has its header, or needs none.
        if let Some(header) = self.partials.headers.get_mut(&key.1) {
            header.note(from);
        }
        true
    }

    fn receive_metadata(&mut self, from: PeerId, key: &GroupKey, metadata: Metadata, cx: &mut Cx<'_>) {
        self.metrics.parts_metadata_received += 1;
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        let is_quiet = group.is_quiet;
        // A peer that says nothing may be down, or send nothing on purpose.
        if is_quiet {
            cx.outbox().prefer(from);
        }
        let view = group.view(from);
        let begun = metadata.requests.without(&view.requests);
        let ended = view.requests.without(&metadata.requests);
        // A part that is requested again was lost, unless it is still owed.
        let again = begun.and(&view.owed);
        if !again.is_empty() {
            let outbox = cx.outbox();
            view.frames.retain(|(message, _)| outbox.owes(from, *message));
            let mut waits = Bits::default();
            view.frames.iter().for_each(|(_, parts)| waits.add(parts));
            view.owed = view.owed.without(&again.without(&waits));
        }
        // A part that the peer has from others spreads without this node.
        let mut spread = Bits::default();
        if is_quiet {
            spread = metadata.available.without(&view.owed);
            for (message, parts) in &view.frames {
                if cx.outbox().owes(from, *message) {
                    spread.add(&parts.and(&metadata.available));
                }
            }
        }
        view.available.add(&metadata.available);
        view.requests = metadata.requests;
        if is_quiet {
            self.note_spread(key, from, &metadata.available, cx);
        }
        let mut useless = metadata.available;
        useless.add(&ended);
        self.withdraw_parts(key, from, &useless, cx);
        self.end_push(key, &spread, cx);
    }

    /// Notes that a peer has pushed parts, for schedules that send first what fewer peers have.
    fn note_spread(&self, key: &GroupKey, from: PeerId, available: &Bits, cx: &mut Cx<'_>) {
        let Some(group) = self.partials.groups.get(key) else { return };
        let pushed = group.views.iter().flat_map(|view| &view.frames);
        let spread = pushed.filter(|(_, parts)| parts.without(available).is_empty());
        let messages: BTreeSet<MessageKey> = spread.map(|(message, _)| *message).collect();
        let now = cx.now();
        messages.into_iter().for_each(|message| cx.outbox().note_has(now, from, message));
    }

    fn receive_body(
        &mut self,
        from: PeerId,
        key: &GroupKey,
        bytes: &Bytes,
        config: &PartialConfig,
        cx: &mut Cx<'_>,
    ) -> Result<(), FormatError> {
        let body = config.format.read_body(&key.1, bytes)?;
        // All checks come before the header blocks others until its verdict.
        let known = config.format.len_of(None)?.or(self.partials.groups.get(key).map(|group| group.len));
        let known = known.filter(|len| *len > 0);
        let len = match &body.header {
            Some(header) => config.format.len_of(Some(header))?,
            None => known,
        };
        let expected = |len: u32| format!("{len} parts at most");
        let beyond =
            |found: u32, len: u32| FormatError { found: format!("{found} parts"), expected: expected(len) };
        if len.unwrap_or(0) > config.limits.parts {
            return Err(beyond(len.unwrap_or(0), config.limits.parts));
        }
        if let (Some(len), Some(found)) = (len, body.len)
            && found != len
        {
            return Err(beyond(found, len));
        }
        let header = self.receive_header(from, key, body.header, config)?;
        let len = if header.is_some() { len } else { known };
        let Some(group) = self.partials.groups.get_mut(key) else { return Ok(()) };
        let view = group.view(from);
        view.available.add(&body.parts.iter().map(|(part, _)| *part).collect());
        view.received.add(&body.parts.iter().map(|(part, _)| *part).collect());
        self.metrics.parts_received += body.parts.len() as u64;
        if len.is_none() {
            self.hold_early(from, key, body.parts, config);
            return Ok(());
        }
        let now = cx.now();
        let mut parts = Vec::new();
        for (part, data) in body.parts {
            if let Some(ask) = group.asks.get(&part).filter(|ask| ask.peer == from) {
                let took = now.since(ask.since);
                self.peers.note_response(from, took);
            }
            if group.have.contains(part) || group.checking.contains(part) {
                self.metrics.parts_duplicate += 1;
            } else {
                group.checking.insert(part);
                parts.push((part, data));
            }
        }
        self.check(from, key, header, parts, cx);
        Ok(())
    }

    /// Keeps parts until their header is there, without which nobody can check them: a publisher pushes
    /// parts while others spread the header. If there is no room, they are requested later.
    fn hold_early(&mut self, from: PeerId, key: &GroupKey, parts: Vec<(u32, Bytes)>, config: &PartialConfig) {
        let (bytes, limit) = (bytes_of(&parts), config.limits.early_bytes);
        let of_all: usize = self.partials.early_bytes.values().sum();
        let of_peer = self.partials.early_bytes.entry(from).or_default();
        match self.partials.groups.get_mut(key) {
            Some(group) if of_all + bytes <= limit && *of_peer + bytes <= limit / EARLY_PEERS => {
                *of_peer += bytes;
                // Copies, since a slice would keep all of its frame.
                let copy = |(part, data): (u32, Bytes)| (part, Bytes::copy_from_slice(&data));
                group.early.push((from, parts.into_iter().map(copy).collect()));
            }
            _ => self.metrics.ignore(Ignored::PartialEarly, parts.len() as u64),
        }
    }

    /// Hands parts that arrived before their header to the application, once the header is there.
    pub(super) fn check_early(&mut self, key: &GroupKey, cx: &mut Cx<'_>) {
        let early = match self.partials.groups.get_mut(key) {
            Some(group) if group.len > 0 => std::mem::take(&mut group.early),
            _ => return,
        };
        for (from, mut parts) in early {
            if let Some(held) = self.partials.early_bytes.get_mut(&from) {
                *held = held.saturating_sub(bytes_of(&parts));
            }
            let Some(group) = self.partials.groups.get_mut(key) else { return };
            let arrived = parts.len();
            parts.retain(|(part, _)| *part < group.len && !group.have.contains(*part));
            parts.retain(|(part, _)| !group.checking.contains(*part));
            self.metrics.parts_duplicate += (arrived - parts.len()) as u64;
            parts.iter().for_each(|(part, _)| group.checking.insert(*part));
            self.check(from, key, None, parts, cx);
        }
    }

    /// Hands a header and parts to the application for their verdict.
    fn check(
        &mut self,
        from: PeerId,
        key: &GroupKey,
        header: Option<Bytes>,
        parts: Vec<(u32, Bytes)>,
        cx: &mut Cx<'_>,
    ) {
        let limits = self.config.partial.as_ref().map(|config| config.limits);
        let (Some(group), Some(limits)) = (self.partials.groups.get_mut(key), limits) else { return };
        if header.is_none() && parts.is_empty() {
            return;
        }
        if self.partials.pending.len() >= limits.pending {
            self.metrics.ignore(Ignored::PartialPending, parts.len().max(1) as u64);
            parts.iter().for_each(|(part, _)| group.checking.remove(*part));
            if let Some(state) = self.partials.headers.get_mut(&key.1).filter(|_| header.is_some()) {
                state.checking = false;
            }
            return;
        }
        let ticket = self.partials.next_ticket;
        self.partials.next_ticket += 1;
        let (topic, group) = (self.topics.get(key.0).name.clone(), key.1.clone());
        cx.emit(Event::Parts { ticket, topic, group, from, header: header.clone(), parts: parts.clone() });
        self.partials.pending.insert(ticket, Pending { key: key.clone(), from, header, parts });
    }

    /// Returns a header that must be checked.
    fn receive_header(
        &mut self,
        from: PeerId,
        key: &GroupKey,
        header: Option<Bytes>,
        config: &PartialConfig,
    ) -> Result<Option<Bytes>, FormatError> {
        let Some(header) = header else { return Ok(None) };
        self.metrics.headers_received += 1;
        let state = self.partials.headers.entry(key.1.clone()).or_default();
        state.until = state.until.max(self.ticks + config.group_ttl_heartbeats);
        state.note(from);
        if let Some(known) = &state.bytes {
            self.metrics.headers_duplicate += 1;
            if *known != header {
                let (found, expected) = ("another header".to_owned(), "that of the group".to_owned());
                return Err(FormatError { found, expected });
            }
            return Ok(None);
        }
        if state.checking {
            self.metrics.headers_duplicate += 1;
            return Ok(None);
        }
        state.checking = true;
        Ok(Some(header))
    }

    /// Reports the verdict on [`Event::Parts`]. Accepted parts go on to other peers; a header must be
    /// followed by a call of [`provide`](Self::provide) for each topic of the group that the application
    /// wants. Returns false if nothing awaits this verdict: it is known, or the group was forgotten.
    pub fn report_parts(&mut self, ticket: u64, acceptance: Acceptance, cx: &mut Cx<'_>) -> bool {
        let Some(Pending { key, from, header, parts }) = self.partials.pending.remove(&ticket) else {
            return false;
        };
        let Some(config) = self.config.partial.clone() else { return false };
        if let Some(state) = self.partials.headers.get_mut(&key.1)
            && header.is_some()
        {
            state.checking = false;
            if acceptance == Acceptance::Accept {
                state.bytes.clone_from(&header);
            } else {
                state.holders.retain(|holder| *holder != from);
            }
        }
        if header.is_some() && acceptance == Acceptance::Accept {
            self.push_header(&key.1, config.exchange.header_copies, cx);
        }
        let Some(group) = self.partials.groups.get_mut(&key) else { return false };
        parts.iter().for_each(|(part, _)| group.checking.remove(*part));
        if acceptance != Acceptance::Accept {
            self.metrics.ignore(Ignored::PartialRejected, parts.len().max(1) as u64);
            let view = group.view(from);
            view.failed = true;
            if acceptance == Acceptance::Reject {
                self.scores.reject_malformed(from, key.0);
            }
            self.act(&key, cx);
            return true;
        }
        if let Ok(Some(len)) = config.format.len_of(header.as_ref()) {
            group.set_len(len);
        }
        let mut new = Bits::new(group.len);
        for (part, data) in parts {
            if group.add(part, data) {
                new.insert(part);
            }
        }
        self.metrics.parts_accepted += u64::from(new.count());
        if !new.is_empty() {
            let view = group.view(from);
            // Once for each group: parts that come one by one earn no more than all at once.
            if !std::mem::replace(&mut view.credited, true) {
                self.scores.credit_parts(from, key.0);
            }
            if config.exchange.relay_copies > 0 && view.is_publisher() && config.format.has_requests() {
                self.ask(&key, cx);
                self.send_metadata(&key, true, cx);
                self.push(&key, &new, config.exchange.relay_copies, Some(from), cx);
            }
        }
        self.act(&key, cx);
        true
    }
}
