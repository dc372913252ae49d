//! Tests of nodes on other machines: they stop and return, and some are hostile.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use samara_dashboard::{NodeAddress, read_nodes};
use samara_trace::live::{Clock, Event, FEED_BYTES_MAX, RoundState, Step};
use samara_trace::unix_ns;
use serde_json::{Value, json};

use crate::common::{Server, directory, round, slots, started, until};
use crate::remote::{Mix, Node, Remote, body, from, link};

fn server(test: &str, nodes: &[NodeAddress]) -> Server {
    Server::start_with(&directory(test), nodes, "127.0.0.1:0", None)
}

fn get(server: &Server, path: &str) -> Value {
    let text = ureq::get(&server.url(path)).call().unwrap().body_mut().read_to_string().unwrap();
    serde_json::from_str(&text).unwrap()
}

fn snapshot(server: &Server) -> Value {
    get(server, "/v1/snapshot")
}

fn source(state: &Value, name: &str) -> Value {
    let sources = state["sources"].as_array().unwrap();
    sources.iter().find(|source| source["name"] == name).cloned().unwrap_or(Value::Null)
}

/// Waits until a source is as expected, and returns it.
fn until_source(server: &Server, name: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    let mut state = Value::Null;
    let start = Instant::now();
    while found.is_null() || !holds(&found) {
        assert!(start.elapsed() < Duration::from_secs(20), "timed out waiting for {name}: {state:#}");
        std::thread::sleep(Duration::from_millis(50));
        state = snapshot(server);
        found = source(&state, name);
    }
    found
}

fn is_answering(source: &Value) -> bool {
    source["answered"] == true && source["silent_since_unix_ms"].is_null()
}

#[test]
fn nodes_of_several_machines_are_one_run() {
    let mix = Mix::start(3);
    (100..103).for_each(|number| mix.round(number));
    let server = server("nodes-run", &mix.addresses());
    let listed = get(&server, "/v1/runs");
    assert_eq!(listed["runs"][0]["name"], "nodes (live)");
    until("three rounds", || snapshot(&server)["outcomes"]["completed"] == 3);
    // A round while the page is open.
    mix.round(103);
    // Its nodes are asked one after another.
    until("another round", || {
        let state = snapshot(&server);
        let spans = state["round/wall/103"]["spans"].as_array().map(Vec::len);
        state["outcomes"]["completed"] == 4 && state["latency"]["team"]["slots"] == 40 && spans == Some(6)
    });
    let state = snapshot(&server);
    assert_eq!(state["teams"][0]["members"], json!(["node-0", "node-1", "node-2"]));
    let shown = &state["round/wall/103"];
    assert_eq!((&shown["state"], shown["spans"].as_array().map(Vec::len)), (&json!("completed"), Some(6)));
    assert!(shown["latency_mean_ms"].as_f64().is_some_and(|mean| mean > 0.0), "{shown}");
    assert_eq!((state["latency"]["team"]["slots"].as_u64(), &state["links"]["all"]), (Some(40), &json!(6)));
    let node = source(&state, "node-1");
    assert_eq!((&node["role"], &node["dropped"], &node["refused"]), (&json!("node"), &json!(0), &json!(0)));
    assert_eq!(node["address"], mix.nodes[1].remote.address.to_string());
    let (off, within) = (node["clock_off_ms"].as_f64().unwrap(), node["clock_within_ms"].as_f64().unwrap());
    assert!(off.abs() <= within + 1.0 && within < 5_000.0, "{node}");
    // A link that a node does not name any more is down.
    mix.nodes[0].count(vec![link("scheduler")]);
    let is_down = || {
        let state = snapshot(&server);
        let links = state["links"]["rows"].as_array().unwrap().clone();
        links.iter().any(|row| row["node"] == "node-0" && row["peer"] == "node-1" && row["up"] == false)
    };
    until("the link to end", is_down);
}

#[test]
fn a_node_that_stops_is_shown_and_returns_by_itself() {
    let mut mix = Mix::start(2);
    mix.round(7);
    let server = server("nodes-stop", &mix.addresses());
    until("a round", || snapshot(&server)["round/wall/7"]["spans"].as_array().map(Vec::len) == Some(4));
    let before = unix_ns() / 1_000_000;
    let stopped = mix.nodes.pop().unwrap();
    let address = stopped.remote.address.to_string();
    drop(stopped);
    // The last connection may have ended within an answer.
    let down = until_source(&server, "node-1", |source| {
        source["silent_because"] == "no connection: connection refused"
    });
    let since = down["silent_since_unix_ms"].as_u64().unwrap();
    assert!((before - 1_000..before + 5_000).contains(&since), "{since} {before}");
    std::thread::sleep(Duration::from_millis(2_500));
    // The time of the first failure stays, and what was known of its rounds.
    let state = snapshot(&server);
    assert_eq!(source(&state, "node-1")["silent_since_unix_ms"], since);
    assert_eq!(state["round/wall/7"]["spans"].as_array().map(Vec::len), Some(4));
    let links = state["links"]["rows"].as_array().unwrap();
    assert!(links.iter().filter(|row| row["node"] == "node-1").all(|row| row["up"].is_null()), "{links:?}");
    // The others continue.
    mix.nodes[0].phase(8, "decrypt");
    mix.scheduler.say(round(8, RoundState::Realtime));
    until("the next round", || snapshot(&server)["round/wall/8"]["spans"][0][0] == "node-0");
    let again = Node::start_at(&address, "node-1", "node");
    again.phase(8, "decrypt");
    until_source(&server, "node-1", is_answering);
    until("its phase", || snapshot(&server)["round/wall/8"]["spans"].as_array().map(Vec::len) == Some(2));
}

/// A node that does not answer at all is shown with its address, since the start of the dashboard.
#[test]
fn a_node_that_was_never_reached_is_shown() {
    // Nothing accepts there, so that the request waits.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let nodes = [&address, "127.0.0.1:1", "no-such-host.invalid:9100"].map(|text| text.parse().unwrap());
    let server = server("nodes-never", &nodes);
    let of = |name: &str| {
        let down = until_source(&server, name, |source| !source["silent_since_unix_ms"].is_null());
        assert_eq!((&down["answered"], &down["role"]), (&json!(false), &Value::Null));
        down["silent_because"].as_str().unwrap().to_owned()
    };
    assert_eq!(of("127.0.0.1:1"), "no connection: connection refused");
    assert!(of("no-such-host.invalid:9100").starts_with("the name has no address: "));
    assert_eq!(of(&address), "no answer within 5 s");
}

/// Servers that do not follow the protocol: each shows as a node with a problem, and the honest node
/// is followed as if they were not there.
#[test]
fn hostile_servers_harm_no_other_node() {
    type Answer = fn(&mut std::net::TcpStream);
    let endless: Answer = |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
    };
    let endless_head: Answer = |stream| while stream.write_all(b"a: b\r\n").is_ok() {};
    let slow: Answer = |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let garbage: Answer = |stream| drop(stream.write_all(b"\x15\x03\x01\x00\x02\x02\x46"));
    let page: Answer = |stream| body(stream, "<html><script>alert(1)</script></html>\n");
    let elsewhere: Answer = |stream| {
        let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n");
    };
    let future: Answer = |stream| body(stream, "{\"v\":2}\n");
    let hangs_up: Answer = |_| {};
    let cases = [
        (endless, "the answer has more than 524288 bytes"),
        (endless_head, "no node of Samara: the answer is not HTTP/1.1"),
        (slow, "no answer within 5 s"),
        (garbage, "no node of Samara: the answer is not HTTP/1.1"),
        (page, "the answer does not begin with the head of live lines"),
        (elsewhere, "it answers with status 302"),
        (future, "the answer has the version 2 of live lines; expected 1"),
        (hangs_up, "the connection ended before the answer"),
    ];
    let hostile: Vec<(Remote, &str)> = cases
        .into_iter()
        .map(|(answer, cause)| (Remote::serve("127.0.0.1:0", move |stream, _| answer(stream)), cause))
        .collect();
    let mix = Mix::start(2);
    let mut nodes: Vec<NodeAddress> = hostile.iter().map(|(remote, _)| remote.node()).collect();
    nodes.extend(mix.addresses());
    let server = server("nodes-hostile", &nodes);
    for number in 0..4 {
        let start = Instant::now();
        mix.round(number);
        until("the round", || snapshot(&server)["outcomes"]["completed"] == number + 1);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    for (remote, cause) in &hostile {
        let address = remote.address.to_string();
        let down = until_source(&server, &address, |source| !source["silent_because"].is_null());
        assert_eq!(down["silent_because"], *cause);
    }
    for name in ["scheduler", "node-0", "node-1"] {
        assert!(is_answering(&source(&snapshot(&server), name)), "{name}");
    }
}

/// A node that follows the protocol, and lies: others keep their names, values and rounds.
#[test]
fn what_a_node_says_about_others_is_not_shown() {
    let mix = Mix::start(2);
    mix.round(50);
    // It answers with the same lines again and again, each time with more rounds.
    let answers = Mutex::new(0_u64);
    let liar = Remote::serve("127.0.0.1:0", move |stream, request| {
        let mut answer = answers.lock().unwrap();
        *answer += 1;
        let next = from(request) + 1;
        let mut lines = vec![json!({
            "v": 1, "name": "node-0", "started_unix_ns": 5, "now_unix_ns": 5, "next": next, "more": true, "omitted": 0,
        })];
        let line = |event: Event| {
            let mut line = json!(event);
            line["v"] = 1.into();
            line["seq"] = (next - 1).into();
            line["at_ns"] = u64::MAX.into();
            line
        };
        lines.push(line(started("session", Clock::Virtual, unix_ns())));
        lines.push(line(Event::Team { team: 0, members: vec!["x".into()] }));
        lines.push(line(round(50, RoundState::Failed)));
        lines.push(line(Event::Ping { team: None, members: vec!["node-1".into()], loop_ns: Some(1) }));
        let mut of_other = line(Event::Errors { cause: "made up".into(), total: 9 });
        of_other["node"] = "node-1".into();
        lines.push(of_other);
        for number in 0..600 {
            lines.push(line(slots(u64::MAX - 600 * *answer - number, Step::Entered, 1)));
            lines.push(line(Event::Queue {
                queue: format!("{answer} {number}"),
                entries: 1 << 40,
                bytes: None,
            }));
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        assert!(text.len() < FEED_BYTES_MAX);
        body(stream, &text);
    });
    let mut nodes = mix.addresses();
    nodes.push(liar.node());
    let server = server("nodes-liar", &nodes);
    until_source(&server, "node-0", is_answering);
    let name = format!("{} at node-0", liar.address);
    // Who says a name first has it; both are shown with their address.
    let is_liar = |source: &Value| source["address"] == liar.address.to_string();
    let shown = || snapshot(&server)["sources"].as_array().unwrap().iter().find(|s| is_liar(s)).cloned();
    until("its lies", || shown().is_some_and(|shown| shown["refused"].as_u64() > Some(1_000)));
    for number in 51..60 {
        mix.round(number);
    }
    until("all rounds", || snapshot(&server)["outcomes"]["completed"] == 10);
    let state = snapshot(&server);
    assert_eq!(state["outcomes"]["failed"], 0);
    assert_eq!(state["teams"].as_array().map(Vec::len), Some(1));
    assert_eq!(state["teams"][0]["members"], json!(["node-0", "node-1"]));
    let rounds: Vec<String> = (50..60).map(|number| format!("round/wall/{number}")).collect();
    assert_eq!(state["rounds"], json!(rounds));
    assert_eq!((&state["errors"], state["pings"].as_array().map(Vec::len)), (&json!([]), Some(0)));
    assert!(state["queues"]["all"].as_u64() < Some(600), "{}", state["queues"]["all"]);
    assert_eq!(shown().unwrap()["role"], "node");
    let names = [shown().unwrap()["name"].as_str().unwrap().to_owned(), name];
    assert!(names[0] == names[1] || names[0] == "node-0", "{names:?}");
    let honest = mix.nodes[0].remote.address.to_string();
    let sources = state["sources"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["address"] == honest), "{sources:?}");
}

#[test]
fn tokens_of_nodes_are_sent_to_their_node_only_and_shown_nowhere() {
    const TOKEN: &str = "b7f3a9c2d4e5f60718293a4b5c6d7e8f";
    let demands = |stream: &mut std::net::TcpStream, request: &str| {
        if request.contains(&format!("authorization: Bearer {TOKEN}\r\n")) {
            let mut feed = samara_trace::live::Feed::start(Some("locked".into()), "node", 3);
            feed.push(4, slots(1, Step::Entered, 1));
            body(stream, &feed.answer(from(request), unix_ns(), Vec::new()));
        } else {
            let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
        }
    };
    let (locked, other) = (Remote::serve("127.0.0.1:0", demands), Remote::serve("127.0.0.1:0", demands));
    let results = directory("nodes-token");
    std::fs::write(results.join("node.token"), format!("{TOKEN}\n")).unwrap();
    let list = results.join("nodes.txt");
    std::fs::write(&list, format!("{} node.token\n{}\n", locked.address, other.address)).unwrap();
    let server = Server::start_with(&results, &read_nodes(&list).unwrap(), "127.0.0.1:0", None);
    until_source(&server, "locked", is_answering);
    let down =
        until_source(&server, &other.address.to_string(), |source| !source["silent_because"].is_null());
    assert!(down["silent_because"].as_str().unwrap().contains("put its file behind the address"), "{down}");
    for path in ["/", "/app.js", "/v1/runs", "/v1/snapshot", "/style.css"] {
        let text = ureq::get(&server.url(path)).call().unwrap().body_mut().read_to_string().unwrap();
        assert!(!text.contains(TOKEN), "{path}");
    }
}
