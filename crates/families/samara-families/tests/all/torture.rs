//! The search for broken promises.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Once};

use samara_document::Inputs;
use samara_engine::outbox::{Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, Outbox, PeerId, Time};
use samara_lab::expect::Expectation;
use samara_lab::experiment::{Commands, Experiment, Measurements, Plan, Problem, World, check};
use samara_lab::explain::Mode;
use samara_lab::family::{Family, Runs, register};
use samara_lab::network;
use samara_lab::results::{Measured, Outcome};
use samara_lab::run::{Progress, RunError, Watch, WatchRun, run_all};
use samara_lab::torture::{Broken, Draw, Options, Source, Tally, Violation, search};
use samara_scenario::family::{FamilySpec, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind};
use samara_scenario::{Overrides, Point};
use samara_sim::{App, NodeFactory, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load_source;

fn tortured(what: &str, runs: u64, seed: u64) -> (Tally, Vec<Violation>) {
    samara_families::register();
    searched(&Source::named(Some(what)).unwrap()[0], runs, seed)
}

fn searched(source: &Source, runs: u64, seed: u64) -> (Tally, Vec<Violation>) {
    let options = Options {
        runs,
        time: None,
        seed,
        threads: 2,
        goes_on: false,
        shrinks: true,
        stop: &AtomicBool::new(false),
    };
    let found = Mutex::new(Vec::new());
    let tally = search(source, &options, &|_, violation| found.lock().unwrap().extend(violation.cloned()));
    (tally, found.into_inner().unwrap())
}

#[test]
fn families_keep_their_promises() {
    for family in ["columns", "messages", "pool", "group", "mix"] {
        let (tally, violations) = tortured(family, 12, 1);
        assert!(violations.is_empty(), "{family}: {}", violations[0].text);
        assert_eq!((tally.runs, tally.repeated), (12, 1), "{family}");
        assert!(
            tally.faults > 0 && tally.frames > 0 && tally.virtual_nanos > 1_000_000_000,
            "{family}: {tally:?}"
        );
        // The same seed gives the same runs.
        assert_eq!(tortured(family, 12, 1).0, tally, "{family}");
    }
}

// ---- an experiment that breaks a promise with four nodes or more, one of which crashes ----

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Keys {
    count: u32,
}

#[derive(Clone)]
struct Nothing;

impl Frame for Nothing {
    fn encoded_len(&self) -> usize {
        10
    }

    fn payload_len(&self) -> usize {
        10
    }
}

struct Node {
    panics: bool,
    /// Whether its invariant forbids links.
    is_alone: bool,
    links: u32,
}

impl Engine for Node {
    type Frame = Nothing;
    type Command = ();
    type Event = ();

    fn handle(&mut self, input: Input<Nothing, ()>, cx: &mut Context<'_, Nothing, ()>) {
        if let Input::LinkUp { peer: peer @ PeerId(_), .. } = input {
            assert!(!self.panics, "a fault of the protocol");
            self.links += 1;
            let now = cx.now();
            let _ = cx.outbox().owe(now, peer, Lane(0), Nothing, None, None);
        }
    }

    fn assert_invariants(&self, _: &Outbox<Nothing>) {
        assert!(!self.is_alone || self.links == 0, "a node without neighbours has {} links", self.links);
    }
}

samara_lab::metrics! {
    /// Figures of a run.
    pub struct Figures {
        /// Number of nodes.
        pub nodes: u32 = "nodes", Neither, [];
    }
}

/// With this count, every node panics.
const PANICS: u32 = 1000;
/// With this count, every node breaks its invariant.
const BREAKS: u32 = 1001;

struct Fragile {
    nodes: u32,
    count: u32,
}

impl App for Node {
    type Counters = ();

    fn counters(&self) {}
}

impl Experiment for Fragile {
    type App = Node;
    type Measured = Measurements;

    fn plan(plan: &Plan<'_>) -> Result<Self, Problem> {
        Ok(Self { nodes: plan.nodes(), count: plan.scenario.part::<Keys>().count })
    }

    fn hosts(&self) -> NodeFactory<Node> {
        let lanes = || vec![LaneConfig::unbounded("all", 0)];
        let (panics, is_alone) = (self.count == PANICS, self.count == BREAKS);
        Arc::new(move |_| {
            let outbox = Outbox::new(OutboxConfig { dispatch: Default::default(), lanes: lanes() });
            (Node { panics, is_alone, links: 0 }, outbox)
        })
    }

    fn observe(&mut self, _: Record<()>, _: &mut Commands<Node>) {}

    fn progress(&self, now: Time) -> Progress {
        Progress { share: now.as_nanos() as f64 / 2e9, ..Progress::default() }
    }

    fn measured(self, world: &mut dyn World<Node>) -> Result<Measurements, RunError> {
        let (point, _) = world.setting();
        let harmed = network::harmed(&point.scenario, point.seed);
        let is_broken = self.nodes >= 4 && self.count >= 5 && harmed.contains(&true);
        let found =
            || format!("{} nodes, {} harmed", self.nodes, harmed.iter().filter(|harmed| **harmed).count());
        let broken = Broken::unless(!is_broken, "nothing breaks", found).into_iter().collect();
        Measurements::new(world, &Figures { nodes: self.nodes }, broken)
    }
}

fn draw(draw: &mut Draw) -> bool {
    draw.network(2..=20);
    draw.topology();
    if draw.has("network.loss") {
        draw.set("transport.kind", "quic");
    }
    let count = draw.number(1..=100);
    draw.set("fragile.count", count);
    let most = draw.nodes() / 2;
    draw.faults(&["crash", "slow"], (0.0, 2.0), most);
    true
}

const FAMILY: Family = Family {
    spec: &FamilySpec {
        section: "fragile",
        content: PartType::of::<Keys>(),
        protocols: &[ProtocolKind::of::<Keys>("fragile")],
        unused: &[NO_CHANNELS, NO_UNSENT],
        check: check::<Fragile>,
        ..FamilySpec::BASE
    },
    metrics: Figures::METRICS,
    runs: |_| Runs::of::<Fragile>(),
    draw,
    ..Family::BASE
};

/// Registers the experiment for all tests.
fn fragile() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| register(FAMILY));
}

struct Blind;

impl Watch for Blind {
    fn begin<'a>(&'a self, _: &'a Point) -> impl WatchRun + 'a {
        Self
    }
}

impl WatchRun for Blind {
    fn progress(&mut self, _: Progress) {}

    fn measured(&mut self, _: &dyn Measured, _: &Outcome) -> Result<(), String> {
        Ok(())
    }

    fn end(self, _: bool) {}
}

#[test]
fn a_protocol_that_panics_fails_its_run_and_is_named() {
    fragile();
    let text = format!(
        "[scenario]\nname = \"x\"\nseeds = [7]\n[network]\nnodes = 80\n[fragile]\ncount = {PANICS}\n"
    );
    let loaded = load_source("x.toml", &text, Inputs::default(), &Overrides::default()).unwrap();
    let error = run_all(&loaded, (2, Mode::Auto), &AtomicBool::new(false), &Blind).unwrap_err();
    let expected = "x.toml: run x: the protocol or the simulator has panicked with seed 7; ";
    assert!(error.starts_with(expected), "{error}");
}

/// Only torture checks invariants.
#[test]
fn a_broken_invariant_of_an_engine_is_found() {
    fragile();
    let text = format!(
        "[scenario]\nname = \"x\"\nseeds = [7]\n[network]\nnodes = 80\n[fragile]\ncount = {BREAKS}\n"
    );
    let loaded = load_source("x.toml", &text, Inputs::default(), &Overrides::default()).unwrap();
    run_all(&loaded, (2, Mode::Auto), &AtomicBool::new(false), &Blind).unwrap();
    let (_, violations) = searched(&Source::Scenario(Box::new(loaded)), 1, 1);
    let found = &violations[0].broken[0].found;
    assert!(found.contains("a node without neighbours has 1 links"), "{found}");
}

#[test]
fn unknown_metrics_of_an_experiment_with_few_are_followed_by_all() {
    fragile();
    let text =
        "[scenario]\nname = \"x\"\n[network]\nnodes = 80\n[fragile]\n[expect]\nincomplete = \"== 0\"\n";
    let loaded = load_source("x.toml", text, Inputs::default(), &Overrides::default()).unwrap();
    let error = Expectation::all_of(&loaded).unwrap_err();
    let expected = "scenarios with [fragile] have no metric \"incomplete\"; expected one of nodes";
    assert!(error.contains(&format!("{expected}\n")), "{error}");
}

#[test]
fn a_violation_is_made_as_small_as_possible() {
    fragile();
    let (tally, violations) = tortured("fragile", 200, 6);
    assert_eq!(violations.len(), 1, "the search ends with the first violation: {tally:?}");
    let smallest: toml::Table = violations[0].text.parse().unwrap();
    assert_eq!(smallest["network"]["nodes"].as_integer(), Some(4), "{}", violations[0].text);
    assert_eq!(smallest["fragile"]["count"].as_integer(), Some(5));
    let faults = smallest["fault"].as_array().unwrap();
    assert_eq!((faults.len(), faults[0]["kind"].as_str()), (1, Some("crash")));
    assert!(!smallest.contains_key("transport") || smallest["transport"].as_table().unwrap().is_empty());
    assert!(smallest["scenario"]["description"].as_str().unwrap().contains("nothing breaks"));
    // The kept file repeats it.
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fragile.toml");
    std::fs::write(&file, &violations[0].text).unwrap();
    let (tally, again) = tortured(file.to_str().unwrap(), 1, 1);
    assert_eq!((tally.runs, again.len()), (1, 1));
    assert_eq!(again[0].smallest[0].promise, "nothing breaks");
}

#[test]
fn unknown_names_are_refused() {
    samara_families::register();
    let error = Source::named(Some("colums")).unwrap_err();
    assert!(error.contains("The families are columns, messages, pool, group, mix"), "{error}");
}

/// Cuts below the least timeout of the family, resets and replaced connections are no harm.
#[test]
fn links_that_break_for_a_moment_harm_nobody() {
    let harmed = |section: &str, fault: &str| {
        let text = format!(
            "[scenario]\nname = \"x\"\n[network]\nnodes = 8\n{section}\n[[fault]]\nat = \"13 s\"\nnodes = [3]\n{fault}\n"
        );
        let loaded = load_source("x.toml", &text, Inputs::default(), &Overrides::default())
            .unwrap_or_else(|error| panic!("{error}"));
        samara_lab::network::harmed(&loaded.points[0].scenario, 1)
    };
    let nobody = vec![false; 8];
    let mut third = nobody.clone();
    third[3] = true;
    let group = "[transport]\nkind = \"tcp\"\n[protocol]\nkind = \"ring\"\n[group]";
    let messages = "[network.topology]\nkind = \"full-mesh\"\n[messages]";
    for section in [group, messages] {
        for kind in ["reset", "reconnect"] {
            assert_eq!(harmed(section, &format!("kind = \"{kind}\"")), nobody, "{section} {kind}");
        }
        assert_eq!(harmed(section, "kind = \"crash\""), third, "{section}");
    }
    let cut = |until: &str| format!("kind = \"cut\"\nuntil = \"{until}\"\npeers = [4]");
    // A member is suspected after half a second, and TCP gives up after 40 s.
    assert_eq!(harmed(group, &cut("13.4 s")), nobody);
    assert_eq!(harmed(group, &cut("13.6 s")), third);
    assert_eq!(harmed(messages, &cut("14 s")), nobody);
}

/// Small segments share frames that answer an IWANT, and packets of a stream: a copy then takes fewer
/// bytes than a frame that travels alone.
#[test]
fn bounds_hold_for_segments_that_travel_together() {
    let broken = |transport: &str, more: &str| {
        let text = format!(
            "[scenario]\nname = \"x\"\nseeds = [5394619384860002043]\n\
             [network]\nnodes = 3\ndownlink = \"6154809 bit/s\"\nlatency = \"155 us\"\n\
             topology = {{ kind = \"barabasi-albert\", attachments = 2 }}\n\
             [transport]\nkind = \"{transport}\"\n\
             [protocol]\nkind = \"gossipsub\"\npreset = \"go-libp2p-pubsub\"\nheartbeat = \"300 ms\"\n\
             gossip_to_pruned = true\n\
             [columns]\ncount = 16\nslots = 2\nslot_interval = \"3 s\"\nwarm_up = \"4 s\"\n\
             pieces = {{ size = \"111 B\" }}\n{more}"
        );
        let loaded = load_source("x.toml", &text, Inputs::default(), &Overrides::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let (_, violations) = searched(&Source::Scenario(Box::new(loaded)), 1, 1);
        violations.into_iter().map(|violation| violation.text).next()
    };
    let reset = "[[fault]]\nkind = \"reset\"\nat = \"6705 ms\"\nnodes = [0]\n";
    for transport in ["tcp", "quic", "grpc"] {
        assert_eq!(broken(transport, ""), None, "{transport}");
        assert_eq!(broken(transport, reset), None, "{transport}, with a reset");
    }
}

/// A hub prunes a leaf that has no other link. Without gossip to pruned peers, the leaf depends on gossip
/// to peers drawn at random, and nobody promises that a message comes.
#[test]
fn a_leaf_that_a_hub_turns_away_is_promised_nothing() {
    let violations = |gossip_to_pruned: bool| {
        let text = format!(
            "[scenario]\nname = \"x\"\nseeds = [639546078324974181]\n\
             [network]\nnodes = 14\ntopology = {{ kind = \"barabasi-albert\", attachments = 1 }}\n\
             [protocol]\nkind = \"gossipsub\"\ndegree = 3\ndegree_score = 0\n\
             gossip_to_pruned = {gossip_to_pruned}\n\
             [messages]\nrate = 7.97\nsize = \"4 B\"\nwarm_up = \"4 s\"\nduration = \"1109 ms\"\n\
             cool_down = \"20 s\"\narrivals = \"poisson\"\n"
        );
        let loaded = load_source("x.toml", &text, Inputs::default(), &Overrides::default())
            .unwrap_or_else(|error| panic!("{error}"));
        searched(&Source::Scenario(Box::new(loaded)), 1, 1).1.len()
    };
    assert_eq!([true, false].map(violations), [0, 0]);
}
