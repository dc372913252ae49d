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
        family::of(&self.table()).map_or("", |family| family.section)
    }
}

/// Declares the built-in scenarios of a family, each with its [cost](Builtin::cost). They are files in
/// the folder `scenarios` of its crate, with the names of the scenarios.
#[macro_export]
macro_rules! scenarios {
    ($($name:literal $cost:literal),* $(,)?) => {
        &[$($crate::Builtin {
            name: $name,
            cost: $cost,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $name, ".toml")),
        }),*]
    };
}

/// Returns all built-in scenarios, those of a family one after another.
pub fn builtins() -> Vec<&'static Builtin> {
    family::all().into_iter().flat_map(|family| family.scenarios).collect()
}

/// Returns the built-in scenario with this name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().into_iter().find(|builtin| builtin.name == name)
}
