//! The control API: HTTP and JSON. Every answer is JSON; an error is `{"error": "..."}`.

mod body;
mod handlers;
mod paced;
mod requests;
mod server;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

pub(crate) use body::LONG_MAX;
pub(crate) use server::Counts;
pub(crate) use token::Token;

use crate::group::Group;
use crate::live::Live;
use crate::mix::Mix;
use crate::node::Node;
use crate::part::{Refusal, Request};
use crate::pool::Pool;

#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) node: mpsc::Sender<Request<Node>>,
    pub(crate) pool: Option<Pool>,
    pub(crate) group: Option<Group>,
    /// The node of a mix pool, or its scheduler, if there is one.
    pub(crate) mix: Option<Mix>,
    /// The live lines of the node.
    pub(crate) live: Live,
    /// Maximum bytes of a topic's name.
    pub(crate) topic_bytes: usize,
    /// Whether other machines can reach the server.
    pub(crate) allow_remote: bool,
    /// The token that requests need, if there is one.
    pub(crate) token: Option<Token>,
    /// The counts of all servers.
    pub(crate) counts: Arc<Counts>,
    /// Room for long bodies.
    pub(crate) room: Arc<Semaphore>,
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
    ("/v1/pool", || get(handlers::pool_status)),
    ("/v1/pool/submit", || post(handlers::pool_submit)),
    ("/v1/pool/txs/{count}", || get(handlers::pool_txs)),
    ("/v1/pool/arrivals/{from}", || get(handlers::pool_arrivals)),
    ("/v1/pool/commit", || post(handlers::pool_commit)),
    ("/v1/pool/dial", || post(handlers::pool_dial)),
    ("/v1/group", || get(handlers::group_status)),
    ("/v1/group/broadcast", || post(handlers::group_broadcast)),
    ("/v1/group/deliveries/{from}", || get(handlers::group_deliveries)),
    ("/v1/mix", || get(handlers::mix_status)),
    ("/v1/mix/events/{from}", || get(handlers::mix_events)),
    ("/v1/stop", || post(handlers::stop)),
    ("/live/{from}", || get(handlers::live)),
    ("/metrics", || get(handlers::metrics)),
];

/// The paths of the separate server for metrics.
const METRICS: &[Route] =
    &[("/live/{from}", || get(handlers::live)), ("/metrics", || get(handlers::metrics))];

/// Serves the control API, with `/metrics`, until the task is dropped.
pub(crate) async fn serve_control(listener: TcpListener, api: Api) {
    serve(listener, CONTROL, api).await;
}

pub(crate) async fn serve_metrics(listener: TcpListener, api: Api) {
    serve(listener, METRICS, api).await;
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

async fn serve(listener: TcpListener, routes: &'static [Route], api: Api) {
    let counts = Arc::clone(&api.counts);
    server::serve(listener, router(routes, api), server::Limits::default(), counts).await;
}

fn router(routes: &'static [Route], api: Api) -> Router {
    let router = routes.iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods()));
    router
        .fallback(async |uri| handlers::not_found(&uri, routes.iter().map(|(path, _)| *path)))
        .method_not_allowed_fallback(handlers::not_allowed)
        // Bodies have been read by then.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(api.clone(), check))
        .with_state(api)
}

/// Rejects requests without the token, and those of web pages: a browser on this machine can reach
/// loopback addresses.
///
/// Every request with an effect needs `application/json`. A page of another origin cannot send that
/// without a preflight request, which this server never grants. The `Host` header reveals a page
/// whose name resolves to this machine (DNS rebinding). The body of a request is read once it is known
/// to be allowed.
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
        if Token::is_given(authorization) {
            let from = request.extensions().get::<server::Remote>().map(|from| from.0);
            api.counts.punish(from).await;
        }
        let message = "found no token, or a wrong one; expected the header \"authorization: Bearer TOKEN\"";
        let failure = Failure(StatusCode::UNAUTHORIZED, message.to_owned());
        return Ok(([(WWW_AUTHENTICATE, "Bearer"), (CONNECTION, "close")], failure).into_response());
    }
    let (request, room) = body::receive(&api, request).await?;
    let response = next.run(request).await;
    // Until the body has been read into its type.
    drop(room);
    Ok(response)
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
    use super::*;

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
