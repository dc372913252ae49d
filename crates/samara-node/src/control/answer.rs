//! The answers to requests that fail.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::node::command::Refusal;
use crate::pool::Gone;

#[derive(Debug)]
pub(super) struct Failure(pub(super) StatusCode, pub(super) String);

impl Failure {
    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, message.into())
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, message.into())
    }

    pub(super) fn stopping() -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, "the node is about to stop".to_owned())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
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

impl From<Gone> for Failure {
    fn from(_: Gone) -> Self {
        Self::stopping()
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        Self(rejection.status(), rejection.body_text())
    }
}
