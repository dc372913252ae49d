//! Value of transactions and their pools.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use samara_lab::results::TransactionBytes;

use super::{Row, TransactionsReport, Value};
use crate::draw::{Area, Drawn, SIZE, colour, draw_key, drawn, drawn_at, places};
use crate::lines::{Line, LinePlot};
use crate::words::short_ms;

/// A kind of bytes.
type Kind = (&'static str, fn(&TransactionBytes) -> f64);
/// A figure over a sweep: its name, what it shows, and the value.
type Swept = (&'static str, &'static str, Value);

/// What bytes are, in the order in which they are stacked.
const KINDS: [Kind; 8] = [
    ("first copies", |bytes| bytes.bodies),
    ("further copies", |bytes| bytes.duplicates),
    ("announcements", |bytes| bytes.announcements),
    ("requests", |bytes| bytes.requests),
    ("compact blocks", |bytes| bytes.blocks),
    ("framing of packets", |bytes| bytes.framing),
    ("sealing and padding", |bytes| bytes.sealing),
    ("headers, acknowledgements", |bytes| bytes.headers),
];

/// What is drawn over a sweep.
const SWEPT: [Swept; 3] = [
    ("copies", "bodies received for each node and transaction", |m| m.duplication_factor),
    ("latency", "median time until a node has a transaction (ms)", |m| {
        m.delivery_latency_ms.as_ref().map_or(f64::NAN, |times| times.p50)
    }),
    ("bytes", "bytes received for each node and transaction", |m| m.bytes.total),
];

/// Pixels of a row of bars, and of what is around all of them.
const BAR_PIXELS: u32 = 34;
const AROUND_PIXELS: u32 = 120;
/// Characters of a label that have room beside a bar.
const LABEL_PIXELS: u32 = 190;

/// A figure: name, what it shows, SVG.
pub(super) type Figure = (String, String, String);

/// Value of all runs side by side; where there is a sweep, over its axes.
pub(super) fn all(report: &TransactionsReport) -> Vec<Figure> {
    if !report.axes.is_empty() {
        return over_the_sweep(report);
    }
    vec![
        (
            "bytes".to_owned(),
            "What bytes a node received for each transaction, headers included.".to_owned(),
            bytes(report),
        ),
        (
            "copies".to_owned(),
            "Bodies received for each node and transaction (dots), and what others published or measured (rings). Below 1 nothing is \
             complete; the dashed lines are the least and the most that flooding can need on this graph."
                .to_owned(),
            copies(report),
        ),
        (
            "latency".to_owned(),
            "The share of nodes that had a transaction after a time; dots at 50 % and 99 %.".to_owned(),
            latency(report),
        ),
    ]
}

fn height(rows: usize) -> u32 {
    AROUND_PIXELS + BAR_PIXELS * rows as u32
}

/// The rows from top to bottom, and their labels at the left of an area.
fn label_rows<X>(
    area: &Area<'_>,
    chart: &ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, plotters::coord::types::RangedCoordf64>>,
    rows: &[Row],
) -> Drawn
where
    X: Ranged<ValueType = f64>,
{
    let left = chart.plotting_area().get_pixel_range().0.start - 10;
    let style = ("sans-serif", 15).into_text_style(area).pos(Pos::new(HPos::Right, VPos::Center));
    for (place, row) in rows.iter().enumerate() {
        let at = rows.len() as f64 - place as f64 - 0.5;
        let range = chart.plotting_area().get_pixel_range().1;
        let share = at / rows.len() as f64;
        let y = f64::from(range.end) - share * f64::from(range.end - range.start);
        area.draw(&Text::new(row.label.clone(), (left, y as i32), style.clone()))?;
    }
    Ok(())
}

fn bytes(report: &TransactionsReport) -> String {
    let rows = &report.rows;
    let most = rows.iter().map(|row| row.mean(&|m| m.bytes.total)).fold(1.0, f64::max);
    let shown: Vec<usize> = (0..KINDS.len())
        .filter(|kind| rows.iter().any(|row| row.mean(&|m| KINDS[*kind].1(&m.bytes)) > most * 1e-4))
        .collect();
    drawn_at((SIZE.0, height(rows.len()) + 30), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption("bytes received for each node and transaction", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(LABEL_PIXELS)
            .build_cartesian_2d(0.0..most / 1e3 * 1.12, 0.0..rows.len() as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .y_labels(0)
            .x_desc("kB")
            .x_label_formatter(&|kb| format!("{kb}"))
            .label_style(("sans-serif", 15))
            .draw()?;
        for (at, kind) in shown.iter().enumerate() {
            let (name, value) = KINDS[*kind];
            let bars = rows.iter().enumerate().map(|(place, row)| {
                let before: f64 =
                    shown[..at].iter().map(|kind| row.mean(&|m| KINDS[*kind].1(&m.bytes))).sum();
                let own = row.mean(&|m| value(&m.bytes));
                let (low, high) =
                    (rows.len() as f64 - place as f64 - 0.85, rows.len() as f64 - place as f64 - 0.15);
                Rectangle::new([(before / 1e3, low), ((before + own) / 1e3, high)], colour(at).filled())
            });
            let colour = colour(at);
            chart
                .draw_series(bars)?
                .label(name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
        }
        for (place, row) in rows.iter().enumerate() {
            let total = row.mean(&|m| m.bytes.total) / 1e3;
            let at = (total + most / 1e3 * 0.008, rows.len() as f64 - place as f64 - 0.5);
            let style = ("sans-serif", 14).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
            chart.draw_series(std::iter::once(Text::new(format!("{total:.1}"), at, style)))?;
        }
        label_rows(area, &chart, rows)?;
        draw_key(&mut chart, SeriesLabelPosition::LowerRight)
    })
}

fn copies(report: &TransactionsReport) -> String {
    let rows = &report.rows;
    let known = |row: &Row| -> Vec<f64> {
        let of_run = report.known.iter().filter(|known| known.run == row.run);
        of_run.filter(|known| known.metric == "duplication_factor").map(|known| known.known).collect()
    };
    let ours: Vec<f64> = rows.iter().map(|row| row.mean(&|m| m.duplication_factor)).collect();
    let bounds =
        rows.first().map_or((1.0, 1.0), |row| (row.mean(&|m| m.flood_least), row.mean(&|m| m.flood_most)));
    let everything = || ours.iter().copied().chain(rows.iter().flat_map(&known)).chain([bounds.1]);
    let (low, high) = (everything().fold(0.95, f64::min) * 0.92, everything().fold(1.0, f64::max) * 1.35);
    drawn_at((SIZE.0, height(rows.len())), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption("bodies received for each node and transaction", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(LABEL_PIXELS)
            .build_cartesian_2d((low..high).log_scale(), 0.0..rows.len() as f64)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .y_labels(0)
            .disable_y_mesh()
            .x_label_formatter(&|copies| format!("{copies:.0}"))
            .label_style(("sans-serif", 15))
            .draw()?;
        let all = rows.len() as f64;
        for bound in [bounds.0, bounds.1] {
            let dashes =
                DashedLineSeries::new([(bound, 0.0), (bound, all)], 6, 4, BLACK.mix(0.5).stroke_width(1));
            chart.draw_series(dashes)?;
        }
        for (place, (row, ours)) in rows.iter().zip(&ours).enumerate() {
            let at = all - place as f64 - 0.5;
            let grey = BLACK.mix(0.15).stroke_width(1);
            chart.draw_series(std::iter::once(PathElement::new([(low, at), (high, at)], grey)))?;
            let rings =
                known(row).into_iter().map(|value| Circle::new((value, at), 7, BLACK.stroke_width(2)));
            chart.draw_series(rings)?;
            chart.draw_series(std::iter::once(Circle::new((*ours, at), 5, colour(0).filled())))?;
            let style = ("sans-serif", 14).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Bottom));
            chart.draw_series(std::iter::once(Text::new(
                format!("{ours:.2}"),
                (*ours * 1.05, at + 0.12),
                style,
            )))?;
        }
        label_rows(area, &chart, rows)
    })
}

fn latency(report: &TransactionsReport) -> String {
    let curves =
        || report.rows.iter().map(|row| (&row.label, &row.latency)).filter(|(_, curve)| !curve.is_empty());
    let at = |curve: &[(f64, f64)], share: f64| {
        curve.iter().find(|(_, reached)| *reached >= share).or(curve.last()).map_or(1.0, |(ms, _)| *ms)
    };
    let from = curves().map(|(_, curve)| at(curve, 0.01)).fold(f64::INFINITY, f64::min).max(1e-3);
    let until = curves().map(|(_, curve)| at(curve, 0.999)).fold(1e-2, f64::max) * 1.3;
    drawn(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption("from the submission until a node has it", ("sans-serif", 20))
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

/// One axis gives lines; of more, the last two make maps, one for each run and each value of the others.
fn over_the_sweep(report: &TransactionsReport) -> Vec<Figure> {
    if let [(_, axis)] = report.axes.as_slice() {
        return SWEPT.map(|(name, what, value)| lines(report, axis, name, what, value)).into();
    }
    let mut figures = Vec::new();
    let others = report.axes.len() - 2;
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in &report.rows {
        let same = |group: &&mut Vec<&Row>| {
            group[0].run == row.run && group[0].point[..others] == row.point[..others]
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    for (name, what, value) in &SWEPT[..2] {
        let all =
            report.rows.iter().map(|row| row.mean(value)).filter(|value| value.is_finite() && *value > 0.0);
        let range =
            all.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        for group in &groups {
            let first = group[0];
            let fixed = report.axes.iter().zip(&first.point[..others]);
            let place: String = fixed.map(|((_, label), value)| format!(", {label} {value}")).collect();
            let title = format!("{}{place}", first.label);
            let svg = map(report, group, &title, *value, range);
            let file = format!("map-{name}-{}{}", first.run, first.point[..others].concat());
            figures.push((
                file.replace([' ', '/', '"'], "_"),
                format!("{}{place}: {what}.", first.label),
                svg,
            ));
        }
    }
    figures
}

fn lines(report: &TransactionsReport, axis: &str, name: &str, what: &str, value: Value) -> Figure {
    let mut lines: Vec<(&str, Line)> = Vec::new();
    let xs = places(&report.rows.iter().map(|row| row.point[0].as_str()).collect::<Vec<_>>());
    for (row, x) in report.rows.iter().zip(xs) {
        let point = (x, row.mean(&value));
        match lines.iter_mut().find(|(run, _)| *run == row.run) {
            Some((_, line)) => line.points.push(point),
            None => lines.push((&row.run, Line { label: row.label.clone(), points: vec![point] })),
        }
    }
    let lines = lines.into_iter().map(|(_, line)| line).collect();
    let svg = LinePlot { title: what, axis, lines }.svg();
    (format!("sweep-{name}"), format!("Over {axis}: {what}."), svg)
}

/// A field of numbers over the last two axes, the darker the more, on the same scale in all maps of a report.
fn map(
    report: &TransactionsReport,
    rows: &[&Row],
    title: &str,
    value: Value,
    (low, high): (f64, f64),
) -> String {
    let [.., (_, upright), (_, across)] = report.axes.as_slice() else { return String::new() };
    let (y_axis, x_axis) = (report.axes.len() - 2, report.axes.len() - 1);
    let values = |axis: usize| {
        let mut values: Vec<&String> = Vec::new();
        for row in rows {
            if !values.contains(&&row.point[axis]) {
                values.push(&row.point[axis]);
            }
        }
        values
    };
    let (xs, ys) = (values(x_axis), values(y_axis));
    drawn_at((520, 120 + 46 * ys.len() as u32), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(48)
            .y_label_area_size(92)
            .build_cartesian_2d(0.0..xs.len() as f64, 0.0..ys.len() as f64)?;
        let name = |values: &[&String], at: f64| {
            let place = at.floor() as usize;
            if (at - at.floor() - 0.5).abs() < 1e-6 {
                values.get(place).map_or_else(String::new, |v| (*v).clone())
            } else {
                String::new()
            }
        };
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc(across.clone())
            .y_desc(upright.clone())
            .x_labels(2 * xs.len() + 1)
            .y_labels(2 * ys.len() + 1)
            .x_label_formatter(&|at| name(&xs, *at))
            .y_label_formatter(&|at| name(&ys, *at))
            .label_style(("sans-serif", 14))
            .draw()?;
        let style = ("sans-serif", 15).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Center));
        for row in rows {
            let place = |values: &[&String], value: &String| values.iter().position(|known| *known == value);
            let (Some(x), Some(y)) = (place(&xs, &row.point[x_axis]), place(&ys, &row.point[y_axis])) else {
                continue;
            };
            let (x, y) = (x as f64, y as f64);
            let number = row.mean(&value);
            // By powers, since some are ten times others.
            let shade = if high > low { (number / low).ln() / (high / low).ln() } else { 0.0 };
            let shade = if shade.is_finite() { shade.clamp(0.0, 1.0) } else { 0.0 };
            let cell =
                Rectangle::new([(x, y), (x + 1.0, y + 1.0)], colour(1).mix(0.06 + 0.84 * shade).filled());
            chart.draw_series(std::iter::once(cell))?;
            let text = if number >= 100.0 { format!("{number:.0}") } else { format!("{number:.2}") };
            let ink = if shade > 0.55 { &WHITE } else { &BLACK };
            chart.draw_series(std::iter::once(Text::new(
                text,
                (x + 0.5, y + 0.5),
                style.clone().color(ink),
            )))?;
        }
        Ok(())
    })
}
