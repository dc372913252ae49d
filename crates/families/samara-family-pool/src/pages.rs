//! The page of transactions and their pools.

use samara_cat::config::Parameters;
use samara_lab::page::{Bars, Chart, Column, Ecdf, Form, PageSpec, Range, Section, Swept, computed, mean};
use samara_lab::report::{Grid, Results, Runs, grouped as groups};
use samara_report::words::{MISSING, factor, fixed, grouped, listed, plural, short_ms};
use samara_report::{Drawing, Figure, Part, Row as TableRow, Swept as Axis, Table};
use samara_scenario::Scenario;

use super::outcome::PoolData;

pub(super) static PAGE: PageSpec = PageSpec {
    sections: &[
        COSTS.side_by_side(),
        Section::new("Side by side").side_by_side().charts(&[
            Chart::Bars(RECEIVED),
            Chart::Bars(COPIES),
            Chart::Ecdf(Ecdf {
                caption: "The share of deliveries over the time from the submission until a node had the transaction",
                axis: "after the submission",
                points: |outcome| &outcome.own::<PoolData>().latency,
                curves_max: usize::MAX,
            }),
        ]),
        Section::new("Over the sweep").in_sweep().charts(&[Chart::Figures(over_sweep)]),
        Section::drawn(break_even),
        COSTS.in_sweep(),
    ],
    details: &[
        Section::items("transaction", |one| (&one.own::<PoolData>().spread, &one.own::<PoolData>().regions)),
        Section::new("Blocks").needs("blocks").charts(&[Chart::Parts(blocks)]),
        Section::new("Bandwidth of nodes")
            .about(
                "Bytes that a node sends and receives on the wire per second, from the first submission to the end of the \
                 measurement; the standard deviation (SD) is over honest nodes.",
            )
            .tables(&[&[
                mean("Mean, MB/s", "bandwidth_mb_per_s.mean", Form::Fixed(3)),
                mean("SD", "bandwidth_mb_per_s.sd", Form::Fixed(3)),
                mean("SD / mean", "bandwidth_mb_per_s.cv", Form::Percent(1)),
                mean("Least node", "bandwidth_mb_per_s.min", Form::Fixed(3)),
                mean("Busiest node", "bandwidth_mb_per_s.max", Form::Fixed(3)),
                mean("Sent: SD / mean", "sent_mb_per_s.cv", Form::Percent(1)),
                mean("Received: SD / mean", "received_mb_per_s.cv", Form::Percent(1)),
            ]]),
        Section::new("Counters")
            .about(
                "Over all honest nodes. Successful txs: transactions of committed blocks, over all nodes. Already seen txs: bodies \
                 that were in the pool when they arrived. Requested and rerequested txs: first and further requests for a \
                 transaction. Lost txs: no other peer to request from. Not found: keys that peers reported as missing. Withdrawn: \
                 bodies that were dropped before they left. The maxima are sampled before each block: keys and requests that a node \
                 remembered, and transactions in a pool.",
            )
            .metrics(&[
                "transactions successful_txs already_seen_txs requested_txs rerequested_txs timeouts lost_txs not_found \
                 withdrawn_bodies",
                "queue_drops evicted_txs expired_txs failed_txs keys_max requests_max pool_txs_max",
            ]),
        Section::new("Refused and ignored").charts(&[Chart::Causes(&[
            ("refused", "refused"),
            ("ignored", "ignored"),
            ("violations", "misbehaviour"),
        ])]),
    ],
    findings,
    ..PageSpec::BASE
};

const COSTS: Section = Section::new("Cost of each pool").about(LEGEND).tables(&[&[
    mean("copies", "duplication_factor", Form::Fixed(3)),
    mean("incomplete", "incomplete", Form::Number),
    mean("p50", "delivery_latency_ms.p50", Form::ShortMs),
    mean("p99", "delivery_latency_ms.p99", Form::ShortMs),
    computed("to all", |_, row| to_all(row)),
    mean("in all", IN_ALL, Form::Percent(1)),
    mean("SeenTx", "seen_tx", Form::Fixed(1)),
    mean("WantTx", "want_tx", Form::Fixed(2)),
    mean("p95", "delivery_latency_ms.p95", Form::ShortMs),
    mean("kB", CONNECTIONS, Form::Kilo(2)),
    mean("kB wire", WIRE, Form::Kilo(2)),
    mean("of flooding", "wire_over_flooding", Form::Percent(1)),
    computed("saved", |grid, row| fixed(saved(grid, row).unwrap_or(f64::NAN), 2)),
    mean("early", "early_timeouts", Form::Number),
    mean("by block", "by_block_share", Form::Percent(2)),
]]);

const LEGEND: &str = "Per node and transaction: bodies received (copies), announcements, requests; bytes in connections and on the wire.\n\
p50, p95, p99: from the submission until a node has it; to all: until the last node has it, the mean. In all: share of the valid \
transactions that reached the pools of all honest nodes; with fewer than all, \"to all\" has a * and covers only these. Nodes that were \
down count with that time. Of flooding: \
bytes on the wire over those of the bodies of flooding alone. Saved: bytes in connections of the first run with the \
same transactions and network over those of this run. Early: requests that timed \
out before the usual response time of their peer. By block: share of transactions that a node had from a block before its pool had them. Incomplete: \
transactions that did not reach every honest node.";

/// The share of transactions that the time to all nodes covers.
const IN_ALL: &str = "disseminated_share";

/// Returns the mean time until the last node has a transaction. It has a mark if it covers only some of
/// them.
fn to_all(row: &Runs<'_>) -> String {
    let mark = if row.mean(IN_ALL) < 1.0 { " *" } else { "" };
    match row.mean("dissemination_ms.mean") {
        mean if mean.is_finite() => short_ms(mean) + mark,
        _ => MISSING.to_owned(),
    }
}

/// The bytes of a run per node and transaction, and the names of both ways to count them.
const CONNECTIONS: &str = "connection_bytes";
const WIRE: &str = "bytes.total";
const BYTES: [(&str, &str); 2] = [("In connections", CONNECTIONS), ("On the wire", WIRE)];

const COPIES_TITLE: &str = "bodies received for each node and transaction";
const LATENCY: Swept =
    Swept::new("latency", "delivery_latency_ms.p50", "median time until a node has a transaction")
        .caption("From the submission until another node has it in its pool, over all nodes.");
const SWEPT: [Swept; 4] = [
    Swept::new("copies", "duplication_factor", COPIES_TITLE)
        .caption("First and further copies; the origin of a transaction needs none."),
    LATENCY,
    Swept::new("connection-bytes", CONNECTIONS, "bytes in connections for each node and transaction")
        .caption("Bodies, announcements, requests, and the framing of their packets, as the real pools count them."),
    Swept::new("bytes", WIRE, "bytes on the wire for each node and transaction").caption(
        "All bytes that a node receives, including padding of sealed frames, headers, and acknowledgements.",
    ),
];

const RECEIVED: Bars = Bars {
    name: "bytes",
    title: "bytes received for each node and transaction",
    caption: "Bytes that a node received for each transaction, including headers. Senders count framing and padding; if \
              hostile nodes write less than honest ones, bars are cut at the received bytes.",
    parts: &[
        ("first copies", "bytes.bodies"),
        ("further copies", "bytes.duplicates"),
        ("announcements", "bytes.announcements"),
        ("requests", "bytes.requests"),
        ("compact blocks", "bytes.blocks"),
        ("framing of packets", "bytes.framing"),
        ("sealing and padding", "bytes.sealing"),
        ("headers, acknowledgements", "bytes.headers"),
    ],
    metric: WIRE,
    text: |row| format!("{:.1} kB", row.mean(WIRE) / 1e3),
    ..Bars::BASE
};

const COPIES: Bars = Bars {
    name: "copies",
    title: COPIES_TITLE,
    caption: "Means over nodes and transactions. Slightly less than 1 is enough, since the origin of a transaction \
              needs no copy. Flooding sends every transaction over every link once or twice (dashes).",
    metric: "duplication_factor",
    bounds: &["flood_least", "flood_most"],
    bound: "least and most copies of flooding",
    range: Range::Powers,
    text: |row| fixed(row.mean("duplication_factor"), 2),
    ..Bars::BASE
};

const BLOCKS: [Column; 10] = [
    mean("Blocks", "blocks", Form::Number),
    mean("Transactions per block", "block_txs.mean", Form::Number),
    mean("Until inclusion, mean", "time_to_inclusion_ms.mean", Form::ShortMs),
    mean("p99", "time_to_inclusion_ms.p99", Form::ShortMs),
    mean("Finalised, MB/s", "finalised_mb_per_s", Form::Fixed(3)),
    mean("Full", "block_fill", Form::Percent(1)),
    mean("Compact: hit rate", "compact_block_hit_rate", Form::Percent(2)),
    mean("Until complete, p50", "compact_block_ms.p50", Form::ShortMs),
    mean("p99", "compact_block_ms.p99", Form::ShortMs),
    mean("Given up", "compact_blocks_given_up", Form::Number),
];

fn blocks(results: &Results<'_>) -> Vec<Part> {
    let is_compact = |row: &Runs<'_>| row.mean("compact_block_hit_rate") > 0.0;
    let shown = if results.rows.iter().any(is_compact) { BLOCKS.len() } else { 6 };
    vec![Part::Table(results.table(&BLOCKS[..shown]))]
}

/// Returns the circumstances of a run without its pool: transactions, network, connections, faults, and
/// nodes with other pools.
fn circumstances(row: &Runs<'_>) -> Scenario {
    let mut scenario = Scenario::clone(&row.first().point.scenario);
    if let Some(parameters) = scenario.find_mut::<Parameters>() {
        *parameters = Parameters::default();
    }
    scenario
}

/// Returns the runs that differ from this one only in their pools, including itself.
fn like<'b, 'a>(grid: &'b Grid<'a>, row: &Runs<'_>) -> Vec<&'b Runs<'a>> {
    let own = circumstances(row);
    grid.rows.iter().filter(|other| other.point == row.point && circumstances(other) == own).collect()
}

/// Returns the bytes in connections of the first comparable run as a multiple of this run's: above 1 if
/// this run saves bytes.
///
/// `None` for runs without a comparable one.
fn saved(grid: &Grid<'_>, row: &Runs<'_>) -> Option<f64> {
    let like = like(grid, row);
    let base = like.first().filter(|_| like.len() > 1)?;
    let factor = base.mean(CONNECTIONS) / row.mean(CONNECTIONS);
    (factor.is_finite() && factor > 0.0).then_some(factor)
}

/// Draws lines over one axis, with rings at points where a run needs as many bytes as the first; or
/// maps over more axes, of copies and latency: a request timer affects both.
fn over_sweep(results: &Results<'_>) -> Vec<Figure> {
    if results.axes.len() > 1 {
        return results.maps(&[SWEPT[0].caption("Copies beyond 1 are redundant."), LATENCY]);
    }
    let mut figures = results.over_sweep(&SWEPT, None);
    for figure in &mut figures {
        let is_shown = |(_, metric): &&(&str, &str)| {
            SWEPT
                .iter()
                .any(|shown| shown.metric == *metric && figure.name == format!("sweep-{}", shown.name))
        };
        let Some((_, metric)) = BYTES.iter().find(is_shown) else { continue };
        if let Drawing::Lines(lines) = &mut figure.drawing {
            let races = races(results, metric);
            let crossovers = races.iter().flat_map(|race| crossovers(&race.points, race.by_powers));
            lines.rings = crossovers.map(|crossover| (crossover.at, crossover.value)).collect();
            lines.ring = format!("as many as {}", results.rows[0].label);
        }
    }
    figures
}

/// Returns the ranges of a sweep in which each run needs fewer bytes than the first.
fn break_even(results: &Results<'_>) -> Vec<samara_report::Section> {
    let [(_, axis)] = results.axes.as_slice() else { return Vec::new() };
    let swept = swept(results).0;
    let [connections, wire] = BYTES.map(|(_, metric)| races(results, metric));
    if connections.is_empty() || connections.len() != wire.len() {
        return Vec::new();
    }
    let row = |(one, other): (&Race<'_>, &Race<'_>)| {
        TableRow::new(&one.row.label, vec![one.verdict(&swept), other.verdict(&swept)])
    };
    let rows = connections.iter().zip(&wire).map(row).collect();
    let text = format!(
        "Ranges of {axis} in which a run needs fewer bytes per node and transaction than \"{}\", including announcements \
         and all other messages; interpolated between measured points, as in the figures.",
        results.rows[0].label
    );
    let table = Table::new(["Run", BYTES[0].0, BYTES[1].0], 3, rows);
    vec![samara_report::Section::new("Break-even points", text, table)]
}

fn findings(results: &Results<'_>) -> Vec<String> {
    let savings = match results.is_sweep() {
        true => savings_over_sweep(results).into_iter().collect(),
        false => savings(results),
    };
    // The result of the runs comes first, unless something is missing.
    let mut sentences = savings;
    let place = if results.sum("incomplete") == 0.0 { sentences.len() } else { 0 };
    sentences.insert(place, delivered(results));
    sentences.extend(overtaking(results));
    sentences
}

fn delivered(results: &Results<'_>) -> String {
    let (total, incomplete) = (results.sum("transactions"), results.sum("incomplete"));
    if incomplete == 0.0 {
        let runs = results.counted();
        let total = plural(total, "transaction");
        return format!(
            "{total} in {runs}; every valid one reached every honest node, by its pool or in a block."
        );
    }
    let missed = results.rows.iter().filter(|row| row.mean("incomplete") > 0.0);
    let runs = groups(missed, |row| format!("\"{}\"", row.label));
    format!(
        "{} of {} transactions did not reach every honest node: {}.",
        grouped(incomplete),
        grouped(total),
        listed(&runs.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    )
}

/// Returns a sentence for each set of comparable runs.
///
/// It compares the run with the fewest bytes to the first run of the set or, if that is the first, to
/// the run with the most bytes.
fn savings(results: &Results<'_>) -> Vec<String> {
    // A pool that blocks overtake saves bytes because it is late.
    let in_time = results.rows.iter().filter(|row| row.mean("by_block_share") < 0.01);
    let saved = in_time.filter_map(|row| Some((row, saved(results, row)?)));
    let groups = groups(saved, |(row, _)| like(results, row).first().map(|base| &base.run));
    let sentence = |(_, group): &(_, Vec<(&Runs<'_>, f64)>)| {
        let best = group.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let worst = group.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        // The first run counts even if it is late itself.
        let base = *like(results, best.0).first()?;
        let other = if best.0.run == base.run { worst.0 } else { base };
        let times = other.mean(CONNECTIONS) / best.0.mean(CONNECTIONS);
        let [copies, others] = [best.0, other].map(|row| format!("{:.2}", row.mean("duplication_factor")));
        let compared = if copies == others { "in both".to_owned() } else { format!("instead of {others}") };
        (times > 1.05).then(|| {
            format!(
                "\"{}\" needs {} times fewer bytes in connections than \"{}\" ({} on the wire), with {copies} bodies per \
                 node and transaction {compared}.",
                best.0.label,
                factor(times),
                other.label,
                less(other.mean(WIRE) / best.0.mean(WIRE)),
            )
        })
    };
    groups.iter().filter_map(sentence).collect()
}

/// Returns a sentence on the run that saves most over all values of the axes, with its least
/// and greatest saving.
fn savings_over_sweep(results: &Results<'_>) -> Option<String> {
    let saved = results.rows.iter().filter_map(|row| Some((saved(results, row)?, row)));
    let runs = groups(saved, |(_, row)| &row.run);
    let mean = |factors: &[(f64, &Runs<'_>)]| {
        factors.iter().map(|(factor, _)| factor.ln()).sum::<f64>() / factors.len() as f64
    };
    let (_, factors) = runs.iter().max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)))?;
    let least = factors.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = factors.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let place = |row: &Runs<'_>| {
        let values = results.axes.iter().zip(&row.point);
        values.map(|((_, label), value)| format!("{label} {value}")).collect::<Vec<_>>().join(", ")
    };
    (most.0 > 1.05).then(|| {
        format!(
            "\"{}\" needs the fewest bytes in connections: {} times fewer than \"{}\" at {}, {} at {}.",
            most.1.label,
            factor(most.0),
            results.rows[0].label,
            place(most.1),
            less(least.0),
            place(least.1)
        )
    })
}

/// Returns sentences on the ranges of the only axis in which the first run wins, in connections
/// and on the wire.
fn overtaking(results: &Results<'_>) -> Vec<String> {
    let ([(_, axis)], Some(first)) = (results.axes.as_slice(), results.rows.first()) else {
        return Vec::new();
    };
    let (swept, _) = swept(results);
    let mut sentences = Vec::new();
    for (name, metric) in BYTES {
        let races = races(results, metric);
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
fn swept(grid: &Grid<'_>) -> (Axis, Vec<f64>) {
    let values = grid.rows.iter().map(|row| row.point.first().map_or("", String::as_str));
    Axis::new(&values.collect::<Vec<_>>())
}

/// Returns all runs paired with the first.
///
/// It is empty unless they are comparable at every value of the axis and the values are numbers.
fn races<'b>(grid: &'b Grid<'_>, metric: &str) -> Vec<Race<'b>> {
    let (swept, xs) = swept(grid);
    let Some(first) = grid.rows.first().filter(|_| swept.numbers) else { return Vec::new() };
    let others = grid.rows.iter().zip(&xs).filter(|(row, _)| row.run != first.run);
    let mut races = Vec::new();
    for (_, group) in groups(others, |(row, _)| &row.run) {
        let mut points = Vec::new();
        for (row, x) in &group {
            let like = like(grid, row);
            let Some(base) = like.first().filter(|base| base.run == first.run) else { return Vec::new() };
            points.push((**x, base.mean(metric), row.mean(metric)));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.len() > 1 && points.iter().all(|(_, base, own)| *base > 0.0 && *own > 0.0) {
            races.push(Race { row: group[0].0, points, by_powers: swept.by_powers });
        }
    }
    races
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
    row: &'a Runs<'a>,
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
    fn verdict(&self, swept: &Axis) -> String {
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
