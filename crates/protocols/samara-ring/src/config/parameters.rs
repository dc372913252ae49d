//! The section of a file with the parameters of group broadcast: a preset, and the keys that differ
//! from it.

use samara_engine::PeerIdentity;
use samara_engine::settings::{Form, Overlay, Section, Settings};
use samara_engine::shape::{ShapeSetting, Workload};
use samara_engine::units::Span;

use super::{Config, Preset, ShapeChoice, Slow};
use crate::FederationConfig;

/// The parameters of group broadcast in a file.
pub type Parameters = Overlay<FileConfig>;

samara_engine::section! {
    /// The parameters of group broadcast: a preset and overrides.
    #[derive(Clone, Debug, Default)]
    pub struct FileConfig {
        /// The preset, which supplies all values that are not set here.
        pub preset: Preset => preset,
        /// The configuration of the engine, apart from the shape.
        pub config: Config => ..,
        /// Makes each region of the network a site with its own group. The first member of each group
        /// is its leader, and the leaders form another group: a federation.
        pub federated: bool => federated,
        /// The shape along which messages travel.
        pub shape: Option<ShapeSetting> => shape,
        /// The shape along which messages travel between sites.
        pub bridge_shape: Option<ShapeSetting> => bridge_shape,
        /// Time for which the others keep messages for a site after its leader is gone.
        pub absent_after: Option<Span> => absent_after,
    }
}

impl Section for FileConfig {
    const WRITTEN: &'static [&'static str] = &["preset", "federated"];

    fn apply_preset(&mut self) {
        // The plain daisy chain has no parameters.
        self.config = self.preset.config().unwrap_or_default();
    }

    fn fill(&mut self) {
        let set = |shape: ShapeChoice| match shape {
            ShapeChoice::Fixed(shape) => ShapeSetting::from(shape),
            ShapeChoice::ByFormula(_) => ShapeSetting::ByFormula,
        };
        self.shape.get_or_insert_with(|| set(self.config.shape));
        if self.federated {
            let federation = FederationConfig::new(0, Vec::new());
            self.bridge_shape.get_or_insert_with(|| set(federation.bridge.shape));
            self.absent_after.get_or_insert_with(|| Span::of(&federation.absent_after));
        }
    }
}

impl Form<Slow> for Span {
    fn put(self, slow: &mut Slow) {
        *slow = Slow::Remove { after: self.duration() };
    }

    fn of(slow: &Slow) -> Self {
        match slow {
            Slow::Wait => Self::default(),
            Slow::Remove { after } => Self::of(after),
        }
    }

    fn states(slow: &Slow) -> bool {
        *slow != Slow::Wait
    }
}

/// Returns the key of [`Parameters`] that sets a field of [`Config`], given the name in
/// [`ConfigError`](super::ConfigError).
pub fn key_of(field: &str) -> Option<String> {
    Config::key_of(field).or(match field {
        "shape" => Some("shape".to_owned()),
        "window" => Some("window_min".to_owned()),
        "detection" => Some("heartbeat".to_owned()),
        _ => None,
    })
}

impl FileConfig {
    /// Returns the configuration of a member in a group with this workload, without seeds, or
    /// `None` for the plain daisy chain. The configuration's chunk size replaces the workload's.
    pub fn build(&self, workload: Workload) -> Option<Config> {
        self.preset.config()?;
        let mut config = self.config.clone();
        config.members_max = config.members_max.max(workload.members);
        if let Some(shape) = self.shape {
            config.shape = choice(shape, workload, config.chunk_bytes);
        }
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
        config.absent_after = self.absent_after.map_or(config.absent_after, Span::duration);
        let members = config.sites.len() + 1;
        let workload = Workload { members, senders: members.min(workload.senders), ..workload };
        let bridge = &mut config.bridge;
        if let Some(shape) = self.bridge_shape {
            bridge.shape = choice(shape, workload, bridge.chunk_bytes);
        }
        config
    }
}

fn choice(shape: ShapeSetting, workload: Workload, chunk_bytes: usize) -> ShapeChoice {
    let workload = Workload { chunk_bytes: chunk_bytes as u64, ..workload };
    shape.fixed().map_or(ShapeChoice::ByFormula(workload), ShapeChoice::Fixed)
}
