//! The parameters of group broadcast in a configuration file: a preset and overrides.

use samara_engine::PeerIdentity;
use samara_engine::shape::{ShapeSetting, Workload};
use samara_engine::units::{Size, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, Preset, ShapeChoice, Slow};
use crate::FederationConfig;
use crate::jgroups::{JgroupsConfig, Requests};

/// The parameters of group broadcast: a preset and overrides.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The preset, which supplies all values that are not set here.
    pub preset: Preset,
    /// The shape along which messages travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeSetting>,
    /// Makes each region of the network a site with its own group. The first member of each group
    /// is its leader, and the leaders form another group: a federation.
    pub federated: bool,
    /// The shape along which messages travel between sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge_shape: Option<ShapeSetting>,
    /// Time for which the others keep messages for a site after its leader is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_after: Option<Span>,
    /// Longer messages travel in chunks of this size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Size>,
    /// Approximate size of a frame, which packs several units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Size>,
    /// Maximum number of bytes in flight to one successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_window: Option<Size>,
    /// Lower bound of the window of a member's own messages in flight to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_min: Option<Size>,
    /// Upper bound of the window of a member's own messages in flight to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_max: Option<Size>,
    /// Maximum number of bytes that all members together may have in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Maximum number of bytes that wait to be broadcast. Beyond it, the application has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_queue: Option<Size>,
    /// Maximum time that acknowledgements wait for a data frame to carry them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_delay: Option<Span>,
    /// Interval at which a member sends a heartbeat to every connected node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    /// Minimum silence after which a member is suspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_after: Option<Span>,
    /// Removes a member that takes nothing for this long while others do. If absent, the group
    /// waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_slow_after: Option<Span>,
    /// Presets of JGroups: the member that a request for missing messages goes to. Default:
    /// "origin".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

impl Parameters {
    /// Returns true if anything except the preset is set.
    pub fn is_changed(&self) -> bool {
        *self != Self { preset: self.preset, ..Self::default() }
    }

    /// Returns the configuration of a member in a group with this workload, without seeds, or
    /// `None` for the plain daisy chain and the presets of JGroups. The configuration's chunk size replaces the workload's.
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

    /// Returns the configuration of a member with these members, for the presets of JGroups.
    pub fn jgroups(&self, members: Vec<PeerIdentity>) -> Option<JgroupsConfig> {
        let path = self.preset.path()?;
        Some(JgroupsConfig { members, path, requests: self.requests.unwrap_or_default() })
    }

    /// Returns the configuration of a member of a federation. `local` is the configuration of its
    /// site's ring, with seeds. `sites` lists the other sites with the nodes that a leader asks for
    /// their leader. The number of members and the chunk size of the bridge's workload are derived.
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
