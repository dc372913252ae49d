//! A family for tests of what all families share: its runs have tables, and simulate nothing.

use samara_document::Inputs;
use samara_scenario::family::{FamilySpec, NoParameters, PartType, ProtocolKind};
use samara_scenario::{Loaded, Overrides, Point, load_source};
use serde::Serialize;
use serde_json::json;

use crate::family::{Family, set_base};
use crate::metric::{Better, Metric};
use crate::network::{self, Hosts};
use crate::results::tables::{Table, distribution};
use crate::results::{Data, Measured, Outcome};

const TEXT: &str = r#"
scenario = { name = "toy", title = "Runs that simulate nothing" }
network.nodes = 4

[toy]

[[run]]
name = "first"

[[run]]
name = "batch"
set = { "network.latency" = "20 ms" }
"#;

static SPEC: FamilySpec = FamilySpec {
    section: "toy",
    content: PartType::of::<NoParameters>(),
    protocols: &[ProtocolKind::of::<NoParameters>("none")],
    ..FamilySpec::BASE
};

static FAMILY: Family = Family { spec: &SPEC, metrics: &METRICS, ..Family::BASE };

/// Loads these runs, or all of them.
pub(crate) fn loaded(only: &[&str]) -> Loaded {
    set_base(&[&FAMILY]);
    let only = only.iter().map(|run| (*run).to_owned()).collect();
    let overrides = Overrides { only, ..Overrides::default() };
    load_source("toy.toml", TEXT, Inputs::default(), &overrides).expect("a valid scenario")
}

/// Loads the text of a scenario with `[toy]`.
pub(crate) fn loaded_text(text: &str) -> Loaded {
    set_base(&[&FAMILY]);
    load_source("toy.toml", text, Inputs::default(), &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Toy {
    point: Point,
    hosts: Hosts,
    values: [Vec<(f64, f64)>; 4],
}

impl Toy {
    pub(crate) fn new(point: &Point) -> Self {
        let hosts = network::hosts(&point.scenario, &Inputs::default(), 4, 1).expect("hosts without files");
        Self { point: point.clone(), hosts, values: [1.0, 2.0, 3.0, 4.0].map(|value| vec![(value, 0.5)]) }
    }
}

#[derive(Clone, Debug, Serialize)]
struct ToyMetrics {
    value: f64,
}

static METRICS: [Metric; 1] = [Metric {
    name: "value",
    unit: "",
    better: Some(Better::Less),
    headlines: &[""],
    is_distribution: false,
    meaning: "A value.",
}];

struct ToyData(ToyMetrics);

impl Data for ToyData {
    type Metrics = ToyMetrics;

    fn metrics(&self) -> &ToyMetrics {
        &self.0
    }
}

impl Measured for Toy {
    fn setting(&self) -> (&Point, &Hosts) {
        (&self.point, &self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let data = ToyData(ToyMetrics { value: 1.0 });
        Outcome::new(&self.point, (1, 2), ("size", json!(3)), data, false)
    }

    fn tables<'a>(&'a self, _: &'a Outcome) -> Vec<Table<'a>> {
        let names = ["first", "second", "third", "fourth"];
        names
            .into_iter()
            .zip(&self.values)
            .map(|(name, values)| distribution(name, "value", values))
            .collect()
    }
}
