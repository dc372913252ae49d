//! The control API: HTTP and JSON. Every answer is JSON; an error is `{"error": "..."}`.

mod body;
mod handlers;
mod requests;
mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

pub(crate) use requests::{read_publications, write_metrics};
pub(crate) use token::Token;

use crate::group::Group;
use crate::mix::Mix;
use crate::node::Node;
use crate::part::{Refusal, Request};
use crate::pool::Pool;

/// Maximum request body in bytes: 16 MiB of base64 are 12 MiB of payload.
const BODY_MAX: usize = 16 << 20;
/// Time within which the head of a request must arrive, on a new connection or on one that waits for
/// its next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of connections of a server. Further ones wait.
const CONNECTIONS_MAX: usize = 256;
/// Wait after a connection that cannot be accepted: an immediate retry would only use up processor
/// time.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) node: mpsc::Sender<Request<Node>>,
    pub(crate) pool: Option<Pool>,
    pub(crate) group: Option<Group>,
    /// The node of a mix pool, or its scheduler, if there is one.
    pub(crate) mix: Option<Mix>,
    /// Maximum bytes of a topic's name.
    pub(crate) topic_bytes: usize,
    /// Whether other machines can reach the server.
    pub(crate) allow_remote: bool,
    /// The token that requests need, if there is one.
    pub(crate) token: Option<Token>,
}

/// A path with the handlers of its methods.
type Route = (&'static str, fn() -> MethodRouter<Api>);

/// The paths of the control API.
const CONTROL: &[Route] = &[
    ("/v1/status", || get(handlers::status)),
    ("/v1/dial", || post(handlers::dial)),
    ("/v1/subscribe", || post(handlers::subscribe)),
    ("/v1/unsubscribe", || post(handlers::unsubscribe)),
    ("/v1/publish", || post(handlers::publish)),
    ("/v1/publish-batch", || post(handlers::publish_batch)),
    ("/v1/batches/{id}", || get(handlers::batch)),
    ("/v1/schedule", || get(handlers::planned).post(handlers::plan)),
    ("/v1/pool", || get(handlers::pool_status)),
    ("/v1/pool/submit", || post(handlers::pool_submit)),
    ("/v1/pool/schedule", || get(handlers::pool_planned).post(handlers::pool_plan)),
    ("/v1/pool/txs/{count}", || get(handlers::pool_txs)),
    ("/v1/pool/arrivals/{from}", || get(handlers::pool_arrivals)),
    ("/v1/pool/commit", || post(handlers::pool_commit)),
    ("/v1/pool/dial", || post(handlers::pool_dial)),
    ("/v1/group", || get(handlers::group_status)),
    ("/v1/group/broadcast", || post(handlers::group_broadcast)),
    ("/v1/group/schedule", || get(handlers::group_planned).post(handlers::group_plan)),
    ("/v1/group/deliveries/{from}", || get(handlers::group_deliveries)),
    ("/v1/mix", || get(handlers::mix_status)),
    ("/v1/mix/events/{from}", || get(handlers::mix_events)),
    ("/v1/stop", || post(handlers::stop)),
    ("/metrics", || get(handlers::metrics)),
];

/// The paths of the separate server for metrics.
const METRICS: &[Route] = &[("/metrics", || get(handlers::metrics))];

/// Serves the control API, with `/metrics`, until the task is dropped.
pub(crate) async fn serve_control(listener: TcpListener, api: Api) {
    serve(listener, CONTROL, api, CONNECTIONS_MAX, HEAD_TIMEOUT).await;
}

pub(crate) async fn serve_metrics(listener: TcpListener, api: Api) {
    serve(listener, METRICS, api, CONNECTIONS_MAX, HEAD_TIMEOUT).await;
}

/// An answer: JSON on one line, which ends there, since people read answers in terminals.
struct Json<T>(T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.0) {
            Ok(text) => ([(CONTENT_TYPE, "application/json")], text + "\n").into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

#[derive(Debug)]
struct Failure(StatusCode, String);

impl Failure {
    fn wrong(message: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, message.into())
    }

    fn not_found(message: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, message.into())
    }

    fn stopping() -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, "the node is about to stop".to_owned())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Wrong(message) => Self::wrong(message),
            Refusal::Stopping => Self::stopping(),
        }
    }
}

async fn serve(
    listener: TcpListener,
    routes: &'static [Route],
    api: Api,
    connections_max: usize,
    head_timeout: Duration,
) {
    let router = routes.iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods()));
    let router = router
        .fallback(async |uri| handlers::not_found(&uri, routes.iter().map(|(path, _)| *path)))
        .method_not_allowed_fallback(handlers::not_allowed)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(api.clone(), check))
        .with_state(api);
    let places = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    // Nothing closes the semaphore.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(head_timeout);
            if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection failed");
            }
            drop(place);
        });
    }
}

/// Rejects requests without the token, and those of web pages: a browser on this machine can reach
/// loopback addresses.
///
/// Every request with an effect needs `application/json`. A page of another origin cannot send that
/// without a preflight request, which this server never grants. The `Host` header reveals a page
/// whose name resolves to this machine (DNS rebinding). The server rejects bodies whose announced
/// length is too long before they are sent.
async fn check(State(api): State<Api>, request: HttpRequest, next: Next) -> Result<Response, Failure> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !api.allow_remote && !is_local_name(host) {
        let message = format!(
            "found the host {host:?}; expected an IP address or localhost (or allow_remote = true in the configuration)"
        );
        return Err(Failure(StatusCode::FORBIDDEN, message));
    }
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if api.token.as_ref().is_some_and(|token| !token.is_in(authorization)) {
        let message = "found no token, or a wrong one; expected the header \"authorization: Bearer TOKEN\"";
        let failure = Failure(StatusCode::UNAUTHORIZED, message.to_owned());
        return Ok(([(WWW_AUTHENTICATE, "Bearer")], failure).into_response());
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: u64 = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > BODY_MAX as u64 {
        let message = format!("found a body of {length} bytes; expected at most {BODY_MAX}");
        return Err(Failure(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(next.run(request).await)
}

fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, _)) => ip,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    /// Nothing here takes this long unless it fails.
    const PATIENCE: Duration = Duration::from_secs(30);
    const REQUEST: &[u8] = b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n";

    /// Starts a server without pages. Returns it with two connections.
    async fn server(connections_max: usize, head_timeout: Duration) -> (JoinSet<()>, [TcpStream; 2]) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (node, _) = mpsc::channel(1);
        let (pool, group, mix, token) = (None, None, None, None);
        let api = Api { node, pool, group, mix, topic_bytes: 0, allow_remote: false, token };
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, &[], api, connections_max, head_timeout));
        let first = TcpStream::connect(address).await.unwrap();
        (tasks, [first, TcpStream::connect(address).await.unwrap()])
    }

    /// Reads an answer, which is short, or nothing if the server has hung up.
    async fn answer(stream: &mut TcpStream) -> String {
        let mut buffer = [0; 4096];
        let len = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("an answer in time").unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    #[tokio::test]
    async fn a_request_that_does_not_begin_ends_its_connection() {
        let (_server, [mut silent, mut slow]) = server(2, Duration::from_millis(50)).await;
        slow.write_all(&REQUEST[..20]).await.unwrap();
        assert_eq!(answer(&mut silent).await, "");
        // hyper may say why.
        while !answer(&mut slow).await.is_empty() {}
    }

    #[tokio::test]
    async fn connections_beyond_the_maximum_wait() {
        let (_server, [mut first, mut second]) = server(1, PATIENCE).await;
        second.write_all(REQUEST).await.unwrap();
        for _ in 0..50 {
            first.write_all(REQUEST).await.unwrap();
            assert!(answer(&mut first).await.contains("404"));
        }
        assert!(second.try_read(&mut [0; 1]).is_err(), "an answer beside the first connection");
        drop(first);
        assert!(answer(&mut second).await.contains("404"));
    }

    #[test]
    fn foreign_host_names_are_refused() {
        for host in
            ["127.0.0.1:7000", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:7000", "[::1]", "10.0.0.1:1"]
        {
            assert!(is_local_name(host), "{host}");
        }
        for host in
            ["", "evil.example:7000", "localhost.evil.example", "127.0.0.1.evil.example:7000", "[x]:1"]
        {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
