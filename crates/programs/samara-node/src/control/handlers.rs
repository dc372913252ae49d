//! The handlers of the control API, one function for each request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::IntoResponse;
use futures::future::OptionFuture;
use samara_cat::{Transaction, TxKey};
use samara_document::closest;
use samara_gossipsub::rpc::Topic;
use samara_net::mconn::PeerAddress;
use serde_json::{Value, json};

use super::body::{Body, Number};
use super::requests::{Batch, Commit, Dial, KEYS_MAX, MessageSpec, Nothing, TopicName, TxSpec};
use super::{Api, Failure, Json};
use crate::config::{address, check_topic};
use crate::group::Group;
use crate::live;
use crate::metrics::{self, Scrape, Usage};
use crate::mix::Mix;
use crate::model::{
    Arrivals, BatchReport, Broadcast, Deliveries, GroupStatus, MessageReport, MixEvents, MixStatus,
    PoolStatus, Status, Submitted,
};
use crate::node::Node;
use crate::part;
use crate::pool::Pool;

type Answered<T> = Result<Json<T>, Failure>;

/// The start of all paths but `/metrics`.
const START: &str = "/v1/";

impl Api {
    /// Sends a request to the node and waits for its answer.
    async fn ask<R: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        Ok(part::ask(&self.node, request).await?)
    }

    /// Returns the counters of all parts of the node at this moment.
    async fn scrape(&self) -> Result<Scrape, Failure> {
        let node = self.ask(Node::snapshot).await?;
        let pool = OptionFuture::from(self.pool.as_ref().map(Pool::snapshot)).await.transpose()?;
        let group = OptionFuture::from(self.group.as_ref().map(Group::snapshot)).await.transpose()?;
        let mix = OptionFuture::from(self.mix.as_ref().map(Mix::snapshot)).await.transpose()?;
        let (servers, feed) = (Arc::clone(&self.counts), self.live.state());
        Ok(Scrape { node, pool, group, mix, servers, feed, usage: Usage::now() })
    }

    async fn join(&self, TopicName { topic }: TopicName, joins: bool) -> Answered<Value> {
        check_topic(&topic, self.topic_bytes)
            .map_err(|message| Failure::wrong(format!("topic: {message}")))?;
        let name = Topic::new(&topic);
        let changed = self.ask(move |node| node.set_joined(&name, joins)).await??;
        Ok(Json(json!({ "topic": topic, "changed": changed })))
    }

    fn pool(&self) -> Result<&Pool, Failure> {
        expect(self.pool.as_ref(), "pool")
    }

    fn group(&self) -> Result<&Group, Failure> {
        expect(self.group.as_ref(), "group")
    }

    fn mix(&self) -> Result<&Mix, Failure> {
        expect(self.mix.as_ref(), "mix")
    }
}

fn expect<'a, T>(part: Option<&'a T>, name: &str) -> Result<&'a T, Failure> {
    let none = || format!("this node has no {name}; expected a section [{name}] in the configuration");
    part.ok_or_else(|| Failure::not_found(none()))
}

pub(super) async fn status(State(api): State<Api>) -> Answered<Status> {
    api.ask(Node::status).await.map(Json)
}

pub(super) async fn dial(
    State(api): State<Api>,
    Body(Dial { address: text }): Body<Dial>,
) -> Answered<Value> {
    let address = address(&text).map_err(|message| Failure::wrong(format!("address: {message}")))?;
    api.ask(|node| node.dial(address)).await??;
    Ok(Json(json!({ "dialling": text })))
}

pub(super) async fn subscribe(State(api): State<Api>, Body(body): Body<TopicName>) -> Answered<Value> {
    api.join(body, true).await
}

pub(super) async fn unsubscribe(State(api): State<Api>, Body(body): Body<TopicName>) -> Answered<Value> {
    api.join(body, false).await
}

pub(super) async fn publish(State(api): State<Api>, Body(message): Body<MessageSpec>) -> Answered<Value> {
    let messages = message.single(api.topic_bytes).map_err(Failure::wrong)?;
    let report = api.ask(|node| node.publish(messages, None)).await??;
    match report.messages.into_iter().next() {
        Some(MessageReport::Published { topic, id, copies, lost, note, .. }) => {
            let mut answer =
                json!({ "batch": report.batch, "topic": topic, "id": id, "copies": copies, "lost": lost });
            if let Some(note) = note {
                answer["note"] = note.into();
            }
            Ok(Json(answer))
        }
        Some(MessageReport::Failed { topic, error }) => {
            Err(Failure::wrong(format!("topic {topic}: {error}")))
        }
        None => Err(Failure(StatusCode::INTERNAL_SERVER_ERROR, "the node published no message".to_owned())),
    }
}

/// The report also lists messages that were not published.
pub(super) async fn publish_batch(State(api): State<Api>, Body(batch): Body<Batch>) -> Answered<BatchReport> {
    let (messages, schedule) = batch.messages(api.topic_bytes).map_err(Failure::wrong)?;
    Ok(Json(api.ask(|node| node.publish(messages, schedule)).await??))
}

pub(super) async fn batch(State(api): State<Api>, Number(id): Number) -> Answered<BatchReport> {
    let report = api.ask(move |node| node.batch(id)).await?;
    report.map(Json).ok_or_else(|| Failure::not_found(format!("batch {id} is unknown or forgotten")))
}

/// The body (`{}`) prevents web pages from stopping nodes.
pub(super) async fn stop(State(api): State<Api>, Body(Nothing {}): Body<Nothing>) -> Answered<Value> {
    api.node.send(Box::new(Node::stop)).await.map_err(|_| Failure::stopping())?;
    Ok(Json(json!({ "stopping": true })))
}

pub(super) async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Failure> {
    let text = api.scrape().await?.text();
    let text =
        text.map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, format!("metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

/// Answers with the events from a number on, and the counts of this moment, as lines of JSON.
pub(super) async fn live(State(api): State<Api>, Number(from): Number) -> Result<impl IntoResponse, Failure> {
    let peers = api.ask(Node::status).await?.peers;
    let scrape = api.scrape().await?;
    Ok(([(header::CONTENT_TYPE, live::CONTENT_TYPE)], api.live.answer(from, &peers, &scrape)))
}

pub(super) fn not_found(uri: &Uri, known: impl Iterator<Item = &'static str>) -> Failure {
    let guide = match uri.path().split('/').nth(2) {
        Some("pool") => "pool",
        Some("group") => "groups",
        Some("mix") => "mix",
        _ => "node",
    };
    // The common start would make all paths alike.
    let paths: BTreeMap<&str, &str> = known.map(|path| (path.trim_start_matches(START), path)).collect();
    let meant = closest(uri.path().trim_start_matches(START), paths.keys().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{}`?", paths[meant]));
    Failure::not_found(format!("unknown path {}; see docs/guides/{guide}.md{meant}", uri.path()))
}

pub(super) async fn not_allowed(method: Method, uri: Uri) -> Failure {
    // Each path has one of the two methods.
    let expected = match method {
        Method::GET => "POST",
        Method::POST => "GET",
        _ => "the method of docs/guides/node.md, GET or POST",
    };
    let path = uri.path();
    let message = format!("{path} does not accept {method}; expected {expected} (docs/guides/node.md)");
    Failure(StatusCode::METHOD_NOT_ALLOWED, message)
}

// ---- the transaction pool ----

pub(super) async fn pool_status(State(api): State<Api>) -> Answered<PoolStatus> {
    Ok(Json(api.pool()?.status().await?))
}

pub(super) async fn pool_submit(State(api): State<Api>, Body(body): Body<TxSpec>) -> Answered<Submitted> {
    let tx = Transaction::new(body.payload("transaction")?.make());
    Ok(Json(api.pool()?.submit(tx).await?))
}

pub(super) async fn pool_txs(State(api): State<Api>, Number(count): Number) -> Answered<Vec<String>> {
    Ok(Json(api.pool()?.keys(count.min(KEYS_MAX as u64) as usize).await?))
}

pub(super) async fn pool_arrivals(State(api): State<Api>, Number(from): Number) -> Answered<Arrivals> {
    Ok(Json(api.pool()?.arrivals(from).await?))
}

pub(super) async fn pool_commit(
    State(api): State<Api>,
    Body(Commit { height, keys }): Body<Commit>,
) -> Answered<Value> {
    if keys.len() > KEYS_MAX {
        let message = format!("keys: found {}; expected at most {KEYS_MAX}", keys.len());
        return Err(Failure::wrong(message));
    }
    let keys = keys.iter().enumerate().map(|(at, text)| {
        let wrong = || format!("keys[{at}]: found {text:?}; expected 64 hexadecimal digits");
        key(text).ok_or_else(|| Failure::wrong(wrong()))
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let count = keys.len();
    api.pool()?.commit(height, keys).await?;
    Ok(Json(json!({ "height": height, "keys": count })))
}

fn key(text: &str) -> Option<TxKey> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let digits = (0..32).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok());
    TxKey::try_from(digits.collect::<Option<Vec<u8>>>()?.as_slice()).ok()
}

pub(super) async fn pool_dial(State(api): State<Api>, Body(Dial { address }): Body<Dial>) -> Answered<Value> {
    let peer: PeerAddress = address.parse().map_err(|error| Failure::wrong(format!("address: {error}")))?;
    api.pool()?.dial(peer).await?;
    Ok(Json(json!({ "dialling": address })))
}

// ---- the group ----

pub(super) async fn group_status(State(api): State<Api>) -> Answered<GroupStatus> {
    Ok(Json(api.group()?.status().await?))
}

pub(super) async fn group_broadcast(State(api): State<Api>, Body(body): Body<TxSpec>) -> Answered<Broadcast> {
    let message = body.payload("message")?.make();
    Ok(Json(api.group()?.broadcast(message).await?))
}

pub(super) async fn group_deliveries(State(api): State<Api>, Number(from): Number) -> Answered<Deliveries> {
    Ok(Json(api.group()?.deliveries(from).await?))
}

// ---- the mix pool ----

pub(super) async fn mix_status(State(api): State<Api>) -> Answered<MixStatus> {
    Ok(Json(api.mix()?.status().await?))
}

pub(super) async fn mix_events(State(api): State<Api>, Number(from): Number) -> Answered<MixEvents> {
    Ok(Json(api.mix()?.events(from).await?))
}
