//! Every way in which a scenario can be wrong, and what people read then.

use samara_lab::scenario::{ScenarioError, ScenarioFile};

const GOOD: &str = r#"[scenario]
name = "test"

[network]
nodes = 100
topology = { kind = "random-regular", degree = 20 }
latency = "50 ms"
bandwidth = "20 Mbit/s"

[workload]
kind = "columns"
custody = 16
"#;

fn plan(text: &str) -> Result<(), ScenarioError> {
    ScenarioFile::parse("test.toml", text, None)?.plan().map(|_| ())
}

/// The good scenario with a part replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    GOOD.replacen(old, new, 1)
}

/// The good scenario with lines at its end.
fn and(more: &str) -> String {
    format!("{GOOD}{more}\n")
}

fn error(text: &str) -> ScenarioError {
    plan(text).expect_err(text)
}

/// The only problem: line, key, message, what is allowed.
#[track_caller]
fn only(text: &str, line: usize, key: &str, message: &str, allowed: &str) {
    let error = error(text);
    let [problem] = error.problems.as_slice() else { panic!("one problem is expected:\n{error}") };
    let found =
        (problem.place.as_ref().map(|place| place.line), problem.key.as_str(), problem.message.as_str());
    assert_eq!(found, (Some(line), key, message), "{error}");
    assert_eq!(problem.allowed.as_deref().unwrap_or_default(), allowed, "{error}");
}

#[test]
fn the_good_one_is_good() {
    plan(GOOD).unwrap();
}

#[test]
fn a_problem_is_shown_with_its_line() {
    let error = error(&with("degree = 20", "degre = 20"));
    let expected = r#"error: network.topology.degre: there is no such key
 --> test.toml:6:39
  |
6 | topology = { kind = "random-regular", degre = 20 }
  |                                       ^^^^^
  = allowed: degree, kind
  = did you mean "degree"?

error: network.topology.degree: this key is missing
 --> test.toml:6:12
  |
6 | topology = { kind = "random-regular", degre = 20 }
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = allowed: Links of every host"#;
    let mut shown = error.to_string();
    // The key that is missing points at its table, which begins earlier in the line.
    let parts: Vec<&str> = shown.split("\n\n").collect();
    shown = [parts[1], parts[0]].join("\n\n");
    assert_eq!(shown, expected);
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = GOOD
        .replace("name = \"test\"", "name = \"a b\"")
        .replace("latency = \"50 ms\"", "latency = \"50\"")
        .replace("custody = 16", "custdy = 16");
    let keys: Vec<String> = error(&text).problems.into_iter().map(|problem| problem.key).collect();
    assert_eq!(keys, ["scenario.name", "network.latency", "workload.custdy"]);
}

#[test]
fn what_is_not_toml() {
    let error = error("[scenario\nname = 1\n[network]\nnodes = = 2\n");
    assert!(error.problems.len() >= 2, "{error}");
    assert!(error.problems.iter().all(|problem| problem.message.starts_with("this is not TOML: ")));
    assert_eq!(error.problems[0].place.as_ref().unwrap().line, 1);
    assert_eq!(error.problems.last().unwrap().place.as_ref().unwrap().line, 4);
    let missing = ScenarioFile::open(std::path::Path::new("there/is/no.toml")).unwrap_err().to_string();
    assert!(
        missing.starts_with("error: it cannot be read: ") && missing.contains("there/is/no.toml"),
        "{missing}"
    );
}

#[test]
fn quantities() {
    let rate = "a number and a unit (bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s), for example \"20 Mbit/s\"";
    let key = "network.bandwidth";
    let bandwidth = |value: &str| with("bandwidth = \"20 Mbit/s\"", &format!("bandwidth = {value}"));
    only(&bandwidth("20"), 8, key, "20 has no unit", rate);
    only(&bandwidth("\"20\""), 8, key, "\"20\" is not a data rate: it has no unit", rate);
    only(&bandwidth("true"), 8, key, "true is not of the right type", rate);
    only(&bandwidth("\"0 bit/s\""), 8, key, "nothing gets through at 0 bit/s", "8 bit/s or more");
    let mbps = "\"20 Mbps\" is not a data rate: there is no unit \"Mbps\", did you mean \"20 Mbit/s\"?";
    only(&bandwidth("\"20 Mbps\""), 8, key, mbps, rate);
    only(&bandwidth("2020-01-01"), 8, key, "the time 2020-01-01 is not of the right type", rate);
    let loss = with("latency", "loss = \"100 %\"\nlatency");
    only(&loss, 7, "network.loss", "with a loss of 100 % nothing arrives", "less than 100 %");
}

#[test]
fn keys_and_kinds() {
    let nodes = with("nodes = 100", "nodes = 1");
    only(&nodes, 5, "network.nodes", "1 is out of range", "2 to 10000000");
    only(&with("nodes = 100", "nodes = -5"), 5, "network.nodes", "-5 is out of range", "2 to 10000000");
    only(
        &with("nodes = 100", "nodes = \"100\""),
        5,
        "network.nodes",
        "\"100\" is not of the right type",
        "a whole number",
    );
    only(
        &with("nodes = 100\n", ""),
        4,
        "network.nodes",
        "this key is missing",
        "how many hosts there are (2 or more)",
    );
    let topology = |value: &str| with("{ kind = \"random-regular\", degree = 20 }", value);
    let key = "network.topology";
    only(
        &topology("\"random-regular\""),
        6,
        key,
        "\"random-regular\" needs more keys",
        "{ kind = \"random-regular\", degree = ... }",
    );
    let kinds = "\"random-regular\", \"barabasi-albert\", \"full-mesh\", \"ring\", \"file\", \"regions\"";
    only(&topology("\"full-mash\""), 6, key, "\"full-mash\" is not known", kinds);
    only(&topology("{ degree = 3 }"), 6, "network.topology.kind", "this key is missing", kinds);
    only(&topology("{ kind = \"tree\" }"), 6, "network.topology.kind", "\"tree\" is not known", kinds);
    only(&topology("{ kind = 3 }"), 6, "network.topology.kind", "3 is not a text", kinds);
    let error = error(&topology("\"full-mash\""));
    assert_eq!(error.problems[0].suggestion.as_deref(), Some("\"full-mesh\""));
    let preset = and("[gossipsub]\npreset = \"etherum\"");
    only(
        &preset,
        14,
        "gossipsub.preset",
        "\"etherum\" is not known",
        "\"spec\", \"ethereum\", \"go-libp2p-pubsub\"",
    );
    let publisher = and("publisher = \"nobody\"");
    let who = "the number of a node, \"random\", or \"class:\" and the name of a class";
    only(&publisher, 13, "workload.publisher", "\"nobody\" is not allowed", who);
    let name = with("\"test\"", "\"a/b\"");
    let letters = "letters, digits, \"-\", \"_\" and \".\", not beginning with a sign";
    only(&name, 2, "scenario.name", "\"a/b\" is not allowed", letters);
    only(
        &with("name = \"test\"", "name = \"x\"\nseeds = []"),
        3,
        "scenario.seeds",
        "the list has 0 items",
        "1 or more",
    );
}

#[test]
fn networks_that_cannot_be() {
    let degree = |degree: &str| with("degree = 20", &format!("degree = {degree}"));
    let key = "network.topology.degree";
    only(&degree("100"), 6, key, "100 is impossible: each of 100 nodes has 99 others", "1 to 99");
    only(
        &degree("21").replace("nodes = 100", "nodes = 101"),
        6,
        key,
        "101 nodes with 21 links each is impossible: every link has two ends",
        "an even degree, or an even number of nodes",
    );
    only(&degree("1"), 6, key, "nodes with 1 link each cannot all be reached", "2 to 99");
    let m = with("kind = \"random-regular\", degree = 20", "kind = \"barabasi-albert\", m = 100");
    only(&m, 6, "network.topology.m", "100 is impossible: each of 100 nodes has 99 others", "1 to 99");
    let mesh = with("{ kind = \"random-regular\", degree = 20 }", "\"full-mesh\"")
        .replace("nodes = 100", "nodes = 30000");
    only(
        &mesh,
        6,
        "network.topology",
        "a full mesh of 30000 nodes has 449985000 links",
        "at most 20000 nodes in a full mesh",
    );
    let regions =
        with("kind = \"random-regular\", degree = 20", "kind = \"regions\", degree = 20, local = \"100 %\"");
    let messages: Vec<String> = error(&regions).problems.into_iter().map(|problem| problem.message).collect();
    assert_eq!(
        messages,
        ["there are no regions", "with 100 % of the links within a region, no region reaches another"]
    );
    let latency = with("\"50 ms\"", "{ kind = \"uniform\", min = \"50 ms\", max = \"20 ms\" }");
    only(&latency, 7, "network.latency.max", "20 ms is less than min = 50 ms", "50 ms or more");
    let queue = and("[network.queue]\ndownlink = { kind = \"drop-tail\", size = \"1 kB\" }");
    only(&queue, 14, "network.queue.downlink.size", "1 kB does not hold one packet", "1500 B or more");
}

#[test]
fn regions_and_classes() {
    let latency = |value: &str| with("\"50 ms\"", value);
    let one = "either table = \"FILE\" or a list of region";
    let message = "both table and region are given, or neither";
    only(&latency("{ kind = \"regions\" }"), 7, "network.latency", message, one);
    let region = r#"{ kind = "regions", region = [{ name = "a", latency = { a = "1 ms" } }, { name = "b", latency = { b = "1 ms", c = "2 ms" } }] }"#;
    let messages: Vec<String> =
        error(&latency(region)).problems.into_iter().map(|problem| problem.message).collect();
    assert!(messages.contains(&"there is no region \"c\"".to_owned()), "{messages:?}");
    assert!(messages.contains(&"the latency from \"a\" to \"b\" is missing".to_owned()), "{messages:?}");
    let class = |text: &str| and(&format!("[[network.class]]\nname = \"home\"\n{text}"));
    let message = "both share and count are given, or neither";
    only(&class(""), 13, "network.class.0", message, "either share or count");
    only(
        &class("count = 101"),
        13,
        "network.class",
        "the classes have 101.0 hosts of 100",
        "at most 100 together",
    );
    let two = class("share = \"60 %\"\n[[network.class]]\nname = \"other\"\nshare = \"60 %\"");
    assert!(error(&two).to_string().contains("the classes have 120.0000 % of the hosts"));
    let named = class("share = \"60 %\"\nregion = \"eu\"");
    let allowed = "a region together with network.latency.kind = \"regions\"";
    only(&named, 16, "network.class.0.region", "there are no regions", allowed);
    let twice = class("count = 1\n[[network.class]]\nname = \"home\"\ncount = 1");
    only(&twice, 17, "network.class.1.name", "there are two classes \"home\"", "different names");
}

#[test]
fn workloads_that_cannot_be() {
    let custody = with("custody = 16", "custody = 129");
    only(&custody, 12, "workload.custody", "129 is impossible: there are 128 columns", "1 to 128");
    let publisher = and("publisher = 100");
    let allowed = "0 to 99, \"random\" or \"class:NAME\"";
    only(&publisher, 13, "workload.publisher", "there is no node 100", allowed);
    let class = and("publisher = \"class:home\"");
    let allowed = "the number of a node, or \"random\": there are no classes";
    only(&class, 13, "workload.publisher", "there is no class \"home\"", allowed);
    only(
        &and("observer = 0"),
        13,
        "workload.observer",
        "the publisher cannot observe itself",
        "another node",
    );
    only(&and("observer = 100"), 13, "workload.observer", "there is no node 100", "0 to 99");
    only(&and("blob_size = \"0 B\""), 13, "workload.blob_size", "there is nothing to send", "1 B or more");
    only(&and("deadline = \"0 s\""), 13, "workload.deadline", "0 s is no time at all", "more than 0 s");
    let huge = error(&and("blob_size = \"10 GiB\"")).to_string();
    assert!(huge.contains("a column would have 1342177280 B: 8 blobs of 10 GiB"), "{huge}");
    let short = with("name = \"test\"", "name = \"test\"\nduration = \"5 s\"");
    let message = "the run would end after 5 s, before the first publication";
    only(&short, 3, "scenario.duration", message, "more than workload.warm_up = 20 s");
    let seeds = with("name = \"test\"", "name = \"test\"\nseeds = [4, 2, 4]");
    let message = "the seed 4 is there twice: its results would be the same";
    only(&seeds, 3, "scenario.seeds", message, "different seeds");
    let dialled = and("[transport]\nestablished = { kind = \"dialled\", from = \"4 s\", until = \"30 s\" }");
    let message = "links are dialled until 30 s, after the first publication";
    only(&dialled, 14, "transport.established.until", message, "less than workload.warm_up = 20 s");
}

#[test]
fn parameters_that_cannot_be() {
    let gossipsub = |text: &str| and(&format!("[gossipsub]\n{text}"));
    let cases = [
        ("degree_low = 7", "degree_low", "7 is more than degree = 6", "at most degree = 6"),
        ("degree_high = 5", "degree_high", "5 is less than degree = 6", "6 or more"),
        ("degree_score = 7", "degree_score", "7 is more than degree = 6", "at most degree = 6"),
        (
            "degree_out = 3",
            "degree_out",
            "3 is too many (specification v1.1)",
            "0, or less than degree_low = 4 and less than half of degree = 6",
        ),
        ("history_gossip = 6", "history_gossip", "6 is more than history_length = 5", "at most 5"),
        ("heartbeat = \"0 s\"", "heartbeat", "0 s is no time at all", "more than 0 s"),
        (
            "prune_backoff = \"20 ms\"",
            "prune_backoff",
            "20 ms is less than a second, and whole seconds travel",
            "1 s or more",
        ),
        (
            "publish = { kind = \"feedback\", source = \"observer\" }",
            "publish.source",
            "there is no observer",
            "the number of a node in workload.observer",
        ),
        (
            "publish = { kind = \"staggered\", timeout = \"0 s\" }",
            "publish.timeout",
            "0 s is no time at all",
            "more than 0 s",
        ),
    ];
    for (text, key, message, allowed) in cases {
        only(&gossipsub(text), 14, &format!("gossipsub.{key}"), message, allowed);
    }
    let transport = |text: &str| and(&format!("[transport]\n{text}"));
    only(&transport("mss = \"10 B\""), 14, "transport.mss", "10 B is no packet size", "64 B to 65535 B");
    only(&transport("min_rto = \"0 s\""), 14, "transport.min_rto", "0 s is no time at all", "more than 0 s");
    let framing = "framing = { kind = \"custom\", small = \"1 B\", large = \"1 B\", lead = \"2 kB\" }";
    only(
        &transport(framing),
        14,
        "transport.framing.lead",
        "2 kB is not a packet of its own",
        "0 B to 1460 B",
    );
}

#[test]
fn faults_that_cannot_be() {
    let fault = |text: &str| and(&format!("[[fault]]\nat = \"30 s\"\n{text}"));
    let cases = [
        ("kind = \"crash\"\nnodes = [100]", 16, "fault.0.nodes", "there is no node 100", "0 to 99"),
        (
            "kind = \"crash\"",
            13,
            "fault.0",
            "it hits no hosts, or both named and drawn ones",
            "either nodes, or share or class",
        ),
        ("kind = \"crash\"\nclass = \"x\"", 16, "fault.0.class", "there is no class \"x\"", ""),
        (
            "kind = \"crash\"\nnodes = [1]\nuntil = \"20 s\"",
            17,
            "fault.0.until",
            "20 s is not after the beginning at 30 s",
            "more than 30 s",
        ),
        (
            "kind = \"slow\"\nnodes = [1]",
            13,
            "fault.0",
            "it does not say how slow",
            "uplink, downlink or both",
        ),
        (
            "kind = \"churn\"\nnodes = [1]\nmean_up = \"1 s\"",
            13,
            "fault.0",
            "it does not say how often",
            "mean_up and mean_down",
        ),
        (
            "kind = \"crash\"\nnodes = [1]\nuplink = \"1 Mbit/s\"",
            17,
            "fault.0.uplink",
            "it means nothing for this kind of fault",
            "only with kind = \"slow\"",
        ),
    ];
    for (text, line, key, message, allowed) in cases {
        only(&fault(text), line, key, message, allowed);
    }
    let drawn = fault("kind = \"crash\"\nnodes = [1]")
        .replace("at = \"30 s\"", "at = { kind = \"drawn\", from = \"9 s\", until = \"8 s\" }");
    only(&drawn, 14, "fault.0.at.until", "8 s is before from = 9 s", "9 s or more");
}

#[test]
fn runs_and_sweeps() {
    let run = |set: &str| and(&format!("[[run]]\nname = \"one\"\nset = {{ {set} }}"));
    let error_of = |text: &str| error(text);
    let degree = error_of(&run("\"network.topology.degree\" = 200"));
    let expected = r#"error: network.topology.degree: 200 is impossible: each of 100 nodes has 99 others
  --> test.toml:15:37
   |
15 | set = { "network.topology.degree" = 200 }
   |                                     ^^^
   = in run: one
   = allowed: 1 to 99"#;
    assert_eq!(degree.to_string(), expected);
    let unknown = error_of(&run("\"gossipsub.dispach\" = \"node\""));
    let problem = &unknown.problems[0];
    assert_eq!(
        (problem.key.as_str(), problem.suggestion.as_deref()),
        ("gossipsub.dispach", Some("\"dispatch\""))
    );
    let allowed = "keys of network, transport, gossipsub, workload and fault";
    let message = "\"scenario.name\" cannot differ between runs: it is about all of them";
    only(&run("\"scenario.name\" = \"x\""), 15, "run.0.set.\"scenario.name\"", message, allowed);
    let message = "\"a b\" is not a key: write parts and points, for example network.bandwidth";
    only(&run("\"a b\" = 1"), 15, "run.0.set.\"a b\"", message, allowed);
    let twice = and("[[run]]\nname = \"one\"\n[[run]]\nname = \"one\"");
    only(&twice, 16, "run.1.name", "there are two runs \"one\"", "different names");
    let sweep = |text: &str| and(&format!("[[sweep]]\n{text}"));
    only(
        &sweep("values = [1]"),
        13,
        "sweep.0",
        "both key and keys are given, or neither",
        "either key or keys",
    );
    let values =
        "keys = [\"network.uplink\", \"network.downlink\"]\nvalues = [[\"1 Mbit/s\", \"2 Mbit/s\"], 3]";
    only(
        &sweep(values),
        15,
        "sweep.0.values.1",
        "3 is not a list of 2 values",
        "a list with a value for each of keys",
    );
    let impossible = sweep("key = \"workload.custody\"\nvalues = [16, 200]");
    only(&impossible, 15, "workload.custody", "200 is impossible: there are 128 columns", "1 to 128");
    let many = format!(
        "key = \"network.nodes\"\nvalues = {:?}\n[[sweep]]\nkey = \"workload.blobs\"\nvalues = {:?}",
        vec![100; 400],
        vec![1; 400]
    );
    only(&sweep(&many), 13, "sweep", "the sweep has 160000 points", "at most 100000");
}

#[test]
fn expectations() {
    let expect = |line: &str| and(&format!("[expect]\n{line}"));
    let first = |line: &str| {
        let error = error(&expect(line));
        assert_eq!(error.problems[0].place.as_ref().unwrap().line, 14, "{error}");
        error.problems[0].message.clone()
    };
    assert!(first("\"time_to_custody_ms.p95\" = \"4 s\"").contains("does not begin with a comparison"));
    assert!(first("\"time_to_custody_ms.p95\" = \"< 4\"").contains("\"4\" is not a time: it has no unit"));
    assert!(first("\"time_to_custody_ms.p95\" = \"< 4 MB\"").contains("there is no unit \"MB\" of it"));
    assert!(
        first("\"incomplete\" = \"== 4 s\"")
            .contains("\"incomplete\" has no unit, so that \"4 s\" must be a number")
    );
    assert!(first("\"incomplete\" = 0").contains("0 is not of the right type"));
    assert!(first("time_to_custody_ms.p95 = \"< 4 s\"").contains("must be in quotes"));
    assert!(first("\"a b\" = \"< 4\"").contains("\"a b\" is not a metric"));
    assert!(first("\"x\" = \"within 10 %\"").contains("lacks \"of\""));
    assert!(first("\"x\" = \"< x * sequential\"").contains("does not begin with a positive number"));
    assert!(first("\"x\" = \"<\"").contains("nothing to compare with"));
    let error = error(&expect("\"batsh: time_to_custody_ms.p95\" = \"< 4 s\"\n[[run]]\nname = \"batch\""));
    let problem = &error.problems[0];
    assert_eq!(
        (problem.message.as_str(), problem.suggestion.as_deref()),
        ("there is no run \"batsh\"", Some("\"batch\""))
    );
}

#[test]
fn what_is_set_over_it() {
    let set = |assignment: &str| {
        let mut file = ScenarioFile::parse("test.toml", GOOD, None).unwrap();
        file.set(assignment).and_then(|()| file.plan().map(|_| ())).map_err(|error| error.to_string())
    };
    assert_eq!(
        set("network.topology.degree=100").unwrap_err(),
        "error: network.topology.degree: 100 is impossible: each of 100 nodes has 99 others\n --> --set \
         network.topology.degree=100\n  = allowed: 1 to 99"
    );
    assert!(set("network.latncy=\"5 ms\"").unwrap_err().contains("did you mean \"latency\"?"));
    assert!(set("nothing").unwrap_err().starts_with("error: there is no \"=\""));
    assert!(set("a..b=1").unwrap_err().contains("\"a..b\" is not a key"));
    assert!(set("run.0.name=x").is_err());
}
