//! The page of teams that mix batches.

use samara_lab::page::{Bars, Chart, Form, PageSpec, Range, Section, Swept, computed, mean};
use samara_lab::report::{self, Results, Runs, agreement};
use samara_lab::results::Outcome;
use samara_mix::{Cause, Parameters};
use samara_report::words::{MISSING, capitalised, fixed, grouped, number, percent_range, plural, short_ms};
use samara_report::{Figure, Part};

use super::course::FaultWindow;
use super::drawings::{rounds, timelines};
use super::metrics::{MixMetrics, is_harmed};
use super::outcome::MixData;

pub(super) static PAGE: PageSpec = PageSpec {
    sections: &[
        Section::new("Over the sweep").in_sweep().charts(&[Chart::Lines(&SWEPT, None)]),
        Section::drawn(side_by_side).side_by_side(),
        Section::new("Throughput and its bounds").about(LEGEND).tables(&[&[
            mean("slots/s", "slots_per_s", Form::Number),
            computed("failed", |_, row| format!("{} of {}", number(row.mean("failed")), number(row.mean("rounds")))),
            mean("wrong", FAULTS, Form::Number),
            mean("gain", "gain", Form::Fixed(2)),
            computed("formula", |_, row| {
                if is_base(row) { MISSING.to_owned() } else { fixed(row.mean("gain_by_formula"), 2) }
            }),
            mean("bound", BOUND, Form::Number),
            mean("share", "share_of_bound", Form::Percent(0)),
            mean("limit", "limit", Form::Text),
            mean("latency", "batch_latency_ms.p50", Form::ShortMs),
            mean("c", "compute_ms", Form::ShortMs),
            mean("L", "transfer_ms", Form::ShortMs),
            computed("processors", |_, row| {
                percent_range(row.mean("cpu_utilisation_min"), row.mean("cpu_utilisation_max"))
            }),
            mean("gap", "longest_gap_ms", Form::ShortMs),
        ]]),
        Section::new("Limits").side_by_side().charts(&[Chart::Parts(limits)]),
        Section::new("Precomputation")
            .about(
                "Slots precomputed per second in the steady state, without real-time work, and as a share of the bound by the busiest \
                 processor or uplink. Every slot needs both halves: the last column is the bound of the pool in the long term.",
            )
            .tables(&[&[
                mean("Slots/s", "precomputation_slots_per_s", Form::Number),
                mean("Share of bound", "precomputation_share_of_bound", Form::Percent(0)),
                mean("Long-term bound", "sustained_bound_slots_per_s", Form::Number),
            ]]),
        Section::new("Causes of the first hop").charts(&[Chart::Figures(first_hop)]),
    ],
    details: &[
        Section::new("Counters")
            .about(
                "Failed unharmed: failed rounds whose nodes had no fault. Unresolved: rounds, or nodes of a round, that never \
                 reported an end; nodes with a fault do not count. Service: mean time from the arrival of a payload to its exit, with the wait \
                 for a batch. Loop: pings around a team.",
            )
            .metrics(&["rounds completed failed failed_unharmed unresolved wrong disagreements unmixed draws resent_frames \
                       retransmissions batch_latency_ms.p95 batch_latency_ms.max service_ms.mean loop_ms.p50 service_gap_ms"]),
        Section::new("Failed rounds and ignored frames")
            .charts(&[Chart::Causes(&[("failed rounds", "failed_by_cause"), ("ignored", "ignored")])]),
        Section::new("Time of each kind of work")
            .about("Microseconds on one core, per slot; per round for drawing its secrets (generate) and raising a part of its key (share).")
            .charts(&[Chart::Parts(costs)]),
    ],
    findings,
    ..PageSpec::BASE
};

const LEGEND: &str = "Slots/s: payloads that come out, at full load. Gain: over the first run of the series. Formula: n + n L/c, over a first run of\n\
sequential unary rounds. Bound: maximum of the busiest processor or uplink. Latency: of a batch, from payloads in to payloads out at all nodes, median.\n\
c: work of a node on a pass; L: time until the next node has all of it. Processors: least and greatest utilisation. Failed: rounds. Wrong: payloads or orders. Gap: the longest time of a team between two rounds.";

const BOUND: &str = "upper_bound_slots_per_s";
/// Payloads and orders that are wrong.
const FAULTS: &str = "wrong + disagreements + contradictions + unmixed";

const THROUGHPUT: &str = "payloads per second";
const SWEPT: [Swept; 6] = [
    Swept::new("throughput", "slots_per_s", THROUGHPUT)
        .caption("With the maximum number of rounds in flight."),
    Swept::new("gain", "gain", "throughput over that of the first run")
        .caption("In the same series, with the same values of the sweep."),
    Swept::new("share", "share_of_bound", "throughput as a share of its bound")
        .caption("The busiest processor or uplink determines the bound."),
    Swept::new("latency", "batch_latency_ms.p50", "median latency of a batch")
        .caption("From payloads in to payloads out at all nodes."),
    Swept::new("service", "service_ms.mean", "mean time from the arrival of a payload to its exit")
        .caption("With the wait for the next batch of any team."),
    Swept::new("precomputation", "precomputation_slots_per_s", "slots precomputed per second")
        .caption("In the steady state, without real-time work."),
];

const RATES: Bars = Bars {
    title: THROUGHPUT,
    metric: "slots_per_s",
    mark: THROUGHPUT,
    bounds: &[BOUND],
    bound: "bound by the busiest processor or uplink",
    range: Range::Linear(1.3),
    text: |row| {
        let (rate, gain) = (grouped(row.mean("slots_per_s")), row.mean("gain"));
        if is_base(row) || !gain.is_finite() { rate } else { format!("{rate}, {gain:.1} x") }
    },
    ..Bars::BASE
};

/// The duration of the first hop by cause: the time saved without each cause. Without one cause, another
/// can cost slightly more.
const FIRST_HOP: Bars = Bars {
    parts: &[
        ("idle restart", "first_hop_parts.idle_restart_ms"),
        ("window of HTTP/2", "first_hop_parts.window_ms"),
        ("slow start", "first_hop_parts.slow_start_ms"),
        ("serialisation", "first_hop_parts.serialisation_ms"),
        ("latency", "first_hop_parts.latency_ms"),
    ],
    metric: "first_hop_ms",
    text: |row| short_ms(row.mean("first_hop_ms")),
    ..Bars::BASE
};

fn metrics<'a>(row: &Runs<'a>) -> &'a MixMetrics {
    &row.data::<MixData>().metrics
}

/// Returns true for the first run of a series, the base of the others' gains.
fn is_base(row: &Runs<'_>) -> bool {
    metrics(row).gain.is_some_and(|gain| gain == 1.0)
}

fn limit(row: &Runs<'_>) -> String {
    let first = metrics(row);
    let share = row.mean("share_of_bound") * 100.0;
    let [least, most, mean] = ["cpu_utilisation_min", "cpu_utilisation_max", "cpu_utilisation"]
        .map(|metric| row.mean(metric) * 100.0);
    match first.limit {
        "latency" => format!(
            "The number of rounds in flight is the limit: {share:.0} % of the bound by the busiest processor or uplink; processors wait {:.0} % of the time for slots in transit.",
            100.0 - mean
        ),
        "uplink" => {
            format!("The uplink of node {} is the limit; slots use {share:.0} % of it.", first.slowest_node)
        }
        _ if most > 1.15 * least => format!(
            "The processor of node {} is the limit: it is busy for {most:.0} % of the time, the least busy one for {least:.0} %.",
            first.slowest_node
        ),
        _ => format!("Processors are the limit: all are busy for at least {least:.0} % of the time."),
    }
}

fn limits(results: &Results<'_>) -> Vec<Part> {
    let term =
        |row: &Runs<'_>| (row.label.clone(), format!("{} {}", limit(row), row.first().point.description));
    vec![Part::Terms(results.rows.iter().map(term).collect())]
}

/// Draws the causes of the first hop's duration for each size of a batch, if the scenario requests them.
fn first_hop(results: &Results<'_>) -> Vec<Figure> {
    let rows = results.rows.iter().filter(|row| metrics(row).first_hop_parts.is_some());
    let figure = |(batch, rows): (u32, Vec<&Runs<'_>>)| {
        let mut drawn = FIRST_HOP.draw(results, &rows);
        drawn.title = format!("{batch} payloads: from the first node to the second");
        let caption = "The first hop of a batch by cause: the time saved without each cause. Rings: measurements by others.";
        Figure::new(format!("first-hop-{batch}"), caption, drawn)
    };
    report::grouped(rows, |row| metrics(row).batch).into_iter().map(figure).collect()
}

fn costs(results: &Results<'_>) -> Vec<Part> {
    let Some(first) = results.rows.first() else { return Vec::new() };
    let names: Vec<&str> = metrics(first).cost_us.keys().copied().collect();
    let table = results.table_of(names.iter().map(|name| name.replace('_', " ")), |row| {
        let cost = |name: &&str| metrics(row).cost_us.get(name).map_or_else(String::new, |us| number(*us));
        names.iter().map(cost).collect()
    });
    vec![Part::Table(table)]
}

/// Draws a section for each series.
fn side_by_side(results: &Results<'_>) -> Vec<samara_report::Section> {
    let section = |(series, rows): (&str, Vec<&Runs<'_>>)| {
        let heading = if series.is_empty() { "Side by side".to_owned() } else { capitalised(series) };
        let figures = if rows.iter().all(|row| row.data::<MixData>().harm.is_empty()) {
            let caption = "With the maximum number of rounds in flight, and the gain over the first run.";
            let name = report::slug(&format!("throughput-{series}"));
            let throughput = Figure::new(name, caption, RATES.draw(results, &rows));
            [throughput].into_iter().chain(timelines(&rows)).collect()
        } else {
            rows.iter().map(|row| rounds(row)).collect::<Vec<_>>()
        };
        samara_report::Section::new(heading, "", figures)
    };
    series(results).into_iter().map(section).collect()
}

fn series<'b, 'a>(results: &'b Results<'a>) -> Vec<(&'a str, Vec<&'b Runs<'a>>)> {
    report::grouped(&results.rows, |row| row.first().point.series.as_str())
}

fn findings(results: &Results<'_>) -> Vec<String> {
    let known = &results.findings.summary.published;
    let known = (!known.is_empty()).then(|| agreement(known));
    let (rounds, failed) = (results.sum("rounds"), results.sum("failed"));
    let (wrong, endless) = (results.sum(FAULTS), results.sum("unresolved"));
    let bad = wrong + endless;
    let mut sentences = vec![if bad == 0.0 {
        let failed = if failed == 0.0 { "none".to_owned() } else { number(failed) };
        let verb = if failed == "none" { "failed" } else { "reported as failed" };
        format!(
            "{} in {}: {failed} {verb}; all others came out complete, in the same order at all nodes.",
            plural(rounds, "round"),
            results.counted()
        )
    } else {
        let (rounds, runs) = (plural(rounds, "round"), results.counted());
        let endless = (endless > 0.0).then(|| format!("{} did not end", number(endless)));
        let wrong = (wrong > 0.0).then(|| format!("{} payloads, orders or ends were wrong", number(wrong)));
        let bad: Vec<String> = endless.into_iter().chain(wrong).collect();
        format!("{rounds} in {runs}: {}.", bad.join(", and "))
    }];
    let gains = series(results);
    let gains = gains.iter().filter_map(|(_, rows)| best(rows));
    // The result of the runs comes first, unless something is wrong.
    sentences = if bad == 0.0 {
        gains.chain(sentences).collect()
    } else {
        sentences.into_iter().chain(gains).collect()
    };
    sentences.extend(faults(results));
    let outcomes: Vec<&Outcome> = results.rows.iter().flat_map(|row| row.all.iter().copied()).collect();
    sentences.extend(faults_beside_teams(&outcomes));
    sentences.extend(expired_stock(&outcomes));
    sentences.extend(known);
    sentences
}

fn best(rows: &[&Runs<'_>]) -> Option<String> {
    let gain = |row: &Runs<'_>| row.mean("gain");
    let gains = rows.iter().filter(|row| gain(row) > 1.05);
    let best = gains.max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
    let point: String = best.point.iter().map(|value| format!(" ({value})")).collect();
    let by_formula = best.mean("gain_by_formula");
    let formula = if by_formula.is_finite() && metrics(best).limit == "processor" {
        format!(", {by_formula:.1} by formula")
    } else {
        String::new()
    };
    Some(format!(
        "\"{}\"{point}: {} payloads/s, {:.1} times as many as the first run{formula}. {}",
        best.label,
        grouped(best.mean("slots_per_s")),
        gain(best),
        limit(best)
    ))
}

fn faults(results: &Results<'_>) -> Option<String> {
    let hit: Vec<&Runs<'_>> =
        results.rows.iter().filter(|row| !row.data::<MixData>().harm.is_empty()).collect();
    let gap = hit.iter().map(|row| row.mean("longest_gap_ms")).reduce(f64::max)?;
    let service = hit.iter().map(|row| row.mean("service_gap_ms")).fold(0.0, f64::max);
    let others: f64 = hit.iter().flat_map(|row| row.values("failed_unharmed")).sum();
    Some(format!(
        "With faults, the longest gap was {} for a team and {} for all teams; {} of teams without a fault failed.",
        short_ms(gap),
        short_ms(service),
        plural(others, "round")
    ))
}

/// Returns a sentence on each fault that hits no node of a round. The page has others on faults that
/// begin after all rounds.
fn faults_beside_teams(outcomes: &[&Outcome]) -> Vec<String> {
    let beside = |outcome: &&Outcome| -> Vec<usize> {
        let Some(data) = outcome.data::<MixData>() else { return Vec::new() };
        let in_time = data.harm.iter().filter(|harm| harm.from < data.over);
        let hits_nobody = |harm: &[FaultWindow]| !data.rounds.iter().any(|row| is_harmed(row, harm));
        let by_fault = report::grouped(in_time, |harm| harm.fault).into_iter();
        let windows = by_fault.map(|(fault, harm)| (fault, harm.into_iter().copied().collect::<Vec<_>>()));
        windows.filter(|(_, harm)| hits_nobody(harm)).map(|(fault, _)| fault).collect()
    };
    let all = plural(outcomes.len() as f64, "run");
    let sentence = |(fault, runs): (usize, Vec<usize>)| {
        let found = "which had no round with a node of it during the fault";
        format!("fault.{fault} hits no team in {} of {all}, {found}.", runs.len())
    };
    report::grouped(outcomes.iter().flat_map(beside), |fault| *fault).into_iter().map(sentence).collect()
}

/// Returns a sentence on prepared rounds that timed out before payloads came, with the way out.
fn expired_stock(outcomes: &[&Outcome]) -> Option<String> {
    let expired = |outcome: &&&Outcome| {
        let rounds = outcome.data::<MixData>().map_or(&[][..], |data| &data.rounds);
        let timed_out = rounds.iter().filter(|row| row.cause == Some(Cause::Timeout));
        timed_out.filter(|row| row.opened.is_some() && row.entered.is_none()).count()
    };
    let first = outcomes.iter().find(|outcome| expired(outcome) > 0)?;
    let count: usize = outcomes.iter().map(|outcome| expired(&outcome)).sum();
    let wait = first.point.scenario.part::<Parameters>().config.queue_timeout;
    Some(format!(
        "{} timed out before payloads came: prepared rounds wait for {} at most. Raise protocol.queue_timeout, or lower mix.stock.",
        plural(count as f64, "round"),
        short_ms(wait.as_secs_f64() * 1e3)
    ))
}

#[cfg(test)]
mod tests {
    use samara_lab::family::set_base;
    use samara_lab::results::Measured;
    use samara_lab::run::{RunOptions, run_alone};
    use samara_lab::testing::load_with;

    use super::*;
    use crate::course::Teams;

    fn outcome(name: &str, set: &[(&str, &str)], run: &str) -> Outcome {
        set_base(&[&crate::FAMILY]);
        let loaded = load_with(name, set, &[run], Some(1)).expect("a valid scenario");
        let options = RunOptions::new(1, &loaded.inputs);
        run_alone::<Teams>(&loaded.points[0], options, &mut |_, _| {}).expect("it runs").outcome()
    }

    /// One team of five has five of eight nodes: a fault of each of the others is in vain.
    #[test]
    fn a_fault_beside_the_team_is_named() {
        let of = |node: u32| {
            let nodes = format!("[{node}]");
            let set = [("mix.teams", "1"), ("mix.rounds", "10"), ("mix.batch", "10")];
            let fault = [("fault.0.at", "500 ms"), ("fault.0.nodes", &nodes)];
            outcome("mix-pool", &[&set[..], &fault].concat(), "crash")
        };
        let first = of(0);
        let data: &MixData = first.own();
        let team = data.rounds[0].nodes.clone();
        assert!(data.over > 500_000_000, "the fault is in time");
        let (inside, outside) = (team[0], (0..8).find(|node| !team.contains(node)).expect("three of eight"));
        let (inside, outside) = (of(inside), of(outside));
        assert!(faults_beside_teams(&[&inside]).is_empty());
        let expected =
            "fault.0 hits no team in 1 of 2 runs, which had no round with a node of it during the fault.";
        assert_eq!(faults_beside_teams(&[&outside, &inside]), [expected]);
    }

    #[test]
    fn a_stock_that_waits_for_too_long_is_named() {
        let set =
            |timeout| [("mix.batch", "10"), ("mix.interval", "1 s"), ("protocol.queue_timeout", timeout)];
        let short = outcome("mix", &set("8 s"), "equal-5");
        let found = expired_stock(&[&short]).expect("rounds time out");
        assert!(
            found.contains(" timed out before payloads came: prepared rounds wait for 8.00 s at most. "),
            "{found}"
        );
        assert_eq!(expired_stock(&[&outcome("mix", &set("60 s"), "equal-5")]), None);
    }
}
