//! Tests of the page, and of reports, in headless Chromium.
//!
//! Without Chromium these tests print that they were skipped, or fail if `SAMARA_REQUIRE_BROWSER`
//! is set. Screenshots are left in `target/tmp/dashboard-pictures`.

mod chrome;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use samara_trace::live::{Clock, LiveWriter, Step};

use crate::common::{MS, Server, Team, directory, running, slots, started};
use crate::remote::{Mix, Node};
use chrome::Chrome;

fn chrome(test: &str) -> Option<Chrome> {
    let chrome = Chrome::start(&directory(&format!("profile-{test}")));
    if chrome.is_none() {
        assert!(
            std::env::var_os("SAMARA_REQUIRE_BROWSER").is_none(),
            "SAMARA_REQUIRE_BROWSER is set, but found no Chromium"
        );
        eprintln!("SKIPPED: found no Chromium on this machine ({test})");
    }
    chrome
}

fn pictures() -> PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard-pictures");
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Waits until an expression is true in the page.
fn until(chrome: &mut Chrome, expression: &str) {
    let start = Instant::now();
    // While the page loads, an expression may throw.
    let guarded = format!("(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()");
    while chrome.eval(&guarded) != true {
        if start.elapsed() > Duration::from_secs(25) {
            let text = chrome.eval("document.body.innerText");
            panic!("timed out waiting for {expression}\n{text}\n{:?}", chrome.complaints);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

const LINK: &str = "document.querySelector('#link').textContent";
const MAIN: &str = "document.querySelector('main').innerText";

fn fits(chrome: &mut Chrome) {
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(chrome.eval(overflow), 0, "the page scrolls sideways");
}

/// A team that has mixed several rounds.
fn team(results: &std::path::Path) -> Team {
    let mut team = Team::start(results, 1_760_000_000_000 * MS);
    (0..14).for_each(|round| team.round(round == 9));
    (0..24).for_each(|step| team.network(step * 500));
    team
}

#[test]
fn page_updates_and_survives_a_server_restart() {
    let Some(mut chrome) = chrome("live") else { return };
    let results = directory("browser-live");
    let server = Server::start(&results, "127.0.0.1:0", None);
    chrome.open(&server.url("/"));
    until(&mut chrome, &format!("{MAIN}.includes('There is no run yet')"));
    // Before the server has answered, the page does not know whether there is one.
    let first = "(() => { const listed = page.listed; page.listed = null; empty(true); \
                 const text = document.getElementById('empty').textContent; \
                 page.listed = listed; empty(true); return text; })()";
    assert_eq!(chrome.eval(first), "Loading…");
    // A new run appears without a reload.
    let mut team = team(&results.join("relay"));
    until(
        &mut chrome,
        &format!("{LINK} === 'live' && document.querySelector('#title').textContent === 'relay'"),
    );
    until(&mut chrome, &format!("{MAIN}.includes('Whole loop')"));
    let completed = "[...document.querySelectorAll('.tile')].find(t => t.innerText.startsWith('Rounds completed')).querySelector('dd').firstChild.textContent";
    until(&mut chrome, &format!("{completed} === '13'"));
    // Another round completes, which needs no reload.
    chrome.eval("window.mark = 1");
    team.round(false);
    until(&mut chrome, &format!("{completed} === '14'"));
    // The server stops and restarts at the same address.
    let address = server.address.to_string();
    server.stop();
    until(&mut chrome, &format!("{LINK} === 'connection lost, retrying'"));
    assert_eq!(chrome.eval(completed), "14", "known values stay");
    team.round(false);
    let _server = Server::start(&results, &address, None);
    until(&mut chrome, &format!("{LINK} === 'live'"));
    until(&mut chrome, &format!("{completed} === '15'"));
    assert_eq!(chrome.eval("window.mark"), 1, "the page has not reloaded");
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
}

#[test]
fn team_is_shown_completely_on_desktop_and_phone() {
    let Some(mut chrome) = chrome("team") else { return };
    let results = directory("browser-team");
    let team = team(&results.join("mix-real"));
    let server = Server::start(&results, "127.0.0.1:0", None);
    for (name, width, height, scheme) in [
        ("team-light", 1280, 900, "light"),
        ("team-dark", 1280, 900, "dark"),
        ("team-phone", 390, 844, "light"),
    ] {
        chrome.window(width, height, scheme);
        chrome.open(&server.url("/"));
        until(&mut chrome, &format!("{MAIN}.includes('Whole loop')"));
        until(&mut chrome, "document.querySelectorAll('#s-rounds svg rect').length > 100");
        std::thread::sleep(Duration::from_millis(600));
        fits(&mut chrome);
        chrome.picture(&pictures().join(format!("{name}.png")));
    }
    for section in ["rounds", "teams", "latency", "links", "throughput", "queues", "errors", "sources"] {
        let heading = format!("document.querySelector('#s-{section} h2').textContent.length");
        assert!(chrome.eval(&heading).as_u64().unwrap() > 3, "{section}");
    }
    // Every figure has a label, and no text of a file has become markup.
    let silent = "[...document.querySelectorAll('main svg')].filter(s => s.getAttribute('role') !== 'img' || !s.getAttribute('aria-label')).length";
    assert_eq!(chrome.eval(silent), 0);
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
    drop(team);
}

#[test]
fn no_value_is_shown_before_it_is_known() {
    let Some(mut chrome) = chrome("values") else { return };
    let results = directory("browser-values");
    let team = Team::start(&results.join("run"), 1_760_000_000_000 * MS);
    let writer = LiveWriter::create(&results.join("run"), "<img src=x onerror=alert(1)>").unwrap();
    writer.say(1, started("<script>alert(1)</script>", Clock::Wall, 1));
    writer.say(2, slots(3, Step::Entered, 10));
    let server = Server::start(&results, "127.0.0.1:0", None);
    chrome.open(&server.url("/"));
    until(&mut chrome, &format!("{MAIN}.includes('No slot has come out yet')"));
    let shown = chrome.eval(
        "[...document.querySelectorAll('.tile')].filter(t => !t.innerText.startsWith('Errors')).map(t => t.querySelector('dd').firstChild.textContent.trim()[0])",
    );
    let shown = shown.as_array().unwrap().clone();
    assert!(shown.len() >= 4 && shown.iter().all(|first| first == "—"), "{shown:?}");
    until(&mut chrome, &format!("{MAIN}.includes('<script>alert(1)')"));
    assert_eq!(chrome.eval("document.querySelectorAll('main img, main script').length"), 0);
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
    drop(team);
}

#[test]
fn keyboard_reaches_all_controls() {
    let Some(mut chrome) = chrome("keyboard") else { return };
    let results = directory("browser-keyboard");
    let team = team(&results.join("one"));
    let server = Server::start(&results, "127.0.0.1:0", None);
    chrome.window(1280, 900, "light");
    chrome.open(&server.url("/"));
    until(&mut chrome, "document.querySelector('#s-rounds summary')");
    let focused = "document.activeElement.id || document.activeElement.textContent.trim().slice(0, 30)";
    let mut seen = Vec::new();
    for _ in 0..40 {
        chrome.press("Tab", 9);
        let name = chrome.eval(focused).as_str().unwrap().to_owned();
        if name == "Real time only" && !seen.contains(&name) {
            chrome.press("Enter", 13);
            until(
                &mut chrome,
                "document.querySelector('[data-scope=realtime]').getAttribute('aria-pressed') === 'true'",
            );
            assert_eq!(chrome.eval(focused), "Real time only", "the focus stays on the button");
        }
        if name == "Rounds as a table" && !seen.contains(&name) {
            chrome.press("Enter", 13);
            until(&mut chrome, "document.querySelector('#s-rounds details').open");
            // The details stay open when their content changes.
            team.network(60_000);
            std::thread::sleep(Duration::from_millis(900));
            assert_eq!(chrome.eval("document.querySelector('#s-rounds details').open"), true);
        }
        seen.push(name);
    }
    let places = "Skip to the run,run,pause,Rounds and phases,Sources,Real time only,Rounds as a table";
    for place in places.split(',') {
        assert!(seen.iter().any(|name| name == place), "{place} is not reached: {seen:?}");
    }
    let outline = chrome.eval("getComputedStyle(document.activeElement).outlineStyle");
    assert_ne!(outline, "none", "the focus cannot be seen");
    drop(team);
}

#[test]
fn simulated_runs_show_their_progress() {
    let Some(mut chrome) = chrome("simulator") else { return };
    let results = directory("browser-simulator");
    let writer = LiveWriter::create(&results.join("peerdas-seed1"), "session").unwrap();
    writer.say(1, started("session", Clock::Wall, 1));
    for step in 0..=8 {
        writer.say_of(Some("node-wide, seed 1"), step, running(step as f64 * 0.05, step * 500 * MS));
        writer.say_of(Some("sequential, seed 1"), step, running(step as f64 * 0.11, step * 500 * MS));
    }
    let server = Server::start(&results, "127.0.0.1:0", None);
    chrome.window(390, 844, "dark");
    chrome.open(&server.url("/"));
    until(&mut chrome, &format!("{MAIN}.includes('node-wide, seed 1')"));
    until(&mut chrome, "document.querySelector('[role=progressbar]').getAttribute('aria-valuenow') === '40'");
    std::thread::sleep(Duration::from_millis(400));
    fits(&mut chrome);
    chrome.picture(&pictures().join("simulator-phone-dark.png"));
    chrome.window(1280, 800, "light");
    std::thread::sleep(Duration::from_millis(600));
    chrome.picture(&pictures().join("simulator-light.png"));
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
}

#[test]
fn sign_in_with_the_token() {
    let Some(mut chrome) = chrome("token") else { return };
    let results = directory("browser-token");
    let _team = team(&results.join("run"));
    let server = Server::start(&results, "127.0.0.1:0", Some("a long enough token"));
    chrome.open(&server.url("/"));
    until(&mut chrome, "document.querySelector('#token')");
    chrome.picture(&pictures().join("token.png"));
    for (token, then) in [
        ("not the right token", "document.body.innerText.includes('The token is wrong')"),
        ("a long enough token", "document.querySelector('#s-rounds')"),
    ] {
        chrome.eval(&format!(
            "document.querySelector('#token').value = '{token}'; document.querySelector('form').submit()"
        ));
        until(&mut chrome, then);
    }
}

#[test]
fn a_finished_run_links_to_its_report() {
    let Some(mut chrome) = chrome("finished") else { return };
    let results = directory("browser-finished");
    let run = results.join("one");
    let writer = LiveWriter::create(&run, "session").unwrap();
    writer.say(1, started("session", Clock::Wall, 1));
    let samara_trace::live::Event::Progress(progress) = running(0.5, 500 * MS) else { panic!("no progress") };
    for step in 1..=10_u64 {
        let (virtual_ns, expected) = (Some(step * 100 * MS), Some(100));
        let event = samara_trace::live::Progress {
            virtual_ns,
            deliveries: Some(step * 10),
            deliveries_expected: expected,
            share: Some(0.01 * step as f64),
            ..progress.clone()
        };
        writer.say_of(Some("a"), step, samara_trace::live::Event::Progress(event));
    }
    let server = Server::start(&results, "127.0.0.1:0", None);
    for width in [1280, 400] {
        chrome.window(width, 800, "light");
        chrome.open(&server.url("/"));
        until(&mut chrome, "document.querySelector('#s-curves polyline')");
        let bar = "document.querySelector('[role=progressbar]').getAttribute('aria-valuenow')";
        until(&mut chrome, &format!("{bar} === '100'"));
        fits(&mut chrome);
    }
    assert_eq!(chrome.eval("document.querySelectorAll('#s-finished').length"), 0);
    std::fs::write(run.join("report.html"), "<p id=here>the report</p>").unwrap();
    let done = samara_trace::live::Progress { state: samara_trace::live::RunState::Done, ..progress };
    writer.say_of(Some("a"), 11, samara_trace::live::Event::Progress(done));
    until(&mut chrome, &format!("{LINK} === 'finished' && document.querySelector('#s-finished a')"));
    let address = chrome.eval("document.querySelector('#s-finished a').href");
    chrome.open(address.as_str().unwrap());
    until(&mut chrome, "document.querySelector('#here')");
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
}

/// Nodes on other machines: one is down, one has never answered, one is hostile.
#[test]
fn nodes_show_which_one_is_down_on_desktop_and_phone() {
    let Some(mut chrome) = chrome("nodes") else { return };
    let mut mix = Mix::start(3);
    (0..3).for_each(|number| mix.round(1_764_000_000_000 + number));
    let liar = Node::start("<img src=x onerror=alert(1)>", "node");
    let mut nodes = mix.addresses();
    nodes.extend([liar.remote.node(), "127.0.0.1:1".parse().unwrap()]);
    let server = Server::start_with(&directory("browser-nodes"), &nodes, "127.0.0.1:0", None);
    chrome.open(&server.url("/"));
    let tile = "[...document.querySelectorAll('.tile')].find(t => t.innerText.startsWith('Nodes')).innerText";
    until(
        &mut chrome,
        &format!("{tile}.includes('5 of 6') && {tile}.includes('no answer from 127.0.0.1:1')"),
    );
    until(&mut chrome, "document.querySelectorAll('#s-rounds svg rect').length > 10");
    let down = mix.nodes.remove(1);
    let address = down.remote.address.to_string();
    drop(down);
    until(&mut chrome, &format!("{tile}.includes('4 of 6') && {tile}.includes('node-1')"));
    let rows = "document.querySelector('#s-sources').innerText";
    until(&mut chrome, &format!("/no answer since \\d\\d:\\d\\d:\\d\\d no connection/.test({rows})"));
    until(&mut chrome, &format!("{rows}.includes('{address}')"));
    until(&mut chrome, "document.querySelector('#s-rounds').innerText.includes('node-1 (no answer)')");
    let states = "[...document.querySelectorAll('#s-links tbody tr')].map(r => r.cells[1].innerText.split(':')[0]).join()";
    assert_eq!(chrome.eval(states), "up,up,unknown,unknown,up,up");
    for (name, width, height) in [("nodes", 1280, 900), ("nodes-phone", 400, 860)] {
        chrome.window(width, height, "light");
        std::thread::sleep(Duration::from_millis(600));
        fits(&mut chrome);
        chrome.picture(&pictures().join(format!("{name}.png")));
    }
    assert_eq!(chrome.eval("document.querySelectorAll('main img, main script').length"), 0);
    // It returns without a reload.
    chrome.eval("window.mark = 1");
    let again = Node::start_at(&address, "node-1", "node");
    until(&mut chrome, &format!("{tile}.includes('5 of 6')"));
    assert_eq!(chrome.eval("window.mark"), 1, "the page has not reloaded");
    assert!(chrome.complaints.is_empty(), "{:?}", chrome.complaints);
    drop(again);
}
