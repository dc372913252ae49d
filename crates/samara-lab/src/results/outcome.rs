//! The outcome of a run: its entry in the summary, and the data from which its family draws tables
//! and reports.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use samara_sim::HostStats;
use samara_spec::{Loaded, Point};
use serde::Serialize;
use serde_json::Value;

use super::{RealRun, Run, Table};
use crate::family;
use crate::network::Hosts;

/// The measurements of a run while all of them are in memory.
pub trait Measured: fmt::Debug + Send {
    /// What was run, and its hosts.
    fn setting(&self) -> (&Point, &Hosts);

    /// What is kept of the measurements when all tables have been written.
    fn outcome(&self) -> Outcome;

    /// The tables of the run. What the outcome keeps is taken from it.
    ///
    /// # Panics
    /// If the outcome is that of another family.
    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>>;
}

/// What a family keeps of a run.
pub trait Data: Send + Sync + 'static {
    type Metrics: Serialize;

    fn metrics(&self) -> &Self::Metrics;

    /// Returns true if something did not reach every node that it was to reach, or came out wrong.
    fn is_incomplete(&self) -> bool;
}

/// The outcome of a run.
pub struct Outcome<D: ?Sized = dyn Any + Send + Sync> {
    /// The entry in the summary.
    pub run: Run,
    pub point: Point,
    /// As [`Data::is_incomplete`] says.
    pub is_incomplete: bool,
    data: Arc<D>,
}

impl Outcome {
    /// The outcome of a run at a point. `parameter` says how much there was to do.
    pub fn new(
        point: &Point,
        (digest, steps): (u64, u64),
        parameter: (&str, Value),
        data: impl Data,
    ) -> Self {
        let run = Run::new(point, digest, steps, parameter, value(data.metrics()));
        Self { run, point: point.clone(), is_incomplete: data.is_incomplete(), data: Arc::new(data) }
    }

    /// The same run with other data.
    pub(crate) fn with(&self, data: impl Data) -> Self {
        let run = Run { metrics: value(data.metrics()), ..self.run.clone() };
        let is_incomplete = data.is_incomplete();
        Self { run, is_incomplete, data: Arc::new(data), ..self.clone() }
    }

    /// The data, if they are of this type.
    pub fn data<D: Data>(&self) -> Option<&D> {
        self.data.downcast_ref()
    }

    /// The outcome with the type of its data, if it is this type.
    pub fn typed<D: Data>(&self) -> Option<Outcome<D>> {
        let Self { run, point, is_incomplete, data } = self.clone();
        Some(Outcome { run, point, is_incomplete, data: data.downcast().ok()? })
    }

    /// The same of a run on real nodes.
    pub fn on_real_nodes(mut self, real: RealRun) -> Self {
        self.run.real = Some(real);
        self
    }
}

impl<D: ?Sized> Clone for Outcome<D> {
    fn clone(&self) -> Self {
        let Self { run, point, is_incomplete, data } = self;
        let (run, point, is_incomplete) = (run.clone(), point.clone(), *is_incomplete);
        Self { run, point, is_incomplete, data: Arc::clone(data) }
    }
}

impl<D: ?Sized> fmt::Debug for Outcome<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.run.fmt(f)
    }
}

impl<D: ?Sized> Deref for Outcome<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.data
    }
}

/// Adds the metrics that set a run beside another one with equal parameters: the scenario's first
/// run, or the first of its series.
pub fn relate(loaded: &Loaded, outcomes: &mut [Outcome]) {
    let first = loaded.scenario.runs.first().map_or(&loaded.scenario.scenario.name, |run| &run.name);
    let all = outcomes.to_vec();
    for outcome in outcomes {
        let others: Vec<&Outcome> =
            all.iter().filter(|other| other.run.parameters == outcome.run.parameters).collect();
        if let Some(related) = (family::of(&loaded.scenario).related)(outcome, &others, first) {
            *outcome = related;
        }
    }
}

/// The metrics of a family as a value.
fn value(metrics: &impl Serialize) -> Value {
    serde_json::to_value(metrics).unwrap_or(Value::Null)
}

/// Packets lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketDrops {
    /// A downlink's queue was full.
    pub downlink_full: u64,
    /// Dropped by controlled delay.
    pub downlink_codel: u64,
    /// Lost at random in the network.
    pub random: u64,
    /// A partition separated sender and receiver.
    pub partition: u64,
    /// Their link or process was gone.
    pub stale: u64,
}

/// The quotient, or 0 if `whole` is not positive.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The sum over hosts.
pub(crate) fn packet_drops(traffic: &[HostStats]) -> PacketDrops {
    traffic.iter().fold(PacketDrops::default(), |sum, stats| PacketDrops {
        downlink_full: sum.downlink_full + stats.drops.downlink_full.packets,
        downlink_codel: sum.downlink_codel + stats.drops.downlink_codel.packets,
        random: sum.random + stats.drops.random.packets,
        partition: sum.partition + stats.drops.partition.packets,
        stale: sum.stale + stats.drops.stale.packets,
    })
}
