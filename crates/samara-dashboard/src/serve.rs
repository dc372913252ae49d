//! HTTP server of the page, its script and style, and events.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Form, Query, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderName, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::Stream;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::{Access, AccessError};
use crate::hub::{Hub, Kind, Message};
use crate::runs::{RunInfo, Runs, WatchError, Watches};

const PAGE: &str = include_str!("page/index.html");
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
/// Maximum number of pages that receive updates at once.
const PAGES_MAX: usize = 64;
/// Maximum size of a request body in bytes. The only body is a token.
const BODY_MAX: usize = 4 << 10;
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
    #[error("the server has failed: {0}")]
    Serve(std::io::Error),
}

#[derive(Debug)]
pub struct Dashboard {
    listener: TcpListener,
    address: SocketAddr,
    shared: Shared,
}

#[derive(Clone, Debug)]
struct Shared {
    watches: Arc<Watches>,
    access: Access,
    pages: Arc<Semaphore>,
}

impl Dashboard {
    /// Starts to listen, for pages of the runs in a results directory or in a directory of several.
    pub async fn bind(
        directory: &Path,
        address: SocketAddr,
        token: Option<&str>,
    ) -> Result<Self, ServeError> {
        let access = Access::new(address, token)?;
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let pages = Arc::new(Semaphore::new(PAGES_MAX));
        let shared = Shared { watches: Watches::new(Runs::new(directory)), access, pages };
        Ok(Self { listener, address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true if there is a run to show. Later ones appear as soon as they begin.
    pub fn has_runs(&self) -> bool {
        !self.shared.watches.runs.list().is_empty()
    }

    /// Serves until the future is dropped.
    pub async fn serve(self) -> Result<(), ServeError> {
        let router = Router::new()
            .route("/", get(|| async { asset("text/html; charset=utf-8", PAGE) }))
            .route("/style.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
            .route("/app.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT.join("\n")) }))
            .route("/report", get(report))
            // Browsers request an icon of every site.
            .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
            .route("/v1/runs", get(runs))
            .route("/v1/snapshot", get(snapshot))
            .route("/v1/events", get(events))
            .route("/login", get(login_page).post(login))
            .fallback(|| async { problem(StatusCode::NOT_FOUND, "no such page") })
            .method_not_allowed_fallback(|| async {
                problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
            })
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .layer(middleware::from_fn_with_state(self.shared.clone(), guard))
            .with_state(self.shared);
        axum::serve(self.listener, router).await.map_err(ServeError::Serve)
    }
}

/// Rejects unauthenticated requests and adds security headers.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match refused(&shared.access, &request) {
        None => next.run(request).await,
        Some(refused) => refused,
    };
    let headers = response.headers_mut();
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the response to a request that is not allowed.
fn refused(access: &Access, request: &Request) -> Option<Response> {
    let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = header(HOST).unwrap_or_default();
    let path = request.uri().path();
    if !access.is_named(host) {
        let expected = "expected localhost or an IP address (or start with --token)";
        return Some(problem(StatusCode::FORBIDDEN, &format!("found the host {host:?}; {expected}")));
    }
    // The login page needs these two paths.
    let is_open = matches!(path, "/login" | "/style.css");
    if is_open || access.is_allowed(header(AUTHORIZATION), header(COOKIE)) {
        return None;
    }
    Some(match path {
        "/" => (StatusCode::SEE_OTHER, [(LOCATION, "/login")]).into_response(),
        _ => problem(
            StatusCode::UNAUTHORIZED,
            "a token is required: send Authorization: Bearer TOKEN, or sign in at /login",
        ),
    })
}

fn asset(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

fn problem(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}

/// The fields of the login form.
#[derive(Debug, Deserialize)]
struct Login {
    token: String,
}

async fn login_page() -> Response {
    asset("text/html; charset=utf-8", LOGIN.replace("{problem}", ""))
}

async fn login(State(shared): State<Shared>, Form(login): Form<Login>) -> Response {
    let is_open = !shared.access.needs_token();
    if is_open || shared.access.is_token(login.token.trim()) {
        let headers = [(LOCATION, "/".to_owned()), (SET_COOKIE, shared.access.cookie())];
        return (StatusCode::SEE_OTHER, headers).into_response();
    }
    let page = LOGIN.replace("{problem}", "The token is wrong.");
    (StatusCode::UNAUTHORIZED, asset("text/html; charset=utf-8", page)).into_response()
}

/// Query with the name of a run; the default is the newest one.
#[derive(Debug, Deserialize)]
struct Wanted {
    run: Option<String>,
}

async fn runs(State(shared): State<Shared>) -> Result<Response, Response> {
    let runs = list(&shared).await?;
    let directory = shared.watches.runs.root.display().to_string();
    Ok(Json(json!({ "directory": directory, "runs": runs })).into_response())
}

/// Lists the runs on a thread that may block.
async fn list(shared: &Shared) -> Result<Vec<RunInfo>, Response> {
    let watches = Arc::clone(&shared.watches);
    let listed = tokio::task::spawn_blocking(move || watches.runs.list()).await;
    listed.map_err(|_| problem(StatusCode::INTERNAL_SERVER_ERROR, "cannot list the runs"))
}

async fn hub(shared: &Shared, wanted: Wanted) -> Result<(String, Arc<Hub>), Response> {
    let name = match wanted.run {
        Some(name) => name,
        None => match list(shared).await?.into_iter().next() {
            Some(run) => run.name,
            None => return Err(problem(StatusCode::NOT_FOUND, "no run has live files yet")),
        },
    };
    let watches = Arc::clone(&shared.watches);
    let of_run = name.clone();
    let found = tokio::task::spawn_blocking(move || watches.hub(&of_run)).await;
    match found {
        Ok(Ok(hub)) => Ok((name, hub)),
        Ok(Err(WatchError::Unknown)) => Err(problem(StatusCode::NOT_FOUND, "no such run")),
        Ok(Err(WatchError::TooMany)) => {
            Err(problem(StatusCode::SERVICE_UNAVAILABLE, "pages show too many runs; close some"))
        }
        Err(_) => Err(problem(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the run")),
    }
}

/// The report of a run that has finished.
async fn report(State(shared): State<Shared>, Query(wanted): Query<Wanted>) -> Response {
    let watches = Arc::clone(&shared.watches);
    let read = move || watches.runs.report(&wanted.run.unwrap_or_default());
    match tokio::task::spawn_blocking(read).await {
        Ok(Some(page)) => {
            let mut response = asset("text/html; charset=utf-8", page);
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
            response
        }
        _ => problem(StatusCode::NOT_FOUND, "no such run, or it has no report yet"),
    }
}

async fn snapshot(State(shared): State<Shared>, Query(wanted): Query<Wanted>) -> Result<Response, Response> {
    let (_, hub) = hub(&shared, wanted).await?;
    Ok(asset("application/json", hub.snapshot().json.to_string()))
}

async fn events(
    State(shared): State<Shared>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let permit = Arc::clone(&shared.pages).try_acquire_owned();
    let permit = permit
        .map_err(|_| problem(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open; close some"))?;
    let (name, hub) = hub(&shared, wanted).await?;
    let last_id = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    // Ids belong to one run, and those of another run are ignored.
    let last_id = last_id.and_then(|id| id.split_once('@')).filter(|(_, run)| *run == escaped(&name));
    let (first, changes) = hub.join(last_id.map(|(id, _)| id));
    let subscriber =
        Subscriber { name, hub, first: first.into(), changes, is_greeted: false, _permit: permit };
    let alive =
        KeepAlive::new().interval(KEEP_ALIVE_INTERVAL).event(Event::default().event("alive").data("{}"));
    Ok(Sse::new(stream(subscriber)).keep_alive(alive).into_response())
}

/// A page that receives updates.
struct Subscriber {
    name: String,
    hub: Arc<Hub>,
    first: std::collections::VecDeque<Message>,
    changes: Receiver<Message>,
    is_greeted: bool,
    _permit: OwnedSemaphorePermit,
}

impl Subscriber {
    /// Returns the next message, or `None` at the end.
    async fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.first.pop_front() {
            return Some(message);
        }
        match self.changes.recv().await {
            Ok(message) => Some(message),
            // The page was too slow: send the whole view, then the changes after it.
            Err(RecvError::Lagged(_)) => {
                let (first, changes) = self.hub.join(None);
                (self.first, self.changes) = (first.into(), changes);
                self.first.pop_front()
            }
            Err(RecvError::Closed) => None,
        }
    }
}

fn stream(subscriber: Subscriber) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold(subscriber, |mut subscriber| async {
        if !std::mem::replace(&mut subscriber.is_greeted, true) {
            let hello = json!({ "run": subscriber.name, "version": env!("CARGO_PKG_VERSION") }).to_string();
            return Some((Ok(Event::default().event("hello").retry(RETRY).data(hello)), subscriber));
        }
        let message = subscriber.next().await?;
        let kind = match message.kind {
            Kind::Snapshot => "snapshot",
            Kind::Delta => "delta",
        };
        let id = format!("{}@{}", message.id, escaped(&subscriber.name));
        Some((Ok(Event::default().event(kind).id(id).data(&*message.json)), subscriber))
    })
}

/// Escapes the name of a run for a header.
fn escaped(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use crate::state::View;

    use super::*;

    fn view(n: u64) -> View {
        [("n".to_owned(), n.into())].into()
    }

    /// The hub does not wait for a slow page, which still gets the final view.
    #[tokio::test]
    async fn slow_page_gets_a_snapshot() {
        let hub = Arc::new(Hub::new());
        hub.publish(view(0));
        let (first, changes) = hub.join(None);
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let name = "run".to_owned();
        let mut subscriber = Subscriber {
            name,
            hub: Arc::clone(&hub),
            first: first.into(),
            changes,
            is_greeted: true,
            _permit: permit,
        };
        assert_eq!(&*subscriber.next().await.unwrap().json, r#"{"n":0}"#);
        (1..=1000).for_each(|n| hub.publish(view(n)));
        let message = subscriber.next().await.unwrap();
        assert_eq!((message.kind, &*message.json), (Kind::Snapshot, r#"{"n":1000}"#));
        // Changes continue from the snapshot, without repetition.
        hub.publish(view(1001));
        let message = subscriber.next().await.unwrap();
        assert_eq!((message.kind, &*message.json), (Kind::Delta, r#"{"n":1001}"#));
    }
}
