//! The built-in scenarios.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The name of the scenario on the command line.
    pub name: &'static str,
    pub text: &'static str,
}

impl Builtin {
    pub fn title(&self) -> String {
        let table: Option<toml::Table> = self.text.parse().ok();
        let title = table.and_then(|table| Some(table.get("scenario")?.get("title")?.as_str()?.to_owned()));
        title.unwrap_or_default()
    }
}

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("../scenarios/", $name, ".toml")) }),*]
    };
}

/// All built-in scenarios.
pub fn builtins() -> &'static [Builtin] {
    scenarios! {
        "peerdas", "peerdas-bandwidth", "peerdas-blobs", "peerdas-10k", "peerdas-100k", "peerdas-mixed",
        "peerdas-reference", "peerdas-small",
        "gossip-study", "gossip-study-real", "gossip-baselines", "gossip-parameters",
        "cat", "cat-band", "cat-measured", "cat-measured-tcp", "cat-rate", "cat-real", "cat-timeout",
        "cat-size", "cat-degree", "cat-mixed", "cat-churn", "cat-adversary", "cat-1000",
        "ring", "ring-rounds", "ring-churn", "ring-latency", "ring-senders", "ring-members", "ring-size",
        "ring-switch", "ring-hour", "ring-federation", "ring-federation-churn",
        "mix-window", "mix", "mix-pool", "mix-team", "mix-batch", "mix-real",
    }
}

/// The built-in scenario with this name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().iter().find(|builtin| builtin.name == name)
}
