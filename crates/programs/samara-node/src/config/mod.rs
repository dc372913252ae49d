//! The configuration file `node.toml`.
//!
//! Quantities have units, as in scenario files. `[protocol]`, `[pool.protocol]`, `[group.protocol]` and
//! `[mix.protocol]` have the keys of a scenario's `[protocol]`.

mod check;
mod group;
mod mix;
mod pool;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use samara_document::keys::{get, remove};
use samara_document::{self as document, Problem, file};
use samara_engine::settings::above;
use samara_engine::units::{Size, Span};
use samara_gossipsub::config::Parameters;
use samara_trace::TraceOptions;
use serde::{Deserialize, Serialize};

pub use check::Checked;
pub(crate) use check::{address, check_schedule, check_topic, ip_of, without_custom};
pub use group::{CheckedGroup, Group, Protected};
pub use mix::{CheckedMix, Mix, MixPool, Peer, Role, Senders};
pub use pool::{CheckedPool, Pool};
pub use samara_trace::{Format as TraceFormat, WhenFull};

samara_engine::ranges! {
    #[derive(Clone, Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    pub struct NodeConfig {
        /// Topics to join at the start.
        #[serde(default)]
        pub topics: Vec<String>,
        pub identity: Identity,
        #[serde(default)]
        #[range(..)]
        pub network: Network,
        #[serde(default)]
        #[range(..)]
        pub transport: Transport,
        /// The parameters of GossipSub: the keys of a scenario's `[protocol]`.
        #[serde(default)]
        pub protocol: Parameters,
        #[serde(default)]
        pub format: Format,
        /// The transaction pool. Without this section there is none.
        #[range(..)]
        pub pool: Option<Pool>,
        /// The member of a group. Without this section there is none.
        #[range(..)]
        pub group: Option<Group>,
        /// The node of a mix pool, or its scheduler. Without this section there is none.
        pub mix: Option<Mix>,
        /// The control API. Without this section there is none.
        pub control: Option<Server>,
        /// A separate server for `/metrics` and `/live`, which are also part of the control API.
        pub metrics: Option<Server>,
        /// The trace. Without this section the node writes none.
        #[range(..)]
        pub trace: Option<Trace>,
        #[serde(default)]
        pub log: Log,
        #[serde(default)]
        pub stop: Stop,
    }
}

/// The identity of the node: exactly one of the keys.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// The file of the key pair, in libp2p's protobuf. If it does not exist, the node creates it,
    /// readable only for its owner.
    pub key_file: Option<PathBuf>,
    /// For tests and testbeds: an Ed25519 key whose secret is this number in little endian. It is
    /// not secret.
    pub seed: Option<u64>,
    /// Allows `seed` with addresses that other machines can reach.
    pub allow_seed: bool,
}

samara_engine::ranges! {
    #[derive(Clone, Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Network {
        /// Addresses to listen on: `/ip4/0.0.0.0/tcp/4001`, `/ip4/0.0.0.0/udp/4001/quic-v1`.
        pub listen: Vec<String>,
        /// Addresses to stay connected to, with or without `/p2p/` and a peer id.
        pub dial: Vec<String>,
        /// Peer ids of observers: trusted peers that get no messages from this node, and whose
        /// announcements the schedules with `source = "observer"` follow.
        pub observers: Vec<String>,
        /// Peer ids of the nodes that have this one as their observer: it reports each message to them.
        pub report_to: Vec<String>,
        /// Wait before the second attempt to dial. It doubles after each further attempt.
        #[range(above(Span::default()))]
        pub redial_first: Span,
        pub redial_max: Span,
        /// Time after which an unused connection is closed.
        pub idle_timeout: Span,
        /// Maximum number of connections. An eighth of them is for peers that this node dials.
        #[range(1..)]
        pub connections_max: u32,
        #[range(1..)]
        pub connections_per_peer_max: u32,
        /// Maximum number of connections that peers open from one IPv4 address, or one /64 of IPv6, with
        /// those in the handshake. Loopback has no limit.
        #[range(1..)]
        pub connections_per_address_max: u32,
        /// Maximum number of connections in their handshake, in either direction.
        #[range(1..)]
        pub pending_max: u32,
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            dial: Vec::new(),
            observers: Vec::new(),
            report_to: Vec::new(),
            redial_first: Span::from_millis(1000),
            redial_max: Span::from_millis(60_000),
            idle_timeout: Span::from_millis(60_000),
            connections_max: 256,
            // Two sides that dial each other at once have two for a moment.
            connections_per_peer_max: 2,
            connections_per_address_max: 16,
            pending_max: 64,
        }
    }
}

samara_engine::ranges! {
    #[derive(Clone, Copy, Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Transport {
        /// Bytes in flight into the stream of each link. Copies beyond that can still be withdrawn.
        #[range(Size::from_bytes(1)..=IN_FLIGHT_MAX)]
        pub in_flight: Size,
        /// With one order over all links, limit what the node has under way over all of them together.
        pub node_limit: bool,
    }
}

impl Default for Transport {
    fn default() -> Self {
        Self { in_flight: Size::from_bytes(64 << 10), node_limit: true }
    }
}

/// The format of messages. All nodes of a network must agree.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Format {
    /// Authors and signatures. The default is `anonymous` with the preset `ethereum`, otherwise
    /// `signed`.
    pub authenticity: Option<AuthenticityKind>,
    /// Computation of ids. The default is `ethereum` with the preset `ethereum`, otherwise
    /// `from-seqno`.
    pub id: Option<IdKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticityKind {
    Anonymous,
    /// Authors and numbers, no signatures.
    Unsigned,
    /// All messages are signed and checked: libp2p's default.
    Signed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdKind {
    /// Ids of Ethereum since Altair, for payloads that are not compressed.
    Ethereum,
    /// Author and number as bytes: the default of go-libp2p-pubsub.
    FromSeqno,
    /// Author in base58 and number in decimal: the default of rust-libp2p.
    FromSeqnoBase58,
    /// The first 20 bytes of SHA-256 of the payload.
    Sha256,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Address to listen on, such as `127.0.0.1:7000`. With port 0 the system chooses a port.
    pub listen: SocketAddr,
    /// Whether other machines may reach the address. The control API then needs a token.
    #[serde(default)]
    pub allow_remote: bool,
    /// The file of the token that requests need. Nobody else may be able to read it.
    pub token_file: Option<PathBuf>,
}

samara_engine::ranges! {
    #[derive(Clone, Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    pub struct Trace {
        /// The trace file, which replaces an existing one.
        pub file: PathBuf,
        #[serde(default)]
        pub format: TraceFormat,
        /// Maximum number of events that wait to be written.
        #[serde(default = "default_queue")]
        #[range(1..)]
        pub queue: usize,
        #[serde(default)]
        pub when_full: WhenFull,
        /// Maximum size of the file. Events that do not fit are dropped and counted.
        #[serde(default = "default_file_max")]
        pub file_max: Size,
    }
}

impl Trace {
    pub(crate) fn options(&self) -> TraceOptions {
        let Self { format, queue, when_full, file_max, .. } = *self;
        TraceOptions { format, queue, when_full, bytes_max: file_max.bytes() }
    }
}

fn default_queue() -> usize {
    samara_trace::QUEUE_DEFAULT
}

fn default_file_max() -> Size {
    Size::from_bytes(samara_trace::FILE_BYTES_DEFAULT)
}

/// The log on standard error.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Levels in the syntax of tracing-subscriber's `EnvFilter`: `info`, or
    /// `info,samara_node=debug`.
    pub filter: String,
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    /// Time for owed copies to leave.
    pub drain: Span,
}

impl Default for Stop {
    fn default() -> Self {
        Self { drain: Span::from_millis(5000) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The key with the fault, with dots, if there is one.
    pub key: Option<String>,
    /// The found and the expected value.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message.trim_end())
    }
}

impl std::error::Error for ConfigError {}

/// The remedy for a configuration without an identity, the only required section.
const OF_IDENTITY: &str = "; add a section [identity] with key_file = \"node.key\": the node writes a new key into \
                           that file on its first start";

/// Maximum bytes in flight on each link: frames are held in memory whole.
const IN_FLIGHT_MAX: Size = Size::from_bytes(64 << 20);
/// Maximum size of a configuration.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The kinds of protocol, which a section copied from a scenario names.
const KINDS: [(&str, &str); 4] = [
    ("protocol", "gossipsub"),
    ("pool.protocol", "cat"),
    ("group.protocol", "ring"),
    ("mix.protocol", "cmix"),
];

/// The message for a file with a section of scenarios.
fn of_scenario(path: &Path) -> String {
    let file = path.display();
    format!(
        "is a section of scenarios; expected the configuration of a node, see docs/node.toml; `samara run {file}` simulates \
         a scenario, and `samara testbed {file}` runs it on real nodes (a node has a section [identity])"
    )
}

fn read_text(path: &Path, expected: &str) -> Result<String, ConfigError> {
    file::read_named_text(path, FILE_BYTES_MAX).map_err(|error| ConfigError {
        file: path.to_owned(),
        line: None,
        key: None,
        message: format!("cannot read the file: {error}; expected {expected}"),
    })
}

impl NodeConfig {
    /// Reads and checks a file. Relative paths in it start at its directory.
    pub fn load(path: &Path) -> Result<Checked, ConfigError> {
        let text = read_text(path, "the configuration of a node, see docs/node.toml")?;
        Self::parse(&text, path)
    }

    /// Reads the pool of a file for senders and receivers: `nodes` and `group` of its section `[mix]`.
    /// The file of a node has the same section.
    pub fn load_mix_pool(path: &Path) -> Result<MixPool, ConfigError> {
        let text = read_text(path, "a pool: a section [mix] with its nodes, see docs/guides/mix.md")?;
        let wrong = |Problem { key, line, message }: Problem| ConfigError {
            file: path.to_owned(),
            line,
            key,
            message,
        };
        let mut table: toml::Table = document::parse(&text).map_err(wrong)?;
        MixPool::complete(&mut table);
        let config = Self::of_table(&text, table).map_err(wrong)?;
        let pool = config.mix.as_ref().map_or_else(
            || {
                Err((
                    "mix".to_owned(),
                    "found no such section; expected one with the nodes of a pool".to_owned(),
                ))
            },
            MixPool::of,
        );
        pool.map_err(|(key, message)| ConfigError {
            file: path.to_owned(),
            line: document::line_of(&text, &key),
            key: Some(key),
            message,
        })
    }

    /// Parses and checks a text. `path` is its origin.
    pub fn parse(text: &str, path: &Path) -> Result<Checked, ConfigError> {
        let config = Self::read(text).map_err(|mut problem: Problem| {
            match problem.key.as_deref() {
                // A text that is not TOML.
                None if problem.line.is_some() => problem.quote(text),
                None => problem.message += OF_IDENTITY,
                Some("scenario" | "columns" | "messages" | "run" | "sweep" | "fault" | "expect") => {
                    problem.message = of_scenario(path);
                }
                Some(key) if key.starts_with("protocol.schedule_") => {
                    problem.message = without_custom(&problem.message);
                }
                _ => {}
            }
            let Problem { key, line, message } = problem;
            ConfigError { file: path.to_owned(), line, key, message }
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        config.resolve(directory).check().map_err(|(key, message)| ConfigError {
            file: path.to_owned(),
            line: document::line_of(text, &key),
            key: Some(key),
            message,
        })
    }

    fn read(text: &str) -> Result<Self, Problem> {
        Self::of_table(text, document::parse(text)?)
    }

    fn of_table(text: &str, mut table: toml::Table) -> Result<Self, Problem> {
        for (section, own) in KINDS {
            let key = format!("{section}.kind");
            if let Some(kind) = get(&table, &key).filter(|kind| kind.as_str() != Some(own)) {
                let message = format!("found {kind}; expected \"{own}\", the protocol of this section");
                return Err(Problem::at(text, &key, message));
            }
            remove(&mut table, &key);
        }
        document::from_table(&table).map_err(|error| {
            let section = KINDS.into_iter().find(|(_, own)| error.stray.as_deref() == Some(own));
            let hint = section.map_or_else(String::new, |(name, _)| format!("; did you mean `{name}`?"));
            Problem::at(text, &error.key, error.message + &hint)
        })
    }

    fn resolve(mut self, directory: &Path) -> Self {
        let resolve = |path: &mut PathBuf| *path = directory.join(&*path);
        self.identity.key_file.iter_mut().for_each(resolve);
        let servers = [&mut self.control, &mut self.metrics];
        servers.into_iter().flatten().filter_map(|server| server.token_file.as_mut()).for_each(resolve);
        self.trace.iter_mut().for_each(|trace| resolve(&mut trace.file));
        if let Some(group) = &mut self.group {
            group.secret.iter_mut().chain(&mut group.identity).for_each(resolve);
        }
        if let Some(mix) = &mut self.mix {
            resolve(&mut mix.identity);
            mix.live.iter_mut().for_each(resolve);
        }
        self
    }
}
