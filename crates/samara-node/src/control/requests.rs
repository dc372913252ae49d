//! What is asked, and what of it is possible.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samara_engine::outbox::Schedule;
use samara_engine::outbox::{Policies, ScheduleKind, ScheduleSpec};
use serde::{Deserialize, Deserializer};

use crate::config::{check_schedule, check_topic};
use crate::node::payload::Payload;
use crate::node::schedule::Planned;

/// Messages of one batch at most.
const BATCH_MESSAGES_MAX: usize = 4096;
/// Payload of one request at most, random bytes included: they are held in memory until they have left.
const BATCH_BYTES_MAX: usize = 64 << 20;

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

/// Nothing: `{}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A message: exactly one of `data` (base64), `text` and `random_bytes`.
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
    messages: Vec<MessageSpec>,
    schedule: Option<ScheduleWord>,
}

/// A schedule: its kind alone, or the whole of what the configuration can say of one.
#[derive(Debug)]
struct ScheduleWord(ScheduleSpec);

impl<'de> Deserialize<'de> for ScheduleWord {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(source)?;
        let spec = if value.is_string() {
            let of_kind = |kind| ScheduleSpec {
                kind,
                shuffle: false,
                peers: None,
                timeout: None,
                source: None,
                cap: None,
                policy: None,
            };
            ScheduleKind::deserialize(value).map(of_kind)
        } else {
            ScheduleSpec::deserialize(value)
        };
        spec.map(Self).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanRequest {
    publications: Vec<Publication>,
}

/// A publication to come: either a `batch`, or the keys of one message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Publication {
    at_unix_ns: u64,
    batch: Option<Vec<MessageSpec>>,
    schedule: Option<ScheduleWord>,
    topic: Option<String>,
    data: Option<String>,
    text: Option<String>,
    random_bytes: Option<usize>,
}

/// Messages that can be published.
pub(super) type Messages = Vec<(String, Payload)>;

impl MessageSpec {
    fn message(self, key: &str, topic_bytes: usize) -> Result<(String, Payload), String> {
        check_topic(&self.topic, topic_bytes).map_err(|message| format!("{key}.topic: {message}"))?;
        let payload = match (self.data, self.text, self.random_bytes) {
            (Some(data), None, None) => {
                let bytes = STANDARD.decode(data);
                Payload::Data(bytes.map_err(|error| format!("{key}.data: expected base64: {error}"))?.into())
            }
            (None, Some(text), None) => Payload::Data(text.into_bytes().into()),
            (None, None, Some(len)) => Payload::Random(len),
            _ => return Err(format!("{key}: expected exactly one of data, text and random_bytes")),
        };
        Ok((self.topic, payload))
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

impl PlanRequest {
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
        let Self { at_unix_ns, batch, topic, data, text, random_bytes, .. } = self;
        let messages = match (batch, topic) {
            (Some(batch), None) if data.is_none() && text.is_none() && random_bytes.is_none() => {
                messages(&format!("{key}.batch"), batch, topic_bytes)?
            }
            (None, Some(topic)) => {
                let spec = MessageSpec { topic, data, text, random_bytes };
                bounded(key, vec![spec.message(key, topic_bytes)?])?
            }
            _ => return Err(format!("{key}: expected either batch, or topic and a payload")),
        };
        Ok(Planned { at_unix_ns, messages, schedule })
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

fn schedule(key: &str, word: Option<ScheduleWord>) -> Result<Option<Schedule>, String> {
    let Some(ScheduleWord(spec)) = word else { return Ok(None) };
    check_schedule(key, Some(&spec)).map_err(|(key, message)| format!("{key}: {message}"))?;
    Ok(Some(spec.build(None, &Policies::default())))
}
