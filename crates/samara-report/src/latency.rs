//! How soon there is what was sent, run by run.

use plotters::prelude::*;

use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Unit, chart, colour, drawn_with, rooms};

/// Curves that are nowhere further apart than this part of the axis cannot be told from each other.
const SAME: f64 = 0.006;

/// A run: milliseconds, and the share of deliveries that took at most so long.
pub(crate) struct Curve<'a> {
    /// What the key calls it.
    pub(crate) label: &'a str,
    pub(crate) points: &'a [(f64, f64)],
}

impl Curve<'_> {
    /// The time by which a share of deliveries was made.
    fn at(&self, share: f64) -> f64 {
        let reached = self.points.iter().find(|(_, reached)| *reached >= share);
        reached.or(self.points.last()).map_or(1.0, |(ms, _)| *ms)
    }
}

fn with_points<'a, 'b>(curves: &'a [Curve<'b>]) -> impl Iterator<Item = (usize, &'a Curve<'b>)> {
    curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty())
}

fn axis(curves: &[Curve<'_>]) -> Axis {
    let all = || with_points(curves).map(|(_, curve)| curve);
    let from = all().map(|curve| curve.at(0.01)).fold(f64::INFINITY, f64::min).max(1e-3);
    let until = all().map(|curve| curve.at(0.999)).fold(1e-2, f64::max) * 1.3;
    Axis::powers(from.min(until / 2.0)..until, Unit::Milliseconds, rooms(SIZE, LEFT).0)
}

/// A curve for each run over what the name says.
pub(crate) fn figure(curves: &[Curve<'_>], name: &str) -> String {
    titled("deliveries that were made by then", curves, name)
}

/// The same of anything that happens in time.
pub(crate) fn titled(title: &str, curves: &[Curve<'_>], name: &str) -> String {
    let (x, y) = (axis(curves), Axis::linear(0.0..1.02, Unit::Share, rooms(SIZE, LEFT).1));
    let key = with_points(curves).map(|(i, curve)| (Mark::Line(colour(i)), curve.label.to_owned()));
    drawn_with(&Key::new(key, SIZE.0), |area| {
        let mut chart = chart(area, title, (&x, name), (&y, ""))?;
        for (i, curve) in with_points(curves) {
            let colour = colour(i);
            let until = x.ends().end;
            let inside = curve.points.iter().copied().filter(|(ms, _)| *ms <= until);
            chart.draw_series(LineSeries::new(inside, colour.stroke_width(2)))?;
            let dots = [0.5, 0.99].map(|share| Circle::new((curve.at(share), share), 4, colour.filled()));
            chart.draw_series(dots)?;
        }
        Ok(())
    })
}

/// Runs whose curves lie on those of others, in words; nothing if all can be seen.
pub(crate) fn hidden(curves: &[Curve<'_>]) -> String {
    let axis = axis(curves);
    let near = |one: &Curve<'_>, other: &Curve<'_>| {
        (1..=99).all(|percent| {
            let share = f64::from(percent) / 100.0;
            (axis.share(one.at(share)) - axis.share(other.at(share))).abs() <= SAME
        })
    };
    let mut groups: Vec<Vec<&Curve<'_>>> = Vec::new();
    for (_, curve) in with_points(curves) {
        match groups.iter_mut().find(|group| near(group[0], curve)) {
            Some(group) => group.push(curve),
            None => groups.push(vec![curve]),
        }
    }
    let same = groups.iter().filter(|group| group.len() > 1).map(|group| {
        let names: Vec<String> = group.iter().map(|curve| format!("\"{}\"", curve.label)).collect();
        let [first @ .., last] = names.as_slice() else { return String::new() };
        format!(" {} and {last} lie on each other.", first.join(", "))
    });
    same.collect()
}
