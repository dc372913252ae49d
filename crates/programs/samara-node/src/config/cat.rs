//! `[cat]`: the transaction pool.

use std::net::SocketAddr;

use samara_cat::Preset;
use samara_engine::units::Span;
use samara_net::mconn::{self, Flush, PeerAddress};
use serde::{Deserialize, Serialize};

use super::Network;
use super::check::{Wrong, check};

/// The transaction pool, on the connections of CometBFT.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cat {
    #[serde(default)]
    pub preset: Preset,
    /// The network (chain) of all peers.
    pub network: String,
    /// Address to listen on, such as `0.0.0.0:26656`. Without it, the pool does not listen.
    pub listen: Option<SocketAddr>,
    /// Peers to stay connected to, as `id@host:port`.
    #[serde(default)]
    pub peers: Vec<String>,
    #[serde(default = "default_moniker")]
    pub moniker: String,
    /// Time that packets wait for more; zero sends them as soon as there is nothing more to write.
    #[serde(default)]
    pub flush_throttle: Span,
    #[serde(default = "default_inbound")]
    pub max_inbound: u32,
    /// Maximum number of inbound peers of one IP address.
    #[serde(default = "default_inbound_per_ip")]
    pub max_inbound_per_ip: u32,
}

fn default_moniker() -> String {
    "samara".to_owned()
}

fn default_inbound() -> u32 {
    40
}

fn default_inbound_per_ip() -> u32 {
    16
}

#[derive(Clone, Debug)]
pub struct CheckedCat {
    pub engine: samara_cat::Config,
    pub options: mconn::Options,
}

impl Cat {
    pub(super) fn checked(&self, network: &Network) -> Result<CheckedCat, Wrong> {
        let is_text = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        for (key, text) in [("network", &self.network), ("moniker", &self.moniker)] {
            check(is_text(text) && !text.trim().is_empty(), format!("cat.{key}"), || {
                format!("found {text:?}; expected a non-empty name in printable ASCII")
            })?;
        }
        for (key, count) in
            [("max_inbound", self.max_inbound), ("max_inbound_per_ip", self.max_inbound_per_ip)]
        {
            check(count >= 1, format!("cat.{key}"), || "found 0; expected at least 1".to_owned())?;
        }
        let peers = self.peers.iter().enumerate();
        let peers = peers.map(|(at, text)| {
            text.parse::<PeerAddress>().map_err(|error| (format!("cat.peers.{at}"), error.to_string()))
        });
        let mut engine = self.preset.config();
        let peers = peers.collect::<Result<Vec<_>, _>>()?;
        engine.persistent = peers.iter().map(|peer| peer.id.identity()).collect();
        let throttle = self.flush_throttle.duration();
        let options = mconn::Options {
            moniker: self.moniker.clone(),
            listen: self.listen,
            peers,
            flush: if throttle.is_zero() { Flush::WhenIdle } else { Flush::Throttle(throttle) },
            in_flight_bytes: network.in_flight.bytes() as usize,
            redial_first: network.redial_first.duration(),
            redial_max: network.redial_max.duration(),
            max_inbound: self.max_inbound as usize,
            max_inbound_per_ip: self.max_inbound_per_ip as usize,
            max_pending: network.max_pending as usize,
            ..mconn::Options::new(&self.network)
        };
        Ok(CheckedCat { engine, options })
    }
}
