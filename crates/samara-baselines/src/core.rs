//! What every engine of this crate does alike: numbering messages, owing copies, counting losses.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{Lane, Lost, Owe};
use samara_engine::{Frame, MessageKey, PeerId, PeerIdentity, PeerKeyed};

use crate::app::{Cx, Event, Receipt, RequestError};
use crate::common::{Common, Lanes};
use crate::message::{Message, Topic};
use crate::metrics::{Ignored, Metrics};
use crate::seen::SeenCache;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) common: Common,
    pub(crate) identity: PeerIdentity,
    pub(crate) lanes: Lanes,
    pub(crate) seen: SeenCache,
    pub(crate) metrics: Metrics,
    next_seqno: u64,
    lost: Vec<Lost>,
}

impl Core {
    pub(crate) fn new(common: &Common, identity: PeerIdentity) -> Self {
        Self {
            lanes: common.sending.lanes(),
            seen: SeenCache::new(common.seen_ttl, common.seen_capacity, PeerKeyed::unset()),
            common: common.clone(),
            identity,
            metrics: Metrics::default(),
            next_seqno: 0,
            lost: Vec::new(),
        }
    }

    pub(crate) fn start<F: Frame>(&mut self, cx: &mut Cx<'_, F>) {
        let hasher = cx.rng().table_hasher();
        self.seen = SeenCache::new(self.common.seen_ttl, self.common.seen_capacity, hasher);
        // A node that starts again must not use numbers of its former life; half of the range is left to count in.
        self.next_seqno = cx.rng().next_u64() >> 1;
    }

    /// Whether a frame from this peer is looked at.
    pub(crate) fn lets_in<F: Frame>(&mut self, has_link: bool, frame: &F) -> bool {
        self.metrics.frames_received += 1;
        if !has_link {
            self.metrics.ignore(Ignored::FrameUnknownPeer, 1);
            return false;
        }
        if frame.encoded_len() > self.common.max_frame_bytes {
            self.metrics.ignore(Ignored::FrameTooLong, 1);
            return false;
        }
        true
    }

    pub(crate) fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message> {
        let seqno = self.next_seqno;
        self.next_seqno = self.next_seqno.wrapping_add(1);
        Arc::new(Message::new(self.identity.clone(), seqno, topic.clone(), data))
    }

    /// Takes an own message as seen. `frame_len` is what its frame takes.
    pub(crate) fn take_own<F: Frame>(
        &mut self,
        message: &Message,
        frame_len: usize,
        cx: &Cx<'_, F>,
    ) -> Result<MessageKey, RequestError> {
        let allowed = self.common.max_frame_bytes;
        if frame_len > allowed {
            return Err(RequestError::TooLong { topic: message.topic().clone(), found: frame_len, allowed });
        }
        if self.seen.get(cx.now(), message.id()).is_some() {
            return Err(RequestError::Duplicate(message.id()));
        }
        self.metrics.messages_published += 1;
        Ok(self.seen.insert(cx.now(), message.id()))
    }

    /// Owes copies of an own message.
    pub(crate) fn owe_own<F: Frame>(
        &mut self,
        message: &Message,
        key: MessageKey,
        frame: F,
        peers: Vec<PeerId>,
        cx: &mut Cx<'_, F>,
    ) -> Receipt {
        let wanted = peers.len();
        self.metrics.copies_published += wanted as u64;
        let copies = self.owe_copies(key, frame, peers, true, cx);
        Receipt { id: message.id(), key, copies, lost: wanted - copies }
    }

    /// Owes copies of a message of somebody else.
    pub(crate) fn owe_forwarded<F: Frame>(
        &mut self,
        key: MessageKey,
        frame: F,
        peers: Vec<PeerId>,
        cx: &mut Cx<'_, F>,
    ) {
        self.metrics.copies_forwarded += peers.len() as u64;
        self.owe_copies(key, frame, peers, false, cx);
    }

    fn owe_copies<F: Frame>(
        &mut self,
        key: MessageKey,
        frame: F,
        peers: Vec<PeerId>,
        own: bool,
        cx: &mut Cx<'_, F>,
    ) -> usize {
        if peers.is_empty() {
            return 0;
        }
        let now = cx.now();
        let (lane, schedule) = if own {
            (self.lanes.own, &self.common.schedule_own)
        } else {
            (self.lanes.forwarded, &self.common.schedule_forwarded)
        };
        let owe = Owe { message: key, frame, peers, deadline: None };
        let (outbox, rng) = cx.outbox_and_rng();
        let taken = outbox.owe_batch(now, lane, [owe], schedule, rng, &mut self.lost);
        self.note_lost(cx);
        taken
    }

    /// Owes one frame. Whether it was taken.
    pub(crate) fn owe<F: Frame>(
        &mut self,
        peer: PeerId,
        lane: Lane,
        frame: F,
        message: Option<MessageKey>,
        cx: &mut Cx<'_, F>,
    ) -> bool {
        let now = cx.now();
        let taken = cx.outbox().owe_into(now, peer, lane, frame, message, None, &mut self.lost);
        self.note_lost(cx);
        taken
    }

    fn note_lost<F: Frame>(&mut self, cx: &mut Cx<'_, F>) {
        for lost in self.lost.drain(..) {
            self.metrics.lose(lost.cause);
            cx.emit(Event::Lost(lost));
        }
    }

    /// Takes note of a copy of a known message.
    pub(crate) fn duplicate<F: Frame>(&mut self, from: PeerId, key: MessageKey, cx: &mut Cx<'_, F>) {
        self.metrics.duplicates_received += 1;
        self.peer_has(from, key, cx);
        if self.common.report_duplicates {
            cx.emit(Event::Duplicate { key, from });
        }
    }

    /// Takes note that a peer has a message: whatever it is owed of it is useless.
    pub(crate) fn peer_has<F: Frame>(&mut self, peer: PeerId, key: MessageKey, cx: &mut Cx<'_, F>) {
        let now = cx.now();
        let outbox = cx.outbox();
        outbox.note_has(now, peer, key);
        if self.common.withdraw {
            self.metrics.copies_withdrawn += outbox.withdraw(peer, key) as u64;
        }
    }

    /// Tells the application of an own message.
    pub(crate) fn deliver_own<F: Frame>(
        &self,
        key: MessageKey,
        message: Arc<Message>,
        hops: Option<u32>,
        cx: &mut Cx<'_, F>,
    ) {
        if self.common.deliver_own {
            cx.emit(Event::Message { key, message, from: None, hops });
        }
    }
}
