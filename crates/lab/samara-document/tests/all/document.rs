//! Tests of the lines of keys, and of errors for invalid documents.

use proptest::prelude::*;
use samara_document::keys::{flatten, plain, set_key, unset_key};
use samara_document::{line_of, parse};

#[test]
fn line_of_a_key_is_that_of_its_value_or_its_table() {
    let text = "title = \"x\"\n[network]\nnodes = 5\nlisten = [\n  \"a\",\n  \"b\",\n]\n[network.topology]\nkind = 1\n\
                [[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\nset.\"network.nodes\" = 5\nlabel = { de = 1 }\n";
    for (key, line) in [
        ("title", Some(1)),
        ("network", Some(2)),
        ("network.nodes", Some(3)),
        ("network.loss", Some(2)),
        ("network.listen", Some(4)),
        ("network.listen.1", Some(6)),
        ("network.topology.kind", Some(9)),
        ("network.topology.degree", Some(8)),
        ("run.0.name", Some(11)),
        ("run.1.label.de", Some(15)),
        ("run.1.label.en", Some(15)),
        ("run.1.set.network.nodes", Some(14)),
        ("run.1.series", Some(12)),
        ("net", None),
        ("workload.custody", None),
    ] {
        assert_eq!(line_of(text, key), line, "{key}");
    }
    assert_eq!(line_of("[", "network"), None, "not a document");
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let problem = parse::<toml::Table>("a = 1\nb = = 2\n").unwrap_err();
    assert_eq!((problem.key, problem.line), (None, Some(2)));
}

/// The message of the parser stays where nothing better is known.
#[test]
fn slips_of_syntax_have_a_remedy() {
    for (text, line, expected) in [
        ("a = 1\n[network\nnodes = 5\n", 2, "expected `[section]`; add the closing bracket"),
        ("a = [1, 2\n[network]\n", 2, "a list is not closed before or in this line"),
        ("a = [1, 2", 1, "a list is not closed before or in this line"),
        ("a = [\"x\" \"y\"]\n", 1, "or the comma between two elements"),
        ("a = [{ b = 1", 1, "or the comma between two keys"),
        ("a = { b = 1\n[network]\n", 2, "a table in braces is not closed before or in this line"),
        ("a = { b = 1 c = 2 }\n", 1, "or the comma between two keys"),
        ("a = \"text\nb = 1\n", 1, "a text is not closed in this line"),
        ("a = \"te\\qxt\"\n", 1, "escape"),
        ("a = 20 Mbit/s\n", 1, "a number, true, false, or a text in quotation marks, such as \"20 Mbit/s\""),
        ("a = [1, x]\n", 1, "or a text in quotation marks"),
        ("nodes\n", 1, "expected `[section]` or `key = value`"),
        ("nodes 5\n", 1, "expected `[section]` or `key = value`"),
        ("a = 05\n", 1, "leading zero"),
        ("a = 1,\n", 1, "expected newline"),
    ] {
        let problem = parse::<toml::Table>(text).unwrap_err();
        assert!(problem.message.contains(expected), "{text:?}: {}", problem.message);
        assert_eq!(problem.line, Some(line), "{text:?}: {}", problem.message);
    }
}

/// The keys of a run after `change`, dotted, with their values. `run.0` has these keys before.
fn of_run(set: &str, change: impl FnOnce(&mut toml::Table)) -> Vec<(String, String)> {
    let mut table: toml::Table = format!("[[run]]\nname = \"a\"\n[run.set]\n{set}").parse().expect("TOML");
    change(&mut table);
    let mut rows = Vec::new();
    let set = table["run"][0]["set"].as_table().expect("a table");
    set.iter().for_each(|(key, value)| flatten(key, value, &mut rows));
    rows.sort();
    rows
}

/// Writes `a.b.c = value` with its parts joined to one key where `is_dotted`, and nested elsewhere.
fn written(parts: &[&str], is_dotted: [bool; 2], value: i64) -> String {
    let mut text = format!("\"{}", parts[0]);
    for (part, is_dotted) in parts[1..].iter().zip(is_dotted) {
        text += &if is_dotted { format!(".{part}") } else { format!("\".\"{part}") };
    }
    format!("{text}\" = {value}\n")
}

proptest! {
    /// Dotted keys and nested tables of a run are the same: a key that is set has one value, the new
    /// one, and one that is removed has none. Other keys stay.
    #[test]
    fn keys_of_a_run_have_one_value(
        existing in any::<[bool; 2]>(),
        set in any::<[bool; 2]>(),
        key in 1..=3_usize,
        value in 0..9_i64,
    ) {
        let parts = &["window", "own", "max"][..key];
        let text = written(parts, existing, 77) + &written(&["windows"], set, 5);
        let path = format!("run.0.set.{}", written(parts, set, 0).split_once(" =").expect("a value").0);
        let of_key = |rows: &[(String, String)]| -> Vec<String> {
            rows.iter().filter(|(own, _)| *own == parts.join(".")).map(|(_, value)| value.clone()).collect()
        };
        let rows = of_run(&text, |table| set_key(table, &path, value.into()).expect("it can be set"));
        prop_assert_eq!(of_key(&rows), [plain(&value.into())], "{} {}", text, path);
        prop_assert!(rows.contains(&("windows".to_owned(), "5".to_owned())), "{:?}", rows);
        let rows = of_run(&text, |table| {
            assert!(unset_key(table, &path).expect("a key"), "{text}: {path}");
        });
        prop_assert_eq!(of_key(&rows), [""; 0]);
        prop_assert!(rows.contains(&("windows".to_owned(), "5".to_owned())), "{:?}", rows);
    }
}

/// A list that a run sets as a whole has no elements beside it.
#[test]
fn a_list_of_a_run_replaces_keys_of_its_elements() {
    let list = parse::<toml::Table>("v = [{ kind = \"crash\" }]\n").expect("TOML")["v"].clone();
    let rows = of_run("\"fault.0.until\" = 1\n", |table| {
        set_key(table, "run.0.set.fault", list).expect("it can be set");
    });
    assert_eq!(rows, [("fault.0.kind".to_owned(), "crash".to_owned())]);
}
