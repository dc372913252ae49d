//! The section `[mix]` of a scenario, and checks of its values.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::settings::Settings;
use samara_engine::units::{Share, Span};
use samara_mix::{Config, FileConfig, Group, Parameters, ResultShape};
use samara_sim::identity_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application::{Costs, Pacing, Shared, WorkKind};
use samara_scenario::family::{FamilySpec, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind};
use samara_scenario::{Checks, Loaded, Point, Scenario, TransportKind, is_default};

pub static FAMILY: FamilySpec = FamilySpec {
    section: "mix",
    title: "Teams of nodes mix batches",
    docs: "protocols/mix.md",
    content: PartType::of::<Mix>(),
    nodes_max: POOL_MAX,
    protocols: &[ProtocolKind::of_settings::<FileConfig>("cmix")],
    unused: &[
        NO_CHANNELS,
        NO_UNSENT,
        ("network.topology", "nodes of a pool have links to all others"),
        ("network.validation_time", "`mix.cpu` has the times of work"),
        ("network.stalled_periods", "`mix.cpu` has the times of work"),
        ("transport.links", "nodes of a pool dial each other"),
    ],
    // The scheduler is a further host.
    extra_hosts: |_| 1,
    // While nothing arrives, dials and retransmissions back off for as long again, and so does a dial
    // that begins meanwhile.
    least_timeout: |scenario| {
        let config = config(scenario);
        let all = [
            config.reconnect.limit,
            config.precomputation_timeout,
            config.realtime_timeout,
            config.queue_timeout,
        ];
        let least = all.into_iter().min()?;
        Some((least / 3).saturating_sub(Duration::from_secs(1)))
    },
    check,
    scenarios: samara_scenario::scenarios! {
        "mix-window" "22 s",
        "mix" "80 s",
        "mix-stream" "6 s",
        "mix-teams" "108 s",
        "mix-pool" "8 s",
        "mix-soak" "310 s",
        "mix-team" "197 s",
        "mix-batch" "46 s",
        "mix-real" "370 s",
    },
    ..FamilySpec::BASE
};

/// Batches of payloads that teams of nodes mix, round after round. The scheduler draws teams from
/// the pool, which consists of the nodes of the network. It runs on a separate host.
/// `transport.kind` is "grpc".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// Number of nodes in a team.
    pub team: u32,
    /// Number of concurrent teams, which share the pool.
    pub teams: u32,
    /// Total number of rounds.
    pub rounds: u32,
    /// Number of rounds that are precomputed before the first payloads arrive. Default: all rounds,
    /// so that real time is measured alone. With 0, payloads arrive as soon as a round accepts
    /// them, while the precomputation continues.
    pub stock: Option<u32>,
    /// Time from the end of a round at its first node until the sender submits the next batch
    /// there.
    #[serde(skip_serializing_if = "is_default")]
    pub pause: Span,
    /// Least time between two batches of all teams together: a batch enters the round that has been
    /// ready longest, or waits for one. With 0 s, a batch enters every round as soon as it is
    /// ready. Simulator only.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Span,
    /// Number of slots in a round.
    pub batch: u32,
    /// Type of payloads, and whether nodes compute with them.
    pub group: Group,
    /// Number of cores of a node.
    pub cores: u32,
    /// Share of these cores that a node may use: with "10 %", work takes ten times as long. A
    /// testbed limits the processes of nodes to it from the first payloads on (by control groups of
    /// Linux), so that a machine with few cores can run a team of limited nodes.
    pub processor: Share,
    /// Source of the times that `cpu` omits.
    pub costs: CostsKind,
    /// Time that work takes on one core, per slot unless stated otherwise.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu: PhaseCosts,
    /// Whether to repeat the simulation without each mechanism of the transport that slows
    /// transfers, for the metric `first_hop_parts`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mechanisms: bool,
}

impl Default for Mix {
    fn default() -> Self {
        let mix = Config::default();
        Self {
            team: mix.team as u32,
            teams: 1,
            rounds: 60,
            stock: None,
            pause: Span::default(),
            interval: Span::default(),
            batch: mix.batch,
            group: Group::Model,
            cores: 1,
            processor: Share::from_fraction(1.0),
            costs: CostsKind::Documented,
            cpu: PhaseCosts::new(),
            mechanisms: false,
        }
    }
}

/// Sources of the times that work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CostsKind {
    /// Times from the benchmark of `samara-mix` (`docs/protocols/mix.md`), the same on every
    /// machine.
    Documented,
    /// Times measured on this machine before the simulation. Results include them, and their
    /// scenario has them in `cpu`.
    Measured,
}

pub type PhaseCosts = BTreeMap<WorkKind, Span>;

impl Mix {
    /// Returns the time that each kind of work takes, on the fraction of a core that a node has. Kinds
    /// that the scenario does not state have their documented times.
    pub fn costs(&self) -> Costs {
        let part = self.processor.fraction();
        Costs::new(|kind| {
            let time =
                self.cpu.get(&kind).map_or_else(|| kind.documented(self.group), |span| span.duration());
            if part == 1.0 { time } else { time.div_f64(part) }
        })
    }

    /// Number of rounds that are precomputed before the first payloads arrive.
    pub fn stock(&self) -> u32 {
        self.stock.unwrap_or(self.rounds)
    }
}

/// Returns true if the scenario requests the times that work takes on this machine.
pub fn wants_costs(loaded: &Loaded) -> bool {
    let wants = |mix: Option<&Mix>| mix.is_some_and(|mix| mix.costs == CostsKind::Measured);
    wants(loaded.scenario.find()) || loaded.points.iter().any(|point| wants(point.scenario.find()))
}

/// The engine's configuration for a scenario of teams that mix.
///
/// # Panics
/// If the scenario belongs to another family.
pub fn config(scenario: &Scenario) -> Config {
    let (mix, parameters, network) =
        (scenario.part::<Mix>(), scenario.part::<Parameters>(), &scenario.network);
    let formula = ResultShape::ByFormula {
        link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
        hop_s: network.latency.duration().as_secs_f64(),
    };
    let config = parameters.build(formula);
    let rounds_max = config.rounds_max.max(mix.stock() as usize);
    Config {
        pool: (0..network.nodes).map(identity_of).collect(),
        scheduler: identity_of(network.nodes),
        group: mix.group,
        teams: mix.teams as usize,
        team: mix.team as usize,
        batch: mix.batch,
        rounds: Some(mix.rounds.into()),
        rounds_max,
        node_rounds_max: config.node_rounds_max.max(mix.teams as usize * rounds_max),
        batch_max: config.batch_max.max(mix.batch),
        jobs_max: mix.cores as usize,
        ..config
    }
}

/// Maximum number of nodes in a pool. Every pair of nodes has a link.
const POOL_MAX: u32 = 128;
/// Maximum number of slots in a run. Payloads move through all nodes of a team, and those of a
/// stock are kept.
const SLOTS_MAX: u64 = 100_000_000;
/// Maximum number of slots in a round, so that a message with those of a phase stays below 2^30
/// bytes.
const BATCH_MAX: u32 = 500_000;
const CORES_MAX: u32 = 256;
/// Minimum share of a core that the kernel can enforce: 1 ms in a period of 100 ms.
const PROCESSOR_MIN: f64 = 0.01;

fn check(checks: &mut Checks<'_>, scenario: &Scenario) {
    if !matches!(scenario.transport.kind, TransportKind::Grpc { .. }) {
        checks.wrong("transport.kind", "teams need kind = \"grpc\"");
    }
    let mix: &Mix = scenario.part();
    let problems = checks.count();
    // Each team has nodes of the pool, and at least one round at a time.
    checks.range("mix.teams", mix.teams, 1, scenario.network.nodes);
    checks.range("mix.batch", mix.batch, 1, BATCH_MAX);
    checks.range("mix.rounds", mix.rounds, 1, 100_000);
    checks.range("mix.cores", mix.cores, 1, CORES_MAX);
    checks.range("mix.stock", mix.stock(), 0, mix.rounds);
    let processor = mix.processor.fraction();
    if !(PROCESSOR_MIN..=1.0).contains(&processor) {
        checks.wrong("mix.processor", format!("found \"{}\", expected 1 % to 100 %", mix.processor));
    }
    if checks.count() > problems {
        return;
    }
    for (key, pause) in [("mix.pause", mix.pause), ("mix.interval", mix.interval)] {
        let nanos = pause.nanos().saturating_mul(mix.rounds.into());
        checks.lasts(key, &[Span::from_nanos(nanos)]);
    }
    let slots = u64::from(mix.batch) * u64::from(mix.rounds);
    if slots > SLOTS_MAX {
        let most = SLOTS_MAX / u64::from(mix.batch);
        checks.wrong(
            "mix.rounds",
            format!("has {slots} slots in total; with this batch, allowed are at most {most} rounds"),
        );
    }
    if let Some(error) = config(scenario).validate().err() {
        let key = match &*error.field {
            "pool" => "network.nodes".to_owned(),
            field @ ("teams" | "team" | "batch" | "group" | "rounds") => format!("mix.{field}"),
            field => {
                let key = Config::key_of(field);
                format!("protocol.{}", key.as_deref().unwrap_or(field))
            }
        };
        checks.wrong(&key, format!("found {}, expected {}", error.found, error.expected));
    }
}

/// Returns the state of a run that its hosts share. The hosts of a real run are processes, each with a
/// state of its own.
pub fn shared(point: &Point, is_real: bool) -> Shared {
    let mix: &Mix = point.scenario.part();
    let pacing = Pacing { pause: mix.pause.duration(), is_paced: mix.interval.nanos() > 0 };
    Shared::new(config(&point.scenario), mix.costs(), pacing, (point.seed, is_real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_work_come_from_the_scenario_or_the_documentation() {
        let mut mix = Mix::default();
        mix.cpu.insert(WorkKind::Decrypt, Span::parse("210 us").unwrap());
        let costs = mix.costs();
        assert_eq!(costs.time(WorkKind::Decrypt), Duration::from_micros(210));
        assert!(costs.time(WorkKind::Reveal) > Duration::from_micros(1_000));
        mix.group = Group::Modp4096;
        assert!(mix.costs().time(WorkKind::Reveal) > costs.time(WorkKind::Reveal));
    }
}
