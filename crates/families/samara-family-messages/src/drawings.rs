//! Drawings of the page that no declaration expresses: the distributions of each series.

use samara_lab::report::{self, Results, Runs};
use samara_report::{Block, Boxes, Figure, Ink, Line, Lines, Mark, Scale, Section, Style, Unit};

use super::metrics::MessagesData;

const BINS: usize = 120;
/// Height of a figure of hops in pixels.
const HOPS_PIXELS: u32 = 360;
/// Maximum number of curves in one figure; larger series have no figure.
const CURVES_MAX: usize = 12;
/// Minimum ratio for a logarithmic axis: the slowest run's 99.9th percentile over the fastest run's
/// median.
const POWERS_FROM: f64 = 40.0;

/// A series in a figure: the results of the first seed of each run.
type Series<'a> = [&'a Runs<'a>];

/// Draws a section for each series that is small enough.
pub(super) fn distributions(results: &Results<'_>) -> Vec<Section> {
    let series = report::grouped(&results.rows, |row| row.first().point.series.as_str());
    let section = |(name, series): (&str, Vec<&Runs<'_>>)| {
        let heading = if name.is_empty() { "Distributions" } else { name };
        Section::new(heading, "", figures(name, &series))
    };
    series.into_iter().filter(|(_, series)| series.len() <= CURVES_MAX).map(section).collect()
}

fn figures(name: &str, series: &Series<'_>) -> Vec<Figure> {
    let prefix = report::slug(&name.to_ascii_lowercase());
    let prefix = if prefix.is_empty() { prefix } else { prefix + "-" };
    let title = |what: &str| if name.is_empty() { what.to_owned() } else { format!("{name}: {what}") };
    let times: Vec<Vec<f64>> = series.iter().map(|row| complete(row.data())).collect();
    let scale = scale(&times);
    let count = |lines: &[Line]| {
        let most = lines.iter().flat_map(|line| &line.points).map(|(_, count)| *count).fold(1.0, f64::max);
        Scale::linear("messages", 0.0..most * 1.08, Unit::Count)
    };
    let bars: Vec<Line> =
        series.iter().zip(&times).map(|(row, times)| histogram(row, times, &scale)).collect();
    let shares = series.iter().zip(&times).map(|(row, times)| cumulative(row, times, &scale)).collect();
    let between: Vec<Line> = series
        .iter()
        .map(|row| line(row, row.data::<MessagesData>().inter_arrival.clone(), Style::Shares))
        .collect();
    let ends = between.iter().filter_map(|line| line.points.iter().find(|(_, share)| *share >= 0.995));
    let last = ends.map(|(time, _)| *time * 1.05).fold(0.0, f64::max);
    let last = if last > 0.0 { last } else { 1.0 };
    let pauses =
        (Scale::linear("since the previous delivery", 0.0..last, Unit::Milliseconds), Scale::share());
    vec![
        Figure::new(
            format!("{prefix}dissemination"),
            "Histogram of the times until the last node had a message.",
            Lines::new(title("dissemination times"), (scale.clone(), count(&bars)), bars),
        ),
        Figure::new(
            format!("{prefix}cumulative"),
            "The share of messages that every node had after a time; dots at 50 % and 99 %.",
            Lines::new(title("cumulative dissemination times"), (scale, Scale::share()), shares),
        ),
        Figure::new(
            format!("{prefix}hops"),
            "The hops of a message's last delivery.",
            hops(series, title("hops of the last delivery")),
        ),
        Figure::new(
            format!("{prefix}inter-arrival"),
            "The cumulative share of times between two deliveries at a node.",
            Lines::new(title("times between deliveries at a node"), pauses, between),
        ),
    ]
}

fn line(row: &Runs<'_>, points: Vec<(f64, f64)>, style: Style) -> Line {
    let label = row.label.clone();
    Line { label, points, style, colour: Some(row.colour), ..Line::default() }
}

/// Returns the sorted dissemination times of the messages that reached every node, in milliseconds.
fn complete(result: &MessagesData) -> Vec<f64> {
    let complete = result.messages.iter().filter(|row| row.delivered == result.others);
    let mut times: Vec<f64> = complete.map(|row| row.dissemination_ms()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Returns a time scale that ends at the 99.9th percentile, so that a few stragglers do not squeeze
/// the rest.
///
/// It is logarithmic if runs differ so much that the fast ones would be one line at the edge.
fn scale(all: &[Vec<f64>]) -> Scale {
    let at = |times: &Vec<f64>, share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let timed = || all.iter().filter(|times| !times.is_empty());
    let until = timed().map(|times| at(times, 0.999)).fold(0.0, f64::max).max(1e-3);
    let median = timed().map(|times| at(times, 0.5)).fold(f64::INFINITY, f64::min).max(1e-3);
    let name = "until the last node had the message";
    if until / median > POWERS_FROM {
        let from = timed().map(|times| times[0]).fold(f64::INFINITY, f64::min).max(1e-3);
        Scale::powers(name, from * 0.8..until * 1.3, Unit::Milliseconds)
    } else {
        Scale::linear(name, 0.0..until * 1.05, Unit::Milliseconds)
    }
}

fn histogram(row: &Runs<'_>, times: &[f64], scale: &Scale) -> Line {
    let mut bins = vec![0.0; BINS];
    for time in times {
        if let Some(bin) = bins.get_mut((scale.share_of(*time).max(0.0) * BINS as f64) as usize) {
            *bin += 1.0;
        }
    }
    let at = |bin: usize| scale.value_at(bin as f64 / BINS as f64);
    let corners = bins.iter().enumerate().flat_map(|(bin, count)| [(at(bin), *count), (at(bin + 1), *count)]);
    line(row, corners.collect(), Style::Area)
}

fn cumulative(row: &Runs<'_>, times: &[f64], scale: &Scale) -> Line {
    let published = row.data::<MessagesData>().messages.len().max(1) as f64;
    let every = (times.len() / 400).max(1);
    let some = times.iter().enumerate().step_by(every).map(|(i, time)| (*time, (i + 1) as f64 / published));
    let last = times.last().map(|time| (*time, times.len() as f64 / published));
    line(row, std::iter::once((scale.ends().start, 0.0)).chain(some).chain(last).collect(), Style::Shares)
}

fn hops(series: &Series<'_>, title: String) -> Boxes {
    let counts = |row: &&Runs<'_>| {
        let result: &MessagesData = row.data();
        let mut counts: Vec<f64> = Vec::new();
        for row in result.messages.iter().filter(|row| row.delivered == result.others) {
            let hops = usize::from(row.last_hop);
            counts.resize(counts.len().max(hops + 1), 0.0);
            counts[hops] += 1.0;
        }
        let all = counts.iter().sum::<f64>().max(1.0);
        counts.iter().map(|count| count / all).collect()
    };
    let shares: Vec<Vec<f64>> = series.iter().map(counts).collect();
    let most = shares.iter().map(Vec::len).max().unwrap_or(1).max(2);
    let is_used = |hop: &usize| shares.iter().any(|run| run.get(*hop).is_some_and(|share| *share > 0.0));
    let least = (0..most).find(is_used).unwrap_or(1) as f64;
    let width = 0.8 / shares.len() as f64;
    let mut boxes = Vec::new();
    for (i, (row, run)) in series.iter().zip(&shares).enumerate() {
        for (hop, share) in run.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let from = hop as f64 - 0.4 + width * i as f64;
            boxes.push(Block::new([(from, 0.0), (from + width, *share)], Ink::of(row.colour)));
        }
    }
    let key = series.iter().map(|row| (Mark::Bar(Ink::of(row.colour)), row.label.clone()));
    let x = Scale::linear("hops", least - 0.5..most as f64 - 0.5, Unit::Count);
    let scales = (x, Scale::share());
    Boxes { title, scales, height: HOPS_PIXELS, boxes, lines: Vec::new(), key: key.collect() }
}
