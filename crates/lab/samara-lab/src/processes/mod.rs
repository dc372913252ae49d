//! A world of real processes: each host of an experiment is a program of its own, and one more
//! program, the coordinator, plans the run and observes it.
//!
//! A host reads [`Order`]s from its standard input and writes what it [`Report`] to its standard
//! output, each as one line of JSON. Commands, events and counters are those of the experiment's
//! application, as serde writes them. Times are nanoseconds since the start of the run, which the
//! coordinator announces. `docs/guides/implementations.md` describes all of it for programs of others.
//!
//! ```json
//! {"listen":{"host":1,"address":"127.77.0.2:4001","peers":["127.77.0.1:4001","127.77.0.2:4001"],"token":"6f…","restart":false}}
//! {"begin":{"at_unix_ns":1760000000000000000}}
//! {"command":{"at_ns":1000000000,"command":3}}
//! {"sync":1}
//! ```
//!
//! ```json
//! {"ready":{"host":1}}
//! {"event":{"at_ns":1000031000,"event":{"number":3,"is_new":true}}}
//! {"synced":1}
//! ```

#[cfg(feature = "hosted")]
mod host;
mod limits;
mod script;
mod world;

use std::net::SocketAddr;

use samara_engine::Time;
use samara_sim::{GateStats, HostStats};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::RunError;

#[cfg(feature = "hosted")]
pub use host::{Input, host};
pub use limits::{check, check_foreign, ignored};
pub use samara_hosts::{Looked, Transport};
pub(crate) use script::script;
pub use script::{Script, ScriptOf};
pub(crate) use world::{check_briefing, run_in_processes};

/// A line of the coordinator to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order<C> {
    /// The first order: listen, and say so.
    Listen(Listen),
    /// The second order: begin at this time.
    Begin { at_unix_ns: u64 },
    /// Give this command to the application at this time, or at once if it has passed.
    Command { at_ns: u64, command: C },
    /// Read no further order before this time.
    Wait { at_ns: u64 },
    /// Answer with the same number after all reports of earlier events.
    Sync(u64),
    /// Answer with a snapshot of the counters.
    Look,
    /// Lose the link to a host, and dial it again.
    Reconnect { host: u32 },
    /// Send what the links have, report the last counters, and end.
    Stop,
}

/// Where a host is in the network of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The number of the host.
    pub host: u32,
    pub address: SocketAddr,
    /// The address at which this host dials each host.
    pub peers: Vec<SocketAddr>,
    /// A secret of the run in hexadecimal: 16 bytes that each host shows to the others.
    pub token: String,
    /// Whether an earlier process of the host has ended: this one dials all its neighbours at once.
    pub restart: bool,
    /// The brief of a program of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
}

/// The facts of a run that a host of Samara's plans itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brief {
    pub transport: Transport,
    /// The hosts to dial.
    pub dials: Vec<Dial>,
    /// The experiment's part ([`Experiment::brief`](crate::experiment::Experiment::brief)).
    pub application: Value,
}

/// A host to dial, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dial {
    pub at_ns: u64,
    pub host: u32,
}

/// A line of a host to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Report<E, C> {
    /// The host listens.
    Ready {
        host: u32,
    },
    /// The application emitted an event.
    Event {
        at_ns: u64,
        event: E,
    },
    /// A frame with items that `samara explain` follows, or with requests for them, has left or arrived.
    Frame(Moved),
    /// All events before an order to [`Sync`](Order::Sync) were reported.
    Synced(u64),
    Looked(Box<Looked<C>>),
}

/// A frame that a host has sent or received. Without such lines, `samara explain` knows deliveries and
/// their senders only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    pub at_ns: u64,
    /// The host at the other end.
    pub peer: u32,
    pub is_sent: bool,
    /// The items in the frame, by the experiment's numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<u64>,
    /// The names by which requests ask for the items, if they do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<u64>,
    /// The names of items that the frame asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<u64>,
}

/// The processes of all hosts, and the network between them.
pub trait Fleet {
    /// Returns true if the host is a program of others, which needs a briefing.
    fn is_foreign(&self, host: u32) -> bool;

    /// Starts the processes of all hosts, with the briefings of programs of others. The run begins once
    /// all of them listen.
    ///
    /// # Errors
    /// A process does not start, or does not listen in time.
    fn begin(&mut self, briefs: Vec<Option<Brief>>) -> Result<(), RunError>;

    /// Receives the numbers of processors to [`confine`](Self::confine) hosts to, before they begin.
    ///
    /// # Errors
    /// The system cannot limit processes.
    fn limit(&mut self, processors: Vec<Option<f64>>) -> Result<(), RunError>;

    /// Limits the processes of hosts from now on, those that start again included.
    ///
    /// # Errors
    /// The system cannot limit them.
    fn confine(&mut self) -> Result<(), RunError>;

    /// Returns the processor time of the processes of each host so far, in nanoseconds; `None` if nobody
    /// counts it.
    ///
    /// # Errors
    /// The system does not tell.
    fn processors(&mut self) -> Result<Option<Vec<u64>>, RunError>;

    /// Returns the time since the start of the run.
    fn now(&self) -> Time;

    /// Passes a line to a host that runs.
    ///
    /// # Errors
    /// The process has ended.
    fn order(&mut self, host: u32, line: &str) -> Result<(), RunError>;

    /// Waits for the next line of a host; `None` if there is none until this time.
    ///
    /// # Errors
    /// A process has ended, or the run is interrupted.
    fn heard(&mut self, until: Time) -> Result<Option<(u32, String)>, RunError>;

    /// Kills the process of a host. If it is to [`start`](Self::start) again, its next process may
    /// get ready before.
    ///
    /// # Errors
    /// The next process does not start.
    fn kill(&mut self, host: u32, is_to_start: bool) -> Result<(), RunError>;

    /// Stops the process of a host in its tracks: its peers hear nothing.
    ///
    /// # Errors
    /// The process has ended.
    fn freeze(&mut self, host: u32) -> Result<(), RunError>;

    /// Starts another process for a host that was killed or frozen.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    fn start(&mut self, host: u32, brief: Option<Brief>) -> Result<(), RunError>;

    /// Cuts ways of the network, each from one host to another, or ends a cut of each.
    ///
    /// # Errors
    /// The network has failed, or cannot be cut.
    fn cut(&mut self, ways: &[(u32, u32)], is_cut: bool) -> Result<(), RunError>;

    /// Changes the rates of a host in bits per second, up and down.
    ///
    /// # Errors
    /// The network has failed, or has no rates.
    fn set_rates(&mut self, host: u32, rates: [u64; 2]) -> Result<(), RunError>;

    /// Returns what the network between the hosts counted for each since the start; `None` if it
    /// counts nothing.
    ///
    /// # Errors
    /// The network has failed.
    fn packets(&mut self) -> Result<Option<Vec<HostStats>>, RunError>;

    /// Returns the traffic of the gateway of each region since the start, outbound and inbound; empty
    /// without gateways.
    ///
    /// # Errors
    /// The network has failed.
    fn gateways(&mut self) -> Result<Vec<[GateStats; 2]>, RunError> {
        Ok(Vec::new())
    }

    /// Returns true if somebody watches the counters of hosts during the run.
    fn is_watched(&self) -> bool {
        false
    }

    /// Receives the traffic of a host since its process started, and the copies that it owes.
    fn looked(&mut self, _host: u32, _traffic: &HostStats, _owed: u64) {}

    /// Returns the error for a host that answered wrongly or not at all.
    fn failed(&mut self, host: u32, why: &str) -> RunError;
}

/// Encodes an order.
pub fn line(order: &impl Serialize) -> Result<String, RunError> {
    serde_json::to_string(order).map_err(|error| RunError::Failed(format!("an order: {error}")))
}
