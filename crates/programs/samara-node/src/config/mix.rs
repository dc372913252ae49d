//! `[mix]`: a node of a mix pool, or its scheduler.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use samara_engine::settings::{Form, Overlay, Section, Settings};
use samara_engine::units::{Size, Span};
use samara_engine::{Shape, section};
use samara_mix::{Config, Group, Parameters, Reconnect, ResultShape};
use samara_net::mix::{Contact, GatewayOptions, Identity, Options};
use serde::{Deserialize, Serialize};

use super::check::{Wrong, check, is_loopback};

/// A node of a mix pool, or its scheduler, over gRPC.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    pub role: Role,
    /// The file with certificate and key in PEM, as [`new_certificate`](crate::new_certificate)
    /// writes it.
    pub identity: PathBuf,
    pub listen: SocketAddr,
    /// Address to listen on for senders. Without it, the node has no gateway.
    pub gateway: Option<SocketAddr>,
    /// The nodes of the pool, in the order that is the same at every node.
    pub nodes: Vec<Peer>,
    pub scheduler: Peer,
    /// The limits of senders at the gateway.
    #[serde(default)]
    pub senders: Senders,
    /// The group of all payloads; modp-2048 by default.
    pub group: Option<Group>,
    /// Allows the group `model`, which has no secrets, on addresses that other machines can reach.
    #[serde(default)]
    pub allow_model: bool,
    pub team: Option<usize>,
    pub teams: Option<usize>,
    pub batch: Option<u32>,
    /// Total number of rounds to create; unlimited by default.
    pub rounds: Option<u64>,
    /// The number of the first round. Every start of a scheduler needs a larger number than the
    /// last round had. The default is the milliseconds since 1970.
    pub first_round: Option<u64>,
    #[serde(default)]
    pub protocol: Parameters,
    /// Threads that compute; 0 stands for the number of cores.
    #[serde(default)]
    pub threads: usize,
    /// Bytes that others may have in flight to this node, for one call and for all calls of a
    /// connection; 0 for adaptive windows.
    pub window: Option<Size>,
    /// Time that a round with a payload waits for more before dummies fill it.
    pub fill: Option<Span>,
    /// The interval of pings around teams and over links; 0 for never.
    pub ping: Option<Span>,
    /// The directory for `live/NAME.jsonl`, which dashboards read. Without it, the node writes no
    /// live file.
    pub live: Option<PathBuf>,
    pub name: Option<String>,
}

/// The limits of senders at a gateway.
pub type Senders = Overlay<SendersConfig>;

section! {
    /// The limits of senders at a gateway, and deviations from their defaults. The address of a
    /// sender is an IPv4 address, or the /64 of an IPv6 address.
    #[derive(Clone, Debug, Default)]
    pub struct SendersConfig {
        /// The options of the gateway.
        options: GatewayOptions => ..,
        /// Maximum number of senders that the node shares secrets with. Beyond it, the sender that
        /// has been unused for the longest time leaves.
        #[range(1..)]
        pub senders_max: Option<usize> => senders_max,
    }
}

impl Section for SendersConfig {}

impl SendersConfig {
    /// Returns the options of a gateway with this address.
    pub fn options(&self, listen: SocketAddr) -> GatewayOptions {
        GatewayOptions { listen, ..self.options.clone() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Node,
    Scheduler,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    pub address: SocketAddr,
    /// The address that senders and receivers dial. Nodes do not need it.
    pub gateway: Option<SocketAddr>,
}

/// A pool as its senders and receivers see it.
#[derive(Clone, Debug)]
pub struct MixPool {
    /// The nodes, each with the address of its gateway.
    pub nodes: Vec<Contact>,
    pub group: Group,
}

impl MixPool {
    /// Returns the pool of a section.
    pub(super) fn of(mix: &Mix) -> Result<Self, Wrong> {
        check(!mix.nodes.is_empty(), "mix.nodes", || "found no node; expected those of the pool".to_owned())?;
        let contact = |(at, peer): (usize, &Peer)| {
            let key = |field: &str| format!("mix.nodes.{at}.{field}");
            let gateway = peer.gateway.ok_or_else(|| {
                let what =
                    "found none; expected the address at which this node accepts senders, its own `gateway`";
                (key("gateway"), what.to_owned())
            })?;
            let fingerprint = peer.fingerprint.parse();
            let fingerprint = fingerprint.map_err(|error| (key("fingerprint"), format!("{error}")))?;
            Ok(Contact { fingerprint, address: gateway })
        };
        let nodes = mix.nodes.iter().enumerate().map(contact).collect::<Result<_, Wrong>>()?;
        Ok(Self { nodes, group: mix.group.unwrap_or(Config::default().group) })
    }

    /// Adds the keys of a single node to the file of a pool, which has none.
    pub(super) fn complete(table: &mut toml::Table) {
        let text = |text: &str| toml::Value::String(text.to_owned());
        let unused = "127.0.0.1:1";
        let identity = || toml::Table::from_iter([("seed".to_owned(), toml::Value::Integer(0))]);
        table.entry("identity").or_insert_with(|| identity().into());
        let Some(mix) = table.get_mut("mix").and_then(toml::Value::as_table_mut) else { return };
        for (key, value) in [("role", "node"), ("identity", "unused.pem"), ("listen", unused)] {
            mix.entry(key).or_insert_with(|| text(value));
        }
        let scheduler = [("fingerprint", "0".repeat(64)), ("address", unused.to_owned())];
        let scheduler = scheduler.map(|(key, value)| (key.to_owned(), toml::Value::String(value)));
        mix.entry("scheduler").or_insert_with(|| toml::Table::from_iter(scheduler).into());
    }
}

/// A valid configuration. Its certificate is read at the start.
#[derive(Clone, Debug)]
pub struct CheckedMix {
    pub(crate) written: Mix,
    pool: Vec<Contact>,
    scheduler: Contact,
    config: Config,
}

impl Mix {
    pub(super) fn checked(&self) -> Result<CheckedMix, Wrong> {
        let contact = |key: String, peer: &Peer| match peer.fingerprint.parse() {
            Ok(fingerprint) => Ok(Contact { fingerprint, address: peer.address }),
            Err(error) => Err((format!("{key}.fingerprint"), format!("{error}"))),
        };
        let pool = self.nodes.iter().enumerate();
        let pool = pool.map(|(at, peer)| contact(format!("mix.nodes.{at}"), peer));
        let pool = pool.collect::<Result<_, Wrong>>()?;
        let scheduler = contact("mix.scheduler".to_owned(), &self.scheduler)?;
        check(self.role == Role::Node || self.gateway.is_none(), "mix.gateway", || {
            "found an address at the scheduler; expected it at nodes only, as the scheduler accepts no payloads".to_owned()
        })?;
        check(self.protocol.shape.fixed().is_some(), "mix.protocol.shape", || {
            "found by-formula, which needs the rates of links; expected a shape".to_owned()
        })?;
        let is_local = [Some(self.listen), self.gateway].iter().flatten().all(is_loopback);
        let is_secret = self.group != Some(Group::Model) || self.allow_model || is_local;
        check(is_secret, "mix.group", || {
            "found model, which has no secrets, on an address that other machines can reach; expected modp-2048 or modp-4096, loopback addresses, or allow_model = true in [mix]"
                .to_owned()
        })?;
        Ok(CheckedMix { written: self.clone(), pool, scheduler, config: self.config() })
    }

    fn config(&self) -> Config {
        // `checked` has rejected the formula.
        let config = self.protocol.build(ResultShape::Fixed(Shape::Direct));
        let (teams, batch) = (self.teams.unwrap_or(config.teams), self.batch.unwrap_or(config.batch));
        let reconnect = config.reconnect;
        Config {
            group: self.group.unwrap_or(config.group),
            team: self.team.unwrap_or(config.team),
            teams,
            batch,
            rounds: self.rounds,
            first_round: self.first_round.unwrap_or(0),
            node_rounds_max: config.node_rounds_max.max(teams * config.rounds_max),
            batch_max: config.batch_max.max(batch),
            senders_max: self.senders.senders_max.unwrap_or(config.senders_max),
            senders_min: self.senders.options(self.listen).senders_min as usize,
            ping: self.ping.map_or(config.ping, |ping| (ping.nanos() > 0).then(|| ping.duration())),
            reconnect: Reconnect { max: reconnect.max.min(reconnect.limit), ..reconnect },
            ..config
        }
    }
}

impl CheckedMix {
    /// Returns the runtime's options. Reads the certificate.
    pub fn options(&self) -> Result<Options, String> {
        let Mix { role, identity: path, listen, gateway, threads, window, fill, first_round, .. } =
            &self.written;
        let senders = &self.written.senders;
        let identity =
            load(path, "mix.nodes").map_err(|error| format!("mix.identity: {}: {error}", path.display()))?;
        let mut config = self.config.clone();
        if *role == Role::Scheduler && first_round.is_none() {
            config.first_round = samara_trace::unix_ns() / 1_000_000;
        }
        let mut options = Options::new(identity, *listen, self.pool.clone(), self.scheduler);
        options.config = config;
        options.threads = *threads;
        options.allow_model = self.written.allow_model;
        options.gateway = gateway.map(|listen| senders.options(listen));
        if let (Some(gateway), Some(fill)) = (&mut options.gateway, fill) {
            gateway.fill = fill.duration();
        }
        if let Some(window) = window {
            window.put(&mut options.windows);
        }
        let is_scheduler = options.number() == Some(self.pool.len() as u32);
        if options.number().is_some() && is_scheduler != (*role == Role::Scheduler) {
            return Err("mix.role: the certificate belongs to the other role".to_owned());
        }
        options.check().map_err(|error| {
            let key = match &*error.field {
                "identity" | "gateway" | "team" | "teams" | "batch" | "ping" => error.field.to_string(),
                "senders_min" => "senders.senders_min".to_owned(),
                "pool" => "nodes".to_owned(),
                "windows" => "window".to_owned(),
                field => match GatewayOptions::key_of(field) {
                    Some(key) => format!("senders.{key}"),
                    None => format!("protocol.{}", Config::key_of(field).as_deref().unwrap_or(field)),
                },
            };
            format!("mix.{key}: found {}; expected {}", error.found, error.expected)
        })?;
        Ok(options)
    }
}

/// Reads a certificate. This never creates one: a new certificate cannot be in `list` of others.
pub(super) fn load(path: &Path, list: &str) -> Result<Identity, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Identity::from_pem(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
            "there is no such file; `samara node --new-certificate {}` writes one and prints its fingerprint for {list}",
            path.display()
        )),
        Err(error) => Err(format!("cannot read the file: {error}")),
    }
}
