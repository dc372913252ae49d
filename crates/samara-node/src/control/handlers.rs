//! One function for each request.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::IntoResponse;
use futures::future::OptionFuture;
use samara_gossipsub::rpc::Topic;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Api;
use super::answer::Failure;
use super::requests::{Batch, Dial, MessageSpec, Nothing, PlanRequest, TopicName};
use crate::config::{address, check_topic};
use crate::group::Group;
use crate::metrics;
use crate::mix::Mix;
use crate::model::{BatchReport, MessageReport, PlannedReport, Status};
use crate::node::command::{Answer, Command};
use crate::pool::Pool;

pub(super) type Answered<T> = Result<Json<T>, Failure>;
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

impl Api {
    /// Sends a request to the node and waits for its answer.
    async fn ask<T>(&self, command: impl FnOnce(Answer<T>) -> Command) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| Failure::stopping())?;
        answered.await.map_err(|_| Failure::stopping())
    }

    pub(super) async fn metrics(&self) -> Result<String, Failure> {
        let snapshot = self.ask(Command::Metrics).await?;
        let pool = OptionFuture::from(self.pool.as_ref().map(Pool::snapshot)).await.transpose()?;
        let group = OptionFuture::from(self.group.as_ref().map(Group::snapshot)).await.transpose()?;
        let mix = OptionFuture::from(self.mix.as_ref().map(Mix::snapshot)).await.transpose()?;
        metrics::text(*snapshot, pool, group, mix)
            .map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, format!("metrics: {error}")))
    }

    /// Joins a topic, or leaves it.
    async fn join(&self, TopicName { topic }: TopicName, joins: bool) -> Answered<Value> {
        check_topic(&topic, self.topic_bytes)
            .map_err(|message| Failure::wrong(format!("topic: {message}")))?;
        let changed = self.ask(|answer| Command::Join(Topic::new(&topic), joins, answer)).await??;
        Ok(Json(json!({ "topic": topic, "changed": changed })))
    }
}

pub(super) async fn status(State(api): State<Api>) -> Answered<Status> {
    api.ask(Command::Status).await.map(Json)
}

pub(super) async fn dial(State(api): State<Api>, body: Body<Dial>) -> Answered<Value> {
    let Json(Dial { address: text }) = body?;
    let address = address(&text).map_err(|message| Failure::wrong(format!("address: {message}")))?;
    api.ask(|answer| Command::Dial(address, answer)).await??;
    Ok(Json(json!({ "dialling": text })))
}

pub(super) async fn subscribe(State(api): State<Api>, body: Body<TopicName>) -> Answered<Value> {
    api.join(body?.0, true).await
}

pub(super) async fn unsubscribe(State(api): State<Api>, body: Body<TopicName>) -> Answered<Value> {
    api.join(body?.0, false).await
}

pub(super) async fn publish(State(api): State<Api>, body: Body<MessageSpec>) -> Answered<Value> {
    let Json(message) = body?;
    let messages = message.single(api.topic_bytes).map_err(Failure::wrong)?;
    let publish = |answer| Command::Publish { messages, schedule: None, answer };
    let report = api.ask(publish).await??;
    match report.messages.into_iter().next() {
        Some(MessageReport::Published { topic, id, copies, lost, .. }) => Ok(Json(
            json!({ "batch": report.batch, "topic": topic, "id": id, "copies": copies, "lost": lost }),
        )),
        Some(MessageReport::Failed { topic, error }) => {
            Err(Failure::wrong(format!("topic {topic}: {error}")))
        }
        None => Err(Failure(StatusCode::INTERNAL_SERVER_ERROR, "nothing was published".to_owned())),
    }
}

/// The report lists messages that were not published among the others.
pub(super) async fn publish_batch(State(api): State<Api>, body: Body<Batch>) -> Answered<BatchReport> {
    let Json(batch) = body?;
    let (messages, schedule) = batch.messages(api.topic_bytes).map_err(Failure::wrong)?;
    let publish = |answer| Command::Publish { messages, schedule, answer };
    Ok(Json(api.ask(publish).await??))
}

pub(super) async fn batch(State(api): State<Api>, Path(id): Path<String>) -> Answered<BatchReport> {
    let number =
        id.parse().map_err(|_| Failure::wrong(format!("found the batch {id:?}; expected a number")))?;
    let report = api.ask(|answer| Command::Batch(number, answer)).await?;
    report.map(Json).ok_or_else(|| Failure::not_found(format!("batch {id} is not known, or not any more")))
}

pub(super) async fn plan(State(api): State<Api>, body: Body<PlanRequest>) -> Answered<Value> {
    let Json(request) = body?;
    let planned = request.planned(api.topic_bytes).map_err(Failure::wrong)?;
    let numbers = api.ask(|answer| Command::Plan(planned, answer)).await??;
    Ok(Json(json!({ "planned": numbers })))
}

pub(super) async fn planned(State(api): State<Api>) -> Answered<Vec<PlannedReport>> {
    api.ask(Command::Planned).await.map(Json)
}

/// The body (`{}`) is what keeps web pages from stopping nodes.
pub(super) async fn stop(State(api): State<Api>, body: Body<Nothing>) -> Answered<Value> {
    let Json(Nothing {}) = body?;
    api.commands.send(Command::Stop).await.map_err(|_| Failure::stopping())?;
    Ok(Json(json!({ "stopping": true })))
}

pub(super) async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Failure> {
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], api.metrics().await?))
}

pub(super) async fn not_found(uri: Uri) -> Failure {
    Failure::not_found(format!("there is no {}; see docs/guides/node.md", uri.path()))
}

pub(super) async fn not_allowed(method: Method, uri: Uri) -> Failure {
    let message = format!("{} cannot be asked by {method}; see docs/guides/node.md", uri.path());
    Failure(StatusCode::METHOD_NOT_ALLOWED, message)
}
