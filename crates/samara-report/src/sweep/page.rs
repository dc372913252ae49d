//! The page of a sweep.

use std::fmt::Write as _;

use super::{COLUMNS_MAX, SweepReport};
use crate::page::{self, Lead, text};
use crate::parts::{self, Runs, table};
use crate::words::plural;

/// Failed points that are listed.
const FAILED_MAX: usize = 50;

pub(super) fn page(report: &SweepReport) -> String {
    let mut body = String::new();
    failed(report, &mut body);
    let figures = report.drawn();
    if !figures.is_empty() {
        let heading = if report.axes.is_empty() { "Side by side" } else { "Over the sweep" };
        parts::drawings(heading, &figures, &mut body);
    }
    figures_of_all(report, &mut body);
    page::outcomes(&report.outcomes, &mut body);
    again(report, &mut body);
    page::shell(
        &format!("{}, a sweep", report.summary.scenario),
        (&report.title, &report.description),
        &Lead::new(&headline(report), &report.outcomes, report.is_bad()),
        &body,
        "",
    )
}

fn headline(report: &SweepReport) -> Vec<String> {
    let summary = &report.summary;
    let mut names: Vec<&str> = report.rows.iter().map(Runs::run).collect();
    names.sort_unstable();
    names.dedup();
    let mut parts = vec![plural(names.len() as f64, "run")];
    for (at, (_, label)) in report.axes.iter().enumerate() {
        let mut values: Vec<&String> = report.rows.iter().map(|row| &row.point[at]).collect();
        values.sort_unstable();
        values.dedup();
        parts.push(format!("{} of {label}", plural(values.len() as f64, "value")));
    }
    parts.push(plural(summary.seeds.len() as f64, "seed"));
    let mut sentences = vec![format!(
        "{} of {}: {}.",
        plural(summary.runs.len() as f64, "finished point"),
        summary.points,
        parts.join(", ")
    )];
    if report.seeds() > 1 {
        sentences.push(
            "Means are over seeds; ± and bands are Student's 95 % confidence intervals of the mean."
                .to_owned(),
        );
    }
    sentences.push(
        "All metrics of all points are in sweep.parquet, a row for each point; means over seeds are in summary.json."
            .to_owned(),
    );
    sentences
}

fn failed(report: &SweepReport, body: &mut String) {
    let failed = &report.summary.failed;
    if failed.is_empty() {
        return;
    }
    let _ = write!(
        body,
        "<section><h2>Failed</h2><p>{} failed and are in no figure. Running the sweep again tries them again.</p><ul class=\"missed\">",
        plural(failed.len() as f64, "point")
    );
    for point in failed.iter().take(FAILED_MAX) {
        let _ = write!(body, "<li>{}, seed {}: {}</li>", text(&point.name), point.seed, text(&point.why));
    }
    body.push_str("</ul></section>");
}

fn figures_of_all(report: &SweepReport, body: &mut String) {
    let metrics = report.columns(COLUMNS_MAX);
    body.push_str("<section><h2>Means</h2>");
    let headings = std::iter::once("Seeds").chain(metrics.iter().map(String::as_str));
    table(&report.axes, &report.rows, body, headings, |row| row.cells(metrics));
    body.push_str("</section>");
}

fn again(report: &SweepReport, body: &mut String) {
    let summary = &report.summary;
    let _ = write!(
        body,
        "<section><h2>To run it again</h2><p><code>samara sweep scenario.toml --out again</code> in the folder of this file, with \
         Samara {}. Digest <code>{}</code>: the same scenario, seeds and version give the same digest, wherever points are run. It took {:.0} s of \
         processor.</p><details><summary>The whole scenario ({})</summary><pre>{}</pre></details></section>",
        text(&summary.version),
        text(&summary.digest),
        summary.cpu_s,
        text(&report.source),
        text(&report.toml)
    );
}
