//! The member of a group in a node.

use std::path::Path;

use samara_node::{NodeConfig, Running};
use serde_json::{Value, json};

use crate::common::*;

/// Returns a section for a member with these seeds.
fn ring(seeds: &[String]) -> String {
    format!("[group]\nname = \"test\"\nlisten = \"127.0.0.1:0\"\nseeds = {seeds:?}\n{FAST}")
}

fn address(node: &Node) -> String {
    node.running.ready().group.as_ref().expect("a member").address.to_string()
}

fn members(status: &Value) -> usize {
    status["members"].as_array().expect("members").len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_reach_all_members_and_a_leaver_loses_none() {
    let first = node(80, &[], "", &ring(&[])).await;
    let seeds = [address(&first)];
    let second = node(81, &[], "", &ring(&seeds)).await;
    let third = node(82, &[], "", &ring(&seeds)).await;
    for node in [&first, &second, &third] {
        node.until("/v1/group", "a view of three", |status| members(status) == 3).await;
    }
    let sent = first.post("/v1/group/broadcast", json!({ "text": "a message" })).await;
    assert_eq!(sent["bytes"], 9);
    let other = second.post("/v1/group/broadcast", json!({ "random_bytes": 100_000 })).await;
    for node in [&first, &second, &third] {
        node.until("/v1/group", "both messages", |status| status["delivered"] == 2).await;
        let list = node.get("/v1/group/deliveries/0").await;
        let list = list["deliveries"].as_array().unwrap();
        assert_eq!(list.len(), 2);
        let of = |origin: &str| list.iter().find(|delivery| delivery["origin"] == origin).unwrap();
        assert_eq!((&of(&seeds[0])["bytes"], &of(&seeds[0])["number"]), (&json!(9), &json!(1)));
        assert!(of(&seeds[0])["at_unix_ns"].as_u64() > sent["at_unix_ns"].as_u64());
        assert_eq!(of(&address(&second))["bytes"], 100_000);
        assert!(of(&address(&second))["at_unix_ns"].as_u64() > other["at_unix_ns"].as_u64());
    }
    let metrics = third.metrics().await;
    for (name, expected) in [
        ("samara_group_delivered_total", 2.0),
        ("samara_group_delivered_bytes_total", 100_009.0),
        ("samara_group_members", 3.0),
        ("samara_group_links", 2.0),
        ("samara_group_ignored_total{cause=\"duplicate\"}", 0.0),
    ] {
        assert_eq!(value(&metrics, name), expected, "{name}");
    }

    let address_of_second = address(&second);
    let stopped = third.running.stop().await.expect("it stops");
    assert!(stopped.drained && stopped.group.expect("a member").left);
    for node in [&first, &second] {
        let status = node.until("/v1/group", "a view of two", |status| members(status) == 2).await;
        let left = status["members"].as_array().unwrap().iter().map(|member| member["address"].as_str());
        assert!(
            left.clone()
                .all(|address| [Some(seeds[0].as_str()), Some(&address_of_second)].contains(&address))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_requires_a_seed_starts_only_with_one() {
    // At a host of its own, nobody takes the port of a member that has stopped.
    let seed = free().to_string();
    let first = node(84, &[], "", &ring(&[]).replace("127.0.0.1:0", &seed)).await;
    let requires = |within: &str| {
        ring(std::slice::from_ref(&seed)).replace(FAST, &format!("require_seed = \"{within}\"\n{FAST}"))
    };
    let second = node(85, &[], "", &requires("30 s")).await;
    assert_eq!(members(&second.get("/v1/group").await), 2);
    for node in [second, first] {
        node.running.stop().await.expect("it stops");
    }
    let text = format!("[identity]\nseed = 86\n{}", requires("300 ms"));
    let config = NodeConfig::parse(&text, Path::new("test.toml")).expect("it is valid");
    let error = Running::start(config).await.expect_err("no seed answers");
    assert!(error.starts_with("group.require_seed: no seed answered within 300ms"), "{error}");
    assert!(error.contains(&seed), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_options_and_taken_addresses_are_reported() {
    let first = node(87, &[], "", &ring(&[])).await;
    let seed = address(&first);
    let total =
        ring(std::slice::from_ref(&seed)).replace("[group]", "[group]\nprotocol.preset = \"ring-total\"");
    let second = node(88, &[], "", &total).await;
    let failed = |status: &Value| status["failed_seeds"][&seed].is_string();
    let status = second.until("/v1/group", "a failed seed", failed).await;
    let reason = status["failed_seeds"][&seed].as_str().unwrap();
    let differ = "the peer has other options: found \"fifo order\"; expected \"total order\"; use the same";
    assert!(reason.starts_with(differ), "{reason}");
    first.counted("samara_group_links_closed_total{cause=\"other_options\"}", 1.0).await;

    let requires = total.replace(FAST, &format!("require_seed = \"300 ms\"\n{FAST}"));
    let taken = ring(&[]).replace("127.0.0.1:0", &seed);
    for (section, words) in [
        (requires, ["group.seeds: the member cannot join through the seed", &seed]),
        (taken, ["group.listen: cannot listen on", "in use"]),
    ] {
        let text = format!("[identity]\nseed = 89\n{section}");
        let config = NodeConfig::parse(&text, Path::new("test.toml")).expect("it is valid");
        let error = Running::start(config).await.expect_err("it cannot start");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    for (body, words) in
        [("{\"text\":5}", "text: found 5; expected a text"), ("{\"txt\":\"\"}", "unknown key `txt`")]
    {
        let (status, answer) = first.try_post("/v1/group/broadcast", body).await;
        let error = answer["error"].as_str().expect("an error");
        assert!(status == 422 && error.contains(words), "{body}: {status} {error}");
    }
}

#[tokio::test]
async fn without_a_section_there_is_no_group() {
    let node = node(83, &[], "", FAST).await;
    assert!(node.running.ready().group.is_none());
    let (status, answer) = node.try_post("/v1/group/broadcast", "{\"text\": \"x\"}").await;
    assert_eq!(status, 404);
    assert!(answer["error"].as_str().unwrap().contains("[group]"), "{answer}");
}

/// The secret and the certificate of a member are read at the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_authenticate_each_other() {
    let directory = std::env::temp_dir().join(format!("samara-ring-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).display().to_string();
    let secret = path("group.secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    let with = |seeds: &[String], more: &str| ring(seeds).replace("seeds", &format!("{more}\nseeds"));
    let refused = async |more: &str| {
        let text = format!("[identity]\nseed = 9\n{}", with(&[], more));
        let config = NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
        Running::start(config).await.map(drop).unwrap_err()
    };
    let use_secret = format!("secret = {secret:?}");
    let set_mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&secret, mode).unwrap();
    };
    set_mode(0o644);
    let error = refused(&use_secret).await;
    assert!(error.starts_with("group.secret: ") && error.contains("chmod 600"), "{error}");
    set_mode(0o600);
    let error = refused(&format!("secret = {:?}", path("nowhere"))).await;
    assert!(error.contains("openssl rand -hex 32 > "), "{error}");
    let first = node(85, &[], "", &with(&[], &use_secret)).await;
    let second = node(86, &[], "", &with(&[address(&first)], &use_secret)).await;
    for node in [&first, &second] {
        node.until("/v1/group", "a view of two", |status| members(status) == 2).await;
    }
    let stranger = node(87, &[], "", &ring(&[address(&first)])).await;
    stranger.until("/v1/group", "a view of its own", |status| members(status) == 1).await;
    let metrics = first.metrics().await;
    assert!(value(&metrics, "samara_group_links_closed_total{cause=\"handshake\"}") > 0.0);
    assert_eq!(members(&first.get("/v1/group").await), 2);

    std::fs::write(&secret, "short").unwrap();
    let error = refused(&use_secret).await;
    assert!(error.contains("5 bytes; expected at least 16"), "{error}");
    let certificate = path("group.pem");
    let fingerprint = samara_node::new_certificate(Path::new(&certificate)).unwrap();
    let other = "1".repeat(64);
    let pinned = |fingerprint: &str| {
        let own = "address = \"127.0.0.1:17999\"";
        format!(
            "identity = {certificate:?}\nadvertise = \"127.0.0.1:17999\"\nmembers = [{{ {own}, fingerprint = {fingerprint:?} }}]"
        )
    };
    let error = refused(&pinned(&other)).await;
    let found = format!("group.identity: found a certificate with the fingerprint {fingerprint}; ");
    assert!(error.starts_with(&found) && error.contains(&other), "{error}");
    assert!(error.contains("which the members have for 127.0.0.1:17999; correct group.members"), "{error}");
    let error = refused(&pinned("12")).await;
    assert!(error.starts_with("group.members.0.fingerprint: "), "{error}");
    let certified = node(88, &[], "", &with(&[], &pinned(&fingerprint))).await;
    certified.until("/v1/group", "a view of its own", |status| members(status) == 1).await;
    std::fs::remove_dir_all(&directory).unwrap();
}
