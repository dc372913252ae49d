//! `[ring]`: a member of a group.

use std::net::SocketAddr;

use samara_engine::Shape;
use samara_engine::units::{Size, Span};
use samara_net::ring::{self, Preset};
use samara_ring::ShapeChoice;
use serde::{Deserialize, Serialize};

use super::Network;
use super::check::{Wrong, check};

/// A member of a group, over framed TCP.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// The name of the protocol's preset.
    #[serde(default = "default_preset")]
    pub preset: String,
    /// The name of the shape in which messages travel; by default that of the preset.
    pub shape: Option<String>,
    /// The name of the group. The member rejects nodes of another group.
    pub group: String,
    /// Address to listen on, such as `192.0.2.1:7800`.
    pub listen: SocketAddr,
    /// The address at which others dial this member, if it differs from `listen`.
    pub advertise: Option<SocketAddr>,
    #[serde(default)]
    pub seeds: Vec<SocketAddr>,
    /// The time within which a seed must answer; otherwise the node does not start. By default a
    /// member without a seed founds a group.
    pub require_seed: Option<Span>,
    /// Bytes of own messages that may wait to be broadcast. Beyond that, senders wait.
    #[serde(default = "default_queue")]
    pub queue: Size,
}

fn default_preset() -> String {
    Preset::Ring.name().to_owned()
}

fn default_queue() -> Size {
    Size::from_bytes(256 << 10)
}

impl Ring {
    pub(super) fn checked(&self, network: &Network) -> Result<ring::Options, Wrong> {
        let unknown = |key: &str, found: &str, names: &[&str]| {
            (key.to_owned(), format!("found {found:?}; expected one of {}", names.join(", ")))
        };
        let preset = Preset::from_name(&self.preset).and_then(Preset::config);
        let presets = [Preset::Ring, Preset::RingTotal, Preset::Direct];
        let mut config =
            preset.ok_or_else(|| unknown("ring.preset", &self.preset, &presets.map(Preset::name)))?;
        if let Some(name) = &self.shape {
            let shape = Shape::from_name(name)
                .ok_or_else(|| unknown("ring.shape", name, &Shape::ALL.map(|shape| shape.name())))?;
            config.shape = ShapeChoice::Fixed(shape);
        }
        check(!self.group.trim().is_empty(), "ring.group", || {
            "found an empty name; expected the name of a group".to_owned()
        })?;
        let options = ring::Options {
            advertise: self.advertise,
            seeds: self.seeds.clone(),
            require_seed: self.require_seed.map(|within| within.duration()),
            config,
            queue_bytes: usize::try_from(self.queue.bytes()).unwrap_or(usize::MAX),
            max_pending: network.max_pending as usize,
            ..ring::Options::new(&self.group, self.listen)
        };
        options.check().map_err(|error| {
            let key = match &*error.field {
                "queue_bytes" => "ring.queue",
                "advertise" => "ring.advertise",
                "seeds" => "ring.seeds",
                "require_seed" => "ring.require_seed",
                // The configuration can set nothing else: total order needs the ring.
                _ => "ring.shape",
            };
            (key.to_owned(), format!("found {}; expected {}", error.found, error.expected))
        })?;
        Ok(options)
    }
}
