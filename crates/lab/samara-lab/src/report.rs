//! Reports: the page of a scenario's results. Each family contributes its sections.

mod classes;
mod frame;
mod rows;
pub mod spread;

use std::collections::BTreeMap;

use samara_document::PREFIX;
use samara_report::words::{MISSING, fixed, number, percent, plural, short_ms, signed_percent};
use samara_report::{Look, Page, Part, Row, Section, Summary, Table};
use samara_scenario::{Loaded, Verdict};

use crate::expect::ExpectationResult;
use crate::explain;
use crate::family;
use crate::finding;
use crate::reference::{Comparison, PublishedComparison, judged};
use crate::results::{self, Findings, RealRun, ResultsDirectory, RivalFigures, Run};
use crate::statistics::Statistics;

pub(crate) use classes::section as by_class;
pub(crate) use frame::first_figure;
pub use frame::{Made, colours};
pub use rows::{Bound, Grid, Results, Runs, grouped, slug, value};
pub(crate) use rows::{Item, unit_of};

/// A family's part of a page of results.
#[derive(Debug)]
pub struct Body {
    /// Sentences on the results.
    pub findings: Vec<String>,
    /// The text for the terminal.
    pub summary: Summary,
    /// The sections before published figures and expectations.
    pub sections: Vec<Section>,
    /// The sections after expectations.
    pub details: Vec<Section>,
}

/// Returns the page of all results of a scenario.
pub fn page(loaded: &Loaded, findings: &Findings) -> Page {
    let Findings { summary, results, comparisons, checked, .. } = findings;
    let family = family::of(&loaded.scenario);
    let grouped = Results::of(loaded, findings);
    let mut body = family.page.body(&grouped);
    let said = finding::sentences(loaded, results);
    let equal = grouped.equal_runs();
    // Runs that end before anything has arrived are equal, too: what is missing is more important.
    let is_incomplete = results.iter().any(|outcome| outcome.is_incomplete);
    for sentences in [&mut body.findings, &mut body.summary.sentences] {
        sentences.splice(..0, said.iter().cloned());
        let place = if is_incomplete { sentences.len() } else { 0 };
        sentences.splice(place..place, equal.iter().cloned());
    }
    let (pair, has_base) = (loaded.scenario.scenario.explained.as_ref(), !family.beside_first.is_empty());
    body.findings.extend(explain::difference(findings, pair, has_base));
    for remark in late_faults(results.iter().map(|result| &result.run.late_faults))
        .into_iter()
        .chain(absent_tables(summary))
    {
        body.findings.push(remark.clone());
        body.summary.sentences.push(remark);
    }
    body.summary.notes = by_verdict(&summary.published).into_iter().chain(left_out(loaded)).collect();
    body.summary.sentences = by_name(loaded, body.summary.sentences);
    let (measured, others) = (beside_measured(comparisons), beside_others(loaded, &summary.published));
    let rivals = rivals(loaded, &summary.runs);
    body.summary.more = [&rivals, &measured].into_iter().flatten().cloned().collect();
    let measured = measured.map(|table| Section::new("Comparison with measurements", "", table));
    let text = agreement(&summary.published);
    let others = others.map(|table| Section::new("Comparison with published figures", text, table));
    let mut sections = body.sections;
    sections.extend(by_class(&grouped, family));
    sections.extend(rivals.map(|table| Section::new("Rivals", RIVALS, table)));
    sections.extend(measured.into_iter().chain(others).chain(expectations(&labelled(loaded, checked))));
    sections.extend(real_nodes(findings));
    sections.extend(body.details);
    sections.push(again(loaded, findings));
    let figure = first_figure(&mut sections);
    sections.splice(..0, explain::section(findings));
    let real = summary.runs.iter().any(|run| run.real.is_some());
    let made = Made {
        origin: summary.headline.origin.as_ref(),
        version: &summary.version,
        digest: (!real).then_some(&summary.digest),
        seeds: loaded.points.iter().map(|point| point.seed).collect(),
        files: &["summary.json", "scenario.toml", "runs/", "figures/"],
    };
    Page {
        kind: summary.scenario.clone(),
        is_bad: is_incomplete || checked.iter().any(ExpectationResult::fails),
        findings: with_failures(checked, body.findings),
        figure,
        sections,
        summary: body.summary,
        ..made.frame(loaded, checked)
    }
}

/// Returns a sentence on each fault that had no effect, since all traffic ended before, from the numbers
/// of these faults in each run.
pub fn late_faults<'a>(runs: impl ExactSizeIterator<Item = &'a Vec<usize>>) -> Vec<String> {
    let all = plural(runs.len() as f64, "run");
    let late = grouped(runs.flatten(), |fault| **fault);
    let sentence = |(fault, runs): (usize, Vec<&usize>)| {
        format!("fault.{fault} had no effect in {} of {all}: all traffic ended before it.", runs.len())
    };
    late.into_iter().map(sentence).collect()
}

/// Returns a sentence on tables that were not recorded: the first one, and the number of runs.
fn absent_tables(summary: &results::Summary) -> Option<String> {
    let mut runs = summary.runs.iter().filter(|run| !run.absent.is_empty());
    let run = runs.next()?;
    let (table, reason) = run.absent.first_key_value()?;
    let more = match runs.count() {
        0 => String::new(),
        more => format!(" In all, {} runs lack tables; see absent in summary.json.", more + 1),
    };
    Some(format!("{} has no {table}.parquet: {reason}.{more}", run.name))
}

/// Writes the page and its figures. Returns the figures that are left out, with the reasons.
pub fn write(page: &Page, directory: &ResultsDirectory) -> Result<Vec<String>, String> {
    let (files, failed) = page.files();
    let write = |(name, bytes): (String, Vec<u8>)| directory.bytes(&name, &bytes);
    files.into_iter().try_for_each(|file| write(file).map_err(|error| error.to_string()))?;
    Ok(failed)
}

/// Prepends a sentence on failed expectations to the key sentences.
pub(crate) fn with_failures(checked: &[ExpectationResult], findings: Vec<String>) -> Vec<String> {
    let missed = checked.iter().filter(|result| result.fails()).count();
    let counted = checked.iter().filter(|result| result.counts).count();
    let failure = (missed > 0).then(|| format!("{missed} of {counted} expectations fail."));
    failure.into_iter().chain(findings).collect()
}

/// The remark beside expectations that do not count.
pub const ADVISORY: &str =
    "They describe the built-in scenario; with changed keys they do not set the exit status (--strict does).";

/// The results with the labels of runs, which the tables of the page show.
fn labelled(loaded: &Loaded, checked: &[ExpectationResult]) -> Vec<ExpectationResult> {
    let label = |one: &ExpectationResult| label_of(loaded, &one.run).to_owned();
    checked.iter().map(|one| ExpectationResult { run: label(one), ..one.clone() }).collect()
}

/// Returns sentences with the names of runs in place of their labels in quotes: tables in a terminal have
/// names, which --only takes. A label of several runs stays.
pub(crate) fn by_name(loaded: &Loaded, sentences: Vec<String>) -> Vec<String> {
    let labels = grouped(&loaded.points, |point| point.label.as_str());
    let names: BTreeMap<&str, &str> = labels
        .into_iter()
        .filter(|(_, points)| points.iter().all(|point| point.run == points[0].run))
        .map(|(label, points)| (label, points[0].run.as_str()))
        .collect();
    let renamed = |sentence: String| {
        let parts = sentence.split('"').enumerate();
        let parts = parts.map(|(at, part)| match at % 2 {
            1 => names.get(part).copied().unwrap_or(part),
            _ => part,
        });
        parts.collect::<Vec<_>>().join("\"")
    };
    sentences.into_iter().map(renamed).collect()
}

/// The label of a run; its name if the scenario has no such run.
pub(crate) fn label_of<'a>(loaded: &'a Loaded, name: &'a str) -> &'a str {
    let point = loaded.points.iter().find(|point| point.run == name);
    point.map_or(name, |point| &point.label)
}

pub fn expectations(checked: &[ExpectationResult]) -> Option<Section> {
    let held = checked.iter().filter(|result| result.holds).count();
    let missed = ExpectationResult::lines(checked.iter().filter(|result| !result.holds));
    let mut text = format!("{held} of {} hold.", checked.len());
    if checked.iter().any(|result| !result.counts) {
        text += " ";
        text += ADVISORY;
    }
    let failures = (!missed.is_empty()).then(|| Part::Failures(String::new(), missed));
    let parts = failures.into_iter().collect();
    (!checked.is_empty()).then(|| Section { heading: "Expectations".to_owned(), text, parts })
}

fn beside_measured(comparisons: &[Comparison]) -> Option<Table> {
    let mut rows = Vec::new();
    for comparison in comparisons {
        let row = |cells: [String; 7], look| Row {
            label: comparison.label.clone(),
            look,
            ..Row::new(comparison.run.clone(), cells.to_vec())
        };
        for (side, statistics, copies, runs) in [
            ("measured", &comparison.reference_ms, comparison.copies.1, comparison.runs.1),
            ("simulated", &comparison.ours_ms, comparison.copies.0, comparison.runs.0),
        ] {
            let [mean, p50, p95, max] =
                [statistics.mean, statistics.p50, statistics.p95, statistics.max].map(|ms| fixed(ms, 0));
            let cells = [side.to_owned(), runs.to_string(), mean, p50, p95, max, fixed(copies, 2)];
            rows.push(row(cells, Look::Plain));
        }
        let none = String::new;
        let [mean, p95] = [comparison.mean_deviation(), comparison.p95_deviation()].map(signed_percent);
        let cells = ["difference".to_owned(), none(), mean, none(), p95, none(), none()];
        rows.push(row(cells, Look::Conclusion));
    }
    let headings = ["run", "", "runs", "mean ms", "p50", "p95", "max", "copies"];
    (!rows.is_empty()).then(|| Table::new(headings, 2, rows))
}

/// Returns a sentence on published figures that describe the scenario without the changed keys.
fn left_out(loaded: &Loaded) -> Option<String> {
    let all = &loaded.scenario.published;
    let count = all.iter().filter(|figure| !loaded.meets_conditions(figure)).count();
    let figures = plural(count as f64, "published figure");
    (count > 0).then(|| format!("{figures} left out: they describe the scenario without the changed keys."))
}

/// Returns a sentence with the numbers of published figures by verdict.
fn by_verdict(published: &[PublishedComparison]) -> Option<String> {
    let verdicts = grouped(published, |known| known.verdict.name());
    let counts: Vec<String> =
        verdicts.into_iter().map(|(name, all)| format!("{} {name}", all.len())).collect();
    let figures = plural(published.len() as f64, "published figure");
    let text = format!("{figures}: {}; the report shows each beside ours.", counts.join(", "));
    (!published.is_empty()).then_some(text)
}

/// Returns a sentence on how many published figures ours agree with, and on the mean difference.
pub fn agreement(published: &[PublishedComparison]) -> String {
    let agrees = |known: &&PublishedComparison| known.figure.holds(judged(&known.figure, &known.ours));
    let within = published.iter().filter(agrees).count();
    let mean = published.iter().map(PublishedComparison::deviation).sum::<f64>() / published.len() as f64;
    let (count, mean) = (published.len(), signed_percent(mean));
    format!(
        "{within} of {count} published figures are within their tolerances. The mean difference is {mean}."
    )
}

/// Published figures beside ours. A refuted figure has its cause.
fn beside_others(loaded: &Loaded, published: &[PublishedComparison]) -> Option<Table> {
    let row = |known: &PublishedComparison| {
        let figure = &known.figure;
        let theirs = format!("{}{}", figure.relation.words(), number(figure.value));
        let mut verdict = known.verdict.name().to_owned();
        match known.verdict {
            Verdict::Depends => {
                let on = [figure.undecided(judged(figure, &known.ours)), figure.open_inputs()];
                verdict += &format!(" {}", on.into_iter().flatten().collect::<Vec<_>>().join("; "));
            }
            Verdict::Fit => verdict += &figure.fit.iter().map(|key| format!(" of {key}")).collect::<String>(),
            Verdict::Reproduced if figure.explains.is_some() => "gives the value".clone_into(&mut verdict),
            _ => {
                verdict += &figure
                    .arithmetic
                    .iter()
                    .chain(&figure.note)
                    .map(|note| format!(": {note}"))
                    .collect::<String>()
            }
        }
        if let Some(explains) = &figure.explains {
            verdict += &format!(", for \"{}\" with {}", explains.run, explains.by);
        }
        let place = [&figure.source, &figure.place].map(String::as_str);
        let source = place.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let [ours, difference] = [number(known.ours.mean), signed_percent(known.deviation())];
        let name = known.run();
        let label = name.replacen(&figure.run, label_of(loaded, &figure.run), 1);
        let cells = vec![known.metric(), source, theirs, ours, difference, verdict];
        Row { label, ..Row::new(name, cells) }
    };
    let headings = ["run", "metric", "source", "theirs", "ours", "difference", "verdict"];
    let table = Table { fold: None, ..Table::new(headings, 3, published.iter().map(row).collect()) };
    (!published.is_empty()).then_some(table)
}

const RIVALS: &str = "Uploads, calls and second nodes in the houses of nodes, through the same queues. Rates are on the wire, of a rival \
                      and of the node beside it while the rival was there, with their shares of the uplink. Delay: how much \
                      longer a packet of a call was on the way than on an empty path.";

/// Returns a row for each run and kind of rivals.
fn rivals(loaded: &Loaded, runs: &[Run]) -> Option<Table> {
    let row = |run: &Run, rival: &RivalFigures| {
        let rate = |bps: f64, share: f64| format!("{} ({})", fixed(bps / 1e6, 2), percent(share, 1));
        let delay = |value: fn(&Statistics) -> f64| {
            rival.delay_ms.as_ref().map_or_else(String::new, |delay| short_ms(value(delay)))
        };
        let cells = vec![
            run.parameters.get("seed").map_or_else(String::new, ToString::to_string),
            rival.kind.to_owned(),
            fixed(rival.seconds, 1),
            rate(rival.bps, rival.share),
            rate(rival.node_bps, rival.node_share),
            number(rival.packets as f64),
            number(rival.lost as f64),
            delay(|delay| delay.mean),
            delay(|delay| delay.p95),
            delay(|delay| delay.max),
        ];
        Row { label: label_of(loaded, &run.name).to_owned(), ..Row::new(run.name.clone(), cells) }
    };
    let rows = runs.iter().flat_map(|run| run.rivals.iter().map(move |rival| row(run, rival)));
    let rows: Vec<Row> = rows.collect();
    let headings = [
        "run",
        "seed",
        "rival",
        "s",
        "Mbit/s",
        "node's Mbit/s",
        "packets",
        "lost",
        "mean delay",
        "p95",
        "max",
    ];
    (!rows.is_empty()).then(|| Table::new(headings, 3, rows))
}

/// Returns a section on real nodes: their use of resources, their accuracy, and reasons to doubt
/// the figures.
fn real_nodes(findings: &Findings) -> Option<Section> {
    let real = || findings.summary.runs.iter().filter_map(|run| Some((run, run.real.as_ref()?)));
    let time = |ms: Option<f64>| ms.map_or_else(|| MISSING.to_owned(), short_ms);
    let two = |statistics: &Option<Statistics>, first: fn(&Statistics) -> f64, shown: fn(f64) -> String| {
        let both = |s: &Statistics| format!("{}, {}", shown(first(s)), shown(s.max));
        statistics.as_ref().map_or_else(|| MISSING.to_owned(), both)
    };
    let cells = |real: &RealRun| {
        let emulation = |share| format!("{}, {}", percent(share, 0), time(real.relay_late_p99_ms));
        vec![
            real.programs.join(", "),
            short_ms(real.ready_s * 1e3),
            two(&real.publish_error_ms, |s| s.p50, short_ms),
            two(&real.node_cpu_s, |s| s.mean, |seconds| short_ms(seconds * 1e3)),
            two(&real.node_cpu_share_mean, |s| s.mean, |share| percent(share, 1)),
            two(&real.node_cpu_share_max, |s| s.mean, |share| percent(share, 0)),
            two(&real.node_io_bytes, |s| s.mean, |bytes| format!("{:.1} MB", bytes / 1e6)),
            two(&real.node_peak_rss_bytes, |s| s.mean, |bytes| format!("{:.1} MB", bytes / 1e6)),
            two(&real.node_open_fds, |s| s.mean, |files| format!("{files:.0}")),
            real.relay_cpu_share.map_or_else(|| "none".to_owned(), emulation),
        ]
    };
    let rows: Vec<Row> = real()
        .map(|(run, real)| {
            let seed = run.parameters.get("seed").map_or_else(String::new, ToString::to_string);
            Row::new(format!("{}, seed {seed}", run.name), cells(real))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let doubts: Vec<String> = real()
        .flat_map(|(run, real)| real.doubts.iter().map(|doubt| format!("{}: {doubt}", run.name)))
        .collect();
    let headings = [
        "Run",
        "Programs",
        "Ready",
        "Late: p50, max",
        "Processor per node",
        "Share of a processor",
        "Highest share",
        "Read and written",
        "Memory per node",
        "Open files",
        "Emulation: processor share, late p99",
    ];
    let text = "Every node is a separate process. Ready: time until links and meshes exist. Late: delay of publications \
                after their planned times. Figures of nodes: the mean and the maximum.";
    let mut section = Section::new("Real nodes", text, Table::new(headings, 2, rows));
    if !doubts.is_empty() {
        section.parts.push(Part::Failures("Reasons to doubt these figures:".to_owned(), doubts));
    }
    Some(section)
}

/// A sentence on the files that a scenario reads; empty without any.
pub(crate) fn files_of(loaded: &Loaded) -> &'static str {
    if loaded.files().iter().all(|(_, file)| file.starts_with(PREFIX)) {
        return "";
    }
    "The folder has copies of the files that this scenario reads, under `inputs`; `inputs.json` names them, and those that are \
     too large to copy. "
}

fn again(loaded: &Loaded, findings: &Findings) -> Section {
    let summary = &findings.summary;
    let all = &loaded.scenario.runs;
    let is_done = |name: &str| findings.results.iter().any(|result| result.run.name == name);
    let chosen: Vec<&str> = all.iter().map(|run| run.name.as_str()).filter(|name| is_done(name)).collect();
    let only = if chosen.len() < all.len() { chosen } else { Vec::new() };
    let only: String = only.iter().map(|run| format!(" --only {run}")).collect();
    let (verb, same) = if summary.runs.iter().any(|run| run.real.is_some()) {
        ("testbed", "Runs with real nodes are not exactly reproducible.".to_owned())
    } else {
        let digest = &summary.digest;
        let same = format!(
            "Digest `{digest}`: the same scenario, seed and version give the same digest on any number of threads."
        );
        ("run", same)
    };
    // The file may need an experiment of the program that wrote it.
    let command = summary.headline.origin.as_ref().map_or("", |origin| &origin.command);
    let program = command.split_once(&format!(" {verb} ")).map(|(program, _)| program);
    // A script of Python may have an argument with the name of the verb.
    let program = program.filter(|program| !program.contains(' ')).unwrap_or("samara");
    let files = files_of(loaded);
    let text = format!(
        "`{program} {verb} scenario.toml{only} --out again` in the folder of this file, with Samara {}. {files}{same}",
        summary.version
    );
    Section::new("Reproduce this result", text, Part::Source(loaded.source.clone(), loaded.text.clone()))
}
