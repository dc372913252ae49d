//! One function for each request that is about the transaction pool.

use axum::Json;
use axum::extract::{Path, State};
use samara_cat::{Transaction, TxKey};
use samara_net::mconn::PeerAddress;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::answer::Failure;
use super::handlers::{Answered, Body};
use super::requests::payload;
use crate::model::{Arrivals, Late, PlannedReport, PoolStatus, Submission, Submitted};
use crate::node::payload::Payload;
use crate::node::schedule::Planned;
use crate::pool::Pool;

/// The longest transaction that can be submitted: more than any preset takes.
const TX_MAX: usize = 8 << 20;
/// Keys in one request or answer at most.
const KEYS_MAX: usize = 100_000;

/// A transaction, or a message of a group: exactly one of `data` (base64), `text` and `random_bytes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TxSpec {
    pub(super) data: Option<String>,
    pub(super) text: Option<String>,
    pub(super) random_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    submissions: Vec<Submission>,
    #[serde(default)]
    late: Late,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    height: u64,
    keys: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dial {
    address: String,
}

impl TxSpec {
    pub(super) fn payload(self, key: &str) -> Result<Payload, Failure> {
        let payload = payload(key, self.data, self.text, self.random_bytes).map_err(Failure::wrong)?;
        if payload.len() > TX_MAX {
            let message = format!("{key}: found {} bytes; expected at most {TX_MAX}", payload.len());
            return Err(Failure::wrong(message));
        }
        Ok(payload)
    }
}

impl Api {
    fn pool(&self) -> Result<&Pool, Failure> {
        let none = || Failure::not_found("there is no pool; expected a section [cat] in the configuration");
        self.pool.as_ref().ok_or_else(none)
    }
}

pub(super) async fn status(State(api): State<Api>) -> Answered<PoolStatus> {
    Ok(Json(api.pool()?.status().await?))
}

pub(super) async fn submit(State(api): State<Api>, body: Body<TxSpec>) -> Answered<Submitted> {
    let Json(spec) = body?;
    let tx = Transaction::new(spec.payload("transaction")?.make());
    Ok(Json(api.pool()?.submit(tx).await?))
}

pub(super) async fn plan(State(api): State<Api>, body: Body<PlanRequest>) -> Answered<Value> {
    let Json(PlanRequest { submissions, late }) = body?;
    let planned = submissions.into_iter().enumerate().map(|(at, submission)| {
        let Submission { at_unix_ns, data, text, random_bytes } = submission;
        let payload = TxSpec { data, text, random_bytes }.payload(&format!("submissions[{at}]"))?;
        Ok(Planned { at_unix_ns, messages: vec![(String::new(), payload)], schedule: None })
    });
    let planned = planned.collect::<Result<Vec<_>, Failure>>()?;
    let numbers = api.pool()?.plan(planned, late).await?;
    Ok(Json(json!({ "planned": numbers.map_err(Failure::wrong)? })))
}

pub(super) async fn planned(State(api): State<Api>) -> Answered<Vec<PlannedReport>> {
    Ok(Json(api.pool()?.planned().await?))
}

pub(super) async fn txs(State(api): State<Api>, Path(count): Path<String>) -> Answered<Vec<String>> {
    let count: usize = number("count", &count)?;
    Ok(Json(api.pool()?.keys(count.min(KEYS_MAX)).await?))
}

pub(super) async fn arrivals(State(api): State<Api>, Path(from): Path<String>) -> Answered<Arrivals> {
    let from = number("number", &from)?;
    Ok(Json(api.pool()?.arrivals(from).await?))
}

pub(super) fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| Failure::wrong(format!("found the {what} {text:?}; expected a number")))
}

pub(super) async fn commit(State(api): State<Api>, body: Body<Commit>) -> Answered<Value> {
    let Json(Commit { height, keys }) = body?;
    if keys.len() > KEYS_MAX {
        let message = format!("keys: found {}; expected at most {KEYS_MAX}", keys.len());
        return Err(Failure::wrong(message));
    }
    let keys = keys.iter().enumerate().map(|(at, text)| {
        key(text).ok_or_else(|| {
            Failure::wrong(format!("keys[{at}]: found {text:?}; expected 64 hexadecimal digits"))
        })
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

pub(super) async fn dial(State(api): State<Api>, body: Body<Dial>) -> Answered<Value> {
    let Json(Dial { address }) = body?;
    let peer: PeerAddress = address.parse().map_err(|error| Failure::wrong(format!("address: {error}")))?;
    api.pool()?.dial(peer).await?;
    Ok(Json(json!({ "dialling": address })))
}
