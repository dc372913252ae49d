//! The section "Where the time went" of a report.

use std::collections::BTreeMap;

use samara_report::words::{percent, short_ms};
use samara_report::{Bar, Bars, Figure, Ink, Mark, Part, Row, Scale, Section, Table, Unit};
use samara_sim::Cause;
use serde_json::{Map, Value};

use super::plural_of;
use super::show::name;
use crate::results::{Findings, Outcome};

/// Number of causes with a colour of their own; all others share one.
const COLOURS: usize = 7;
/// Number of runs that the section shows; the first ones if there are more.
const RUNS_MAX: usize = 30;

type ByCause = Vec<(Cause, f64)>;

/// A run at a point of the sweep: its label, and the means over its seeds of its parts and those of its bound.
struct Shown {
    run: String,
    label: String,
    sweep: BTreeMap<String, toml::Value>,
    parts: ByCause,
    bound: ByCause,
}

fn shown(findings: &Findings) -> Vec<Shown> {
    let explained: Vec<&Outcome> =
        findings.results.iter().filter(|outcome| outcome.run.explained.is_some()).collect();
    let of_run = |(label, seeds): (String, Vec<&Outcome>)| {
        let mean = |pick: &dyn Fn(&super::Means) -> &Map<String, Value>| {
            let all = seeds.iter().filter_map(|outcome| outcome.run.explained.as_ref()).map(pick);
            mean_of(&all.map(by_cause).collect::<Vec<_>>())
        };
        let (parts, bound) = (mean(&|means| &means.by_cause_ms), mean(&|means| &means.bound_ms));
        let sweep = seeds[0].point.sweep.clone();
        Shown { run: seeds[0].run.name.clone(), label, sweep, parts, bound }
    };
    crate::report::grouped(explained, |outcome| key(outcome)).into_iter().map(of_run).collect()
}

/// Number of causes in the sentence about the difference of two runs.
const DIFFERENCES: usize = 3;

/// Returns a sentence on the difference of two runs by cause: those of the `pair`, or else the slowest
/// and the fastest one. The parts of the difference add up to it.
///
/// If the metrics stand beside the first run (`has_base`), the difference is that between the fastest
/// run and the first; between the first and the slowest if the first is the fastest.
pub fn difference(findings: &Findings, pair: Option<&[String; 2]>, has_base: bool) -> Option<String> {
    let runs = shown(findings);
    let named = |name: &str| runs.iter().find(|run| run.run == name);
    let ends = || {
        let by_total = |a: &&Shown, b: &&Shown| total(&a.parts).total_cmp(&total(&b.parts));
        let (slow, fast) = (runs.iter().max_by(by_total)?, runs.iter().min_by(by_total)?);
        let beside = |other: &&Shown| other.run == runs[0].run && other.sweep == fast.sweep;
        let base = runs.iter().find(beside).filter(|base| has_base && base.run != fast.run);
        Some((base.unwrap_or(slow), fast))
    };
    let pair = pair.and_then(|[slow, fast]| named(slow).zip(named(fast)));
    let (slow, fast) = pair.or_else(ends)?;
    let whole = total(&slow.parts) - total(&fast.parts);
    // Less than a thousandth is no difference to explain.
    if whole < 1e-3 * total(&slow.parts) {
        return None;
    }
    let change = |cause| ms_of(&slow.parts, cause) - ms_of(&fast.parts, cause);
    let mut changes: Vec<(Cause, f64)> = Cause::ALL.into_iter().map(|cause| (cause, change(cause))).collect();
    changes.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    changes.truncate(DIFFERENCES);
    let rest = whole - changes.iter().map(|(_, ms)| ms).sum::<f64>();
    let mut parts: Vec<String> =
        changes.iter().map(|(cause, ms)| format!("{} {}", name(*cause), signed_ms(*ms))).collect();
    parts.push(format!("other causes {}", signed_ms(rest)));
    let of = findings.results.iter().find_map(|outcome| outcome.run.explained.as_ref())?.of;
    Some(format!(
        "Mean of {of}: {} with \"{}\", {} with \"{}\". The difference by cause: {}.",
        short_ms(total(&fast.parts)),
        fast.label,
        short_ms(total(&slow.parts)),
        slow.label,
        parts.join(", ")
    ))
}

fn signed_ms(ms: f64) -> String {
    if ms < 0.0 { format!("−{}", short_ms(-ms)) } else { short_ms(ms) }
}

/// Returns the section; `None` if no run is explained.
pub fn section(findings: &Findings) -> Option<Section> {
    let mut runs = shown(findings);
    runs.truncate(RUNS_MAX);
    let first = findings.results.iter().find_map(|outcome| outcome.run.explained.as_ref())?;
    let mut text = format!(
        "The mean of {}, divided into its causes: the parts add up. `samara explain` shows the path of each \
         delivery; the guide to it, `docs/guides/explain.md`, describes the causes.",
        first.of
    );
    if first.every > 1 {
        text += &format!(" One of {} {} is in the sample.", first.every, plural_of(first.item));
    }
    let has_bound = runs.iter().any(|run| !run.bound.is_empty());
    if has_bound {
        text += " The bound, below each run, has the parts that no protocol can avoid.";
    }
    let causes = causes(&runs);
    let caption = if has_bound { "Bars beside those of the bounds." } else { "A bar for each run." };
    let figure = Figure::new("time-by-cause", caption, bars(&runs, &causes));
    let parts = vec![Part::Figures(vec![figure]), Part::Table(table(&runs, &causes))];
    Some(Section { heading: "Where the time went".to_owned(), text, parts })
}

fn key(outcome: &Outcome) -> String {
    let values = outcome.point.sweep.iter().map(|(key, value)| {
        format!("{} {}", key.rsplit('.').next().unwrap_or(key), samara_scenario::json(value))
    });
    [outcome.point.label.clone()].into_iter().chain(values).collect::<Vec<_>>().join(", ")
}

fn by_cause(parts: &Map<String, Value>) -> ByCause {
    parts.iter().filter_map(|(label, ms)| Some((Cause::of_label(label)?, ms.as_f64()?))).collect()
}

fn mean_of(all: &[ByCause]) -> ByCause {
    let of = |cause: Cause| {
        let values = all.iter().flatten().filter(|(other, _)| *other == cause).map(|(_, ms)| ms);
        (cause, values.sum::<f64>() / all.len().max(1) as f64)
    };
    Cause::ALL.into_iter().map(of).filter(|(_, ms)| *ms > 0.0).collect()
}

fn ms_of(parts: &ByCause, cause: Cause) -> f64 {
    parts.iter().find(|(other, _)| *other == cause).map_or(0.0, |(_, ms)| *ms)
}

fn total(parts: &ByCause) -> f64 {
    parts.iter().map(|(_, ms)| ms).sum()
}

/// Returns the causes with the largest shares, in the order of a path.
fn causes(runs: &[Shown]) -> Vec<Cause> {
    let share = |cause: Cause| {
        let shares = runs.iter().map(|run| ms_of(&run.parts, cause) / total(&run.parts).max(1e-9));
        let bounds = runs.iter().map(|run| ms_of(&run.bound, cause) / total(&run.parts).max(1e-9));
        shares.chain(bounds).fold(0.0, f64::max)
    };
    let mut all: Vec<Cause> = Cause::ALL.into_iter().filter(|cause| share(*cause) > 0.0).collect();
    all.sort_by(|a, b| share(*b).total_cmp(&share(*a)));
    all.truncate(COLOURS);
    all.sort_unstable();
    all
}

fn bars(runs: &[Shown], causes: &[Cause]) -> Bars {
    let bar = |label: String, parts: &ByCause| {
        let mut end = 0.0;
        let mut stack = Vec::new();
        for (at, cause) in causes.iter().enumerate() {
            let start = end;
            end += ms_of(parts, *cause);
            stack.push((start, end, at));
        }
        stack.push((end, total(parts).max(end), COLOURS));
        Bar { name: label, parts: stack, text: short_ms(total(parts)), ..Bar::default() }
    };
    let mut rows = Vec::new();
    for run in runs {
        rows.push(bar(run.label.clone(), &run.parts));
        if !run.bound.is_empty() {
            rows.push(bar("its bound".to_owned(), &run.bound));
        }
    }
    let most = runs.iter().flat_map(|run| [total(&run.parts), total(&run.bound)]).fold(1e-3, f64::max);
    let named = causes.iter().enumerate().map(|(at, cause)| (Mark::Bar(Ink::of(at)), name(*cause)));
    let has_others = runs.iter().any(|run| run.parts.iter().any(|(cause, _)| !causes.contains(cause)));
    let others = has_others.then(|| (Mark::Bar(Ink::of(COLOURS)), "other causes".to_owned()));
    Bars {
        title: "mean time by cause".to_owned(),
        scale: Scale::linear("", 0.0..most * 1.12, Unit::Milliseconds),
        rows,
        key: named.chain(others).collect(),
    }
}

fn table(runs: &[Shown], causes: &[Cause]) -> Table {
    let headings = ["run".to_owned(), "mean".to_owned()];
    let headings: Vec<String> = headings
        .into_iter()
        .chain(causes.iter().map(|cause| name(*cause)))
        .chain(["other".to_owned()])
        .collect();
    let rows = runs.iter().map(|run| {
        let whole = total(&run.parts).max(1e-9);
        let shares: Vec<f64> = causes.iter().map(|cause| ms_of(&run.parts, *cause) / whole).collect();
        let other = (1.0 - shares.iter().sum::<f64>()).max(0.0);
        let mut cells = vec![short_ms(total(&run.parts))];
        cells.extend(shares.into_iter().chain([other]).map(|share| percent(share, 1)));
        Row::new(run.label.clone(), cells)
    });
    Table { headings, texts: 1, rows: rows.collect(), ..Table::default() }
}
