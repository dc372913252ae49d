//! The figures of a run, under the names of its machine-readable result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Delivery, Statistics};

/// What one node did on the wire during the whole run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct NodeTraffic {
    /// Bytes sent, with all headers and retransmissions.
    pub bytes_up: u64,
    /// Bytes received, with all headers.
    pub bytes_down: u64,
    /// Payload bytes of the frames sent.
    pub payload_up: u64,
    /// Other bytes of the frames sent.
    pub control_up: u64,
    /// Payload bytes of the frames received.
    pub payload_down: u64,
    /// Other bytes of the frames received.
    pub control_down: u64,
    /// Packets sent.
    pub packets_up: u64,
    /// Packets received.
    pub packets_down: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// How long the uplink was busy after the first publication, in nanoseconds.
    pub uplink_busy_nanos: u64,
    /// The longest that a packet waited for the downlink, in nanoseconds.
    pub downlink_wait_nanos: u64,
    /// Copies that did not leave because the peer turned out to have the message or left.
    pub copies_withdrawn: u64,
    /// Lost copies and packets, by cause.
    pub drops: Drops,
    /// Uplink rate in bits per second.
    pub uplink_bps: u64,
    /// Downlink rate in bits per second.
    pub downlink_bps: u64,
}

impl NodeTraffic {
    /// What was done since an earlier count. A host that started again in between has counted anew: what it did before is
    /// lost then.
    pub fn since(&self, before: &Self) -> Self {
        let minus = u64::saturating_sub;
        Self {
            bytes_up: minus(self.bytes_up, before.bytes_up),
            bytes_down: minus(self.bytes_down, before.bytes_down),
            payload_up: minus(self.payload_up, before.payload_up),
            control_up: minus(self.control_up, before.control_up),
            payload_down: minus(self.payload_down, before.payload_down),
            control_down: minus(self.control_down, before.control_down),
            packets_up: minus(self.packets_up, before.packets_up),
            packets_down: minus(self.packets_down, before.packets_down),
            retransmissions: minus(self.retransmissions, before.retransmissions),
            timeouts: minus(self.timeouts, before.timeouts),
            uplink_busy_nanos: minus(self.uplink_busy_nanos, before.uplink_busy_nanos),
            downlink_wait_nanos: self.downlink_wait_nanos,
            copies_withdrawn: minus(self.copies_withdrawn, before.copies_withdrawn),
            drops: self.drops.since(&before.drops),
            uplink_bps: self.uplink_bps,
            downlink_bps: self.downlink_bps,
        }
    }
}

/// What was lost, by cause: copies in queues of the outbox, packets in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Drops {
    /// Copies that a full queue of the outbox had no room for.
    pub queue_newest: u64,
    /// Copies that made room in a full queue of the outbox.
    pub queue_oldest: u64,
    /// Copies that a full queue of the outbox refused.
    pub queue_refused: u64,
    /// Copies whose deadline had passed before they left.
    pub expired: u64,
    /// Packets that a full downlink queue had no room for.
    pub downlink_full: u64,
    /// Packets dropped by controlled delay in the downlink queue.
    pub downlink_codel: u64,
    /// Packets lost at random.
    pub random_loss: u64,
    /// Packets that a partition stopped.
    pub partition: u64,
    /// Packets for hosts or links that were gone.
    pub stale: u64,
}

impl Drops {
    /// Copies lost in queues of the outbox.
    pub fn in_queues(&self) -> u64 {
        self.queue_newest + self.queue_oldest + self.queue_refused
    }

    fn since(&self, before: &Self) -> Self {
        let minus = u64::saturating_sub;
        Self {
            queue_newest: minus(self.queue_newest, before.queue_newest),
            queue_oldest: minus(self.queue_oldest, before.queue_oldest),
            queue_refused: minus(self.queue_refused, before.queue_refused),
            expired: minus(self.expired, before.expired),
            downlink_full: minus(self.downlink_full, before.downlink_full),
            downlink_codel: minus(self.downlink_codel, before.downlink_codel),
            random_loss: minus(self.random_loss, before.random_loss),
            partition: minus(self.partition, before.partition),
            stale: minus(self.stale, before.stale),
        }
    }

    fn add(&mut self, other: &Self) {
        self.queue_newest += other.queue_newest;
        self.queue_oldest += other.queue_oldest;
        self.queue_refused += other.queue_refused;
        self.expired += other.expired;
        self.downlink_full += other.downlink_full;
        self.downlink_codel += other.downlink_codel;
        self.random_loss += other.random_loss;
        self.partition += other.partition;
        self.stale += other.stale;
    }
}

/// Bytes of one direction, on average over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Bytes {
    /// The mean over all nodes.
    pub mean: f64,
    /// The largest of any node.
    pub max: f64,
    /// The publisher's.
    pub publisher: f64,
}

/// The figures of one slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlotMetrics {
    /// Counted from 0: the first one is published on cold connections.
    pub slot: u16,
    /// As for the run.
    pub time_to_custody_ms: Option<Statistics>,
    /// As for the run.
    pub incomplete: u64,
    /// As for the run.
    pub delivery_ratio: f64,
    /// As for the run.
    pub duplication_factor: f64,
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// From a publication until a node (publisher excluded) has all its columns; over nodes and slots that got there.
    pub time_to_custody_ms: Option<Statistics>,
    /// From a publication until a message reached the last of its subscribers; over messages that reached all.
    pub dissemination_ms: Option<Statistics>,
    /// From a publication to each delivery.
    pub delivery_latency_ms: Option<Statistics>,
    /// Links on the way of the last delivery of each message (LDH).
    pub last_delivery_hop: Option<Statistics>,
    /// Nodes (counted anew in every slot) that did not get all their columns.
    pub incomplete: u64,
    /// Deliveries, of those that should have been (MDR).
    pub delivery_ratio: f64,
    /// Copies received for each delivery, the first included.
    pub duplication_factor: f64,
    /// Copies received beyond those of a spanning tree, relative to it: `m / (n - 1) - 1` with `m` copies received by `n`
    /// nodes that have the message, publisher included (RMR of the Plumtree paper).
    pub relative_redundancy: f64,
    /// Bytes sent on the wire.
    pub bytes_up_per_node: Bytes,
    /// Bytes received from the wire.
    pub bytes_down_per_node: Bytes,
    /// The part of sent bytes that was payload.
    pub payload_share: f64,
    /// The part of sent bytes that was control traffic, framing and headers.
    pub control_share: f64,
    /// The part of received payload bytes that was a repetition.
    pub duplicate_share: f64,
    /// Copies that were lost in queues of the outbox.
    pub queue_drops: u64,
    /// Everything that was lost, by cause.
    pub drops: Drops,
    /// Copies that were owed and withdrawn before they left.
    pub copies_withdrawn: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// The part of the time from the first publication to the last delivery in which the uplink was busy.
    pub uplink_utilisation: Utilisation,
    /// Payload that a node got of each slot over its time to custody, in megabytes per second; the mean over nodes.
    pub throughput_mb_per_s: f64,
    /// The longest time without a delivery anywhere between the first and the last of a slot.
    pub longest_gap_ms: f64,
    /// The longest that a packet waited for a downlink.
    pub downlink_wait_ms_max: f64,
    /// What no schedule can fall below in the mean time to custody.
    pub lower_bound_ms: f64,
    /// The mean time to custody over the lower bound; absent while nodes are incomplete.
    pub share_of_bound: Option<f64>,
    /// The same, slot by slot.
    pub slots: Vec<SlotMetrics>,
}

/// How busy uplinks were, in `0..=1`.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Utilisation {
    /// The mean over all nodes.
    pub mean: f64,
    /// The publisher's.
    pub publisher: f64,
}

/// What metrics are computed from.
#[derive(Clone, Copy, Debug)]
pub struct Totals<'a> {
    /// By slot, node and column.
    pub deliveries: &'a [Delivery],
    /// By node.
    pub traffic: &'a [NodeTraffic],
    /// The publishing node.
    pub publisher: u32,
    /// How many slots.
    pub slots: u16,
    /// Payload bytes of a message.
    pub message_bytes: u64,
    /// Nanoseconds over which uplinks were watched.
    pub watched_nanos: u64,
    /// The lower bound.
    pub lower_bound_ms: f64,
}

/// A node's slot: complete after so long, or never.
struct Custody {
    slot: u16,
    after_ms: Option<f64>,
    columns: usize,
}

impl Totals<'_> {
    /// Computes all figures.
    pub fn metrics(&self) -> Metrics {
        let others = || self.deliveries.iter().filter(|delivery| delivery.node != self.publisher);
        let custody = self.custody();
        let awaited = others().count();
        let arrived = others().filter(|delivery| delivery.arrived()).count();
        let copies: u64 = others().map(|delivery| u64::from(delivery.copies)).sum();
        let time_to_custody_ms = Statistics::of(custody.iter().filter_map(|node| node.after_ms));
        let incomplete = custody.iter().filter(|node| node.after_ms.is_none()).count() as u64;
        let (dissemination, hops) = self.by_message();
        let mut drops = Drops::default();
        self.traffic.iter().for_each(|node| drops.add(&node.drops));
        let sum = |of: fn(&NodeTraffic) -> u64| self.traffic.iter().map(of).sum::<u64>() as f64;
        let share_of_bound = time_to_custody_ms
            .filter(|_| incomplete == 0 && self.lower_bound_ms > 0.0)
            .map(|time| time.mean / self.lower_bound_ms);
        Metrics {
            dissemination_ms: Statistics::of(dissemination),
            delivery_latency_ms: Statistics::of(others().filter_map(Delivery::after_ms)),
            last_delivery_hop: Statistics::of(hops),
            incomplete,
            delivery_ratio: ratio(arrived as f64, awaited as f64),
            duplication_factor: ratio(copies as f64, arrived as f64),
            relative_redundancy: self.relative_redundancy(),
            bytes_up_per_node: self.bytes(|node| node.bytes_up),
            bytes_down_per_node: self.bytes(|node| node.bytes_down),
            payload_share: ratio(sum(|node| node.payload_up), sum(|node| node.bytes_up)),
            control_share: 1.0 - ratio(sum(|node| node.payload_up), sum(|node| node.bytes_up)),
            duplicate_share: ratio(copies as f64 - arrived as f64, copies as f64),
            queue_drops: drops.in_queues(),
            drops,
            copies_withdrawn: self.traffic.iter().map(|node| node.copies_withdrawn).sum(),
            retransmissions: self.traffic.iter().map(|node| node.retransmissions).sum(),
            uplink_utilisation: self.utilisation(),
            throughput_mb_per_s: self.throughput(&custody),
            longest_gap_ms: self.longest_gap(),
            downlink_wait_ms_max: self.traffic.iter().map(|node| node.downlink_wait_nanos).max().unwrap_or(0)
                as f64
                / 1e6,
            lower_bound_ms: self.lower_bound_ms,
            share_of_bound,
            slots: self.by_slot(&custody),
            time_to_custody_ms,
        }
    }

    /// When each node (publisher excluded) had all its columns of each slot.
    fn custody(&self) -> Vec<Custody> {
        let same = |a: &Delivery, b: &Delivery| (a.slot, a.node) == (b.slot, b.node);
        self.deliveries
            .chunk_by(same)
            .filter(|own| own[0].node != self.publisher)
            .map(|own| Custody {
                slot: own[0].slot,
                after_ms: own
                    .iter()
                    .map(Delivery::after_ms)
                    .try_fold(0.0, |latest, after| after.map(|after| f64::max(latest, after))),
                columns: own.len(),
            })
            .collect()
    }

    /// For each message: when the last subscriber had it (if all have), and the hops of the last delivery.
    fn by_message(&self) -> (Vec<f64>, Vec<f64>) {
        struct Spread {
            last_ms: f64,
            hops: u16,
            all: bool,
        }
        let mut messages: BTreeMap<(u16, u16), Spread> = BTreeMap::new();
        for delivery in self.deliveries.iter().filter(|delivery| delivery.node != self.publisher) {
            let spread = messages.entry((delivery.slot, delivery.column)).or_insert(Spread {
                last_ms: -1.0,
                hops: 0,
                all: true,
            });
            match delivery.after_ms() {
                Some(after) if after > spread.last_ms => {
                    (spread.last_ms, spread.hops) = (after, delivery.hops);
                }
                Some(_) => {}
                None => spread.all = false,
            }
        }
        let spreads = || messages.values().filter(|spread| spread.last_ms >= 0.0);
        let dissemination = spreads().filter(|spread| spread.all).map(|spread| spread.last_ms).collect();
        (dissemination, spreads().map(|spread| f64::from(spread.hops)).collect())
    }

    fn relative_redundancy(&self) -> f64 {
        let mut messages: BTreeMap<(u16, u16), (u64, u64)> = BTreeMap::new();
        for delivery in self.deliveries {
            let (copies, nodes) = messages.entry((delivery.slot, delivery.column)).or_default();
            *copies += u64::from(delivery.copies);
            *nodes += u64::from(delivery.arrived() && delivery.node != self.publisher);
        }
        let each: Vec<f64> = messages
            .values()
            .filter(|(_, nodes)| *nodes > 0)
            .map(|(copies, nodes)| *copies as f64 / *nodes as f64 - 1.0)
            .collect();
        ratio(each.iter().sum(), each.len() as f64)
    }

    fn bytes(&self, of: fn(&NodeTraffic) -> u64) -> Bytes {
        let all = || self.traffic.iter().map(of);
        Bytes {
            mean: ratio(all().sum::<u64>() as f64, self.traffic.len() as f64),
            max: all().max().unwrap_or(0) as f64,
            publisher: self.traffic.get(self.publisher as usize).map_or(0, of) as f64,
        }
    }

    fn utilisation(&self) -> Utilisation {
        let of =
            |node: &NodeTraffic| ratio(node.uplink_busy_nanos as f64, self.watched_nanos as f64).min(1.0);
        Utilisation {
            mean: ratio(self.traffic.iter().map(of).sum(), self.traffic.len() as f64),
            publisher: self.traffic.get(self.publisher as usize).map_or(0.0, of),
        }
    }

    fn throughput(&self, custody: &[Custody]) -> f64 {
        let rates: Vec<f64> = custody
            .iter()
            .filter_map(|node| {
                let seconds = node.after_ms.filter(|after| *after > 0.0)? / 1e3;
                Some(node.columns as f64 * self.message_bytes as f64 / 1e6 / seconds)
            })
            .collect();
        ratio(rates.iter().sum(), rates.len() as f64)
    }

    fn longest_gap(&self) -> f64 {
        let mut longest = 0;
        for slot in self.deliveries.chunk_by(|a, b| a.slot == b.slot) {
            let arrived = |delivery: &&Delivery| delivery.arrived() && delivery.node != self.publisher;
            let mut times: Vec<u64> =
                slot.iter().filter(arrived).map(|delivery| delivery.after_nanos).collect();
            times.sort_unstable();
            longest = times.windows(2).map(|pair| pair[1] - pair[0]).fold(longest, u64::max);
        }
        longest as f64 / 1e6
    }

    fn by_slot(&self, custody: &[Custody]) -> Vec<SlotMetrics> {
        (0..self.slots)
            .map(|slot| {
                let own = || custody.iter().filter(move |node| node.slot == slot);
                let entries = || {
                    let others = |entry: &&Delivery| entry.slot == slot && entry.node != self.publisher;
                    self.deliveries.iter().filter(others)
                };
                let arrived = entries().filter(|entry| entry.arrived()).count() as f64;
                let copies = entries().map(|entry| f64::from(entry.copies)).sum();
                SlotMetrics {
                    slot,
                    time_to_custody_ms: Statistics::of(own().filter_map(|node| node.after_ms)),
                    incomplete: own().filter(|node| node.after_ms.is_none()).count() as u64,
                    delivery_ratio: ratio(arrived, entries().count() as f64),
                    duplication_factor: ratio(copies, arrived),
                }
            })
            .collect()
    }
}

/// A quotient, or 0 where there is nothing to divide by.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
