//! Which labels axes have, where keys stand, and how numbers are written.

use super::scale::{fit, thinned};
use super::*;
use crate::words::*;

const ACROSS: Room = Room::Across(700);
const UPRIGHT: Room = Room::Upright(360);

fn linear(range: std::ops::Range<f64>, unit: Unit, room: Room) -> Axis {
    Scale::linear("", range, unit).axis(room)
}

fn powers(range: std::ops::Range<f64>, unit: Unit, room: Room) -> Axis {
    Scale::powers("", range, unit).axis(room)
}

/// No two labels of an axis touch.
fn labels_fit(axis: &Axis, room: Room) -> bool {
    let ticks: Vec<Tick> =
        plotters::coord::ranged1d::Ranged::key_points(axis, plotters::coord::ranged1d::BoldPoints(100))
            .into_iter()
            .map(|value| (value, plotters::coord::ranged1d::ValueFormatter::format_ext(axis, &value)))
            .collect();
    fit(&ticks, &|value| axis.scale().share_of(value), room)
}

#[test]
fn powers_are_labelled_at_one_two_and_five() {
    let axis = powers(30.0..2_600.0, Unit::Milliseconds, ACROSS);
    assert_eq!(axis.labels(), ["50 ms", "100 ms", "200 ms", "500 ms", "1 s", "2 s"]);
    assert!(labels_fit(&axis, ACROSS));
}

#[test]
fn long_ranges_are_labelled_at_powers_or_at_some_of_them() {
    let axis = powers(1.0..1e6, Unit::Bytes, Room::Across(500));
    assert_eq!(axis.labels(), ["1 B", "10 B", "100 B", "1 kB", "10 kB", "100 kB", "1 MB"]);
    let axis = powers(1.0..1e9, Unit::Bytes, Room::Across(320));
    assert_eq!(axis.labels(), ["1 B", "100 B", "10 kB", "1 MB", "100 MB"]);
}

#[test]
fn short_ranges_by_powers_have_equal_steps() {
    let axis = powers(110.0..190.0, Unit::Milliseconds, ACROSS);
    assert_eq!(
        axis.labels(),
        ["110 ms", "120 ms", "130 ms", "140 ms", "150 ms", "160 ms", "170 ms", "180 ms", "190 ms"]
    );
}

#[test]
fn labels_never_touch() {
    for pixels in [40, 90, 150, 300, 700] {
        for (low, high) in [(0.9, 24.0), (0.9, 1.1), (1.0, 1e12), (8.0, 11.0), (1e-4, 3.0), (31.8, 33.0)] {
            for unit in [Unit::Number, Unit::Count, Unit::Milliseconds, Unit::Bytes, Unit::Share] {
                for room in [Room::Across(pixels), Room::Upright(pixels)] {
                    for axis in [powers(low..high, unit, room), linear(low..high, unit, room)] {
                        assert!(
                            labels_fit(&axis, room),
                            "{low} to {high}, {unit:?}, {room:?}: {:?}",
                            axis.labels()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn linear_axes_have_round_steps() {
    assert_eq!(
        linear(0.0..450.0, Unit::Milliseconds, UPRIGHT).labels(),
        ["0", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms", "300 ms", "350 ms", "400 ms", "450 ms"]
    );
    assert_eq!(
        linear(0.0..1.02, Unit::Share, Room::Upright(180)).labels(),
        ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    );
    assert_eq!(linear(0.5..3.5, Unit::Count, ACROSS).labels(), ["1", "2", "3"]);
    assert_eq!(linear(0.0..2_500.0, Unit::Milliseconds, ACROSS).labels()[1..3], ["500 ms", "1 s"]);
    assert_eq!(linear(0.0..16_000.0, Unit::Bytes, ACROSS).labels().last(), Some(&"16 kB"));
    assert_eq!(linear(5.0..5.0, Unit::Number, ACROSS).labels(), ["5"], "one value");
}

#[test]
fn given_values_are_labelled_where_they_fit() {
    let values = ["64 B", "256 B", "1 kB", "4 kB", "16 kB", "64 kB"];
    let (swept, at) = Swept::new(&values);
    assert_eq!(at, [64.0, 256.0, 1e3, 4e3, 16e3, 64e3]);
    assert!(swept.by_powers && swept.numbers);
    let scale = Scale::swept("", &swept);
    let wide = scale.axis(ACROSS);
    assert_eq!(wide.labels(), values);
    let narrow = scale.axis(Room::Across(150));
    assert_eq!(narrow.labels(), ["64 B", "1 kB", "64 kB"], "the ends, and what fits between");
    let crowded: Vec<Tick> = [5.0, 10.0, 11.0, 100.0].map(|value| (value, value.to_string())).into();
    let kept = thinned(&crowded, &|value| value / 100.0, Room::Across(800));
    assert_eq!(kept.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [5.0, 10.0, 100.0]);
}

#[test]
fn values_of_a_sweep_are_placed_by_their_size() {
    let at = |values: &[&str]| Swept::new(values).1;
    assert_eq!(at(&["10 Mbit/s", "50 Mbit/s"]), [10.0, 50.0], "one unit");
    assert_eq!(at(&["500 us", "1 ms", "2 s"]), [500e-6, 1e-3, 2.0]);
    assert_eq!(at(&["95", "1000", "95"]), [95.0, 1000.0, 95.0]);
    let (order, at) = Swept::new(&["interleaved", "sequential", "interleaved"]);
    assert_eq!(at, [0.0, 1.0, 0.0]);
    assert!(!order.numbers && !order.by_powers && order.ticks.len() == 2);
}

#[test]
fn places_between_values_of_a_sweep_have_names() {
    let (sizes, _) = Swept::new(&["64 B", "256 B", "1 kB"]);
    assert_eq!(sizes.label(315.4), "315 B");
    assert_eq!(sizes.label(64.0), "64 B");
    assert_eq!(sizes.label(1_250.0), "1.25 kB");
    let (peers, _) = Swept::new(&["5", "10", "20"]);
    assert_eq!(peers.label(7.0), "7.00");
}

#[test]
fn keys_stand_side_by_side_and_inside() {
    let entries = |labels: &[&str]| -> Vec<(Mark, String)> {
        labels.iter().map(|label| (Mark::Line(Ink::BLACK), (*label).to_owned())).collect()
    };
    let long = "A run whose name has as much to say as its scenario, and then a little more, and more than anybody reads";
    for labels in [vec!["a"], vec!["a", "bb", "ccc"], vec!["CAT as it should be"; 9], vec![long; 3], vec![]] {
        for width in [300, 800, 1200] {
            let key = Key::new(entries(&labels), width);
            let spans = key.spans();
            assert_eq!(spans.iter().map(Vec::len).sum::<usize>(), labels.len(), "all are there");
            for row in &spans {
                assert!(
                    row.iter().all(|(from, until)| *from >= 0.0 && *until <= f64::from(width)),
                    "{row:?}"
                );
                assert!(row.windows(2).all(|pair| pair[0].1 < pair[1].0), "they do not touch: {row:?}");
            }
        }
    }
    let rows = |count: usize| Key::new(entries(&vec!["CAT as it should be"; count]), 800).spans().len();
    assert_eq!((rows(1), rows(3), rows(4), rows(8)), (1, 1, 1, 2));
}

#[test]
fn a_figure_is_as_high_as_its_chart_and_its_key() {
    let key = [(Mark::Line(Ink::BLACK), "one".to_owned()), (Mark::Line(Ink::of(0)), "two".to_owned())];
    let svg = drawn_with((400, 300), key.clone(), |area| Ok(area.fill(&WHITE)?));
    assert!(svg.contains(&format!("height=\"{}\"", 300 + Key::new(key, 400).height())), "{svg}");
}

#[test]
fn long_labels_are_wrapped_and_then_cut() {
    let label = "Announces, never delivers; CAT of 2023";
    assert_eq!(wrapped(label, 1e4, LABEL_SIZE, 2), [label]);
    let lines = wrapped(label, 200.0, LABEL_SIZE, 2);
    assert_eq!(lines, ["Announces, never delivers;", "CAT of 2023"]);
    let lines = wrapped(label, 90.0, LABEL_SIZE, 2);
    assert!(lines.len() == 2 && lines[1].ends_with('…'), "{lines:?}");
    assert!(lines.iter().all(|line| text_pixels(line, LABEL_SIZE) <= 90.0), "{lines:?}");
}

#[test]
fn numbers_below_one_are_written_as_they_are() {
    let labels = [0.2, 0.000_5, 1.5, 2e6, 0.0].map(|value| Unit::Number.label(value));
    assert_eq!(labels, ["0.2", "0.0005", "1.5", "2 M", "0"]);
}

#[test]
fn every_formatter_writes_a_dash_for_a_number_that_is_not_finite() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut written = vec![
            fixed(value, 2),
            percent(value, 1),
            signed_percent(value),
            percent_range(value, 0.5),
            percent_range(0.5, value),
            ms(value),
            short_ms(value),
            grouped(value),
            number(value),
            Swept::new(&["1 ms", "2 ms"]).0.label(value),
        ];
        let units = [Unit::Number, Unit::Count, Unit::Milliseconds, Unit::Bytes, Unit::Share];
        written.extend(units.map(|unit| unit.label(value)));
        written.extend(units.map(|unit| unit.written(value)));
        assert!(written.iter().all(|text| text == MISSING), "{written:?}");
    }
}

#[test]
fn numbers_are_written_short() {
    let written = [0.0, 12.0, 1234.5, 2_500_000.5, 0.123_456].map(number);
    assert_eq!(written, ["0", "12", "1234", "2.50 M", "0.123"]);
}

#[test]
fn there_is_no_ratio_unless_both_are_finite_and_positive() {
    assert_eq!(times(3.0, 2.0), Some(1.5));
    for (a, b) in
        [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, 0.0), (0.0, 1.0), (f64::INFINITY, 1.0), (-1.0, 1.0)]
    {
        assert_eq!(times(a, b), None, "{a} {b}");
    }
}
