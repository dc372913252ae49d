//! Links, queues, throughput and errors.

use std::collections::{BTreeMap, VecDeque};

use samara_trace::live::Event;
use serde_json::{Value, json};

use super::{View, ms_or_null, short};

/// Links, queues, counters and causes that are remembered, each.
const KEPT_MAX: usize = 4096;
/// Links that are shown: the slowest ones, if there are more.
const LINKS_SHOWN: usize = 64;
/// Queues that are shown: the longest ones, if there are more.
const QUEUES_SHOWN: usize = 32;
/// Values of the past that are shown.
const HISTORY: usize = 60;
/// Rates are of so much time, if there is as much.
const RATE_NS: u64 = 5_000_000_000;

/// By source and node: what a source says of a node is its claim.
#[derive(Debug, Default)]
pub(super) struct Network {
    links: BTreeMap<(Claim, String), Link>,
    queues: BTreeMap<(Claim, String), Queue>,
    counters: BTreeMap<(Claim, String), Counter>,
    errors: BTreeMap<(Claim, String), u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    node: String,
    source: String,
}

#[derive(Debug, Default)]
struct Link {
    up: bool,
    round_trip_ns: Option<u64>,
    history: Vec<u64>,
    bytes_up: Counter,
    bytes_down: Counter,
    queued_frames: Option<u64>,
    queued_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct Queue {
    entries: u64,
    bytes: Option<u64>,
    most: u64,
    history: Vec<u64>,
}

/// A total, as it was said.
#[derive(Debug, Default)]
struct Counter {
    said: VecDeque<(u64, u64)>,
    bytes: VecDeque<(u64, u64)>,
}

impl Network {
    pub(super) fn take(&mut self, source: &str, node: &str, at: u64, event: &Event) {
        let claim = Claim { node: node.to_owned(), source: source.to_owned() };
        match event {
            Event::Link { peer, up, round_trip_ns, bytes_up, bytes_down, queued_frames, queued_bytes } => {
                let Some(link) = entry(&mut self.links, (claim, short(peer))) else { return };
                link.up = *up;
                if let Some(took) = round_trip_ns {
                    link.round_trip_ns = Some(*took);
                    remember(&mut link.history, *took);
                }
                let count = |counter: &mut Counter, total: &Option<u64>| {
                    total.iter().for_each(|total| counter.say(at, *total));
                };
                count(&mut link.bytes_up, bytes_up);
                count(&mut link.bytes_down, bytes_down);
                link.queued_frames = queued_frames.or(link.queued_frames);
                link.queued_bytes = queued_bytes.or(link.queued_bytes);
            }
            Event::Queue { queue, entries, bytes } => {
                let Some(known) = entry(&mut self.queues, (claim, short(queue))) else { return };
                (known.entries, known.bytes, known.most) = (*entries, *bytes, known.most.max(*entries));
                remember(&mut known.history, *entries);
            }
            Event::Throughput { of, total, bytes } => {
                let Some(counter) = entry(&mut self.counters, (claim, short(of))) else { return };
                counter.say(at, *total);
                bytes.iter().for_each(|bytes| counter.say_bytes(at, *bytes));
            }
            Event::Errors { cause, total } => {
                entry(&mut self.errors, (claim, short(cause))).into_iter().for_each(|known| *known = *total);
            }
            _ => {}
        }
    }

    pub(super) fn forget(&mut self, source: &str) {
        self.links.retain(|(claim, _), _| claim.source != source);
        self.queues.retain(|(claim, _), _| claim.source != source);
        self.counters.retain(|(claim, _), _| claim.source != source);
        self.errors.retain(|(claim, _), _| claim.source != source);
    }

    /// The latest round trip of a link, if it is there and was measured.
    pub(super) fn round_trip(&self, from: &str, to: &str) -> Option<u64> {
        let of_node = self.links.iter().filter(|((claim, peer), _)| claim.node == from && peer == to);
        of_node.filter(|(_, link)| link.up).find_map(|(_, link)| link.round_trip_ns)
    }

    pub(super) fn view(&self, view: &mut View) {
        view.insert("links".to_owned(), self.links_view());
        view.insert("queues".to_owned(), self.queues_view());
        view.insert("throughput".to_owned(), self.throughput_view());
        let errors = self.errors.iter().filter(|(_, total)| **total > 0);
        let errors: Vec<Value> = errors
            .map(|((claim, cause), total)| json!({ "node": claim.node, "cause": cause, "total": total }))
            .collect();
        // Nobody has said that there are none: that is not the same as that there are none.
        let errors = if self.errors.is_empty() { Value::Null } else { errors.into() };
        view.insert("errors".to_owned(), errors);
    }

    fn links_view(&self) -> Value {
        let mut links: Vec<_> = self.links.iter().collect();
        if links.len() > LINKS_SHOWN {
            links.sort_by_key(|(_, link)| std::cmp::Reverse(link.round_trip_ns));
            links.truncate(LINKS_SHOWN);
        }
        let rows: Vec<Value> = links
            .into_iter()
            .map(|((claim, peer), link)| {
                json!({
                    "node": claim.node,
                    "peer": peer,
                    "up": link.up,
                    "round_trip_ms": ms_or_null(link.round_trip_ns),
                    "history_ms": link.history.iter().map(|took| ms_or_null(Some(*took))).collect::<Vec<_>>(),
                    "up_bytes": link.bytes_up.total(),
                    "up_bytes_per_s": link.bytes_up.per_s(),
                    "down_bytes": link.bytes_down.total(),
                    "down_bytes_per_s": link.bytes_down.per_s(),
                    "queued_frames": link.queued_frames,
                    "queued_bytes": link.queued_bytes,
                })
            })
            .collect();
        json!({ "all": self.links.len(), "rows": rows })
    }

    fn queues_view(&self) -> Value {
        let mut queues: Vec<_> = self.queues.iter().collect();
        if queues.len() > QUEUES_SHOWN {
            queues.sort_by_key(|(_, queue)| std::cmp::Reverse(queue.entries));
            queues.truncate(QUEUES_SHOWN);
        }
        let rows: Vec<Value> = queues
            .into_iter()
            .map(|((claim, name), queue)| {
                json!({
                    "node": claim.node,
                    "queue": name,
                    "entries": queue.entries,
                    "bytes": queue.bytes,
                    "most": queue.most,
                    "history": queue.history,
                })
            })
            .collect();
        json!({ "all": self.queues.len(), "rows": rows })
    }

    /// By what is counted, added up over all who count it.
    fn throughput_view(&self) -> Value {
        let mut kinds: BTreeMap<&str, Vec<&Counter>> = BTreeMap::new();
        for ((_, of), counter) in &self.counters {
            kinds.entry(of).or_default().push(counter);
        }
        let sum = |counters: &[&Counter], value: fn(&Counter) -> Option<f64>| {
            let known: Vec<f64> = counters.iter().filter_map(|counter| value(counter)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let rows = kinds.iter().map(|(of, counters)| {
            json!({
                "of": of,
                "sources": counters.len(),
                "total": sum(counters, |counter| counter.total().map(|total| total as f64)),
                "per_s": sum(counters, Counter::per_s),
                "bytes_per_s": sum(counters, |counter| rate(&counter.bytes)),
                "history": history(counters),
            })
        });
        rows.collect()
    }
}

/// What is known under a key, or room for it if there is any.
fn entry<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K) -> Option<&mut V> {
    if map.len() >= KEPT_MAX && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

fn remember(history: &mut Vec<u64>, value: u64) {
    history.push(value);
    if history.len() > HISTORY {
        history.remove(0);
    }
}

/// Rates between the times at which the first counter was said, over all counters that were said as often.
fn history(counters: &[&Counter]) -> Vec<f64> {
    let steps = |counter: &Counter| -> Vec<f64> {
        let pairs = counter.said.iter().zip(counter.said.iter().skip(1));
        pairs.map(|((a, before), (b, after))| per_s(*after - *before, *b - *a)).collect()
    };
    let all: Vec<Vec<f64>> = counters.iter().map(|counter| steps(counter)).collect();
    let len = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..len)
        .map(|step| all.iter().map(|steps| steps[steps.len() - len + step]).sum::<f64>().round())
        .collect()
}

fn per_s(count: u64, ns: u64) -> f64 {
    count as f64 * 1e9 / ns.max(1) as f64
}

impl Counter {
    fn say(&mut self, at: u64, total: u64) {
        say(&mut self.said, at, total);
    }

    fn say_bytes(&mut self, at: u64, total: u64) {
        say(&mut self.bytes, at, total);
    }

    fn total(&self) -> Option<u64> {
        self.said.back().map(|(_, total)| *total)
    }

    fn per_s(&self) -> Option<f64> {
        rate(&self.said)
    }
}

fn say(said: &mut VecDeque<(u64, u64)>, at: u64, total: u64) {
    match said.back_mut() {
        // Totals only grow: this is another count.
        Some(last) if total < last.1 => said.clear(),
        Some(last) if last.0 >= at => {
            last.1 = total;
            return;
        }
        _ => {}
    }
    said.push_back((at, total));
    if said.len() > HISTORY + 1 {
        said.pop_front();
    }
}

/// The growth over the last seconds. Nothing before there are two values.
fn rate(said: &VecDeque<(u64, u64)>) -> Option<f64> {
    let (at, total) = *said.back()?;
    let from = said.iter().rev().skip(1).take_while(|(then, _)| at - then <= RATE_NS).last();
    let (then, before) = *from.or_else(|| said.iter().rev().nth(1))?;
    Some(per_s(total - before, at - then))
}
