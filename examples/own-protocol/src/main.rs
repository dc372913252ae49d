//! A push-pull gossip with its own experiment. Every subcommand of `samara` knows the section
//! `[rumours]`, without any change to Samara.

mod engine;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use engine::{Gossip, Heard, PushPull};
use samara_engine::outbox::{Dispatch, LaneConfig, OutboxConfig};
use samara_engine::units::{Size, Span};
use samara_engine::{Outbox, Time};
use samara_lab::experiment::{Commands, Experiment, FramesCodec, Measurements, Plan, Problem, World, check};
use samara_lab::explain::{ContentsOf, Delivered};
use samara_lab::family::{Family, Runs};
use samara_lab::network;
use samara_lab::page::{Bars, Chart, Form, PageSpec, Section, Swept, mean, spread};
use samara_lab::run::{Progress, RunError};
use samara_lab::statistics::Statistics;
use samara_lab::torture::{Broken, Draw};
use samara_sim::{Cause, Contents, NodeFactory, Origin, Postcard, Record};
use samara_scenario::family::{FamilySpec, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rumours that start at the nodes in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Rumours {
    /// Number of rumours, which start one after another.
    count: u32,
    /// Time between the starts of two rumours.
    interval: Span,
    /// Bytes of a rumour.
    size: Size,
}

impl Default for Rumours {
    fn default() -> Self {
        Self { count: 20, interval: Span::from_millis(100), size: Size::from_bytes(1_000) }
    }
}

/// The parameters of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    /// Time between two rounds of a node.
    round: Span,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { round: Span::from_millis(200) }
    }
}

samara_lab::metrics! {
    /// The metrics of a run.
    pub struct RumourMetrics {
        /// The share of deliveries that happened by 30 s after the last rumour.
        pub delivery_ratio: f64 = "share", More, [""];
        /// Time from the start of a rumour until a node has it.
        pub delivery_latency_ms: Option<Statistics> = "ms", Less, ["mean", "p99"];
        /// The shortest time in which a rumour can reach all nodes, averaged over the nodes it
        /// starts at.
        pub lower_bound_ms: f64 = "ms", Neither, [""];
        /// Copies of rumours that arrived for each delivery.
        pub duplication_factor: f64 = "", Less, [""];
        /// Deliveries that did not happen. The metric `incomplete` of Samara's experiments counts
        /// other things, and `compare` goes by names.
        pub missing_deliveries: u64 = "deliveries", Less, [];
    }
}

/// The page of results.
static PAGE: PageSpec = PageSpec {
    sections: &[
        Section::new("Rumours")
            .about("Latency: from the start of a rumour until a node has it. Copies: of rumours, for each delivery.")
            .tables(&[&[
                mean("delivered", "delivery_ratio", Form::Percent(2)),
                spread("latency, mean", LATENCY, Form::ShortMs),
                mean("p99", "delivery_latency_ms.p99", Form::ShortMs),
                mean("bound", "lower_bound_ms", Form::ShortMs),
                mean("copies", "duplication_factor", Form::Fixed(2)),
            ]]),
        Section::new("Side by side").side_by_side().charts(&[Chart::Bars(Bars {
            name: "latency",
            title: TITLE,
            metric: LATENCY,
            bounds: &["lower_bound_ms"],
            bound: "no protocol is faster",
            text: |row| format!("{:.0} ms", row.mean(LATENCY)),
            ..Bars::BASE
        })]),
        Section::new("Over the sweep").in_sweep().charts(&[Chart::Lines(
            &[
                Swept::new("latency", LATENCY, TITLE),
                Swept::new("copies", "duplication_factor", "copies for each delivery"),
            ],
            Some(("no protocol is faster", "lower_bound_ms")),
        )]),
    ],
    ..PageSpec::BASE
};

const LATENCY: &str = "delivery_latency_ms.mean";
const TITLE: &str = "mean time until a node has a rumour";

/// Maximum number of rumours, which are kept in memory.
const RUMOURS_MAX: u32 = 100_000;
const INTERVAL_MAX: Span = Span::from_millis(3_600_000);

struct Spread {
    spec: Rumours,
    parameters: Parameters,
    nodes: u32,
    lower_bound_ms: f64,
    latencies_ms: Vec<f64>,
    /// The same deliveries, for `samara explain`.
    delivered: Vec<Delivered>,
    copies: u64,
    /// Each node with each rumour that has arrived there.
    heard: BTreeSet<(u32, u32)>,
}

impl Spread {
    fn start_of(&self, rumour: u32) -> Time {
        Time::from_nanos(1_000_000_000 + u64::from(rumour) * self.spec.interval.nanos())
    }

    fn deliveries(&self) -> f64 {
        f64::from(self.spec.count) * f64::from(self.nodes - 1)
    }

    /// Returns the promises that the run broke. `harmed` says of each node whether a fault other than
    /// slow links affects it.
    fn broken(&self, harmed: &[bool]) -> Vec<Broken> {
        // With a fault, a rumour can be lost with the node that it started at.
        let is_complete = self.latencies_ms.len() as f64 >= self.deliveries();
        let all_are_well = !harmed.contains(&true);
        Broken::unless(is_complete || !all_are_well, "every rumour reaches every node", || {
            format!("{} of {} deliveries", self.latencies_ms.len(), self.deliveries())
        })
        .into_iter()
        .collect()
    }

    fn metrics(&self) -> RumourMetrics {
        let delivered = self.latencies_ms.len() as f64;
        RumourMetrics {
            delivery_ratio: delivered / self.deliveries(),
            delivery_latency_ms: Statistics::of(&self.latencies_ms),
            lower_bound_ms: self.lower_bound_ms,
            duplication_factor: self.copies as f64 / delivered,
            missing_deliveries: (self.deliveries() - delivered) as u64,
        }
    }
}

impl Experiment for Spread {
    type App = PushPull;
    type Measured = Measurements;

    fn plan(plan: &Plan<'_>) -> Result<Self, Problem> {
        let (spec, parameters): (&Rumours, &Parameters) = (plan.scenario.part(), plan.scenario.part());
        let wrong = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
        if parameters.round.nanos() == 0 {
            return wrong("protocol.round", "is 0 s; expected more than zero");
        }
        if !(1..=RUMOURS_MAX).contains(&spec.count) {
            return wrong("rumours.count", &format!("is {}; allowed is 1 to {RUMOURS_MAX}", spec.count));
        }
        if spec.interval > INTERVAL_MAX {
            return wrong("rumours.interval", &format!("is {}; at most {INTERVAL_MAX}", spec.interval));
        }
        let bounds = plan.lower_bounds_ms(Plan::frame_bytes("rumours.size", spec.size)?);
        Ok(Self {
            spec: spec.clone(),
            parameters: parameters.clone(),
            nodes: plan.nodes(),
            lower_bound_ms: bounds.iter().sum::<f64>() / bounds.len().max(1) as f64,
            latencies_ms: Vec::new(),
            delivered: Vec::new(),
            copies: 0,
            heard: BTreeSet::new(),
        })
    }

    fn hosts(&self) -> NodeFactory<PushPull> {
        let (round, rumour_bytes) = (self.parameters.round.duration(), self.spec.size.bytes() as usize);
        Arc::new(move |_| {
            let node = PushPull { round, rumour_bytes, peers: Vec::new(), known: Default::default() };
            let lanes = vec![LaneConfig::unbounded("gossip", 0)];
            (node, Outbox::new(OutboxConfig { dispatch: Dispatch::PerLink, lanes }))
        })
    }

    fn codec(&self) -> Option<FramesCodec<PushPull>> {
        Some(Arc::new(Postcard))
    }

    fn start(&mut self, commands: &mut Commands<PushPull>) {
        for rumour in 0..self.spec.count {
            commands.at(self.start_of(rumour), rumour % self.nodes, rumour);
        }
    }

    fn observe(&mut self, record: Record<Heard>, _: &mut Commands<PushPull>) {
        self.copies += 1;
        let Heard { number, is_new } = record.event;
        // A node that restarts hears rumours again, also its own.
        let is_first = number % self.nodes != record.host && self.heard.insert((record.host, number));
        if is_new && is_first {
            let nanos = record.at.as_nanos() - self.start_of(number).as_nanos();
            self.latencies_ms.push(nanos as f64 / 1e6);
            self.delivered.push(Delivered {
                node: record.host,
                item: number.into(),
                from: None,
                origin: Origin { host: number % self.nodes, at: self.start_of(number).as_nanos() },
                at: record.at.as_nanos(),
                made_of: None,
                is_last: true,
                after: Cause::Processor,
            });
        }
    }

    fn contents(&self) -> Option<ContentsOf<Gossip>> {
        Some(Box::new(|frame, _| match frame {
            Gossip::Rumour { number, .. } => {
                let item = u64::from(*number);
                Contents { items: [item].into_iter().collect(), batch: Some(item), ..Contents::default() }
            }
            Gossip::Have { .. } => Contents::default(),
        }))
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.delivered.clone()
    }

    fn progress(&self, now: Time) -> Progress {
        let is_late = now > self.start_of(self.spec.count).plus_nanos(30_000_000_000);
        let share = if is_late { 1.0 } else { self.latencies_ms.len() as f64 / self.deliveries() };
        Progress { share, ..Progress::default() }
    }

    fn measured(self, world: &mut dyn World<PushPull>) -> Result<Measurements, RunError> {
        let (point, _) = world.setting();
        let harmed = network::harmed(&point.scenario, point.seed);
        let measured = Measurements::new(world, &self.metrics(), self.broken(&harmed))?;
        // With classes of nodes, the page has a row for each.
        let latency = |one: &Delivered| (one.node, (one.at - one.origin.at) as f64 / 1e6);
        let latencies = self.delivered.iter().map(latency);
        Ok(measured.by_class(|figures| figures.distribution("delivery_latency_ms", latencies)))
    }
}

/// Draws a small scenario for `samara torture`.
fn draw(draw: &mut Draw) -> bool {
    draw.network(2..=20);
    draw.topology();
    let all = ["tcp", "quic", "ideal"];
    let transport = if draw.has("network.loss") { "tcp" } else { draw.pick(&all) };
    draw.set("transport.kind", transport);
    let (count, round) = (draw.number(1..=20), draw.millis(50.0, 500.0));
    draw.set("rumours.count", count);
    draw.set("protocol.round", round);
    let kinds = ["crash", "vanish", "slow", "withhold"];
    let most = draw.nodes() / 3;
    draw.faults(&kinds, (0.0, 5.0), most);
    true
}

const FAMILY: Family = Family {
    spec: &FamilySpec {
        section: "rumours",
        content: PartType::of::<Rumours>(),
        protocols: &[ProtocolKind::of::<Parameters>("push-pull")],
        unused: &[NO_CHANNELS, NO_UNSENT],
        check: check::<Spread>,
        ..FamilySpec::BASE
    },
    metrics: RumourMetrics::METRICS,
    runs: |_| Runs::of::<Spread>(),
    page: &PAGE,
    draw,
    ..Family::BASE
};

fn main() -> ExitCode {
    samara::Cli::new().family(FAMILY).run()
}
