//! Tests of the labels of axes, the positions of keys, and the format of numbers.

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

/// Returns true if no two labels of an axis touch.
fn labels_fit(axis: &Axis, room: Room) -> bool {
    let ticks: Vec<Tick> =
        plotters::coord::ranged1d::Ranged::key_points(axis, plotters::coord::ranged1d::BoldPoints(100))
            .into_iter()
            .map(|value| (value, plotters::coord::ranged1d::ValueFormatter::format_ext(axis, &value)))
            .collect();
    fit(&ticks, &|value| axis.scale().share_of(value), room)
}

#[test]
fn logarithmic_axes_have_labels_at_one_two_and_five() {
    let axis = powers(30.0..2_600.0, Unit::Milliseconds, ACROSS);
    assert_eq!(axis.labels(), ["50 ms", "100 ms", "200 ms", "500 ms", "1 s", "2 s"]);
    assert!(labels_fit(&axis, ACROSS));
}

#[test]
fn long_logarithmic_ranges_have_labels_at_some_powers() {
    let axis = powers(1.0..1e6, Unit::Bytes, Room::Across(500));
    assert_eq!(axis.labels(), ["1 B", "10 B", "100 B", "1 kB", "10 kB", "100 kB", "1 MB"]);
    let axis = powers(1.0..1e9, Unit::Bytes, Room::Across(320));
    assert_eq!(axis.labels(), ["1 B", "100 B", "10 kB", "1 MB", "100 MB"]);
}

#[test]
fn short_logarithmic_ranges_have_equal_steps() {
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
fn given_values_have_labels_where_they_fit() {
    let values = ["64 B", "256 B", "1 kB", "4 kB", "16 kB", "64 kB"];
    let (swept, at) = Swept::new(&values);
    assert_eq!(at, [64.0, 256.0, 1e3, 4e3, 16e3, 64e3]);
    assert!(swept.by_powers && swept.numbers);
    let scale = Scale::swept("", &swept);
    let wide = scale.axis(ACROSS);
    assert_eq!(wide.labels(), values);
    let narrow = scale.axis(Room::Across(150));
    assert_eq!(narrow.labels(), ["64 B", "1 kB", "64 kB"], "the ends, and the values that fit between");
    let crowded: Vec<Tick> = [5.0, 10.0, 11.0, 100.0].map(|value| (value, value.to_string())).into();
    let kept = thinned(&crowded, &|value| value / 100.0, Room::Across(800));
    assert_eq!(kept.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [5.0, 10.0, 100.0]);
}

#[test]
fn sweep_values_are_positioned_by_their_size() {
    let at = |values: &[&str]| Swept::new(values).1;
    assert_eq!(at(&["10 Mbit/s", "50 Mbit/s"]), [10.0, 50.0], "one unit");
    assert_eq!(at(&["500 us", "1 ms", "2 s"]), [500e-6, 1e-3, 2.0]);
    assert_eq!(at(&["95", "1000", "95"]), [95.0, 1000.0, 95.0]);
    let (order, at) = Swept::new(&["interleaved", "sequential", "interleaved"]);
    assert_eq!(at, [0.0, 1.0, 0.0]);
    assert!(!order.numbers && !order.by_powers && order.ticks.len() == 2);
}

#[test]
fn positions_between_sweep_values_have_labels() {
    let (sizes, _) = Swept::new(&["64 B", "256 B", "1 kB"]);
    assert_eq!(sizes.label(315.4), "315 B");
    assert_eq!(sizes.label(64.0), "64 B");
    assert_eq!(sizes.label(1_250.0), "1.25 kB");
    let (peers, _) = Swept::new(&["5", "10", "20"]);
    assert_eq!(peers.label(7.0), "7.00");
}

#[test]
fn key_entries_do_not_touch_and_stay_inside() {
    let entries = |labels: &[&str]| -> Vec<(Mark, String)> {
        labels.iter().map(|label| (Mark::Line(Ink::BLACK), (*label).to_owned())).collect()
    };
    let long = "A run whose name has as much to say as its scenario, and then a little more, and more than anybody reads";
    for labels in [vec!["a"], vec!["a", "bb", "ccc"], vec!["CAT as it should be"; 9], vec![long; 3], vec![]] {
        for width in [300, 800, 1200] {
            let key = Key::new(entries(&labels), width);
            let spans = key.spans();
            assert_eq!(spans.iter().map(Vec::len).sum::<usize>(), labels.len(), "all entries are drawn");
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
fn figure_height_is_that_of_chart_and_key() {
    let key = [(Mark::Line(Ink::BLACK), "one".to_owned()), (Mark::Line(Ink::of(0)), "two".to_owned())];
    let svg = drawn_with((400, 300), key.clone(), |area| Ok(area.fill(&WHITE)?));
    assert!(svg.contains(&format!("height=\"{}\"", 300 + Key::new(key, 400).height())), "{svg}");
}

/// Scripts and figures use colours by name, and the page's style sheet has each in light and dark.
#[test]
fn colours_of_pages_have_a_light_and_a_dark_value() {
    let style = include_str!("../page/page.css");
    let dark = style.find("prefers-color-scheme:dark").unwrap();
    let end = style[dark..].find('\n').unwrap() + dark;
    let scripts = [
        include_str!("../page/draw.js"),
        include_str!("../page/figures.js"),
        include_str!("../page/path.js"),
        include_str!("../page/race.js"),
    ];
    let boxes =
        [Ink::BLACK, Ink::GREY, Ink::LIGHT, Ink::WARM].map(|ink| Block::new([(0.0, 0.0), (1.0, 1.0)], ink));
    let title = String::new();
    let scales = (Scale::share(), Scale::share());
    let boxes = Boxes { title, scales, height: 9, boxes: boxes.into(), lines: Vec::new(), key: Vec::new() };
    let data = crate::Figure::new("boxes", "", boxes).data().to_string();
    let mut count = 0;
    for text in scripts.into_iter().chain([data.as_str()]) {
        for name in text.split("var(--").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name)
        {
            let name = if name.starts_with("c$") { "c1" } else { name };
            let declared = format!("--{name}:");
            count += 1;
            assert!(style[..dark].contains(&declared) && style[dark..end].contains(&declared), "{name}");
        }
    }
    assert!(count > 30, "{count}");
    for (place, colour) in COLOURS.iter().enumerate() {
        assert!(style[..dark].contains(&format!("--c{place}:{colour};")), "{colour} is that of files too");
    }
}

/// The simulated distance of colours for readers with protanopia and deuteranopia, after Machado et al.
/// (2009), in CIELAB.
#[test]
fn colours_of_lines_differ_for_colour_blind_readers() {
    const EYES: [[[f64; 3]; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ];
    let lab = |ink: Ink, eye: &[[f64; 3]; 3]| {
        let linear = [ink.0, ink.1, ink.2].map(|part| match f64::from(part) / 255.0 {
            low @ ..=0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        });
        let mix = |row: &[f64; 3]| row.iter().zip(linear).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0);
        let [red, green, blue] = [mix(&eye[0]), mix(&eye[1]), mix(&eye[2])];
        let root = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = root((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.950_47);
        let y = root(0.2126 * red + 0.7152 * green + 0.0722 * blue);
        let z = root((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    };
    for eye in &EYES {
        for one in 0..HUES {
            for other in 0..one {
                let [a, b] = [one, other].map(|number| lab(Ink::line(number), eye));
                let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                assert!(distance > 14.0, "colours {one} and {other}: {distance}");
            }
        }
    }
}

#[test]
fn long_labels_are_wrapped_then_shortened() {
    let label = "Announces, never delivers; CAT of 2023";
    assert_eq!(wrapped(label, 1e4, LABEL_SIZE, 2), [label]);
    let lines = wrapped(label, 200.0, LABEL_SIZE, 2);
    assert_eq!(lines, ["Announces, never delivers;", "CAT of 2023"]);
    let lines = wrapped(label, 90.0, LABEL_SIZE, 2);
    assert!(lines.len() == 2 && lines[1].ends_with('…'), "{lines:?}");
    assert!(lines.iter().all(|line| text_pixels(line, LABEL_SIZE) <= 90.0), "{lines:?}");
}

#[test]
fn numbers_below_one_have_no_prefix() {
    let labels = [0.2, 0.000_5, 1.5, 2e6, 0.0].map(|value| Unit::Number.label(value));
    assert_eq!(labels, ["0.2", "0.0005", "1.5", "2 M", "0"]);
}

#[test]
fn all_formatters_write_a_dash_for_numbers_that_are_not_finite() {
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
fn only_all_is_a_hundred_percent() {
    let shares = [1.0, 0.9996, 0.999_999_6, 0.5, 1.0 - 1e-15];
    assert_eq!(
        shares.map(|share| percent(share, 1)),
        ["100.0 %", "99.96 %", "99.99996 %", "50.0 %", "100.0 %"]
    );
    assert_eq!(shares.map(|share| percent(share, 0))[..2], ["100 %", "99.96 %"]);
    assert_eq!(shares.map(|share| Unit::Share.written(share))[..2], ["100 %", "99.96 %"]);
    assert_eq!(percent_range(0.2, 0.9996), "20-99.96 %");
}

#[test]
fn numbers_are_formatted_briefly() {
    let written = [0.0, 12.0, 1234.5, 2_500_000.5, 0.123_456].map(number);
    assert_eq!(written, ["0", "12", "1234", "2.50 M", "0.123"]);
}

#[test]
fn ratio_requires_finite_positive_numbers() {
    assert_eq!(times(3.0, 2.0), Some(1.5));
    for (a, b) in
        [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, 0.0), (0.0, 1.0), (f64::INFINITY, 1.0), (-1.0, 1.0)]
    {
        assert_eq!(times(a, b), None, "{a} {b}");
    }
}

/// The pixels of a figure of 100 by 60 on a white background.
fn rendered(element: &str) -> tiny_skia::Pixmap {
    let white = r##"<rect x="0" y="0" width="100" height="60" opacity="1" fill="#FFFFFF" stroke="none"/>"##;
    let svg = format!(r#"<svg width="100" height="60" viewBox="0 0 100 60">{white}{element}</svg>"#);
    tiny_skia::Pixmap::decode_png(&png(&svg).unwrap()).unwrap()
}

fn colour(pixels: &tiny_skia::Pixmap, (x, y): (u32, u32)) -> [u8; 3] {
    let pixel = pixels.pixel(x, y).unwrap();
    [pixel.red(), pixel.green(), pixel.blue()]
}

#[test]
fn elements_are_drawn_at_their_position() {
    let text = r##"<text x="50" y="30" dy="0.5ex" text-anchor="middle" font-size="40" fill="#0000FF""##;
    let (upright, turned) =
        (format!("{text}>\nI\n</text>"), format!(r#"{text} transform="rotate(270, 50, 30)">I</text>"#));
    let (blue, violet) = ([0, 0, 255], [127, 127, 255]);
    for (element, at, ink, outside) in [
        (r##"<rect x="9" y="9" width="20" height="20" fill="#0000FF"/>"##, (28, 28), blue, (29, 29)),
        (
            r##"<rect x="9" y="9" width="9" height="9" opacity="0.5" fill="#0000FF"/>"##,
            (9, 9),
            violet,
            (8, 8),
        ),
        (
            r##"<line stroke="#0000FF" stroke-width="2" x1="9" y1="20" x2="40" y2="20"/>"##,
            (39, 19),
            blue,
            (40, 19),
        ),
        (
            r##"<polyline fill="none" stroke="#0000FF" stroke-width="2" points="10,10 40,10 40,40 "/>"##,
            (40, 30),
            blue,
            (30, 20),
        ),
        (r##"<polygon fill="#0000FF" points="10,10 50,10 10,50 "/>"##, (12, 40), blue, (49, 49)),
        (r##"<circle cx="30" cy="30" r="10" fill="#0000FF"/>"##, (30, 30), blue, (38, 38)),
        (
            r##"<circle cx="30" cy="30" r="10" fill="none" stroke="#0000FF" stroke-width="4"/>"##,
            (39, 30),
            blue,
            (30, 30),
        ),
        (upright.as_str(), (50, 20), blue, (40, 30)),
        (turned.as_str(), (40, 30), blue, (50, 20)),
    ] {
        let pixels = rendered(element);
        let found = colour(&pixels, at);
        assert!(found.iter().zip(ink).all(|(one, other)| one.abs_diff(other) <= 1), "{element}: {found:?}");
        assert_eq!(colour(&pixels, outside), [255; 3], "{element}");
    }
}

#[test]
fn text_starts_ends_or_is_centred_at_its_position() {
    for (anchor, [left, right]) in
        [("start", [false, true]), ("middle", [true, true]), ("end", [true, false])]
    {
        let pixels =
            rendered(&format!(r#"<text x="50" y="30" text-anchor="{anchor}" font-size="20">Hé</text>"#));
        let has_ink = |columns: std::ops::Range<u32>| {
            columns.into_iter().any(|x| (0..60).any(|y| colour(&pixels, (x, y)) != [255; 3]))
        };
        assert_eq!([has_ink(0..50), has_ink(50..100)], [left, right], "{anchor}");
        assert!(!has_ink(0..25) && !has_ink(75..100), "{anchor}");
    }
}

#[test]
fn all_glyphs_of_the_font_have_outlines() {
    let font = glyphs::Font(epaint_default_fonts::UBUNTU_LIGHT);
    let bounds = |character: char| {
        let mut path = tiny_skia::PathBuilder::new();
        font.outline(font.glyph(character), (0.0, 0.0), 100.0, &mut path);
        path.finish().map(|path| path.bounds())
    };
    let known: Vec<char> = ('\0'..='\u{ffff}').filter(|character| font.glyph(*character) != 0).collect();
    assert!(known.len() > 1_000, "{}", known.len());
    for character in &known {
        let inside = bounds(*character).is_none_or(|at| at.top() > -100.0 && at.bottom() < 20.0);
        assert!(inside && font.advance(font.glyph(*character)) < 4.0, "{character}");
    }
    let (plain, accented) = (bounds('e').unwrap(), bounds('é').unwrap());
    assert_eq!(
        (plain.left(), plain.bottom()),
        (accented.left(), accented.bottom()),
        "the first of two parts"
    );
    assert!(plain.top() - accented.top() > 15.0, "the other part is above it");
    assert_eq!(font.glyph('\u{1f600}'), 0);
}

#[test]
fn rejects_unsupported_elements_and_attributes_by_name() {
    let of = |element: &str| format!(r#"<svg width="9" height="9">{element}</svg>"#);
    for (svg, error) in [
        (of(r#"<path d="M0,0"/>"#), "figure: unsupported element <path>"),
        (
            of(r#"<circle cx="1" cy="1" r="1" style=""/>"#),
            "figure: <circle> has the unsupported attribute style",
        ),
        (of(r#"<circle cx="1" cy="1" r="1" fill="red"/>"#), r#"figure: <circle> has "red" as fill"#),
        (of(r#"<circle cx="1" cy="1" r="1%"/>"#), r#"figure: <circle> has "1%" as r"#),
        (of(r#"<text x="1" y="1" font-size="9" dy="1em">a</text>"#), r#"figure: <text> has "1em" as dy"#),
        (of(r#"<polygon points="1,1 b"/>"#), r#"figure: <polygon> has "1,1 b" as points"#),
        ("<svg width=\"0\" height=\"9\"/>".to_owned(), "figure: it has no size"),
        ("<svg height=\"9\"/>".to_owned(), "figure: <svg> has \"nothing\" as width"),
    ] {
        assert_eq!(png(&svg).unwrap_err(), error);
    }
    assert!(png("<svg").unwrap_err().starts_with("figure: "));
}

#[test]
fn figure_too_large_for_png_is_written_as_svg_only() {
    let of = |height: u32| png(&format!(r#"<svg width="2" height="{height}"/>"#));
    assert!(of(16_384).is_ok());
    let error = "figure: too large for PNG: more than 16384 pixels wide or high";
    assert_eq!(of(16_385).unwrap_err(), error);
    let scale = Scale::linear("", 0.0..1.0, Unit::Number);
    let bars = |rows| Bars { title: String::new(), scale: scale.clone(), rows, key: Vec::new() };
    let figures = [("long", 420), ("short", 3)]
        .map(|(name, rows)| crate::Figure::new(name, "", bars(vec![Bar::default(); rows])));
    let section = crate::Section::new("", "", crate::Part::Figures(figures.into()));
    let page = crate::Page { sections: vec![section], ..crate::Page::default() };
    let files: Vec<String> = page.files().0.into_iter().map(|(name, _)| name).collect();
    assert_eq!(files, ["report.html", "figures/long.svg", "figures/short.png", "figures/short.svg"]);
}
