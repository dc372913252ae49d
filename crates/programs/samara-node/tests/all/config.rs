//! Tests of valid configurations, and of the error texts for invalid ones.

use std::path::{Path, PathBuf};
use std::slice;

use samara_gossipsub::signature::SignaturePolicy;
use samara_node::config::Network;
use samara_node::{Checked, NodeConfig, Running};
use serde_json::json;

use crate::common::{FAST, node};

const SEED: &str = "[identity]\nseed = 1\n";

/// The documented file, and its text with all commented settings enabled: those behind `#` without
/// a space, or with the four spaces of a continuation.
fn documented() -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/node.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let is_prose = |rest: &str| rest.is_empty() || (rest.starts_with(' ') && !rest.starts_with("    "));
    let line = |line| match str::strip_prefix(line, "#") {
        Some(setting) if !is_prose(setting) => setting,
        _ => line,
    };
    let all: Vec<&str> = text.lines().map(line).collect();
    (path, all.join("\n"))
}

/// The values for which the documented file shows the defaults.
fn defaults(config: &Checked) -> String {
    let (engine, written) = (&config.engine, &config.written);
    let (dial, observers, report_to) = Default::default();
    let network = Network { dial, observers, report_to, ..written.network.clone() };
    let engine = (&engine.mesh, engine.heartbeat_interval, &engine.message_id, engine.max_message_bytes);
    format!("{engine:?} {network:?} {:?} {:?}", written.log, written.stop)
}

#[test]
fn the_documented_file_is_valid_with_and_without_optional_parts() {
    let (path, all) = documented();
    let config = NodeConfig::load(&path).unwrap();
    assert_eq!((config.listen.len(), config.dial.len(), config.topics.len()), (2, 0, 2));
    assert!(config.pool.is_none() && config.group.is_none() && config.mix.is_none());
    let all = NodeConfig::parse(&all, &path).unwrap();
    assert_eq!(defaults(&all), defaults(&config), "commented settings are the defaults");
    let config = all;
    assert_eq!(config.dial.len(), 2);
    assert_eq!((config.engine.observers.len(), config.engine.report_to.len()), (1, 1));
    assert!(config.written.metrics.is_some() && config.written.trace.is_some() && config.mix.is_some());
    let pool = config.pool.unwrap();
    assert_eq!((pool.options.network.as_str(), pool.options.peers.len()), ("samara", 1));
    assert_eq!(pool.engine.persistent.len(), 1);
    let group = config.group.unwrap();
    assert!(group.options().unwrap_err().contains("docs/group.secret: there is no such file"));
    let group = group.options;
    assert_eq!((group.group.as_str(), group.seeds.len(), group.queue_bytes), ("samara", 1, 256 << 10));
    assert_eq!(group.require_seed, Some(std::time::Duration::from_secs(10)));
    assert!(
        config.written.identity.key_file.unwrap().ends_with("docs/node.key"),
        "the path is relative to the file"
    );
}

/// A program writes a configuration with all defaults.
#[test]
fn a_written_configuration_reads_as_the_same() {
    let (path, all) = documented();
    for text in [std::fs::read_to_string(&path).unwrap(), all, format!("{SEED}[protocol]\ndegree = 12\n")] {
        let config = NodeConfig::parse(&text, &path).unwrap();
        let written = toml::to_string(&config.written).unwrap();
        let again = NodeConfig::parse(&written, &path).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(toml::to_string(&again.written).unwrap(), written);
        assert_eq!(defaults(&again), defaults(&config));
    }
}

/// The sizes of a mesh move with its degree, and limits without a key with the longest message.
#[test]
fn values_that_nobody_has_set_cause_no_error() {
    let of = |text: &str| NodeConfig::parse(&format!("{SEED}{text}"), Path::new("node.toml"));
    for degree in [1, 2, 4, 12, 13, 100] {
        let config = of(&format!("[protocol]\ndegree = {degree}\n")).unwrap();
        assert_eq!(config.engine.mesh.d, degree);
    }
    for size in ["1 B", "1 KiB", "10 MiB"] {
        of(&format!("[protocol]\nmessage_max = \"{size}\"\n"))
            .unwrap_or_else(|error| panic!("{size}: {error}"));
    }
}

/// A batch of the control API, of 64 MiB in 4,096 messages, fits into an empty lane.
#[test]
fn what_is_owed_to_a_peer_is_bounded_in_bytes() {
    for preset in ["ethereum", "spec", "go-libp2p-pubsub"] {
        let text = format!("{SEED}[protocol]\npreset = \"{preset}\"\n");
        let checked = NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
        assert_eq!(checked.engine.sending.publish.bytes, (64 << 20) + 4096 * 4096, "{preset}");
        assert_eq!(checked.options.lane_bytes, 16 << 20, "{preset}");
    }
}

#[test]
fn messages_follow_the_preset() {
    let parse = |text: &str| NodeConfig::parse(&format!("{SEED}{text}"), Path::new("node.toml")).unwrap();
    assert_eq!(parse("").engine.authenticity.policy, SignaturePolicy::StrictNoSign);
    let go = parse("[protocol]\npreset = \"go-libp2p-pubsub\"\n");
    assert_eq!(go.engine.authenticity.policy, SignaturePolicy::StrictSign);
    assert_eq!(go.engine.max_message_bytes, 1 << 20);
    let unsigned = parse("[format]\nauthenticity = \"unsigned\"\nid = \"from-seqno\"\n");
    assert_eq!(unsigned.engine.authenticity.policy, SignaturePolicy::LaxNoSign);
    let remote = "listen = \"0.0.0.0:1\"\nallow_remote = true\n";
    assert!(parse(&format!("[control]\n{remote}token_file = \"t\"\n")).written.control.is_some());
    assert!(parse(&format!("[metrics]\n{remote}")).written.metrics.is_some());
    for section in
        ["network]\nlisten = [\"/ip4/0.0.0.0/tcp/1\"]", "pool]\nnetwork = \"n\"\nlisten = \"[::]:1\""]
    {
        assert!(parse(&format!("allow_seed = true\n[{section}\n")).written.identity.allow_seed);
    }
    assert!(parse("[control]\nlisten = \"[::1]:0\"\n").written.control.is_some());
}

/// The text after a valid start, the beginning of the error, and words that it must contain.
const MISTAKES: &[(&str, &str, &[&str])] = &[
    ("topics = 5", "node.toml:3: identity.topics: ", &["unknown key `topics`", "key_file"]),
    ("[netwrok]", "node.toml:3: netwrok: ", &["unknown key `netwrok`", "`network`"]),
    ("[network]\nlisen = []", "node.toml:4: network.lisen: ", &["unknown key `lisen`", "`listen`"]),
    ("[network]\nlisten = 5", "node.toml:4: network.listen: ", &["found 5; expected a list"]),
    ("[network]\nlisten = [\"here\"]", "node.toml:4: network.listen.0: ", &["\"here\"", "/quic-v1"]),
    (
        "[network]\nlisten = [\"/ip4/1.2.3.4/udp/1\"]",
        "node.toml:4: network.listen.0: ",
        &["/udp/1\"", "/tcp/"],
    ),
    (
        "[network]\ndial = [\"/dns4/a/tcp/1\"]",
        "node.toml:4: network.dial.0: ",
        &["/dns4/a", "a node resolves no names (DNS)", "/ip4/"],
    ),
    (
        "[network]\nlisten = [\"/ip4/127.0.0.1/tcp/70000\"]",
        "node.toml:4: network.listen.0: ",
        &["tcp/70000\", in which \"70000\" is not a port from 0 to 65535; expected an address"],
    ),
    (
        "[network]\ndial = [\"/ip4/127.0.0.1/tcp/4001/p2p/12D3Koo\"]",
        "node.toml:4: network.dial.0: ",
        &["in which \"12D3Koo\" is not a peer id: copy the one", "or leave out /p2p/"],
    ),
    (
        "[network]\nlisten = [\"/ip4/1.2.3.300/tcp/1\"]",
        "node.toml:4: ",
        &["\"1.2.3.300\" is not an IPv4 address"],
    ),
    ("[network", "node.toml:3: expected `[section]`; add the closing bracket", &["3 | [network"]),
    ("[gossipsub]", "node.toml:3: gossipsub: unknown key `gossipsub`", &["did you mean `protocol`?"]),
    ("[cat]", "node.toml:3: cat: unknown key `cat`", &["did you mean `pool.protocol`?"]),
    (
        "[columns]",
        "node.toml:3: columns: is a section of scenarios",
        &["`samara run node.toml`", "docs/node.toml"],
    ),
    ("[network]\nredial_first = \"2\"", "node.toml:4: network.redial_first: ", &["\"2\" has no unit", "ms"]),
    (
        "[network]\nredial_max = \"1 ms\"",
        "node.toml:4: network.redial_max: ",
        &["1 ms", "redial_first = 1 s"],
    ),
    ("[network]\nconnections_max = 0", "node.toml:4: network.connections_max: ", &["found 0", "at least 1"]),
    (
        "[network]\nconnections_per_address_max = 0",
        "node.toml:4: network.connections_per_address_max: ",
        &["found 0", "at least 1"],
    ),
    ("[transport]\nin_flight = \"1 GiB\"", "node.toml:4: transport.in_flight: ", &["1 GiB", "64 MiB"]),
    (
        "[protocol]\ndegree = 2\ndegree_low = 6",
        "node.toml:5: protocol.degree_low: ",
        &["found 6", "at most degree = 2"],
    ),
    ("[protocol]\npreset = \"fast\"", "node.toml:4: protocol.preset: ", &["`fast`", "`ethereum`"]),
    (
        "[protocol]\nschedule_publish = { kind = \"feedback\", source = \"observer\" }",
        "node.toml:4: protocol.schedule_publish.source: ",
        &["observer", "network.observers"],
    ),
    (
        "[network]\nobservers = [\"12D3\"]",
        "node.toml:4: network.observers.0: ",
        &["12D3", "expected a peer id"],
    ),
    ("[format]\nid = \"from-seqno\"", "node.toml:4: format.id: ", &["anonymous", "sha256"]),
    ("[protocol]\nmessage_max = \"1 GiB\"", "node.toml:4: protocol.message_max: ", &["1 GiB", "64 MiB"]),
    (
        "[control]\nlisten = \"0.0.0.0:7000\"",
        "node.toml:4: control.listen: ",
        &["0.0.0.0:7000", "127.0.0.1:7000", "allow_remote = true with a token_file"],
    ),
    (
        "[control]\nlisten = \"0.0.0.0:7000\"\nallow_remote = true",
        "node.toml:3: control.token_file: ",
        &["found none", "openssl rand -hex 32"],
    ),
    (
        "[network]\nlisten = [\"/ip4/127.0.0.1/tcp/1\", \"/ip6/2001:db8::1/udp/1/quic-v1\"]",
        "node.toml:2: identity.seed: ",
        &["everybody can compute", "2001:db8::1", "key_file", "allow_seed = true"],
    ),
    (
        "[pool]\nnetwork = \"n\"\nlisten = \"0.0.0.0:1\"",
        "node.toml:2: identity.seed: ",
        &["reach 0.0.0.0", "allow_seed = true"],
    ),
    ("[metrics]\nlisten = \"[::]:9\"", "node.toml:4: metrics.listen: ", &["[::]:9", "allow_remote = true"]),
    (
        "[control]\nlisten = \"localhost\"",
        "node.toml:4: control.listen: ",
        &["found \"localhost\"; expected an IP address and a port"],
    ),
    ("[trace]\nfile = \"x\"\nqueue = 0", "node.toml:5: trace.queue: ", &["found 0", "at least 1"]),
    ("[trace]\nfile = \"x\"\nformat = \"xml\"", "node.toml:5: trace.format: ", &["`xml`", "`protobuf`"]),
    ("[log]\nfilter = \"loud=very\"", "node.toml:4: log.filter: ", &["loud=very", "debug"]),
    (
        "[log]\nfilter = \"inf\"",
        "node.toml:4: log.filter: ",
        &["found \"inf\"; expected a level (off, error, ", "\"samara_node=debug\"; did you mean \"info\"?"],
    ),
    (
        "[log]\nfilter = \"samara_node=debug, inf o!!\"",
        "node.toml:4: log.filter: ",
        &["found \"inf o!!\"; expected a level"],
    ),
    (
        "[protocol]\nschedule_publish = { kind = \"custo\" }",
        "node.toml:4: protocol.schedule_publish.kind: ",
        &["`staggered`, `feedback`"],
    ),
    ("[stop]\ndrain = 5", "node.toml:4: stop.drain: ", &["50 ms", "found 5"]),
    ("[group]\nname = \"g\"", "node.toml:3: group: ", &["missing key `listen`"]),
    (
        "[group]\nname = \" \"\nlisten = \"127.0.0.1:1\"",
        "node.toml:4: group.name: ",
        &["the name of a group"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nprotocol.preset = \"circle\"",
        "node.toml:6: group.protocol.preset: ",
        &["`circle`", "ring-total"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nprotocol.shape = \"star\"",
        "node.toml:6: group.protocol.shape: ",
        &["`star`", "double-tree"],
    ),
    (
        "[group]\nprotocol.preset = \"ring-total\"\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nprotocol.shape = \"direct\"",
        "node.toml:7: group.protocol.shape: ",
        &["found \"direct\"; expected ring, for total order"],
    ),
    ("[group]\nname = \"g\"\nlisten = \"0.0.0.0:1\"", "node.toml:3: group.advertise: ", &["others can dial"]),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nseeds = [\"192.0.2.1:7\"]",
        "node.toml:3: group.secret: ",
        &["found none", "reach 192.0.2.1:7", "openssl rand -hex 32", "unauthenticated = true"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"192.0.2.1:7\"\nidentity = \"x.pem\"",
        "node.toml:3: group.members: ",
        &["a certificate without members"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"192.0.2.1:7\"\nunauthenticated = true\nsecret = \"x\"",
        "node.toml:7: group.secret: ",
        &["several kinds"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:7\"\nframes = \"fields\"",
        "node.toml:6: group.frames: ",
        &["expected a secret too"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nqueue = \"0 B\"",
        "node.toml:6: group.queue: ",
        &["1 B to 1 GiB"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nrequire_seed = \"1 s\"",
        "node.toml:3: group.seeds: ",
        &["found []", "another member"],
    ),
    (
        "[group]\nname = \"g\"\nlisten = \"127.0.0.1:1\"\nrequire_seed = \"0 s\"\nseeds = [\"127.0.0.1:2\"]",
        "node.toml:6: group.require_seed: ",
        &["found 0 s; expected none, or more than 0 s"],
    ),
    ("[pool]\npeers = []", "node.toml:3: pool: ", &["missing key `network`"]),
    (
        "[pool]\nnetwork = \"n\"\nprotocol.preset = \"dog\"",
        "node.toml:5: pool.protocol.preset: ",
        &["`dog`", "cat-merged", "cat-2026"],
    ),
    ("[pool]\nnetwork = \" \"", "node.toml:4: pool.network: ", &["\" \"", "ASCII"]),
    ("[pool]\nnetwork = \"n\"\nmoniker = \"é\"", "node.toml:5: pool.moniker: ", &["ASCII"]),
    (
        "[pool]\nnetwork = \"n\"\nlisten = \"here\"",
        "node.toml:5: pool.listen: ",
        &["found \"here\"; expected an IP address and a port"],
    ),
    (
        "[pool]\nnetwork = \"n\"\npeers = [\"1.2.3.4:5\"]",
        "node.toml:5: pool.peers.0: ",
        &["1.2.3.4:5", "id@host:port"],
    ),
    (
        "[pool]\nnetwork = \"n\"\ninbound_max = 0",
        "node.toml:5: pool.inbound_max: ",
        &["found 0", "at least 1"],
    ),
    ("= 5", "node.toml:3: ", &["key"]),
];

#[test]
fn errors_name_line_and_key() {
    let rows = MISTAKES.iter().map(|(text, start, words)| (format!("{SEED}{text}\n"), *start, *words));
    assert_errors(rows);
}

/// Checks the beginning of each text's error, and words in it. Lists all wrong rows.
fn assert_errors<'a>(rows: impl IntoIterator<Item = (String, &'a str, &'a [&'a str])>) {
    let wrong = rows.into_iter().filter_map(|(text, start, words)| {
        let found = match NodeConfig::parse(&text, Path::new("node.toml")) {
            Ok(_) => "no error".to_owned(),
            Err(error) => error.to_string(),
        };
        let is_right = found.starts_with(start) && words.iter().all(|word| found.contains(word));
        (!is_right).then(|| format!("{text:?}: expected {start:?} with {words:?}, found {found}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn filters_have_levels_targets_and_spans() {
    for filter in ["", "INFO", "off,samara_node", "warn,libp2p_swarm=debug,a::b", "samara_net[link]=trace,2"]
    {
        let text = format!("{SEED}[log]\nfilter = {filter:?}\n");
        NodeConfig::parse(&text, Path::new("node.toml")).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn errors_before_the_first_section_name_line_and_key() {
    let cases = [
        ("", "node.toml: ", "missing key `identity`; add a section [identity] with key_file = \"node.key\""),
        ("[identity]\n", "node.toml:1: identity: ", "neither"),
        ("[identity]\nseed = 1\nkey_file = \"k\"\n", "node.toml:1: identity: ", "both"),
        ("[identity]\nseed = -1\n", "node.toml:2: identity.seed: ", "-1"),
        ("topics = [\"\"]\n[identity]\nseed = 1\n", "node.toml:1: topics.0: ", "0 bytes"),
        ("topics = [\"a\", \"a\"]\n[identity]\nseed = 1\n", "node.toml:1: topics.1: ", "duplicate topic"),
    ];
    assert_errors(
        cases.iter().map(|(text, start, word)| ((*text).to_owned(), *start, slice::from_ref(word))),
    );
    let error = NodeConfig::load(Path::new("no/node.toml")).unwrap_err().to_string();
    assert!(
        error.starts_with("no/node.toml: cannot read the file: ") && error.contains("docs/node.toml"),
        "{error}"
    );
}

/// Returns a section `[mix]` with two nodes.
fn mix(more: &str) -> String {
    let peer = |digit: &str, port: u16| {
        format!("{{ fingerprint = \"{}\", address = \"127.0.0.1:{port}\" }}", digit.repeat(64))
    };
    format!(
        "identity.seed = 7\n[mix]\nrole = \"node\"\nidentity = \"mix.pem\"\nlisten = \"127.0.0.1:0\"\nnodes = [{}, {}]\nscheduler = {}\n{more}",
        peer("1", 1),
        peer("2", 2),
        peer("3", 3)
    )
}

#[test]
fn errors_in_a_mix_name_the_key() {
    let checked = NodeConfig::parse(&mix("team = 2\n"), Path::new("node.toml")).expect("it is right");
    assert!(checked.mix.is_some());
    for more in ["", "allow_model = true\ngateway = \"192.0.2.1:1\"\n"] {
        let model = mix(&format!("group = \"model\"\n{more}"));
        NodeConfig::parse(&model, Path::new("node.toml")).expect("it is right");
    }
    let wrong = [
        ("group = \"modp-17\"\n", "node.toml:8: mix.group: "),
        ("senders.calls_max = 0\n", "node.toml:8: mix.senders.calls_max: found 0; expected at least 1"),
        (
            "senders.sender_share = \"101 %\"\n",
            "node.toml:8: mix.senders.sender_share: found 101 %; expected 1 % to 100 %",
        ),
        ("protocol.shape = \"by-formula\"\n", "node.toml:8: mix.protocol.shape: "),
        ("group = \"model\"\ngateway = \"192.0.2.1:1\"\n", "node.toml:8: mix.group: "),
        ("group = \"model\"\ngateway = \"[::]:1\"\n", "node.toml:8: mix.group: "),
    ];
    assert_errors(wrong.iter().map(|(more, start)| (mix(more), *start, [].as_slice())));
    let short = mix("").replace(&"2".repeat(64), "22");
    let error = NodeConfig::parse(&short, Path::new("node.toml")).expect_err("it is too short");
    assert_eq!(error.key.as_deref(), Some("mix.nodes.1.fingerprint"));
}

/// libp2p listens so that several processes can share a port: the second node would get some of the
/// connections of the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_another_node_are_errors() {
    let first = node(47, &[], "", FAST).await;
    let status = first.get("/v1/status").await;
    let quic = node(48, &[], "listen = [\"/ip4/127.0.0.1/udp/0/quic-v1\"]\n", FAST).await;
    for (address, holder) in [(&first.address, &first), (&quic.address, &quic)] {
        let address = address.split("/p2p/").next().unwrap();
        let free = "/ip4/127.0.0.1/tcp/0";
        let text = format!("[identity]\nseed = 49\n[network]\nlisten = [\"{free}\", \"{address}\"]\n");
        let config = NodeConfig::parse(&text, Path::new("test.toml")).expect("it is valid");
        let error = Running::start(config).await.expect_err("the address is taken");
        let expected = format!("network.listen.1: cannot listen on {address}: Address already in use");
        assert!(error.starts_with(&expected) && error.contains("; expected a free port"), "{error}");
        holder.get("/v1/status").await;
    }
    assert_eq!(status["peers"], json!([]));
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_without_a_key_is_an_error() {
    let path = std::env::temp_dir().join(format!("samara-node-{}-not-a.key", std::process::id()));
    std::fs::write(&path, b"hello\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = format!("[identity]\nkey_file = \"{}\"\n", path.display());
    let config = NodeConfig::parse(&text, Path::new("test.toml")).expect("it is valid");
    let error = Running::start(config).await.expect_err("the file has no key");
    std::fs::remove_file(&path).unwrap();
    let expected =
        format!("identity.key_file: {}: found no key in libp2p's protobuf; expected one", path.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn limits_of_senders_have_documented_defaults_and_names() {
    let (path, all) = documented();
    let documented = NodeConfig::parse(&all, &path).unwrap().written.mix.unwrap().senders;
    let listen = "127.0.0.1:1".parse().unwrap();
    assert_eq!(documented.options(listen), samara_net::mix::GatewayOptions::new(listen));
    assert_eq!(documented.senders_max, Some(samara_mix::Config::default().senders_max));
    let pem = std::env::temp_dir().join(format!("samara-senders-{}.pem", std::process::id()));
    let identity = samara_net::mix::Identity::generate().unwrap();
    let _ = std::fs::remove_file(&pem);
    identity.save(&pem).unwrap();
    let options = |limit: &str| {
        let text = mix(&format!("team = 2\ngateway = \"127.0.0.1:1\"\nsenders.{limit}\n"));
        let text = text.replace("\"mix.pem\"", &format!("{pem:?}"));
        let text = text.replace(&"1".repeat(64), &identity.fingerprint().to_string());
        let config = NodeConfig::parse(&text, Path::new("node.toml")).map_err(|error| error.to_string())?;
        config.mix.expect("a section").options()
    };
    let gateway = options("waiting = \"1 MiB\"").unwrap().gateway.unwrap();
    assert_eq!((gateway.waiting_kib, gateway.senders_min), (1024, 4));
    let mut wrong = Vec::new();
    for limit in [
        "senders_min = 0",
        "sender_share = \"0 %\"",
        "hold = \"1 ms\"",
        "senders_max = 0",
        "connections_max = 0",
        "connections_per_address_max = 0",
        "calls_max = 0",
        "idle_timeout = \"0 s\"",
        "receive_timeout = \"0 s\"",
        "waiting = \"0 B\"",
        "waiting_per_address = \"0 B\"",
        "registrations_per_minute_max = 0",
        "registrations_per_minute_per_address_max = 0",
        "results_max = 0",
        "results = \"0 B\"",
        "results_kept = \"0 s\"",
        "waiters_max = 0",
    ] {
        let key = limit.split(' ').next().unwrap();
        let error = options(limit).map_or_else(|error| error, |_| "NO ERROR".to_owned());
        wrong.extend((!error.contains(&format!("mix.senders.{key}: found "))).then_some((limit, error)));
    }
    assert_eq!(wrong, []);
    std::fs::remove_file(&pem).unwrap();
}
