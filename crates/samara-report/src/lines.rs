//! A figure over a sweep: a line for each run.

use plotters::prelude::*;

use crate::draw::{Area, Drawn, colour, draw_key, drawn};

/// Axes whose last value is this much more than the first go in powers of ten: sizes of networks and of messages.
const POWERS_FROM: f64 = 20.0;
/// The same of what is shown, which is easier to read from zero on.
const UPRIGHT_POWERS_FROM: f64 = 50.0;

/// Runs over one axis of a sweep.
pub(crate) struct LinePlot<'a> {
    /// What is shown.
    pub(crate) title: &'a str,
    /// What varies.
    pub(crate) axis: &'a str,
    /// Run by run.
    pub(crate) lines: Vec<Line>,
}

/// A run.
pub(crate) struct Line {
    /// What the key calls it.
    pub(crate) label: String,
    /// Value of the axis, value of the run; what is not finite is left out.
    pub(crate) points: Vec<(f64, f64)>,
}

impl LinePlot<'_> {
    /// The figure as SVG.
    pub(crate) fn svg(&self) -> String {
        drawn(|area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let xs = || self.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
        let (least, most) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
        let by_powers = least > 0.0 && most / least >= POWERS_FROM;
        let place = |x: f64| if by_powers { x.log10() } else { x };
        let ys =
            || self.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).filter(|y| y.is_finite());
        let (bottom, top) = (ys().fold(f64::INFINITY, f64::min), ys().fold(0.0, f64::max).max(1e-3));
        let upright_by_powers = bottom > 0.0 && top / bottom >= UPRIGHT_POWERS_FROM;
        let raise = |y: f64| if upright_by_powers { y.log10() } else { y };
        let all: Vec<Vec<(f64, f64)>> = self
            .lines
            .iter()
            .map(|line| {
                let finite = line.points.iter().filter(|(_, y)| y.is_finite());
                finite.map(|(x, y)| (place(*x), raise(*y))).collect()
            })
            .collect();
        let (low, high) = (place(least), place(most));
        let (bottom, top) =
            if upright_by_powers { (bottom.log10() - 0.1, top.log10() + 0.3) } else { (0.0, top * 1.2) };
        let room = (high - low).max(1.0) * 0.03;
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(low - room..high + room, bottom..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(self.axis)
            .x_label_formatter(&|x| label(*x, by_powers))
            .y_label_formatter(&|y| label(*y, upright_by_powers))
            .label_style(("sans-serif", 15))
            .draw()?;
        for (i, (line, points)) in self.lines.iter().zip(&all).enumerate() {
            let colour = colour(i);
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
                .label(line.label.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        }
        let places = all.iter().flatten().map(|(x, y)| (*x > (low + high) / 2.0, *y > (bottom + top) / 2.0));
        draw_key(&mut chart, emptiest_corner(&places.collect::<Vec<_>>()))
    }
}

/// The number of a line of the grid; those between powers of ten have none that means anything.
fn label(place: f64, by_powers: bool) -> String {
    match by_powers {
        false => format!("{place}"),
        true if (place - place.round()).abs() > 1e-6 => String::new(),
        true => format!("{}", 10_f64.powf(place.round())),
    }
}

/// Where a key hides the least, given which points lie to the right, and which lie above.
fn emptiest_corner(places: &[(bool, bool)]) -> SeriesLabelPosition {
    let corners = [
        ((false, true), SeriesLabelPosition::UpperLeft),
        ((true, true), SeriesLabelPosition::UpperRight),
        ((true, false), SeriesLabelPosition::LowerRight),
        ((false, false), SeriesLabelPosition::LowerLeft),
    ];
    let hidden = |corner: &(bool, bool)| places.iter().filter(|place| *place == corner).count();
    let [first, others @ ..] = corners;
    others.into_iter().fold(first, |best, next| if hidden(&next.0) < hidden(&best.0) { next } else { best }).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_where_the_fewest_points_are() {
        let rising = [(false, false), (false, false), (true, true), (true, true)];
        assert!(matches!(emptiest_corner(&rising), SeriesLabelPosition::UpperLeft));
        let high = [(false, true), (true, true)];
        assert!(matches!(emptiest_corner(&high), SeriesLabelPosition::LowerRight));
        let falling = [(false, true), (true, false), (false, false)];
        assert!(matches!(emptiest_corner(&falling), SeriesLabelPosition::UpperRight));
    }
}
