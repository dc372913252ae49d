//! Numbers of files that would take memory or time without an end: each is refused before anything
//! of its size exists.

use samara_document::Inputs;
use samara_document::keys::parse_axis;
use samara_scenario::{Overrides, POINTS_MAX};

use crate::{assert_errors, builtins, error_of, load, load_source};

fn error(text: &str) -> String {
    let inputs = Inputs::directory(".").with("custody.csv", &b"node,column\n0,1\n"[..]);
    error_of(load_source("s.toml", text, inputs, &Overrides::default()))
}

/// With a vector as long as the number, each of these would need gigabytes.
#[test]
fn numbers_beyond_their_range_are_not_computed_with() {
    let most = u32::MAX;
    let rows = [
        (format!("network.nodes = {most}\n[mix]"), "network.nodes: is 4294967295; allowed is 2 to 128"),
        (format!("network.nodes = {most}\n[group]"), "allowed is 2 to 1024"),
        (
            format!("network.nodes = {most}\n[columns]\ncustody_file = \"custody.csv\""),
            "allowed is 2 to 1048576",
        ),
        (format!("[columns]\ncount = {most}"), "columns.count: is 4294967295; allowed is 1 to 4096"),
        (format!("[columns]\ncount = {most}\nrows = {most}"), "columns.rows: is 4294967295"),
        (format!("[columns]\nrows = {most}\nrow_custody = {most}\ncustody_needed = 1"), "columns.rows"),
        (format!("[columns]\n[columns.pieces]\nparity = {most}"), "columns.pieces.parity: is 4294967295"),
        (
            format!("[columns]\ncustody = {most}\nrow_custody = {most}\ncustody_needed = {most}"),
            "columns.custody",
        ),
        (
            format!("transport.kind = \"grpc\"\nnetwork.nodes = 5\n[mix]\nteams = {most}"),
            "mix.teams: is 4294967295; allowed is 1 to 5",
        ),
        (format!("transport.kind = \"grpc\"\nnetwork.nodes = 5\n[mix]\nrounds = {most}"), "mix.rounds"),
        ("[columns]\nblob_size = \"1000000 GB\"\n[columns.cells]".to_owned(), "columns.blob_size"),
        (
            "[columns]\nblobs = 100000\nblob_size = \"1000000 GB\"".to_owned(),
            "a message of the protocol has at most",
        ),
        (
            "[columns]\nblobs = 3000\nblob_size = \"0 B\"\n[columns.cells]\n[protocol]\nkind = \"floodsub\""
                .to_owned(),
            "columns.blob_size",
        ),
    ];
    assert_errors(rows, error);
}

#[test]
fn products_are_bounded() {
    let rows = [
        (
            "network = { nodes = 1000000, topology = { kind = \"full-mesh\" } }\n[messages]",
            "network.topology: may have 499999500000 links",
        ),
        (
            "network = { nodes = 100000, topology = { kind = \"random-dials\", dials = 99999 } }\n[messages]",
            "links of 100000 nodes",
        ),
        ("network = { nodes = 20000, topology = { degree = 9998 } }\n[messages]", "links of 20000 nodes"),
        (
            "network = { nodes = 1000000, topology = { kind = \"barabasi-albert\", attachments = 999999 } }\n[messages]",
            "links of 1000000 nodes",
        ),
        (
            "network = { nodes = 100000, topology = { topic_peers_min = 4294967295 } }\n[columns]",
            "links of 100000 nodes",
        ),
        (
            "network.nodes = 1000000\n[columns]\ncount = 4096\ncustody = 1",
            "columns.count: has 4096 columns, rows and pieces for 1000000 nodes",
        ),
        (
            "network.nodes = 100000\n[columns]\nslots = 10000",
            "columns.slots: is 10000, with up to 16000000000 deliveries",
        ),
        ("network.nodes = 1000000\n[messages]\nrate = 50000", "9000000 messages to 1000000 nodes"),
    ];
    assert_errors(rows, error);
}

#[test]
fn runs_without_an_end_are_refused_or_announced() {
    let rows = [
        (
            "[messages]\n[protocol]\nheartbeat = \"1 ns\"",
            "protocol.heartbeat: is 1 ns; allowed is 1 ms or more",
        ),
        ("[columns]\n[protocol]\nheartbeat = \"999 us\"", "protocol.heartbeat"),
        ("network.nodes = 9\n[group]\nwarm_up = \"87600 h\"", "at most 8760 h of virtual time"),
        ("network.nodes = 9\n[group]\n[protocol]\nheartbeat = \"1 us\"", "protocol.heartbeat"),
        ("[pool]\nsigners = 3", "pool.signers: needs pool.rate: each client of a closed loop is a signer"),
        ("[pool]\nrate = 5\nsigners = 0", "pool.signers: is 0; allowed is 1 to 100000"),
        (
            "[pool]\nrate = 5\nsigners = 3\nsigned = false",
            "pool.signers: is set, but pool.signed is false; remove one of them",
        ),
        (
            "[pool]\nrate = 5\nsigners = 3\n[[fault]]\nkind = \"crash\"\nat = \"1 s\"\nnodes = [1]",
            "pool.signers: is set beside a fault",
        ),
        ("[pool]\nblock_interval = \"1 ns\"", "pool.block_interval: is 1 ns; allowed is 1 ms or more"),
        (
            "[pool]\nrate = 0.001\nblock_interval = \"1 ms\"\nduration = \"8000 h\"",
            "allowed are at most 10000000",
        ),
        ("[pool]\n[transport.connection]\nping = \"1 ns\"", "transport.connection.ping: is 1 ns"),
        ("[pool]\nduration = \"87600 h\"", "at most 8760 h of virtual time"),
        ("[columns]\ndeadline = \"87600 h\"", "at most 8760 h of virtual time"),
        ("[columns]\nslots = 10\nslot_interval = \"1 us\"", "columns.slot_interval: is 1 µs"),
        ("[messages]\nrate = 0.001\nduration = \"9000 h\"", "at most 8760 h of virtual time"),
        (
            "transport.kind = \"grpc\"\nnetwork.nodes = 5\n[mix]\npause = \"1000 h\"",
            "mix.pause: makes a run of 60000 h",
        ),
    ];
    assert_errors(rows, error);
    let long = "[messages]\nrate = 0.01\nduration = \"2000 h\"";
    let loaded = load_source("s.toml", long, Inputs::default(), &Overrides::default()).unwrap();
    assert!(loaded.notes.iter().any(|note| note.contains("which takes hours")), "{:?}", loaded.notes);
    for builtin in builtins() {
        let notes = load(builtin.name, &[], &[], None).unwrap().notes;
        assert!(!notes.iter().any(|note| note.contains("which takes hours")), "{}: {notes:?}", builtin.name);
    }
}

#[test]
fn sweeps_are_counted_before_they_are_made() {
    let axis = |at: usize| {
        format!("[[sweep.axis]]\nkey = \"messages.k{at}\"\nvalues = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n")
    };
    let axes: String = (0..45).map(axis).collect();
    let found = error(&format!("[messages]\n{axes}"));
    assert!(found.contains(&format!("allowed are at most {POINTS_MAX}")), "{found}");
    let ten: String = (0..10).map(axis).collect();
    assert!(error(&format!("[messages]\n{ten}")).contains("has 10000000000 points"));
    let seeds = |count: usize| (0..count).map(|seed| format!("{seed},")).collect::<String>();
    let text = format!("scenario.seeds = [{}]\n[messages]", seeds(POINTS_MAX + 1));
    assert!(error(&text).contains("has 100001 points (1 runs, 100001 seeds)"));
    // The most that is allowed, with one scenario for all of its points.
    let text = format!("scenario.seeds = [{}]\n[messages]", seeds(POINTS_MAX));
    let loaded = load_source("s.toml", &text, Inputs::default(), &Overrides::default()).unwrap();
    assert_eq!(loaded.points.len(), POINTS_MAX);
    let first = &loaded.points[0].scenario;
    assert!(loaded.points.iter().all(|point| std::sync::Arc::ptr_eq(first, &point.scenario)));
}

#[test]
fn axis_is_given_once() {
    let axis = "[[sweep.axis]]\nkey = \"network.jitter\"\nvalues = [\"1 ms\", \"2 ms\"]\n";
    let found = error(&format!("[messages]\n{axis}{axis}"));
    assert!(found.contains("sweep.axis.1.key: is \"network.jitter\", as of another axis"), "{found}");
    let axes = ["network.jitter=1 ms", "network.jitter=2 ms"].map(|text| parse_axis(text).unwrap()).to_vec();
    let overrides = Overrides { axes, ..Overrides::default() };
    let found = load_source("s.toml", "[messages]", Inputs::default(), &overrides).unwrap_err().to_string();
    assert!(found.contains("network.jitter: is an axis twice"), "{found}");
}

/// An axis that runs override is refused or noted, as `--set` with the same key.
#[test]
fn axes_without_an_effect_are_refused() {
    let runs = "[[run]]\nname = \"a\"\nset.\"protocol.withdraw\" = false\n[[run]]\nname = \"b\"\n";
    let load = |axis: Option<&str>, only: &[&str], more: &str| {
        let axes = axis.iter().map(|axis| parse_axis(axis).unwrap()).collect();
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        let overrides = Overrides { axes, only, ..Overrides::default() };
        let text = format!("[messages]\n{runs}{more}");
        load_source("s.toml", &text, Inputs::default(), &overrides)
    };
    let grid = Some("protocol.withdraw=true,false");
    let found = load(grid, &["a"], "").unwrap_err().to_string();
    let expected = "s.toml: --grid protocol.withdraw: would have no effect: every selected run sets this key: \
                    \"a\" (false); select others with --only, or change a copy of the scenario (`samara show`)";
    assert_eq!(found, expected);
    let notes = load(grid, &[], "").unwrap().notes;
    let note = "the axis protocol.withdraw does not affect runs that set this key: \"a\" (false)".to_owned();
    assert!(notes.contains(&note), "{notes:?}");
    let axis = "[[sweep.axis]]\nkey = \"protocol.withdraw\"\nvalues = [true, false]\n";
    let found = load(None, &["a"], axis).unwrap_err().to_string();
    assert!(found.contains("sweep.axis.0.key: protocol.withdraw: would have no effect"), "{found}");
    assert!(load(grid, &["b"], "").is_ok());
    // The run replaces the key by another one.
    let both = "[[run]]\nname = \"c\"\nset.\"network.bandwidth\" = \"5 Mbit/s\"\n";
    let found = load(Some("network.uplink=1 Mbit/s,2 Mbit/s"), &["c"], both).unwrap_err().to_string();
    assert!(found.contains("would have no effect: other keys of c replace network.uplink"), "{found}");
}

/// Texts that pages, figures and terminals show have no control characters.
#[test]
fn control_characters_are_refused() {
    let rows = [
        ("scenario.title = \"a\\u001bb\"\n[messages]", "scenario.title"),
        ("scenario.description = \"a\\u0085b\"\n[messages]", "scenario.description"),
        ("[messages]\n[[run]]\nname = \"a\"\nlabel = \"x\\ufffe\"", "run.0.label"),
        ("[messages]\n[[run]]\nname = \"a\"\nseries = \"x\\u202e\"", "run.0.series"),
        (
            "[messages]\n[[network.class]]\nname = \"x\\u0001\"\nshare = \"5 %\"\nuplink = \"1 Mbit/s\"\ndownlink = \"1 Mbit/s\"",
            "network.class.0.name",
        ),
        (
            "[messages]\n[[sweep.axis]]\nkey = \"scenario.title\"\nvalues = [\"a\", \"b\\u0007\"]",
            "sweep.axis.0.values.1",
        ),
    ];
    let expected = |key| format!("{key}: has the control character U+");
    assert_errors(rows.map(|(text, key)| (text, expected(key))), error);
    let axes = vec![parse_axis("scenario.title=a,b\u{1b}").unwrap()];
    let overrides = Overrides { axes, ..Overrides::default() };
    let found = load_source("s.toml", "[messages]", Inputs::default(), &overrides).unwrap_err();
    assert!(found.to_string().contains("control character U+001B"), "{found}");
    let inputs = Inputs::default().with("hosts.csv", &b"node,uplink\na,1 Mbit/s\nb\x1b[2J,1 Mbit/s\n"[..]);
    let text = "network.nodes_file = \"hosts.csv\"\n[messages]";
    let found = load_source("s.toml", text, inputs, &Overrides::default()).unwrap_err().to_string();
    assert!(found.contains("hosts.csv:3: has the control character U+001B"), "{found}");
}

/// No error quotes more than 200 characters in one place.
#[test]
fn errors_are_short() {
    let long = "x".repeat(100_000);
    let spaced = "x y ".repeat(50_000);
    let hosts = format!("node,uplink\n{long},{spaced}\n");
    let inputs = Inputs::default().with("hosts.csv", hosts.as_bytes());
    for text in [
        format!("[messages]\n{long} = 3"),
        format!("[messages]\n\"{spaced}\" = 3"),
        format!("[messages]\nrate = \"{spaced}\""),
        format!("[messages]\nsize = \"{long}\""),
        format!("[messages]\nsize = {long}"),
        format!("scenario.name = \"{spaced}\"\n[messages]"),
        format!("[messages]\n[[run]]\nname = \"{long}/\""),
        format!("[messages]\n[protocol]\nkind = \"{long}\""),
        format!("network.nodes_file = \"{long}\"\n[messages]"),
        "network.nodes_file = \"hosts.csv\"\n[messages]".to_owned(),
    ] {
        let found = load_source("s.toml", &text, inputs.clone(), &Overrides::default()).unwrap_err();
        let found = found.to_string();
        assert!(found.len() < 2_000, "{}: {}", &text[..60], found.len());
    }
}
