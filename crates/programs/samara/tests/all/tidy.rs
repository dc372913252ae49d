//! Rules for this repository that no compiler checks: modules have documentation, comments add
//! information, and no file contains a path of one machine. Sizes of files and functions are
//! printed as warnings (`--nocapture`).

use std::fs;
use std::path::{Path, PathBuf};

/// Directories of files that were built, fetched or generated.
const GENERATED: &[&str] =
    &["target", ".git", "node_modules", "results", "dist", "corpus", "artifacts", "__pycache__"];
const TEXTS: &[&str] = &[
    "rs", "md", "toml", "yml", "py", "pyi", "go", "js", "html", "css", "json", "java", "xml", "ipynb", "sh",
];
const LONG_FILE: usize = 600;
const LONG_FUNCTION: usize = 100;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("a crate of the workspace")
}

/// The text files of the project: path below its root, and content.
fn texts() -> Vec<(PathBuf, String)> {
    let (mut found, mut waiting) = (Vec::new(), vec![root().to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // In a second work tree, .git is a file.
            if GENERATED.contains(&name) || name.starts_with("target") {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                waiting.push(path);
            } else if path.extension().is_none_or(|end| TEXTS.iter().any(|text| end == *text))
                && let Ok(text) = fs::read_to_string(&path)
            {
                found.push((path.strip_prefix(root()).expect("below the root").to_owned(), text));
            }
        }
    }
    found.sort();
    assert!(found.len() > 500, "the project is not found at {}", root().display());
    found
}

/// The files of Rust's sources, without tests.
fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    let is_source = |path: &Path| {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        parts.contains(&"src")
            && path.extension().is_some_and(|end| end == "rs")
            && !parts.contains(&"tests.rs")
    };
    texts().into_iter().filter(move |(path, _)| is_source(path))
}

fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn modules_begin_with_a_doc_comment() {
    let wrong: Vec<String> = sources()
        .filter(|(_, text)| !text.starts_with("//! ") && !text.starts_with("#![doc = include_str!"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert_none("files without a `//!` line at their top", &wrong);
}

/// Crates that declare counters which nodes, results and pages show.
const ENGINES: &[&str] =
    &["samara-engine", "samara-gossipsub", "samara-baselines", "samara-cat", "samara-ring", "samara-mix"];
/// Names of counters that are also strings with another meaning: a limit, and columns of tables.
const OTHER_STRINGS: &[&str] = &["topic_bytes", "queue_drops", "answered_copies"];

/// The names that the `counters!` of a file declare.
fn counters(text: &str) -> Vec<&str> {
    let blocks = text.split("counters! {\n").skip(1).filter_map(|rest| rest.split_once("\n}\n"));
    let fields = blocks.flat_map(|(block, _)| block.lines()).filter_map(|line| {
        let field = line.strip_prefix("        pub ")?;
        field.split(['[', ':']).next()
    });
    fields.collect()
}

/// A counter is declared once, by its engine, and no string names it elsewhere. The strings of pages name
/// metrics, which may have the name of a counter; each is checked against its declaration when the family
/// registers.
#[test]
fn counters_are_declared_once_and_no_string_names_them() {
    let sources: Vec<(PathBuf, String)> = sources().collect();
    let is_engine = |path: &Path| path.iter().any(|part| ENGINES.iter().any(|name| part == *name));
    let engines = || sources.iter().filter(|(path, _)| is_engine(path));
    let names: Vec<&str> = engines().flat_map(|(_, text)| counters(text)).collect();
    assert!(names.len() > 100, "{names:?}");
    let names: Vec<&str> =
        names.into_iter().filter(|name| name.contains('_') && !OTHER_STRINGS.contains(name)).collect();
    let mut wrong = Vec::new();
    for (path, text) in &sources {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, line) in code.lines().enumerate() {
            // A variant of `names!` may have the name of a counter.
            let is_variant = line.ends_with("\",") && line.contains(" = \"");
            let names_one = line.split('"').skip(1).step_by(2).any(|string| {
                string.starts_with("samara_") && string.ends_with("_total")
                    || !is_variant && names.contains(&string)
            });
            let name = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {"));
            let is_undeclared = is_engine(path)
                && name.is_some_and(|name| ["Metrics", "Counters"].iter().any(|end| name.ends_with(end)));
            let is_page = path.ends_with("src/pages.rs");
            if names_one && !is_page || is_undeclared {
                wrong.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    assert_none("counters outside of `counters!`, and strings that name one", &wrong);
}

/// The words of a comment or a name, in lower case and without articles and plurals.
fn words(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .map(|word| word.trim_end_matches('s').to_lowercase())
        .filter(|word| !["", "the", "a", "an", "of", "it", "thi"].contains(&word.as_str()))
        .collect()
}

/// Splits a `snake_case` or `CamelCase` name into words.
fn parts(name: &str) -> String {
    name.chars().flat_map(|letter| letter.is_uppercase().then_some(' ').into_iter().chain([letter])).collect()
}

#[test]
fn comments_do_not_only_repeat_the_name() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, pair) in lines.windows(2).enumerate() {
            let Some(comment) = pair[0].strip_prefix("///") else { continue };
            let is_alone = (at == 0 || !lines[at - 1].starts_with("///")) && !pair[1].starts_with("///");
            let item = pair[1].split(['(', ':', '=', '{', '<', ',', ';']).next().unwrap_or_default();
            let name = parts(item.split_whitespace().next_back().unwrap_or_default());
            if is_alone && words(comment).iter().all(|word| words(&name).contains(word)) {
                wrong.push(format!("{}:{}: {}", path.display(), at + 1, pair[0]));
            }
        }
    }
    assert_none("doc comments that are empty or repeat a name", &wrong);
}

#[test]
fn no_path_of_one_machine() {
    // Each in two pieces, so that this file passes.
    let homes = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];
    let wrong: Vec<String> = texts()
        .into_iter()
        .flat_map(|(path, text)| {
            let found =
                text.lines().enumerate().filter(|(_, line)| homes.iter().any(|home| line.contains(home)));
            found
                .map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("paths of one machine", &wrong);
}

#[test]
fn prose_is_at_most_100_columns_wide() {
    let mut wrong = Vec::new();
    for (path, text) in
        texts().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "md"))
    {
        let mut is_code = false;
        for (at, line) in text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            // Code, tables, headings and links cannot be wrapped.
            let is_prose = !is_code
                && !line.starts_with("    ")
                && !line.trim_start().starts_with(['|', '#', '<', '[', '!'])
                && !line.contains("](");
            if is_prose && line.chars().count() > 100 {
                wrong.push(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    assert_none("lines of prose above 100 columns", &wrong);
}

/// Prints warnings only, since a long file or function can be the clearest form.
#[test]
fn lists_long_files_and_functions() {
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > LONG_FILE {
            println!("warning: {}: {} lines", path.display(), lines.len());
        }
        for (at, line) in lines.iter().enumerate() {
            let indent = &line[..line.len() - line.trim_start().len()];
            let head = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            let head = head.trim_start_matches("async ").trim_start_matches("const ");
            if !head.starts_with("fn ") || line.ends_with(['}', ';']) {
                continue;
            }
            // rustfmt aligns the closing brace with the start of the function.
            let end = format!("{indent}}}");
            let len = lines[at..].iter().position(|line| *line == end).unwrap_or(0) + 1;
            if len > LONG_FUNCTION {
                println!(
                    "warning: {}:{}: {len} lines of `{}`",
                    path.display(),
                    at + 1,
                    head.split('(').next().unwrap_or(head)
                );
            }
        }
    }
}
