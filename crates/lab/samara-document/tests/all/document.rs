//! Tests of the lines of keys, and of errors for invalid documents.

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
