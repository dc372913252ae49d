//! The tables of README beside the tests that exist.

#[cfg(upstream)]
use std::collections::BTreeMap;

/// The names of all tests, as `file::name`. The build script marks those that README lists.
#[cfg(upstream)]
const TESTS: &[&str] = include!(concat!(env!("OUT_DIR"), "/names.rs"));

#[cfg(upstream)]
#[test]
fn readme_counts_all_tests_and_lists_those_that_exist() {
    let readme = include_str!("../README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: Vec<&str> =
        rows.filter_map(|row| row.split('`').next()).filter(|name| name.contains("::")).collect();
    let unknown: Vec<_> = listed.iter().filter(|name| !TESTS.contains(name)).collect();
    assert!(unknown.is_empty(), "README lists tests that do not exist: {unknown:?}");

    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for name in TESTS {
        let file = name.split("::").next().unwrap_or_default();
        counts.entry(file).or_default()[usize::from(listed.contains(name))] += 1;
    }
    for (file, [pass, differ]) in counts {
        let row = format!("| `{file}` | {} | {pass} | {differ} |", pass + differ);
        assert!(readme.contains(&row), "README lacks the line: {row}");
    }
}

#[cfg(not(upstream))]
#[test]
#[ignore = "SKIPPED: found no package of libp2p-gossipsub; the warning of the build script says why"]
fn tests_of_rust_libp2p() {}
