//! The measurements, and the number of runs of each.

use crate::Anyhow;
use crate::cluster::Cluster;
use crate::histogram::{Histogram, median};
use crate::network::Network;
use crate::node::Implementation;
use crate::report::{Report, Row};
use crate::simulated;

/// Payload of a message in bytes, as in the JGroups post.
pub(crate) const BYTES: usize = 8_192;
/// The implementation to compare with the others.
const OURS: &str = "samara-ring";

/// The extent of the measurements.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Clusters started for each figure.
    pub(crate) launches: usize,
    /// Rounds of each cluster that warm up JVMs and windows. Only the first of them is reported, by
    /// itself.
    warm_up: usize,
    rounds: usize,
    /// Messages of a round from all senders together: on loopback, and on the shaped network.
    messages: (u64, u64),
    /// Duration of the latency measurement at half the load, in seconds.
    pace_seconds: f64,
    /// Number of positions for crashes and for leaves.
    positions: usize,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        launches: 3,
        // JGroups on loopback becomes faster until about its sixth round.
        warm_up: 5,
        rounds: 3,
        messages: (80_000, 24_000),
        pace_seconds: 5.0,
        positions: 4,
    };
    pub(crate) const QUICK: Self = Self {
        launches: 1,
        warm_up: 1,
        rounds: 1,
        messages: (20_000, 2_000),
        pace_seconds: 1.0,
        positions: 1,
    };
}

/// The measurements of one implementation over all launches.
#[derive(Default)]
struct Figures {
    /// Rates of the first rounds, with cold JVMs and windows.
    first_mb_per_s: Vec<f64>,
    mb_per_s: Vec<f64>,
    cpu_s_per_gb: Vec<f64>,
    full_load: Histogram,
    half_load: Histogram,
}

pub(crate) struct Measuring {
    implementations: Vec<Implementation>,
    plan: Plan,
    clusters: usize,
    pub(crate) report: Report,
}

impl Measuring {
    pub(crate) fn new(implementations: Vec<Implementation>, plan: Plan) -> Self {
        Self { implementations, plan, clusters: 0, report: Report::default() }
    }

    fn start(&mut self, at: usize, network: &Network, members: usize) -> Anyhow<Cluster> {
        self.clusters += 1;
        let implementation = &self.implementations[at];
        Cluster::start(implementation, network, members, self.clusters)
            .map_err(|error| format!("{}: {error}", implementation.name).into())
    }

    /// Measures throughput, processor time and latency with one sender and with all.
    /// Implementations take turns.
    pub(crate) fn throughput(&mut self, network: &Network, members: usize, ours_alone: bool) -> Anyhow<()> {
        let count = if ours_alone { 1 } else { self.implementations.len() };
        for senders in [members, 1] {
            let mut figures: Vec<Figures> = (0..count).map(|_| Figures::default()).collect();
            for _ in 0..self.plan.launches {
                let mut clusters = Vec::new();
                for (at, figures) in figures.iter_mut().enumerate() {
                    let done = self.start(at, network, members).and_then(|mut cluster| {
                        self.full_load(&mut cluster, network, senders, figures)?;
                        Ok(cluster)
                    });
                    match done {
                        Ok(cluster) => clusters.push(Some(cluster)),
                        Err(error) if at == 0 => return Err(format!("{OURS}: {error}").into()),
                        // Peers can hang. Measurements of the others are still valid.
                        Err(error) => {
                            println!("{}, {senders} senders: {error}", self.implementations[at].name);
                            clusters.push(None);
                        }
                    }
                }
                let medians = figures.iter().map(|figures| median(&figures.mb_per_s));
                let slowest = medians.filter(|rate| *rate > 0.0).fold(f64::MAX, f64::min);
                // Half the rate of the slowest, for all the same.
                let rate = slowest * 1e6 / BYTES as f64 / senders as f64 / 2.0;
                let messages = (rate * self.plan.pace_seconds).ceil() as u64;
                for (cluster, figures) in clusters.iter_mut().zip(&mut figures) {
                    let Some(cluster) = cluster else { continue };
                    figures.half_load.merge(&cluster.load(senders, messages, BYTES, rate)?.latencies);
                }
            }
            let measured = figures.into_iter().enumerate();
            for (at, figures) in measured.filter(|(_, figures)| !figures.mb_per_s.is_empty()) {
                self.report_throughput(network, members, senders, at, &figures)?;
            }
        }
        Ok(())
    }

    fn full_load(
        &self,
        cluster: &mut Cluster,
        network: &Network,
        senders: usize,
        figures: &mut Figures,
    ) -> Anyhow<()> {
        let messages = match network {
            Network::Loopback => self.plan.messages.0,
            Network::Shaped { .. } => self.plan.messages.1,
        };
        // Kernels have nothing to compile, so windows need one round only. A round is long: 12 s
        // and more.
        let is_shaped = matches!(network, Network::Shaped { .. });
        let warm_up = if is_shaped { 1 } else { self.plan.warm_up };
        let rounds = if is_shaped { self.plan.rounds.min(2) } else { self.plan.rounds };
        for round in 0..warm_up + rounds {
            let delivered = cluster.load(senders, messages / senders as u64, BYTES, 0.0)?;
            if round == 0 {
                figures.first_mb_per_s.push(delivered.mb_per_s);
            }
            if round >= warm_up {
                figures.mb_per_s.push(delivered.mb_per_s);
                figures.cpu_s_per_gb.push(delivered.cpu_s_per_gb);
                figures.full_load.merge(&delivered.latencies);
            }
        }
        Ok(())
    }

    fn report_throughput(
        &mut self,
        network: &Network,
        members: usize,
        senders: usize,
        at: usize,
        figures: &Figures,
    ) -> Anyhow<()> {
        let millis = |histogram: &Histogram, rank| histogram.quantile(rank).unwrap_or(0) as f64 / 1000.0;
        let rate = median(&figures.mb_per_s);
        let mut values = vec![
            ("throughput_mb_per_s", rate),
            ("least", figures.mb_per_s.iter().copied().fold(f64::MAX, f64::min)),
            ("most", figures.mb_per_s.iter().copied().fold(0.0, f64::max)),
            ("first_round_mb_per_s", median(&figures.first_mb_per_s)),
        ];
        if let Some(bound) = network.bound_mb_per_s(members, senders) {
            values.push(("share_of_bound", rate / bound));
            if self.implementations[at].name == OURS {
                let simulated = simulated::mb_per_s(members, senders, self.plan.messages.1 / senders as u64)?;
                values.extend([("simulated_mb_per_s", simulated), ("simulated_to_real", simulated / rate)]);
            }
        }
        values.extend([
            ("cpu_s_per_gb", median(&figures.cpu_s_per_gb)),
            ("full_load_p50_ms", millis(&figures.full_load, 0.5)),
            ("full_load_p99_ms", millis(&figures.full_load, 0.99)),
            ("half_load_p50_ms", millis(&figures.half_load, 0.5)),
            ("half_load_p99_ms", millis(&figures.half_load, 0.99)),
        ]);
        self.report.add(Row {
            case: "throughput",
            network: network.name(),
            implementation: self.implementations[at].name,
            members,
            parameter: ("senders", senders),
            values,
        });
        Ok(())
    }

    /// Positions by rank. The second rank is first, as it is not the coordinator.
    fn positions(&self) -> impl Iterator<Item = usize> + use<> {
        let positions = self.plan.positions;
        (0..positions).map(move |at| if positions == 1 { 1 } else { at })
    }

    /// Kills a member at each position while all send as fast as they can.
    pub(crate) fn crashes(&mut self, network: &Network) -> Anyhow<()> {
        for at in 0..self.implementations.len() {
            for position in self.positions() {
                let crash = self.start(at, network, 4)?.crash(position, BYTES)?;
                let values = vec![
                    ("longest_gap_ms", crash.gap.as_secs_f64() * 1e3),
                    ("missing", crash.missing as f64),
                    ("disagreed", crash.disagreed as f64),
                ];
                self.add_fault("crash", network, at, position, values);
            }
        }
        Ok(())
    }

    /// Has a member leave from each position while all others send as fast as they can.
    pub(crate) fn leaves(&mut self, network: &Network) -> Anyhow<()> {
        for at in 0..self.implementations.len() {
            for position in self.positions() {
                let leave = self.start(at, network, 4)?.leave(position, BYTES)?;
                let values = vec![("missing", leave.missing as f64), ("idle_cores", leave.idle_cores)];
                self.add_fault("leave", network, at, position, values);
            }
        }
        Ok(())
    }

    fn add_fault(
        &mut self,
        case: &'static str,
        network: &Network,
        at: usize,
        position: usize,
        values: Vec<(&'static str, f64)>,
    ) {
        self.report.add(Row {
            case,
            network: network.name(),
            implementation: self.implementations[at].name,
            members: 4,
            parameter: ("position", position),
            values,
        });
    }

    /// Checks the property that must hold at any size and on any machine: none of our messages are
    /// lost.
    ///
    /// # Errors
    /// A message is missing, or members disagree about one.
    pub(crate) fn check(&self) -> Anyhow<()> {
        let ours = self.report.rows.iter().filter(|row| row.implementation == OURS);
        for row in ours {
            let lost = row
                .values
                .iter()
                .find(|(name, value)| matches!(*name, "missing" | "disagreed") && *value > 0.0);
            if let Some((name, value)) = lost {
                return Err(format!(
                    "{} after a {} at {}: {value} messages",
                    name, row.case, row.parameter.1
                )
                .into());
            }
        }
        Ok(())
    }
}
