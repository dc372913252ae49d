//! The parameters of group broadcast as a configuration file states them: a preset and what differs from it.

use samara_engine::PeerIdentity;
use samara_engine::shape::{ShapeSetting, Workload};
use samara_engine::units::{Size, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, Preset, ShapeChoice, Slow};
use crate::FederationConfig;

/// The parameters of group broadcast: a preset and what differs from it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The values that are not given below.
    pub preset: Preset,
    /// How messages travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeSetting>,
    /// Each region of the network is a site with a group of its own, and the first members of these groups are one, too: a federation.
    pub federated: bool,
    /// How messages travel between sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge_shape: Option<ShapeSetting>,
    /// So long after its leader is gone, others keep messages for a site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_after: Option<Span>,
    /// Longer messages travel in chunks of this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Size>,
    /// Units are put together in frames of about this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Size>,
    /// The most that is on the way to one successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_window: Option<Size>,
    /// The least of its own that a member may have on the way to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_min: Option<Size>,
    /// The most of its own that a member may have on the way to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_max: Option<Size>,
    /// What all members together may have on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The most that waits to be broadcast: beyond, the application has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_queue: Option<Size>,
    /// How long acknowledgements wait for a frame to travel with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_delay: Option<Span>,
    /// How often a member tells everybody that it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    /// The least silence after which a member is suspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_after: Option<Span>,
    /// A member that takes nothing for so long while others do is removed; the group waits for it, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_slow_after: Option<Span>,
}

impl Parameters {
    /// Returns true if anything but a preset is given.
    pub fn is_changed(&self) -> bool {
        *self != Self { preset: self.preset, ..Self::default() }
    }

    /// The configuration of a member in a group with this workload, without seeds; `None` for the plain daisy chain. Of the
    /// workload, the size of chunks is the configuration's.
    pub fn build(&self, workload: Workload) -> Option<Config> {
        let mut config = self.preset.config()?;
        let bytes = |size: Option<Size>| size.map(Size::bytes);
        let length = |size: Option<Size>| size.map(|size| size.bytes() as usize);
        set(&mut config.chunk_bytes, length(self.chunk));
        set(&mut config.batch_bytes, length(self.batch));
        set(&mut config.hop_window_bytes, bytes(self.hop_window));
        set(&mut config.window.min_bytes, bytes(self.window_min));
        set(&mut config.window.max_bytes, bytes(self.window_max));
        set(&mut config.memory_bytes, bytes(self.memory));
        set(&mut config.own_queue_bytes, length(self.own_queue));
        set(&mut config.ack_delay, self.ack_delay.map(Span::duration));
        set(&mut config.detection.heartbeat, self.heartbeat.map(Span::duration));
        set(&mut config.detection.timeout_min, self.suspect_after.map(Span::duration));
        set(&mut config.slow, self.remove_slow_after.map(|span| Slow::Remove { after: span.duration() }));
        config.members_max = config.members_max.max(workload.members);
        set(&mut config.shape, self.shape.map(|shape| choice(shape, workload, config.chunk_bytes)));
        Some(config)
    }

    /// The configuration of a member of a federation. `local` is that of the ring of its site, with seeds. The other `sites` come with
    /// the nodes that a leader asks who leads there. Of the workload of leaders, members and the size of chunks follow from the rest.
    pub fn federate(
        &self,
        site: u16,
        sites: Vec<(u16, Vec<PeerIdentity>)>,
        local: Config,
        workload: Workload,
    ) -> FederationConfig {
        let mut config = FederationConfig { local, ..FederationConfig::new(site, sites) };
        set(&mut config.absent_after, self.absent_after.map(Span::duration));
        let members = config.sites.len() + 1;
        let workload = Workload { members, senders: members.min(workload.senders), ..workload };
        let bridge = &mut config.bridge;
        set(&mut bridge.shape, self.bridge_shape.map(|shape| choice(shape, workload, bridge.chunk_bytes)));
        config
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

fn choice(shape: ShapeSetting, workload: Workload, chunk_bytes: usize) -> ShapeChoice {
    let workload = Workload { chunk_bytes: chunk_bytes as u64, ..workload };
    shape.fixed().map_or(ShapeChoice::ByFormula(workload), ShapeChoice::Fixed)
}
