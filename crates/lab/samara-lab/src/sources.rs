//! The claims of the documents that Samara started from, beside its results: docs/sources.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use samara_document::keys::plain;
use samara_report::words::{number, percent};
use samara_scenario::{Claim, Overrides, PublishedFigure, Source, Verdict, builtins, load_with, sources};
use serde::{Deserialize, Serialize};

use crate::family;
use crate::metric::unit;
use crate::reference::PublishedComparison;
use crate::statistics::Spread;

/// Our value of a published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ours {
    run: String,
    metric: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    at: BTreeMap<String, toml::Value>,
    value: Spread,
}

impl Ours {
    fn is_of(&self, figure: &PublishedFigure) -> bool {
        (&self.run, &self.metric, &self.over, &self.at)
            == (&figure.run, &figure.metric, &figure.over, &figure.at)
    }
}

impl From<PublishedComparison> for Ours {
    fn from(PublishedComparison { figure, ours, .. }: PublishedComparison) -> Self {
        Self { run: figure.run, metric: figure.metric, over: figure.over, at: figure.at, value: ours }
    }
}

/// Our values by the name of their scenario.
pub type Compared = BTreeMap<String, Vec<Ours>>;

/// The values that docs/sources.md shows.
///
/// # Panics
/// If the file in the source tree is invalid, which a test excludes.
pub fn compared() -> Compared {
    serde_json::from_str(samara_scenario::SOURCE_RESULTS).expect("sources/results.json is valid")
}

/// Returns the published figures of each built-in scenario that has any.
pub fn figures() -> Vec<(&'static str, Vec<PublishedFigure>)> {
    let of_scenario = |name: &'static str| {
        let loaded = load_with(name, &Overrides::default()).expect("built-in scenarios load");
        (name, loaded.scenario.published)
    };
    let all = builtins().into_iter().map(|builtin| of_scenario(builtin.name));
    all.filter(|(_, figures)| !figures.is_empty()).collect()
}

/// The runs that figures with equal seeds need.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The seeds of the figures. Empty: those of the scenario.
    pub seeds: Vec<u64>,
    /// The runs that the figures name, or all (none named) if a metric compares a run with others.
    pub only: Vec<String>,
    /// Changes of the scenario: the seeds, and of a sweep only the values that the figures name.
    pub set: Vec<String>,
}

/// Returns the runs of a scenario that its figures need.
pub fn runs(scenario: &str, figures: &[PublishedFigure]) -> Vec<Runs> {
    let loaded = load_with(scenario, &Overrides::default()).expect("built-in scenarios load");
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    let beside_first = family::of(&loaded.scenario).beside_first;
    let mut by_seeds: BTreeMap<&[u64], Vec<&PublishedFigure>> = BTreeMap::new();
    for figure in figures {
        by_seeds.entry(&figure.seeds).or_default().push(figure);
    }
    let of_group = |(seeds, figures): (&[u64], Vec<&PublishedFigure>)| {
        let mut only: Vec<String> = Vec::new();
        if figures.iter().all(|figure| !beside_first.contains(&figure.metric.as_str())) {
            let named = figures.iter().flat_map(|figure| [Some(&figure.run), figure.over.as_ref()]);
            only.extend(named.flatten().cloned());
            only.sort_unstable();
            only.dedup();
        }
        let mut set = Vec::new();
        if !seeds.is_empty() {
            set.push(format!("scenario.seeds={seeds:?}"));
        }
        for (number, axis) in axes.clone().enumerate() {
            let is_named =
                |value: &&toml::Value| figures.iter().any(|figure| figure.at.get(&axis.key) == Some(value));
            if figures.iter().all(|figure| figure.at.contains_key(&axis.key)) {
                let values = axis.values.iter().filter(is_named).cloned().collect();
                set.push(format!("sweep.axis.{number}.values={}", toml::Value::Array(values)));
            }
        }
        Runs { seeds: seeds.to_vec(), only, set }
    };
    by_seeds.into_iter().map(of_group).collect()
}

/// A claim with its verdict.
struct Row {
    place: usize,
    claim: String,
    theirs: String,
    ours: String,
    tolerance: String,
    verdict: Verdict,
    reason: String,
    evidence: String,
}

impl Row {
    /// Judges a figure. A figure without a result is open.
    fn of_figure(places: &[String], scenario: &str, figure: &PublishedFigure, compared: &Compared) -> Self {
        let of_scenario = compared.get(scenario).map(Vec::as_slice).unwrap_or_default();
        let ours = of_scenario.iter().find(|ours| ours.is_of(figure)).map(|ours| ours.value);
        let unit = if figure.over.is_some() { "" } else { unit(&figure.metric) };
        let written = |value: f64| match unit {
            "share" => percent(value, 2),
            _ => format!("{} {unit}", number(value)).trim_end().to_owned(),
        };
        let spread = ours.map(|ours| match ours.seeds {
            0 | 1 => written(ours.mean),
            seeds => format!("{} ± {} ({seeds} seeds)", written(ours.mean), number(ours.confidence_95)),
        });
        let over = figure.over.iter().map(|over| format!(" --only {over}"));
        let only: String = std::iter::once(format!("--only {}", figure.run)).chain(over).collect();
        let seeds = match figure.seeds.as_slice() {
            [] => String::new(),
            seeds => format!(" --set 'scenario.seeds={seeds:?}'").replace(", ", ","),
        };
        let at: Vec<String> =
            figure.at.iter().map(|(key, value)| format!(" at {key} = {}", plain(value))).collect();
        Self {
            place: place(places, &figure.place),
            claim: figure.claim.clone(),
            theirs: format!("{}{}", figure.relation.words(), written(figure.value)),
            ours: spread.unwrap_or_else(|| "no result".to_owned()),
            tolerance: match figure.range {
                None => figure.tolerance.to_string(),
                Some([least, most]) => {
                    format!("{}, or {} to {}", figure.tolerance, number(least), written(most))
                }
            },
            verdict: ours.map_or(Verdict::Open, |ours| figure.verdict(ours.mean)),
            reason: figure.refuted.clone().unwrap_or_default(),
            evidence: format!("`samara run {scenario} {only}{seeds}`: `{}`{}", figure.metric, at.concat()),
        }
    }

    fn line(&self) -> String {
        format!("{} Theirs {}, ours {} ({})", self.claim, self.theirs, self.ours, self.evidence)
    }

    fn of_claim(places: &[String], claim: &Claim) -> Self {
        Self {
            place: place(places, &claim.place),
            claim: claim.claim.clone(),
            theirs: claim.theirs.clone(),
            ours: claim.ours.clone(),
            tolerance: String::new(),
            verdict: claim.verdict,
            reason: claim.reason.clone(),
            evidence: claim.evidence.clone(),
        }
    }
}

fn place(places: &[String], place: &str) -> usize {
    places.iter().position(|known| known == place).unwrap_or(places.len())
}

/// The page, and the claims whose declared verdict contradicts the result.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcesPage {
    /// The page as Markdown.
    pub text: String,
    /// Claims that are open, each as a line.
    pub open: Vec<String>,
    pub claims: usize,
    /// The share of claims that are reproduced or refuted.
    pub settled: f64,
}

const ORDER: [Verdict; 5] =
    [Verdict::Reproduced, Verdict::Refuted, Verdict::Fit, Verdict::Assumed, Verdict::NotAttempted];

const INTRODUCTION: &str = "\
# The sources, claim by claim

Five documents started Samara. This page has a row for every figure, mechanism and open question of
them, and for the measurements of others that scenarios are compared with.
`samara sources --run DIR` runs the scenarios and writes it.

- **reproduced**: our value is within the tolerance: 15 %, at most 25 % for measurements that differ
  as much between seeds, or a factor of 3 for rare events; or within the range of their seeds.
- **refuted**: it is not, and a run or a test shows the cause.
- **fit**: a parameter was chosen from this figure, so it shows nothing.
- **assumed**: the model takes it for granted.
- **not attempted**: with the reason.
- **deviates**: our value is outside of the tolerance, for a cause that is unknown.

";

/// Writes the page of all documents.
pub fn page(compared: &Compared) -> SourcesPage {
    let figures = figures();
    let all = || figures.iter().flat_map(|(scenario, figures)| figures.iter().map(move |f| (*scenario, f)));
    let (sources, mut body, mut totals) = (sources(), String::new(), String::new());
    let (mut open, mut verdicts) = (Vec::new(), Vec::new());
    for source in sources {
        let places = &source.places;
        let of_source = all().filter(|(_, figure)| figure.source == source.id);
        let judged = of_source.map(|(scenario, figure)| Row::of_figure(places, scenario, figure, compared));
        let mut rows: Vec<Row> = judged.collect();
        rows.extend(source.claims.iter().map(|claim| Row::of_claim(places, claim)));
        rows.sort_by_key(|row| row.place);
        let Source { id, title, url, date, .. } = source;
        totals += &counts(&format!("[{title}](#{id})"), &rows);
        let title = if url.is_empty() { title.clone() } else { format!("[{title}]({url})") };
        let _ = writeln!(body, "\n## {id}\n\n{title}, {date}.");
        for (at, name) in places.iter().enumerate().filter(|(at, _)| rows.iter().any(|row| row.place == *at))
        {
            let _ = writeln!(body, "\n### {name}\n");
            body += &table(rows.iter().filter(|row| row.place == at));
        }
        let contradictory = rows.iter().filter(|row| row.verdict == Verdict::Open);
        open.extend(contradictory.map(|row| format!("{id}: {}", row.line())));
        verdicts.extend(rows.iter().map(|row| row.verdict));
    }
    let of_others = all().filter(|(_, figure)| sources.iter().all(|source| source.id != figure.source));
    let measured = of_others.map(|(scenario, figure)| Row {
        claim: figure.source.clone(),
        ..Row::of_figure(&[], scenario, figure, compared)
    });
    let measured: Vec<Row> = measured.collect();
    totals += &counts("[measurements](#measurements)", &measured);
    body += "\n## measurements\n\nMeasurements by others that scenarios are compared with.\n\n";
    body += &table(&measured);
    let is_settled = |verdict: &&Verdict| matches!(verdict, Verdict::Reproduced | Verdict::Refuted);
    let settled = verdicts.iter().filter(is_settled).count() as f64 / verdicts.len().max(1) as f64;
    let headings = ORDER.map(Verdict::name).join(" | ");
    let text = format!(
        "{INTRODUCTION}{} of the {} claims of the documents are reproduced or refuted.\n\n\
         | document | claims | {headings} | deviates |\n|---|--:|--:|--:|--:|--:|--:|--:|\n{totals}{body}",
        percent(settled, 0),
        verdicts.len(),
    );
    SourcesPage { text, open, claims: verdicts.len(), settled }
}

fn counts(name: &str, rows: &[Row]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count().to_string();
    let counts: Vec<String> = ORDER.into_iter().chain([Verdict::Open]).map(count).collect();
    format!("| {name} | {} | {} |\n", rows.len(), counts.join(" | "))
}

fn table<'r>(rows: impl IntoIterator<Item = &'r Row>) -> String {
    let mut text =
        "| claim | theirs | ours | tolerance | verdict | evidence |\n|---|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let reason = if row.reason.is_empty() { String::new() } else { format!(": {}", row.reason) };
        let verdict = format!("**{}**{reason}", row.verdict.name());
        let cells = [&row.claim, &row.theirs, &row.ours, &row.tolerance, &verdict, &row.evidence];
        let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
