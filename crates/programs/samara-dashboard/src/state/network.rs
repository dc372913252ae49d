//! Links, queues, throughput, errors, and pings around teams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use samara_trace::live::Event;
use serde_json::{Value, json};

use super::{View, ms_or_null, short};

/// Maximum number of remembered links, of queues, of counters and of error causes.
const KEPT_MAX: usize = 4096;
/// Maximum number of shown links. The slowest ones are shown.
const LINKS_SHOWN: usize = 64;
/// Maximum number of shown queues. The longest ones are shown.
const QUEUES_SHOWN: usize = 32;
/// Maximum number of past values that are shown.
const HISTORY: usize = 60;
/// Rates are measured over this time in nanoseconds, if the values span as much.
const RATE_NS: u64 = 5_000_000_000;

/// Named values, each reported by a source for a node. At most [`KEPT_MAX`].
#[derive(Debug)]
struct Claims<V>(BTreeMap<(Claim, String), V>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    node: String,
    source: String,
}

impl<V> Default for Claims<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: Default> Claims<V> {
    /// Returns the value of a name, which is created if there is room.
    fn entry(&mut self, claim: Claim, name: &str) -> Option<&mut V> {
        let key = (claim, short(name));
        if self.0.len() >= KEPT_MAX && !self.0.contains_key(&key) {
            return None;
        }
        Some(self.0.entry(key).or_default())
    }

    fn forget(&mut self, source: &str) {
        self.0.retain(|(claim, _), _| claim.source != source);
    }

    /// The rows of a table. If it has more than `max`, those with the highest ranks.
    fn rows<R: Ord>(
        &self,
        max: usize,
        rank: impl Fn(&V) -> R,
        row: impl Fn(&Claim, &str, &V) -> Value,
    ) -> Value {
        let mut shown: Vec<_> = self.0.iter().collect();
        if shown.len() > max {
            shown.sort_by_key(|(_, value)| std::cmp::Reverse(rank(value)));
            shown.truncate(max);
        }
        let rows = shown.into_iter().map(|((claim, name), value)| row(claim, name, value));
        json!({ "all": self.0.len(), "rows": rows.collect::<Vec<_>>() })
    }
}

/// All values that sources report about links and nodes.
#[derive(Debug, Default)]
pub(super) struct Network {
    links: Claims<Link>,
    queues: Claims<Queue>,
    counters: Claims<Counter>,
    errors: Claims<u64>,
}

#[derive(Debug, Default)]
struct Link {
    up: bool,
    round_trip_ns: Option<u64>,
    history: VecDeque<u64>,
    bytes_up: Totals,
    bytes_down: Totals,
    queued_frames: Option<u64>,
    queued_bytes: Option<u64>,
}

impl Link {
    /// Drops the values of a link that has gone. Its counts begin again.
    fn end(&mut self) {
        *self = Self { history: std::mem::take(&mut self.history), ..Self::default() };
    }
}

#[derive(Debug, Default)]
struct Queue {
    entries: u64,
    bytes: Option<u64>,
    most: u64,
    history: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Counter {
    count: Totals,
    bytes: Totals,
}

#[derive(Debug, Default)]
struct Totals(VecDeque<(u64, u64)>);

impl Network {
    pub(super) fn take(&mut self, source: &str, node: &str, at: u64, event: &Event) {
        let claim = Claim { node: node.to_owned(), source: source.to_owned() };
        match event {
            Event::Link { peer, up, round_trip_ns, bytes_up, bytes_down, queued_frames, queued_bytes } => {
                let Some(link) = self.links.entry(claim, peer) else { return };
                link.up = *up;
                if !*up {
                    link.end();
                }
                if let Some(took) = round_trip_ns {
                    link.round_trip_ns = Some(*took);
                    remember(&mut link.history, *took);
                }
                link.bytes_up.note(at, *bytes_up);
                link.bytes_down.note(at, *bytes_down);
                link.queued_frames = queued_frames.or(link.queued_frames);
                link.queued_bytes = queued_bytes.or(link.queued_bytes);
            }
            Event::Queue { queue, entries, bytes } => {
                let Some(known) = self.queues.entry(claim, queue) else { return };
                (known.entries, known.bytes, known.most) = (*entries, *bytes, known.most.max(*entries));
                remember(&mut known.history, *entries);
            }
            Event::Throughput { of, total, bytes } => {
                let Some(counter) = self.counters.entry(claim, of) else { return };
                counter.count.note(at, Some(*total));
                counter.bytes.note(at, *bytes);
            }
            Event::Errors { cause, total } => {
                self.errors.entry(claim, cause).into_iter().for_each(|known| *known = *total);
            }
            _ => {}
        }
    }

    /// Ends the links and the rates of a source that has stopped. Its totals stay.
    pub(super) fn finish(&mut self, source: &str) {
        for (_, counter) in self.counters.0.iter_mut().filter(|((claim, _), _)| claim.source == source) {
            counter.count.stop();
            counter.bytes.stop();
        }
        self.links
            .0
            .iter_mut()
            .filter(|((claim, _), _)| claim.source == source)
            .for_each(|(_, link)| link.end());
    }

    /// Ends the links of a source that are not among these.
    pub(super) fn end_other_links(&mut self, source: &str, peers: &BTreeSet<String>) {
        let of_source = self.links.0.iter_mut().filter(|((claim, _), _)| claim.source == source);
        of_source.filter(|((_, peer), _)| !peers.contains(peer)).for_each(|(_, link)| link.end());
    }

    pub(super) fn forget(&mut self, source: &str) {
        self.links.forget(source);
        self.queues.forget(source);
        self.counters.forget(source);
        self.errors.forget(source);
    }

    /// The latest round trip of a link, if it is up and was measured.
    fn round_trip(&self, from: &str, to: &str) -> Option<u64> {
        let of_node = self.links.0.iter().filter(|((claim, peer), _)| claim.node == from && peer == to);
        of_node.filter(|(_, link)| link.up).find_map(|(_, link)| link.round_trip_ns)
    }

    /// Nothing is known of the links of sources for which `is_silent`.
    pub(super) fn view(&self, view: &mut View, is_silent: impl Fn(&str) -> bool) {
        let links = |claim: &Claim, peer: &str, link: &Link| {
            let link = if is_silent(&claim.source) { None } else { Some(link) };
            let history = link.iter().flat_map(|link| &link.history);
            json!({
                "node": claim.node,
                "peer": peer,
                "up": link.map(|link| link.up),
                "round_trip_ms": ms_or_null(link.and_then(|link| link.round_trip_ns)),
                "history_ms": history.map(|took| ms_or_null(Some(*took))).collect::<Vec<_>>(),
                "up_bytes": link.and_then(|link| link.bytes_up.last()),
                "up_bytes_per_s": link.and_then(|link| link.bytes_up.rate()),
                "down_bytes": link.and_then(|link| link.bytes_down.last()),
                "down_bytes_per_s": link.and_then(|link| link.bytes_down.rate()),
                "queued_frames": link.and_then(|link| link.queued_frames),
                "queued_bytes": link.and_then(|link| link.queued_bytes),
            })
        };
        let queues = |claim: &Claim, name: &str, queue: &Queue| {
            json!({
                "node": claim.node,
                "queue": name,
                "entries": queue.entries,
                "bytes": queue.bytes,
                "most": queue.most,
                "history": queue.history,
            })
        };
        let errors = self.errors.0.iter().filter(|(_, total)| **total > 0);
        let errors: Vec<Value> = errors
            .map(|((claim, cause), total)| json!({ "node": claim.node, "cause": cause, "total": total }))
            .collect();
        // Null if no source counts errors, which differs from no errors.
        let errors = if self.errors.0.is_empty() { Value::Null } else { errors.into() };
        let links = self.links.rows(LINKS_SHOWN, |link| link.round_trip_ns, links);
        let queues = self.queues.rows(QUEUES_SHOWN, |queue| queue.entries, queues);
        let parts =
            [("links", links), ("queues", queues), ("throughput", self.throughput()), ("errors", errors)];
        view.extend(parts.map(|(name, part)| (name.to_owned(), part)));
    }

    /// Sums over all sources that count the same thing.
    fn throughput(&self) -> Value {
        let mut kinds: BTreeMap<&str, Vec<&Counter>> = BTreeMap::new();
        for ((_, of), counter) in &self.counters.0 {
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
                "total": sum(counters, |counter| counter.count.last().map(|total| total as f64)),
                "per_s": sum(counters, |counter| counter.count.rate()),
                "bytes_per_s": sum(counters, |counter| counter.bytes.rate()),
                "history": history(counters),
            })
        });
        rows.collect()
    }
}

/// Appends a value to a history of at most [`HISTORY`].
fn remember<T>(history: &mut VecDeque<T>, value: T) {
    history.push_back(value);
    if history.len() > HISTORY {
        history.pop_front();
    }
}

/// The rates between the reports of the first counter, summed over all counters with as many
/// reports.
fn history(counters: &[&Counter]) -> Vec<f64> {
    let all: Vec<Vec<f64>> = counters.iter().map(|counter| counter.count.rates()).collect();
    let len = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..len)
        .map(|step| all.iter().map(|steps| steps[steps.len() - len + step]).sum::<f64>().round())
        .collect()
}

fn per_s(count: u64, ns: u64) -> f64 {
    count as f64 * 1e9 / ns.max(1) as f64
}

impl Totals {
    /// Records a total, if it is known.
    fn note(&mut self, at: u64, total: Option<u64>) {
        let Some(total) = total else { return };
        match self.0.back_mut() {
            // A total never decreases, so this is a new count.
            Some(last) if total < last.1 => self.0.clear(),
            Some(last) if last.0 >= at => {
                last.1 = total;
                return;
            }
            _ => {}
        }
        self.0.push_back((at, total));
        if self.0.len() > HISTORY + 1 {
            self.0.pop_front();
        }
    }

    /// Keeps the total, which grows no more.
    fn stop(&mut self) {
        if let Some((at, total)) = self.0.pop_back() {
            self.0.clear();
            self.0.extend([(at, total), (at.saturating_add(RATE_NS), total)]);
        }
    }

    fn last(&self) -> Option<u64> {
        self.0.back().map(|(_, total)| *total)
    }

    /// The growth over the last seconds, or `None` before the second value.
    fn rate(&self) -> Option<f64> {
        let (at, total) = *self.0.back()?;
        let from = self.0.iter().rev().skip(1).take_while(|(then, _)| at - then <= RATE_NS).last();
        let (then, before) = *from.or_else(|| self.0.iter().rev().nth(1))?;
        Some(per_s(total - before, at - then))
    }

    fn rates(&self) -> Vec<f64> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.map(|((a, before), (b, after))| per_s(*after - *before, *b - *a)).collect()
    }
}

/// Maximum number of remembered loops. Teams change over time.
const LOOPS_MAX: usize = 64;
/// Maximum number of shown loops. The latest ones are shown.
const LOOPS_SHOWN: usize = 8;

/// Pings around teams, by the members of the team.
#[derive(Debug, Default)]
pub(super) struct Pings(BTreeMap<Vec<String>, Loop>);

#[derive(Debug, Default)]
struct Loop {
    last_at: u64,
    /// Time of the latest ping that returned, in nanoseconds.
    took: Option<u64>,
    history: VecDeque<Option<u64>>,
    back: u64,
    lost: u64,
}

impl Pings {
    pub(super) fn take(&mut self, members: &[String], at: u64, took: Option<u64>) {
        let members: Vec<String> = members.iter().take(64).map(|member| short(member)).collect();
        let ping = self.0.entry(members).or_default();
        ping.last_at = at;
        match took {
            Some(took) => (ping.took, ping.back) = (Some(took), ping.back + 1),
            None => ping.lost += 1,
        }
        remember(&mut ping.history, took);
        if self.0.len() > LOOPS_MAX {
            let oldest =
                self.0.iter().min_by_key(|(_, ping)| ping.last_at).map(|(members, _)| members.clone());
            oldest.map(|members| self.0.remove(&members));
        }
    }

    /// Each loop with the round trips of its links.
    pub(super) fn view(&self, network: &Network) -> Value {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|a, b| b.1.last_at.cmp(&a.1.last_at).then(a.0.cmp(b.0)));
        let ways = all.into_iter().take(LOOPS_SHOWN).map(|(members, ping)| {
            let next = members.iter().cycle().skip(1);
            let links = members.iter().zip(next).map(|(from, to)| {
                let round_trip = network.round_trip(from, to).or_else(|| network.round_trip(to, from));
                json!({ "from": from, "to": to, "round_trip_ms": ms_or_null(round_trip) })
            });
            json!({
                "members": members,
                "loop_ms": ms_or_null(ping.took),
                "history_ms": ping.history.iter().map(|took| ms_or_null(*took)).collect::<Vec<_>>(),
                "back": ping.back,
                "lost": ping.lost,
                "links": links.collect::<Vec<_>>(),
            })
        });
        ways.collect()
    }
}
