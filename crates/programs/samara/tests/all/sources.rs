//! The claims of the documents that Samara started from: docs/sources.md.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use samara_lab::sources::{page, results};
use samara_scenario::{Claim, Overrides, Verdict, builtins, load_with, sources};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("a crate of the workspace")
}

/// `SAMARA_UPDATE_DOCS=1 cargo test -p samara --test all sources` writes the page.
#[test]
fn page_of_sources_is_current() {
    samara_families::register();
    let page = page(&results());
    let path = root().join("docs/sources.md");
    if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page.text).expect("docs/sources.md can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page.text, "docs/sources.md is out of date; set SAMARA_UPDATE_DOCS=1 to write it");
}

/// Every row has its result over enough seeds, a cause gives the value of the document, and a note is
/// about a difference that exists.
#[test]
fn no_result_contradicts_its_row() {
    samara_families::register();
    let page = page(&results());
    assert!(page.problems.is_empty(), "run `samara sources --run DIR`:\n{}", page.problems.join("\n"));
    assert!(page.claims >= 200, "{} claims", page.claims);
}

/// All functions of a crate, in one text.
fn functions(name: &str) -> String {
    let floors = std::fs::read_dir(root().join("crates")).into_iter().flatten().flatten();
    let (mut all, mut waiting) =
        (String::new(), floors.map(|floor| floor.path().join(name)).collect::<Vec<PathBuf>>());
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all += &std::fs::read_to_string(&path).unwrap_or_default();
            }
        }
    }
    all
}

/// Evidence is a test of a crate, as in `samara-ring: streams::messages_arrive`, or a command.
#[test]
fn evidence_of_every_claim_exists() {
    let mut crates: HashMap<String, String> = HashMap::new();
    let mut missing = Vec::new();
    let all = sources();
    let claims = all.iter().flat_map(|source| &source.claims);
    let is_shown = |claim: &&Claim| !matches!(claim.verdict, Verdict::Assumed | Verdict::NotAttempted);
    for claim in claims.filter(is_shown) {
        let evidence = &claim.evidence;
        let is_there =
            if let Some((name, path)) = evidence.split_once(": ").filter(|_| !evidence.contains('`')) {
                let text = crates.entry(name.to_owned()).or_insert_with(|| functions(name));
                let function = path.rsplit("::").next().unwrap_or_default();
                text.contains(&format!("fn {function}("))
            } else {
                evidence.contains('`')
            };
        if !is_there {
            missing.push(format!("{}: {evidence}", claim.claim));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns what is wrong with the commands `samara run` in a text.
fn wrong_commands(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let commands = text.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("samara run "));
    for command in commands {
        let mut words = command.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Ok(loaded) = load_with(name, &Overrides::default()) else {
            wrong.push(format!("{name} is no scenario: {command}"));
            continue;
        };
        let words: Vec<&str> = words.collect();
        let only = words.windows(2).filter(|pair| pair[0] == "--only").flat_map(|pair| pair[1].split(','));
        let is_run = |run: &&str| loaded.scenario.runs.iter().any(|known| known.name == **run);
        wrong
            .extend(only.filter(|run| !is_run(run)).map(|run| format!("{name} has no run {run}: {command}")));
    }
    wrong
}

/// Commands in evidence, sentences, reasons and notes name scenarios and runs that exist.
#[test]
fn commands_of_claims_and_notes_exist() {
    samara_families::register();
    let all = sources();
    let claims = all.iter().flat_map(|source| &source.claims);
    let mut texts: Vec<String> =
        claims.flat_map(|claim| [&claim.evidence, &claim.ours, &claim.reason]).cloned().collect();
    for builtin in builtins() {
        let loaded = load_with(builtin.name, &Overrides::default()).expect("built-in scenarios load");
        texts.extend(loaded.scenario.published.iter().filter_map(|figure| figure.note.clone()));
    }
    let wrong: Vec<String> = texts.iter().flat_map(|text| wrong_commands(text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(wrong_commands("`samara run nothing`").len(), 1);
    assert_eq!(wrong_commands("`samara run peerdas --only batch --only nothing`").len(), 1);
}
