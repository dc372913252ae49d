//! The shaped group in the simulator.

use samara_document::Inputs;
use samara_family_group::GroupData;
use samara_lab::run::{self, RunOptions};
use samara_scenario::load;

use crate::Anyhow;
use crate::measure::BYTES;

/// Latency between neighbours where namespaces of one machine are the network: roughly the time of
/// two context switches. Rounds of seconds hardly depend on it.
const LATENCY: &str = "200 us";

/// Delivery rate of each member of the scenario `ring` in MB/s, with `senders` members that send
/// `messages` each over uplinks of 100 Mbit/s.
pub(crate) fn mb_per_s(members: usize, senders: usize, messages: u64) -> Anyhow<f64> {
    let set = [
        ("network.nodes", members.to_string()),
        ("network.bandwidth", "100 Mbit/s".to_owned()),
        ("network.latency", LATENCY.to_owned()),
        ("group.senders", senders.to_string()),
        ("group.messages", messages.to_string()),
        ("group.size", format!("{BYTES} B")),
    ];
    let set = set.map(|(key, value)| (key.to_owned(), value));
    samara_lab::family::set_base(&[&samara_family_group::FAMILY]);
    let loaded = load("ring", &set, &["ring".to_owned()], None)?;
    let point = loaded.points.first().ok_or("the scenario `ring` has no run")?;
    let inputs = Inputs::directory(".");
    let measured = run::run(point, RunOptions::new(1, &inputs), |_, _| {})?;
    let outcome = measured.outcome();
    let data = outcome.data::<GroupData>().ok_or("expected a run with a group")?;
    Ok(data.metrics.throughput_mb_per_s)
}
