//! `[pool]`: the transaction pool.

use std::net::SocketAddr;
use std::time::Duration;

use samara_cat::config::{Parameters, key_of};
use samara_cat::pool::{Admission, CheckKind, Verdict};
use samara_cat::{Cat, Transaction};
use samara_engine::{FlushSpec, PeerIdentity};
use samara_net::mconn::{self, Flush, PeerAddress};
use serde::{Deserialize, Serialize};

use super::check::{Wrong, check};
use super::{Network, Transport};

samara_engine::ranges! {
    /// The transaction pool, on the connections of CometBFT.
    #[derive(Clone, Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    pub struct Pool {
        /// The network (chain) of all peers.
        pub network: String,
        /// Address to listen on, such as `0.0.0.0:26656`. Without it, the pool does not listen.
        pub listen: Option<SocketAddr>,
        /// Peers to stay connected to, as `id@host:port`.
        #[serde(default)]
        pub peers: Vec<String>,
        #[serde(default = "default_moniker")]
        pub moniker: String,
        /// Time that packets wait for more, or "when-idle": as soon as there is nothing more to write.
        #[serde(default = "default_flush")]
        pub flush: FlushSpec,
        #[serde(default = "default_inbound")]
        #[range(1..)]
        pub inbound_max: u32,
        /// Maximum number of inbound peers of one IP address.
        #[serde(default = "default_inbound_per_ip")]
        #[range(1..)]
        pub inbound_per_address_max: u32,
        /// The keys of a scenario's `[protocol]`.
        #[serde(default)]
        pub protocol: Parameters,
    }
}

fn default_moniker() -> String {
    "samara".to_owned()
}

fn default_flush() -> FlushSpec {
    FlushSpec::WhenIdle
}

fn default_inbound() -> u32 {
    40
}

fn default_inbound_per_ip() -> u32 {
    16
}

#[derive(Clone, Debug)]
pub struct CheckedPool {
    pub engine: samara_cat::Config,
    pub options: mconn::Options,
}

impl Pool {
    pub(super) fn checked(&self, network: &Network, transport: &Transport) -> Result<CheckedPool, Wrong> {
        let is_text = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        for (key, text) in [("network", &self.network), ("moniker", &self.moniker)] {
            check(is_text(text) && !text.trim().is_empty(), format!("pool.{key}"), || {
                format!("found {text:?}; expected a non-empty name in printable ASCII")
            })?;
        }
        let flush = match self.flush {
            FlushSpec::Throttle(span) => Flush::Throttle(span.duration()),
            FlushSpec::WhenIdle => Flush::WhenIdle,
        };
        check(flush != Flush::Throttle(Duration::ZERO), "pool.flush", || {
            "found 0 s; expected a time, or \"when-idle\"".to_owned()
        })?;
        let peers = self.peers.iter().enumerate();
        let peers = peers.map(|(at, text)| {
            text.parse::<PeerAddress>().map_err(|error| (format!("pool.peers.{at}"), error.to_string()))
        });
        let peers = peers.collect::<Result<Vec<_>, _>>()?;
        let options = mconn::Options {
            moniker: self.moniker.clone(),
            listen: self.listen,
            flush,
            in_flight_bytes: transport.in_flight.bytes() as usize,
            redial_first: network.redial_first.duration(),
            redial_max: network.redial_max.duration(),
            max_inbound: self.inbound_max as usize,
            max_inbound_per_ip: self.inbound_per_address_max as usize,
            max_pending: network.pending_max as usize,
            peers,
            ..mconn::Options::new(&self.network)
        };
        Ok(CheckedPool { engine: self.engine(&options.peers)?, options })
    }

    fn engine(&self, peers: &[PeerAddress]) -> Result<samara_cat::Config, Wrong> {
        check(self.protocol.compact_blocks != Some(true), "pool.protocol.compact_blocks", || {
            "found true, but blocks come from a proposer, which exists in simulations only; expected false"
                .to_owned()
        })?;
        let mut engine = self.protocol.build(Duration::ZERO);
        engine.persistent = peers.iter().map(|peer| peer.id.identity()).collect();
        let application = |_: &Transaction, _: CheckKind| Verdict::Accept(Admission::default());
        let made = Cat::new(engine.clone(), &PeerIdentity::new(b"checked"), application);
        made.map_err(|error| {
            let key = key_of(&error.field).unwrap_or_else(|| error.field.to_string());
            (format!("pool.protocol.{key}"), format!("found {}; expected {}", error.found, error.expected))
        })?;
        Ok(engine)
    }
}
