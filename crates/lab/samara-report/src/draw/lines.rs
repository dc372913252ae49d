//! Lines over an axis: sweeps, distributions, histograms.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    Area, BELOW, Chart, Drawn, HUES, Ink, LABEL_SIZE, LEFT, MARGIN, Mark, SIZE, Scale, Swept, Unit, chart,
    drawn, drawn_with, shortened, text_pixels, write,
};

/// Opacity of confidence bands and of the areas of histograms.
const BAND: f64 = 0.16;
/// Curves whose distance is below this part of the axis everywhere cannot be distinguished.
const SAME: f64 = 0.006;
/// Shares at which distributions have dots.
const DOTS: [f64; 2] = [0.5, 0.99];

/// Maximum number of lines with labels at their ends.
const DIRECT_MAX: usize = 10;
/// Distance of these labels, room for the lines that lead to them, and maximum width, in pixels.
const ROW_PIXELS: i32 = 18;
const LEADER_PIXELS: u32 = 26;
const LABELS_PIXELS_MAX: u32 = 240;

#[derive(Clone, Debug)]
pub struct Lines {
    pub title: String,
    /// The horizontal and the vertical axis.
    pub scales: (Scale, Scale),
    /// The lines. Lines without points have a colour but no entry in the key.
    pub lines: Vec<Line>,
    pub rings: Vec<(f64, f64)>,
    /// The text of rings in the key.
    pub ring: String,
    /// Whether the key lists the lines.
    pub has_key: bool,
    /// Whether lines join their points. Values that are no numbers have nothing between them.
    pub is_joined: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The name of the line in the key.
    pub label: String,
    /// Points on both axes. Points that are not finite are omitted.
    pub points: Vec<(f64, f64)>,
    /// Half the width of the confidence interval of each point. Empty without intervals.
    pub confidence: Vec<f64>,
    pub style: Style,
    /// The number of its colour, if that differs from its place among the lines.
    pub colour: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Style {
    /// A dot at each point.
    #[default]
    Dots,
    /// A line without dots.
    Plain,
    /// Dots where the line reaches 50 % and 99 %.
    Shares,
    /// A line of black dashes.
    Bound,
    /// A line with the area below it.
    Area,
    /// A thin line with this colour and opacity.
    Thin(Ink, f64),
}

impl Line {
    /// The colour of the line at a place among others.
    fn ink(&self, place: usize) -> Ink {
        Ink::line(self.colour.unwrap_or(place))
    }

    /// The first point at or above a share of the vertical axis.
    fn reaches(&self, share: f64) -> Option<(f64, f64)> {
        self.points.iter().copied().find(|(_, reached)| *reached >= share)
    }

    /// The time at which the line reaches a share, or its end if it does not.
    fn time(&self, share: f64) -> f64 {
        self.reaches(share).or(self.points.last().copied()).map_or(1.0, |(time, _)| time)
    }

    fn known(&self) -> impl Iterator<Item = ((f64, f64), f64)> {
        let all = self.points.iter().copied().zip(self.confidence.iter().copied());
        all.filter(|((_, value), half)| value.is_finite() && *half > 0.0)
    }

    /// The corners of a confidence band, no lower than `bottom`. `None` if there is nothing to
    /// show.
    fn band(&self, bottom: f64) -> Option<Vec<(f64, f64)>> {
        let known: Vec<((f64, f64), f64)> = self.known().collect();
        let above = known.iter().map(|((x, value), half)| (*x, value + half));
        let below = known.iter().rev().map(|((x, value), half)| (*x, (value - half).max(bottom)));
        (known.len() > 1).then(|| above.chain(below).collect())
    }
}

impl Lines {
    /// Creates lines with a key, without rings.
    pub fn new(title: impl Into<String>, scales: (Scale, Scale), lines: Vec<Line>) -> Self {
        let (rings, ring) = (Vec::new(), String::new());
        Self { title: title.into(), scales, lines, rings, ring, has_key: true, is_joined: true }
    }

    /// Creates lines of values over the axis of a sweep.
    pub fn over(
        title: impl Into<String>,
        (axis, swept): (&str, &Swept),
        unit: Unit,
        lines: Vec<Line>,
    ) -> Self {
        let ends = lines.iter().flat_map(|line| {
            let means = line.points.iter().map(|(_, value)| *value);
            means.chain(line.known().map(|((_, value), half)| value + half))
        });
        let y = Scale::fitting("", ends, unit);
        let lines = Self::new(title, (Scale::swept(axis, swept), y), lines);
        Self { is_joined: swept.numbers, ..lines }
    }

    /// Creates distributions: for each curve a label, and the shares of events within a time in
    /// milliseconds.
    pub fn shares(
        title: impl Into<String>,
        axis: &str,
        curves: impl IntoIterator<Item = (String, Vec<(f64, f64)>)>,
    ) -> Self {
        let curve = |(label, points)| Line { label, points, style: Style::Shares, ..Line::default() };
        let lines: Vec<Line> = curves.into_iter().map(curve).collect();
        let all = || lines.iter().filter(|line| !line.points.is_empty());
        let from = all().map(|line| line.time(0.01)).fold(f64::INFINITY, f64::min).max(1e-3);
        let until = all().map(|line| line.time(0.999)).fold(1e-2, f64::max) * 1.3;
        let x = Scale::powers(axis, from.min(until / 2.0)..until, Unit::Milliseconds);
        Self::new(title, (x, Scale::share()), lines)
    }

    /// A sentence about distributions that others cover. Empty if all are visible.
    pub fn hidden(&self) -> String {
        let place = |line: &Line, share| self.scales.0.share_of(line.time(share));
        let near = |one: &Line, other: &Line| {
            let shares = (1..=99).map(|percent| f64::from(percent) / 100.0);
            shares.into_iter().all(|share| (place(one, share) - place(other, share)).abs() <= SAME)
        };
        let mut groups: Vec<Vec<&Line>> = Vec::new();
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            match groups.iter_mut().find(|group| near(group[0], line)) {
                Some(group) => group.push(line),
                None => groups.push(vec![line]),
            }
        }
        let same = groups.iter().filter(|group| group.len() > 1).map(|group| {
            let names: Vec<String> = group.iter().map(|line| format!("\"{}\"", line.label)).collect();
            let [first @ .., last] = names.as_slice() else { return String::new() };
            format!(" {} and {last} coincide.", first.join(", "))
        });
        same.collect()
    }

    pub(crate) fn svg(&self) -> String {
        let labels = self.direct_labels();
        if !labels.is_empty() {
            let widest = labels.iter().map(|(_, line)| text_pixels(&line.label, LABEL_SIZE));
            let width = (widest.fold(0.0, f64::max).ceil() as u32).min(LABELS_PIXELS_MAX) + LEADER_PIXELS;
            return drawn(SIZE, |area| {
                let (plot, _) = area.split_horizontally(SIZE.0 - width);
                let chart = self.draw(&plot)?;
                label_ends(area, &chart, &labels, (SIZE.0 - width) as i32)
            });
        }
        let marks = self.lines.iter().enumerate().map(|(i, line)| match line.style {
            Style::Bound => (Mark::Dashes(Ink::BLACK), line),
            _ => (Mark::Line(line.ink(i)), line),
        });
        let named = marks.filter(|(_, line)| self.has_key && !line.points.is_empty());
        let named = named.map(|(mark, line)| (mark, line.label.clone()));
        let ring = (!self.rings.is_empty()).then(|| (Mark::Ring(Ink::BLACK), self.ring.clone()));
        drawn_with(SIZE, named.chain(ring), |area| self.draw(area).map(drop))
    }

    /// The lines, with their numbers, if each can have its label at its end: all end at the right edge
    /// and the labels fit above one another. Otherwise empty, and the figure has a key.
    pub(super) fn direct_labels(&self) -> Vec<(usize, &Line)> {
        let named: Vec<(usize, &Line)> =
            self.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty()).collect();
        let is_at_edge = |line: &Line| {
            let end = line.points.iter().rev().find(|(_, value)| value.is_finite());
            matches!(line.style, Style::Dots | Style::Bound)
                && end.is_some_and(|(x, _)| self.scales.0.share_of(*x) > 0.9)
        };
        let fits = self.has_key
            && self.is_joined
            && self.rings.is_empty()
            && (2..=DIRECT_MAX).contains(&named.len());
        if fits && named.iter().all(|(_, line)| is_at_edge(line)) { named } else { Vec::new() }
    }

    fn draw<'a, 'b>(&self, area: &'a Area<'b>) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
        let (x, y) = &self.scales;
        let (ends, bottom) = (x.ends(), y.ends().start);
        let mut chart = chart(area, &self.title, (x, y), LEFT)?;
        if self.lines.iter().any(|line| line.style == Style::Shares) {
            for share in DOTS {
                let guide = [(ends.start, share), (ends.end, share)];
                chart.draw_series(DashedLineSeries::new(guide, 5, 5, BLACK.mix(0.5).stroke_width(1)))?;
            }
        }
        for (i, line) in self.lines.iter().enumerate() {
            let colour = line.ink(i).rgb();
            let is_inside = |(x, y): &(f64, f64)| y.is_finite() && *x <= ends.end;
            let points = || line.points.iter().copied().filter(is_inside);
            let dot = |at| Circle::new(at, 4, colour.filled());
            match line.style {
                Style::Bound => {
                    let style = BLACK.stroke_width(1);
                    chart.draw_series(DashedLineSeries::new(points(), 6, 5, style))?;
                    continue;
                }
                Style::Thin(ink, opacity) => {
                    let style = ink.rgb().mix(opacity).stroke_width(1);
                    chart.draw_series(LineSeries::new(points(), style))?;
                    continue;
                }
                Style::Area => {
                    let area = AreaSeries::new(points(), bottom, colour.mix(BAND));
                    chart.draw_series(area)?;
                }
                Style::Dots => drop(chart.draw_series(points().map(dot))?),
                Style::Shares => {
                    let reached = DOTS.map(|share| Some((line.reaches(share)?.0, share)));
                    let inside = reached.into_iter().flatten().filter(is_inside);
                    chart.draw_series(inside.map(dot))?;
                }
                Style::Plain => {}
            }
            if let Some(band) = line.band(bottom).filter(|_| self.is_joined) {
                chart.draw_series([Polygon::new(band, colour.mix(BAND))])?;
            }
            let stroke = colour.stroke_width(2);
            if !self.is_joined {
                // Dots and intervals are enough.
            } else if line.colour.unwrap_or(i) < HUES {
                chart.draw_series(LineSeries::new(points(), stroke))?;
            } else {
                chart.draw_series(DashedLineSeries::new(points(), 12, 4, stroke))?;
            }
            chart.draw_series(line.known().map(|((x, value), half)| {
                PathElement::new([(x, (value - half).max(bottom)), (x, value + half)], colour)
            }))?;
        }
        chart.draw_series(self.rings.iter().map(|ring| Circle::new(*ring, 8, BLACK.stroke_width(2))))?;
        Ok(chart)
    }
}

/// Writes the label of each line right of `left`, beside its end, with a line that leads there.
fn label_ends(area: &Area<'_>, chart: &Chart<'_, '_>, lines: &[(usize, &Line)], left: i32) -> Drawn {
    let mut ends: Vec<(i32, i32, usize, &Line)> = Vec::new();
    for (number, line) in lines {
        let end = line.points.iter().rev().find(|(_, value)| value.is_finite());
        let Some((x, y)) = end.map(|end| chart.backend_coord(end)) else { continue };
        ends.push((y, x, *number, line));
    }
    ends.sort_by_key(|(y, ..)| *y);
    let mut places: Vec<i32> = ends.iter().map(|(y, ..)| *y).collect();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + ROW_PIXELS);
    }
    let mut below = (SIZE.1 - BELOW - MARGIN) as i32;
    for place in places.iter_mut().rev() {
        *place = (*place).min(below);
        below = *place - ROW_PIXELS;
    }
    let text_left = left + LEADER_PIXELS as i32;
    for ((y, x, number, line), place) in ends.into_iter().zip(places) {
        let colour = if line.style == Style::Bound { BLACK } else { line.ink(number).rgb() };
        let leader = [(x + 6, y), (left, y), (text_left - 6, place)];
        area.draw(&PathElement::new(leader, colour.mix(0.6).stroke_width(1)))?;
        let room = f64::from(SIZE.0 as i32 - text_left);
        let text = shortened(&line.label, room, LABEL_SIZE);
        write(area, &text, (text_left, place), (HPos::Left, LABEL_SIZE), &RGBColor(34, 34, 34))?;
    }
    Ok(())
}
