//! One metric over a sweep, or of the runs of a scenario without one: a row for each point, and a
//! figure.

use samara_report::Figure;
use samara_scenario::Loaded;
use serde_json::Value;

use super::{LACKS, Report};
use crate::expect::has_class;
use crate::family;
use crate::metric::{declared, has_value};
use crate::results::{Column, Rows, column};
use crate::statistics::Spread;
use crate::sweep::{Aggregate, PointRecord, SweepSummary, array, quantity};

/// A metric over the points of a sweep, which differ in more than their seeds. Without axes these are
/// the runs of the scenario.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The path of the metric.
    pub metric: String,
    /// A row for each point: `run`, a column for each axis, the values of [`Spread`], and the means of
    /// [`LACKS`] that the family has. `confidence_95` has no value for one seed, nor has any of them
    /// for a point that did not measure the metric.
    pub table: Rows,
    /// The means over the last axis with bands of `confidence_95`: a line for each run and place on
    /// the other axes. Without axes, the means of the runs side by side with bars of `confidence_95`.
    pub figure: Figure,
}

impl Curve {
    /// Checks the metric of a curve before the runs. Without a metric, the curve has the first headline
    /// of the scenario.
    ///
    /// # Errors
    /// Returns an error if the family of the scenario has no such metric, or the scenario no such class
    /// of nodes.
    pub fn check(loaded: &Loaded, metric: Option<&str>) -> Result<(), String> {
        metric.map_or(Ok(()), |metric| {
            has_class(loaded, metric)?;
            declared(metric, Some(family::of(&loaded.scenario)))?;
            has_value(metric)
        })
    }

    /// Returns the curve of a metric over finished runs.
    ///
    /// # Errors
    /// Returns an error as [`check`](Self::check) does, or if no run measured the metric.
    pub fn of(loaded: &Loaded, records: Vec<PointRecord>, metric: Option<&str>) -> Result<Self, String> {
        Self::check(loaded, metric)?;
        let summary = SweepSummary::new(loaded, records, Vec::new(), 0.0);
        let report = Report::new(loaded, &summary);
        let metric = metric.or(report.metrics.first().map(String::as_str));
        let metric = metric.ok_or("the runs have no headline; name a metric")?;
        if !summary.aggregates.iter().any(|point| point.metrics.contains_key(metric)) {
            return Err(format!("no run measured \"{metric}\""));
        }
        let mut columns =
            vec![("run".to_owned(), column(summary.aggregates.iter().map(|point| &*point.name)))];
        columns.extend(report.grid.axes.iter().map(|(key, _)| axis(key, &summary.aggregates)));
        columns.extend(spread(metric, &summary.aggregates));
        columns.extend(LACKS.into_iter().filter_map(|lack| mean(lack, &summary.aggregates)));
        let is_swept = !report.grid.axes.is_empty();
        let figure = if is_swept { report.over_axis(metric, &[]) } else { report.side_by_side(metric) };
        Ok(Self { metric: metric.to_owned(), table: Rows::new(columns), figure })
    }
}

/// Returns the values of an axis: numbers with their unit in the name if all have the same one.
fn axis(key: &str, points: &[Aggregate]) -> (String, Column) {
    let values: Vec<&Value> =
        points.iter().map(|point| point.parameters.get(key).unwrap_or(&Value::Null)).collect();
    let (names, numbers): (Vec<String>, Vec<Value>) = values.iter().map(|value| quantity(key, value)).unzip();
    match names.first() {
        Some(name) if names.iter().all(|other| other == name) => {
            (name.clone(), array(&numbers.into_iter().map(Some).collect::<Vec<_>>()))
        }
        _ => (key.to_owned(), array(&values.into_iter().cloned().map(Some).collect::<Vec<_>>())),
    }
}

fn spread(metric: &str, points: &[Aggregate]) -> [(String, Column); 5] {
    let spreads = || points.iter().map(|point| point.metrics.get(metric));
    let values = |value: fn(&Spread) -> f64| column(spreads().map(|spread| spread.map(value)));
    let known = |spread: &&Spread| spread.seeds > 1;
    let half = spreads().map(|spread| spread.filter(known).map(|spread| spread.confidence_95));
    [
        ("mean", values(|spread| spread.mean)),
        ("confidence_95", column(half)),
        ("min", values(|spread| spread.min)),
        ("max", values(|spread| spread.max)),
        ("seeds", column(spreads().map(|spread| spread.map_or(0, |spread| spread.seeds as u64)))),
    ]
    .map(|(name, column)| (name.to_owned(), column))
}

/// Returns the means of another metric; `None` if no point measured it.
fn mean(metric: &str, points: &[Aggregate]) -> Option<(String, Column)> {
    let means = || points.iter().map(|point| Some(point.metrics.get(metric)?.mean));
    means().any(|mean| mean.is_some()).then(|| (metric.to_owned(), column(means())))
}
