//! The width of what commands print.

use std::process::Output;

use crate::common::{Scratch, text};

/// A small scenario of each family.
const SMALL: [&str; 5] = [
    "peerdas-small",
    "messages-small",
    "cat-real --set pool.duration=2s",
    "ring-rounds",
    "mix-pool --only restart --set mix.batch=20 --set mix.rounds=20",
];

/// Checks that no line is wider than `width`, except those with a path.
fn fits(what: &str, text: &str, width: usize) {
    let is_wide = |line: &&str| line.chars().count() > width && !line.starts_with("report ");
    assert_eq!(text.lines().find(is_wide), None, "{what}: {text}");
}

fn printed(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn results_of_each_family_fit_into_the_window() {
    let scratch = Scratch::new("fits");
    for (at, scenario) in SMALL.into_iter().enumerate() {
        let run = format!("run {scenario} --out r{at} --force");
        let narrow = printed(&scratch.samara(run.split(' ')));
        fits(scenario, &narrow, 80);
        let lines: Vec<&str> = narrow.lines().collect();
        assert_eq!(narrow.matches("──\n").count() + narrow.matches("─\n").count(), 2, "one rule: {narrow}");
        assert!(narrow.contains(" expectations hold.\n") && !narrow.contains('✓'), "{narrow}");
        assert!(lines.iter().any(|line| line.starts_with("report r")), "{narrow}");
        let wide = scratch.command(run.split(' ')).env("COLUMNS", "160").output().unwrap();
        fits(scenario, &printed(&wide), 160);
        assert!(printed(&wide).lines().any(|line| line.chars().count() > 80), "{}", printed(&wide));
    }
    let least =
        scratch.command("run peerdas-small --out least --quiet".split(' ')).env("COLUMNS", "1").output();
    fits("at least 40 columns", &printed(&least.unwrap()), 40);
}

#[test]
fn finding_comes_first_and_failed_expectations_in_full() {
    let scratch = Scratch::new("finding");
    let run = "run peerdas-small --set expect.incomplete=<0 --out r --strict --quiet";
    let output = scratch.samara(run.split(' '));
    assert_eq!(output.status.code(), Some(1));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let first: Vec<&str> = stdout.lines().take(2).collect();
    assert!(first.join(" ").starts_with("Batch publishing reduces the mean time to custody"), "{stdout}");
    assert!(stderr.starts_with("9 of 18 expectations hold.\n"), "{stderr}");
    assert_eq!(
        stderr.matches("incomplete <0, but it is 0 nodes (seed 1; seed 2; seed 3)").count(),
        3,
        "{stderr}"
    );
    let json =
        scratch.samara("run peerdas-small --only batch --seed 1 --out j --format json --quiet".split(' '));
    assert!(text(&json.stdout).starts_with('{') && json.stderr.is_empty(), "{}", text(&json.stderr));
}

#[test]
fn sweeps_fit_into_the_window() {
    let scratch = Scratch::new("sweep-fits");
    let sweep = "sweep peerdas-small --grid network.nodes=16,20 --seeds 2 --out s";
    let narrow = printed(&scratch.samara(sweep.split(' ')));
    fits("sweep", &narrow, 80);
    assert!(narrow.starts_with("Best ") && narrow.contains("Not shown: "), "{narrow}");
}

#[test]
fn paths_of_deliveries_and_torture_fit_into_the_window() {
    let scratch = Scratch::new("paths");
    scratch.samara("run peerdas-small --only batch --seed 1 --explain all --out r --quiet".split(' '));
    let shown = printed(&scratch.samara("explain r".split(' ')));
    fits("explain", &shown, 80);
    assert!(shown.contains(" after ") && shown.contains("same batch "), "{shown}");
    fits("what if", &printed(&scratch.samara("explain r --what-if".split(' '))), 80);
    fits("torture", &printed(&scratch.samara("torture columns --runs 2".split(' '))), 80);
}

#[test]
fn comparisons_fit_into_the_window_and_show_what_changed() {
    let scratch = Scratch::new("compare-fits");
    scratch.ok("run peerdas-small --quiet --out fast".split(' '));
    scratch.ok("run peerdas-small --quiet --out slow --set network.latency=80ms".split(' '));
    let same = scratch.ok(["compare", "fast", "fast"]);
    fits("the same", &same, 80);
    assert!(same.lines().count() < 12 && same.starts_with("The digests are equal"), "{same}");
    assert!(same.contains("first: fast (first)\nsecond: fast (second)\n"), "{same}");
    let changed = scratch.ok(["compare", "fast", "slow"]);
    fits("changed", &changed, 80);
    assert!(changed.contains("\nbatch\n") && changed.contains("  time_to_custody_ms.mean "), "{changed}");
    assert!(
        changed.contains(" first ") && changed.contains(" second ") && changed.contains(" change"),
        "{changed}"
    );
    assert!(!changed.contains("  delivery_ratio ") && changed.contains("--all shows "), "{changed}");
    let wide = scratch.command(["compare", "fast", "slow"]).env("COLUMNS", "120").output().unwrap();
    fits("with intervals", &text(&wide.stdout), 120);
    assert!(text(&wide.stdout).contains(" ± ") && !changed.contains(" ± "), "{changed}");
    let all = scratch.ok(["compare", "fast", "slow", "--all"]);
    fits("all", &all, 80);
    assert!(all.contains("  delivery_ratio ") && !all.contains("--all shows "), "{all}");
    assert!(all.lines().count() > changed.lines().count() + 50, "{all}");
    let pair = scratch.ok("compare fast fast --pair batch=node-wide".split(' '));
    fits("a pair", &pair, 80);
    assert!(pair.contains("\nbatch, beside node-wide\n"), "{pair}");
}

#[test]
fn list_and_help_texts_fit_into_the_window() {
    let scratch = Scratch::new("help-texts");
    fits("list", &scratch.ok(["list"]), 80);
    let help = |command: &str| {
        for option in ["--help", "-h"] {
            let words = command.split_whitespace().chain([option]);
            fits(&format!("{command} {option}"), &scratch.ok(words), 80);
        }
        scratch.ok(command.split_whitespace().chain(["--help"]))
    };
    let commands = |help: &str| -> Vec<String> {
        let (_, listed) = help.split_once("Commands:\n").expect("a list of commands");
        let lines = listed.lines().take_while(|line| !line.is_empty());
        // Further lines of a text are behind more spaces.
        let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        names.filter(|name| !["", "help"].contains(name)).map(str::to_owned).collect()
    };
    let all = commands(&help(""));
    assert!(all.len() > 14, "{all:?}");
    for command in all {
        let text = help(&command);
        if command == "export" {
            for format in commands(&text) {
                help(&format!("export {format}"));
            }
        }
    }
}
