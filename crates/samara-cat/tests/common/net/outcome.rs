//! What came of a run.

use super::*;

impl Net {
    pub fn engine(&self, host: u32) -> &Cat<App> {
        match &self.hosts[host as usize].role {
            Role::Honest(engine) => engine,
            Role::Attacker { attack, .. } => panic!("an attacker ({attack:?}) was asked for its engine"),
        }
    }

    /// How many links are up.
    pub fn links(&self) -> usize {
        self.hosts.iter().map(|host| host.up.len()).sum::<usize>() / 2
    }

    pub fn hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    pub fn all_honest(&self) -> Vec<u32> {
        let is_honest = |host: &u32| matches!(self.hosts[*host as usize].role, Role::Honest(_));
        (0..self.hosts()).filter(is_honest).collect()
    }

    /// The sum of a counter over all honest nodes.
    pub fn sum(&self, of: impl Fn(&Metrics) -> u64) -> u64 {
        self.all_honest().into_iter().map(|host| of(self.engine(host).metrics())).sum()
    }

    /// Copies of bodies received per node and transaction.
    pub fn copies(&self) -> f64 {
        let pairs = self.all_honest().len() * self.submitted.len();
        self.sum(|metrics| metrics.bodies_received) as f64 / pairs as f64
    }

    /// Milliseconds from submission to each delivery, sorted; origins excluded.
    pub fn delays_ms(&self) -> Vec<f64> {
        let mut delays: Vec<f64> = Vec::new();
        for (key, at) in &self.submitted {
            let got = self.added.get(key).into_iter().flatten();
            delays.extend(
                got.map(|(_, added)| (*added - *at).as_secs_f64() * 1e3).filter(|delay| *delay > 0.0),
            );
        }
        delays.sort_by(f64::total_cmp);
        delays
    }

    pub fn median_ms(&self) -> f64 {
        let delays = self.delays_ms();
        delays[delays.len() / 2]
    }

    /// What has been submitted and has not reached some of these hosts.
    pub fn missing(&self, hosts: &[u32]) -> Vec<(TxKey, Vec<u32>)> {
        let lacks = |key: &TxKey| -> Vec<u32> {
            let got = self.added.get(key);
            hosts.iter().copied().filter(|host| got.is_none_or(|got| !got.contains_key(host))).collect()
        };
        self.submitted
            .keys()
            .map(|key| (*key, lacks(key)))
            .filter(|(_, lacking)| !lacking.is_empty())
            .collect()
    }

    pub fn assert_all_delivered(&self) {
        let missing = self.missing(&self.all_honest());
        assert!(
            missing.is_empty(),
            "{} of {} did not reach all: {:?}",
            missing.len(),
            self.submitted.len(),
            missing.first()
        );
    }

    /// Some transactions, submitted at random hosts at random times.
    pub fn submit_randomly(&mut self, count: u64, len: usize, within: Duration, hosts: &[u32]) {
        for number in 0..count {
            let at = Time::from_nanos(self.rng.below(within.as_nanos() as u64 + 1));
            let host = hosts[self.rng.index(hosts.len())];
            self.submit(at, host, &tx(number, len));
        }
    }
}
