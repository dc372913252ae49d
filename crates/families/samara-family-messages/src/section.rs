//! The section of a scenario with messages: a stream at a rate, or a table with the time, publisher
//! and size of each.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use samara_engine::units::{Size, Span};
use samara_gossipsub::config::Parameters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_document::table::{Quantity, Shape, scan};
use samara_document::{Inputs, closest, host_names};

use samara_pubsub::parameters::{self, FLOODSUB_KIND, GOSSIPSUB, PLUMTREE_KIND, RANDOMSUB};
use samara_scenario::family::{
    FamilySpec, Files, NO_CHANNELS, NO_TOPICS, NO_UNSENT, NoParameters, PartType, ProtocolKind,
};
use samara_scenario::{Arrivals, Checks, Scenario};

/// Minimum payload in bytes: the number of the message.
pub const PAYLOAD_MIN: u64 = 4;

pub static FAMILY: FamilySpec = FamilySpec {
    section: "messages",
    title: "Random nodes publish a stream of messages",
    docs: "protocols/gossipsub.md",
    content: PartType::of::<Messages>(),
    protocols: &[GOSSIPSUB, FLOODSUB_KIND, ProtocolKind::of::<NoParameters>(RANDOMSUB), PLUMTREE_KIND],
    unused: &[NO_CHANNELS, NO_UNSENT, NO_TOPICS],
    files: Files {
        named: |scenario| {
            let file = scenario.part::<Messages>().file.as_deref();
            file.map(|file| ("messages.file", file)).into_iter().collect()
        },
        resolve,
        replaced: &[("messages.file", &["messages.rate", "messages.duration", "messages.arrivals"])],
        left_out: &["messages.size"],
    },
    end: |scenario| {
        let Messages { file, arrivals, warm_up, duration, cool_down, .. } = scenario.part();
        // The last of random arrivals may be after the duration.
        let is_known = file.is_some() || *arrivals == Arrivals::Even;
        let nanos = || warm_up.nanos().saturating_add(duration.nanos()).saturating_add(cool_down.nanos());
        is_known.then(|| Span::from_nanos(nanos()))
    },
    check,
    remedies: &[("messages.rate", "expected a number", "the number of messages per second, such as 50")],
    scenarios: samara_scenario::scenarios! {
        "gossip-study" "1470 s",
        "gossip-study-real" "1 s",
        "gossip-baselines" "100 s",
        "gossip-parameters" "580 s",
        "messages-small" "< 1 s",
    },
    ..FamilySpec::BASE
};

/// Messages on one topic that all nodes join. A random node publishes each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Messages {
    /// File of messages, in place of a rate: CSV with the columns `at` (time from the end of the
    /// warm-up), `publisher` and `size`; the last two are optional. A path relative to the scenario
    /// file, plain or compressed with zstd.
    pub file: Option<String>,
    /// Messages per second of all nodes together.
    pub rate: f64,
    /// Payload size of a message.
    pub size: Size,
    /// Time from the start of the run to the first publication.
    pub warm_up: Span,
    /// Time for which nodes publish messages.
    pub duration: Span,
    /// Maximum time to wait for missing deliveries after the last publication.
    pub cool_down: Span,
    /// Distribution of the publication times.
    pub arrivals: Arrivals,
    /// Whether messages have an author, a sequence number and a signature, as by default in libp2p.
    /// A simulation counts the bytes but computes no signatures.
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
    pub fn count(&self) -> u32 {
        (self.rate * self.duration.millis_f64() / 1e3).round() as u32
    }

    /// Reads the messages of the file.
    pub fn table(&self, scenario: &Scenario, inputs: &Inputs) -> Result<Arc<MessageTable>, String> {
        let file = self.file.as_deref().ok_or("messages.file is missing")?;
        let nodes = scenario.network.nodes;
        let names = host_names(&scenario.network, inputs)?;
        let find = |name: &str| match &names {
            Some(names) => names.find(name).ok_or_else(|| {
                let meant = closest(name, names.all().iter().map(String::as_str));
                let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                format!("unknown node {name}{hint}")
            }),
            None => name
                .parse()
                .ok()
                .filter(|number| *number < nodes)
                .ok_or_else(|| format!("unknown node {name}; nodes are numbered 0 to {}", nodes - 1)),
        };
        let most = largest(scenario);
        let hosts = (&scenario.network.nodes_file, scenario.network.topology.file(), nodes);
        MessageTable::read(file, inputs, (&format!("{hosts:?}"), find), (PAYLOAD_MIN, most))
    }
}

fn largest(scenario: &Scenario) -> u64 {
    let parameters = scenario.find::<Parameters>().cloned().unwrap_or_default();
    parameters.config.max_message_bytes as u64
}

/// Reads the file of messages, and sets the rate and the duration accordingly.
fn resolve(
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
        let message = "messages.file has a column size, which replaces it; remove one of them (--set messages.size= removes the key)";
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

fn check(checks: &mut Checks<'_>, scenario: &Scenario) {
    let messages: &Messages = scenario.part();
    let Messages { rate, duration, .. } = messages;
    let count = messages.count();
    if messages.file.is_some() {
        // The file determines rate and duration.
    } else if !(*rate > 0.0 && rate.is_finite()) {
        checks.wrong("messages.rate", format!("is {rate}; it must be above 0 messages a second"));
    } else if !(1..=MESSAGES_MAX as u32).contains(&count) {
        let all = format!("{rate} messages a second {count} messages");
        checks.wrong("messages.duration", format!("is {duration}, at {all}; allowed is 1 to {MESSAGES_MAX}"));
    }
    // The scenario sets none of what the file determines.
    let key = if messages.file.is_some() { "messages.file" } else { "messages.duration" };
    let deliveries = u64::from(count) * u64::from(scenario.network.nodes);
    if deliveries > DELIVERIES_MAX {
        let message = format!(
            "is {duration}, with {count} messages to {} nodes; allowed are {DELIVERIES_MAX} deliveries",
            scenario.network.nodes
        );
        checks.wrong(key, message);
    }
    checks.lasts(key, &[messages.warm_up, *duration, messages.cool_down]);
    let limit = largest(scenario);
    checks.sizes("messages.size", messages.size, PAYLOAD_MIN, limit);
    checks.starts_after_links("messages.warm_up", messages.warm_up, scenario);
    if scenario.find::<Parameters>().is_none() {
        let network = &scenario.network;
        let of_validation = [
            ("validation_time", network.validation_time.nanos() > 0),
            ("stalled_periods", network.stalled_periods.fraction() > 0.0),
        ];
        let message = "baselines have no validation; remove it, or use protocol.kind = \"gossipsub\"";
        checks.refuse("network", of_validation, message);
    }
    parameters::check(checks, scenario, false);
}

/// Maximum number of messages in a run, whose state and deliveries are kept in memory.
const MESSAGES_MAX: usize = 10_000_000;
/// Maximum number of deliveries in a run.
const DELIVERIES_MAX: u64 = 100_000_000_000;
/// Maximum size of all payloads together, which are kept in memory.
const BYTES_MAX: u64 = 4 << 30;

const SHAPE: Shape = Shape {
    needed: &["at"],
    allowed: &["publisher", "size"],
    units: &[("at", Span::UNITS), ("size", Size::UNITS)],
    rows_max: MESSAGES_MAX,
};

/// The messages of a table, sorted by time. Messages with the same time keep the order of their
/// rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageTable {
    /// Nanoseconds from the end of the warm-up to each publication.
    pub at: Vec<u64>,
    /// The publishers; `None` if the file has none.
    pub publishers: Option<Vec<u32>>,
    /// Payload sizes in bytes; `None` if the file has none.
    pub sizes: Option<Vec<u64>>,
}

impl MessageTable {
    /// Reads a file with a row for each message. `find` returns the number of a host, and has a
    /// name that distinguishes it from others. `sizes` are the minimum and maximum bytes of a
    /// message.
    pub fn read(
        file: &str,
        inputs: &Inputs,
        (hosts, find): (&str, impl Fn(&str) -> Result<u32, String>),
        sizes: (u64, u64),
    ) -> Result<Arc<Self>, String> {
        let key = format!("messages {file} {hosts} {sizes:?}");
        inputs.made(&key, || Self::parse(file, &inputs.read(file)?, find, sizes))
    }

    fn parse(
        file: &str,
        text: &str,
        find: impl Fn(&str) -> Result<u32, String>,
        (least, most): (u64, u64),
    ) -> Result<Self, String> {
        let mut rows: Vec<(u64, Option<u32>, Option<u64>)> = Vec::new();
        scan(file, text, &SHAPE, |row| {
            let at = row.quantity::<Span>("at")?.unwrap_or_default().nanos();
            let publisher = row.text("publisher")?.map(&find).transpose().map_err(|why| row.wrong(why))?;
            let size = row.quantity::<Size>("size")?.map(Size::bytes);
            if let Some(size) = size.filter(|size| !(least..=most).contains(size)) {
                return Err(row.wrong(format_args!("size is {size} B; allowed is {least} to {most}")));
            }
            rows.push((at, publisher, size));
            Ok(())
        })?;
        let bytes = rows.iter().filter_map(|(.., size)| *size).fold(0, u64::saturating_add);
        if bytes > BYTES_MAX {
            return Err(format!("{file}: the messages have {bytes} B together; at most {BYTES_MAX}"));
        }
        // A stable sort keeps the order of messages with the same time.
        rows.sort_by_key(|(at, ..)| *at);
        Ok(Self {
            at: rows.iter().map(|(at, ..)| *at).collect(),
            publishers: rows.iter().map(|(_, publisher, _)| *publisher).collect(),
            sizes: rows.iter().map(|(.., size)| *size).collect(),
        })
    }
}
