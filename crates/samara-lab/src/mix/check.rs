//! Values of relays that cannot be.

use crate::scenario::{Checks, Mix, Scenario, TransportKind};

/// Nodes of a pool: all have links to all others.
const POOL_MAX: u32 = 128;
/// Slots of a run: payloads are moved through all nodes of a team, and those of a stock are kept.
const SLOTS_MAX: u64 = 100_000_000;
/// Slots of a round, so that those of a phase in one message stay below 2^30 bytes.
const BATCH_MAX: u32 = 500_000;
/// Cores of a node.
const CORES_MAX: u32 = 256;
/// The least part of a core: what the kernel can keep a process to (1 ms of a period of 100 ms).
const PROCESSOR_MIN: f64 = 0.01;

impl Checks<'_> {
    pub(crate) fn mix(&mut self, scenario: &Scenario) {
        if scenario.transport.kind != TransportKind::Grpc {
            self.wrong("transport.kind", "teams mix over kind = \"grpc\"".to_owned());
        }
        self.amounts(scenario, scenario.part());
    }

    fn amounts(&mut self, scenario: &Scenario, mix: &Mix) {
        let problems = self.problems.len();
        self.range("network.nodes", scenario.network.nodes, 2, POOL_MAX);
        self.range("mix.batch", mix.batch, 1, BATCH_MAX);
        self.range("mix.rounds", mix.rounds, 1, 100_000);
        self.range("mix.cores", mix.cores, 1, CORES_MAX);
        self.range("mix.stock", mix.stock(), 0, mix.rounds);
        let processor = mix.processor.fraction();
        if !(PROCESSOR_MIN..=1.0).contains(&processor) {
            self.wrong("mix.processor", format!("found \"{}\", expected 1 % to 100 %", mix.processor));
        }
        if self.problems.len() > problems {
            return;
        }
        let slots = u64::from(mix.batch) * u64::from(mix.rounds);
        if slots > SLOTS_MAX {
            let most = SLOTS_MAX / u64::from(mix.batch);
            self.wrong("mix.rounds", format!("has {slots} slots in all; with this batch at most {most}"));
        }
        if let Some(error) = scenario.mix_config().validate().err() {
            let key = match error.field {
                "pool" => "network.nodes".to_owned(),
                "reconnect" => "protocol.reconnect_limit".to_owned(),
                field => {
                    let field = field.split(',').next().unwrap_or(field);
                    let own = ["teams", "team", "batch", "group", "rounds"].contains(&field);
                    format!("{}.{field}", if own { "mix" } else { "protocol" })
                }
            };
            self.wrong(&key, format!("found {}, expected {}", error.found, error.expected));
        }
    }
}
