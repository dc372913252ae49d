//! Tests of the loader: accepted scenarios, and the errors of all others.

use std::sync::atomic::{AtomicUsize, Ordering};

use samara_document::Inputs;
use samara_document::keys::parse_axis;
use samara_gossipsub::config::Parameters;
use samara_gossipsub::config::Version;
use samara_lab::expect::Expectation;
use samara_scenario::{Overrides, TransportKind};

use crate::{assert_none, builtins, error_of, load, load_source};

/// The error of a file with this text; tests run at the same time, so each call has a file of its own.
fn error(text: &str, set: &[(&str, &str)], only: &[&str]) -> String {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let file = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("samara-scenario-{}-{file}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let set: Vec<(String, String)> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    let outcome = load(path.to_str().unwrap(), &set, &only, None);
    std::fs::remove_file(&path).unwrap();
    error_of(outcome).replace(path.to_str().unwrap(), "FILE")
}

const HEAD: &str = "[scenario]\nname = \"x\"\ntitle = \"X\"\n[columns]\n";

/// Checks the errors of texts below [`HEAD`]. Each line of the table has a text and its error, whose
/// lines end with a slash. An ellipsis stands for any text.
fn assert_errors(table: &str) {
    let wrong = table.trim().lines().filter_map(|line| {
        let (text, expected) = line.split_once(" => ").expect("a text and its error");
        let found =
            error(&format!("{HEAD}{}\n", text.trim().replace(" / ", "\n")), &[], &[]).replace('\n', " / ");
        let mut parts = expected.split('…');
        let mut rest = parts.next().and_then(|start| found.strip_prefix(start));
        for part in parts {
            rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
        }
        let is_right = rest.is_some_and(|rest| rest.is_empty() || expected.ends_with('…'));
        (!is_right).then(|| format!("{line}: {found}"))
    });
    assert_none(wrong);
}

#[test]
fn every_built_in_scenario_loads() {
    for builtin in builtins() {
        let loaded = load(builtin.name, &[], &[], None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.scenario.scenario.name, builtin.name);
        assert!(!loaded.points.is_empty());
        assert!(!builtin.about("title").is_empty());
        let description = &loaded.scenario.scenario.description;
        assert!(
            !description.contains('\\'),
            "{}: the description contains a backslash: {description}",
            builtin.name
        );
        // The shown text loads as the same scenario.
        let again = load_source("shown", &loaded.text, Inputs::default(), &Overrides::default()).unwrap();
        assert_eq!(again.points, loaded.points);
    }
}

/// `--set` and `--only` change numbers, and a report shows the title unchanged.
#[test]
fn titles_state_no_numbers() {
    const WORDS: [&str; 9] = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    for builtin in builtins() {
        // The year of a study, the number of a document, and a figure that others published.
        let title = builtin
            .about("title")
            .replace("2019", "")
            .replace("ADR 009", "")
            .replace("1.75", "")
            .to_lowercase();
        let has_word = title.split(|c: char| !c.is_alphabetic()).any(|word| WORDS.contains(&word));
        assert!(!has_word && !title.contains(|c: char| c.is_ascii_digit()), "{}: {title}", builtin.name);
    }
}

#[test]
fn sweeps_runs_and_seeds_multiply() {
    let loaded = load("peerdas-bandwidth", &[], &["batch".to_owned(), "node-wide".to_owned()], None).unwrap();
    assert_eq!(loaded.points.len(), 7 * 2 * 3);
    let point = &loaded.points[0];
    assert_eq!(point.scenario.network.uplink.bps(), 10_000_000);
    assert_eq!(point.scenario.network.downlink.bps(), 10_000_000);
    assert_eq!(point.name(), "batch network.bandwidth=10 Mbit/s");
    let one = load("peerdas-bandwidth", &[], &["batch".to_owned()], Some(9)).unwrap();
    assert!(one.points.len() == 7 && one.points.iter().all(|point| point.seed == 9));
}

#[test]
fn command_line_can_set_any_key() {
    let set = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let nodes = load("peerdas", &set("network.nodes", "200"), &[], None).unwrap();
    assert!(nodes.points.iter().all(|point| point.scenario.network.nodes == 200));
    let rate = load("peerdas", &set("network.uplink", "5 Mbit/s"), &[], None).unwrap();
    assert_eq!(rate.scenario.network.uplink.bps(), 5_000_000);
    let run = load("peerdas", &set("run.0.label", "First"), &[], None).unwrap();
    assert_eq!(run.scenario.runs[0].label, "First");
    let inside = load("peerdas", &set("run.0.set.\"protocol.degree\"", "7"), &[], None).unwrap();
    assert_eq!(inside.points[0].scenario.part::<Parameters>().config.mesh.d, 7);
    for wrong in ["nodes", "", "network..nodes", "network nodes"] {
        let error = load("peerdas", &set(wrong, "5"), &[], None).unwrap_err().to_string();
        assert!(error.contains("expected section.key, for example network.nodes"), "{error}");
    }
    let queue = load(
        "peerdas",
        &set("network.downlink_queue", "{ kind = \"drop-tail\", size = \"1 MB\" }"),
        &[],
        None,
    );
    assert!(queue.is_ok());
}

/// Runs and sweeps override the command line. It is an error if no run uses a value, and a note if
/// some do not.
#[test]
fn ineffective_settings_are_reported() {
    let load = |scenario: &str, key: &str, value: &str, only: &[&str]| {
        let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
        load(scenario, &[(key.to_owned(), value.to_owned())], &only, None)
    };
    let all = load("cat-real", "protocol.preset", "cat-2023", &["cat"]).unwrap_err().to_string();
    assert_eq!(
        all,
        "cat-real: --set protocol.preset=cat-2023: would have no effect: every selected run sets this key: \"cat\" (cat); \
         select others with --only, or change a copy of the scenario (`samara show`)"
    );
    assert!(
        load("cat-real", "protocol.preset", "cat", &["cat"]).is_ok(),
        "the value that the run has anyway"
    );
    let axis = load("peerdas-bandwidth", "network.bandwidth", "1 Gbit/s", &[]).unwrap_err().to_string();
    let remedy = "--set sweep.axis.0.values='[\"1 Gbit/s\"]'";
    assert!(axis.contains("the key is an axis of the sweep") && axis.ends_with(remedy), "{axis}");
    let one = load("peerdas-bandwidth", "sweep.axis.0.values", "[\"1 Gbit/s\"]", &["batch"]).unwrap();
    assert!(one.points.iter().all(|point| point.scenario.network.uplink.bps() == 1_000_000_000));
    let latency = load("cat-ideas", "network.latency", "5 ms", &["cat"]);
    assert!(latency.unwrap().notes[0].starts_with("network.latency changes no path: network.regions has"));
    let some = load("cat-real", "protocol.preset", "cat", &["cat", "cat-2023"]).unwrap().notes;
    assert_eq!(
        some,
        ["--set protocol.preset=cat does not affect runs that set this key: \"cat-2023\" (cat-2023)"]
    );
    // A run that sets a table sets everything in the table.
    let within =
        |value| load("peerdas-bandwidth", "protocol.schedule_publish.kind", value, &["batch", "balanced"]);
    assert!(within("interleaved").is_ok(), "the value that the run has anyway");
    let within = within("sequential").unwrap_err().to_string();
    assert!(
        within.contains("every selected run sets this key: \"batch\" (protocol.schedule_publish = {"),
        "{within}"
    );
}

#[test]
fn errors_name_line_and_remedy() {
    assert_errors(
        r#"
[network] / nodse = 5 => FILE:6: network.nodse: unknown key `nodse`…did you mean `nodes`?…6 | nodse = 5
[network] / latency = "50" => FILE:6: network.latency: "50" has no unit; expected a time such as "50 ms"…
[network] / latency = 50 => …found 50; expected a time with its unit, such as "50 ms"…
[network] / uplink = "20 Mbps" => …unknown unit "Mbps"; expected a rate such as "20 Mbit/s"…
[network.topology] / kind = "star" => …found `star`; expected one of `random-regular`, `random-dials`…
blobs = [1, 2 / [network] => FILE:6: a list is not closed before or in this line; add the missing `]`…
[sweep] / blobs = [1, 2] => …sweep.blobs: unknown key `blobs`; expected `axis`; each axis is a table of its own: [[sweep.axis]] with key = …
[[sweep.axis]] / values = [1, 2] => …missing key `key`; each axis is a table of its own: [[sweep.axis]] with key = …
[[sweep.axis]] / key = "columns.blobs" / values = 2 => …found 2; expected a list; each axis is a table of its own…
[network] / nodes = 10 / nodes = 20 => FILE:7: duplicate key `network.nodes`, first on line 6; expected…
[network] / [columns] => FILE:6: duplicate key `columns`, first on line 4; expected…
[network] / uplink = 20 Mbit/s => …a text in quotation marks, such as "20 Mbit/s" /   6 | uplink…
"#,
    );
    let syntax = error("[scenario\nname = 3", &[], &[]);
    assert_eq!(syntax, "FILE:1: expected `[section]`; add the closing bracket\n  1 | [scenario",);
    let node = error("[identity]\nkey_file = \"k\"\n", &[], &[]);
    assert!(node.contains("; this key belongs to the configuration of a node, which `samara node"), "{node}");
}

#[test]
fn errors_name_key_line_value_and_allowed_range() {
    assert_errors(
        r#"
custody = 200 => FILE:5: columns.custody: is 200; allowed is 1 to 128
[network] / nodes = 50 / [network.topology] / degree = 50 => FILE:8: network.topology.degree: is 50, with 50 nodes; allowed is 1 to 49; change the degree or network.nodes
[network] / nodes = 51 / [network.topology] / degree = 5 => …nodes x degree must be even…
[network] / loss = "100 %" => FILE:6: network.loss: is 100 %; allowed is below 100 %
publisher = 1000 => FILE:5: columns.publisher: is 1000; nodes are numbered 0 to 999
[network] / nodes = 0 => FILE:6: network.nodes: is 0; allowed is 2 to 1048576
[protocol] / degree = 8 / degree_low = 9 => FILE:7: protocol.degree_low: found 9, expected at most degree = 8…
custody = 200 / publisher = 5000 => FILE:5: columns.custody: is 200; allowed is 1 to 128 / FILE:6: columns.publisher: is 5000; …
[expect] / "incomplete" = 100 => FILE:6: expect.incomplete: found 100; expected a text; a limit with its sign, such as "< 4 s"…
[protocol] / schedule_publish = { kind = "sequential", shuffle = true } => FILE:6: protocol.schedule_publish.shuffle: belongs to kind = "interleaved" or "feedback"; remove it, or set one of these kinds…
"#,
    );
    let udp = error(&format!("{HEAD}[transport]\nkind = \"udp\"\n"), &[], &[]);
    assert!(udp.contains("found `udp`; expected one of `ideal`") && !udp.contains("did you mean"), "{udp}");
}

/// `network.bandwidth` stands for two keys: with `--set`, the more precise key wins in any order, and
/// two values in one file are an error.
#[test]
fn the_more_precise_rate_wins() {
    let rates = |set: &[(&str, &str)]| {
        let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        // The scenario has network.bandwidth = "1 Gbit/s".
        let network = load("ring", &set, &[], None).unwrap().points.remove(0).scenario.network.clone();
        (network.uplink.bps(), network.downlink.bps())
    };
    const GBIT: u64 = 1_000_000_000;
    assert_eq!(rates(&[]), (GBIT, GBIT));
    assert_eq!(rates(&[("network.uplink", "2 Gbit/s")]), (2 * GBIT, GBIT));
    assert_eq!(
        rates(&[("network.downlink", "2 Gbit/s"), ("network.uplink", "3 Gbit/s")]),
        (3 * GBIT, 2 * GBIT)
    );
    assert_eq!(
        rates(&[("network.uplink", "2 Gbit/s"), ("network.bandwidth", "5 Gbit/s")]),
        (2 * GBIT, 5 * GBIT)
    );
    assert_errors(
        r#"
[network] / bandwidth = "1 Gbit/s" / uplink = "2 Gbit/s" => FILE:6: network.bandwidth: sets uplink and downlink, but network.uplink is set as well; keep one of them (--set network.bandwidth= or --set network.uplink= removes one)
"#,
    );
}

#[test]
fn rejects_keys_of_another_transport() {
    assert_errors(
        r#"
[transport] / streams = "per-frame" => FILE:6: transport.streams: belongs to kind = "quic"; remove it, or set that kind…
[transport] / kind = "quic" / min_rto = "1 s" / delayed_ack = "1 ms" => FILE:7: transport.min_rto: belongs to kind = "tcp" or "grpc"; QUIC has probe timeouts without a minimum; remove it, or set one of these kinds…
[transport] / kind = "quic" / delayed_ack = "1 ms" => FILE:7: transport.delayed_ack: …with QUIC use max_ack_delay; remove it, or set one of these kinds…
[transport] / kind = "ideal" / initial_window = 24 => FILE:7: transport.initial_window: belongs to kind = "tcp" or "quic" or "grpc"; this kind has rates and latency only;…
[transport] / kind = "datagram" / idle_restart = true => FILE:7: transport.idle_restart: belongs to kind = "tcp" or "grpc"; this kind has rates and latency only;…
[transport] / kind = "quic" / congestion = "cubic" => …transport.congestion: belongs to kind = "tcp" or "grpc"; QUIC uses NewReno here; remove it…
[transport] / kind = "quic" / stack = "shadow" => …transport.stack: is "shadow", an implementation of TCP; remove it…
[transport] / kind = "quic" / max_udp_payload = 1000 => FILE:7: transport.max_udp_payload: is 1000; allowed is 1200 to 65527
[transport] / kind = "quic" / max_ack_delay = "17 s" => …transport.max_ack_delay: is 17 s; allowed is at most 16.383 s…
[transport] / kind = "quic" / streams = "many" => …found `many`; expected `single` or `per-frame`…
"#,
    );
    // Another kind removes the keys of the file that it does not have, but none that the user has set.
    let text = format!("{HEAD}[transport]\nmin_rto = \"1 s\"\ninitial_window = 4\n");
    let set = vec![("transport.kind".to_owned(), "quic".to_owned())];
    let loaded = load_source("x", &text, Inputs::default(), &Overrides { set, ..Overrides::default() });
    let loaded = loaded.unwrap();
    let kind = &loaded.scenario.transport.kind;
    assert!(matches!(kind, TransportKind::Quic { initial_window: Some(4), .. }), "{kind:?}");
    let text = text + "[[run]]\nname = \"fast\"\nset = { \"transport.kind\" = \"quic\" }\n";
    let loaded = load_source("x", &text, Inputs::default(), &Overrides::default()).unwrap();
    assert_eq!(&loaded.points[0].scenario.transport.kind, kind);
    let set = vec![("transport.min_rto".to_owned(), "2 s".to_owned())];
    let overrides = Overrides { set, ..Overrides::default() };
    let error = load_source("x", &text, Inputs::default(), &overrides).unwrap_err().to_string();
    assert!(
        error.contains("--set transport.min_rto=2 s: ") && error.contains("belongs to kind = \"tcp\""),
        "{error}"
    );
}

/// Words of Rust and serde that authors of scenarios do not know.
const INTERNAL_WORDS: &[&str] = &[
    "f64",
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "i64",
    "struct ",
    "variant",
    "enum ",
    "newtype",
    "map,",
    "map;",
    "a map",
    "Option",
    "sequence",
    "floating point",
    "invalid type",
    "invalid value",
    "invalid digit",
    "field",
];

fn is_plain(error: &str) -> bool {
    // A run of the scenarios of payloads has this name.
    let error = error.replace("run \"sequence\"", "run");
    !INTERNAL_WORDS.iter().any(|word| error.contains(word))
}

/// Lines of a scenario, a key, its value, and a part of the error.
const WRONG_VALUES: &str = r#"
peerdas | columns.blobs | seventy | found "seventy"; expected a whole number from 0 to 4294967295
peerdas | network.nodes | -1 | found -1; expected a whole number from 2 to 1048576
mix | network.nodes | -1 | found -1; expected a whole number from 2 to 128
peerdas | columns.publisher_uplink | 0 Mbit/s | publisher_uplink=0 Mbit/s: is 0 bit/s; it must be
peerdas | columns.custody_file | none.csv | custody_file=none.csv: none.csv:
peerdas | network.nodes | 1.5 | found 1.5; expected a whole number from 2 to 1048576
peerdas | network.nodes | 99999999999999999999 | expected a whole number from 2 to 1048576
peerdas | network.nodes | [5] | found a list; expected a whole number
peerdas | protocol.degree | many | expected a whole number from 0 to 9223372036854775807
peerdas | protocol.gossip_factor | a quarter | found "a quarter"; expected a number
peerdas | protocol.idontwant | yes | found "yes"; expected true or false
peerdas | protocol.version | 1.4 | found `1.4`; expected one of `1.0`, `1.1`, `1.2`, `1.3`; did you mean
peerdas | protocol.version | [1.1] | found a list; expected one of `1.0`, `1.1`, `1.2`, `1.3`
peerdas-cells | columns.cells.hits | 120 % | is 120 %; at most 100 %
peerdas-cells | columns.cells.push | some | found `some`; expected one of `none`, `private`, `all`
peerdas-cells | columns.count | 64 | a cell has 4096 bytes
peerdas-cells | protocol.parts.asking | two | expected `one` or `everyone`
peerdas | fault | [{ at = "1 s", kind = "claim", share = "10 %" }] | is about cells
peerdas-cells | fault | [{ at = "1 s", kind = "invent", share = "10 %", factor = 0.5 }] | expected 1 to 100 frames
peerdas-cells | columns.rows | 21 | comes without cells;
payload | columns.pieces.size | 8 B | is 8 B; a piece has at least its header of 16 bytes
payload | columns.pieces.size | 20 MB | a message of the protocol has at most 10 MiB; use more pieces
payload | columns.pieces.joined | 3 | needs topics = "each" and parity
payload | columns.pieces.silent | 130 % | is 130 %; at most 100 %
payload | columns.pieces.spoofing | 101 % | is 101 %; at most 100 %
payload | columns.pieces.omitted | 32 | is 32 of 32 pieces; expected fewer
payload | columns.pieces.id_size | 19 B | is 19 B; expected 20 B to 1 KiB
payload | columns.custody_needed | 3 | comes without pieces;
payload | protocol.spread.pull.retry | 0 ms | found 0 s; expected more than 0 s
payload | protocol.spread | 2 | found 2; expected a table
peerdas | protocol.preset | true | found true; expected one of `spec`, `ethereum`
peerdas | network.topology | ring | found "ring"; expected a table with the keys kind, degree,
peerdas | protocol.schedule_publish | sequential | policy, such as { kind = "sequential" }
peerdas | protocol.schedule_publish | { kind = "interleaved", peers = "weighted-score" } | do not keep; choose another order
peerdas | protocol.schedule_forward | { kind = "feedback", source = "observer" } | needs columns.observer = true
peerdas | network.downlink_queue | codel | found "codel"; expected a table such as { kind = "codel" }
peerdas | network.downlink_queue.kind | true | found true; expected a name
peerdas | network.downlink_queue.kind | red | found `red`; expected one of `drop-tail`, `codel`, `fq-codel`
peerdas | network.downlink_queue | { kind = "fq-codel", buckets = 0 } | is 0; allowed is 1 to 32768
peerdas | network.uplink_queue | codel | expected a table such as { kind = "fq-codel" }
peerdas | network.uplink_queue.kind | codel | found `codel`; expected one of `host`, `fq-codel`, `fair`, `fifo`
peerdas | network.uplink_queue | { kind = "fifo" } | needs either `time` (such as "500 ms") or `size`
peerdas | network.uplink_queue | { kind = "fifo", time = "1 s", size = "1 MiB" } | needs either `time`
peerdas | network.uplink_queue | { kind = "fifo", time = "0 s" } | allowed is 1 ms to 60 s
peerdas | network.uplink_queue | { kind = "fifo", size = "1 kB" } | allowed is 3 kB to 1 GiB
peerdas | transport.node_limit | false | needs one order over all links and a queue behind the sockets
peerdas | network.uplink_queue | { kind = "fair", target = "5 ms" } | unknown key `target`
peerdas | network.uplink_queue | { kind = "fq-codel", quantum = "20 B" } | allowed is 256 B to 1 MiB
peerdas | network.downlink_queue | { kind = "drop-tail" } | missing key `size`
peerdas | network.class | [{ name = "x" }] | missing key `share`; add one, such as share = "20 %"
peerdas | scenario.seeds | 5 | found 5; expected a list
peerdas | expect.x | { a = 1 } | found a table; expected a text; put the name of a metric in quotes: "time_to
gossip-baselines | messages.rate | 5/s | found "5/s"; expected a number
gossip-baselines | network.latency_file | x.csv | found "x.csv"; expected a table such as { file = "latency.csv", kind = "one-way", unit = "ms" }
gossip-baselines | network.latency_file | { file = "x.csv", unit = "ms" } | missing key `kind`; add kind = "one-way" or kind = "round-trip"
gossip-baselines | messages.rate | 5/s | ; the number of messages per second, such as 50
cat | pool.rate | 50/s | expected a number; the number of transactions per second, such as 50
peerdas | fault.0.share | 20 % | there is no [[fault]] to change; set the whole list: fault='[{
peerdas | blobs | 72 | expected section.key, for example network.nodes; did you mean columns.blobs?
gossip-baselines | network.topology.degree | 20 | belongs to kind = "random-regular"; remove it, or set that kind
peerdas | degree | 6 | did you mean protocol.degree?
cat | pool.nodes | 200 | ; did you mean network.nodes?
cat | validators | 200 | ; did you mean network.nodes?
peerdas | workload.deadline | 4 s | ; did you mean columns.deadline?
cat | churn | 20 % | for example network.nodes; [[fault]] describes churn (docs/guides/faults.md)
cat | protocol.kind | flooding | found "flooding"; expected "cat", the protocols of [pool]; protocol.preset selects a version of cat: `
cat | protocol.kind | flood-fifo | ; "flood-fifo" is a version of cat: set protocol.preset to it
peerdas | protocol.kind | gosipsub | the protocols of [columns]; did you mean "gossipsub"?
cat | protocol.kind | floodsub | "floodsub" needs a file with [columns] or [messages], whose results
cat-real | protocol.kind | gossipsub | "gossipsub" needs a file with [columns] or [messages]
ring | protocol.preset | daisy | did you mean `daisychain`?
gossip-study | protocol.preset | flood-fifo | ; [messages] has gossipsub, and "flood-fifo" is a preset of cat, which needs a file with [pool]
cat | network.uplink | 25 Mbps | unknown unit "Mbps"; expected a rate such as
cat | network.uplink | 25 Mbps | in bit/s, kbit/s, Mbit/s, Gbit/s; did you mean Mbit/s?
cat | network.uplink | 25 MBit/s | ; did you mean Mbit/s?
cat | network.latency | 4 sec | ; did you mean s?
cat | pool.size | 2kb | ; did you mean kB?
cat | pool.size | 1 KB | ; did you mean kB?
cat | network.latency | -4 s | "-4 s" is negative; expected a time
cat | protocol.announce | 5 | found `5`; expected one of
cat | protocol.timeout | {} | found a table; expected a time with its unit, such as "200 ms", or
cat | transport.connection.flush | 10 | "10" has no unit; expected a time such as "50 ms", in ns, us, µs, ms, s, min, h, or "when-idle"
cat | network.latency | 1e12 h | "1e12 h" is too large; expected a time of at most 87600 h
cat | pool.size | 1e30 GB | is too large; expected a size of at most 1000000 GB
cat | network.uplink | 1e12 Gbit/s | is too large; expected a rate of at most 1000000 Gbit/s
cat | network.latency | 61 s | is 61 s; allowed is at most 60 s
cat | pool.duration | 0 s | is 0 s; clients need time to submit
cat | pool.nothing |  | removes the key, but the scenario does not set it
ring | group.duration | 0 s | is 0 s; expected a positive time
peerdas | columns.blobs | 100000 | a column has 204.8 MB; a message of the protocol has at most 10 MiB, which allows 5120 blobs of 128 KiB
peerdas | columns.slot_interval | 8761 h | with 1 slots; together at most 8760 h
peerdas | fault | [{ kind = "crash", share = "5 %" }] | missing key `at`; add the time since the start of the run, such as at = "10 s"
peerdas | fault | [{ kind = "crash", at = "70 s", nodes = [1] }] | fault.0.at: is 70 s, but the run ends at 70 s at the latest
peerdas | fault | [{ kind = "slow", at = "11 s", nodes = [1] }] | fault.0: missing key `factor`; a slow node needs one, such as factor = 0.1
peerdas | fault | [{ kind = "partition", at = "11 s", nodes = [1] }] | fault.0.until: is missing; a partition needs an end
peerdas | fault | [{ kind = "cut", at = "11 s", nodes = [1] }] | fault.0.until: is missing; a cut needs an end
peerdas | fault | [{ kind = "reset", at = "11 s", until = "12 s", nodes = [1] }] | fault.0.until: has no effect with kind = "reset"; nodes connect again at once; remove it
peerdas | fault | [{ kind = "reset", at = "11 s", nodes = [1], peers = [] }] | fault.0.peers: is empty; expected numbers of nodes
peerdas | fault | [{ kind = "reset", at = "11 s", nodes = [1], peers = [1000] }] | fault.0.peers: has node 1000; nodes are numbered 0 to 999
peerdas | fault | [{ kind = "crash", at = "11 s", nodes = [1], peers = [2] }] | fault.0.peers: belongs to kind = "cut" or "reset" or "reconnect"
peerdas | fault | [{ kind = "reconnect", at = "11 s", nodes = [1], direction = "out" }] | fault.0.direction: belongs to kind = "cut"
peerdas | fault | [{ kind = "cut", at = "11 s", until = "12 s", nodes = [1], factor = 0.5 }] | fault.0.factor: belongs to kind = "slow"
peerdas | fault | [{ kind = "upload", at = "11 s", nodes = [1] }] | fault.0.kind: needs a queue that the node shares with others behind its router
peerdas-links | fault | [{ kind = "upload", at = "11 s", nodes = [1], factor = 1.5 }] | fault.0.factor: is 1.5; expected 1 to 100 connections, a whole number
peerdas-links | fault | [{ kind = "upload", at = "11 s", nodes = [1], factor = 101 }] | fault.0.factor: is 101; expected 1 to 100 connections
peerdas | fault | [{ kind = "node", at = "11 s", nodes = [1] }] | fault.0.kind: needs a queue that the node shares with others behind its router
peerdas-links | fault | [{ kind = "node", at = "11 s", nodes = [1], factor = 0.5 }] | fault.0.factor: is 0.5; expected 1 to 100 links, a whole number
peerdas-links | fault | [{ kind = "call", at = "11 s", nodes = [1], factor = 2 }] | fault.0.factor: belongs to kind = "slow"
peerdas | fault | [{ kind = "crash", at = "11 s", share = "150 %" }] | fault.0.share: is 150 %; allowed is up to 100 %
peerdas | fault | [{ kind = "crash" | a table in braces is not closed before or in this line; add
cat | network.latency | 5 | found 5; expected a time with its unit, such as "50 ms"
"#;

#[test]
fn wrong_values_are_described_in_the_terms_of_scenario_files() {
    assert_none(WRONG_VALUES.trim().lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [scenario, key, value, expected] = cells[..] else { panic!("{line}") };
        let error = crate::refused(scenario, &[(key, value)], &[]);
        let start = format!("{scenario}: --set {key}={value}: ");
        let is_right = error.starts_with(&start) && error.contains(expected) && is_plain(&error);
        (!is_right).then(|| format!("{line}: {error}"))
    }));
}

/// Values that do not fit the rest of a scenario: lines of a scenario and its run, a key, its value, and
/// a part of the error.
const UNFIT_VALUES: &str = r#"
cat cat | columns.blobs | 3 | the scenario has [pool], not [columns]
cat cat | protocol.degree | 3 | unknown key `degree`
cat cat | pool.rate | 5 | has no effect with pool.rate; keep one of them
cat cat | pool.arrivals | poisson | has no effect without pool.rate
cat cat | pool.size | 23 B | is 23 B; allowed is 24 B to
cat cat | pool.block_interval | 0 s | clients wait for blocks
cat cat | pool.block_size | 1 kB | less than a transaction with 4.8 kB
cat cat | pool.consensus | 15 s | is committed before the next one is proposed
cat cat | pool.warm_up | 50 ms | must be later than transport.links.until
cat cat | protocol.compact_blocks | true | compact blocks need time to spread
cat cat | protocol.timeout | 0 ms | protocol.timeout=0 ms: found 0ns, expected more than zero
cat cat | protocol.bundle_txs | 9 | needs a bundle_window
cat cat | protocol.push | some | "all", "nobody", or a number of peers
cat cat | protocol.timeout | soon | or "adaptive"
cat cat | network.topology.dials | 100 | is 100; allowed is 1 to 99
cat cat | transport.kind | quic | use kind = "tcp" or "ideal"
cat cat | transport.kind | ideal | no window that a slow reader could close
cat cat | transport.kind | "grpc" | transport.connection
cat cat | transport.connection.flush | 0 ms | use "when-idle"
cat cat | transport.connection.flush | often | or "when-idle"
cat cat | pool.group | [{ name = "x", share = "10 %" }] | needs a preset, or an adversary
cat cat | pool.group | [{ name = "x", share = "100 %", adversary = "silent" }] | fewer than 2 honest nodes
cat-churn cat | fault.0.kind | leave | is "leave", which nodes of [pool] cannot do; use "crash"
gossip-baselines gossipsub | transport.connection.flush | when-idle | has no effect in [messages]: channels belong to transaction pools
gossip-baselines gossipsub | columns.blobs | 3 | the scenario has [messages], not [columns]
gossip-baselines gossipsub | messages.rate | 0 | it must be above 0
gossip-baselines gossipsub | messages.duration | 0 s | 0 messages; allowed is 1 to
gossip-baselines gossipsub | messages.size | 3 B | is 3 B; allowed is 4 B to
gossip-baselines gossipsub | messages.warm_up | 50 ms | must be later than transport.links.until
gossip-baselines gossipsub | network.topology.topic_peers_min | 3 | all nodes have one topic
gossip-baselines gossipsub | protocol.optimization_threshold | 3 | unknown key `optimization_threshold`
gossip-baselines gossipsub | network.topology.seed | 3 | belongs to kind = "barabasi-albert"
peerdas batch | protocol.kind | randomsub | found "randomsub"; expected "gossipsub"
peerdas batch | protocol.schedule_publish | batch | found `batch`; expected one of `sequential`
peerdas batch | network.classes_from | 5000 | allowed is 0 to
peerdas batch | transport.stack | quic-go | needs kind = "quic"
peerdas batch | transport.ip_headers | false | belongs to kind = "quic" or "datagram"
peerdas-methods batch | columns.custody_needed | 17 | columns.custody_needed=17: is 17; allowed is 1 to 16
peerdas-methods batch | columns.repair.publish | false | columns.repair: no node keeps half of the columns
peerdas-methods batch | columns.repair.columns | 5 | is 5; allowed is 64 to 128
peerdas-methods batch | transport.datagram_header | 8 | belongs to kind = "datagram"
peerdas-methods floodsub-batch | network.validation_time | 3 ms | baselines have no validation
peerdas-methods plumtree-batch | columns.observer | true | an observer reports by GossipSub
peerdas-methods plumtree-batch | columns.publisher_subscribes_all | false | a publisher is a member of Plumtree's trees
peerdas-methods datagram-batch | transport.initial_window | 4 | belongs to kind = "tcp" or "quic" or "grpc"
peerdas-methods datagram-batch | transport.max_segment | 9000 B | here use max_udp_payload
ring ring | columns.blobs | 3 | the scenario has [group], not [columns]
ring ring | protocol.push | 3 | unknown key `push`
ring ring | network.topology.degree | 3 | have links to all others
ring ring | transport.unsent | 1 kB | is 1 kB; allowed is 4 KiB
ring ring | transport.links.until | 1 s | dial each other
ring ring | network.nodes | 2000 | allowed is 2 to 1024
ring ring | group.senders | 5 | is 5; allowed is 1 to 4
ring ring | group.duration | 5 s | is set with a number of messages
ring ring | group.rate | 0 | above 0 messages a second
ring ring | group.size | 10 B | is 10 B; allowed is 20 B to
ring ring | group.messages | 0 | at least one message
ring ring | group.warm_up | 0 s | needs time to form
ring ring | protocol.chunk | 1 B | is 1 B; allowed is 20 B to
ring ring | protocol.chunk | 1 MiB | protocol.window_min: found
ring ring | protocol.shape | star | found `star`; expected one of
ring ring | protocol.heartbeat | 1 s | heartbeat < timeout_min
ring ring | protocol.federated | true | add [network.regions]
ring ring | protocol.bridge_shape | direct | add protocol.federated
ring ring | transport.kind | datagram | do not send lost frames again; use kind = "tcp"
ring daisychain | transport.kind | datagram | do not send lost frames again; use kind = "tcp"
ring daisychain | protocol.chunk | 1 kB | a plain daisy chain has no parameters
ring-rounds ring | transport.kind | "grpc" | transport.kind
ring-federation-churn quiet | protocol.preset | ring-total | a federation orders by sender
ring-federation-churn quiet | network.regions.gateway | 0 bit/s | must be positive
ring-federation-churn quiet | network.regions.latency | [["10 ms", "20 ms", "40 ms"], ["20 ms", "10 ms", "40 ms"], ["40 ms", "40 ms", "10 ms"]] | is 20ms from Paris to London
mix today | messages.rate | 1 | the scenario has [mix], not [messages]
mix today | mix.team | 1 | 2 to 32
mix today | mix.team | 6 | no more than the pool has
mix today | mix.batch | 0 | allowed is 1 to
mix today | mix.rounds | 0 | allowed is 1 to
mix today | mix.stock | 21 | allowed is 0 to 20
mix today | mix.cores | 0 | allowed is 1 to
mix today | mix.processor | 0.5 % | found "0.5 %", expected 1 % to 100 %
mix today | mix.group | "small" | found `small`; expected one of
mix today | protocol.realtime_max | 0 | at least 1
mix today | protocol.reconnect_limit | "1 s" | found 1s, expected at least 15s, the maximum delay
mix today | transport.kind | "tcp" | teams need kind
mix today | transport.http2_window | "3 GB" | allowed is 1 B to 2147483647 B
mix today | network.validation_time | "1 ms" | mix.cpu
mix today | network.nodes | 1000 | allowed is 2 to 128
"#;

#[test]
fn values_that_do_not_fit_the_rest_are_refused() {
    assert_none(UNFIT_VALUES.trim().lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [which, key, value, expected] = cells[..] else { panic!("{line}") };
        let (scenario, run) = which.split_once(' ').expect("a scenario and its run");
        let error = crate::refused(scenario, &[(key, value)], &[run]);
        let section = key.split('.').next().expect("a section");
        // Only the key of scenarios, not the field of the engine.
        let is_right =
            error.contains(expected) && error.contains(section) && !error.contains("requests.timeout");
        (!is_right).then(|| format!("{line}: {error}"))
    }));
    for (key, value, expected) in [
        ("fault.0.nodes", "[4]", "numbered 0 to 3"),
        ("fault.0.nodes", "[]", "is empty; expected numbers of nodes"),
        ("fault.0.share", "5 %", "is set, and nodes as well; keep one of them"),
    ] {
        let error = crate::refused("ring-churn", &[(key, value), ("sweep.axis", "[]")], &["crash"]);
        assert!(error.contains(expected), "{key}: {error}");
    }
    let rows = [("columns.rows", "3"), ("columns.row_custody", "0")];
    let error = crate::refused("peerdas-methods", &rows, &["batch"]);
    assert!(error.contains("columns.rows=3: is 3; allowed is 8 to 4096"), "{error}");
}

/// Each problem has one line, at the key that causes it.
#[test]
fn one_wrong_value_is_one_problem() {
    let own = "[network]\nnodes = 1\n[pool]\n";
    let own = load_source("own.toml", own, Inputs::default(), &Overrides::default()).unwrap_err();
    assert_eq!(own.to_string(), "own.toml:2: network.nodes: is 1; allowed is 2 to 1048576");
    let zero = load("peerdas", &[("columns.blobs".to_owned(), "0".to_owned())], &[], None).unwrap_err();
    assert_eq!(zero.to_string(), "peerdas: --set columns.blobs=0: is 0; allowed is 1 to 100000");
}

#[test]
fn misplaced_keys_of_files_are_errors_with_a_remedy() {
    let rows = [
        (
            "[messages]\n[[run]]\nname = \"flooding\"\nset = { \"protocol.preset\" = \"flood-fifo\" }\n",
            "in run \"flooding\": found `flood-fifo`; expected one of `spec`",
        ),
        (
            "[messages]\n[[run]]\nname = \"flooding\"\nset = { \"protocol.preset\" = \"flood-fifo\" }\n",
            "\"flood-fifo\" is a preset of cat, which needs a file with [pool]",
        ),
        (
            "[pool]\n[[run]]\nname = \"a\"\npreset = \"cat-2023\"\n",
            "; a run changes keys with set, such as set = { \"protocol.preset\" = ... }",
        ),
        (
            "[rumours]\ncount = 3\n",
            "; the section of an experiment of your own needs the program that has it",
        ),
    ];
    crate::assert_errors(rows, |text| {
        error_of(load_source("own.toml", text, Inputs::default(), &Overrides::default()))
    });
}

/// Collects the dotted keys of all values of a table.
fn leaves(table: &toml::Table, prefix: &str, keys: &mut Vec<String>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        if let Some(inner) = value.as_table() {
            leaves(inner, &format!("{key}."), keys);
        }
        keys.push(key);
    }
}

#[test]
fn no_error_names_an_internal_type() {
    let (mut refused, mut wrong) = (0, Vec::new());
    for (scenario, run) in [("peerdas", "batch"), ("cat", "cat"), ("ring", "ring"), ("mix", "equal")] {
        let all: toml::Table = load(scenario, &[], &[], None).unwrap().text.parse().unwrap();
        let mut keys = Vec::new();
        leaves(&all, "", &mut keys);
        keys.retain(|key| key.contains('.') && !key.starts_with("run") && !key.starts_with("expect"));
        for key in &keys {
            for value in ["?", "true", "-1", "0.5", "[[]]", "{ x = 1 }"] {
                let set = [(key.clone(), value.to_owned())];
                let Err(error) = load(scenario, &set, &[run.to_owned()], None) else { continue };
                let error = error.to_string();
                wrong.extend((!is_plain(&error)).then(|| format!("{scenario} {key}={value}: {error}")));
                refused += 1;
            }
        }
    }
    assert_none(wrong.into_iter());
    assert!(refused > 500, "{refused}");
}

#[test]
fn numbers_can_be_names_and_texts() {
    let set =
        |key: &str, value: &str| load("peerdas", &[(key.to_owned(), value.to_owned())], &[], None).unwrap();
    for (text, version) in [("1.0", Version::V1_0), ("1.1", Version::V1_1), ("\"1.1\"", Version::V1_1)] {
        assert_eq!(
            set("protocol.version", text).scenario.part::<Parameters>().config.version,
            version,
            "{text}"
        );
    }
    assert_eq!(set("scenario.title", "2026").scenario.scenario.title, "2026");
    // The same applies to files and to the values of a sweep.
    let text = format!(
        "{HEAD}[protocol]\nversion = 1.1\n[[run]]\nname = \"a\"\nset = {{ \"protocol.version\" = 1.0 }}\n\
         [[run]]\nname = \"b\"\n"
    );
    let loaded = load_source("x", &text, Inputs::default(), &Overrides::default()).unwrap();
    let versions: Vec<Version> =
        loaded.points.iter().map(|point| point.scenario.part::<Parameters>().config.version).collect();
    assert_eq!(versions, [Version::V1_0, Version::V1_1]);
    let axes = vec![parse_axis("protocol.version=1.1,1.2").unwrap()];
    let swept =
        load_source("x", HEAD, Inputs::default(), &Overrides { axes, ..Overrides::default() }).unwrap();
    assert_eq!(swept.points[0].scenario.part::<Parameters>().config.version, Version::V1_1);
    // The same number in a run and on the command line is not a conflict, in any notation.
    let both = Overrides {
        set: vec![("protocol.version".to_owned(), "\"1.0\"".to_owned())],
        ..Overrides::default()
    };
    assert!(load_source("x", &text, Inputs::default(), &both).unwrap().notes.is_empty());
}

/// The names of metrics contain dots, which separate keys elsewhere.
#[test]
fn expectations_are_set_with_and_without_quotes() {
    for key in ["expect.time_to_custody_ms.p95", "expect.\"time_to_custody_ms.p95\""] {
        let set = [(key.to_owned(), "< 4 s".to_owned())];
        let expect = load("peerdas", &set, &[], None).unwrap().scenario.expect;
        assert_eq!(expect.get("time_to_custody_ms.p95").map(String::as_str), Some("< 4 s"), "{key}");
    }
    let set = [("expect.batch:time_to_custody_ms.p95".to_owned(), "< 4 s".to_owned())];
    let expect = load("peerdas", &set, &[], None).unwrap().scenario.expect;
    assert!(expect.contains_key("batch:time_to_custody_ms.p95"));
    let unquoted = error(&format!("{HEAD}[expect]\ntime_to_custody_ms.p95 = \"< 4 s\"\n"), &[], &[]);
    assert!(
        unquoted.starts_with("FILE:6: expect.time_to_custody_ms: found a table; expected a text; put the"),
        "{unquoted}"
    );
}

#[test]
fn scenarios_have_exactly_one_experiment() {
    let none = error("[scenario]\nname = \"x\"\ntitle = \"X\"\n", &[], &[]);
    assert_eq!(
        none,
        "FILE: found no experiment; add one of the sections [columns], [messages], [pool], [group], [mix]"
    );
    assert_errors(
        r#"
[messages] / rate = 5.0 => FILE:5: messages: found [columns] and [messages]; a scenario has one experiment, so remove one…
[mesages] => …unknown key `mesages`…did you mean `messages`?…
"#,
    );
}

#[test]
fn protocol_must_belong_to_the_experiment() {
    assert_errors(
        r#"
[protocol] / kind = "randomsub" => FILE:6: protocol.kind: found "randomsub"; expected "gossipsub"…
[protocol] / kind = "gossipsub" / degre = 5 => FILE:7: protocol.degre: unknown key `degre`…
"#,
    );
    // Another kind has other parameters: parameters of the scenario's kind do not apply to it.
    let loaded = crate::loaded("gossip-baselines", &[("protocol.kind", "plumtree")], &["gossipsub"], None);
    assert_eq!(loaded.points[0].scenario.selected.protocol(), "plumtree");
}

#[test]
fn shown_scenarios_have_no_ineffective_keys() {
    for (name, without) in [
        ("cat", &["[gossipsub]", "topic_peers_min", "[columns]", "degree = "][..]),
        ("ring", &["[network.topology]", "[transport.links]", "[columns]", "validation_time"][..]),
        ("mix", &["[network.topology]", "[transport.links]", "[gossipsub]", "validation_time"][..]),
        ("peerdas", &["dials", "attachments", "[pool]", "[transport.connection]"][..]),
    ] {
        let text = load(name, &[], &[], None).unwrap().text;
        for key in without {
            assert!(!text.contains(key), "{name} shows {key}:\n{text}");
        }
    }
    // Its file has the graph, not the messages.
    let text = load("gossip-baselines", &[], &[], None).unwrap().text;
    assert!(text.contains("rate = 200.0\n") && text.contains("size = \"1 kB\"\n"), "{text}");
}

#[test]
fn keys_of_another_topology_are_refused() {
    let text = format!("{HEAD}[network.topology]\nkind = \"random-dials\"\ndegree = 8\n");
    let belongs = "belongs to kind = \"random-regular\"; remove it, or set that kind";
    assert_eq!(
        error(&text, &[], &[]),
        format!("FILE:7: network.topology.degree: {belongs}\n  7 | degree = 8")
    );
    let table = [("network.topology", "{ kind = \"random-dials\", degree = 8 }")];
    assert_eq!(
        error(HEAD, &table, &[]),
        format!(
            "FILE: --set network.topology={{ kind = \"random-dials\", degree = 8 }}: network.topology.degree: {belongs}"
        )
    );
    // Another kind removes the keys of the file that it does not have.
    let kinds = |text: &str, set: &[(&str, &str)]| -> Vec<&str> {
        let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let overrides = Overrides { set, ..Overrides::default() };
        let loaded = load_source("FILE", text, Inputs::default(), &overrides);
        let points = loaded.unwrap_or_else(|error| panic!("{error}")).points;
        points.iter().map(|point| point.scenario.network.topology.name()).collect()
    };
    let regular = format!("{HEAD}[network.topology]\ndegree = 8\n");
    assert_eq!(kinds(&regular, &[("network.topology.kind", "ring")]), ["ring"]);
    let both = [("network.topology.dials", "5"), ("network.topology.kind", "random-dials")];
    assert_eq!(kinds(&regular, &both), ["random-dials"]);
    let run =
        "[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\nset = { \"network.topology.kind\" = \"full-mesh\" }\n";
    assert_eq!(kinds(&format!("{regular}{run}"), &[]), ["random-regular", "full-mesh"]);
}

#[test]
fn mistakes_in_regions_are_named() {
    let square = "[[\"2 ms\", \"9 ms\"], [\"9 ms\", \"2 ms\"]]";
    let short = "[[\"2 ms\", \"9 ms\"], [\"9 ms\"]]";
    let names = "[\"a\", \"b\"]";
    let rows = [
        (
            names,
            "[1, 1]",
            short,
            "8: network.regions.latency.1: has 1 values; expected one for each of the 2 regions",
        ),
        (
            "[\"a\", \"a\"]",
            "[1, 1]",
            square,
            "6: network.regions.names.1: is \"a\" again; each region needs a name of its own",
        ),
        (names, "[1, -1]", square, "7: network.regions.weights: has -1; expected 0 or more"),
        (
            names,
            "[0, 0]",
            square,
            "7: network.regions.weights: is 0 for all regions; expected more for at least one",
        ),
    ];
    assert_none(rows.into_iter().filter_map(|(names, weights, latency, expected)| {
        let text = format!("[network.regions]\nnames = {names}\nweights = {weights}\nlatency = {latency}\n");
        let found = error(&format!("{HEAD}{text}"), &[], &[]);
        (found != format!("FILE:{expected}")).then(|| format!("{text}: expected {expected}, found {found}"))
    }));
}

#[test]
fn errors_name_the_flag() {
    let rows = [
        ("network.nodse", "5", "--set network.nodse=5: unknown key `nodse`"),
        ("network.nodse", "5", "did you mean `nodes`?"),
        ("network.validators", "5", "unknown key `validators`"),
        ("network.validators", "5", "did you mean `nodes`?"),
        (
            "network.nodes",
            "many",
            "--set network.nodes=many: found \"many\"; expected a whole number from 2 to 1048576",
        ),
        ("run.7.label", "x", "--set run.7.label=x"),
    ];
    assert_none(rows.into_iter().filter_map(|(key, value, expected)| {
        let found = error(HEAD, &[(key, value)], &[]);
        (!found.contains(expected)).then(|| format!("{key}: expected {expected:?}, found {found}"))
    }));
    let only = error(HEAD, &[], &["nothing"]);
    assert_eq!(only, "FILE: --only nothing: there is no such run; the runs are x");
    let missing = load("peerdsa", &[], &[], None).unwrap_err().to_string();
    assert!(missing.contains("did you mean the built-in scenario \"peerdas\"?"), "{missing}");
}

/// The user of a built-in scenario does not have its file, so errors name what to set.
#[test]
fn errors_of_built_in_scenarios_name_the_command_line() {
    let degree = crate::refused("peerdas", &[("network.nodes", "20")], &[]);
    assert_eq!(
        degree,
        "peerdas: network.topology.degree: is 70, with 20 nodes; allowed is 1 to 19; change the degree or network.nodes \
         (--set network.topology.degree=VALUE changes it)"
    );
    let rate = crate::refused("cat", &[("pool.rate", "5")], &["cat"]);
    let remedy = "keep one of them (--set pool.clients= or --set pool.rate= removes one)";
    assert!(rate.contains(remedy) && !rate.contains("VALUE"), "{rate}");
    let set = [("pool.rate", "5"), ("pool.clients", ""), ("pool.spread", "")];
    let loaded = crate::loaded("cat", &set, &["cat"], None);
    assert_eq!(loaded.points[0].scenario.part::<samara_family_pool::section::Transactions>().clients, None);
    let without = crate::loaded("peerdas-bandwidth", &[("sweep.axis.0", "")], &["batch"], Some(1));
    assert_eq!(without.points.len(), 1);
    let expect = crate::loaded("peerdas", &[("expect.incomplete", "")], &[], None).scenario.expect;
    assert!(!expect.contains_key("incomplete") && !expect.is_empty());
}

#[test]
fn scenarios_without_a_name_have_that_of_their_file() {
    let inputs = Inputs::default();
    let named = |text: &str| {
        let loaded = load_source("dir/my net.toml", text, inputs.clone(), &Overrides::default());
        let about = loaded.unwrap_or_else(|error| panic!("{error}")).scenario.scenario;
        (about.name, about.title)
    };
    let pair = |name: &str, title: &str| (name.to_owned(), title.to_owned());
    assert_eq!(named("[columns]\n"), pair("my-net", "my-net"));
    assert_eq!(named("[scenario]\nname = \"x\"\n[columns]\n"), pair("x", "x"));
    assert_eq!(named("[scenario]\ntitle = \"X\"\n[columns]\n"), pair("my-net", "X"));
    assert!(error("\n", &[], &[]).starts_with("FILE: is empty; "));
}

#[test]
fn errors_in_runs_are_found_while_loading() {
    assert_errors(
        r#"
[[run]] / name = "a" / set = { "network.nodse" = 5 } => …in run "a"…unknown key `nodse`…
[[run]] / name = "a" / set = { "columns.custody" = 500 } => …columns.custody: is 500; allowed is 1 to 128…
"#,
    );
    // Not in the line of the run.
    let text = format!("{HEAD}[[run]]\nname = \"a\"\nset = {{ \"columns.custody\" = 4 }}\n");
    let axes = vec![parse_axis("columns.custody=1,x").unwrap()];
    let overrides = Overrides { axes, ..Overrides::default() };
    let swept = load_source("FILE", &text, Inputs::default(), &overrides).unwrap_err().to_string();
    assert!(
        swept.starts_with("FILE: columns.custody: in the sweep: found \"x\"; expected a whole"),
        "{swept}"
    );
}

/// The bytes saved relate to the first run, `flood-fifo`.
#[test]
fn expectations_that_need_an_unselected_run_are_left_out() {
    let relative = |only: &[&str]| {
        let loaded = crate::loaded("cat", &[], only, None);
        let all = Expectation::all_of(&loaded).unwrap();
        all.iter().filter(|one| one.metric == "bytes_saved_factor").count()
    };
    assert!(relative(&[]) > 0 && relative(&["flood-fifo", "cat-2023"]) > 0);
    assert_eq!(relative(&["cat-2023"]), 0);
}

/// Sections keep the order of the file, so that results print in it.
#[test]
fn expectations_have_the_order_of_the_file() {
    let text = format!(
        "{HEAD}[expect]\n\"mesh_size\" = \"< 1\"\n\"incomplete\" = \"< 1\"\n\"queue_drops\" = \"< 1\"\n"
    );
    let loaded = load_source("x", &text, Inputs::default(), &Overrides::default()).unwrap();
    let metrics: Vec<String> =
        Expectation::all_of(&loaded).unwrap().into_iter().map(|one| one.metric).collect();
    assert_eq!(metrics, ["mesh_size", "incomplete", "queue_drops"]);
}

#[test]
fn expectations_understand_units_and_paths() {
    let metrics = serde_json::json!({ "time_to_custody_ms": { "p95": 3900.0 }, "delivery_ratio": 1.0, "incomplete": 0 });
    let holds = |key: &str, text: &str, run: &str| {
        Expectation::parse(key, text).unwrap().check(run, &metrics).map(|outcome| outcome.holds)
    };
    assert_eq!(holds("time_to_custody_ms.p95", "< 4 s", "a"), Some(true));
    assert_eq!(holds("time_to_custody_ms.p95", "< 3900 ms", "a"), Some(false));
    assert_eq!(holds("time_to_custody_ms.p95", "> 0", "a"), Some(true), "zero needs no unit");
    assert_eq!(holds("delivery_ratio", "== 1", "a"), Some(true), "a share of 1");
    assert_eq!(holds("incomplete", "< 5 nodes", "a"), Some(true), "the unit of a count");
    assert_eq!(holds("time_to_custody_ms.p95", ">= 3.9 s", "a"), Some(true));
    assert_eq!(holds("delivery_ratio", "== 100 %", "a"), Some(true));
    assert_eq!(holds("batch: incomplete", "== 0", "batch"), Some(true));
    assert_eq!(holds("batch: incomplete", "== 0", "other"), None);
    assert_eq!(holds("no.such.metric", "> 0", "a"), Some(false), "expectations on missing metrics fail");
    let late = serde_json::json!({ "time_to_custody_ms": { "max": 3900.0 }, "incomplete": 920 });
    let line = |metric: &str, text: &str| {
        Expectation::parse(metric, text).unwrap().check("batch", &late).map(|outcome| outcome.line()).unwrap()
    };
    assert_eq!(
        line("time_to_custody_ms.max", "< 30 s"),
        "✓ batch: time_to_custody_ms.max < 30 s for what arrived (incomplete: 920)"
    );
    assert_eq!(
        line("incomplete", "< 1000"),
        "✓ batch: incomplete < 1000",
        "the count itself leaves nothing out"
    );
    for (metric, text, expected) in [
        ("x", "4 s", "does not start with <"),
        ("incomplete", "0", "\"0\" does not start with <, <=, ==, >= or >; expected for example \"<= 20\""),
        ("time_to_custody_ms.p95", "< 5", "\"5\" has no unit; expected a time such as \"50 ms\""),
        ("bytes_up_per_node", "< 5", "\"5\" has no unit; expected a size such as"),
        (
            "incomplete",
            "< 5 apples",
            "\"5 apples\" is not a number; expected one such as \"20\", the number of nodes",
        ),
        ("duplication_factor", "< nan", "\"nan\" is not a number"),
        ("delivery_ratio", "== 100", "\"100\" is more than 1; write \"100 %\", or a share from 0 to 1"),
    ] {
        let error = Expectation::parse(metric, text).unwrap_err();
        assert!(error.contains(expected), "{metric} {text}: {error}");
    }
    assert!(
        Expectation::parse("time_to_custody_ms.p95", "< 4 parsecs").unwrap_err().contains("unknown unit")
    );
}

/// Schedules by what no node of the scenario knows would be orders without effect.
#[test]
fn schedules_without_effect_are_refused() {
    let observed = ("columns.observer", "true");
    let publish = "protocol.schedule_publish";
    let weighted = |peers: &str| format!("{{ kind = \"interleaved\", peers = \"{peers}\" }}");
    let observer = "{ kind = \"feedback\", source = \"observer\" }";
    let capped = "{ kind = \"feedback\", source = \"observer\", cap = 2 }";
    for kind in ["ideal", "datagram"] {
        for peers in ["weighted-latency", "weighted-bandwidth"] {
            let error = crate::refused(
                "peerdas-small",
                &[("transport.kind", kind), (publish, &weighted(peers))],
                &["sequential"],
            );
            assert!(error.contains("do not measure") && is_plain(&error), "{error}");
        }
    }
    let error = crate::refused(
        "peerdas-small",
        &[observed, ("protocol.schedule_forward", observer)],
        &["sequential"],
    );
    assert!(error.contains("an observer reports to the publisher") && is_plain(&error), "{error}");
    let error = crate::refused("peerdas-small", &[observed, (publish, capped)], &["sequential"]);
    assert!(error.contains("cap belongs to source = \"peers\"") && is_plain(&error), "{error}");
    // What nodes know is accepted.
    crate::loaded("peerdas-small", &[observed, (publish, observer)], &["sequential"], None);
    crate::loaded("peerdas-small", &[(publish, &weighted("weighted-latency"))], &["sequential"], None);
}
