//! Presets, and validation of configurations.

use std::time::Duration;

use crate::common::*;
use samara_engine::PeerIdentity;
use samara_engine::outbox::{Dispatch, Overflow};
use samara_gossipsub::config::{Answers, LaneLayout, Lanes, MeshParams, TopicConfig, Withdraw};
use samara_gossipsub::rpc::Message;
use samara_gossipsub::score::PeerScoreParams;
use samara_gossipsub::{Config, GossipSub};

#[test]
fn presets_are_valid_and_have_the_published_values() {
    for config in [Config::spec(), Config::ethereum(), Config::go_libp2p_pubsub(), Config::default()] {
        config.validate().unwrap();
    }
    let sizes = |mesh: MeshParams| (mesh.d, mesh.d_low, mesh.d_high, mesh.d_lazy);
    let (spec, ethereum, go) = (Config::spec(), Config::ethereum(), Config::go_libp2p_pubsub());
    assert_eq!(sizes(spec.mesh), (6, 4, 12, 6));
    assert_eq!(sizes(ethereum.mesh), (8, 6, 12, 6));
    assert_eq!(sizes(go.mesh), (6, 5, 12, 6));
    assert_eq!(ethereum.heartbeat_interval, Duration::from_millis(700));
    assert_eq!((ethereum.history_length, ethereum.history_gossip), (6, 3));
    assert_eq!(ethereum.seen_ttl, Duration::from_secs(768));
    assert_eq!((spec.flood_publish, ethereum.flood_publish, go.flood_publish), (true, false, false));
    assert_eq!((go.withdraw, go.heartbeat_initial_delay), (Withdraw::NEVER, Duration::from_millis(100)));
}

#[test]
fn ethereum_ids_are_twenty_bytes_over_topic_and_payload() {
    let config = Config::ethereum();
    let id = |name: &str, data: &'static [u8]| {
        config.message_id_of(&topic(name)).id(&Message::new(topic(name), data.into()))
    };
    assert_eq!(id("a", b"x").as_bytes().len(), 20);
    assert_eq!(id("a", b"x"), id("a", b"x"));
    assert_ne!(id("a", b"x"), id("b", b"x"));
    assert_ne!(id("a", b"x"), id("a", b"y"));
}

#[test]
fn layouts_define_their_lanes() {
    let split = Config::spec().outbox_config();
    let named = |lane: samara_engine::outbox::Lane| split.lanes[usize::from(lane.0)].name;
    let lanes = Lanes::of(LaneLayout::Split);
    let names = [lanes.urgent, lanes.control, lanes.publish, lanes.forward, lanes.answer].map(named);
    assert_eq!(names, ["control", "control", "publish", "forward", "answer"]);

    let shared = Config::go_libp2p_pubsub().outbox_config();
    assert_eq!(shared.dispatch, Dispatch::PerLink);
    assert_eq!(shared.lanes.len(), 2);
    let normal = &shared.lanes[usize::from(Lanes::SHARED.publish.0)];
    assert_eq!(
        (normal.name, normal.capacity.copies, normal.capacity.overflow),
        ("normal", 32, Overflow::DropNewest)
    );
}

/// Reads parameters from lines of a file.
#[cfg(feature = "config")]
fn parameters(lines: &str) -> samara_gossipsub::config::Parameters {
    toml::from_str(lines).unwrap()
}

#[cfg(feature = "config")]
#[test]
fn answers_follow_withdrawal_and_the_longest_message() {
    const MIB: usize = 1 << 20;
    let go = "preset = \"go-libp2p-pubsub\"\n";
    let answers = |lines: &str| parameters(lines).build().answers;
    let one_frame = |bytes: usize| Answers::OneFrame { bytes_max: bytes + 1024 };
    assert_eq!(answers(go), one_frame(MIB));
    assert_eq!(answers(&format!("{go}message_max = \"10 MiB\"")), one_frame(10 * MIB));
    let withdraws = format!("{go}withdraw = true\n");
    assert_eq!(answers(&withdraws), Answers::FramePerMessage);
    assert_eq!(answers(&format!("{withdraws}answers = \"one-frame\"")), one_frame(MIB));
    assert_eq!(answers(""), Answers::FramePerMessage);
}

/// Without them, D_high of the preset is below D = 13, and D_low above D = 4.
#[cfg(feature = "config")]
#[test]
fn the_sizes_of_a_mesh_move_with_its_degree() {
    use samara_gossipsub::config::{Parameters, followers, settled};

    let all = |p: &Parameters| {
        let m = p.build().mesh;
        [m.d, m.d_low, m.d_high, m.d_lazy, m.d_score, m.d_out]
    };
    let with = |preset: &str, degree: usize| format!("preset = \"{preset}\"\ndegree = {degree}\n");
    let of = |preset, degree| all(&parameters(&with(preset, degree)));
    assert_eq!(all(&Parameters::default()), [8, 6, 12, 6, 4, 2]);
    assert_eq!(of("ethereum", 8), [8, 6, 12, 6, 4, 2]);
    assert_eq!(of("ethereum", 4), [4, 3, 6, 3, 2, 1]);
    assert_eq!(of("ethereum", 12), [12, 9, 18, 9, 6, 3]);
    assert_eq!(of("ethereum", 13), [13, 10, 20, 10, 7, 3]);
    assert_eq!(of("spec", 3), [3, 2, 6, 3, 2, 1]);
    for preset in ["spec", "ethereum", "go-libp2p-pubsub", "go-libp2p-pubsub-0.1", "go-libp2p-pubsub-0.2"] {
        for version in ["1.0", "1.2"] {
            for degree in (1..200).chain([i64::MAX as usize]) {
                let lines = format!("{}version = \"{version}\"", with(preset, degree));
                let config = parameters(&lines).build();
                config.validate().unwrap_or_else(|error| panic!("{lines}: {error}"));
            }
        }
    }
    let set = parameters(&format!("{}degree_low = 5\ndegree_lazy = 7", with("ethereum", 12)));
    assert_eq!(all(&set), [12, 5, 18, 7, 6, 3], "keys that are set stay");
    assert_eq!(followers(&set), [("degree_high", 18), ("degree_score", 6), ("degree_out", 3)]);
    assert!(followers(&Parameters::default()).is_empty());
    assert_eq!(settled(&Parameters::default()), Parameters::default());
    let written = toml::to_string(&settled(&set)).unwrap();
    assert!(written.contains("degree_high = 18") && parameters(&written) == settled(&set), "{written}");
    let low = parameters("degree_low = 2");
    assert_eq!((all(&low), followers(&low)), ([8, 2, 12, 6, 4, 1], vec![("degree_out", 1)]));
}

/// An error would name a key that nobody has set, or one that does not exist.
#[cfg(feature = "config")]
#[test]
fn limits_without_a_key_follow_those_with_one() {
    let short = parameters("history_length = 2");
    let config = short.build();
    assert_eq!((config.history_gossip, config.validate()), (2, Ok(())));
    let written = toml::to_string(&samara_gossipsub::config::settled(&short)).unwrap();
    assert!(written.contains("history_gossip = 2"), "{written}");
    for bytes in [1_u64, 1000, 1 << 20, 1 << 30, 1 << 40] {
        let config = parameters(&format!("message_max = \"{bytes} B\"")).build();
        config.validate().unwrap_or_else(|error| panic!("{bytes}: {error}"));
    }
}

/// Every key that a file gives is written again, and nothing else but preset and version.
#[cfg(feature = "config")]
#[test]
fn written_parameters_are_those_of_the_file() {
    let lines = r#"preset = "spec"
version = "1.1"
degree = 7
heartbeat = "1.5 s"
idontwant_ttl = 5
withdraw = false
dispatch = "node"
queue = 9
message_max = "2 MiB"

[spread]
announce_nearest = 0

[spread.pull]
retry = "20 ms"

[parts]
asking = "everyone"
frame_bytes = 1000
"#;
    let read = parameters(lines);
    let written = toml::to_string(&read).unwrap();
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(sorted(&written), sorted(lines));
    assert_eq!(parameters(&written), read);
    assert_eq!(parameters("[spread]").config.spread, Some(samara_gossipsub::config::Spread::default()));
    assert_eq!(read.config.spread.as_ref().unwrap().announce, samara_gossipsub::config::Announce::Mesh);
    assert_eq!((read.parts.relay_copies, read.parts.body_bytes_max), (0, 1000));
    let wrong = |lines: &str| {
        toml::from_str::<samara_gossipsub::config::Parameters>(lines).unwrap_err().message().to_owned()
    };
    assert!(wrong("degre = 7").starts_with("unknown field `degre`, expected one of `preset`"));
    assert!(wrong("[spread]\npulls = 7").contains("unknown field `pulls`, expected one of `push_copies`"));
    assert!(wrong("degree = 7\npreset = \"spec\"").contains("`preset` stands after keys"));
}

/// Returns the error message of a changed preset.
fn error(change: impl FnOnce(&mut Config)) -> String {
    let mut config = Config::spec();
    change(&mut config);
    let error = config.validate().unwrap_err().to_string();
    let refused = GossipSub::new(config, PeerIdentity::new(b"me")).unwrap_err();
    assert_eq!(refused.to_string(), error);
    error
}

#[test]
fn errors_name_the_field_and_the_expected_values() {
    let errors = [
        error(|config| config.mesh.d_low = 7),
        error(|config| config.mesh.d_high = 5),
        error(|config| config.mesh.d_score = 7),
        error(|config| config.mesh.d_out = 3),
        error(|config| config.mesh.gossip_factor = f64::NAN),
        error(|config| config.history_gossip = 6),
        error(|config| config.heartbeat_interval = Duration::ZERO),
        error(|config| config.max_rpc_bytes = 1000),
        error(|config| config.max_control_bytes = 2 << 20),
        error(|config| config.thresholds.gossip = 1.0),
        error(|config| config.sending.publish.copies = 0),
        error(|config| {
            config.peer_score = Some(PeerScoreParams { behaviour_penalty_weight: 1.0, ..Default::default() });
        }),
        error(|config| {
            let mesh = MeshParams { d: 0, ..config.mesh };
            config.topics.insert(topic("t"), TopicConfig { mesh: Some(mesh), ..Default::default() });
        }),
    ];
    let expected = [
        "mesh.d_low: found 7, expected at most d = 6",
        "mesh.d_high: found 5, expected at least d = 6",
        "mesh.d_score: found 7, expected at most d = 6",
        "mesh.d_out: found 3, expected 0, or less than d_low = 4 and less than half of d = 6",
        "mesh.gossip_factor: found NaN, expected 0 to 1",
        "history_gossip: found 6, expected at most history_length = 5",
        "heartbeat_interval: found 0ns, expected more than 0ns",
        "max_rpc_bytes: found 1000, expected more than max_message_bytes = 1048576",
        "max_control_bytes: found 2097152, expected 64 to max_rpc_bytes = 1049600",
        "thresholds.gossip: found 1, expected <= 0",
        "sending.publish.copies: found 0, expected at least 1",
        "peer_score.behaviour_penalty_weight: found 1, expected <= 0 (a penalty, or 0 to turn it off)",
        "topics.t.mesh.d: found 0, expected at least 1",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn heartbeats_of_different_nodes_have_different_phases() {
    let first = |seed| {
        let mut node = Node::with_seed(Config { heartbeat_spread: None, ..plain() }, seed);
        node.heartbeat();
        node.now
    };
    let phases: std::collections::BTreeSet<_> = (0..20).map(first).collect();
    assert!(phases.len() > 10, "{phases:?}");
    assert!(phases.iter().all(|at| at.as_secs_f64() <= 1.11));
}

/// `SAMARA_UPDATE_DOCS=1 cargo test -p samara-gossipsub --all-features --test all spec` writes the page.
#[test]
fn the_documentation_has_the_values_of_spec() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/spec.md");
    let spec = format!("{:#?}", Config::spec());
    let spec = spec.replace(&u64::MAX.to_string(), "MAX");
    let new = format!("```text\n{spec}\n```\n");
    if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
        std::fs::write(path, &new).expect("src/config/spec.md can be written");
    }
    let old = std::fs::read_to_string(path).expect("src/config/spec.md");
    assert!(old == new, "src/config/spec.md is not current: SAMARA_UPDATE_DOCS=1 writes it");
}
