//! Values of transactions and their pools that cannot be.

use samara_cat::config::{Announce, Parameters, key_of};
use samara_cat::pool::{Admission, CheckKind, Verdict};
use samara_cat::{Cat, Preset, Transaction};

use super::spec;
use crate::pool::app::HEADER_BYTES;
use crate::scenario::{Checks, FlushSpec, Scenario, Transactions, TransportKind};

/// Transactions of a run: what is known of each and of its deliveries is kept in memory.
const TRANSACTIONS_MAX: f64 = 10_000_000.0;
/// Deliveries of a run: a bit for each transaction and node is kept in memory.
const DELIVERIES_MAX: f64 = 1e11;

impl Checks<'_> {
    pub(crate) fn pool(&mut self, scenario: &Scenario) {
        let (transactions, cat): (&Transactions, &Parameters) = (scenario.part(), scenario.part());
        let largest = spec::config(scenario).pool.max_tx_bytes as u64;
        self.range("pool.size", transactions.size.bytes(), HEADER_BYTES as u64, largest);
        self.range("pool.priorities", transactions.priorities, 1, u32::MAX);
        self.starts_after_links("pool.warm_up", transactions.warm_up, scenario);
        self.arrivals(scenario, transactions);
        self.blocks(transactions, cat);
        self.cat(scenario, transactions);
        self.connection(scenario);
    }

    fn arrivals(&mut self, scenario: &Scenario, transactions: &Transactions) {
        match transactions.rate {
            Some(rate) if !(rate > 0.0 && rate.is_finite()) => {
                self.wrong("pool.rate", format!("is {rate}; it must be above 0 transactions a second"));
                return;
            }
            Some(_) => {
                let given =
                    [("clients", transactions.clients.is_some()), ("spread", transactions.spread.is_some())];
                for (key, _) in given.into_iter().filter(|(_, given)| *given) {
                    self.wrong(
                        &format!("pool.{key}"),
                        "belongs to clients, and there is a rate; keep one of them",
                    );
                }
            }
            None => {
                if transactions.arrivals.is_some() {
                    self.wrong("pool.arrivals", "belongs to a rate; clients submit after blocks");
                }
                if let Some(clients) = transactions.clients {
                    self.range("pool.clients", clients, 1, 10_000_000);
                }
                if transactions.block_interval.nanos() == 0 {
                    self.wrong(
                        "pool.block_interval",
                        "is 0, no blocks; clients wait for blocks: give it a time, or use a rate",
                    );
                    return;
                }
            }
        }
        let count = transactions.count_max();
        let deliveries = count * f64::from(scenario.network.nodes);
        if !(1.0..=TRANSACTIONS_MAX).contains(&count) || deliveries > DELIVERIES_MAX {
            self.wrong(
                "pool.duration",
                format!(
                    "is {}, up to {count} transactions; allowed is 1 to {TRANSACTIONS_MAX}, and {DELIVERIES_MAX} deliveries",
                    transactions.duration
                ),
            );
        }
    }

    fn blocks(&mut self, transactions: &Transactions, cat: &Parameters) {
        if transactions.block_size < transactions.size && transactions.block_interval.nanos() > 0 {
            self.wrong(
                "pool.block_size",
                format!("is {}; a transaction has {}", transactions.block_size, transactions.size),
            );
        }
        if transactions.block_gas.is_some_and(|most| most < u64::from(transactions.gas)) {
            self.wrong("pool.block_gas", format!("is less than the {} of a transaction", transactions.gas));
        }
        let (interval, consensus) = (transactions.block_interval, transactions.consensus);
        if consensus.nanos() > 0 && consensus >= interval {
            self.wrong(
                "pool.consensus",
                format!("is {consensus}; a block is committed before the next is proposed, after {interval}"),
            );
        }
        if cat.compact_blocks == Some(true) && consensus.nanos() == 0 {
            self.wrong(
                "pool.consensus",
                "is 0, with protocol.compact_blocks; compact blocks need time to spread before their commit, for example \"1 s\"",
            );
        }
        if transactions.invalid.fraction() >= 1.0 {
            self.wrong("pool.invalid", format!("is {}; it must be below 100 %", transactions.invalid));
        }
    }

    fn cat(&mut self, scenario: &Scenario, transactions: &Transactions) {
        let cat: &Parameters = scenario.part();
        let application = |_: &Transaction, _: CheckKind| Verdict::Accept(Admission::default());
        if let Err(error) = Cat::new(spec::config(scenario), &samara_sim::identity_of(0), application) {
            let key =
                key_of(error.field).map_or_else(|| "protocol".to_owned(), |key| format!("protocol.{key}"));
            let message = format!("found {}, expected {} ({})", error.found, error.expected, error.field);
            self.wrong(&key, message);
        }
        if cat.sticky_peers.is_some() && cat.announce.is_some_and(|announce| announce != Announce::Sticky) {
            self.wrong("protocol.sticky_peers", "belongs to announce = \"sticky\"");
        }
        if cat.bundle_txs.is_some() && cat.bundle_window.is_none_or(|window| window.nanos() == 0) {
            self.wrong("protocol.bundle_txs", "needs a bundle_window");
        }
        let presets = transactions.groups.iter().filter_map(|group| group.preset);
        if !transactions.signed && presets.chain([cat.preset]).any(|preset| preset == Preset::Cat2026) {
            self.wrong("pool.signed", "is false; the pool of 2026 takes no announcements without signer");
        }
        let shares: f64 = transactions.groups.iter().map(|group| group.share.fraction()).sum();
        if shares > 1.0 + 1e-9 {
            self.wrong("pool.group", format!("the shares add up to {:.4} %; at most 100 %", shares * 100.0));
        }
        for (i, group) in transactions.groups.iter().enumerate() {
            let key = format!("pool.group.{i}");
            match (group.preset, group.adversary) {
                (Some(_), Some(_)) => self.wrong(&key, "has a preset and an adversary; keep one of them"),
                (None, None) => self.wrong(&key, "needs a preset, or an adversary"),
                (Some(_), None) if group.rate.is_some() => {
                    self.wrong(&key, "rate belongs to an adversary");
                }
                _ => {}
            }
            if group.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e5)) {
                self.wrong(&key, "rate must be above 0 and at most 100000 a second");
            }
        }
        let hostile = transactions.groups.iter().filter(|group| group.adversary.is_some());
        let hostile: f64 = hostile.map(|group| group.share.fraction()).sum();
        if hostile * f64::from(scenario.network.nodes) > f64::from(scenario.network.nodes) - 2.0 {
            self.wrong("pool.group", "leaves fewer than 2 honest nodes");
        }
    }

    fn connection(&mut self, scenario: &Scenario) {
        let Some(spec) = &scenario.transport.connection else { return };
        if matches!(scenario.transport.kind, TransportKind::Quic | TransportKind::Grpc) {
            self.wrong(
                "transport.connection",
                "is a stream of bytes of its own; use kind = \"tcp\" or \"ideal\"",
            );
        }
        if spec.receive_rate.bps() > 0 && scenario.transport.kind == TransportKind::Ideal {
            self.wrong(
                "transport.connection.receive_rate",
                format!(
                    "is {}; the ideal transport has no window that a slow reader could close: use kind = \"tcp\", or 0",
                    spec.receive_rate
                ),
            );
        }
        if let Some(FlushSpec::Throttle(span)) = spec.flush
            && span.nanos() == 0
        {
            self.wrong("transport.connection.flush", "is 0; use \"when-idle\"");
        }
    }
}
