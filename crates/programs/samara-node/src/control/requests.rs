//! Requests and their checks.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use samara_engine::outbox::{Policies, Schedule, ScheduleSpec};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Value;

use super::Failure;
use super::body::at_most;
use crate::config::{check_schedule, check_topic, without_custom};
use crate::payload::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, Payload};

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

/// A message to publish: exactly one of `data` (base64), `text` and `random_bytes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageSpec {
    topic: String,
    data: Option<String>,
    text: Option<String>,
    random_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    #[serde(deserialize_with = "at_most::<BATCH_MESSAGES_MAX, _, _>")]
    messages: Vec<MessageSpec>,
    #[serde(default, deserialize_with = "spec_of_schedule")]
    schedule: Option<ScheduleSpec>,
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

/// Reads a schedule: its kind alone, or the object as in the configuration.
fn spec_of_schedule<'de, D>(source: D) -> Result<Option<ScheduleSpec>, D::Error>
where
    D: Deserializer<'de>,
{
    let Some(spec) = Option::<Value>::deserialize(source)? else { return Ok(None) };
    let spec = match spec {
        Value::String(kind) => Value::Table([("kind".to_owned(), kind.into())].into_iter().collect()),
        spec => spec,
    };
    let spec = samara_document::from_value(&spec);
    spec.map(Some).map_err(|error| match error.key.as_str() {
        "" | "kind" => Error::custom(without_custom(&error.message)),
        key => Error::custom(format!("{key}: {}", error.message)),
    })
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
        check_schedule("schedule", self.schedule.as_ref())
            .map_err(|(key, message)| format!("{key}: {message}"))?;
        let schedule = self.schedule.map(|spec| spec.build(&Policies::default()));
        if self.messages.is_empty() {
            return Err(format!("messages: found 0 messages; expected 1 to {BATCH_MESSAGES_MAX}"));
        }
        let messages = self.messages.into_iter().enumerate();
        let messages = messages.map(|(at, spec)| spec.message(&format!("messages[{at}]"), topic_bytes));
        Ok((bounded("messages", messages.collect::<Result<_, _>>()?)?, schedule))
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

fn bounded(key: &str, messages: Messages) -> Result<Messages, String> {
    let bytes = messages.iter().fold(0_usize, |sum, (_, payload)| sum.saturating_add(payload.len()));
    if bytes > BATCH_BYTES_MAX {
        return Err(format!("{key}: found {bytes} bytes of payload; expected at most {BATCH_BYTES_MAX}"));
    }
    Ok(messages)
}
