//! The control API: HTTP and JSON. Every answer is JSON; what goes wrong is `{"error": "..."}`.

mod answer;
mod group;
mod guard;
mod handlers;
mod mix;
mod planned;
mod pool;
mod requests;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) use planned::{read_publications, write_metrics};

use crate::group::Group;
use crate::mix::Mix;
use crate::node::command::Command;
use crate::pool::Pool;

/// The longest request body, in bytes: 16 MiB of base64 are 12 MiB of payload.
const BODY_MAX: usize = 16 << 20;

/// What handlers need.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) commands: mpsc::Sender<Command>,
    /// The transaction pool, if there is one.
    pub(crate) pool: Option<Pool>,
    /// The member of a group, if there is one.
    pub(crate) group: Option<Group>,
    /// The node of a pool that mixes, or its scheduler, if there is one.
    pub(crate) mix: Option<Mix>,
    /// Bytes of a topic's name at most.
    pub(crate) topic_bytes: usize,
    /// Whether the node is reached from other machines.
    pub(crate) allow_remote: bool,
}

/// Opens the socket of a server.
///
/// # Errors
/// A text that names the section and the address.
pub(crate) async fn bind(section: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), String> {
    let wrong = |error: std::io::Error| {
        format!(
            "{section}.address: {address} cannot be listened on: {error}; expected a free port at an address of this machine"
        )
    };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    Ok((listener, address))
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
        .route("/v1/pool", get(pool::status))
        .route("/v1/pool/submit", post(pool::submit))
        .route("/v1/pool/schedule", get(pool::planned).post(pool::plan))
        .route("/v1/pool/txs/{count}", get(pool::txs))
        .route("/v1/pool/arrivals/{from}", get(pool::arrivals))
        .route("/v1/pool/commit", post(pool::commit))
        .route("/v1/pool/dial", post(pool::dial))
        .route("/v1/group", get(group::status))
        .route("/v1/group/broadcast", post(group::broadcast))
        .route("/v1/group/schedule", get(group::planned).post(group::plan))
        .route("/v1/group/deliveries/{from}", get(group::deliveries))
        .route("/v1/mix", get(mix::status))
        .route("/v1/mix/events/{from}", get(mix::events))
        .route("/v1/stop", post(handlers::stop))
        .route("/metrics", get(handlers::metrics));
    serve(listener, router, api).await;
}

/// Serves `/metrics` alone.
pub(crate) async fn serve_metrics(listener: TcpListener, api: Api) {
    serve(listener, Router::new().route("/metrics", get(handlers::metrics)), api).await;
}

async fn serve(listener: TcpListener, router: Router<Api>, api: Api) {
    let router = router
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::not_allowed)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(api.clone(), guard::check))
        .with_state(api);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "a server has failed");
    }
}
