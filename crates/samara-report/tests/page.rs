//! The page: complete in itself, safe, the same every time.

mod common;

use std::collections::BTreeSet;

use common::{HOSTILE, empty_report, report};
use samara_report::encode::{QUANTUM_MS, decode};
use samara_report::html::page;
use samara_report::model::Report;
use scraper::{Html, Selector};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn all<'a>(document: &'a Html, selector: &str) -> Vec<scraper::ElementRef<'a>> {
    let selector = Selector::parse(selector).expect("selectors of tests are right");
    document.select(&selector).collect()
}

fn payloads(document: &Html) -> Vec<Value> {
    all(document, "script[type='application/json']")
        .into_iter()
        .map(|script| serde_json::from_str(&script.inner_html()).expect("payloads are JSON"))
        .collect()
}

#[test]
fn nothing_is_loaded() {
    for report in [report("plain"), report(HOSTILE), empty_report()] {
        let page = page(&report);
        let document = Html::parse_document(&page);
        for element in all(&document, "*") {
            for (name, value) in element.value().attrs() {
                let may_load = ["src", "srcset", "data", "poster", "action", "background"].contains(&name);
                assert!(!may_load, "{name}={value}");
                let is_within = value.starts_with('#');
                assert!(!(name == "href" || name == "xlink:href") || is_within, "{name}={value}");
                assert!(!name.starts_with("on"), "{name}={value}");
            }
        }
        assert!(all(&document, "link, iframe, object, embed, base, img").is_empty());
        for style in all(&document, "style") {
            let text = style.inner_html();
            assert!(!text.contains("@import") && !text.contains("url("));
        }
        for script in all(&document, "script:not([type])") {
            let text = script.inner_html();
            for loads in
                ["fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon", "new Image", "eval("]
            {
                assert!(!text.contains(loads), "{loads}");
            }
        }
        let policy = all(&document, "meta[http-equiv='Content-Security-Policy']");
        assert!(policy[0].attr("content").is_some_and(|policy| policy.starts_with("default-src 'none'")));
    }
}

#[test]
fn texts_stay_texts() {
    let (plain, hostile) = (page(&report("plain")), page(&report(HOSTILE)));
    let (plain, hostile) = (Html::parse_document(&plain), Html::parse_document(&hostile));
    // A name adds no element but the code that it marks itself.
    for selector in ["script", "b", "td, th", "figure", "svg", "section", "noscript"] {
        assert_eq!(all(&plain, selector).len(), all(&hostile, selector).len(), "{selector}");
    }
    assert!(all(&hostile, "[onclick]").is_empty());
    let title = all(&hostile, "h1")[0].text().collect::<String>();
    assert_eq!(title, HOSTILE.replace('\0', ""));
    let titles: Vec<Value> = payloads(&hostile)
        .into_iter()
        .filter(|payload| payload["kind"] == "curves")
        .map(|payload| payload["panels"][0]["title"].clone())
        .collect();
    assert_eq!(titles, [Value::from(HOSTILE)]);
}

#[test]
fn marks_become_elements_and_only_whole_ones() {
    let of = |text: &str| {
        let page = page(&Report { subtitle: text.to_owned(), ..Report::default() });
        let document = Html::parse_document(&page);
        all(&document, ".lead")[0].inner_html()
    };
    assert_eq!(of("a `b<` **c**"), "a <code>b&lt;</code> <strong>c</strong>");
    assert_eq!(of("`a **b** `"), "<code>a **b** </code>");
    assert_eq!(of("2 ** 3, `open"), "2 ** 3, `open");
}

#[test]
fn the_same_report_gives_the_same_page() {
    assert_eq!(page(&report("same")), page(&report("same")));
    assert_ne!(page(&report("same")), page(&report("other")));
}

#[test]
fn figures_have_data_for_scripts_and_a_picture_without() {
    let page = page(&report("plain"));
    let document = Html::parse_document(&page);
    let payloads = payloads(&document);
    assert_eq!(payloads.len(), 4, "curves, two of lines and a distribution");
    assert_eq!(page.matches("<noscript>").count(), 4);
    for place in all(&document, "[data-figure]") {
        let id = place.attr("data-figure").expect("it was selected by it");
        assert_eq!(all(&document, &format!("#{id}")).len(), 1);
    }
    let curves = &payloads[0]["panels"][0]["curves"];
    let decoded = decode(curves.as_str().expect("curves are a text")).expect("curves can be decoded");
    assert_eq!(
        decoded,
        [common::curve(0, 3, &[10.0, 30.0, 200.0]), common::curve(5, 2, &[90.0])].map(|mut curve| {
            curve.arrivals_ms.iter_mut().for_each(|at| *at = (*at / QUANTUM_MS).round() * QUANTUM_MS);
            curve
        })
    );
    assert_eq!(payloads[1]["xs"], serde_json::json!([10.0, 20.0, 100.0]));
    assert_eq!(payloads[1]["series"][1]["ys"], serde_json::json!([300.0, null, 30.0]));
    assert_eq!(payloads[1]["series"][0]["low"], serde_json::json!([380.0, 210.0, 55.5]));
    let shares = payloads[3]["series"][0]["ys"].as_array().expect("a list");
    assert_eq!(shares.last(), Some(&Value::from(0.75)), "one of four never came");
}

#[test]
fn ids_are_unique_and_references_lead_somewhere() {
    for report in [report("plain"), report(HOSTILE), empty_report()] {
        let page = page(&report);
        let document = Html::parse_document(&page);
        let ids: Vec<&str> =
            all(&document, "[id]").into_iter().filter_map(|element| element.attr("id")).collect();
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len());
        for link in all(&document, "a[href]") {
            let target = link.attr("href").and_then(|href| href.strip_prefix('#'));
            assert!(target.is_some_and(|target| unique.contains(target)));
        }
        for element in all(&document, "[aria-labelledby]") {
            assert!(unique.contains(element.attr("aria-labelledby").expect("it was selected by it")));
        }
        for picture in all(&document, "svg[role='img']") {
            assert!(picture.attr("aria-label").is_some());
        }
    }
}

#[test]
fn nothing_arrived_and_the_page_says_so() {
    let page = page(&empty_report());
    assert!(page.contains("nothing arrived"));
    for bad in ["NaN", "inf"] {
        let body =
            &page[page.find("<main>").expect("there is a body")..page.find("</main>").expect("it ends")];
        assert!(!body.contains(bad), "{bad}");
    }
}

#[test]
fn the_best_are_marked_within_their_group() {
    let page = page(&report("plain"));
    let document = Html::parse_document(&page);
    let table = all(&document, "section table")[0];
    let best = Selector::parse("td.best").expect("a selector");
    let texts: Vec<String> = table.select(&best).map(|cell| cell.text().collect()).collect();
    // The only number of the group "warm" is the best of nothing.
    assert_eq!(texts, ["2,171", "2.22", "99.9"]);
}

#[test]
fn what_comes_from_others_is_what_it_was() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/uplot");
    let sums = std::fs::read_to_string(format!("{folder}/SHA256SUMS")).expect("digests are there");
    let mut checked = 0;
    for line in sums.lines() {
        let (expected, name) = line.split_once("  ").expect("a digest and a name");
        let bytes = std::fs::read(format!("{folder}/{name}")).expect("the file is there");
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, expected, "{name}");
        checked += 1;
    }
    assert_eq!(checked, 2);
}

#[test]
fn a_large_report_is_small() {
    // Seven schedules, 128 columns and 999 nodes with 16 columns each.
    let node = |number: u32| {
        let arrivals: Vec<f64> =
            (0..16).map(|column| f64::from(number * 7919 % 977 + column * 411 % 6800)).collect();
        common::curve(number, 16, &arrivals)
    };
    let column = |number: u32| {
        let arrivals: Vec<f64> = (0..125).map(|peer| f64::from(number * 52 + peer * 31 % 401)).collect();
        common::curve(number, 125, &arrivals)
    };
    let panels = |curves: Vec<_>| (0..7).map(|_| common::panel("run", curves.clone())).collect();
    let kinds = [
        common::curves(panels((1..1000).map(node).collect())),
        common::curves(panels((0..128).map(column).collect())),
    ];
    let mut report = report("plain");
    report.sections[0].blocks.extend(kinds.into_iter().enumerate().map(|(index, kind)| {
        samara_report::model::Block::Figure(common::figure(index + 100, "large", kind))
    }));
    let size = page(&report).len();
    assert!(size < 1_500_000, "{size} bytes");
}
