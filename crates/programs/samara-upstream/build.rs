//! Takes the sources that the tests of libp2p-gossipsub need from the package that Cargo fetched, and
//! writes them below the target directory. The repository has no copy of them.
//!
//! Four things change on the way. The unit tests of single files go, because they test rust-libp2p's
//! code. Calls of `sleep` move the clock of the adapter. Tests that README lists as different must
//! panic with the text that it states. The test of networks draws more of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "libp2p-gossipsub";

/// Modules of the package that the adapter and the tests use as they are.
const MODULES: [&str; 10] = [
    "config",
    "error",
    "handler",
    "protocol",
    "queue",
    "rpc_proto",
    "subscription_filter",
    "topic",
    "transform",
    "types",
];

fn main() {
    for file in ["build.rs", "README.md", "../../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=SAMARA_REQUIRE_PEERS");
    println!("cargo::rustc-check-cfg=cfg(upstream)");
    // Features of the package that this crate does not have.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"metrics\", \"partial-messages\", \"serde\"))");
    match package() {
        Ok(source) => {
            write(&source);
            println!("cargo::rustc-cfg=upstream");
        }
        Err(cause) => {
            let required = std::env::var_os("SAMARA_REQUIRE_PEERS").is_some();
            assert!(!required, "SAMARA_REQUIRE_PEERS is set, but {cause}");
            println!("cargo::warning=rust-libp2p's tests are skipped: {cause}");
        }
    }
}

/// Returns the directory of the package in the version of the lock file.
fn package() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let output = Command::new(set("CARGO")?)
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform", &set("TARGET")?])
        .current_dir(set("CARGO_MANIFEST_DIR")?)
        .output()
        .map_err(|error| format!("`cargo metadata` does not run: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`cargo metadata` fails: {}", reason.lines().last().unwrap_or_default()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let manifest = manifest_of(&text).ok_or_else(|| format!("{PACKAGE} is no dependency any more"))?;
    let folder = Path::new(manifest).parent().map(Path::to_owned).unwrap_or_default();
    let tests = folder.join("src/behaviour/tests/mod.rs");
    if tests.exists() { Ok(folder) } else { Err(format!("found no {}", tests.display())) }
}

/// Returns the manifest of the package: metadata has one line, in which paths need no escapes except
/// for backslashes.
fn manifest_of(metadata: &str) -> Option<&str> {
    let of_package = format!("/{PACKAGE}-");
    let manifests = metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    manifests.into_iter().find(|path| {
        path.rsplit_once(&of_package).is_some_and(|(_, rest)| rest.matches('/').count() == 1)
            && path.ends_with("/Cargo.toml")
    })
}

fn write(source: &Path) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let copy = out.join("rust-libp2p");
    let differences = differences();
    let mut modules = String::new();
    let mut found = Vec::new();
    for name in MODULES {
        put(&copy.join(name).with_extension("rs"), &without_tests(&read(source, &format!("src/{name}.rs"))));
        modules += &module(&copy.join(name).with_extension("rs"), name);
    }
    put(&copy.join("score_params.rs"), &read(source, "src/peer_score/params.rs"));
    modules += &module(&copy.join("score_params.rs"), "score_params");
    for file in files(&source.join("src/generated")) {
        put(&copy.join("generated").join(&file), &read(source, &format!("src/generated/{file}")));
    }
    for file in files(&source.join("src/behaviour/tests")) {
        let text = read(source, &format!("src/behaviour/tests/{file}"));
        let group = file.trim_end_matches(".rs");
        let text = if group == "partial" { text } else { marked(&text, group, &differences, &mut found) };
        put(&copy.join("behaviour/tests").join(&file), &with_clock(&text));
    }
    let tests = copy.join("behaviour/tests/mod.rs");
    put(&out.join("modules.rs"), &modules);
    put(&out.join("tests.rs"), &module(&tests, "tests"));
    let smoke = copy.join("smoke.rs");
    put(&smoke, &with_networks(&read(source, "tests/smoke.rs")));
    put(&out.join("smoke.rs"), &module(&smoke, "smoke"));
    found.sort();
    put(&out.join("names.rs"), &format!("&{found:?}"));
}

fn module(path: &Path, name: &str) -> String {
    let allowed = "warnings, unexpected_cfgs, clippy::all, clippy::disallowed_types";
    format!("#[allow({allowed})]\n#[path = {path:?}]\nmod {name};\n")
}

fn read(source: &Path, file: &str) -> String {
    fs::read_to_string(source.join(file)).unwrap_or_else(|error| panic!("{PACKAGE}, {file}: {error}"))
}

fn put(path: &Path, text: &str) {
    let folder = path.parent().expect("a file in a folder");
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    if fs::read_to_string(path).is_ok_and(|present| present == text) {
        return;
    }
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".rs")).collect()
}

fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod test").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Lets `sleep` move the clock of the adapter, so that tests take no time and do not depend on the
/// load of the machine.
fn with_clock(text: &str) -> String {
    let imported = text.contains("thread::sleep,");
    let text = text.replace("std::thread::sleep(", "crate::clock::sleep(");
    let mut text = text.replace("    thread::sleep,\n", "").replace("thread::sleep, ", "");
    if imported {
        text += "\nuse crate::clock::sleep;\n";
    }
    assert!(!text.contains("thread::"), "a test uses threads in a way that the adapter does not know");
    text
}

/// Lets the test of networks draw more of them: it discards four of five for their number of nodes, and
/// draws five.
fn with_networks(text: &str) -> String {
    let more = text.replace(".max_tests(5)", ".max_tests(25)");
    assert_ne!(more, text, "the number of networks that smoke.rs draws is found no more");
    more
}

/// Marks the tests that must panic, and collects the names of all.
fn marked(
    text: &str,
    group: &str,
    differences: &BTreeMap<String, String>,
    found: &mut Vec<String>,
) -> String {
    let mut parts = text.split("#[test]\n");
    let mut marked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
        let name = format!("{group}::{}", name.expect("the name of a test"));
        marked += "#[test]\n";
        if let Some(panics) = differences.get(&name) {
            marked += &format!("#[should_panic(expected = {panics:?})]\n");
        }
        marked += part;
        found.push(name);
    }
    marked
}

/// Reads the table of README: a test, and the text with which it panics.
fn differences() -> BTreeMap<String, String> {
    let text = fs::read_to_string("README.md").expect("README.md of this crate");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | `")?;
        let (panics, _) = rest.split_once("` | ")?;
        name.contains("::").then(|| (name.to_owned(), panics.to_owned()))
    });
    cells.collect()
}
