//! What users of libp2p's gossipsub expect of a behaviour, and the chat in both versions.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use libp2p::gossipsub::{self as other, DataTransform};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use samara_libp2p::{
    Authenticity, Config, Hook, PeerScoreParams, SubscriptionError, SubscriptionFilter, Topic,
    TopicScoreParams, Transform,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command as Process};
use tokio::time::timeout;

use crate::common::*;

#[tokio::test]
async fn results_tell_whether_something_changed() {
    let mut config = signed();
    config.subscriptions.filter = SubscriptionFilter::Only(BTreeSet::from([Topic::new("t")]));
    let node = ours(config, options()).await;
    node.with(|behaviour| {
        let (topic, forbidden) = (Topic::new("t"), Topic::new("u"));
        assert_eq!(behaviour.subscribe(&topic), Ok(true));
        assert_eq!(behaviour.subscribe(&topic), Ok(false));
        let error = behaviour.subscribe(&forbidden).unwrap_err();
        assert_eq!(error, SubscriptionError::NotAllowed(forbidden));
        assert!(error.to_string().contains('u'), "{error}");
        assert_eq!(behaviour.topics().collect::<Vec<_>>(), [&topic]);
        assert!(behaviour.unsubscribe(&topic) && !behaviour.unsubscribe(&topic));
        assert!(!behaviour.report_validation(&vec![0].into(), samara_libp2p::Acceptance::Accept));
    })
    .await;
}

#[tokio::test]
async fn peers_are_listed_scored_blacklisted_and_made_explicit() {
    let scored = Config {
        peer_score: Some(PeerScoreParams { app_specific_weight: 1.0, ..PeerScoreParams::neutral() }),
        topic_score: None,
        ..signed()
    };
    let (mut our, mut their) =
        (ours(scored, options()).await, theirs(theirs_config().build().unwrap(), true).await);
    meet(&mut our, &mut their, "t", Dial::Ours).await;
    let peer = their.peer;
    our.with(move |behaviour| {
        let topic = Topic::new("t");
        assert_eq!(behaviour.all_peers().collect::<Vec<_>>(), [(peer, vec![&topic])]);
        assert_eq!(behaviour.all_mesh_peers(), BTreeSet::from([peer]));
        assert_eq!(behaviour.peer_protocols().count(), 1);
        assert_eq!(behaviour.peer_score(&peer), Some(0.0));
        assert!(behaviour.set_application_score(&peer, 2.5));
        assert_eq!(behaviour.peer_score(&peer), Some(2.5));
        let stranger = libp2p::PeerId::random();
        assert!(
            !behaviour.set_application_score(&stranger, 1.0) && behaviour.peer_score(&stranger).is_none()
        );
        behaviour.set_topic_params(&topic, TopicScoreParams::neutral()).unwrap();
        assert!(behaviour.topic_params(&topic).is_some());
        behaviour.blacklist_peer(&peer);
    })
    .await;
    their.publish("t", b"unwanted");
    our.counted("a dropped message", |metrics| {
        metrics.ignored(samara_gossipsub::Ignored::MessageBlacklisted) >= 1
    })
    .await;
    our.with(move |behaviour| assert!(behaviour.remove_blacklisted_peer(&peer))).await;
    their.publish("t", b"wanted");
    assert_eq!(our.message().await.1, b"wanted");

    // An explicit peer leaves the mesh and still gets every message.
    our.with(move |behaviour| {
        behaviour.add_explicit_peer(&peer);
        assert!(behaviour.all_mesh_peers().is_empty());
    })
    .await;
    our.publish("t", b"directly");
    assert_eq!(their.message().await.1, b"directly");
    our.with(move |behaviour| behaviour.remove_explicit_peer(&peer)).await;
}

#[tokio::test]
async fn messages_of_random_authors_pass_both_ways() {
    let our_config = Config { authenticity: Authenticity::random_author(), ..signed() };
    let mut our = ours(our_config, options()).await;
    let config = theirs_config().validation_mode(other::ValidationMode::Permissive).build().unwrap();
    let behaviour =
        other::Behaviour::<other::IdentityTransform>::new(other::MessageAuthenticity::RandomAuthor, config);
    let mut their = theirs_by(Transport::Tcp, |_| behaviour.unwrap()).await;
    meet(&mut our, &mut their, "t", Dial::Theirs).await;
    our.publish("t", b"from us");
    assert_eq!(their.message().await.1, b"from us");
    their.publish("t", b"from them");
    assert_eq!(our.message().await.1, b"from them");
}

/// Turns every byte.
#[derive(Clone, Default)]
struct Turned;

fn turned(data: &[u8]) -> Vec<u8> {
    data.iter().map(|byte| !byte).collect()
}

impl Transform for Turned {
    fn inbound(&self, _: &Topic, data: &Bytes) -> Result<Bytes, String> {
        Ok(turned(data).into())
    }

    fn outbound(&self, _: &Topic, data: &Bytes) -> Result<Bytes, String> {
        Ok(turned(data).into())
    }
}

impl DataTransform for Turned {
    fn inbound_transform(&self, raw: other::RawMessage) -> Result<other::Message, std::io::Error> {
        let other::RawMessage { source, data, sequence_number, topic, .. } = raw;
        Ok(other::Message { source, data: turned(&data), sequence_number, topic })
    }

    fn outbound_transform(&self, _: &other::TopicHash, data: Vec<u8>) -> Result<Vec<u8>, std::io::Error> {
        Ok(turned(&data))
    }
}

#[tokio::test]
async fn transformed_payloads_pass_both_ways() {
    let mut our = ours(Config { transform: Some(Hook(Arc::new(Turned))), ..signed() }, options()).await;
    let mut their = theirs_by(Transport::Tcp, |key| {
        let authenticity = other::MessageAuthenticity::Signed(key.clone());
        other::Behaviour::new_with_transform(authenticity, theirs_config().build().unwrap(), Turned).unwrap()
    })
    .await;
    meet(&mut our, &mut their, "t", Dial::Theirs).await;
    our.publish("t", b"from us");
    assert_eq!(their.message().await.1, b"from us");
    their.publish("t", b"from them");
    assert_eq!(our.message().await.1, b"from them");
}

#[tokio::test]
async fn counters_appear_in_a_registry() {
    let (mut our, mut their) =
        (ours(signed(), options()).await, theirs(theirs_config().build().unwrap(), true).await);
    let registry = our
        .with(|behaviour| {
            let mut registry = Registry::default();
            behaviour.register_metrics(registry.sub_registry_with_prefix("samara"));
            registry
        })
        .await;
    meet(&mut our, &mut their, "t", Dial::Ours).await;
    their.publish("t", b"counted");
    our.message().await;
    let exported = async {
        loop {
            let mut text = String::new();
            encode(&mut text, &registry).expect("written");
            if text.contains("samara_messages_delivered_total 1") {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let text = timeout(PATIENCE, exported).await.expect("the registry has the message in time");
    for name in ["samara_swarm_peers 1", "samara_frames_down_total", "samara_outbox_owed"] {
        assert!(text.contains(name), "{name} in {text}");
    }

    // Each has a row in the guide, with the same kind and meaning.
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/node.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let field = |kind: &'static str| {
        text.lines().filter_map(move |line| line.strip_prefix(kind)).filter_map(|line| line.split_once(' '))
    };
    let kinds: Vec<(&str, &str)> = field("# TYPE ").collect();
    assert!(kinds.len() > 80, "{}", kinds.len());
    for ((name, kind), (_, help)) in kinds.into_iter().zip(field("# HELP ")) {
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let has = |row: &&str| {
            row.starts_with(&format!("| `{name}"))
                && row.ends_with(&format!("` | {kind} | {} |", help.trim_end_matches('.')))
        };
        assert!(
            guide.lines().any(|row| has(&row)),
            "docs/guides/node.md has no row of {name}, {kind}, {help}"
        );
    }
}

#[test]
fn ids_and_topics_are_printed_as_in_libp2p() {
    for bytes in [&b"\x00\xffid"[..], b"1234", b""] {
        let ours = samara_libp2p::MessageId::new(bytes);
        assert_eq!(ours.to_string(), other::MessageId::new(bytes).to_string());
    }
    let topic = Topic::new("a topic");
    assert_eq!(topic.to_string(), other::IdentTopic::new("a topic").to_string());
    assert_eq!(format!("{topic:>9}"), "  a topic");
}

/// Returns the lines of a program that are neither imports nor comments nor empty.
fn statements(source: &str) -> Vec<&str> {
    let lines = source.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("use ")).collect()
}

/// The guide says so.
#[test]
fn eleven_lines_of_the_chat_become_nine() {
    let [theirs, ours] =
        [include_str!("../../examples/chat_libp2p.rs"), include_str!("../../examples/chat.rs")]
            .map(statements);
    let only_in = |one: &[&'static str], other: &[&str]| -> Vec<&str> {
        one.iter().copied().filter(|line| !other.contains(line)).collect()
    };
    let (old, new) = (only_in(&theirs, &ours), only_in(&ours, &theirs));
    assert_eq!((old.len(), new.len()), (11, 9), "{old:#?} {new:#?}");
}

/// A running example.
struct Example {
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    _process: Child,
}

impl Example {
    /// Starts the example of this name. `cargo test` builds it beside this test, unless `--test` selects
    /// tests only.
    fn start(name: &str, address: Option<&str>) -> Self {
        let program = std::env::current_exe().expect("a path");
        let examples = program.parent().and_then(|deps| deps.parent()).expect("a directory").join("examples");
        let mut process = Process::new(examples.join(name))
            .args(address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("cargo build -p samara-libp2p --examples builds it");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { lines, input: process.stdin.take().expect("a pipe"), _process: process }
    }

    async fn line_with(&mut self, part: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.next_line().await.expect("readable") {
                if line.contains(part) {
                    return line;
                }
            }
            panic!("the example ended before {part:?}");
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no line with {part:?}"))
    }

    async fn say(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("the example runs");
    }
}

#[tokio::test]
async fn the_example_disconnects_a_peer_that_stops_reading() {
    let mut example = Example::start("slow_peers", None);
    let slow = example.line_with("is too slow").await;
    // 8 MiB wait, and one message is in flight.
    assert!(slow.ends_with(": 20 copies lost, 8 owed"), "{slow}");
    example.line_with("disconnected").await;
}

#[tokio::test]
async fn the_two_chats_understand_each_other() {
    let mut theirs = Example::start("chat_libp2p", None);
    let address = theirs.line_with("/ip4/").await;
    let mut ours = Example::start("chat", Some(address.trim_matches(['(', ')'])));
    ours.line_with("joined").await;
    theirs.line_with("joined").await;
    ours.say("hello from here").await;
    theirs.line_with(": hello from here").await;
    theirs.say("hello from there").await;
    ours.line_with(": hello from there").await;
}
