//! One function for each request that is about the group.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::answer::Failure;
use super::handlers::{Answered, Body};
use super::pool::{TxSpec, number};
use crate::group::Group;
use crate::model::{Broadcast, Deliveries, GroupStatus, PlannedReport, Submission};
use crate::node::schedule::Planned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    broadcasts: Vec<Submission>,
}

impl Api {
    fn group(&self) -> Result<&Group, Failure> {
        let none = || Failure::not_found("there is no group; expected a section [ring] in the configuration");
        self.group.as_ref().ok_or_else(none)
    }
}

pub(super) async fn status(State(api): State<Api>) -> Answered<GroupStatus> {
    Ok(Json(api.group()?.status().await?))
}

pub(super) async fn broadcast(State(api): State<Api>, body: Body<TxSpec>) -> Answered<Broadcast> {
    let Json(spec) = body?;
    let message = spec.payload("message")?.make();
    let taken = api.group()?.broadcast(message).await?;
    Ok(Json(taken.map_err(Failure::wrong)?))
}

pub(super) async fn plan(State(api): State<Api>, body: Body<PlanRequest>) -> Answered<Value> {
    let Json(request) = body?;
    let planned = request.broadcasts.into_iter().enumerate().map(|(at, broadcast)| {
        let Submission { at_unix_ns, data, text, random_bytes } = broadcast;
        let payload = TxSpec { data, text, random_bytes }.payload(&format!("broadcasts[{at}]"))?;
        Ok(Planned { at_unix_ns, messages: vec![(String::new(), payload)], schedule: None })
    });
    let planned = planned.collect::<Result<Vec<_>, Failure>>()?;
    let numbers = api.group()?.plan(planned).await?;
    Ok(Json(json!({ "planned": numbers.map_err(Failure::wrong)? })))
}

pub(super) async fn planned(State(api): State<Api>) -> Answered<Vec<PlannedReport>> {
    Ok(Json(api.group()?.planned().await?))
}

pub(super) async fn deliveries(State(api): State<Api>, Path(from): Path<String>) -> Answered<Deliveries> {
    let from = number("number", &from)?;
    Ok(Json(api.group()?.deliveries(from).await?))
}
