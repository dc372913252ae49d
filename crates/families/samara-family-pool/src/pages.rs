//! The report on transactions and their pools.

use samara_cat::config::Parameters;
use samara_document::keys::plain;
use samara_report::words::{factor, fixed, grouped, listed, number, percent, plural, short_ms};
use samara_report::{
    Bar, Bars, Drawing, Figure, Ink, Map, MapLine, Maps, Mark, Row as TableRow, Scale, Section, Swept, Table,
    Unit,
};
use samara_scenario::Scenario;

use super::metrics::{TransactionBytes, TransactionMetrics};
use super::outcome::PoolData;
use samara_lab::report::{self, Body, Causes, Column, Results, Runs, Shown, Value, of, spread};

type Row = Runs<PoolData>;
type Figures = [(&'static str, Value<PoolData>)];

type Kind = (&'static str, fn(&TransactionBytes) -> f64);

struct Report<'a> {
    results: &'a Results<'a, PoolData>,
    /// The circumstances of each run without its pool: transactions, network, connections, faults,
    /// and nodes with other pools.
    circumstances: Vec<Option<Scenario>>,
}

const COLUMNS: [&str; 12] = [
    "copies",
    "SeenTx",
    "WantTx",
    "p50",
    "p95",
    "p99",
    "kB",
    "kB wire",
    "saved",
    "early",
    "by block",
    "incomplete",
];

const LEGEND: &str = "Per node and transaction: bodies received (copies), announcements, requests; bytes in connections and on the wire.\n\
p50, p95, p99: from the submission until a node has it. Saved: bytes in connections of the first run with the same transactions and network over those of this run. Early: requests that timed \
out before the usual response time of their peer. By block: share of transactions that a node had from a block before its pool had them. Incomplete: \
transactions that did not reach every honest node.";

/// Two ways to count bytes: the name and the value.
const BYTES: [(&str, Value<PoolData>); 2] =
    [("In connections", |m| m.connection_bytes), ("On the wire", |m| m.bytes.total)];

const SWEPT: [Shown<PoolData>; 4] = [
    Shown {
        name: "copies",
        title: "bodies received for each node and transaction",
        unit: Unit::Number,
        caption: "First and further copies; the origin of a transaction needs none.",
        value: |m| m.duplication_factor,
    },
    Shown {
        name: "latency",
        title: "median time until a node has a transaction",
        unit: Unit::Milliseconds,
        caption: "From the submission until another node has it in its pool, over all nodes.",
        value: |m| of(m.delivery_latency_ms, |s| s.p50),
    },
    Shown {
        name: "connection-bytes",
        title: "bytes in connections for each node and transaction",
        unit: Unit::Bytes,
        caption: "Bodies, announcements, requests, and the framing of their packets, as the real pools count them.",
        value: BYTES[0].1,
    },
    Shown {
        name: "bytes",
        title: "bytes on the wire for each node and transaction",
        unit: Unit::Bytes,
        caption: "All bytes that a node receives, including padding of sealed frames, headers, and acknowledgements.",
        value: BYTES[1].1,
    },
];

/// The purposes of bytes, in stacking order.
const KINDS: [Kind; 8] = [
    ("first copies", |bytes| bytes.bodies),
    ("further copies", |bytes| bytes.duplicates),
    ("announcements", |bytes| bytes.announcements),
    ("requests", |bytes| bytes.requests),
    ("compact blocks", |bytes| bytes.blocks),
    ("framing of packets", |bytes| bytes.framing),
    ("sealing and padding", |bytes| bytes.sealing),
    ("headers, acknowledgements", |bytes| bytes.headers),
];

/// Messages between pools and their peers.
const SENT: &Figures = &[
    ("Submitted", |m| m.transactions as f64),
    ("SuccessfulTxs", |m| m.successful_txs as f64),
    ("AlreadySeenTxs", |m| m.already_seen_txs as f64),
    ("RequestedTxs", |m| m.requested_txs as f64),
    ("RerequestedTxs", |m| m.rerequested_txs as f64),
    ("Timed out", |m| m.timeouts as f64),
    ("No peer left", |m| m.lost_txs as f64),
    ("Not found", |m| m.not_found as f64),
    ("Withdrawn", |m| m.withdrawn_bodies as f64),
];

/// Transactions that pools kept or dropped.
const KEPT: &Figures = &[
    ("Queue full", |m| m.queue_drops as f64),
    ("Evicted", |m| m.evicted_txs as f64),
    ("Expired", |m| m.expired_txs as f64),
    ("Rejected", |m| m.rejected_txs as f64),
    ("Keys of a node, max", |m| m.keys_max as f64),
    ("Requests of a node, max", |m| m.requests_max as f64),
    ("Pool size, max", |m| m.pool_txs_max as f64),
];

/// Figures of blocks and compact blocks.
const BLOCKS: [Column<PoolData>; 10] = [
    ("Blocks", |row| number(row.mean(|m| m.blocks as f64))),
    ("Transactions per block", |row| number(row.mean(|m| of(m.block_txs, |s| s.mean)))),
    ("Until inclusion, mean", |row| short_ms(row.mean(|m| of(m.time_to_inclusion_ms, |s| s.mean)))),
    ("p99", |row| short_ms(row.mean(|m| of(m.time_to_inclusion_ms, |s| s.p99)))),
    ("Finalised, MB/s", |row| fixed(row.mean(|m| m.finalised_mb_per_s.unwrap_or(f64::NAN)), 3)),
    ("Full", |row| percent(row.mean(|m| m.block_fill.unwrap_or(f64::NAN)), 1)),
    ("Compact: hit rate", |row| percent(row.mean(|m| m.compact_block_hit_rate.unwrap_or(f64::NAN)), 2)),
    ("Until complete, p50", |row| short_ms(row.mean(|m| of(m.compact_block_ms, |s| s.p50)))),
    ("p99", |row| short_ms(row.mean(|m| of(m.compact_block_ms, |s| s.p99)))),
    ("Given up", |row| number(row.mean(|m| m.compact_blocks_given_up as f64))),
];

/// Rates of nodes on the wire.
const BANDWIDTH: [Column<PoolData>; 7] = [
    ("Mean, MB/s", |row| fixed(row.mean(|m| m.bandwidth_mb_per_s.mean), 3)),
    ("SD", |row| fixed(row.mean(|m| m.bandwidth_mb_per_s.sd), 3)),
    ("SD / mean", |row| percent(row.mean(|m| m.bandwidth_mb_per_s.cv), 1)),
    ("Least node", |row| fixed(row.mean(|m| m.bandwidth_mb_per_s.min), 3)),
    ("Busiest node", |row| fixed(row.mean(|m| m.bandwidth_mb_per_s.max), 3)),
    ("Sent: SD / mean", |row| percent(row.mean(|m| m.sent_mb_per_s.cv), 1)),
    ("Received: SD / mean", |row| percent(row.mean(|m| m.received_mb_per_s.cv), 1)),
];

const CAUSES: [(&str, Causes<PoolData>); 3] =
    [("refused", |m| &m.refused), ("ignored", |m| &m.ignored), ("violations", |m| &m.misbehaviour)];

pub(super) fn body(results: &Results<'_, PoolData>) -> Body {
    let circumstances = results.rows.iter().map(|row| circumstances(results, row)).collect();
    let report = Report { results, circumstances };
    let figures = Section::new(results.figures_heading(), "", report.figures());
    let table = results.table_of(COLUMNS, |row| report.cells(row));
    let costs = Section::new("Cost of each pool", LEGEND, table.clone());
    let sections = match results.is_sweep() {
        false => vec![costs, figures],
        true => [figures].into_iter().chain(report.turns()).chain([costs]).collect(),
    };
    let details = report.blocks().into_iter().chain([report.bandwidth(), report.counters()]);
    let spread = spread::section(results, "transaction", |data| (&data.spread, &data.regions));
    let details = spread.into_iter().chain(details);
    let details = details.chain(results.causes("Refused and ignored", &CAUSES)).collect();
    Body::new(report.findings(), (LEGEND, table), sections, details)
}

fn circumstances(results: &Results<'_, PoolData>, row: &Row) -> Option<Scenario> {
    let found = results.loaded.points.iter().find(|candidate| {
        let swept = results.axes.iter().map(|(key, _)| candidate.sweep.get(key).map(plain));
        candidate.run == row.run && swept.eq(row.point.iter().cloned().map(Some))
    })?;
    let mut scenario = Scenario::clone(&found.scenario);
    if let Some(parameters) = scenario.find_mut::<Parameters>() {
        *parameters = Parameters::default();
    }
    Some(scenario)
}

impl Report<'_> {
    fn rows(&self) -> &[Row] {
        &self.results.rows
    }

    /// Returns the runs that differ from this one only in their pools, including itself.
    fn like<'b>(&'b self, row: &'b Row) -> impl Iterator<Item = &'b Row> {
        let of = |row: &Row| {
            let at = self.rows().iter().position(|other| std::ptr::eq(other, row));
            at.and_then(|at| self.circumstances[at].as_ref())
        };
        let own = of(row);
        self.rows().iter().filter(move |other| own.is_some() && other.point == row.point && of(other) == own)
    }

    /// Returns the bytes of the first comparable run as a multiple of this run's bytes: above 1 if
    /// this run saves bytes.
    ///
    /// `None` for runs without a comparable one.
    fn saved(&self, row: &Row, value: Value<PoolData>) -> Option<f64> {
        let base = self.like(row).next().filter(|_| self.like(row).count() > 1)?;
        let factor = base.mean(value) / row.mean(value);
        (factor.is_finite() && factor > 0.0).then_some(factor)
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        vec![
            fixed(row.mean(|m| m.duplication_factor), 3),
            fixed(row.mean(|m| m.seen_tx), 1),
            fixed(row.mean(|m| m.want_tx), 2),
            short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.p50))),
            short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.p95))),
            short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.p99))),
            fixed(row.mean(|m| m.connection_bytes) / 1e3, 2),
            fixed(row.mean(|m| m.bytes.total) / 1e3, 2),
            fixed(self.saved(row, BYTES[0].1).unwrap_or(f64::NAN), 2),
            number(row.mean(|m| m.early_timeouts as f64)),
            percent(row.mean(|m| m.by_block_share), 2),
            number(row.mean(|m| m.incomplete as f64)),
        ]
    }

    /// Returns the ranges of a sweep in which each run needs fewer bytes than the first.
    fn turns(&self) -> Option<Section> {
        let [(_, axis)] = self.results.axes.as_slice() else { return None };
        let swept = self.swept();
        let [connections, wire] = BYTES.map(|(_, value)| self.races(value));
        if connections.is_empty() || connections.len() != wire.len() {
            return None;
        }
        let row = |(one, other): (&Race<'_>, &Race<'_>)| {
            TableRow::new(&one.row.label, vec![one.verdict(&swept.0), other.verdict(&swept.0)])
        };
        let rows = connections.iter().zip(&wire).map(row).collect();
        let text = format!(
            "Ranges of {axis} in which a run needs fewer bytes per node and transaction than \"{}\", including announcements \
             and all other messages; interpolated between measured points, as in the figures.",
            self.rows()[0].label
        );
        let table = Table::new(["Run", BYTES[0].0, BYTES[1].0], 3, rows);
        Some(Section::new("Break-even points", text, table))
    }

    fn blocks(&self) -> Option<Section> {
        if self.rows().iter().all(|row| row.mean(|m| m.blocks as f64) == 0.0) {
            return None;
        }
        let is_compact = |row: &Row| row.mean(|m| m.compact_block_hit_rate.unwrap_or(0.0)) > 0.0;
        let shown = if self.rows().iter().any(is_compact) { BLOCKS.len() } else { 6 };
        Some(Section::new("Blocks", "", self.results.table(&BLOCKS[..shown])))
    }

    fn bandwidth(&self) -> Section {
        let text = "Bytes that a node sends and receives on the wire per second, from the first submission to the end of the \
                    measurement; the standard deviation (SD) is over honest nodes.";
        Section::new("Bandwidth of nodes", text, self.results.table(&BANDWIDTH))
    }

    fn counters(&self) -> Section {
        // Counts are whole numbers, except means over seeds.
        let shown = |value: f64| if value.fract() == 0.0 { grouped(value) } else { number(value) };
        let text = "Over all honest nodes, with the names of the pools' own metrics. SuccessfulTxs: transactions of committed blocks, \
                    over all nodes. AlreadySeenTxs: bodies that were in the pool when they arrived. RequestedTxs and RerequestedTxs: \
                    first and further requests for a transaction. No peer left: no other peer to request from. Not found: keys that \
                    peers reported as missing. Withdrawn: bodies that were dropped before they left. The maxima are sampled before \
                    each block: keys and requests that a node remembered, and transactions in a pool.";
        let parts = [SENT, KEPT].map(|counters| self.results.means(counters, shown).into());
        Section { parts: parts.to_vec(), ..Section::new("Counters", text, Table::default()) }
    }

    /// Draws the runs side by side or, in a sweep, over its axes.
    fn figures(&self) -> Vec<Figure> {
        match self.results.axes.len() {
            0 => self.side_by_side(),
            1 => self.over_one_axis(),
            _ => self.over_more_axes(),
        }
    }

    fn side_by_side(&self) -> Vec<Figure> {
        let mut caption = "Bytes that a node received for each transaction, including headers.".to_owned();
        if self.rows().iter().any(|row| row.mean(|m| m.bytes.headers) < 0.0) {
            caption += " Senders count framing and padding. If hostile nodes write less than honest ones, \
                        bars are cut at the received bytes.";
        }
        let copies = "Means over nodes and transactions. Slightly less than 1 is enough, since the origin of a transaction \
                      needs no copy. Flooding sends every transaction over every link once or twice (dashes).";
        let latency =
            "The share of deliveries over the time from the submission until a node had the transaction";
        vec![
            Figure::new("bytes", caption, bytes(self.rows())),
            Figure::new("copies", copies, self.copies()),
            self.results.distribution(latency, "after the submission", |data| &data.latency),
        ]
    }

    /// Draws a dot for each run, with published values and the needs of flooding on its graph.
    fn copies(&self) -> Bars {
        let row = |row: &Row| {
            let copies = row.mean(|m| m.duplication_factor);
            Bar {
                name: row.label.clone(),
                bounds: vec![row.mean(|m| m.flood_least), row.mean(|m| m.flood_most)],
                rings: self.results.published(row, "duplication_factor"),
                dot: Some(copies),
                text: fixed(copies, 2),
                ..Bar::default()
            }
        };
        let rows: Vec<Bar> = self.rows().iter().map(row).collect();
        let marks = rows.iter().flat_map(|row| row.bounds.iter().chain(&row.rings).copied().chain(row.dot));
        let marks: Vec<f64> = marks.filter(|copies| *copies > 0.0).collect();
        let (low, high) =
            marks.iter().fold((1.0_f64, 1.0_f64), |(low, high), at| (low.min(*at), high.max(*at)));
        let mut key = vec![(Mark::Dot(Ink::of(0)), "this run".to_owned())];
        if rows.iter().any(|row| !row.rings.is_empty()) {
            key.push((Mark::Ring(Ink::BLACK), "published or measured by others".to_owned()));
        }
        key.push((Mark::Dashes(Ink::BLACK), "least and most copies of flooding".to_owned()));
        let scale = Scale::powers("", low * 0.85..high * 1.25, Unit::Number);
        Bars { title: SWEPT[0].title.to_owned(), scale, rows, key }
    }

    /// Draws lines, with rings at points where a run needs as many bytes as the first.
    fn over_one_axis(&self) -> Vec<Figure> {
        let mut figures = self.results.over_sweep(&SWEPT, None);
        for figure in &mut figures {
            let shown = SWEPT.iter().find(|shown| figure.name == format!("sweep-{}", shown.name));
            let Some(shown) = shown.filter(|shown| shown.unit == Unit::Bytes) else { continue };
            if let Drawing::Lines(lines) = &mut figure.drawing {
                let races = self.races(shown.value);
                let crossovers = races.iter().flat_map(|race| crossovers(&race.points, race.by_powers));
                lines.rings = crossovers.map(|crossover| (crossover.at, crossover.value)).collect();
                lines.ring = format!("as many as {}", self.rows()[0].label);
            }
        }
        figures
    }

    /// Draws copies, then the median latency: a request timer affects both.
    fn over_more_axes(&self) -> Vec<Figure> {
        let captions = ["Copies beyond 1 are redundant.", SWEPT[1].caption];
        let figure = |(shown, caption): (&Shown<PoolData>, &str)| {
            let unit = if shown.unit == Unit::Milliseconds { ", in milliseconds" } else { "" };
            let maps = self.maps(format!("{}{unit}", shown.title), shown.value);
            let caption = format!("{caption} All fields share one logarithmic scale.");
            Figure::new(format!("map-{}", shown.name), caption, maps)
        };
        SWEPT.iter().zip(captions).map(figure).collect()
    }

    /// Draws all runs over the last two axes; columns are the values of the other axes.
    fn maps(&self, title: String, value: Value<PoolData>) -> Maps {
        let axes = &self.results.axes;
        let others = axes.len() - 2;
        let values = |axis: usize| -> Vec<String> {
            let groups = report::grouped(self.rows(), |row| &row.point[axis]);
            groups.into_iter().map(|(value, _)| value.clone()).collect()
        };
        let (upright, across) = (values(others), values(others + 1));
        let map = |heading: String, rows: &[&Row]| {
            let field = |up: &String, right: &String| {
                let at = |row: &&&Row| row.point[others] == *up && row.point[others + 1] == *right;
                rows.iter().find(at).map(|row| row.mean(value))
            };
            let line = |up| across.iter().map(|right| field(up, right)).collect();
            Map { heading, fields: upright.iter().map(line).collect() }
        };
        let runs = report::grouped(self.rows(), |row| row.run.as_str());
        let lines = if others == 0 {
            // Without other axes there is one map for each run, side by side.
            let maps = runs.iter().map(|(_, rows)| map(rows[0].label.clone(), rows)).collect();
            vec![MapLine { heading: String::new(), maps }]
        } else {
            let line = |(at, (_, rows)): (usize, &(&str, Vec<&Row>))| {
                let columns = report::grouped(rows.iter().copied(), |row| &row.point[..others]);
                let heading = |column: &[String]| {
                    let fixed = axes.iter().zip(column).map(|((_, label), value)| format!("{label} {value}"));
                    fixed.collect::<Vec<_>>().join(", ")
                };
                // The headings of the first line apply to all lines.
                let named = |column| if at == 0 { heading(column) } else { String::new() };
                let maps = columns.iter().map(|(column, rows)| map(named(column), rows)).collect();
                MapLine { heading: rows[0].label.clone(), maps }
            };
            runs.iter().enumerate().map(line).collect()
        };
        let (across, upright) = ((axes[others + 1].1.clone(), across), (axes[others].1.clone(), upright));
        Maps { title, across, upright, lines, is_share: false }
    }

    fn findings(&self) -> Vec<String> {
        let savings = match self.results.is_sweep() {
            true => self.savings_over_sweep().into_iter().collect::<Vec<_>>(),
            false => self.savings(),
        };
        // The result of the runs comes first, unless something is missing.
        let is_complete = self.rows().iter().all(|row| row.mean(|m| m.incomplete as f64) == 0.0);
        let mut sentences = if is_complete { savings.clone() } else { Vec::new() };
        sentences.push(self.delivered());
        sentences.extend(savings.into_iter().filter(|_| !is_complete));
        sentences.extend(self.overtaking());
        sentences
    }

    fn delivered(&self) -> String {
        let count = |row: &Row, value: fn(&TransactionMetrics) -> u64| {
            row.all.iter().map(|result| value(&result.metrics)).sum::<u64>() as f64
        };
        let total = self.rows().iter().map(|row| count(row, |m| m.transactions)).sum::<f64>();
        let missing = |row: &Row| count(row, |m| m.incomplete);
        let incomplete = self.rows().iter().map(missing).sum::<f64>();
        if incomplete == 0.0 {
            let runs = plural(self.results.all().count() as f64, "run");
            let total = plural(total, "transaction");
            return format!(
                "{total} in {runs}; every valid one reached every honest node, by its pool or in a block."
            );
        }
        let missed = self.rows().iter().filter(|row| missing(row) > 0.0);
        let runs = report::grouped(missed, |row| format!("\"{}\"", row.label));
        format!(
            "{} of {} transactions did not reach every honest node: {}.",
            grouped(incomplete),
            grouped(total),
            listed(&runs.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        )
    }

    /// Returns a sentence for each set of comparable runs.
    ///
    /// It compares the run with the fewest bytes to the first run or, if that is the first, to the
    /// run with the most bytes.
    fn savings(&self) -> Vec<String> {
        // A pool that blocks overtake saves bytes because it is late.
        let in_time = self.rows().iter().filter(|row| row.mean(|m| m.by_block_share) < 0.01);
        let saved = in_time.filter_map(|row| Some((row, self.saved(row, BYTES[0].1)?)));
        let groups = report::grouped(saved, |(row, _)| self.like(row).next().map(|base| &base.run));
        let sentence = |(_, group): &(_, Vec<(&Row, f64)>)| {
            let best = group.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let worst = group.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let other = if best.0.run == group[0].0.run { worst } else { &group[0] };
            let times = best.1 / other.1;
            let [copies, others] =
                [best, other].map(|(row, _)| format!("{:.2}", row.mean(|m| m.duplication_factor)));
            let compared =
                if copies == others { "in both".to_owned() } else { format!("instead of {others}") };
            (times > 1.05).then(|| {
                format!(
                    "\"{}\" needs {} times fewer bytes in connections than \"{}\" ({} on the wire), with {copies} bodies per \
                     node and transaction {compared}.",
                    best.0.label,
                    factor(times),
                    other.0.label,
                    less(other.0.mean(BYTES[1].1) / best.0.mean(BYTES[1].1)),
                )
            })
        };
        groups.iter().filter_map(sentence).collect()
    }

    /// Returns a sentence on the run that saves most over all values of the axes, with its least
    /// and greatest saving.
    fn savings_over_sweep(&self) -> Option<String> {
        let saved = self.rows().iter().filter_map(|row| Some((self.saved(row, BYTES[0].1)?, row)));
        let runs = report::grouped(saved, |(_, row)| &row.run);
        let mean = |factors: &[(f64, &Row)]| {
            factors.iter().map(|(factor, _)| factor.ln()).sum::<f64>() / factors.len() as f64
        };
        let (_, factors) = runs.iter().max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)))?;
        let least = factors.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let most = factors.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let place = |row: &Row| {
            let values = self.results.axes.iter().zip(&row.point);
            values.map(|((_, label), value)| format!("{label} {value}")).collect::<Vec<_>>().join(", ")
        };
        (most.0 > 1.05).then(|| {
            format!(
                "\"{}\" needs the fewest bytes in connections: {} times fewer than \"{}\" at {}, {} at {}.",
                most.1.label,
                factor(most.0),
                self.rows()[0].label,
                place(most.1),
                less(least.0),
                place(least.1)
            )
        })
    }

    /// Returns sentences on the ranges of the only axis in which the first run wins, in connections
    /// and on the wire.
    fn overtaking(&self) -> Vec<String> {
        let ([(_, axis)], Some(first)) = (self.results.axes.as_slice(), self.rows().first()) else {
            return Vec::new();
        };
        let (swept, _) = self.swept();
        let mut sentences = Vec::new();
        for (name, value) in BYTES {
            let races = self.races(value);
            let crossed = races.iter().filter_map(|race| {
                let crossover = crossovers(&race.points, race.by_powers).into_iter().next()?;
                let side = if crossover.base_loses { "below" } else { "above" };
                Some(format!("than \"{}\" {side} {}", race.row.label, swept.label(crossover.at)))
            });
            let crossed: Vec<String> = crossed.collect();
            let least = races.iter().map(|race| race.factors()[0].0).fold(f64::INFINITY, f64::min);
            if !crossed.is_empty() {
                sentences.push(format!(
                    "{name}, including announcements, \"{}\" needs fewer bytes {} ({axis}; interpolated).",
                    first.label,
                    listed(&crossed)
                ));
            } else if least.is_finite() && least > 1.0 {
                sentences.push(format!(
                    "{name}, including announcements, \"{}\" never wins in this range of {axis}: all others need at least {} times fewer bytes.",
                    first.label,
                    factor(least)
                ));
            }
        }
        sentences
    }

    /// Returns the only axis of a sweep, and the position of each row on it.
    fn swept(&self) -> (Swept, Vec<f64>) {
        let values = self.rows().iter().map(|row| row.point.first().map_or("", String::as_str));
        Swept::new(&values.collect::<Vec<_>>())
    }

    /// Returns all runs paired with the first.
    ///
    /// It is empty unless they are comparable at every value of the axis and the values are
    /// numbers.
    fn races(&self, value: Value<PoolData>) -> Vec<Race<'_>> {
        let (swept, xs) = self.swept();
        let Some(first) = self.rows().first().filter(|_| swept.numbers) else { return Vec::new() };
        let others = self.rows().iter().zip(&xs).filter(|(row, _)| row.run != first.run);
        let mut races = Vec::new();
        for (_, group) in report::grouped(others, |(row, _)| &row.run) {
            let mut points = Vec::new();
            for (row, x) in &group {
                let Some(base) = self.like(row).next().filter(|base| base.run == first.run) else {
                    return Vec::new();
                };
                points.push((**x, base.mean(value), row.mean(value)));
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if points.len() > 1 && points.iter().all(|(_, base, own)| *base > 0.0 && *own > 0.0) {
                races.push(Race { row: group[0].0, points, by_powers: swept.by_powers });
            }
        }
        races
    }
}

/// Draws a bar for each run, stacked by the purpose of bytes.
///
/// Senders count the bytes that connections add. With hostile nodes, honest ones may receive fewer,
/// and bars are cut at the received bytes.
fn bytes(rows: &[Row]) -> Bars {
    let total = |row: &Row| row.mean(|m| m.bytes.total);
    let stack = |row: &Row| -> Vec<(f64, f64)> {
        let mut end = 0.0;
        let part = |(_, value): &Kind| {
            let start = end;
            end = (end + row.mean(|m| value(&m.bytes)).max(0.0)).min(total(row));
            (start, end)
        };
        KINDS.iter().map(part).collect()
    };
    let stacks: Vec<Vec<(f64, f64)>> = rows.iter().map(stack).collect();
    let most = rows.iter().map(total).fold(1.0, f64::max);
    let is_seen = |kind: &usize| stacks.iter().any(|stack| stack[*kind].1 - stack[*kind].0 > most * 1e-4);
    let shown: Vec<usize> = (0..KINDS.len()).filter(is_seen).collect();
    let bar = |(row, stack): (&Row, &Vec<(f64, f64)>)| Bar {
        name: row.label.clone(),
        parts: shown.iter().enumerate().map(|(at, kind)| (stack[*kind].0, stack[*kind].1, at)).collect(),
        text: format!("{:.1} kB", total(row) / 1e3),
        ..Bar::default()
    };
    Bars {
        title: "bytes received for each node and transaction".to_owned(),
        // Leave room for the totals behind the bars.
        scale: Scale::linear("", 0.0..most * 1.12, Unit::Bytes),
        rows: rows.iter().zip(&stacks).map(bar).collect(),
        key: shown
            .iter()
            .enumerate()
            .map(|(at, kind)| (Mark::Bar(Ink::of(at)), KINDS[*kind].0.to_owned()))
            .collect(),
    }
}

/// Formats a factor as a reduction, or as an increase if it is below 1.
fn less(times: f64) -> String {
    match times {
        _ if times > 1.05 => format!("{} times fewer", factor(times)),
        _ if times < 1.0 / 1.05 => format!("{} times more", factor(1.0 / times)),
        _ => "as many".to_owned(),
    }
}

/// A run paired with the first run of the scenario, over one axis.
struct Race<'a> {
    row: &'a Row,
    /// Position on the axis, value of the first run, and value of this run.
    points: Vec<(f64, f64, f64)>,
    by_powers: bool,
}

/// A point on an axis where two runs need the same. `base_loses` tells whether the first run needs
/// more beyond it.
struct Crossover {
    at: f64,
    value: f64,
    base_loses: bool,
}

impl Race<'_> {
    /// Returns the bytes of the first run as a multiple of this run's: least and greatest, with
    /// their positions.
    fn factors(&self) -> [(f64, f64); 2] {
        let all = || self.points.iter().map(|(x, base, own)| (base / own, *x));
        let least = all().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
        let most = all().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
        [least, most]
    }

    /// Describes the ranges in which the run needs fewer bytes than the first.
    fn verdict(&self, swept: &Swept) -> String {
        let [least, most] = self.factors();
        let crossovers = crossovers(&self.points, self.by_powers);
        if crossovers.is_empty() {
            let [low, high] = [least.0, most.0];
            return if low > 1.0 {
                format!("everywhere, {} to {} times fewer", factor(low), factor(high))
            } else {
                format!("nowhere, {} to {} times more", factor(1.0 / high), factor(1.0 / low))
            };
        }
        let places = crossovers.iter().map(|crossover| {
            let side = if crossover.base_loses { "from" } else { "up to" };
            format!("{side} {}", swept.label(crossover.at))
        });
        format!(
            "{}; {} times fewer at {}, {} at {}",
            places.collect::<Vec<_>>().join(", "),
            factor(most.0),
            swept.label(most.1),
            less(least.0),
            swept.label(least.1)
        )
    }
}

/// Returns the points at which two runs need the same.
///
/// Between measured points they lie on a straight line in the figure, whose axis may be
/// logarithmic.
fn crossovers(points: &[(f64, f64, f64)], by_powers: bool) -> Vec<Crossover> {
    let across = |x: f64| if by_powers { x.ln() } else { x };
    let pairs = points.windows(2).filter_map(|pair| {
        let [(x0, base0, own0), (x1, base1, own1)] = [pair[0], pair[1]];
        let (before, after) = ((base0 / own0).ln(), (base1 / own1).ln());
        if (before > 0.0) == (after > 0.0) {
            return None;
        }
        let share = before / (before - after);
        let at = across(x0) + share * (across(x1) - across(x0));
        let at = if by_powers { at.exp() } else { at };
        let value = (own0.ln() + share * (own1.ln() - own0.ln())).exp();
        Some(Crossover { at, value, base_loses: after > 0.0 })
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossovers_lie_at_equal_values() {
        // 10 at any size and 1 kB per 100 B are equal at 100 B.
        let [only] = &crossovers(&[(10.0, 1.0, 10.0), (1e3, 100.0, 10.0)], true)[..] else {
            panic!("one crossover")
        };
        assert!((only.at - 100.0).abs() < 1e-9 && (only.value - 10.0).abs() < 1e-9 && only.base_loses);
        let falling = [(5.0, 4.0, 2.0), (10.0, 2.0, 4.0), (20.0, 2.0, 8.0)];
        let [only] = &crossovers(&falling, false)[..] else { panic!("one crossover") };
        assert!((only.at - 7.5).abs() < 1e-9 && !only.base_loses);
        assert!(crossovers(&[(5.0, 4.0, 2.0), (10.0, 4.0, 3.0)], false).is_empty());
    }
}
