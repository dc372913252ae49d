//! `samara list`, and the page that describes the built-in scenarios.

use std::fmt::Write as _;

use samara_scenario::{Point, builtins, load};

use crate::common::Scratch;

#[test]
fn scenarios_are_listed_by_experiment() {
    samara_families::register();
    let scratch = Scratch::new("list");
    let (listed, names) = (scratch.ok(["list"]), scratch.ok(["list", "--names"]));
    let names: Vec<&str> = names.lines().collect();
    assert_eq!(names, builtins().iter().map(|builtin| builtin.name).collect::<Vec<_>>());
    let lines = listed.lines().filter_map(|line| line.strip_prefix("  "));
    // Further lines of a text are behind more spaces.
    let listed = lines.filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty());
    let listed: Vec<&str> = listed.collect();
    assert_eq!(listed, names, "every scenario once, in order");
}

/// Wraps a text at 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one line");
        match line.chars().count() + 1 + word.chars().count() {
            _ if line.is_empty() => *line = word.to_owned(),
            0..=100 => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns the entry of a scenario in `docs/scenarios.md`.
fn entry(name: &str, cost: &str) -> String {
    let loaded = load(name, &[], &[], None).expect("built-in scenarios load");
    let about = &loaded.scenario.scenario;
    let title = wrapped(&format!("{}. Cost: {cost}.", about.title));
    let mut text = format!("### {name}\n\n{title}\n\n{}\n", wrapped(&about.description));
    let first: Vec<&Point> =
        loaded.points.iter().filter(|point| point.sweep == loaded.points[0].sweep).collect();
    if first.len() > 1 {
        let once = first.iter().filter(|point| point.seed == first[0].seed);
        let runs: Vec<String> = once
            .map(|point| match point.label.trim_end_matches('.') {
                label if label == point.run => format!("`{label}`"),
                label => format!("`{}` ({label})", point.run),
            })
            .collect();
        let _ = write!(text, "\n{}\n", wrapped(&format!("Runs: {}.", runs.join("; "))));
    }
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    for axis in axes {
        let values: Vec<String> = axis.values.iter().map(ToString::to_string).collect();
        let _ =
            write!(text, "\n{}\n", wrapped(&format!("Sweeps `{}` over {}.", axis.key, values.join(", "))));
    }
    text
}

/// `SAMARA_UPDATE_DOCS=1 cargo test -p samara --test all list` writes the page.
#[test]
fn page_describes_every_scenario() {
    samara_families::register();
    let intro = "`SAMARA_UPDATE_DOCS=1 cargo test -p samara --test all list` writes this page from the \
                 scenario files. `samara show NAME` prints a file, with a description of each run. Costs \
                 are processor times of the whole scenario at full size, as `.ci/scenarios` measures them \
                 on one core of a server.";
    let mut page = format!("# Built-in scenarios\n\n{}\n", wrapped(intro));
    for family in samara_scenario::family::all() {
        let _ = write!(page, "\n## `[{}]`: {}\n", family.section, family.title.to_lowercase());
        for builtin in builtins().iter().filter(|builtin| builtin.section() == family.section) {
            let _ = write!(page, "\n{}", entry(builtin.name, builtin.cost));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/scenarios.md");
    if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).expect("docs/scenarios.md can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/scenarios.md is out of date; set SAMARA_UPDATE_DOCS=1 to write it");
}
