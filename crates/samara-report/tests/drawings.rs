//! Figures as files.

mod common;

use common::{HOSTILE, empty_kinds, empty_report, figure, kinds, report};
use resvg::tiny_skia::Pixmap;
use roxmltree::Document;
use samara_report::export;
use samara_report::png::from_svg;
use samara_report::svg::{Use, draw};

/// Whether something is finite in an attribute that holds numbers.
fn check_numbers(document: &Document<'_>) {
    for node in document.descendants() {
        for attribute in node.attributes() {
            let value = attribute.value();
            let is_text = ["aria-label", "font-family"].contains(&attribute.name());
            assert!(
                is_text || !(value.contains("NaN") || value.contains("inf")),
                "{}={value}",
                attribute.name()
            );
        }
    }
}

#[test]
fn figures_are_xml_with_their_words() {
    for name in ["plain", HOSTILE] {
        for (index, kind) in kinds(name).into_iter().enumerate() {
            let svg = draw(&figure(index, name, kind), Use::File);
            let document =
                Document::parse(&svg).unwrap_or_else(|error| panic!("figure {index}: {error}\n{svg}"));
            check_numbers(&document);
            let root = document.root_element();
            assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
            let known = ["svg", "g", "path", "line", "rect", "circle", "text", "title", "desc"];
            for node in root.descendants().filter(roxmltree::Node::is_element) {
                assert!(known.contains(&node.tag_name().name()), "{:?}", node.tag_name());
            }
            let title =
                root.children().find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")));
            let expected = name.replace('\0', "");
            assert_eq!(title.and_then(|title| title.text()), Some(expected.as_str()));
        }
    }
}

#[test]
fn figures_of_nothing_are_drawn_as_well() {
    for (index, kind) in empty_kinds().into_iter().enumerate() {
        for purpose in [Use::File, Use::Page] {
            let svg = draw(&figure(index, "empty", kind.clone()), purpose);
            check_numbers(
                &Document::parse(&svg).unwrap_or_else(|error| panic!("figure {index}: {error}\n{svg}")),
            );
        }
        let svg = draw(&figure(index, "empty", kind), Use::File);
        from_svg(&svg, 1.0).unwrap_or_else(|error| panic!("figure {index}: {error}"));
    }
}

#[test]
fn the_same_figure_gives_the_same_files() {
    for (index, kind) in kinds("same").into_iter().enumerate() {
        let one = draw(&figure(index, "same", kind.clone()), Use::File);
        let two = draw(&figure(index, "same", kind), Use::File);
        assert_eq!(one, two);
        let (one, two) = (from_svg(&one, 1.0), from_svg(&two, 1.0));
        assert_eq!(one.expect("it can be drawn"), two.expect("it can be drawn"));
    }
}

#[test]
fn letters_are_drawn_without_fonts_of_the_machine() {
    let svg = |text: &str| {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"40\" font-family=\"Inter, system-ui\">\
             <text x=\"4\" y=\"30\" font-size=\"24\">{text}</text></svg>"
        )
    };
    let inked = |text: &str| {
        let png = from_svg(&svg(text), 1.0).expect("it can be drawn");
        let pixels = Pixmap::decode_png(&png).expect("it is a PNG");
        pixels.pixels().iter().filter(|pixel| pixel.alpha() > 128).count()
    };
    assert_eq!(inked(""), 0);
    for sign in "Wx0×±≥–µ✓%·…−".chars() {
        assert!(inked(&sign.to_string()) > 0, "{sign}");
    }
    assert!(inked("MMMM") > inked("M"));
}

#[test]
fn steps_of_curves_lie_where_arrivals_were() {
    // Two arrivals at a quarter and at the end of the axis: two steps, the second three times as far as the first.
    let kind = common::curves(vec![common::panel("run", vec![common::curve(3, 2, &[100.0, 400.0])])]);
    let svg = draw(&figure(0, "steps", kind), Use::File);
    let document = Document::parse(&svg).expect("it is XML");
    let paths: Vec<&str> = document
        .descendants()
        .filter(|node| {
            node.parent().is_some_and(|parent| parent.has_tag_name(("http://www.w3.org/2000/svg", "g")))
        })
        .filter_map(|node| node.attribute("d"))
        .collect();
    let [path] = paths.as_slice() else { panic!("one curve, not {paths:?}") };
    let numbers: Vec<f64> = path
        .split(|c: char| c.is_ascii_alphabetic() || c == ' ')
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().expect("a number"))
        .collect();
    let [x, _, up_1, across, up_2] = numbers.as_slice() else { panic!("two steps, not {path}") };
    assert!((up_1 - up_2).abs() < 0.2 && *up_1 < -50.0, "each step is half of the height: {path}");
    let left = x - across / 3.0;
    assert!((left - 58.0).abs() < 1.0, "time 0 is at the left: {path}");
}

#[test]
fn a_report_is_written_to_files() {
    let directory = std::env::temp_dir().join(format!("samara-report-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    for report in [report(HOSTILE), empty_report()] {
        let page = export::write(&report, &directory).expect("it can be written");
        assert_eq!(std::fs::read_to_string(page).expect("it is there"), samara_report::html::page(&report));
        let count = std::fs::read_dir(directory.join("figures")).expect("it is there").count();
        assert!(count >= 2 * report.figures().count(), "{count}");
    }
    std::fs::remove_dir_all(&directory).expect("it can go");
}
