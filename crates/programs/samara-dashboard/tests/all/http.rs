//! Tests of the server: its responses, access control, and broken connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use samara_trace::live::{Clock, LiveWriter};
use serde_json::Value;

use crate::common::{MS, Server, Team, directory, running, started, until};

const TOKEN: &str = "a long enough token";

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    config.timeout_recv_response(Some(Duration::from_secs(10))).build().into()
}

fn get(url: &str) -> (u16, String, ureq::http::HeaderMap) {
    let mut answer = agent().get(url).call().unwrap();
    let headers = answer.headers().clone();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap(), headers)
}

/// Server-sent events, as a browser reads them.
struct Events(BufReader<Box<dyn std::io::Read>>);

#[derive(Debug)]
struct ServerEvent {
    kind: String,
    id: Option<String>,
    data: Value,
}

impl Events {
    fn open(url: &str, last_id: Option<&str>) -> Self {
        let mut request = agent().get(url);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let answer = request.call().unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self(BufReader::new(Box::new(answer.into_body().into_reader())))
    }

    fn next(&mut self) -> ServerEvent {
        let (mut kind, mut id, mut data) = (String::new(), None, String::new());
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the events have ended");
            match line.trim_end().split_once(": ") {
                Some(("event", value)) => kind = value.to_owned(),
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("data", value)) => data.push_str(value),
                None if !kind.is_empty() => {
                    return ServerEvent { kind, id, data: serde_json::from_str(&data).unwrap() };
                }
                _ => {}
            }
        }
    }

    /// The next event that is neither a greeting nor a keep-alive.
    fn next_change(&mut self) -> ServerEvent {
        loop {
            let event = self.next();
            if event.kind != "hello" && event.kind != "alive" {
                return event;
            }
        }
    }
}

fn session(results: &Path) -> LiveWriter {
    let writer = LiveWriter::create(results, "session").unwrap();
    writer.say(1, started("session", Clock::Wall, 1));
    writer
}

#[test]
fn page_loads_nothing_from_other_servers() {
    let server = Server::start(&directory("page"), "127.0.0.1:0", None);
    let pages = [("/", "html"), ("/app.js", "javascript"), ("/style.css", "css"), ("/login", "html")];
    for (path, kind) in pages {
        let (status, body, headers) = get(&server.url(path));
        assert_eq!(status, 200, "{path}");
        assert!(headers["content-type"].to_str().unwrap().starts_with(&format!("text/{kind}")));
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"));
        assert!(!policy.contains("unsafe") && !policy.contains("http"));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let names = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!names.contains("http://") && !names.contains("https://"), "{path} names another site");
        assert!(!body.contains("innerHTML"), "text of files could become markup");
    }
}

#[test]
fn missing_pages_and_runs_return_404() {
    let results = directory("missing");
    let server = Server::start(&results, "127.0.0.1:0", None);
    let paths =
        "/other /v1/snapshot /v1/events /v1/snapshot?run=x /v1/snapshot?run=../.. /v1/events?run=%2e%2e%2f";
    for path in paths.split(' ') {
        let (status, body, headers) = get(&server.url(path));
        assert_eq!(status, 404, "{path}");
        assert!(serde_json::from_str::<Value>(&body).unwrap()["error"].is_string());
        assert!(headers.contains_key("content-security-policy"));
    }
    let refused = agent().post(server.url("/v1/runs")).send_empty().unwrap();
    assert_eq!(refused.status(), 405);
    let long = agent().post(server.url("/login")).send(vec![b'x'; 1 << 16]).unwrap();
    assert!(long.status().is_client_error());
    assert_eq!(get(&server.url("/v1/runs")).0, 200, "the server still responds");
}

#[test]
fn requests_without_token_are_rejected() {
    let results = directory("token");
    let _session = session(&results.join("run"));
    let server = Server::start(&results, "127.0.0.1:0", Some(TOKEN));
    for path in ["/v1/runs", "/v1/snapshot", "/v1/events", "/app.js", "/nothing"] {
        let (status, body, _) = get(&server.url(path));
        assert_eq!(status, 401, "{path}");
        assert!(body.contains("token"), "{body}");
    }
    let (status, _, headers) = get(&server.url("/"));
    assert_eq!((status, &headers["location"]), (303, &"/login".parse().unwrap()));
    let ask = |name: &str, value: &str| {
        agent().get(server.url("/v1/runs")).header(name, value).call().unwrap().status().as_u16()
    };
    assert_eq!(ask("authorization", &format!("Bearer {TOKEN}")), 200);
    assert_eq!(ask("authorization", "Bearer another long token"), 401);
    let sign_in = |token: &str| agent().post(server.url("/login")).send_form([("token", token)]).unwrap();
    assert_eq!(sign_in("wrong").status(), 401);
    let signed_in = sign_in(TOKEN);
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("long"));
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(ask("cookie", cookie), 200);
    // Sessions survive a restart of the server.
    let address = server.address.to_string();
    server.stop();
    let server = Server::start(&results, &address, Some(TOKEN));
    let answer = agent().get(server.url("/v1/runs")).header("cookie", cookie).call().unwrap();
    assert_eq!(answer.status(), 200);
}

#[test]
fn requests_from_other_sites_are_rejected() {
    let server = Server::start(&directory("names"), "127.0.0.1:0", None);
    let ask = |host: &str| {
        agent().get(server.url("/v1/runs")).header("host", host).call().unwrap().status().as_u16()
    };
    assert_eq!(ask("localhost:1"), 200);
    assert_eq!(ask("attacker.example"), 403);
}

/// Clients that send nothing, or one byte at a time, keep nobody out: the longest wait ends for a
/// newcomer.
#[test]
fn silent_clients_keep_nobody_out() {
    let server = Server::start(&directory("silent"), "127.0.0.1:0", None);
    let mut silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for slow in silent.iter_mut().rev().take(5) {
        slow.write_all(b"POST /login HTTP/1.1\r\nContent-Length: 9\r\n\r\ntok").unwrap();
    }
    let (status, body, _) = get(&server.url("/v1/runs"));
    let listed: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &listed["refused_connections"]), (200, &0.into()), "{listed}");
    let mut end = String::new();
    // The oldest was closed without a word. The youngest have their time.
    assert_eq!(silent[0].read_to_string(&mut end).unwrap_or(0), 0);
    let mut late = String::new();
    silent[199].read_to_string(&mut late).unwrap();
    assert!(late.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{late}");
    let listed: Value = serde_json::from_str(&get(&server.url("/v1/runs")).1).unwrap();
    assert!(listed["evicted_connections"].as_u64() > Some(0), "{listed}");
}

/// The answer to a wrong token is delayed, and the tokens are counted.
#[test]
fn guesses_are_slow_and_counted() {
    let server = Server::start(&directory("guesses"), "127.0.0.1:0", Some(TOKEN));
    let hasty = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    let hasty: ureq::Agent = hasty.timeout_recv_response(Some(Duration::from_millis(500))).build().into();
    assert!(hasty.post(server.url("/login")).send_form([("token", "a wrong token")]).is_err());
    let runs = server.url("/v1/runs");
    assert!(hasty.get(&runs).header("authorization", "Bearer a wrong token").call().is_err());
    assert!(hasty.get(&runs).header("cookie", "samara_dashboard=0").call().is_err());
    assert_eq!(agent().get(&runs).call().unwrap().status(), 401, "no token is no guess");
    let right = format!("Bearer {TOKEN}");
    let listed = agent().get(&runs).header("authorization", right).call().unwrap();
    let listed: Value = serde_json::from_str(&listed.into_body().read_to_string().unwrap()).unwrap();
    assert_eq!(listed["wrong_tokens"], 3);
}

/// A results directory of a stranger neither shows files elsewhere nor blocks the pages of others.
#[cfg(unix)]
#[test]
fn links_and_pipes_in_results_are_not_followed() {
    use std::os::unix::fs::symlink;

    let results = directory("foreign");
    let outside = directory("foreign-outside");
    session(&outside.join("hidden")).finish().1.unwrap();
    std::fs::write(outside.join("secret.txt"), "a secret").unwrap();
    session(&results.join("honest")).finish().1.unwrap();
    std::fs::write(results.join("honest/report.html"), "a report").unwrap();
    // A report that is a link.
    session(&results.join("report")).finish().1.unwrap();
    symlink(outside.join("secret.txt"), results.join("report/report.html")).unwrap();
    // Live files of another directory: by a link of the run, of its directory, and of a file.
    symlink(outside.join("hidden"), results.join("run")).unwrap();
    std::fs::create_dir_all(results.join("of-live")).unwrap();
    symlink(outside.join("hidden/live"), results.join("of-live/live")).unwrap();
    std::fs::create_dir_all(results.join("of-file/live")).unwrap();
    symlink(outside.join("hidden/live/session.jsonl"), results.join("of-file/live/session.jsonl")).unwrap();
    // Pipes.
    std::fs::create_dir_all(results.join("pipe/live")).unwrap();
    for name in ["pipe/live/session.jsonl", "pipe/report.html"] {
        let made = std::process::Command::new("mkfifo").arg(results.join(name)).status();
        assert!(made.unwrap().success());
    }
    let server = Server::start(&results, "127.0.0.1:0", None);
    let listed: Value = serde_json::from_str(&get(&server.url("/v1/runs")).1).unwrap();
    let mut names: Vec<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["honest", "of-file", "pipe", "report"]);
    for (run, status) in [("report", 404), ("pipe", 404), ("run", 404), ("honest", 200)] {
        let (found, body, _) = get(&server.url(&format!("/report?run={run}")));
        assert_eq!(found, status, "{run}: {body}");
        assert!(!body.contains("secret"));
    }
    assert_eq!(get(&server.url("/report?run=honest")).1, "a report");
    for (run, has_source) in [("pipe", false), ("of-file", false), ("honest", true)] {
        let (status, body, _) = get(&server.url(&format!("/v1/snapshot?run={run}")));
        assert_eq!((status, body.contains("session")), (200, has_source), "{run}: {body}");
    }
    for run in ["run", "of-live"] {
        assert_eq!(get(&server.url(&format!("/v1/snapshot?run={run}"))).0, 404, "{run}");
    }
}

#[test]
fn pages_with_updates_are_bounded() {
    let results = directory("pages");
    let _session = session(&results.join("run"));
    let server = Server::start(&results, "127.0.0.1:0", None);
    let url = server.url("/v1/events");
    let open: Vec<Events> = (0..64).map(|_| Events::open(&url, None)).collect();
    let (status, body, _) = get(&url);
    assert_eq!((status, body.contains("too many pages")), (503, true), "{body}");
    drop(open);
    // A server notices a closed page when it writes to it.
    until("a page has ended", || agent().get(&url).call().unwrap().status() == 200);
}

#[test]
fn runs_are_listed_newest_first() {
    let results = directory("runs");
    for name in ["old", "new"] {
        session(&results.join(name)).finish().1.unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::create_dir_all(results.join("no-run")).unwrap();
    let server = Server::start(&results, "127.0.0.1:0", None);
    let names = |server: &Server| {
        let listed: Value = serde_json::from_str(&get(&server.url("/v1/runs")).1).unwrap();
        let names =
            listed["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&server), ["new", "old"]);
    let mut events = Events::open(&server.url("/v1/events"), None);
    assert_eq!(events.next().data["run"], "new");
    server.stop();
    // The directory of a single run shows this run.
    let server = Server::start(&results.join("old"), "127.0.0.1:0", None);
    assert_eq!(names(&server), ["old"]);
    assert_eq!(get(&server.url("/v1/snapshot?run=old")).0, 200);
}

#[test]
fn events_start_with_snapshot_and_continue_with_changes() {
    let results = directory("events");
    let writer = session(&results.join("run"));
    writer.say_of(Some("batch"), 2, running(0.25, 1000 * MS));
    let server = Server::start(&results, "127.0.0.1:0", None);
    until("the first line is in the file", || get(&server.url("/v1/snapshot")).1.contains("0.25"));
    let mut events = Events::open(&server.url("/v1/events"), None);
    let first = events.next_change();
    assert_eq!(first.kind, "snapshot");
    assert_eq!(first.data["job/session/batch"]["share"], 0.25);
    writer.say_of(Some("batch"), 3, running(0.5, 2000 * MS));
    let change = events.next_change();
    assert_eq!((change.kind.as_str(), &change.data["job/session/batch"]["share"]), ("delta", &0.5.into()));
    assert!(change.data.get("sources").is_none(), "the sources have not changed");
    // A reconnecting page gets the missed changes instead of everything.
    drop(events);
    writer.say_of(Some("batch"), 4, running(0.75, 3000 * MS));
    until("the change was read", || get(&server.url("/v1/snapshot")).1.contains("0.75"));
    let mut events = Events::open(&server.url("/v1/events"), change.id.as_deref());
    let missed = events.next_change();
    assert_eq!((missed.kind.as_str(), &missed.data["job/session/batch"]["share"]), ("delta", &0.75.into()));
    // After a restart of the server, it gets everything.
    let (address, last) = (server.address.to_string(), missed.id.unwrap());
    drop(events);
    server.stop();
    let server = Server::start(&results, &address, None);
    let again = Events::open(&server.url("/v1/events"), Some(&last)).next_change();
    assert_eq!((again.kind.as_str(), &again.data["job/session/batch"]["share"]), ("snapshot", &0.75.into()));
}

#[test]
fn snapshot_shows_the_reported_team() {
    let results = directory("team");
    let mut team = Team::start(&results.join("run"), 1_000_000 * MS);
    (0..12).for_each(|round| team.round(round == 5));
    (0..10).for_each(|second| team.network(second * 500));
    team.finish();
    let server = Server::start(&results, "127.0.0.1:0", None);
    let view: Value = serde_json::from_str(&get(&server.url("/v1/snapshot")).1).unwrap();
    assert_eq!((&view["outcomes"]["completed"], &view["outcomes"]["failed"]), (&11.into(), &1.into()));
    let expected: u64 = (0..12).filter(|round| *round != 5).map(Team::latency_ms).sum();
    let mean = view["latency"]["team"]["mean_ms"].as_f64().unwrap();
    assert!((mean - expected as f64 / 11.0).abs() < 1e-3, "{mean}");
    assert_eq!(view["latency"]["senders"]["slots"], 11_000);
    assert_eq!(view["latency"]["across_clocks"], false);
    let links = view["pings"][0]["links"].as_array().unwrap();
    assert!(links.len() == 5 && links.iter().all(|link| link["round_trip_ms"].is_f64()));
}
