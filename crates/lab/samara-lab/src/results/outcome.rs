//! The outcome of a run: its entry in the summary, and the data for the family's tables and
//! reports.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use samara_scenario::{Loaded, Point};
use samara_sim::{HostStats, RivalStats};
use serde::Serialize;
use serde_json::Value;

use super::{BY_CLASS, ByClass, RealRun, RivalFigures, Run, Table};
use crate::explain::Explained;
use crate::family;
use crate::network::Hosts;
use crate::torture::Broken;

/// The complete measurements of a run, in memory.
pub trait Measured: fmt::Debug + Send {
    /// Returns the point of the run, and its hosts.
    fn setting(&self) -> (&Point, &Hosts);

    /// Returns the part of the measurements that remains after all tables have been written.
    fn outcome(&self) -> Outcome;

    /// Returns the tables of the run. They use the data in `outcome`.
    ///
    /// # Panics
    /// Panics if the outcome belongs to another family.
    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>>;

    /// Returns where the time of the deliveries went, if that is recorded.
    fn explained(&self) -> Option<&Explained> {
        None
    }

    /// Returns the promises of the family that the run broke.
    fn broken(&self) -> Vec<Broken> {
        Vec::new()
    }
}

/// The data that a family retains from a run.
pub trait Data: Send + Sync + 'static {
    type Metrics: Serialize;

    fn metrics(&self) -> &Self::Metrics;
}

pub struct Outcome<D: ?Sized = dyn Any + Send + Sync> {
    /// The entry in the summary.
    pub run: Run,
    pub point: Point,
    /// Whether something did not reach every required node or came out wrong.
    pub is_incomplete: bool,
    data: Arc<D>,
}

impl Outcome {
    /// Creates the outcome of a run at a point. `parameter` is the amount of work in the run.
    pub fn new(
        point: &Point,
        (digest, steps): (u64, u64),
        parameter: (&str, Value),
        data: impl Data,
        is_incomplete: bool,
    ) -> Self {
        let run = Run::new(point, digest, steps, parameter, value(data.metrics()));
        Self { run, point: point.clone(), is_incomplete, data: Arc::new(data) }
    }

    /// Returns the same run with data that relate it to others.
    pub fn with(&self, data: impl Data) -> Self {
        let mut run = Run { metrics: value(data.metrics()), ..self.run.clone() };
        if let Some(of_classes) = self.run.metrics.get(BY_CLASS) {
            run.metrics[BY_CLASS] = of_classes.clone();
        }
        Self { run, data: Arc::new(data), ..self.clone() }
    }

    /// Returns the data if they have this type.
    pub fn data<D: Data>(&self) -> Option<&D> {
        self.data.downcast_ref()
    }

    /// Returns the data that the family retains.
    ///
    /// # Panics
    /// If the outcome belongs to another family.
    pub fn own<D: Data>(&self) -> &D {
        self.data().expect("the outcome belongs to this family")
    }

    /// Returns the outcome with the type of its data, if they have this type.
    pub fn typed<D: Data>(&self) -> Option<Outcome<D>> {
        let Self { run, point, is_incomplete, data } = self.clone();
        Some(Outcome { run, point, is_incomplete, data: data.downcast().ok()? })
    }

    /// Adds the metrics of each class of nodes.
    #[must_use]
    pub fn by_class(mut self, figures: ByClass) -> Self {
        if let (Some(figures), Value::Object(metrics)) = (figures.into_value(), &mut self.run.metrics) {
            metrics.insert(BY_CLASS.to_owned(), figures);
        }
        self
    }

    /// States why a table is absent, if there is a reason.
    pub fn without(mut self, table: &'static str, reason: Option<String>) -> Self {
        self.run.absent.extend(reason.map(|reason| (table, reason)));
        self
    }

    /// Notes the faults that began, or would have begun, after the end of the traffic, in nanoseconds.
    #[must_use]
    pub fn ended_at(mut self, end_nanos: Option<u64>) -> Self {
        let faults = self.point.scenario.faults.iter().enumerate();
        let is_late = |at: u64| end_nanos.is_some_and(|end| at >= end);
        let noted = std::mem::take(&mut self.run.late_faults);
        let is_noted = |fault: usize| noted.contains(&fault);
        let late = faults.filter(|(i, fault)| is_noted(*i) || is_late(fault.at.nanos()));
        self.run.late_faults = late.map(|(i, _)| i).collect();
        self
    }

    pub fn explained(mut self, explained: &Explained) -> Self {
        self.run.explained = Some(explained.means());
        self
    }

    /// Adds the figures of the rivals that the run had.
    #[must_use]
    pub fn beside(mut self, rivals: &[RivalStats]) -> Self {
        self.run.rivals = RivalFigures::of(rivals);
        self
    }

    /// Marks the outcome as that of a run on real nodes.
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

/// Adds the metrics that relate a run to another one with equal parameters: the scenario's first
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

fn value(metrics: &impl Serialize) -> Value {
    serde_json::to_value(metrics).unwrap_or(Value::Null)
}

/// Lost packets, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketDrops {
    /// Packets dropped because a downlink's queue was full.
    pub downlink_full: u64,
    /// Packets dropped by CoDel.
    pub downlink_codel: u64,
    /// Packets dropped by CoDel before they reached an uplink; absent without such drops.
    #[serde(skip_serializing_if = "is_zero")]
    pub uplink_codel: u64,
    /// Packets that found the queue before an uplink full; absent without such drops.
    #[serde(skip_serializing_if = "is_zero")]
    pub uplink_full: u64,
    /// Packets lost at random in the network.
    pub random: u64,
    /// Packets between hosts separated by a partition.
    pub partition: u64,
    /// Packets whose link or process no longer existed.
    pub stale: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the quotient, or 0 if `whole` is not positive.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

pub fn packet_drops(traffic: &[HostStats]) -> PacketDrops {
    traffic.iter().fold(PacketDrops::default(), |sum, stats| PacketDrops {
        downlink_full: sum.downlink_full + stats.drops.downlink_full.packets,
        downlink_codel: sum.downlink_codel + stats.drops.downlink_codel.packets,
        uplink_codel: sum.uplink_codel + stats.drops.uplink_codel.packets,
        uplink_full: sum.uplink_full + stats.drops.uplink_full.packets,
        random: sum.random + stats.drops.random.packets,
        partition: sum.partition + stats.drops.partition.packets,
        stale: sum.stale + stats.drops.stale.packets,
    })
}
