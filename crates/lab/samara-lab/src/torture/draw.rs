//! Random scenarios.

use std::ops::RangeInclusive;

use samara_document::keys::{get, set_key};
use samara_engine::{NodeRng, Purpose};

/// A scenario that is being drawn. It depends only on the seed.
#[derive(Debug)]
pub struct Draw {
    rng: NodeRng,
    table: toml::Table,
    nodes: u32,
}

impl Draw {
    /// Starts a scenario with this seed. `name` is a name for files.
    pub fn new(name: &str, seed: u64) -> Self {
        let rng = NodeRng::new(seed, 0, Purpose::Workload);
        let mut draw = Self { rng, table: toml::Table::new(), nodes: 0 };
        draw.set("scenario.name", name);
        draw.set("scenario.title", "Drawn at random");
        // TOML has no numbers above `i64::MAX`.
        draw.set("scenario.seeds", vec![toml::Value::Integer((seed >> 1) as i64)]);
        draw
    }

    pub fn finish(self) -> toml::Table {
        self.table
    }

    /// Sets a key of the scenario, for example `network.loss`.
    ///
    /// # Panics
    /// If the key leads through a value that is not a table.
    pub fn set(&mut self, key: &str, value: impl Into<toml::Value>) {
        if let Err(error) = set_key(&mut self.table, key, value.into()) {
            unreachable!("{key}: {error}");
        }
    }

    pub fn has(&self, key: &str) -> bool {
        get(&self.table, key).is_some()
    }

    /// Returns the number of nodes, which [`network`](Self::network) draws.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.rng.chance(share)
    }

    /// Returns a number of the range; all are equally likely.
    pub fn number(&mut self, range: RangeInclusive<u32>) -> u32 {
        let (low, high) = range.into_inner();
        low + self.rng.below(u64::from(high - low) + 1) as u32
    }

    /// Returns one of the values.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.rng.index(values.len())].clone()
    }

    /// Returns a value between two positive ones; each factor is equally likely.
    pub fn factor(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + self.rng.unit() * (high.ln() - low.ln())).exp()
    }

    /// Returns a time in the form of a scenario, with a value between two positive ones in
    /// milliseconds.
    pub fn millis(&mut self, low: f64, high: f64) -> String {
        format!("{} us", (self.factor(low, high) * 1e3).round())
    }

    /// Sets a key with this probability to one of the values.
    pub fn maybe<V: Into<toml::Value> + Clone>(&mut self, share: f64, key: &str, values: &[V]) {
        if self.chance(share) {
            let value = self.pick(values);
            self.set(key, value);
        }
    }

    /// Draws the network: nodes, latencies, regions, rates, loss, queues. Returns the least rate of a
    /// node, in bits per second.
    pub fn network(&mut self, nodes: RangeInclusive<u32>) -> f64 {
        self.nodes = self.number(nodes);
        self.set("network.nodes", self.nodes);
        let uplink = (self.factor(2.0, 1000.0) * 1e6).round();
        let downlink = if self.chance(0.3) { (uplink * self.factor(0.2, 5.0)).round() } else { uplink };
        self.set("network.uplink", format!("{uplink} bit/s"));
        self.set("network.downlink", format!("{downlink} bit/s"));
        if self.chance(0.25) {
            self.regions();
        } else {
            let latency = self.millis(0.05, 200.0);
            self.set("network.latency", latency);
        }
        if self.chance(0.3) {
            let jitter = self.millis(0.1, 50.0);
            self.set("network.jitter", jitter);
        }
        if self.chance(0.3) {
            let loss = self.factor(0.01, 5.0);
            self.set("network.loss", format!("{loss:.3} %"));
        }
        let is_fifo = self.chance(0.15);
        if is_fifo {
            self.set("network.interface", "fifo");
        }
        if self.chance(0.5) {
            let mut queue = toml::Table::new();
            queue.insert("kind".to_owned(), "drop-tail".into());
            let bytes = self.factor(30e3, 10e6).round();
            queue.insert("size".to_owned(), format!("{bytes} B").into());
            self.set("network.downlink_queue", queue);
        } else if self.chance(0.2) {
            let fair = self.fair_queue();
            self.set("network.downlink_queue", fair);
        }
        if !is_fifo && self.chance(0.2) {
            let queue = if self.chance(0.5) {
                self.fair_queue()
            } else {
                let mut fifo = toml::Table::new();
                fifo.insert("kind".to_owned(), "fifo".into());
                fifo.insert("time".to_owned(), self.pick(&["30 ms", "300 ms", "2 s"]).into());
                fifo
            };
            self.set("network.uplink_queue", queue);
        }
        uplink.min(downlink)
    }

    fn fair_queue(&mut self) -> toml::Table {
        let mut queue = toml::Table::new();
        queue.insert("kind".to_owned(), "fq-codel".into());
        queue.insert("buckets".to_owned(), i64::from(self.number(1..=40)).into());
        queue
    }

    fn regions(&mut self) {
        let count = self.number(2..=3) as usize;
        let names: Vec<toml::Value> = (0..count).map(|region| format!("r{region}").into()).collect();
        let latency = (0..count).map(|_| {
            let row = (0..count).map(|_| self.millis(0.1, 200.0).into());
            toml::Value::Array(row.collect())
        });
        let latency: Vec<toml::Value> = latency.collect();
        self.set("network.regions.names", names);
        self.set("network.regions.weights", vec![toml::Value::Float(1.0); count]);
        self.set("network.regions.latency", latency);
    }

    /// Draws the graph of links, in which each node reaches all others.
    pub fn topology(&mut self) {
        let most = self.nodes - 1;
        match self.number(0..=3) {
            0 | 1 => self.set("network.topology.kind", "full-mesh"),
            2 => self.set("network.topology.kind", "ring"),
            _ => {
                self.set("network.topology.kind", "barabasi-albert");
                let attachments = self.number(1..=(most / 2).clamp(1, 6));
                self.set("network.topology.attachments", attachments);
            }
        }
    }

    /// Draws links that break for a moment within a range of time, in seconds of the run: cuts in one
    /// direction or both, for less than `most` milliseconds, resets, and connections that one end
    /// replaces before the other notices. They harm nobody.
    pub fn breaks(&mut self, (from, until): (f64, f64), most: f64) {
        for _ in 0..self.number(1..=3) {
            let kind = self.pick(&["cut", "reset", "reconnect"]);
            let mut fault = fault(kind, from + self.rng.unit() * (until - from));
            let host = self.number(0..=self.nodes - 1);
            fault.insert("nodes".to_owned(), vec![toml::Value::from(host)].into());
            if self.chance(0.6) {
                let peer = (host + self.number(1..=self.nodes - 1)) % self.nodes;
                fault.insert("peers".to_owned(), vec![toml::Value::from(peer)].into());
            }
            if kind == "cut" {
                let at = fault["at"].as_str().and_then(|at| at.split(' ').next()?.parse::<f64>().ok());
                let until = at.unwrap_or(0.0) + self.factor(10.0_f64.min(most / 2.0), most).floor();
                fault.insert("until".to_owned(), format!("{until} ms").into());
                if self.chance(0.6) {
                    let direction = self.pick(&["in", "out"]);
                    fault.insert("direction".to_owned(), direction.into());
                }
            }
            self.add(fault);
        }
    }

    /// Draws many connections that are reset or replaced within a range of time, in seconds of the run:
    /// some of them lose a request, an answer or a PRUNE, for which nobody is to blame.
    pub fn unstable_links(&mut self, (from, until): (f64, f64)) {
        for _ in 0..self.number(10..=40) {
            let kind = self.pick(&["reset", "reconnect"]);
            let mut fault = fault(kind, from + self.rng.unit() * (until - from));
            let host = self.number(0..=self.nodes - 1);
            fault.insert("nodes".to_owned(), vec![toml::Value::from(host)].into());
            self.add(fault);
        }
    }

    fn add(&mut self, fault: toml::Table) {
        // The ideal transport does not repeat what such faults lose.
        let loses = matches!(fault["kind"].as_str(), Some("cut" | "partition"));
        let transport = get(&self.table, "transport.kind").and_then(toml::Value::as_str);
        if loses && transport == Some("ideal") {
            self.set("transport.kind", "tcp");
        }
        let faults = self.table.entry("fault").or_insert_with(|| toml::Value::Array(Vec::new()));
        if let toml::Value::Array(faults) = faults {
            faults.push(fault.into());
        }
    }

    /// Draws faults of these kinds within a range of time, in seconds of the run. They affect at
    /// most `most` nodes in total, each once, and never node 0.
    pub fn faults(&mut self, kinds: &[&str], (from, until): (f64, f64), most: u32) {
        let mut victims: Vec<u32> = (1..self.nodes).collect();
        self.rng.shuffle(&mut victims);
        victims.truncate(most as usize);
        for _ in 0..self.number(0..=3) {
            let hit = victims.split_off(victims.len().saturating_sub(self.number(1..=2) as usize));
            if hit.is_empty() {
                return;
            }
            let kind = self.pick(kinds);
            let at = from + self.rng.unit() * (until - from);
            let mut fault = fault(kind, at);
            let hit: Vec<toml::Value> = hit.into_iter().map(toml::Value::from).collect();
            fault.insert("nodes".to_owned(), hit.into());
            if kind == "partition" || self.rng.chance(0.6) {
                let until = at * 1e3 + 50.0 + self.rng.unit() * (until - from) * 1e3;
                fault.insert("until".to_owned(), format!("{} ms", until.round()).into());
            }
            let factor = match kind {
                "slow" => 0.1 + 0.9 * self.rng.unit(),
                "flood" | "invent" => (1 + self.rng.below(8)) as f64,
                "withhold" | "replay" | "alter" | "claim" => 0.05 + 0.95 * self.rng.unit(),
                _ => 0.0,
            };
            if factor > 0.0 {
                fault.insert("factor".to_owned(), ((factor * 1e3).round() / 1e3).into());
            }
            self.add(fault);
        }
    }
}

/// Returns a fault that begins at a time in seconds.
fn fault(kind: &str, at: f64) -> toml::Table {
    let mut fault = toml::Table::new();
    fault.insert("kind".to_owned(), kind.into());
    fault.insert("at".to_owned(), format!("{} ms", (at * 1e3).round()).into());
    fault
}
