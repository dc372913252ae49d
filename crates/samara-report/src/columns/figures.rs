//! Static figures of blocks of columns.

use plotters::prelude::*;
use samara_lab::results::ColumnsResult;

use super::{ColumnsReport, Row};
use crate::draw::{Area, Chart, Drawn, SIZE, colour, draw_key, leading_number, steps};
use crate::words::ms;

/// So many curves at most are drawn; of more, every so manieth is taken (the page has them all).
const CURVES_MAX: usize = 350;
/// All figures of a report.
pub(crate) fn all(report: &ColumnsReport) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    if report.axes.is_empty() {
        figures.push(("custody".to_owned(), comparison(&first_seeds(&report.results))));
        for result in first_seeds(&report.results) {
            figures.push((format!("{}-columns", result.run.name), curves(result, Kind::Columns)));
            figures.push((format!("{}-custody", result.run.name), curves(result, Kind::Custody)));
        }
    } else {
        figures.extend(sweeps(report));
    }
    figures
}

/// The results of the first seed of each run.
pub(crate) fn first_seeds(results: &[ColumnsResult]) -> Vec<&ColumnsResult> {
    let mut first: Vec<&ColumnsResult> = Vec::new();
    for result in results {
        if !first.iter().any(|other| other.run.name == result.run.name) {
            first.push(result);
        }
    }
    first
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Columns,
    Custody,
}

/// A curve for each column (share of its subscribers reached) or for each node (share of its columns there).
fn curves(result: &ColumnsResult, kind: Kind) -> String {
    let mut groups = groups(result, kind);
    let every = groups.len().div_ceil(CURVES_MAX).max(1);
    groups = groups.into_iter().step_by(every).collect();
    let last = groups.iter().flatten().copied().filter(|time| time.is_finite()).fold(0.0, f64::max);
    let title = match kind {
        Kind::Columns => format!("{}: share of subscribers reached, a curve for each column", result.label),
        Kind::Custody => format!("{}: share of own columns there, a curve for each node", result.label),
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        // Drawing into a string cannot fail.
        let _ = draw_curves(&area, &title, &groups, last.max(1.0) * 1.03);
    }
    svg
}

type Milliseconds = plotters::coord::types::RangedCoordf64;
type Share = plotters::coord::types::RangedCoordf64;

/// Axes from the publication to `last` milliseconds, and from nothing to all.
fn share_over_time<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    last: f64,
) -> Result<Chart<'a, 'b, Milliseconds, Share>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..last, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("ms after the publication")
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .label_style(("sans-serif", 15))
        .draw()?;
    Ok(chart)
}

fn draw_curves(area: &Area<'_>, title: &str, groups: &[Vec<f64>], last: f64) -> Drawn {
    area.fill(&WHITE)?;
    let mut chart = share_over_time(area, title, last)?;
    let count = groups.len().max(1);
    let opacity = if count > 200 { 0.25 } else { 0.4 };
    for (i, times) in groups.iter().enumerate() {
        let style = viridis(i as f64 / count as f64).mix(opacity).stroke_width(1);
        chart.draw_series(LineSeries::new(steps(times), style))?;
    }
    area.present()?;
    Ok(())
}

/// Sorted arrival times of each column's subscribers, or of each node's columns, in milliseconds of the first slot.
fn groups(result: &ColumnsResult, kind: Kind) -> Vec<Vec<f64>> {
    let mut groups: std::collections::BTreeMap<u32, Vec<f64>> = std::collections::BTreeMap::new();
    for delivery in result.deliveries.iter().filter(|delivery| delivery.slot == 0) {
        let key = if kind == Kind::Columns { delivery.column } else { delivery.host };
        let at = if delivery.delivered() {
            (delivery.at - result.published[0]) as f64 / 1e6
        } else {
            f64::INFINITY
        };
        groups.entry(key).or_default().push(at);
    }
    let mut groups: Vec<Vec<f64>> = groups.into_values().collect();
    for times in &mut groups {
        times.sort_by(f64::total_cmp);
    }
    // In the order in which they are complete: their colours follow it.
    groups.sort_by(|a, b| a[a.len() - 1].total_cmp(&b[b.len() - 1]));
    groups
}

/// For each run, the share of nodes that have all their columns.
fn comparison(results: &[&ColumnsResult]) -> String {
    let done = |result: &&ColumnsResult| -> Vec<f64> {
        groups(result, Kind::Custody).iter().map(|times| times[times.len() - 1]).collect()
    };
    let runs: Vec<(&str, Vec<f64>)> =
        results.iter().map(|result| (result.label.as_str(), done(result))).collect();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let _ = draw_comparison(&area, &runs);
    }
    svg
}

fn draw_comparison(area: &Area<'_>, runs: &[(&str, Vec<f64>)]) -> Drawn {
    let times = runs.iter().flat_map(|(_, times)| times).copied();
    let last = times.filter(|time| time.is_finite()).fold(1.0, f64::max) * 1.03;
    area.fill(&WHITE)?;
    let mut chart = share_over_time(area, "Share of nodes that have all their columns", last)?;
    for (i, (label, times)) in runs.iter().enumerate() {
        let colour = colour(i);
        chart
            .draw_series(LineSeries::new(steps(times), colour.stroke_width(2)))?
            .label(*label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    draw_key(&mut chart, SeriesLabelPosition::LowerRight)?;
    area.present()?;
    Ok(())
}

/// An approximation of the colour map viridis.
fn viridis(share: f64) -> RGBColor {
    const STOPS: [(f64, f64, f64); 5] = [
        (68.0, 1.0, 84.0),
        (59.0, 82.0, 139.0),
        (33.0, 145.0, 140.0),
        (94.0, 201.0, 98.0),
        (210.0, 200.0, 30.0),
    ];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let (i, part) = ((place as usize).min(STOPS.len() - 2), place.fract());
    let mix = |a: f64, b: f64| (a + (b - a) * part) as u8;
    let (a, b) = (STOPS[i], STOPS[i + 1]);
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// For each combination of the other axes' values: the mean time to custody over the last axis, a line for each run.
fn sweeps(report: &ColumnsReport) -> Vec<(String, String)> {
    let last = report.axes.len() - 1;
    let mut panels: Vec<Vec<String>> = Vec::new();
    for row in &report.rows {
        if !panels.contains(&row.point[..last].to_vec()) {
            panels.push(row.point[..last].to_vec());
        }
    }
    panels
        .iter()
        .map(|panel| {
            let rows: Vec<&Row> = report.rows.iter().filter(|row| row.point[..last] == panel[..]).collect();
            let values: Vec<String> =
                report.axes.iter().zip(panel).map(|((_, label), value)| format!("{label} {value}")).collect();
            let title = std::iter::once("Mean time to custody".to_owned())
                .chain(values)
                .collect::<Vec<_>>()
                .join(", ");
            let mut svg = String::new();
            {
                let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
                let _ = draw_lines(&area, &title, &report.axes[last].1, &rows, last);
            }
            let name = panel.iter().fold("sweep".to_owned(), |name, value| format!("{name}-{value}"));
            (name.replace([' ', '/'], "_"), svg)
        })
        .collect()
}

fn draw_lines(area: &Area<'_>, title: &str, axis: &str, rows: &[&Row], last: usize) -> Drawn {
    let x_of = |row: &Row| leading_number(&row.point[last]);
    let unit = rows.first().map_or(String::new(), |row| {
        row.point[last].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim().to_owned()
    });
    let xs: Vec<f64> = rows.iter().map(|row| x_of(row)).collect();
    let (low, high) =
        (xs.iter().copied().fold(f64::INFINITY, f64::min), xs.iter().copied().fold(0.0, f64::max));
    let top = rows.iter().map(|row| row.mean + row.confidence).fold(0.0, f64::max).max(1.0) * 1.25;
    let bottom = rows.iter().map(|row| row.bound).filter(|bound| *bound > 0.0).fold(top, f64::min) * 0.8;
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d((low * 0.95..high * 1.05).log_scale(), (bottom..top).log_scale())?;
    let description = if unit.is_empty() { axis.to_owned() } else { format!("{axis} ({unit})") };
    chart
        .configure_mesh()
        .light_line_style(RGBColor(246, 246, 246))
        .bold_line_style(RGBColor(226, 226, 226))
        .x_label_formatter(&|value| format!("{value}"))
        .y_label_formatter(&|value| ms(*value))
        .x_desc(description)
        .label_style(("sans-serif", 15))
        .draw()?;
    let mut runs: Vec<&str> = Vec::new();
    for row in rows {
        if !runs.contains(&row.run.as_str()) {
            runs.push(&row.run);
        }
    }
    for (i, run) in runs.iter().enumerate() {
        let of_run: Vec<&&Row> = rows.iter().filter(|row| row.run == *run).collect();
        let colour = colour(i);
        let points: Vec<(f64, f64)> = of_run.iter().map(|row| (x_of(row), row.mean)).collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(of_run[0].label.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        chart.draw_series(of_run.iter().filter(|row| row.confidence > 0.0).map(|row| {
            let x = x_of(row);
            PathElement::new(
                [(x, (row.mean - row.confidence).max(bottom)), (x, row.mean + row.confidence)],
                colour,
            )
        }))?;
    }
    let bound: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| Some(&row.run.as_str()) == runs.first())
        .map(|row| (x_of(row), row.bound))
        .collect();
    chart
        .draw_series(DashedLineSeries::new(bound, 6, 5, BLACK.stroke_width(1)))?
        .label("lower bound")
        .legend(|(x, y)| {
            let dash = |from: i32, to: i32| PathElement::new([(from, 0), (to, 0)], BLACK.stroke_width(1));
            EmptyElement::at((x, y)) + dash(0, 6) + dash(12, 18)
        });
    draw_key(&mut chart, SeriesLabelPosition::UpperRight)?;
    area.present()?;
    Ok(())
}
