//! Figures of all runs of a group side by side, or over a sweep.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{GroupReport, Row, Value, links, schedule};
use crate::draw::{Area, Drawn, SIZE, colour, draw_key, drawn, drawn_at, places};
use crate::lines::{Line, LinePlot};
use crate::words::short_ms;

/// A figure: name, what it shows, SVG.
pub(super) type Figure = (String, String, String);
/// A figure over a sweep: its name, what it shows, and the value.
type Swept = (&'static str, &'static str, Value);

/// What is drawn over a sweep.
const SWEPT: [Swept; 5] = [
    ("throughput", "MB/node/s", |m| m.throughput_mb_per_s),
    ("share", "share of the bound", |m| m.share_of_bound),
    ("gain", "gain over the first run with as many senders", |m| m.gain.unwrap_or(f64::NAN)),
    ("latency", "median time until another member has a message (ms)", |m| {
        m.delivery_latency_ms.as_ref().map_or(f64::NAN, |times| times.p50)
    }),
    ("gap", "longest time without a delivery (ms)", |m| m.longest_gap_ms),
];

/// The axis over which latency is drawn against throughput.
const RATE: &str = "group.rate";
/// Pixels of a row, and of what is around all of them.
const ROW_PIXELS: u32 = 34;
const AROUND_PIXELS: u32 = 120;
/// Pixels for labels beside rows.
const LABEL_PIXELS: u32 = 210;
/// The most curves of a figure, and rows of one.
const CURVES_MAX: usize = 12;

/// All figures.
pub(super) fn all(report: &GroupReport) -> Vec<Figure> {
    if !report.axes.is_empty() {
        return over_the_sweep(report);
    }
    let mut figures = vec![
        (
            "throughput".to_owned(),
            "Payload that a member delivers, its own included (bars), what others published or measured (rings), and what no shape can exceed with \
             as many senders (lines)."
                .to_owned(),
            throughput(report),
        ),
        (
            "uplinks".to_owned(),
            "How busy the uplink of each member was: hot where a few send to everybody, even on the ring.".to_owned(),
            uplinks(report),
        ),
    ];
    figures.extend(schedule::all(&report.rows));
    if report.rows.len() <= CURVES_MAX {
        figures.push((
            "latency".to_owned(),
            "The share of deliveries that had happened after a time; dots at 50 % and 99 %.".to_owned(),
            latency(report),
        ));
    }
    figures.extend(links::all(&report.rows));
    figures
}

/// The labels of rows from top to bottom, at the left of a chart.
pub(super) fn label_rows<X: Ranged>(
    area: &Area<'_>,
    chart: &ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, RangedCoordf64>>,
    labels: &[String],
) -> Drawn {
    let (across, upright) = chart.plotting_area().get_pixel_range();
    let style = ("sans-serif", 15).into_text_style(area).pos(Pos::new(HPos::Right, VPos::Center));
    let height = f64::from(upright.end - upright.start) / labels.len().max(1) as f64;
    for (place, label) in labels.iter().enumerate() {
        let y = f64::from(upright.start) + (place as f64 + 0.5) * height;
        area.draw(&Text::new(label.clone(), (across.start - 10, y as i32), style.clone()))?;
    }
    Ok(())
}

fn labels(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.label.clone()).collect()
}

fn throughput(report: &GroupReport) -> String {
    let rows = &report.rows;
    let known = |row: &Row| -> Vec<f64> {
        let of_run = report.known.iter().filter(|known| known.run == row.run);
        of_run.filter(|known| known.metric == "throughput_mb_per_s").map(|known| known.known).collect()
    };
    let ours: Vec<f64> = rows.iter().map(|row| row.mean(|m| m.throughput_mb_per_s)).collect();
    let bounds: Vec<f64> = rows.iter().map(|row| row.mean(|m| m.upper_bound_mb_per_s)).collect();
    let most = ours.iter().chain(&bounds).copied().chain(rows.iter().flat_map(&known)).fold(1e-3, f64::max);
    let all = rows.len() as f64;
    drawn_at((SIZE.0, AROUND_PIXELS + ROW_PIXELS * rows.len() as u32), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption("payload that a member delivers", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(LABEL_PIXELS)
            .build_cartesian_2d(0.0..most * 1.15, 0.0..all)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .y_labels(0)
            .x_desc("MB/node/s")
            .label_style(("sans-serif", 15))
            .draw()?;
        let style = ("sans-serif", 14).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        for (place, ((row, ours), bound)) in rows.iter().zip(&ours).zip(&bounds).enumerate() {
            let middle = all - place as f64 - 0.5;
            let bar = Rectangle::new([(0.0, middle - 0.3), (*ours, middle + 0.3)], colour(1).filled());
            chart.draw_series(std::iter::once(bar))?;
            let line = [(*bound, middle - 0.42), (*bound, middle + 0.42)];
            chart.draw_series(std::iter::once(PathElement::new(line, BLACK.stroke_width(2))))?;
            let rings =
                known(row).into_iter().map(|value| Circle::new((value, middle), 7, BLACK.stroke_width(2)));
            chart.draw_series(rings)?;
            let at = (ours.max(*bound) + most * 0.012, middle);
            chart.draw_series(std::iter::once(Text::new(format!("{ours:.1}"), at, style.clone())))?;
        }
        label_rows(area, &chart, &labels(rows))
    })
}

/// A cell for each member in a row for each run, the darker the busier.
fn uplinks(report: &GroupReport) -> String {
    let rows = &report.rows;
    let members = rows.iter().map(|row| row.first.members.len()).max().unwrap_or(1);
    let all = rows.len() as f64;
    drawn_at((SIZE.0, AROUND_PIXELS + ROW_PIXELS * rows.len() as u32), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption("how busy uplinks were", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(LABEL_PIXELS)
            .build_cartesian_2d(0.0..members as f64, 0.0..all)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .y_labels(0)
            .x_desc("member")
            .x_label_formatter(&|at| if at.fract().abs() < 0.01 { format!("{at:.0}") } else { String::new() })
            .label_style(("sans-serif", 15))
            .draw()?;
        for (place, row) in rows.iter().enumerate() {
            let low = all - place as f64 - 1.0;
            let cells: Vec<f64> = row.first.members.iter().map(|member| member.uplink_utilisation).collect();
            draw_cells(area, &mut chart, &cells, low, members <= 16)?;
        }
        label_rows(area, &chart, &labels(rows))
    })
}

/// A line of cells with shares, the darker the more.
pub(super) fn draw_cells(
    area: &Area<'_>,
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    shares: &[f64],
    low: f64,
    with_numbers: bool,
) -> Drawn {
    let style = ("sans-serif", 13).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Center));
    for (place, share) in shares.iter().enumerate() {
        let left = place as f64;
        let shade = share.clamp(0.0, 1.0);
        let corners = [(left, low + 0.04), (left + 1.0, low + 0.96)];
        let cell = Rectangle::new(corners, colour(0).mix(0.05 + 0.9 * shade).filled());
        chart.draw_series(std::iter::once(cell))?;
        if with_numbers {
            let ink = if shade > 0.55 { &WHITE } else { &BLACK };
            let text = format!("{:.0} %", share * 100.0);
            let at = (left + 0.5, low + 0.5);
            chart.draw_series(std::iter::once(Text::new(text, at, style.clone().color(ink))))?;
        }
    }
    Ok(())
}

fn latency(report: &GroupReport) -> String {
    let curves = || {
        report.rows.iter().map(|row| (&row.label, &row.first.latency)).filter(|(_, curve)| !curve.is_empty())
    };
    let at = |curve: &[(f64, f64)], share: f64| {
        curve.iter().find(|(_, reached)| *reached >= share).or(curve.last()).map_or(1.0, |(ms, _)| *ms)
    };
    let from = curves().map(|(_, curve)| at(curve, 0.01)).fold(f64::INFINITY, f64::min).max(1e-3);
    let until = curves().map(|(_, curve)| at(curve, 0.999)).fold(1e-2, f64::max) * 1.3;
    drawn(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption("from handing in a message until another member has it", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d((from.min(until / 2.0)..until).log_scale(), 0.0..1.02)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&|ms| short_ms(*ms))
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .label_style(("sans-serif", 15))
            .draw()?;
        for (i, (label, curve)) in curves().enumerate() {
            let colour = colour(i);
            chart
                .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))?
                .label(label.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            let dots = [0.5, 0.99].map(|share| Circle::new((at(curve, share), share), 4, colour.filled()));
            chart.draw_series(dots)?;
        }
        draw_key(&mut chart, SeriesLabelPosition::UpperLeft)
    })
}

/// Lines over the last axis, a figure for each combination of the others; where the rate varies, latency against throughput.
fn over_the_sweep(report: &GroupReport) -> Vec<Figure> {
    let last = report.axes.len() - 1;
    let (key, axis) = &report.axes[last];
    let mut groups: Vec<(Vec<String>, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        let others = &row.point[..last];
        match groups.iter_mut().find(|(place, _)| place == others) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((others.to_vec(), vec![row])),
        }
    }
    let mut figures = Vec::new();
    for (place, rows) in &groups {
        let fixed = report.axes.iter().zip(place);
        let place: String = fixed.map(|((_, label), value)| format!(", {label} {value}")).collect();
        let name = |what: &str| format!("sweep-{what}{place}").replace([' ', '/', '"', ',', '[', ']'], "_");
        if key == RATE {
            for (what, title, value) in PRICES {
                let lines = lines(rows, last, |row, _| (row.mean(|m| m.throughput_mb_per_s), value(row)));
                let svg = LinePlot { title, axis: "MB/node/s", lines }.svg();
                figures.push((name(what), format!("Against throughput{place}: {title}."), svg));
            }
        }
        for (what, title, value) in SWEPT {
            if rows.iter().all(|row| !row.mean(value).is_finite()) {
                continue;
            }
            let lines = lines(rows, last, |row, x| (x, row.mean(value)));
            let svg = LinePlot { title, axis, lines }.svg();
            figures.push((name(what), format!("Over {axis}{place}: {title}."), svg));
        }
    }
    figures
}

/// What latency is drawn against throughput: name, title, value.
type Price = (&'static str, &'static str, fn(&Row) -> f64);

const PRICES: [Price; 2] = [
    ("price", "median time until another member has a message (ms)", |row| row.latency(|times| times.p50)),
    ("price-p99", "99th percentile of that time (ms)", |row| row.latency(|times| times.p99)),
];

/// A line for each run, over the values of an axis.
fn lines(rows: &[&Row], axis: usize, point: impl Fn(&Row, f64) -> (f64, f64)) -> Vec<Line> {
    let xs = places(&rows.iter().map(|row| row.point[axis].as_str()).collect::<Vec<_>>());
    let mut lines: Vec<(&str, Line)> = Vec::new();
    for (row, x) in rows.iter().zip(xs) {
        let point = point(row, x);
        match lines.iter_mut().find(|(run, _)| *run == row.run) {
            Some((_, line)) => line.points.push(point),
            None => lines.push((&row.run, Line { label: row.label.clone(), points: vec![point] })),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}
