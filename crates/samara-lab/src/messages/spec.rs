//! A stream of messages as a scenario states it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Size, Span};
use samara_gossipsub::config::Parameters;
use samara_scenario::{Inputs, closest, host_names};

use crate::messages::app::PAYLOAD_MIN;
use crate::messages::file::MessageTable;
use crate::scenario::{Checks, Scenario};

/// Messages on one topic that all nodes join, each published by a node drawn at random. Takes the place of the blocks of
/// `workload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Messages {
    /// The messages, instead of a rate: CSV with the columns `at` (from the end of the warm-up), `publisher` and `size`; the last two may
    /// be missing. A path relative to the scenario file, plain or compressed with zstd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Messages per second, of all nodes together.
    pub rate: f64,
    /// The payload of a message.
    pub size: Size,
    /// From the start of the run to the first publication.
    pub warm_up: Span,
    /// How long messages are published.
    pub duration: Span,
    /// How long after the last publication deliveries are waited for, where some are missing.
    pub cool_down: Span,
    /// When messages are published.
    pub arrivals: Arrivals,
    /// Whether messages carry author, sequence number and signature, as libp2p's default is; the bytes are there, nobody
    /// computes signatures in a simulation.
    pub signed: bool,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            file: None,
            rate: 200.0,
            size: Size::from_bytes(1000),
            warm_up: Span::from_millis(10_000),
            duration: Span::from_millis(180_000),
            cool_down: Span::from_millis(60_000),
            arrivals: Arrivals::Even,
            signed: true,
        }
    }
}

impl Messages {
    /// How many messages are published.
    pub fn count(&self) -> u32 {
        (self.rate * self.duration.millis_f64() / 1e3).round() as u32
    }

    /// The messages of the file.
    ///
    /// # Errors
    /// There is no file, or something in it is wrong.
    pub(crate) fn table(&self, scenario: &Scenario, inputs: &Inputs) -> Result<Arc<MessageTable>, String> {
        let file = self.file.as_deref().ok_or("there is no file of messages")?;
        let nodes = scenario.network.nodes;
        let names = host_names(&scenario.network, inputs)?;
        let find = |name: &str| match &names {
            Some(names) => names.find(name).ok_or_else(|| {
                let meant = closest(name, names.all().iter().map(String::as_str));
                let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                format!("there is no host {name}{hint}")
            }),
            None => name
                .parse()
                .ok()
                .filter(|number| *number < nodes)
                .ok_or_else(|| format!("there is no host {name}; hosts are numbered 0 to {}", nodes - 1)),
        };
        let most = largest(scenario);
        let hosts = (&scenario.network.hosts_file, &scenario.network.topology.file, nodes);
        MessageTable::read(file, inputs, (&format!("{hosts:?}"), find), (PAYLOAD_MIN, most))
    }
}

/// When messages are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At intervals that are exponentially distributed.
    Poisson,
}

/// The parameters of Plumtree.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlumtreeParameters {
    /// Hops that a lazy path must be shorter to take the place of an eager one; 0 turns that off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization_threshold: Option<u32>,
    /// How long a node waits for an announced message before it requests it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graft_timeout: Option<Span>,
}

/// Messages of a run: what is known of each and of its deliveries is kept in memory.
const MESSAGES_MAX: u32 = 10_000_000;

/// Bytes of the largest message that the protocol takes.
fn largest(scenario: &Scenario) -> u64 {
    let parameters = scenario.find::<Parameters>().cloned().unwrap_or_default();
    parameters.build(None).max_message_bytes as u64
}

/// Reads the file of messages; it says how many there are in a second.
pub(super) fn resolve(
    scenario: &mut Scenario,
    inputs: &Inputs,
    is_given: &dyn Fn(&str) -> bool,
) -> Result<(), (String, String)> {
    let messages: &Messages = scenario.part();
    if messages.file.is_none() {
        return Ok(());
    }
    let table = messages.table(scenario, inputs).map_err(|error| ("messages.file".to_owned(), error))?;
    if table.sizes.is_some() && is_given("messages.size") {
        let message = "messages.file has a column size, which takes its place; keep one";
        return Err(("messages.size".to_owned(), message.to_owned()));
    }
    let duration = Span::from_nanos(table.at.last().copied().unwrap_or(0));
    let seconds = (duration.millis_f64() / 1e3).max(1.0);
    if let Some(messages) = scenario.find_mut::<Messages>() {
        messages.rate = table.at.len() as f64 / seconds;
        messages.duration = duration;
    }
    Ok(())
}

impl Checks<'_> {
    pub(crate) fn messages(&mut self, scenario: &Scenario) {
        let messages: &Messages = scenario.part();
        if messages.file.is_some() {
            // Rate and duration are what it says.
        } else if !(messages.rate > 0.0 && messages.rate.is_finite()) {
            self.wrong(
                "messages.rate",
                format!("is {}; it must be above 0 messages a second", messages.rate),
            );
        } else if !(1..=MESSAGES_MAX).contains(&messages.count()) {
            self.wrong(
                "messages.duration",
                format!(
                    "is {}, at {} messages a second {} messages; allowed is 1 to {MESSAGES_MAX}",
                    messages.duration,
                    messages.rate,
                    messages.count()
                ),
            );
        }
        let limit = largest(scenario);
        self.range("messages.size", messages.size.bytes(), PAYLOAD_MIN, limit);
        self.starts_after_links("messages.warm_up", messages.warm_up, scenario);
        if scenario.find::<Parameters>().is_none() && scenario.network.validation_time.nanos() > 0 {
            self.wrong(
                "network.validation_time",
                "baselines have no validation; remove it, or use protocol.kind = \"gossipsub\"".to_owned(),
            );
        }
        self.gossipsub(scenario);
    }
}
