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
    "peerdas" "21 s",
        "peerdas-bandwidth" "375 s",
        "peerdas-blobs" "860 s",
        "peerdas-links" "2300 s",
        "peerdas-methods" "52 s",
        "peerdas-10k" "100 s",
        "peerdas-100k" "270 s",
        "peerdas-mixed" "100 s",
        "peerdas-cells" "31 s",
        "peerdas-cells-upgrade" "61 s",
        "peerdas-cells-adversary" "68 s",
        "peerdas-cells-real" "8 s",
        "payload" "90 s",
        "payload-size" "130 s",
        "payload-uplink" "200 s",
        "payload-networks" "200 s",
        "payload-nodes" "635 s",
        "payload-faults" "370 s",
        "payload-geography" "740 s",
        "payload-real" "3 s",
        "rivals" "15 s",
        "peerdas-reference" "7 s",
        "peerdas-small" "< 1 s",
        "gossip-study" "1470 s",
        "gossip-study-real" "1 s",
        "gossip-baselines" "100 s",
        "gossip-parameters" "580 s",
        "messages-small" "< 1 s",
        "cat" "615 s",
        "cat-adr" "170 s",
        "cat-from" "540 s",
        "cat-late" "30 s",
        "cat-band" "370 s",
        "cat-measured" "140 s",
        "cat-measured-tcp" "< 1 s",
        "cat-rate" "5 s",
        "cat-real" "< 1 s",
        "cat-timeout" "375 s",
        "cat-size" "28 s",
        "cat-degree" "22 s",
        "cat-mixed" "11 s",
        "cat-churn" "10 s",
        "cat-adversary" "10 s",
        "cat-1000" "86 s",
        "cat-ideas" "190 s",
        "cat-limit" "380 s",
        "ring" "2 s",
        "ring-rounds" "< 1 s",
        "ring-churn" "3 s",
        "ring-latency" "5 s",
        "ring-senders" "5 s",
        "ring-members" "12 s",
        "ring-size" "3 s",
        "ring-switch" "7 s",
        "ring-hour" "69 s",
        "ring-federation" "5 s",
        "ring-federation-churn" "4 s",
        "mix-window" "22 s",
        "mix" "80 s",
        "mix-stream" "6 s",
        "mix-teams" "108 s",
        "mix-pool" "8 s",
        "mix-soak" "310 s",
        "mix-team" "197 s",
        "mix-batch" "46 s",
        "mix-real" "370 s",
        }
}

/// The built-in scenario with this name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().iter().find(|builtin| builtin.name == name)
}
