//! Measures the times of work on this machine: a team in memory does it, outside of any simulation.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use samara_engine::Shape;
use samara_engine::{Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerInfo, Purpose, Time};
use samara_mix::{
    Batch, Command, Config, Event, Group, MixFrame, Node, Plan, Secret, Sender, SenderId, Transfer,
};
use samara_sim::identity_of;

use super::spec::{CostsKind, Mix, PhaseCosts, WorkKind};
use crate::scenario::{Loaded, RunSpec};
use samara_engine::units::Span;
use samara_scenario::ScenarioError;

/// Nodes of the team: a last one, and another.
const TEAM: u32 = 2;
/// Slots of a round, and rounds: a second of work or less in the smaller group.
const BATCH: u32 = 64;
const ROUNDS: u64 = 2;
/// The quantile of the times of equal work: other programs make them longer, nothing makes them
/// shorter.
const LOW: f64 = 0.2;

impl Loaded {
    /// Whether [`measure_costs`](Self::measure_costs) has something to do.
    pub fn wants_costs(&self) -> bool {
        let wants = |mix: Option<&Mix>| mix.is_some_and(|mix| mix.costs == CostsKind::Measured);
        wants(self.scenario.find()) || self.points.iter().any(|point| wants(point.scenario.find()))
    }

    /// Measures the times of work on this machine where the scenario asks for it, and writes them
    /// into the scenario as if they had been given: a second run does the same. Returns what it
    /// measured; `None` if the scenario asks for nothing.
    ///
    /// # Errors
    /// Single runs ask for it, or runs of several groups: the scenario could not say which times
    /// belong to which.
    pub fn measure_costs(&mut self) -> Result<Option<PhaseCosts>, ScenarioError> {
        if !self.wants_costs() {
            return Ok(None);
        }
        let refuse = |message: &str| Err(ScenarioError::one(&self.source, format!("mix.costs: {message}")));
        let groups =
            || self.points.iter().filter_map(|point| point.scenario.find::<Mix>()).map(|mix| mix.group);
        let is_one = groups().all(|group| Some(group) == groups().next());
        let (Some(mix), Some(group), true) = (self.scenario.find::<Mix>(), groups().next(), is_one) else {
            return refuse("\"measured\" belongs to a scenario whose runs all have one group");
        };
        let has_own = |run: &RunSpec| run.set.contains_key("mix.costs");
        if mix.costs != CostsKind::Measured || self.scenario.runs.iter().any(has_own) {
            return refuse("\"measured\" belongs to the whole scenario, not to a run");
        }
        let costs = measure(group);
        let points = self.points.iter_mut().map(|point| &mut point.scenario);
        for mix in points.chain([&mut self.scenario]).filter_map(|scenario| scenario.find_mut::<Mix>()) {
            mix.costs = CostsKind::Documented;
            costs.iter().for_each(|(kind, span)| _ = mix.cpu.entry(*kind).or_insert(*span));
        }
        self.write()?;
        Ok(Some(costs))
    }
}

/// Nodes, and what is on its way to them.
struct Bench {
    nodes: Vec<(Node, Outbox<MixFrame>, NodeRng)>,
    inputs: VecDeque<(usize, Input<MixFrame, Command>)>,
    /// Seconds by kind of work: for each job, of a slot where it has slots.
    took: BTreeMap<WorkKind, Vec<f64>>,
}

/// Measures the times of work on one core of this machine, for some seconds at most. On a busy
/// machine they are too long.
fn measure(group: Group) -> PhaseCosts {
    // The model has the lengths of the smaller group.
    let group = if group == Group::Model { Group::Modp2048 } else { group };
    let config = Config {
        pool: (0..TEAM).map(identity_of).collect(),
        scheduler: identity_of(TEAM),
        group,
        team: TEAM as usize,
        batch: BATCH,
        jobs_max: 1,
        ..Config::default()
    };
    let mut bench = Bench::new(&config);
    let sender = sender(group);
    for round in 0..ROUNDS {
        bench.round(&config, &sender, round);
    }
    let span = |(kind, mut took): (WorkKind, Vec<f64>)| {
        took.sort_by(f64::total_cmp);
        let low = took[(took.len() as f64 * LOW) as usize];
        // Whole nanoseconds, and three digits: more is noise.
        let nanos = low * 1e9;
        let digit = 10_f64.powf((nanos.log10().floor() - 2.0).max(0.0));
        Some((kind, Span::parse(&format!("{} ns", (nanos / digit).round() * digit)).ok()?))
    };
    bench.took.into_iter().filter_map(span).collect()
}
const SENDER: SenderId = SenderId([1; 32]);

fn shared(node: u32) -> Secret {
    Secret::new([node as u8; 32])
}

fn sender(group: Group) -> Sender {
    let mut sender = Sender::new(group, SENDER);
    (0..TEAM).for_each(|node| sender.register(node, shared(node)));
    sender
}

impl Bench {
    fn new(config: &Config) -> Self {
        let node = |number: u32| {
            let Ok(node) = Node::new(config.clone(), number, Secret::new([number as u8; 32])) else {
                unreachable!("the configuration is possible")
            };
            (node, Outbox::new(config.outbox()), NodeRng::new(1, number.into(), Purpose::Engine))
        };
        let nodes = (0..TEAM).map(node).collect();
        let mut bench = Self { nodes, inputs: VecDeque::new(), took: BTreeMap::new() };
        for host in 0..TEAM {
            bench.input(host, Input::Start);
            for other in (0..=TEAM).filter(|other| *other != host) {
                bench.nodes[host as usize].1.link_up(PeerId(other));
                let info = PeerInfo {
                    identity: identity_of(other),
                    outbound: true,
                    address: None,
                    protocol: "".into(),
                };
                bench.input(host, Input::LinkUp { peer: PeerId(other), info });
            }
            let register = Command::Register { sender: SENDER, secret: shared(host) };
            bench.input(host, Input::Command(register));
        }
        bench
    }

    fn input(&mut self, host: u32, input: Input<MixFrame, Command>) {
        self.inputs.push_back((host as usize, input));
    }

    /// Sends a frame of the scheduler to all nodes.
    fn say(&mut self, frame: &MixFrame) {
        for host in 0..TEAM {
            self.input(host, Input::Frame { peer: PeerId(TEAM), frame: frame.clone() });
        }
    }

    fn round(&mut self, config: &Config, sender: &Sender, round: u64) {
        let plan = Plan {
            round,
            team: (0..TEAM).collect(),
            batch: BATCH,
            precomputation_slots: config.precomputation_slots,
            realtime_slots: config.precomputation_slots,
            transfer: Transfer::Streamed,
            shape: Shape::Direct,
        };
        let content = vec![7; config.group.content_bytes()];
        let seal = |slot: u32| {
            let mut salt = [0; 32];
            salt[..4].copy_from_slice(&slot.to_be_bytes());
            sender.seal(round, &plan.team, salt, &content).ok()
        };
        let sealed: Vec<_> = (0..BATCH).filter_map(seal).collect();
        self.say(&MixFrame::Create(plan.into()));
        self.run();
        self.say(&MixFrame::Queued { round });
        if let Ok(batch) = Batch::new(&sealed) {
            self.input(0, Input::Command(Command::Mix { round, batch }));
        }
        self.run();
        self.say(&MixFrame::End { round, failure: None });
        self.run();
    }

    /// Runs until nothing is left to do. Frames arrive at once, and this thread does all work.
    fn run(&mut self) {
        while let Some((host, input)) = self.inputs.pop_front() {
            let mut effects = Effects::default();
            let (node, outbox, rng) = &mut self.nodes[host];
            node.handle(input, &mut Context::new(Time::ZERO, rng, outbox, &mut effects));
            while let Some(copy) = outbox.pop(Time::ZERO, |_| true) {
                if copy.peer.0 < TEAM {
                    let input = Input::Frame { peer: PeerId(host as u32), frame: copy.frame };
                    self.inputs.push_back((copy.peer.index(), input));
                }
            }
            for event in effects.events {
                if let Event::Compute(job) = event {
                    let (kind, slots) = (WorkKind::of(&job), job.slots().max(1));
                    let start = Instant::now();
                    let done = job.run();
                    let took = start.elapsed().as_secs_f64() / f64::from(slots);
                    self.took.entry(kind).or_default().push(took);
                    self.inputs.push_back((host, Input::Command(Command::Computed(done))));
                }
            }
        }
    }
}
