//! The control API: HTTP and JSON. Every answer is JSON; an error is `{"error": "..."}`.

mod body;
mod handlers;
mod requests;

use std::net::IpAddr;

use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, HOST};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) use requests::{read_publications, write_metrics};

use crate::group::Group;
use crate::mix::Mix;
use crate::node::Node;
use crate::part::{Refusal, Request};
use crate::pool::Pool;

/// Maximum request body in bytes: 16 MiB of base64 are 12 MiB of payload.
const BODY_MAX: usize = 16 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) node: mpsc::Sender<Request<Node>>,
    pub(crate) pool: Option<Pool>,
    pub(crate) group: Option<Group>,
    /// The node of a mix pool, or its scheduler, if there is one.
    pub(crate) mix: Option<Mix>,
    /// Maximum bytes of a topic's name.
    pub(crate) topic_bytes: usize,
    /// Whether other machines can reach the node.
    pub(crate) allow_remote: bool,
}

/// Serves the control API, with `/metrics`, until the task is dropped.
pub(crate) async fn serve_control(listener: TcpListener, api: Api) {
    let router = Router::new()
        .route("/v1/status", get(handlers::status))
        .route("/v1/dial", post(handlers::dial))
        .route("/v1/subscribe", post(handlers::subscribe))
        .route("/v1/unsubscribe", post(handlers::unsubscribe))
        .route("/v1/publish", post(handlers::publish))
        .route("/v1/publish-batch", post(handlers::publish_batch))
        .route("/v1/batches/{id}", get(handlers::batch))
        .route("/v1/schedule", get(handlers::planned).post(handlers::plan))
        .route("/v1/pool", get(handlers::pool_status))
        .route("/v1/pool/submit", post(handlers::pool_submit))
        .route("/v1/pool/schedule", get(handlers::pool_planned).post(handlers::pool_plan))
        .route("/v1/pool/txs/{count}", get(handlers::pool_txs))
        .route("/v1/pool/arrivals/{from}", get(handlers::pool_arrivals))
        .route("/v1/pool/commit", post(handlers::pool_commit))
        .route("/v1/pool/dial", post(handlers::pool_dial))
        .route("/v1/group", get(handlers::group_status))
        .route("/v1/group/broadcast", post(handlers::group_broadcast))
        .route("/v1/group/schedule", get(handlers::group_planned).post(handlers::group_plan))
        .route("/v1/group/deliveries/{from}", get(handlers::group_deliveries))
        .route("/v1/mix", get(handlers::mix_status))
        .route("/v1/mix/events/{from}", get(handlers::mix_events))
        .route("/v1/stop", post(handlers::stop))
        .route("/metrics", get(handlers::metrics));
    serve(listener, router, api).await;
}

pub(crate) async fn serve_metrics(listener: TcpListener, api: Api) {
    serve(listener, Router::new().route("/metrics", get(handlers::metrics)), api).await;
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

async fn serve(listener: TcpListener, router: Router<Api>, api: Api) {
    let router = router
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::not_allowed)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(api.clone(), check))
        .with_state(api);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "a server failed");
    }
}

/// Rejects requests of web pages: a browser on this machine can reach loopback addresses.
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
