//! Tables whose key `kind` selects the other keys.

use samara_document::{Network, Topology, parse};

/// Reads the topology of a network, or returns the key, the line and the message of the error.
fn topology(lines: &str) -> Result<Topology, String> {
    let network = parse::<Network>(&format!("[topology]\n{lines}"));
    network.map(|network| network.topology).map_err(|problem| {
        let line = problem.line.map_or_else(String::new, |line| format!(" {line}"));
        format!("{}{line}: {}", problem.key.unwrap_or_default(), problem.message)
    })
}

#[test]
fn the_kind_selects_the_keys_in_any_order() {
    let regular = Topology::RandomRegular { degree: 8, topic_peers_min: 2 };
    assert_eq!(topology("degree = 8\ntopic_peers_min = 2"), Ok(regular.clone()));
    assert_eq!(topology("topic_peers_min = 2\ndegree = 8\nkind = \"random-regular\""), Ok(regular));
    assert_eq!(topology(""), Ok(Topology::default()));
    let grown = Topology::BarabasiAlbert { attachments: 6, seed: Some(3), topic_peers_min: 0 };
    assert_eq!(topology("seed = 3\nkind = \"barabasi-albert\""), Ok(grown.clone()));
    let written = toml::Table::try_from(&grown).unwrap();
    assert_eq!(written["kind"].as_str(), Some("barabasi-albert"));
    assert_eq!(topology(&written.to_string()), Ok(grown));
}

#[test]
fn errors_name_the_key_and_the_kind_that_has_it() {
    let errors = [
        topology("kind = \"ring\"\ndegree = 8"),
        topology("dials = 8"),
        topology("kind = \"ring\"\ndegre = 8"),
        topology("kind = \"star\""),
        topology("kind = 3"),
        topology("degree = -1"),
        topology("kind = \"file\""),
    ];
    let expected = [
        "topology.degree 3: belongs to kind = \"random-regular\"; remove it, or set that kind",
        "topology.dials 2: belongs to kind = \"random-dials\"; remove it, or set that kind",
        "topology.degre 3: unknown key `degre`; expected `kind` or `topic_peers_min`",
        "topology.kind 2: found `star`; expected one of `random-regular`, `random-dials`, `full-mesh`, `ring`, \
         `barabasi-albert`, `file`",
        "topology.kind 2: found 3; expected a name",
        "topology.degree 2: found -1; expected a whole number from 0 to 4294967295",
        "topology 1: missing key `file`",
    ];
    for (found, expected) in errors.into_iter().zip(expected) {
        let found = found.unwrap_err();
        assert!(found.starts_with(expected), "{found}");
    }
}
