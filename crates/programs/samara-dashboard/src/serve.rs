//! HTTP server of the page, its script and style, and events.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;
use thiserror::Error;

use crate::access::{Access, AccessError, Given};
use crate::http::{self, Body, Request, Response};
use crate::hub::{Hub, Kind, Message};
use crate::nodes::{NodeAddress, check};
use crate::places::{Connections, Place, Refused};
use crate::runs::{Runs, WatchError, Watches};

const PAGE: &str = include_str!("page/index.html");
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const LOGIN: &str = include_str!("page/login.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: [&str; 7] = [
    include_str!("page/format.js"),
    include_str!("page/figures.js"),
    include_str!("page/timeline.js"),
    include_str!("page/summary.js"),
    include_str!("page/relay.js"),
    include_str!("page/network.js"),
    include_str!("page/main.js"),
];
/// The page loads only from this server, and no other page may embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// A report is one file with its own scripts and styles, and loads nothing.
const REPORT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                             img-src data: blob:; base-uri 'none'; frame-ancestors 'none'; sandbox allow-scripts \
                             allow-downloads allow-popups";
/// Delay of the answer to a wrong token, which slows down guesses.
const GUESS_DELAY: Duration = Duration::from_secs(1);
/// Minimum time between two messages about wrong tokens.
const GUESS_REPORTS: Duration = Duration::from_secs(10);
/// Interval of keep-alive events, by which pages notice a server that is gone.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Time that pages wait before they reconnect.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum ServeError {
    /// The address requires a token, or the token is too short.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {error}; expected a free port at an address of this machine")]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error("{0}")]
    Nodes(String),
}

/// A server, which ends when this value is dropped.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    watches: Arc<Watches>,
    access: Access,
    connections: Arc<Connections>,
    guesses: Guesses,
    is_stopped: AtomicBool,
}

/// The wrong tokens so far.
#[derive(Debug, Default)]
struct Guesses(Mutex<(u64, Option<Instant>)>);

impl Guesses {
    fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Counts a wrong token, and waits. Prints a message unless it has just printed one.
    fn punish(&self, from: IpAddr) {
        let (count, is_due) = {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (count, printed) = &mut *inner;
            *count += 1;
            let is_due = printed.is_none_or(|printed| printed.elapsed() >= GUESS_REPORTS);
            if is_due {
                *printed = Some(Instant::now());
            }
            (*count, is_due)
        };
        if is_due {
            eprintln!("dashboard: {count} wrong tokens so far, the last one from {from}");
        }
        thread::sleep(GUESS_DELAY);
    }
}

impl Dashboard {
    /// Serves pages of the runs in a results directory or in a directory of several, and of nodes on
    /// other machines, if there are some.
    pub fn start(
        directory: &Path,
        nodes: &[NodeAddress],
        address: SocketAddr,
        token: Option<&str>,
    ) -> Result<Self, ServeError> {
        check(nodes).map_err(ServeError::Nodes)?;
        let access = Access::new(address, token)?;
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            watches: Watches::new(Runs::new(directory, nodes)),
            access,
            connections: Connections::new(),
            guesses: Guesses::default(),
            is_stopped: AtomicBool::new(false),
        });
        let followed = shared.watches.follow_nodes();
        followed
            .map_err(|_| ServeError::Nodes("found no room for a thread that follows the nodes".to_owned()))?;
        let served = Arc::clone(&shared);
        let accepting = thread::Builder::new().name("dashboard".to_owned());
        let thread = accepting.spawn(move || accept(&listener, &served)).map_err(failed)?;
        Ok(Self { address: bound, shared, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true if there is a run to show. Later ones appear as soon as they begin.
    pub fn has_runs(&self) -> bool {
        !self.shared.watches.runs.list().is_empty()
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // Fails only if the thread has panicked, which it has reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.watches.close();
        // A connection wakes the thread.
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        if TcpStream::connect((ip, self.address.port())).is_ok() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections, and serves each in a thread.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.is_stopped.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, from)) = accepted else {
            // For example, the process has no file descriptor left until a connection ends.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Some(place) = shared.connections.take(&stream, from.ip()) else { continue };
        let served = Arc::clone(shared);
        let serve = move || {
            // Fails if the browser has closed the connection, which it may do at any time.
            let _ = http::converse(&stream, |request| {
                place.requested();
                respond(&served, &Client { place: &place, ip: from.ip() }, request)
            });
        };
        if thread::Builder::new().name("connection".to_owned()).spawn(serve).is_err() {
            shared.connections.note_refused();
        }
    }
}

/// The sender of a request.
struct Client<'a> {
    place: &'a Place,
    ip: IpAddr,
}

/// Answers a request, with headers that restrict what a page may do.
fn respond(shared: &Shared, client: &Client<'_>, request: Result<&Request, http::RequestError>) -> Response {
    let mut response = match request {
        Ok(request) => refused(shared, client, request).unwrap_or_else(|| route(shared, client, request)),
        Err(error) => problem(error.status(), &error.to_string()),
    };
    response.or_header("content-security-policy", POLICY);
    response.or_header("x-content-type-options", "nosniff");
    response.or_header("referrer-policy", "no-referrer");
    response.or_header("cache-control", "no-store");
    response
}

/// Returns the response to a request that is not allowed.
fn refused(shared: &Shared, client: &Client<'_>, request: &Request) -> Option<Response> {
    let access = &shared.access;
    let host = request.header("host").unwrap_or_default();
    if !access.is_named(host) {
        let expected = "expected localhost or an IP address (or start with --token)";
        return Some(problem(403, &format!("found the host {host:?}; {expected}")));
    }
    // The login page needs these two paths.
    let is_open = matches!(&*request.path, "/login" | "/style.css");
    if is_open {
        return None;
    }
    match access.check(request.header("authorization"), request.header("cookie")) {
        Given::Right => return None,
        Given::Nothing => {}
        Given::Wrong => shared.guesses.punish(client.ip),
    }
    Some(match &*request.path {
        "/" => redirect("/login"),
        _ => problem(401, "a token is required: send Authorization: Bearer TOKEN, or sign in at /login"),
    })
}

fn route(shared: &Shared, client: &Client<'_>, request: &Request) -> Response {
    let handler: fn(&Shared, &Request) -> Result<Response, Response> = match &*request.path {
        "/" => |_, _| Ok(Response::new(200, HTML, PAGE)),
        "/style.css" => |_, _| Ok(Response::new(200, "text/css; charset=utf-8", STYLE)),
        "/app.js" => |_, _| Ok(Response::new(200, "text/javascript; charset=utf-8", SCRIPT.join("\n"))),
        // Browsers request an icon of every site.
        "/favicon.ico" => |_, _| Ok(Response { status: 204, headers: Vec::new(), body: Body::default() }),
        "/login" if request.method == "POST" => return login(shared, client, request),
        "/v1/events" if request.method == "GET" => {
            return events(shared, client, request).unwrap_or_else(|problem| problem);
        }
        "/login" => |_, _| Ok(Response::new(200, HTML, LOGIN.replace("{problem}", ""))),
        "/report" => report,
        "/v1/runs" => runs,
        "/v1/snapshot" => snapshot,
        "/v1/events" => |_, _| Err(problem(405, "method not allowed")),
        _ => return problem(404, "no such page"),
    };
    match &*request.method {
        "GET" | "HEAD" => handler(shared, request).unwrap_or_else(|problem| problem),
        _ => problem(405, "method not allowed"),
    }
}

fn problem(status: u16, message: &str) -> Response {
    Response::new(status, JSON, json!({ "error": message }).to_string())
}

fn redirect(to: &'static str) -> Response {
    Response { status: 303, headers: vec![("location", to.into())], body: Body::default() }
}

fn login(shared: &Shared, client: &Client<'_>, request: &Request) -> Response {
    let token = request.form("token").unwrap_or_default();
    if shared.access.needs_token() && !shared.access.is_token(token.trim()) {
        shared.guesses.punish(client.ip);
        return Response::new(401, HTML, LOGIN.replace("{problem}", "The token is wrong."));
    }
    let mut response = redirect("/");
    response.headers.push(("set-cookie", shared.access.cookie().into()));
    response
}

fn runs(shared: &Shared, _: &Request) -> Result<Response, Response> {
    let directory = shared.watches.runs.root.display().to_string();
    let runs = shared.watches.runs.list();
    let Refused { connections, evicted, pages } = shared.connections.refused();
    let answer = json!({
        "directory": directory,
        "runs": runs,
        "refused_connections": connections,
        "evicted_connections": evicted,
        "refused_pages": pages,
        "wrong_tokens": shared.guesses.count(),
    });
    Ok(Response::new(200, JSON, answer.to_string()))
}

/// The name and hub of the run in the query; the default is the newest one.
fn hub(shared: &Shared, request: &Request) -> Result<(String, Arc<Hub>), Response> {
    let newest = || shared.watches.runs.list().into_iter().next().map(|run| run.name);
    let name = request.parameter("run").or_else(newest);
    let name = name.ok_or_else(|| problem(404, "no run has live files yet"))?;
    match shared.watches.hub(&name) {
        Ok(hub) => Ok((name, hub)),
        Err(WatchError::Unknown) => Err(problem(404, "no such run")),
        Err(WatchError::TooMany) => Err(problem(503, "pages show too many runs; close some")),
        Err(WatchError::Unreadable) => {
            Err(problem(503, "the files of the run are not readable at present; try again"))
        }
    }
}

/// The report of a run that has finished.
fn report(shared: &Shared, request: &Request) -> Result<Response, Response> {
    let name = request.parameter("run").unwrap_or_default();
    let page = shared.watches.runs.report(&name);
    let (file, length) = page.ok_or_else(|| problem(404, "no such run, or it has no report yet"))?;
    let mut response = Response::new(200, HTML, "");
    response.body = Body::File(file, length);
    response.or_header("content-security-policy", REPORT_POLICY);
    Ok(response)
}

fn snapshot(shared: &Shared, request: &Request) -> Result<Response, Response> {
    let (_, hub) = hub(shared, request)?;
    Ok(Response::new(200, JSON, hub.snapshot().json.to_string()))
}

/// A stream of server-sent events.
fn events(shared: &Shared, client: &Client<'_>, request: &Request) -> Result<Response, Response> {
    let place = client.place.page();
    let place = place.ok_or_else(|| problem(503, "too many pages are open; close some"))?;
    let (name, hub) = hub(shared, request)?;
    // Ids belong to one run, and those of another run are ignored.
    let last_id = request.header("last-event-id").and_then(|id| id.split_once('@'));
    let last_id = last_id.filter(|(_, run)| *run == escaped(&name)).map(|(id, _)| id);
    let mut page = hub.join(last_id);
    let hello = json!({ "run": name, "version": env!("CARGO_PKG_VERSION") });
    let hello = format!("event: hello\nretry: {}\ndata: {hello}\n\n", RETRY.as_millis());
    let changes = std::iter::from_fn(move || {
        // The page counts as open until its stream is dropped.
        let _ = &place;
        Some(match &*page.next(KEEP_ALIVE_INTERVAL)? {
            [] => "event: alive\ndata: {}\n\n".to_owned(),
            messages => messages.iter().map(|message| event(message, &name)).collect(),
        })
    });
    let body = Body::Stream(Box::new(std::iter::once(hello).chain(changes)));
    Ok(Response { status: 200, headers: vec![("content-type", "text/event-stream".into())], body })
}

fn event(message: &Message, run: &str) -> String {
    let kind = match message.kind {
        Kind::Snapshot => "snapshot",
        Kind::Delta => "delta",
    };
    format!("event: {kind}\nid: {}@{}\ndata: {}\n\n", message.id, escaped(run), message.json)
}

/// Escapes the name of a run for a header.
fn escaped(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}
