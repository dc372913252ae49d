//! One function for each request that is about the pool that mixes.

use axum::Json;
use axum::extract::{Path, State};

use super::Api;
use super::answer::Failure;
use super::handlers::Answered;
use super::pool::number;
use crate::mix::Mix;
use crate::model::{MixEvents, MixStatus};

impl Api {
    fn mix(&self) -> Result<&Mix, Failure> {
        let none = || Failure::not_found("there is no mix; expected a section [mix] in the configuration");
        self.mix.as_ref().ok_or_else(none)
    }
}

pub(super) async fn status(State(api): State<Api>) -> Answered<MixStatus> {
    Ok(Json(api.mix()?.status().await?))
}

pub(super) async fn events(State(api): State<Api>, Path(from): Path<String>) -> Answered<MixEvents> {
    let from = number("number", &from)?;
    Ok(Json(api.mix()?.events(from).await?))
}
