//! The commands that the documentation shows are understood: scenarios, keys, runs and options.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, text};

/// Options of `samara run` that `samara show` lacks, and whether a value follows.
const RUN_ONLY: [(&str, bool); 6] = [
    ("--out", true),
    ("-o", true),
    ("--threads", true),
    ("--format", true),
    ("--quiet", false),
    ("--force", false),
];

/// Collects the pages below a directory, without decisions, which describe the past.
fn collect(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("decisions") {
            collect(&path, pages);
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
}

/// Returns the commands of a page that start with `samara run` or `samara sweep`: lines of code, and
/// code within sentences.
fn commands(page: &str) -> Vec<String> {
    let page = page.replace("\\\n", " ").replace("cargo run --release --features net -- ", "samara ");
    let page = page.replace("cargo run --release -- ", "samara ");
    let is_command = |text: &&str| text.starts_with("samara run ") || text.starts_with("samara sweep ");
    let mut found: Vec<String> = Vec::new();
    // Fences alternate with code; code within sentences may continue on the next line.
    for (at, part) in page.split("```").enumerate() {
        if at % 2 == 1 {
            found.extend(part.lines().map(str::trim).filter(is_command).map(str::to_owned));
        } else {
            let text = part.replace('\n', " ");
            found.extend(text.split('`').skip(1).step_by(2).filter(is_command).map(str::to_owned));
        }
    }
    found
}

/// Returns true for a command that names no scenario, or needs a cluster.
fn options_only(command: &str) -> bool {
    command.split(' ').nth(2).is_some_and(|word| word.starts_with('-')) || command.contains("--engine")
}

/// Splits a command into words as a shell does.
fn words(command: &str) -> Vec<String> {
    let script = format!("for word in {}\ndo printf '%s\\n' \"$word\"; done", command.replace(';', "\\;"));
    let output = Command::new("bash").args(["-c", &script]).output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn documented_commands_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages = vec![root.join("README.md")];
    collect(&root.join("docs"), &mut pages);
    let scratch = Scratch::new("guides");
    for name in ["mine.toml", "scenario.toml"] {
        scratch.write(name, scratch.ok(["show", "peerdas"]));
    }
    scratch.write("churn.toml", scratch.ok(["show", "cat"]));
    scratch.ok("export graph mine.toml --format graphml -o mine.graphml".split(' '));
    let mut checked = std::collections::HashSet::new();
    for page in pages {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let needs_files = [".csv", "rumours.toml", "...", "NAME", "SCENARIO", "|"];
            if needs_files.iter().any(|part| command.contains(part)) || options_only(&command) {
                continue;
            }
            let mut words = words(&command).into_iter().skip(1);
            let verb = words.next().unwrap();
            let mut arguments = Vec::new();
            while let Some(word) = words.next() {
                match RUN_ONLY.iter().find(|(option, _)| verb == "run" && *option == word) {
                    Some((_, true)) => drop(words.next()),
                    Some((_, false)) => {}
                    None => arguments.push(word),
                }
            }
            let (verb, last) =
                if verb == "run" { ("show", None) } else { ("sweep", Some("--list".to_owned())) };
            let all: Vec<String> = std::iter::once(verb.to_owned()).chain(arguments).chain(last).collect();
            if !checked.insert(all.clone()) {
                continue;
            }
            let output = scratch.samara(all);
            assert!(output.status.success(), "{}: `{command}`: {}", page.display(), text(&output.stderr));
        }
    }
    assert!(checked.len() > 60, "{} commands", checked.len());
}

/// Blocks of code below the name of a file are excerpts of it.
#[test]
fn excerpts_in_guides_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages = Vec::new();
    collect(&root.join("docs"), &mut pages);
    let mut checked = 0;
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for part in text.split("<!-- examples/").skip(1) {
            let (file, rest) = part.split_once(" -->\n```").unwrap();
            let (excerpt, _) = rest.split_once('\n').unwrap().1.split_once("\n```").unwrap();
            let file = root.join("examples").join(file);
            let (excerpt, all) = (lines(excerpt), lines(&std::fs::read_to_string(&file).unwrap()));
            let is_there = all.windows(excerpt.len()).any(|lines| lines == excerpt);
            assert!(is_there, "{}: this is not in {}: {excerpt:#?}", page.display(), file.display());
            checked += 1;
        }
    }
    assert!(checked >= 6, "{checked} excerpts");
}
