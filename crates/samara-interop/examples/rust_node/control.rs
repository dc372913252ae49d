//! The part of the control API that a testbed uses.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use samara_node::model::Status;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// A request to the node.
pub(crate) enum Request {
    Status(oneshot::Sender<Status>),
    Metrics(oneshot::Sender<String>),
    Dial(String, oneshot::Sender<Result<(), String>>),
}

type Requests = mpsc::Sender<Request>;
type Failure = (StatusCode, Json<Value>);

#[derive(Deserialize)]
struct Dial {
    address: String,
}

pub(crate) async fn serve(listener: TcpListener, requests: Requests) {
    let router = Router::new()
        .route("/v1/status", get(async |State(node)| ask(&node, Request::Status).await.map(Json)))
        .route("/metrics", get(async |State(node)| ask(&node, Request::Metrics).await))
        .route("/v1/dial", post(dial))
        .route("/v1/schedule", get(async || Json(json!([]))).post(refuse))
        .with_state(requests);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the control API has ended");
    }
}

async fn ask<T>(node: &Requests, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Failure> {
    let (answer, answered) = oneshot::channel();
    // Fails only when the node stops, as the answer does.
    let _ = node.send(request(answer)).await;
    answered.await.map_err(|_| failure(StatusCode::SERVICE_UNAVAILABLE, "the node stops"))
}

async fn dial(State(node): State<Requests>, Json(body): Json<Dial>) -> Result<Json<Value>, Failure> {
    let dialled = ask(&node, |answer| Request::Dial(body.address, answer)).await?;
    dialled.map(|()| Json(json!({}))).map_err(|error| failure(StatusCode::BAD_REQUEST, &error))
}

async fn refuse() -> Failure {
    failure(StatusCode::BAD_REQUEST, "rust_node publishes no messages; expected another node as publisher")
}

fn failure(status: StatusCode, error: &str) -> Failure {
    (status, Json(json!({ "error": error })))
}
