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
