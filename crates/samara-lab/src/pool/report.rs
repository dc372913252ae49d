//! The report of transactions and their pools.

use samara_cat::config::Parameters;
use samara_report::words::{factor, fixed, grouped, listed, number, percent, plural, short_ms};
use samara_report::{
    Bar, Bars, Drawing, Figure, Ink, Map, MapLine, Maps, Mark, Row as TableRow, Scale, Section, Swept, Table,
    Unit,
};
use samara_spec::Scenario;

use super::metrics::{TransactionBytes, TransactionMetrics};
use super::outcome::PoolData;
use crate::report::{self, Body, Causes, Column, Results, Runs, Shown, Value, of};

type Row = Runs<PoolData>;
type Figures = [(&'static str, Value<PoolData>)];

type Kind = (&'static str, fn(&TransactionBytes) -> f64);

/// The results, and which runs can be compared.
struct Report<'a> {
    results: &'a Results<'a, PoolData>,
    /// What each run was done with but for its pool: transactions, network, connections, faults, and nodes with other
    /// pools.
    circumstances: Vec<Option<Scenario>>,
}

const COLUMNS: [&str; 11] =
    ["copies", "SeenTx", "WantTx", "p50", "p99", "kB", "kB wire", "saved", "early", "by block", "incomplete"];

const LEGEND: &str = "For each node and transaction: bodies received (copies), announcements, requests; bytes in connections and on the wire.\n\
p50, p99: from the submission until a node has it. Saved: bytes in connections of the first run with the same transactions and network over those of this one. Early: requests that timed \
out although their peer was in time.";

/// Ways to count bytes: what it is called, and the value.
const BYTES: [(&str, Value<PoolData>); 2] =
    [("In connections", |m| m.connection_bytes), ("On the wire", |m| m.bytes.total)];

const SWEPT: [Shown<PoolData>; 4] = [
    Shown {
        name: "copies",
        title: "bodies received for each node and transaction",
        unit: Unit::Number,
        caption: "First copies and all further ones; the node to which a client gives a transaction needs none.",
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
        caption: "All that a node receives: with padding of sealed frames, headers, and acknowledgements.",
        value: BYTES[1].1,
    },
];

/// What bytes are, in the order in which they are stacked.
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

/// What pools and their peers sent each other.
const SENT: &Figures = &[
    ("Submitted", |m| m.transactions as f64),
    ("SuccessfulTxs", |m| m.successful_txs as f64),
    ("AlreadySeenTxs", |m| m.already_seen_txs as f64),
    ("RequestedTxs", |m| m.requested_txs as f64),
    ("RerequestedTxs", |m| m.rerequested_txs as f64),
    ("Timed out", |m| m.timeouts as f64),
    ("Nobody to ask", |m| m.lost_txs as f64),
    ("Not found", |m| m.not_found as f64),
    ("Taken back", |m| m.withdrawn_bodies as f64),
];

/// What pools kept, and what they did not.
const KEPT: &Figures = &[
    ("Queue full", |m| m.queue_drops as f64),
    ("Evicted", |m| m.evicted_txs as f64),
    ("Expired", |m| m.expired_txs as f64),
    ("Rejected", |m| m.rejected_txs as f64),
    ("Keys of a node, most", |m| m.keys_max as f64),
    ("Requests of a node, most", |m| m.requests_max as f64),
    ("In a pool, most", |m| m.pool_txs_max as f64),
];

/// What is known of blocks, and of compact ones.
const BLOCKS: [Column<PoolData>; 8] = [
    ("Blocks", |row| number(row.mean(|m| m.blocks as f64))),
    ("Transactions of a block", |row| number(row.mean(|m| of(m.block_txs, |s| s.mean)))),
    ("Until inclusion, mean", |row| short_ms(row.mean(|m| of(m.time_to_inclusion_ms, |s| s.mean)))),
    ("p99", |row| short_ms(row.mean(|m| of(m.time_to_inclusion_ms, |s| s.p99)))),
    ("Compact: hit rate", |row| percent(row.mean(|m| m.compact_block_hit_rate.unwrap_or(f64::NAN)), 2)),
    ("Until all is there, p50", |row| short_ms(row.mean(|m| of(m.compact_block_ms, |s| s.p50)))),
    ("p99", |row| short_ms(row.mean(|m| of(m.compact_block_ms, |s| s.p99)))),
    ("Given up", |row| number(row.mean(|m| m.compact_blocks_given_up as f64))),
];

const CAUSES: [(&str, Causes<PoolData>); 3] =
    [("not taken", |m| &m.refused), ("ignored", |m| &m.ignored), ("broken rules", |m| &m.misbehaviour)];

pub(super) fn body(results: &Results<'_, PoolData>) -> Body {
    let circumstances = results.rows.iter().map(|row| circumstances(results, row)).collect();
    let report = Report { results, circumstances };
    let figures = Section::new(results.figures_heading(), "", report.figures());
    let table = results.table_of(COLUMNS, |row| report.cells(row));
    let costs = Section::new("What each pool costs", LEGEND, table.clone());
    let sections = match results.is_sweep() {
        false => vec![costs, figures],
        true => [figures].into_iter().chain(report.turns()).chain([costs]).collect(),
    };
    let details = report.blocks().into_iter().chain([report.counters()]);
    let details = details.chain(results.causes("What was turned away", &CAUSES)).collect();
    Body::new(report.findings(), (LEGEND, table), sections, details)
}

fn circumstances(results: &Results<'_, PoolData>, row: &Row) -> Option<Scenario> {
    let value = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let found = results.loaded.points.iter().find(|candidate| {
        let swept = results.axes.iter().map(|(key, _)| candidate.sweep.get(key).map(value));
        candidate.run == row.run && swept.eq(row.point.iter().cloned().map(Some))
    })?;
    let mut scenario = found.scenario.clone();
    if let Some(parameters) = scenario.find_mut::<Parameters>() {
        *parameters = Parameters::default();
    }
    Some(scenario)
}

impl Report<'_> {
    fn rows(&self) -> &[Row] {
        &self.results.rows
    }

    /// The runs that differ from this one in their pools only, itself included.
    fn like<'b>(&'b self, row: &'b Row) -> impl Iterator<Item = &'b Row> {
        let of = |row: &Row| {
            let at = self.rows().iter().position(|other| std::ptr::eq(other, row));
            at.and_then(|at| self.circumstances[at].as_ref())
        };
        let own = of(row);
        self.rows().iter().filter(move |other| own.is_some() && other.point == row.point && of(other) == own)
    }

    /// How many times the bytes of a run the first that can be compared with it needs: more than 1 where the run saves some. `None` for
    /// runs without others to compare.
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
            short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.p99))),
            fixed(row.mean(|m| m.connection_bytes) / 1e3, 2),
            fixed(row.mean(|m| m.bytes.total) / 1e3, 2),
            fixed(self.saved(row, BYTES[0].1).unwrap_or(f64::NAN), 2),
            number(row.mean(|m| m.early_timeouts as f64)),
            percent(row.mean(|m| m.by_block_share), 2),
            number(row.mean(|m| m.incomplete as f64)),
        ]
    }

    /// Where over a sweep each run needs fewer bytes than the first.
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
            "Over {axis}: where a run needs fewer bytes for each node and transaction than \"{}\", announcements and all else \
             included; between measured points as on the lines of the figures.",
            self.rows()[0].label
        );
        let table = Table::new(["Run", BYTES[0].0, BYTES[1].0], 3, rows);
        Some(Section::new("Where the trade turns", text, table))
    }

    fn blocks(&self) -> Option<Section> {
        if self.rows().iter().all(|row| row.mean(|m| m.blocks as f64) == 0.0) {
            return None;
        }
        let is_compact = |row: &Row| row.mean(|m| m.compact_block_hit_rate.unwrap_or(0.0)) > 0.0;
        let shown = if self.rows().iter().any(is_compact) { BLOCKS.len() } else { 4 };
        Some(Section::new("Blocks", "", self.results.table(&BLOCKS[..shown])))
    }

    fn counters(&self) -> Section {
        // A number of things; of several seeds, the mean.
        let shown = |value: f64| if value.fract() == 0.0 { grouped(value) } else { number(value) };
        let text = "Over all honest nodes, in the words of the pools' own metrics. The most keys and requests that a node \
                    remembered, and the most transactions of a pool, were looked at before each block.";
        let parts = [SENT, KEPT].map(|counters| self.results.means(counters, shown).into());
        Section { parts: parts.to_vec(), ..Section::new("What was counted", text, Table::default()) }
    }

    /// Runs side by side; where there is a sweep, over its axes.
    fn figures(&self) -> Vec<Figure> {
        match self.results.axes.len() {
            0 => self.side_by_side(),
            1 => self.over_one_axis(),
            _ => self.over_more_axes(),
        }
    }

    fn side_by_side(&self) -> Vec<Figure> {
        let mut caption = "What bytes a node received for each transaction, headers included.".to_owned();
        if self.rows().iter().any(|row| row.mean(|m| m.bytes.headers) < 0.0) {
            caption += " Framing and padding are counted where they are written; where hostile nodes write less than honest ones, \
                        bars are cut at what was received.";
        }
        let copies = "Means over nodes and transactions. Just below 1 is enough, since the node to which a client gives a transaction \
                      needs no copy; flooding sends every transaction over every link once or twice (dashes).";
        let latency =
            "The share of deliveries by the time from the submission until a node had the transaction";
        vec![
            Figure::new("bytes", caption, bytes(self.rows())),
            Figure::new("copies", copies, self.copies()),
            self.results.distribution(latency, "after the submission", |data| &data.latency),
        ]
    }

    /// A dot for each run, beside what others found and what flooding needs on its graph.
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
        let mut key = vec![(Mark::Dot(Ink::of(0)), "here".to_owned())];
        if rows.iter().any(|row| !row.rings.is_empty()) {
            key.push((Mark::Ring(Ink::BLACK), "published or measured by others".to_owned()));
        }
        key.push((Mark::Dashes(Ink::BLACK), "least and most of flooding".to_owned()));
        let scale = Scale::powers("", low * 0.85..high * 1.25, Unit::Number);
        Bars { title: SWEPT[0].title.to_owned(), scale, rows, key }
    }

    /// Lines with rings where a run needs as many bytes as the first.
    fn over_one_axis(&self) -> Vec<Figure> {
        let mut figures = self.results.over_sweep(&SWEPT, None);
        for figure in &mut figures {
            let shown = SWEPT.iter().find(|shown| figure.name == format!("sweep-{}", shown.name));
            let Some(shown) = shown.filter(|shown| shown.unit == Unit::Bytes) else { continue };
            if let Drawing::Lines(lines) = &mut figure.drawing {
                let races = self.races(shown.value);
                let crossovers = races.iter().flat_map(|race| crossovers(&race.points, race.by_powers));
                lines.rings = crossovers.map(|crossover| (crossover.at, crossover.value)).collect();
                lines.ring = format!("as much as {}", self.rows()[0].label);
            }
        }
        figures
    }

    /// Copies first, then the median: the two that a timer decides on.
    fn over_more_axes(&self) -> Vec<Figure> {
        let captions = ["Everything that is more than 1 came in vain.", SWEPT[1].caption];
        let figure = |(shown, caption): (&Shown<PoolData>, &str)| {
            let unit = if shown.unit == Unit::Milliseconds { ", in milliseconds" } else { "" };
            let maps = self.maps(format!("{}{unit}", shown.title), shown.value);
            let caption = format!("{caption} All fields are on one scale, by powers.");
            Figure::new(format!("map-{}", shown.name), caption, maps)
        };
        SWEPT.iter().zip(captions).map(figure).collect()
    }

    /// All runs over the last two axes; the values of the other axes are columns.
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
            // Without other axes there is one map for each run: side by side.
            let maps = runs.iter().map(|(_, rows)| map(rows[0].label.clone(), rows)).collect();
            vec![MapLine { heading: String::new(), maps }]
        } else {
            let line = |(at, (_, rows)): (usize, &(&str, Vec<&Row>))| {
                let columns = report::grouped(rows.iter().copied(), |row| &row.point[..others]);
                let heading = |column: &[String]| {
                    let fixed = axes.iter().zip(column).map(|((_, label), value)| format!("{label} {value}"));
                    fixed.collect::<Vec<_>>().join(", ")
                };
                // The headings of the first line are those of all.
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
        let mut sentences = vec![self.delivered()];
        if self.results.is_sweep() {
            sentences.extend(self.savings_over_sweep());
        } else {
            sentences.extend(self.savings());
        }
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
            return format!("{total} in {runs}, and every valid one reached every honest node.");
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

    /// Of the runs with the same transactions and the same network: the one with the fewest bytes beside the first of them, or, where that
    /// is the first, beside the one with the most.
    fn savings(&self) -> Vec<String> {
        let saved = self.rows().iter().filter_map(|row| Some((row, self.saved(row, BYTES[0].1)?)));
        let groups = report::grouped(saved, |(row, _)| self.like(row).next().map(|base| &base.run));
        let sentence = |(_, group): &(_, Vec<(&Row, f64)>)| {
            let best = group.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let worst = group.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let beside = if best.0.run == group[0].0.run { worst } else { &group[0] };
            let times = best.1 / beside.1;
            let copies = |row: &Row| row.mean(|m| m.duplication_factor);
            (times > 1.05).then(|| {
                format!(
                    "\"{}\" needs {} times fewer bytes in connections than \"{}\" ({} on the wire), with {:.2} bodies for each node \
                     and transaction instead of {:.2}.",
                    best.0.label,
                    factor(times),
                    beside.0.label,
                    less(beside.0.mean(BYTES[1].1) / best.0.mean(BYTES[1].1)),
                    copies(best.0),
                    copies(beside.0)
                )
            })
        };
        groups.iter().filter_map(sentence).collect()
    }

    /// The run that saves most over all values of the axes, and the least and the most that it saves.
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
                "\"{}\" needs fewest bytes in connections: {} times fewer than \"{}\" at {}, {} at {}.",
                most.1.label,
                factor(most.0),
                self.rows()[0].label,
                place(most.1),
                less(least.0),
                place(least.1)
            )
        })
    }

    /// Where over the only axis of a sweep the first run wins, in connections and on the wire.
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
                    "{name}, announcements included, \"{}\" needs fewer bytes {} ({axis}; interpolated).",
                    first.label,
                    listed(&crossed)
                ));
            } else if least.is_finite() && least > 1.0 {
                sentences.push(format!(
                    "{name}, announcements included, \"{}\" never wins in this range of {axis}: all others need at least {} times fewer bytes.",
                    first.label,
                    factor(least)
                ));
            }
        }
        sentences
    }

    /// The only axis of a sweep, and the place of each row on it.
    fn swept(&self) -> (Swept, Vec<f64>) {
        let values = self.rows().iter().map(|row| row.point.first().map_or("", String::as_str));
        Swept::new(&values.collect::<Vec<_>>())
    }

    /// All runs beside the first, where they can be compared at every value of the axis, and values are numbers.
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

/// A bar for each run, stacked by kinds of bytes. What connections add is counted where it is written, which is not what honest nodes
/// receive where others are hostile: bars are cut where they are more than was received.
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
        // Totals stand behind the bars.
        scale: Scale::linear("", 0.0..most * 1.12, Unit::Bytes),
        rows: rows.iter().zip(&stacks).map(bar).collect(),
        key: shown
            .iter()
            .enumerate()
            .map(|(at, kind)| (Mark::Bar(Ink::of(at)), KINDS[*kind].0.to_owned()))
            .collect(),
    }
}

/// A factor by which something is less, or more where it is below 1.
fn less(times: f64) -> String {
    match times {
        _ if times > 1.05 => format!("{} times fewer", factor(times)),
        _ if times < 1.0 / 1.05 => format!("{} times more", factor(1.0 / times)),
        _ => "as many".to_owned(),
    }
}

/// A run over one axis beside the first run of the scenario.
struct Race<'a> {
    row: &'a Row,
    /// Place on the axis, value of the first run, value of this one.
    points: Vec<(f64, f64, f64)>,
    by_powers: bool,
}

/// A place on an axis where two runs need the same, and whether the first run needs more from there on.
struct Crossover {
    at: f64,
    value: f64,
    base_loses: bool,
}

impl Race<'_> {
    /// How many times the bytes of this run the first run needs: the least and the most over the axis, with their places.
    fn factors(&self) -> [(f64, f64); 2] {
        let all = || self.points.iter().map(|(x, base, own)| (base / own, *x));
        let least = all().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
        let most = all().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
        [least, most]
    }

    /// Where over the axis the run needs fewer bytes than the first.
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

/// Where two runs need the same: between two measured points as on a straight line in the figure, by powers of ten where the axis is.
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
    fn crossovers_lie_where_both_need_the_same() {
        // 10 for any size against 1 kB in 100 B: the same at 100 B.
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
