//! Requests and their checks, including those of the section `[plan]`.

use std::path::Path;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use samara_engine::outbox::{Policies, Schedule, ScheduleSpec};
use samara_gossipsub::rpc::Topic;
use serde::Deserialize;

use super::body::{BODY_MAX, at_most, read_bytes};
use super::{Api, Failure};
use crate::config::{MetricsAt, check_schedule, check_topic, group_id};
pub(super) use crate::model::MessageSpec;
use crate::model::{self, BlockSpec, Late, Publication, Submission};
use crate::node::schedule::{Block, PLANNED_MAX, Payload, Planned};
use crate::part::unix_ns;

const BATCH_MESSAGES_MAX: usize = 4096;
/// Maximum payload of one request in bytes, random bytes included: they are held in memory until
/// they have left.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Maximum length of a submitted transaction in bytes: more than any preset accepts.
const TX_MAX: usize = 8 << 20;
/// Maximum number of keys in one request or answer.
pub(super) const KEYS_MAX: usize = 100_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dial {
    pub(super) address: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicName {
    pub(super) topic: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    #[serde(deserialize_with = "at_most::<BATCH_MESSAGES_MAX, _, _>")]
    messages: Vec<MessageSpec>,
    #[serde(default, deserialize_with = "model::schedule")]
    schedule: Option<ScheduleSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Publications {
    #[serde(deserialize_with = "at_most::<PLANNED_MAX, _, _>")]
    publications: Vec<Publication>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submissions {
    #[serde(deserialize_with = "at_most::<PLANNED_MAX, _, _>")]
    pub(super) submissions: Vec<Submission>,
    #[serde(default)]
    pub(super) late: Late,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broadcasts {
    #[serde(deserialize_with = "at_most::<PLANNED_MAX, _, _>")]
    pub(super) broadcasts: Vec<Submission>,
}

/// A transaction, or a message of a group: exactly one of `data` (base64), `text` and
/// `random_bytes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TxSpec {
    data: Option<String>,
    text: Option<String>,
    random_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    pub(super) height: u64,
    #[serde(deserialize_with = "at_most::<KEYS_MAX, _, _>")]
    pub(super) keys: Vec<String>,
}

type Messages = Vec<(String, Payload)>;

impl MessageSpec {
    fn message(self, key: &str, topic_bytes: usize) -> Result<(String, Payload), String> {
        check_topic(&self.topic, topic_bytes).map_err(|message| format!("{key}.topic: {message}"))?;
        Ok((self.topic, payload(key, self.data, self.text, self.random_bytes)?))
    }

    pub(super) fn single(self, topic_bytes: usize) -> Result<Messages, String> {
        bounded("message", vec![self.message("message", topic_bytes)?])
    }
}

impl Batch {
    pub(super) fn messages(self, topic_bytes: usize) -> Result<(Messages, Option<Schedule>), String> {
        let schedule = schedule("schedule", self.schedule)?;
        Ok((messages("messages", self.messages, topic_bytes)?, schedule))
    }
}

impl Publications {
    pub(super) fn planned(self, topic_bytes: usize) -> Result<Vec<Planned>, String> {
        let publications = self.publications.into_iter().enumerate();
        publications
            .map(|(at, publication)| publication.planned(&format!("publications[{at}]"), topic_bytes))
            .collect()
    }
}

impl Publication {
    fn planned(self, key: &str, topic_bytes: usize) -> Result<Planned, String> {
        let schedule = schedule(&format!("{key}.schedule"), self.schedule)?;
        let Self { at_unix_ns, batch, block, topic, data, text, random_bytes, .. } = self;
        let has_payload = data.is_some() || text.is_some() || random_bytes.is_some();
        let planned = Planned { at_unix_ns, schedule, ..Planned::default() };
        Ok(match (batch, block, topic) {
            (Some(batch), None, None) if !has_payload => {
                let messages = messages(&format!("{key}.batch"), batch, topic_bytes)?;
                Planned { messages, ..planned }
            }
            (None, Some(spec), None) if !has_payload && planned.schedule.is_none() => {
                let block = Some(spec.block(&format!("{key}.block"), topic_bytes)?);
                Planned { block, ..planned }
            }
            (None, None, Some(topic)) => {
                let spec = MessageSpec { topic, data, text, random_bytes };
                let messages = bounded(key, vec![spec.message(key, topic_bytes)?])?;
                Planned { messages, ..planned }
            }
            _ => {
                return Err(format!(
                    "{key}: expected either batch, or block without a schedule, or topic and a payload"
                ));
            }
        })
    }
}

impl BlockSpec {
    fn block(self, key: &str, topic_bytes: usize) -> Result<Block, String> {
        let found = self.topics.len();
        if found == 0 || found > BATCH_MESSAGES_MAX {
            return Err(format!("{key}.topics: found {found}; expected 1 to {BATCH_MESSAGES_MAX}"));
        }
        let group = group_id(&self.group).map_err(|message| format!("{key}.group: {message}"))?;
        for (at, topic) in self.topics.iter().enumerate() {
            check_topic(topic, topic_bytes).map_err(|message| format!("{key}.topics[{at}]: {message}"))?;
        }
        let topics = self.topics.iter().map(|topic| Topic::new(topic)).collect();
        Ok(Block { group, topics, push: self.push })
    }
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

/// Parses transactions of a pool, or broadcasts of a group, each with its time.
pub(super) fn planned_txs(key: &str, submissions: Vec<Submission>) -> Result<Vec<Planned>, Failure> {
    let planned = submissions.into_iter().enumerate().map(|(at, submission)| {
        let Submission { at_unix_ns, data, text, random_bytes } = submission;
        let payload = TxSpec { data, text, random_bytes }.payload(&format!("{key}[{at}]"))?;
        Ok(Planned { at_unix_ns, messages: vec![(String::new(), payload)], ..Planned::default() })
    });
    planned.collect()
}

/// Returns the payload of exactly one of `data` (base64), `text` and `random_bytes`.
fn payload(
    key: &str,
    data: Option<String>,
    text: Option<String>,
    random_bytes: Option<usize>,
) -> Result<Payload, String> {
    match (data, text, random_bytes) {
        (Some(data), None, None) => {
            let bytes = STANDARD.decode(data).map_err(|error| match error {
                DecodeError::InvalidByte(at, byte) => {
                    format!("{key}.data: found {:?} at character {at}; expected base64", char::from(byte))
                }
                error => format!("{key}.data: found text that does not decode; expected base64: {error}"),
            });
            Ok(Payload::Data(bytes?.into()))
        }
        (None, Some(text), None) => Ok(Payload::Data(text.into_bytes().into())),
        (None, None, Some(len)) => Ok(Payload::Random(len)),
        (data, text, random_bytes) => {
            let payloads = [
                ("data", data.is_some()),
                ("text", text.is_some()),
                ("random_bytes", random_bytes.is_some()),
            ];
            let found: Vec<&str> = payloads.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
            let found = if found.is_empty() { "no payload".to_owned() } else { found.join(" and ") };
            Err(format!("{key}: found {found}; expected exactly one of data, text and random_bytes"))
        }
    }
}

fn messages(key: &str, specs: Vec<MessageSpec>, topic_bytes: usize) -> Result<Messages, String> {
    if specs.is_empty() || specs.len() > BATCH_MESSAGES_MAX {
        return Err(format!("{key}: found {} messages; expected 1 to {BATCH_MESSAGES_MAX}", specs.len()));
    }
    let all = specs.into_iter().enumerate();
    let all = all.map(|(at, spec)| spec.message(&format!("{key}[{at}]"), topic_bytes));
    bounded(key, all.collect::<Result<_, _>>()?)
}

fn bounded(key: &str, messages: Messages) -> Result<Messages, String> {
    let bytes = messages.iter().fold(0_usize, |sum, (_, payload)| sum.saturating_add(payload.len()));
    if bytes > BATCH_BYTES_MAX {
        return Err(format!("{key}: found {bytes} bytes of payload; expected at most {BATCH_BYTES_MAX}"));
    }
    Ok(messages)
}

fn schedule(key: &str, spec: Option<ScheduleSpec>) -> Result<Option<Schedule>, String> {
    let Some(spec) = spec else { return Ok(None) };
    check_schedule(key, Some(&spec)).map_err(|(key, message)| format!("{key}: {message}"))?;
    Ok(Some(spec.build(None, &Policies::default())))
}

/// Reads publications in the form of `POST /v1/schedule`.
pub(crate) fn read_publications(path: &Path, topic_bytes: usize) -> Result<Vec<Planned>, String> {
    let wrong = |what: String| format!("plan.publications: {}: {what}", path.display());
    let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if bytes > BODY_MAX as u64 {
        return Err(wrong(format!("found {bytes} bytes; expected at most {BODY_MAX}")));
    }
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let request: Publications = read_bytes(&text).map_err(|failure| wrong(failure.1))?;
    request.planned(topic_bytes).map_err(wrong)
}

/// Writes the text of `/metrics` to a file at its time, or at once if that has passed.
pub(crate) async fn write_metrics(api: Api, planned: MetricsAt) {
    tokio::time::sleep(Duration::from_nanos(planned.at_unix_ns.saturating_sub(unix_ns()))).await;
    let file = planned.file.display().to_string();
    let written = match api.metrics().await {
        Ok(text) => std::fs::write(&planned.file, text).map_err(|error| error.to_string()),
        Err(failure) => Err(failure.1),
    };
    match written {
        Ok(()) => tracing::info!(file, "wrote the metrics"),
        Err(error) => tracing::error!(file, error, "cannot write the metrics"),
    }
}
