//! The built-in scenarios.

use crate::family;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The name of the scenario on the command line.
    pub name: &'static str,
    /// Processor time of one run of the scenario at full size, rounded: `.ci/scenarios` measures it.
    pub cost: &'static str,
    pub text: &'static str,
}

impl Builtin {
    fn table(&self) -> toml::Table {
        self.text.parse().unwrap_or_default()
    }

    /// Returns a text of the section `[scenario]`: `title` or `description`.
    pub fn about(&self, key: &str) -> String {
        let about =
            self.table().get("scenario").and_then(|about| about.get(key)?.as_str().map(str::to_owned));
        about.unwrap_or_default()
    }

    /// Returns the section that selects the experiment.
    pub fn section(&self) -> &'static str {
        let table = self.table();
        let sections = family::all().into_iter().map(|family| family.section);
        sections.into_iter().find(|section| table.contains_key(*section)).unwrap_or_default()
    }
}

macro_rules! scenarios {
    ($($name:literal $cost:literal),* $(,)?) => {
        &[$(Builtin {
            name: $name,
            cost: $cost,
            text: include_str!(concat!("../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All built-in scenarios, those of a family one after another.
pub fn builtins() -> &'static [Builtin] {
    scenarios! {
    "peerdas" "1 s",
        "peerdas-bandwidth" "1 s",
        "peerdas-blobs" "1 s",
        "peerdas-10k" "1 s",
        "peerdas-100k" "1 s",
        "peerdas-mixed" "1 s",
        "peerdas-reference" "1 s",
        "peerdas-small" "1 s",
        "gossip-study" "1 s",
        "gossip-study-real" "1 s",
        "gossip-baselines" "1 s",
        "gossip-parameters" "1 s",
        "cat" "1 s",
        "cat-band" "1 s",
        "cat-measured" "1 s",
        "cat-measured-tcp" "1 s",
        "cat-rate" "1 s",
        "cat-real" "1 s",
        "cat-timeout" "1 s",
        "cat-size" "1 s",
        "cat-degree" "1 s",
        "cat-mixed" "1 s",
        "cat-churn" "1 s",
        "cat-adversary" "1 s",
        "cat-1000" "1 s",
        "ring" "1 s",
        "ring-rounds" "1 s",
        "ring-churn" "1 s",
        "ring-latency" "1 s",
        "ring-senders" "1 s",
        "ring-members" "1 s",
        "ring-size" "1 s",
        "ring-switch" "1 s",
        "ring-hour" "1 s",
        "ring-federation" "1 s",
        "ring-federation-churn" "1 s",
        "mix-window" "1 s",
        "mix" "1 s",
        "mix-pool" "1 s",
        "mix-team" "1 s",
        "mix-batch" "1 s",
        "mix-real" "1 s",
        }
}

/// The built-in scenario with this name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().iter().find(|builtin| builtin.name == name)
}
