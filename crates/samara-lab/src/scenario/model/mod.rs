//! What a scenario file can say. Every key is documented here, and the documentation is the JSON Schema's.

mod about;
mod expect;
mod faults;
mod gossipsub;
mod network;
mod report;
mod runs;
mod schedule;
mod short;
mod transport;
mod workload;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use about::{About, Protocol};
pub use expect::{Comparison, Expectation, ExpectationSyntax, Expectations, Outcome, Target};
pub use faults::{Fault, FaultKind, FaultTime};
pub use gossipsub::{Dispatch, GossipSub, LaneLayout, Overflow, Preset, SeenStrategy};
pub use network::{
    DownlinkQueue, HostClass, Latency, Network, NicDiscipline, Queue, Region, RegionTable, Topology,
};
pub use report::{Figure, Report};
pub use runs::{Axis, Run};
pub use schedule::{FeedbackSource, MessageOrder, PeerOrder, Schedule};
pub use short::Short;
pub use transport::{Established, Framing, RtoFloor, SendBuffer, Transport, TransportKind, TransportPreset};
pub use workload::{Columns, Publisher, Workload};

/// A dissemination experiment: a network, what is published in it, which variants are compared, and what is expected.
///
/// Quantities are written with their units: "20 Mbit/s", "50 ms", "16 KiB", "0.1 %". Only counts are bare numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Samara scenario")]
pub struct Scenario {
    /// What this experiment is, and how often it is repeated.
    pub scenario: About,
    /// Hosts and what lies between them.
    pub network: Network,
    /// How frames travel over a link.
    #[serde(default)]
    pub transport: Transport,
    /// Parameters of GossipSub.
    #[serde(default)]
    pub gossipsub: GossipSub,
    /// What is published, when and by whom.
    pub workload: Workload,
    /// What goes wrong, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<Fault>,
    /// The variants that are compared, each the whole scenario with some keys set differently. Without any there is one
    /// run, called "default".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<Run>,
    /// Keys that are varied: every run is repeated at every combination of their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Axis>,
    /// What must hold of the results; a missed expectation makes the exit status 1. The key is a metric
    /// ("time_to_custody_ms.p95"), of all runs or of one ("batch: time_to_custody_ms.p95"). The value compares it with a
    /// quantity ("< 4 s", ">= 99.9 %", "== 0"), with another metric ("<= 1.4 * lower_bound_ms"), with the same metric of
    /// another run ("<= 0.5 * sequential") or with another metric of another run ("< sequential: dissemination_ms.max"),
    /// or says how near it must be ("within 10 % of 2283 ms"). A list of them must all hold.
    #[serde(default, skip_serializing_if = "Expectations::is_empty")]
    pub expect: Expectations,
    /// What the report shows.
    #[serde(default)]
    pub report: Report,
}
