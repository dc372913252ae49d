//! Tests of the loader with an experiment of their own.

mod layers;
mod reads;

use std::cell::Cell;
use std::sync::Once;

use samara_document::{Inputs, ScenarioError};
use samara_scenario::family::{self, FamilySpec, NoParameters, PartType, ProtocolKind};
use samara_scenario::{Loaded, Overrides, load_source};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The section of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Work {
    #[serde(deserialize_with = "counted")]
    size: u32,
    title: Option<String>,
}

thread_local! {
    /// Number of times that the section was read.
    static READS: Cell<usize> = const { Cell::new(0) };
}

fn counted<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    READS.set(READS.get() + 1);
    u32::deserialize(source)
}

static WORK: FamilySpec = FamilySpec {
    section: "work",
    content: PartType::of::<Work>(),
    protocols: &[ProtocolKind::of::<NoParameters>("none")],
    ..FamilySpec::BASE
};

fn load(text: &str, overrides: &Overrides) -> Result<Loaded, ScenarioError> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| family::register(&WORK));
    load_source("s.toml", text, Inputs::default(), overrides)
}

fn set(keys: &[(&str, &str)]) -> Overrides {
    let set = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Overrides { set, ..Overrides::default() }
}
