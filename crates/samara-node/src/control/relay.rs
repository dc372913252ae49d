//! One function for each request that is about the pool that mixes.

use axum::Json;
use axum::extract::{Path, State};

use super::Api;
use super::answer::Failure;
use super::handlers::Answered;
use super::pool::number;
use crate::model::{RelayEvents, RelayStatus};
use crate::relay::Relay;

impl Api {
    fn relay(&self) -> Result<&Relay, Failure> {
        let none =
            || Failure::not_found("there is no relay; expected a section [relay] in the configuration");
        self.relay.as_ref().ok_or_else(none)
    }
}

pub(super) async fn status(State(api): State<Api>) -> Answered<RelayStatus> {
    Ok(Json(api.relay()?.status().await?))
}

pub(super) async fn events(State(api): State<Api>, Path(from): Path<String>) -> Answered<RelayEvents> {
    let from = number("number", &from)?;
    Ok(Json(api.relay()?.events(from).await?))
}
