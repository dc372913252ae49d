//! `[mix]`: a node of a pool that mixes, or its scheduler.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use samara_engine::shape::ShapeSetting;
use samara_engine::units::{Size, Span};
use samara_mix::{Config, Group, Reconnect, ResultShape, Transfer};
use samara_net::mix::{Contact, GatewayOptions, Identity, Options, Windows};
use serde::{Deserialize, Serialize};

use super::check::{Wrong, check};

/// A node of a pool that mixes, or its scheduler, over gRPC.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Which of them.
    pub role: Role,
    /// The file with certificate and key in PEM, as [`new_certificate`](crate::new_certificate) writes it.
    pub identity: PathBuf,
    /// Where to listen for the others.
    pub listen: SocketAddr,
    /// Where senders come; nowhere, if it is not given.
    pub gateway: Option<SocketAddr>,
    /// The nodes of the pool, in the order in which all have them.
    pub nodes: Vec<Peer>,
    /// Who makes rounds.
    pub scheduler: Peer,
    /// The group of all payloads.
    #[serde(default = "default_group")]
    pub group: String,
    /// Rounds, as the scheduler makes them.
    #[serde(default)]
    pub rounds: Rounds,
    /// Rounds with payloads on their way at the same time, at their first node.
    #[serde(default = "default_realtime_max")]
    pub realtime_max: usize,
    /// Threads that compute; 0 stands for as many as there are cores.
    #[serde(default)]
    pub threads: usize,
    /// Bytes that others may have on their way to this one, in a call and in all calls of a connection; adaptive, if it is zero.
    #[serde(default = "default_window")]
    pub window: Size,
    /// How long a round waits for more payloads, once it has one, before void slots fill it up.
    #[serde(default = "default_fill")]
    pub fill: Span,
    /// How often pings go around teams and over links; zero for never.
    #[serde(default = "default_ping")]
    pub ping: Span,
    /// When rounds fail.
    #[serde(default)]
    pub limits: TimeLimits,
    /// The directory in which `live/NAME.jsonl` is written, for dashboards; nowhere, if it is not given.
    pub live: Option<PathBuf>,
    /// What this one is called there.
    pub name: Option<String>,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A node of the pool.
    Node,
    /// The scheduler.
    Scheduler,
}

/// Somebody else, or this one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// Where the others dial.
    pub address: SocketAddr,
}

/// Rounds, as the scheduler makes them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rounds {
    /// Nodes of a team.
    pub team: usize,
    /// Teams at the same time.
    pub teams: usize,
    /// Payloads of a round.
    pub batch: u32,
    /// How slots travel.
    pub call: Transfer,
    /// How results get from the last node to all the others.
    pub shape: ShapeSetting,
    /// Slots that are worked on, and sent, together: in the precomputation.
    pub precomputation_slots: u32,
    /// The same in real time.
    pub realtime_slots: u32,
    /// Rounds of a team that are precomputed at the same time.
    pub precomputing_max: usize,
    /// Rounds of a team that exist at the same time.
    pub rounds_max: usize,
    /// Teams are drawn anew after so many rounds.
    pub rounds_per_draw: u64,
    /// Rounds that are made in all; without end, if it is not given.
    pub count: Option<u64>,
    /// The number of the first round. Every start of a scheduler needs a larger one than the last round had: the milliseconds since 1970,
    /// if it is not given.
    pub first: Option<u64>,
}

impl Default for Rounds {
    fn default() -> Self {
        let mix = Config::default();
        Self {
            team: mix.team,
            teams: mix.teams,
            batch: mix.batch,
            call: Transfer::Streamed,
            shape: ShapeSetting::Direct,
            precomputation_slots: mix.precomputation_slots,
            realtime_slots: mix.realtime_slots,
            precomputing_max: mix.precomputing_max,
            rounds_max: mix.rounds_max,
            rounds_per_draw: mix.rounds_per_draw,
            count: None,
            first: None,
        }
    }
}

/// When rounds fail.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeLimits {
    /// A node that is not connected for so long is lost.
    pub reconnect: Span,
    /// A round fails that is not precomputed after so long.
    pub precomputation: Span,
    /// A round fails whose payloads are on their way for so long.
    pub realtime: Span,
    /// A round fails that waits for payloads for so long.
    pub queue: Span,
}

impl Default for TimeLimits {
    fn default() -> Self {
        let mix = Config::default();
        let span = |duration: std::time::Duration| Span::from_millis(duration.as_millis() as u64);
        Self {
            reconnect: span(mix.reconnect.limit),
            precomputation: span(mix.precomputation_timeout),
            realtime: span(mix.realtime_timeout),
            queue: span(mix.queue_timeout),
        }
    }
}

fn default_group() -> String {
    Group::Modp2048.name().to_owned()
}

fn default_realtime_max() -> usize {
    Config::default().realtime_max
}

fn default_window() -> Size {
    Size::from_bytes(8 << 20)
}

fn default_fill() -> Span {
    Span::from_millis(1000)
}

fn default_ping() -> Span {
    Span::from_millis(5000)
}

/// A mix's configuration that was checked, but for its certificate, which is read when it starts.
#[derive(Clone, Debug)]
pub struct CheckedMix {
    written: Mix,
    pool: Vec<Contact>,
    scheduler: Contact,
    config: Config,
}

impl Mix {
    pub(super) fn checked(&self) -> Result<CheckedMix, Wrong> {
        let contact = |key: String, peer: &Peer| {
            let fingerprint = peer.fingerprint.parse();
            let fingerprint =
                fingerprint.map_err(|error| (format!("{key}.fingerprint"), format!("{error}")))?;
            Ok(Contact { fingerprint, address: peer.address })
        };
        let pool = self.nodes.iter().enumerate();
        let pool =
            pool.map(|(at, peer)| contact(format!("mix.nodes.{at}"), peer)).collect::<Result<_, Wrong>>()?;
        let scheduler = contact("mix.scheduler".to_owned(), &self.scheduler)?;
        let is_scheduler = self.role == Role::Scheduler;
        check(!is_scheduler || self.gateway.is_none(), "mix.gateway", || {
            "found an address at the scheduler; expected it at nodes only, which take payloads".to_owned()
        })?;
        let config = self.config()?;
        Ok(CheckedMix { written: self.clone(), pool, scheduler, config })
    }

    fn config(&self) -> Result<Config, Wrong> {
        let group = Group::from_name(&self.group).ok_or_else(|| {
            let message = format!("found {:?}; expected modp-2048, modp-4096 or model", self.group);
            ("mix.group".to_owned(), message)
        })?;
        let Rounds { team, teams, batch, call, shape, count, first, .. } = self.rounds.clone();
        let default = Config::default();
        let limits = self.limits;
        let reconnect = limits.reconnect.duration();
        Ok(Config {
            group,
            team,
            teams,
            batch,
            transfer: call,
            shape: ResultShape::Fixed(shape.fixed().ok_or_else(|| {
                let message = "found by-formula, which needs the rates of links; expected a shape".to_owned();
                ("mix.rounds.shape".to_owned(), message)
            })?),
            precomputation_slots: self.rounds.precomputation_slots,
            realtime_slots: self.rounds.realtime_slots,
            precomputing_max: self.rounds.precomputing_max,
            rounds_max: self.rounds.rounds_max,
            rounds_per_draw: self.rounds.rounds_per_draw,
            rounds: count,
            first_round: first.unwrap_or(0),
            realtime_max: self.realtime_max,
            node_rounds_max: default.node_rounds_max.max(teams * self.rounds.rounds_max),
            batch_max: default.batch_max.max(batch),
            ping: (self.ping.nanos() > 0).then(|| self.ping.duration()),
            reconnect: Reconnect {
                limit: reconnect,
                max: default.reconnect.max.min(reconnect),
                ..default.reconnect
            },
            precomputation_timeout: limits.precomputation.duration(),
            realtime_timeout: limits.realtime.duration(),
            queue_timeout: limits.queue.duration(),
            ..default
        })
    }
}

impl CheckedMix {
    /// What was written.
    pub const fn written(&self) -> &Mix {
        &self.written
    }

    /// The runtime's options. Reads the certificate.
    ///
    /// # Errors
    /// A text that names the key.
    pub fn options(&self) -> Result<Options, String> {
        let Mix { role, identity: path, listen, gateway, threads, window, fill, rounds, .. } = &self.written;
        let identity = load(path).map_err(|error| format!("mix.identity: {}: {error}", path.display()))?;
        let mut config = self.config.clone();
        if *role == Role::Scheduler && rounds.first.is_none() {
            config.first_round = crate::clock::unix_ns() / 1_000_000;
        }
        let gateway =
            gateway.map(|listen| GatewayOptions { fill: fill.duration(), ..GatewayOptions::new(listen) });
        let window = u32::try_from(window.bytes()).unwrap_or(u32::MAX);
        let options = Options {
            gateway,
            threads: *threads,
            windows: match window {
                0 => Windows::Adaptive,
                bytes => Windows::Fixed { stream: bytes, connection: bytes },
            },
            ..Options::new(identity, *listen, self.pool.clone(), self.scheduler).with_config(config)
        };
        let is_scheduler = options.number() == Some(self.pool.len() as u32);
        if options.number().is_some() && is_scheduler != (*role == Role::Scheduler) {
            return Err("mix.role: the certificate is that of the other role".to_owned());
        }
        options.check().map_err(|error| {
            let key = match error.field.as_str() {
                "identity" | "gateway" | "realtime_max" => error.field.clone(),
                "pool" => "nodes".to_owned(),
                "windows" => "window".to_owned(),
                "reconnect" => "limits.reconnect".to_owned(),
                field => format!("rounds.{field}"),
            };
            format!("mix.{key}: found {}; expected {}", error.found, error.expected)
        })?;
        Ok(options)
    }
}

/// Reads a certificate. It is never made here: a new one cannot be that of a node of the pool.
fn load(path: &Path) -> Result<Identity, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Identity::from_pem(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
            "there is no such file; `samara node --new-certificate {}` writes one and prints its fingerprint for mix.nodes",
            path.display()
        )),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}
