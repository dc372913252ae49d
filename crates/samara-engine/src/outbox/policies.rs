//! Scheduling policies that a program brings along; a scenario names them, and cannot hold them.

use std::collections::BTreeMap;

use super::{Custom, Policy};

/// Scheduling policies by the names that scenarios use: `schedule_publish = { kind = "custom", policy = "mine" }`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies(BTreeMap<String, Custom>);

impl Policies {
    /// With one more policy; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, policy: impl Policy + 'static) -> Self {
        self.0.insert(name.into(), Custom::new(policy));
        self
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The policy of a name.
    pub fn get(&self, name: &str) -> Option<Custom> {
        self.0.get(name).cloned()
    }
}
