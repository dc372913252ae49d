//! The report of batches that one node hands to another: which cause costs how much.

use samara_report::words::{fixed, short_ms};
use samara_report::{Bar, Bars, Figure, Ink, Mark, Scale, Section, Unit};

use super::metrics::{HandoverMetrics, HandoverParts};
use super::outcome::HandoverData;
use crate::report::{Body, Measures, Results, Runs};

impl Measures for HandoverData {
    type Metrics = HandoverMetrics;

    fn measures(&self) -> &HandoverMetrics {
        &self.metrics
    }
}

type Report<'a> = Results<'a, HandoverData>;
type Row = Runs<HandoverData>;

/// A cause that takes less of the time is not worth a sentence.
const PART_MIN: f64 = 0.1;

const COLUMNS: [&str; 10] = [
    "payloads",
    "first",
    "later",
    "range",
    "compute",
    "idle restart",
    "window",
    "slow start",
    "bytes",
    "latency",
];

const LEGEND: &str = "First: from the moment in which all payloads of the first batch on a connection are ready until all are at the other node. Later: the median of \
the other batches.\nThe other columns say what the later ones took, from the beginning of the work on a batch: by how much sooner it is there if one cause after the \
other is taken away, from the left. Bytes: the rate of the link.";

/// Which batches are meant.
#[derive(Clone, Copy)]
enum Which {
    First,
    Later,
}

impl Which {
    fn took(self, metrics: &HandoverMetrics) -> f64 {
        match self {
            Self::First => metrics.first_ms,
            Self::Later => metrics.later_ms,
        }
    }

    fn parts(self, metrics: &HandoverMetrics) -> &HandoverParts {
        match self {
            Self::First => &metrics.first_parts,
            Self::Later => &metrics.later_parts,
        }
    }

    /// The metric, the name of its figures, and the batches in words.
    fn named(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::First => ("first_ms", "first", "the first batch on a connection"),
            Self::Later => ("later_ms", "later", "later batches (median)"),
        }
    }
}

impl Row {
    fn payloads(&self) -> u32 {
        self.metrics().payloads
    }

    fn later(&self) -> f64 {
        self.mean(|m| m.later_ms)
    }

    /// What a batch took by cause: names and means over seeds.
    fn parts(&self, which: Which) -> Vec<(&'static str, f64)> {
        let names = which.parts(self.metrics()).named().map(|(name, _)| name);
        let mean = |place: usize| self.mean(|metrics| which.parts(metrics).named()[place].1);
        names.into_iter().enumerate().map(|(place, name)| (name, mean(place))).collect()
    }

    fn cells(&self) -> Vec<String> {
        let range = (self.mean(|m| m.later_min_ms), self.mean(|m| m.later_max_ms));
        let mut cells = vec![
            fixed(f64::from(self.payloads()), 0),
            short_ms(self.mean(|m| m.first_ms)),
            short_ms(self.later()),
            if range.1 - range.0 < 1.0 { "-".to_owned() } else { format!("{:.0}-{:.0}", range.0, range.1) },
        ];
        let shown = |ms: f64| if ms.abs() < 0.05 { "-".to_owned() } else { short_ms(ms) };
        cells.extend(self.parts(Which::Later).into_iter().map(|(_, ms)| shown(ms)));
        cells
    }

    /// What the run's batches waited for, in a sentence each.
    fn explanation(&self) -> String {
        let said = |which: Which, name: &str| {
            let parts = self.parts(which);
            let total: f64 = parts.iter().map(|(_, ms)| ms).sum();
            let mut causes: Vec<(&str, f64)> =
                parts.into_iter().filter(|(_, ms)| *ms > PART_MIN * total && *ms > 1.0).collect();
            causes.sort_by(|a, b| b.1.total_cmp(&a.1));
            let causes: Vec<String> =
                causes.iter().map(|(cause, ms)| format!("{} {cause}", short_ms(*ms))).collect();
            format!("{name} takes {}: {}.", short_ms(self.mean(|m| which.took(m))), causes.join(", "))
        };
        format!(
            "{} {}",
            said(Which::First, "the first batch on a connection"),
            said(Which::Later, "A later one")
        )
    }
}

/// What the family contributes to a page.
pub(super) fn body(report: &Report<'_>) -> Body {
    let table = report.table_of(COLUMNS, Row::cells);
    let term = |row: &Row| (format!("{}, {} payloads", row.named(), row.payloads()), row.explanation());
    let terms: Vec<(String, String)> = report.rows.iter().map(term).collect();
    // Batches of different sizes have no scale in common.
    let both = sizes(report).into_iter().flat_map(|size| [(size, Which::First), (size, Which::Later)]);
    let figures: Vec<Figure> = both.map(|(size, which)| figure(report, size, which)).collect();
    let sections = vec![
        Section::new("What a batch waits for", "", figures),
        Section::new("All runs", LEGEND, table.clone()),
    ];
    let text = "Each cause by how much sooner a batch would be there without it.";
    Body::new(findings(report), (LEGEND, table), sections, vec![Section::new("In words", text, terms)])
}

/// The sizes of batches.
fn sizes(report: &Report<'_>) -> Vec<u32> {
    let mut sizes: Vec<u32> = report.rows.iter().map(Row::payloads).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// What batches took, by cause.
fn figure(report: &Report<'_>, size: u32, which: Which) -> Figure {
    let (metric, name, batches) = which.named();
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.payloads() == size).collect();
    let bar = |row: &&Row| {
        let parts = row.parts(which);
        let computation = parts.first().map_or(0.0, |(_, ms)| *ms);
        let mut end = 0.0;
        let part = |(at, (_, ms)): (usize, &(&str, f64))| {
            let start = end;
            // Taking one cause away can make another one cost a little more.
            end += ms.max(0.0);
            (start, end, at)
        };
        Bar {
            name: row.named(),
            rings: report.published(row, metric).into_iter().map(|known| known + computation).collect(),
            text: short_ms(parts.iter().map(|(_, ms)| ms).sum()),
            parts: parts.iter().enumerate().map(part).collect(),
            ..Bar::default()
        }
    };
    let bars: Vec<Bar> = rows.iter().map(bar).collect();
    let ends =
        bars.iter().flat_map(|bar| bar.parts.iter().map(|part| part.1).chain(bar.rings.iter().copied()));
    let most = ends.fold(1.0, f64::max);
    let names = rows.first().map(|row| row.parts(which)).unwrap_or_default();
    let mut key: Vec<(Mark, String)> = names
        .iter()
        .enumerate()
        .map(|(at, (name, _))| (Mark::Bar(Ink::of(at)), (*name).to_owned()))
        .collect();
    if bars.iter().any(|bar| !bar.rings.is_empty()) {
        key.push((Mark::Ring(Ink::BLACK), "measured by others".to_owned()));
    }
    let caption = format!(
        "What {batches} took from the beginning of the work on it, by cause: by how much sooner it would be there without. Rings: what others measured, \
         from the moment in which it was ready."
    );
    let drawn = Bars {
        title: format!("{size} payloads: {batches}"),
        scale: Scale::linear("", 0.0..most * 1.14, Unit::Milliseconds),
        rows: bars,
        key,
    };
    Figure::new(format!("{name}-{size}"), caption, drawn)
}

/// The key sentences: how near the figures of others are, and what the runs that are most different say.
fn findings(report: &Report<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    let known = &report.findings.published;
    let within = known.iter().filter(|known| known.deviation().abs() <= 0.1).count();
    if !known.is_empty() {
        sentences
            .push(format!("{within} of {} figures that others measured are met within 10 %.", known.len()));
    }
    let sizes = sizes(report);
    let Some(size) = sizes.get(sizes.len() / 2) else { return sentences };
    let alike = || report.rows.iter().filter(|row| row.payloads() == *size);
    if let Some(base) = alike().next() {
        sentences.push(format!("{}, {size} payloads: {}", base.label, base.explanation()));
    }
    if let Some(slowest) = alike().max_by(|a, b| a.later().total_cmp(&b.later()))
        && let Some(fastest) = alike().min_by(|a, b| a.later().total_cmp(&b.later()))
        && slowest.later() > 1.5 * fastest.later()
    {
        sentences.push(format!(
            "Later batches of {size} payloads take from {} ({}) to {} ({}).",
            short_ms(fastest.later()),
            fastest.label,
            short_ms(slowest.later()),
            slowest.label
        ));
    }
    sentences
}
