//! Tests of a mix pool in nodes.

use std::net::SocketAddr;
use std::time::Duration;

use samara_net::mix::{Client, ClientOptions, Contact, Ended, Group, Identity, Outcome};
use samara_trace::live::{Event as Line, FeedReader, RoundState};
use serde_json::json;
use tokio::time::timeout;

use crate::common::*;

/// A node of the pool, or its scheduler.
struct Host {
    identity: Identity,
    listen: SocketAddr,
    gateway: SocketAddr,
}

fn host() -> Host {
    Host { identity: Identity::generate().unwrap(), listen: free(), gateway: free() }
}

fn peer(host: &Host) -> String {
    let (fingerprint, address) = (host.identity.fingerprint(), host.listen);
    format!("{{ fingerprint = \"{fingerprint}\", address = \"{address}\" }}")
}

/// Returns the section of one of two nodes, or of the scheduler, which is the last one.
fn section(hosts: &[Host], number: usize) -> String {
    let pem = file(&format!("mix-{number}.pem"));
    let _ = std::fs::remove_file(&pem);
    hosts[number].identity.save(&pem).unwrap();
    let Host { listen, gateway, .. } = &hosts[number];
    let (role, gateway) = match number {
        2 => ("scheduler", String::new()),
        _ => ("node", format!("gateway = \"{gateway}\"\n")),
    };
    format!(
        "{FAST}[mix]\nrole = \"{role}\"\nidentity = {pem:?}\nlisten = \"{listen}\"\n{gateway}nodes = [{}, {}]\n\
         scheduler = {}\ngroup = \"model\"\nthreads = 1\nping = \"200 ms\"\n\
         team = 2\nbatch = 8\nrounds = 4\nprotocol.rounds_max = 4\nprotocol.precomputing_max = 2\n\
         senders.senders_min = 1\nsenders.sender_share = \"100 %\"\n",
        peer(&hosts[0]),
        peer(&hosts[1]),
        peer(&hosts[2]),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_a_sender_come_out_and_all_nodes_report_them() {
    let hosts = [host(), host(), host()];
    let mut nodes = Vec::new();
    for number in 0..3 {
        nodes.push(node(90 + number as u64, &[], "", &section(&hosts, number)).await);
    }
    let ready = nodes[2].running.ready().mix.as_ref().expect("a mix");
    assert_eq!((&*ready.role, ready.number, ready.gateway), ("scheduler", 2, None));
    let contact = |host: &Host| Contact { fingerprint: host.identity.fingerprint(), address: host.gateway };
    let pool = hosts[..2].iter().map(contact).collect();
    let options = ClientOptions {
        team_min: 2,
        ..ClientOptions::new(Identity::generate().unwrap(), pool, Group::Model)
    };
    let client = Client::start(options).unwrap();
    let mixed = async {
        client.ready().await;
        let round = client.next_round().await;
        let contents: Vec<Vec<u8>> = (0..8).map(|slot| vec![slot; Group::Model.content_bytes()]).collect();
        let sealed = client.seal(&round, contents.clone()).await.unwrap();
        client.submit(&round, sealed).await.unwrap();
        let Ended::Delivered(outcomes) = client.result(&round).await.unwrap() else {
            panic!("the round failed")
        };
        let mut came: Vec<Vec<u8>> = outcomes
            .into_iter()
            .map(|outcome| match outcome {
                Outcome::Content(content) => content.to_vec(),
                other => panic!("the mix delivered {other:?}"),
            })
            .collect();
        came.sort();
        assert_eq!(came, contents);
        round
    };
    let round = timeout(PATIENCE, mixed).await.expect("the round ends in time");
    nodes[2].counted("samara_mix_completed_total", 1.0).await;
    let first = &nodes[round.team[0] as usize];
    first.counted("samara_mix_round_trip_seconds{node=\"2\"}", 1e-9).await;
    let metrics = first.metrics().await;
    for (name, expected) in [
        ("samara_mix_completed_total", 1.0),
        ("samara_mix_payloads_taken_total", 8.0),
        ("samara_mix_links", 2.0),
        ("samara_mix_failed_total{cause=\"timeout\"}", 0.0),
        ("samara_mix_slots_total{phase=\"permute\"}", 8.0),
    ] {
        assert_eq!(value(&metrics, name), expected, "{name}");
    }
    let latency = value(&metrics, "samara_mix_batch_latency_seconds{quantile=\"1\"}");
    assert!(latency > 0.0 && latency < PATIENCE.as_secs_f64(), "{latency}");
    let status = first.get("/v1/mix").await;
    assert_eq!((&status["completed"], &status["payloads"]), (&json!(1), &json!(8)));
    assert_eq!(nodes[2].get("/v1/mix").await["teams"][0].as_array().map(Vec::len), Some(2));
    let mut digests = Vec::new();
    for node in &nodes[..2] {
        let answer = node.get("/v1/mix/events/0").await;
        let events = answer["events"].as_array().unwrap().clone();
        let delivered = events.iter().find(|event| event["event"] == "delivered").expect("delivered");
        assert_eq!((&delivered["round"], &delivered["void"]), (&json!(round.round), &json!(0)));
        digests.push(delivered["digest"].clone());
        assert!(events.iter().any(|event| event["event"] == "worked" && event["phase"] == "decrypt"));
    }
    assert_eq!(digests[0], digests[1]);
    // The lines for dashboards: each node names itself, and reports its part of the round.
    for (number, name) in ["node-0", "node-1", "scheduler"].into_iter().enumerate() {
        let (status, body) = request(nodes[number].control, "GET", "/live/0", "").await;
        assert_eq!(status, 200);
        let mut lines = Vec::new();
        let head = FeedReader::default().take(body.as_bytes(), |line| lines.push(line.event)).unwrap();
        assert_eq!(head.expect("a head").name.as_deref(), Some(name));
        let of_round = |line: &&Line| match line {
            Line::Phase { round: of, .. } | Line::Round { round: of, .. } | Line::Slots { round: of, .. } => {
                *of == round.round
            }
            _ => false,
        };
        let of_round: Vec<&Line> = lines.iter().filter(of_round).collect();
        let is_scheduler = number == 2;
        assert_eq!(of_round.iter().any(|line| matches!(line, Line::Phase { .. })), !is_scheduler);
        let is_complete = |line: &&&Line| matches!(line, Line::Round { state: RoundState::Completed, .. });
        assert_eq!(of_round.iter().filter(is_complete).count(), usize::from(is_scheduler));
        let teams = lines.iter().filter(|line| matches!(line, Line::Team { .. })).count();
        assert_eq!(teams, usize::from(is_scheduler));
        let links = lines.iter().filter(|line| matches!(line, Line::Link { up: true, .. })).count();
        assert_eq!(links, 2, "{lines:?}");
        if number == round.team[0] as usize {
            let slots = |line: &&&Line| matches!(line, Line::Slots { slots: 8, .. });
            assert_eq!(of_round.iter().filter(slots).count(), 2, "{of_round:?}");
        }
    }
    for node in nodes {
        let stopped = timeout(Duration::from_secs(20), node.running.stop()).await.unwrap().unwrap();
        assert!(stopped.mix.is_some());
    }
}
