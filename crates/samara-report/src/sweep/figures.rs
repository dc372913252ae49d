//! Figures of a sweep: a line for each run over the last axis, or runs below each other where there is none.

use super::{Row, SweepReport, unit_of};
use crate::draw::{COLOURS, Swept, colour};
use crate::intervals::{IntervalPlot, IntervalRow};
use crate::lines::{Line, LinePlot};
use crate::parts::Figure;

/// Metrics that are drawn.
const METRICS_MAX: usize = 4;
/// More figures than this are not looked at: of a sweep over many axes, fewer metrics are drawn.
const FIGURES_MAX: usize = 24;

/// The figures of all metrics that differ between points.
pub(super) fn all(report: &SweepReport) -> Vec<Figure> {
    let panels = panels(report);
    let most = (FIGURES_MAX / panels.len().max(1)).clamp(1, METRICS_MAX);
    let drawn = report.metrics.iter().filter(|metric| differs(report, metric)).take(most);
    let mut figures = Vec::new();
    for metric in drawn {
        if report.axes.is_empty() {
            figures.push(side_by_side(report, metric));
        } else {
            figures.extend(panels.iter().map(|panel| over_axis(report, metric, panel)));
        }
    }
    figures
}

/// Whether there is something to see.
fn differs(report: &SweepReport, metric: &str) -> bool {
    let spreads = || report.rows.iter().filter_map(|row| row.aggregate.metrics.get(metric));
    let first = spreads().next().map(|spread| spread.mean);
    spreads().any(|spread| Some(spread.mean) != first || spread.min < spread.max)
}

/// The values of all axes but the last, as far as they get figures of their own: none of them, if there are few enough lines for one figure.
fn panels(report: &SweepReport) -> Vec<Vec<String>> {
    let Some(last) = report.axes.len().checked_sub(1) else { return vec![Vec::new()] };
    let mut panels: Vec<Vec<String>> = Vec::new();
    let mut lines: Vec<(&str, &[String])> = Vec::new();
    for row in &report.rows {
        let others = &row.point[..last];
        if !panels.iter().any(|panel| panel == others) {
            panels.push(others.to_vec());
        }
        if !lines.contains(&(row.aggregate.name.as_str(), others)) {
            lines.push((&row.aggregate.name, others));
        }
    }
    if lines.len() <= COLOURS.len() { vec![Vec::new()] } else { panels }
}

/// A metric over the last axis, of the points whose other values are those of a panel.
fn over_axis(report: &SweepReport, metric: &str, panel: &[String]) -> Figure {
    let last = report.axes.len() - 1;
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.point.starts_with(panel)).collect();
    let (swept, xs) = Swept::new(&rows.iter().map(|row| row.point[last].as_str()).collect::<Vec<_>>());
    let mut lines: Vec<(Vec<String>, Line)> = Vec::new();
    for (row, x) in rows.iter().zip(xs) {
        // What tells the line from others of this figure.
        let others = &row.point[panel.len()..last];
        let key = [std::slice::from_ref(&row.aggregate.name), others].concat();
        let at = lines.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            let named = report.axes[panel.len()..last].iter().zip(others);
            let values: String = named.map(|((_, label), value)| format!(", {label} {value}")).collect();
            let label = format!("{}{values}", row.aggregate.label);
            lines.push((key, Line { label, points: Vec::new(), confidence: Vec::new(), bound: false }));
            lines.len() - 1
        });
        let (mean, half) = row.mean(metric).unwrap_or((f64::NAN, 0.0));
        lines[at].1.points.push((x, mean));
        lines[at].1.confidence.push(half);
    }
    let values: String =
        report.axes.iter().zip(panel).map(|((_, label), value)| format!(", {label} {value}")).collect();
    let plot = LinePlot {
        title: &format!("{metric}{values}"),
        axis: &report.axes[last].1,
        swept: &swept,
        unit: unit_of(metric),
        lines: lines.into_iter().map(|(_, line)| sorted(line)).collect(),
        rings: Vec::new(),
        ring: "",
    };
    let name = panel.iter().fold(format!("sweep-{metric}"), |name, value| format!("{name}-{value}"));
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    Figure::new(name.chars().map(plain).collect::<String>(), caption(report), plot.svg())
}

/// Lines go from left to right, in whatever order values were given.
fn sorted(mut line: Line) -> Line {
    let mut both: Vec<((f64, f64), f64)> = line.points.into_iter().zip(line.confidence).collect();
    both.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    (line.points, line.confidence) = both.into_iter().unzip();
    line
}

/// All runs below each other.
fn side_by_side(report: &SweepReport, metric: &str) -> Figure {
    let row = |(i, row): (usize, &Row)| {
        let (mean, half) = row.mean(metric).unwrap_or((f64::NAN, 0.0));
        let of_row = report.summary.runs.iter().filter(|run| run.name == row.aggregate.name);
        let values = of_row.filter_map(|run| {
            metric
                .split('.')
                .try_fold(&run.metrics, |value, part| value.get(part))
                .and_then(|value| value.as_f64())
        });
        IntervalRow {
            name: row.aggregate.label.clone(),
            mean,
            half,
            values: values.collect(),
            colour: colour(i),
        }
    };
    let plot = IntervalPlot {
        title: metric,
        unit: unit_of(metric),
        rows: report.rows.iter().enumerate().map(row).collect(),
        is_change: false,
        key: Vec::new(),
    };
    Figure::new(
        format!("sweep-{metric}"),
        format!("{} Pale dots: single seeds.", caption(report)),
        plot.svg(),
    )
}

fn caption(report: &SweepReport) -> String {
    match report.seeds() {
        0 | 1 => "One seed: nothing is known of the spread.".to_owned(),
        seeds => {
            let what = if report.axes.is_empty() { "bars" } else { "bands" };
            format!("Means over {seeds} seeds; {what}: Student's 95 % confidence intervals of the mean.")
        }
    }
}
