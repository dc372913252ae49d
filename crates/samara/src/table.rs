//! Tables for people.

use std::collections::BTreeSet;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use samara_lab::measure::{Statistics, confidence_interval};
use samara_lab::results::{Document, RunDocument};
use serde_json::Value;

fn plain(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The runs of a scenario, repetitions put together.
pub(crate) fn runs(document: &Document) -> String {
    let columns = [
        "run",
        "mean ms",
        "p50",
        "p95",
        "p99",
        "max",
        "bound ms",
        "x bound",
        "copies",
        "sent/node",
        "incomplete",
    ];
    let mut table = plain(&columns);
    for repetitions in document.runs.chunk_by(|a, b| same_point(a, b)) {
        table.add_row(row(repetitions));
    }
    table.to_string()
}

fn same_point(a: &RunDocument, b: &RunDocument) -> bool {
    (&a.name, &a.point) == (&b.name, &b.point)
}

fn row(repetitions: &[RunDocument]) -> Vec<String> {
    let first = &repetitions[0];
    let mean = |of: &dyn Fn(&RunDocument) -> Option<f64>| -> Option<f64> {
        let values: Vec<f64> = repetitions.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let time =
        |of: fn(&Statistics) -> f64| number(mean(&|run| run.metrics.time_to_custody_ms.as_ref().map(of)), 0);
    let means: Vec<f64> =
        repetitions.iter().filter_map(|run| run.metrics.time_to_custody_ms.map(|time| time.mean)).collect();
    let with_interval = match confidence_interval(&means) {
        Some(interval) if interval.repetitions > 1 => {
            format!("{:.0} ± {:.0}", interval.mean, interval.half_width)
        }
        Some(interval) => format!("{:.0}", interval.mean),
        None => "-".to_owned(),
    };
    let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let swept: Vec<String> =
        first.point.iter().map(|(key, swept)| format!("{key}={}", value(swept))).collect();
    let name =
        if swept.is_empty() { first.name.clone() } else { format!("{} {}", first.name, swept.join(" ")) };
    vec![
        name,
        with_interval,
        time(|time| time.p50),
        time(|time| time.p95),
        time(|time| time.p99),
        time(|time| time.max),
        number(mean(&|run| Some(run.metrics.lower_bound_ms)), 0),
        number(mean(&|run| run.metrics.share_of_bound), 2),
        number(mean(&|run| Some(run.metrics.duplication_factor)), 2),
        bytes(mean(&|run| Some(run.metrics.bytes_up_per_node.mean)).unwrap_or(0.0)),
        repetitions.iter().map(|run| run.metrics.incomplete).sum::<u64>().to_string(),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn bytes(value: f64) -> String {
    if value >= 1e6 { format!("{:.1} MB", value / 1e6) } else { format!("{:.1} kB", value / 1e3) }
}

/// The runs beside what was measured elsewhere in the same case. A run with several slots is held against a measurement with
/// several rounds slot by slot.
pub(crate) fn references(document: &Document) -> String {
    let columns = ["run", "mean ms", "p50", "p95", "max", "copies"];
    let mut table = plain(&columns);
    for repetitions in document.runs.chunk_by(|a, b| same_point(a, b)) {
        let first = &repetitions[0];
        let rounds: BTreeSet<u32> = first.reference.iter().map(|figures| figures.round).collect();
        for round in rounds {
            let slot = |run: &RunDocument| run.metrics.slots.get(round as usize).cloned();
            let ours: Vec<(Statistics, f64)> = repetitions
                .iter()
                .filter_map(slot)
                .filter_map(|slot| Some((slot.time_to_custody_ms?, slot.duplication_factor)))
                .collect();
            let theirs: Vec<(Statistics, f64)> = first
                .reference
                .iter()
                .filter(|figures| figures.round == round)
                .map(|figures| (figures.time_to_custody_ms, figures.duplication_factor))
                .collect();
            let (Some(ours), Some(theirs)) = (averages(&ours), averages(&theirs)) else { continue };
            let place =
                if round == 0 { first.name.clone() } else { format!("{}, block {}", first.name, round + 1) };
            table.add_row(cells(&format!("{place}: simulated"), &ours, |index, value| digits(index, value)));
            table.add_row(cells(&format!("{place}: measured"), &theirs, |index, value| digits(index, value)));
            let ratios: Vec<f64> =
                ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs - 1.0).collect();
            table.add_row(cells(&format!("{place}: deviation"), &ratios, |_, value| {
                format!("{:+.1} %", 100.0 * value)
            }));
        }
    }
    table.to_string()
}

fn digits(index: usize, value: f64) -> String {
    if index < 4 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn cells(name: &str, values: &[f64], show: impl Fn(usize, f64) -> String) -> Vec<String> {
    let values = values.iter().enumerate().map(|(index, value)| show(index, *value));
    std::iter::once(name.to_owned()).chain(values).collect()
}

/// Mean, median, 95th percentile, maximum and copies, averaged.
fn averages(all: &[(Statistics, f64)]) -> Option<Vec<f64>> {
    let of = |(time, copies): &(Statistics, f64)| [time.mean, time.p50, time.p95, time.max, *copies];
    let sums = all.iter().map(of).reduce(|a, b| std::array::from_fn(|at| a[at] + b[at]))?;
    Some(sums.iter().map(|sum| sum / all.len() as f64).collect())
}

/// Two results, metric by metric.
pub(crate) fn comparison(base: &Document, head: &Document) -> String {
    let mut table = plain(&["run and metric", "base", "head", "ratio"]);
    for run in &base.runs {
        let other =
            head.runs.iter().find(|other| other.name == run.name && other.parameters == run.parameters);
        let Some(other) = other else { continue };
        let (before, after) = (flat(run), flat(other));
        for (metric, value) in before {
            let Some((_, now)) = after.iter().find(|(name, _)| *name == metric) else { continue };
            let ratio = if value == 0.0 { "-".to_owned() } else { format!("{:.3}", now / value) };
            table.add_row(vec![format!("{} {metric}", run.name), short(value), short(*now), ratio]);
        }
    }
    table.to_string()
}

fn short(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// All numbers among the metrics of a run, by path.
fn flat(run: &RunDocument) -> Vec<(String, f64)> {
    fn walk(path: String, value: &Value, into: &mut Vec<(String, f64)>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(path, value, into);
                }
            }
            Value::Number(number) => into.extend(number.as_f64().map(|number| (path, number))),
            _ => {}
        }
    }
    let mut numbers = Vec::new();
    walk(String::new(), &serde_json::to_value(&run.metrics).unwrap_or_default(), &mut numbers);
    numbers
}
