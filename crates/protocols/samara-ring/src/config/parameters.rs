//! The parameters of group broadcast in a configuration file: a preset and overrides.

use samara_engine::shape::{ShapeSetting, Workload};
use samara_engine::units::{Size, Span};
use samara_engine::{PeerIdentity, parameters};

use super::{Config, Preset, ShapeChoice, Slow};
use crate::FederationConfig;

parameters! {
    /// The parameters of group broadcast: a preset and overrides.
    Parameters for Config {
        /// The preset, which supplies all values that are not set here.
        preset: Preset,
        /// Makes each region of the network a site with its own group. The first member of each group
        /// is its leader, and the leaders form another group: a federation.
        federated: bool,
    } and {
        /// The shape along which messages travel.
        shape: ShapeSetting;
        /// The shape along which messages travel between sites.
        bridge_shape: ShapeSetting;
        /// Time for which the others keep messages for a site after its leader is gone.
        absent_after: Span;
        /// Longer messages travel in chunks of this size.
        chunk: Size => chunk_bytes via length;
        /// Approximate size of a frame, which packs several units.
        batch: Size => batch_bytes via length;
        /// Maximum number of bytes in flight to one successor.
        hop_window: Size => hop_window_bytes via Size::bytes;
        /// Lower bound of the window of a member's own messages in flight to the group.
        window_min: Size => window.min_bytes via Size::bytes;
        /// Upper bound of the window of a member's own messages in flight to the group.
        window_max: Size => window.max_bytes via Size::bytes;
        /// Maximum number of bytes that all members together may have in flight.
        memory: Size => memory_bytes via Size::bytes;
        /// Maximum number of bytes that wait to be broadcast. Beyond it, the application has to wait.
        own_queue: Size => own_queue_bytes via length;
        /// Maximum time that acknowledgements wait for a data frame to carry them.
        ack_delay: Span => ack_delay via Span::duration;
        /// Interval at which a member sends a heartbeat to every connected node.
        heartbeat: Span => detection.heartbeat via Span::duration;
        /// Minimum silence after which a member is suspected.
        suspect_after: Span => detection.timeout_min via Span::duration;
        /// Removes a member that takes nothing for this long while others do. If absent, the group
        /// waits for it.
        remove_slow_after: Span => slow via |span| Slow::Remove { after: span.duration() };
    }
}

impl Parameters {
    /// Returns true if anything except the preset is set.
    pub fn is_changed(&self) -> bool {
        *self != Self { preset: self.preset, ..Self::default() }
    }

    /// Returns the configuration of a member in a group with this workload, without seeds, or
    /// `None` for the plain daisy chain. The configuration's chunk size replaces the workload's.
    pub fn build(&self, workload: Workload) -> Option<Config> {
        let mut config = self.preset.config()?;
        self.set(&mut config);
        config.members_max = config.members_max.max(workload.members);
        set(&mut config.shape, self.shape.map(|shape| choice(shape, workload, config.chunk_bytes)));
        Some(config)
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

fn length(size: Size) -> usize {
    size.bytes() as usize
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
