//! What scripts draw from.

use serde::Serialize;

use crate::encode::{QUANTUM_MS, encode};
use crate::model::{
    Axis, Cdf, Colour, Curves, Distribution, FigureKind, Lines, Point, Role, Scale, Series, Steps,
};
use crate::style::{MAP_RANGE, Style, VIRIDIS};

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Payload<'a> {
    Curves(CurvesPayload<'a>),
    Lines(LinesPayload<'a>),
}

#[derive(Serialize)]
struct CurvesPayload<'a> {
    x: AxisPayload<'a>,
    y_label: &'a str,
    item: &'a str,
    by_rank: bool,
    own_scale: bool,
    quantum_ms: f64,
    map: [[u8; 3]; 16],
    map_light: (f64, f64),
    map_dark: (f64, f64),
    panels: Vec<PanelPayload<'a>>,
}

#[derive(Serialize)]
struct PanelPayload<'a> {
    title: &'a str,
    style: StylePayload,
    curves: String,
    marks: Vec<(&'a str, f64)>,
}

#[derive(Serialize)]
struct LinesPayload<'a> {
    x: AxisPayload<'a>,
    y: AxisPayload<'a>,
    /// Whether values are shares of 1, to be shown in percent.
    shares: bool,
    /// Whether points are marked.
    dots: bool,
    xs: Vec<f64>,
    series: Vec<SeriesPayload<'a>>,
}

#[derive(Serialize)]
struct SeriesPayload<'a> {
    name: &'a str,
    style: StylePayload,
    bound: bool,
    ys: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    low: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    high: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct AxisPayload<'a> {
    label: &'a str,
    unit: &'a str,
    log: bool,
    ticks: &'a [f64],
}

#[derive(Serialize)]
struct StylePayload {
    colour: usize,
    dashes: &'static [u8],
}

impl<'a> From<&'a Axis> for AxisPayload<'a> {
    fn from(axis: &'a Axis) -> Self {
        Self { label: &axis.label, unit: &axis.unit, log: axis.scale == Scale::Log, ticks: &axis.ticks }
    }
}

impl From<Style> for StylePayload {
    fn from(style: Style) -> Self {
        Self { colour: style.colour_index(), dashes: style.dashes() }
    }
}

/// The data of a figure as JSON, if scripts draw it.
pub(super) fn of(kind: &FigureKind) -> Option<String> {
    let payload = match kind {
        FigureKind::Curves(curves) => Payload::Curves(of_curves(curves)),
        FigureKind::Lines(lines) => Payload::Lines(of_lines(lines)),
        FigureKind::Cdf(cdf) => Payload::Lines(of_cdf(cdf)),
        FigureKind::Bars(_) | FigureKind::Histogram(_) | FigureKind::Heat(_) => return None,
    };
    Some(serde_json::to_string(&payload).expect("numbers that are not finite are left out, keys are texts"))
}

fn of_curves(curves: &Curves) -> CurvesPayload<'_> {
    let panels = curves.panels.iter().map(|panel| PanelPayload {
        title: &panel.title,
        style: panel.style.into(),
        curves: encode(&panel.curves),
        marks: panel
            .marks
            .iter()
            .filter(|mark| mark.at.is_finite())
            .map(|mark| (&*mark.label, mark.at))
            .collect(),
    });
    CurvesPayload {
        x: (&curves.x).into(),
        y_label: &curves.y_label,
        item: &curves.item,
        by_rank: curves.colour == Colour::ByRank,
        own_scale: curves.steps == Steps::Own,
        quantum_ms: QUANTUM_MS,
        map: VIRIDIS,
        map_light: MAP_RANGE.0,
        map_dark: MAP_RANGE.1,
        panels: panels.collect(),
    }
}

fn of_lines(lines: &Lines) -> LinesPayload<'_> {
    let fits = |point: &&Point| point.x.is_finite() && (lines.x.scale == Scale::Linear || point.x > 0.0);
    let mut xs: Vec<f64> =
        lines.series.iter().flat_map(|series| &series.points).filter(fits).map(|point| point.x).collect();
    xs.sort_unstable_by(f64::total_cmp);
    xs.dedup();
    let usable =
        |value: f64| (value.is_finite() && (lines.y.scale == Scale::Linear || value > 0.0)).then_some(value);
    let of_series = |series: &Series, value: fn(&Point) -> f64| -> Vec<Option<f64>> {
        let at = |x: &f64| series.points.iter().find(|point| point.x == *x);
        xs.iter().map(|x| at(x).and_then(|point| usable(value(point)))).collect()
    };
    let series = lines.series.iter().map(|series| {
        let has_spread = series.points.iter().any(|point| point.high > point.low);
        let spread = |value| if has_spread { of_series(series, value) } else { Vec::new() };
        SeriesPayload {
            name: &series.name,
            style: series.style.into(),
            bound: series.role == Role::Bound,
            ys: of_series(series, |point| point.y),
            low: spread(|point| point.low),
            high: spread(|point| point.high),
        }
    });
    let series = series.collect();
    LinesPayload { x: (&lines.x).into(), y: (&lines.y).into(), shares: false, dots: true, xs, series }
}

/// How many times a distribution is looked up: more than a figure has pixels for.
const SAMPLES: usize = 800;

fn of_cdf(cdf: &Cdf) -> LinesPayload<'_> {
    let sorted: Vec<Vec<f64>> = cdf.series.iter().map(Distribution::sorted).collect();
    let all =
        || sorted.iter().flatten().copied().filter(|value| *value > 0.0 || cdf.x.scale == Scale::Linear);
    let (from, to) = match cdf.x.scale {
        Scale::Linear => (0.0, all().fold(0.0, f64::max)),
        Scale::Log => (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max)),
    };
    let xs: Vec<f64> = match (to > from, cdf.x.scale) {
        (false, _) => Vec::new(),
        (true, Scale::Linear) => {
            (0..=SAMPLES).map(|index| rounded(from + (to - from) * index as f64 / SAMPLES as f64)).collect()
        }
        (true, Scale::Log) => (0..=SAMPLES)
            .map(|index| rounded(from * (to / from).powf(index as f64 / SAMPLES as f64)))
            .collect(),
    };
    let series = cdf.series.iter().zip(&sorted).map(|(series, values)| SeriesPayload {
        name: &series.name,
        style: series.style.into(),
        bound: false,
        // Rounding must not cut the last value off.
        ys: xs.iter().map(|x| Some((series.share(values, *x + 1e-3) * 1e4).round() / 1e4)).collect(),
        low: Vec::new(),
        high: Vec::new(),
    });
    LinesPayload {
        x: (&cdf.x).into(),
        y: AxisPayload { label: &cdf.y_label, unit: "", log: false, ticks: &[] },
        shares: true,
        dots: false,
        series: series.collect(),
        xs,
    }
}

/// A value with four digits after the point.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
