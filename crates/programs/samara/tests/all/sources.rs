//! The claims of the documents that Samara started from: docs/sources.md.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use samara_lab::sources::{page, results};
use samara_scenario::{Claim, Verdict, sources};

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
