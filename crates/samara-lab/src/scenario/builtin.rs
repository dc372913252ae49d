//! Scenarios that come along.

use super::ScenarioFile;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

const SCENARIOS: &[(&str, &str)] = scenarios![
    "peerdas",
    "peerdas-bandwidth",
    "peerdas-blobs",
    "peerdas-10k",
    "peerdas-mixed",
    "peerdas-reference",
];

/// A scenario that comes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// One line that says what it shows.
    pub title: String,
    /// The file.
    pub text: &'static str,
}

/// The text of a scenario that comes along.
pub fn text(name: &str) -> Option<&'static str> {
    SCENARIOS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all scenarios that come along.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// All scenarios that come along.
///
/// # Panics
/// Never: tests plan all of them.
pub fn list() -> Vec<Builtin> {
    let builtin = |(name, text): &(&'static str, &'static str)| {
        let plan = ScenarioFile::builtin(name).expect("it is in the list").plan();
        let title = plan.expect("scenarios that come along are right").scenario.scenario.title;
        Builtin { name, title, text }
    };
    SCENARIOS.iter().map(builtin).collect()
}

/// The name that was probably meant.
pub fn closest(name: &str) -> Option<&'static str> {
    super::suggest::closest(name, &names().collect::<Vec<_>>())
}
