//! The engines of members: the ring of a group, and a member of a federation of groups.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::OutboxConfig;
use samara_engine::{Context, Engine, PeerId};
use samara_ring::{
    BroadcastError, Command, Event, Federation, FederationEvent, FederationMetrics, Metrics, Ring, RingFrame,
    View,
};

use super::framed::identity_of;
use super::options::Options;
use super::site::Site;
use crate::status::{OptionError, check};

/// What the task of a member needs of its engine.
pub(super) trait GroupEngine: Engine<Frame = RingFrame, Command = Command, Event: Send> {
    fn create(options: &Options, own: SocketAddr) -> Result<(Self, OutboxConfig), OptionError>
    where
        Self: Sized;

    /// Returns the maximum length of a message.
    fn message_bytes_max(&self, options: &Options) -> usize;

    fn broadcast(
        &mut self,
        message: Bytes,
        cx: &mut Context<'_, RingFrame, Self::Event>,
    ) -> Result<(), BroadcastError>;

    /// Returns the ring of the member's group or site.
    fn ring(&self) -> &Ring;

    fn kept_bytes(&self) -> u64;

    fn federation(&self) -> Option<FederationStatus>;

    /// Forgets a peer without a link. Returns false if the engine still needs it.
    fn forget(&mut self, peer: PeerId) -> bool;

    fn about(event: &Self::Event) -> About<'_>;
}

/// What the task of a member does with an event of its engine.
pub(super) enum About<'a> {
    /// Pass on a message of this length.
    Delivered(usize),
    View(&'a Arc<View>),
    /// Hand in the message that the engine refused.
    Room,
    /// Nothing: the engine gives the answer to the caller, too.
    Refused,
    Left,
    /// Pass it on.
    Other,
}

/// The state of a member of a federation, besides that of its site's ring.
#[derive(Clone, Debug)]
pub struct FederationStatus {
    pub metrics: FederationMetrics,
    /// The number of leaders that are connected, this member included, and the counters of their
    /// ring. `None` if this member does not lead its site.
    pub bridge: Option<(usize, Metrics)>,
}

impl GroupEngine for Ring {
    fn create(options: &Options, own: SocketAddr) -> Result<(Self, OutboxConfig), OptionError> {
        let found = options.site.as_ref().map(Site::name);
        check(found.is_none(), "site", found, "none in a plain group: use `join_site`, or remove it")?;
        let config = Arc::new(options.engine_config());
        let outbox = config.outbox();
        Ok((Self::new(config, identity_of(own))?, outbox))
    }

    fn message_bytes_max(&self, options: &Options) -> usize {
        options.config.message_bytes_max
    }

    fn broadcast(
        &mut self,
        message: Bytes,
        cx: &mut Context<'_, RingFrame, Event>,
    ) -> Result<(), BroadcastError> {
        Self::broadcast(self, message, cx)
    }

    fn ring(&self) -> &Ring {
        self
    }

    fn kept_bytes(&self) -> u64 {
        Self::kept_bytes(self)
    }

    fn federation(&self) -> Option<FederationStatus> {
        None
    }

    fn forget(&mut self, peer: PeerId) -> bool {
        self.forget_peer(peer)
    }

    fn about(event: &Event) -> About<'_> {
        match event {
            Event::Delivered { payload, .. } => About::Delivered(payload.len()),
            Event::View(view) => About::View(view),
            Event::Room => About::Room,
            Event::Refused(_) => About::Refused,
            Event::Left => About::Left,
            Event::Suspected { .. } | Event::Slow { .. } => About::Other,
        }
    }
}

impl GroupEngine for Federation {
    fn create(options: &Options, own: SocketAddr) -> Result<(Self, OutboxConfig), OptionError> {
        let config = Arc::new(options.federation_config()?);
        let outbox = config.outbox();
        Ok((Self::new(config, identity_of(own))?, outbox))
    }

    fn message_bytes_max(&self, _: &Options) -> usize {
        self.content_max()
    }

    fn broadcast(
        &mut self,
        message: Bytes,
        cx: &mut Context<'_, RingFrame, FederationEvent>,
    ) -> Result<(), BroadcastError> {
        Self::broadcast(self, message, cx)
    }

    fn ring(&self) -> &Ring {
        self.local()
    }

    fn kept_bytes(&self) -> u64 {
        Self::kept_bytes(self)
    }

    fn federation(&self) -> Option<FederationStatus> {
        let of = |ring: &Ring| (ring.view().map_or(0, |view| view.len()), ring.metrics().clone());
        Some(FederationStatus { metrics: self.metrics().clone(), bridge: self.bridge().map(of) })
    }

    fn forget(&mut self, peer: PeerId) -> bool {
        self.forget_peer(peer)
    }

    fn about(event: &FederationEvent) -> About<'_> {
        match event {
            FederationEvent::Delivered { content, .. } => About::Delivered(content.len()),
            FederationEvent::View(view) => About::View(view),
            FederationEvent::Room => About::Room,
            FederationEvent::Refused(_) => About::Refused,
            FederationEvent::Left => About::Left,
            FederationEvent::Leaders(_)
            | FederationEvent::Suspected { .. }
            | FederationEvent::Slow { .. }
            | FederationEvent::Absent { .. } => About::Other,
        }
    }
}
