//! The claims of the documents that Samara started from, beside its results: docs/sources.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use samara_document::keys::plain;
use samara_report::words::{listed, number, percent};
use samara_scenario::{
    Claim, Loaded, Overrides, PublishedFigure, Source, Verdict, builtins, load_with, sources,
};
use serde::{Deserialize, Serialize};

use crate::family::{self, Family};
use crate::metric::unit_in;
use crate::reference::{Figures, Wanted, at_each_value, judged};
use crate::statistics::Spread;

/// Seeds of computed rows, unless the source names its own.
pub const SEEDS: [u64; 3] = [1, 2, 3];
/// Number of values that a row lists. Of more, it has the least and the largest.
const LISTED_MAX: usize = 4;

/// Our value of a published figure, or of a sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ours {
    #[serde(flatten)]
    of: Wanted,
    value: Spread,
}

/// Our values by the name of their scenario.
pub type Results = BTreeMap<String, Vec<Ours>>;

/// The values that docs/sources.md shows.
///
/// # Panics
/// If the file in the source tree is invalid, which a test excludes.
pub fn results() -> Results {
    serde_json::from_str(samara_scenario::SOURCE_RESULTS).expect("sources/results.json is valid")
}

/// The values of one scenario that the page needs.
#[derive(Clone, Debug)]
pub struct Needed {
    pub scenario: String,
    /// Each value with the seeds of its source; without any, [`SEEDS`] or those of the scenario.
    pub values: Vec<(Wanted, Vec<u64>)>,
}

/// Returns the values that the page needs, by scenario: of published figures, and of the sentences of
/// claims.
pub fn needed() -> Vec<Needed> {
    let mut all: BTreeMap<String, Vec<(Wanted, Vec<u64>)>> = BTreeMap::new();
    for (scenario, figures) in figures() {
        let values = figures.iter().map(|figure| (Wanted::of(figure), figure.seeds.clone()));
        all.entry(scenario.to_owned()).or_default().extend(values);
    }
    for claim in sources().iter().flat_map(|source| &source.claims) {
        for text in [&claim.ours, &claim.reason] {
            for (scenario, wanted) in placeholders(text).filter_map(|(_, found)| found) {
                let of_scenario = all.entry(scenario).or_default();
                if of_scenario.iter().all(|(known, _)| *known != wanted) {
                    of_scenario.push((wanted, Vec::new()));
                }
            }
        }
    }
    all.into_iter().map(|(scenario, values)| Needed { scenario, values }).collect()
}

/// Returns the published figures of each built-in scenario that has any, at each value of the keys that
/// they depend on.
fn figures() -> Vec<(&'static str, Vec<PublishedFigure>)> {
    let of_scenario = |name: &'static str| {
        let loaded = load_with(name, &Overrides::default()).expect("built-in scenarios load");
        let figures = loaded.scenario.published.iter().flat_map(|figure| at_each_value(&loaded, figure));
        (name, figures.collect::<Vec<_>>())
    };
    let all = builtins().into_iter().map(|builtin| of_scenario(builtin.name));
    all.filter(|(_, figures)| !figures.is_empty()).collect()
}

/// The runs that values with equal seeds need.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    pub seeds: Vec<u64>,
    /// The runs that the values name, or all (none named) if a metric compares a run with others.
    pub only: Vec<String>,
    /// Changes of the scenario: the seeds, and of a sweep only the values that are named.
    pub set: Vec<String>,
}

impl Needed {
    /// Returns the runs of the scenario that its values need.
    ///
    /// # Errors
    /// There is no such scenario.
    pub fn runs(&self) -> Result<Vec<Runs>, String> {
        let loaded = load_with(&self.scenario, &Overrides::default()).map_err(|error| error.to_string())?;
        let own = &loaded.scenario.scenario.seeds;
        let seeds = if own.len() < SEEDS.len() { SEEDS.to_vec() } else { own.clone() };
        let mut by_seeds: BTreeMap<Vec<u64>, Vec<&Wanted>> = BTreeMap::new();
        for (wanted, theirs) in &self.values {
            let seeds = if theirs.is_empty() { &seeds } else { theirs };
            by_seeds.entry(seeds.clone()).or_default().push(wanted);
        }
        Ok(by_seeds.into_iter().map(|(seeds, wanted)| Self::of_seeds(&loaded, seeds, &wanted)).collect())
    }

    fn of_seeds(loaded: &Loaded, seeds: Vec<u64>, wanted: &[&Wanted]) -> Runs {
        let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
        let beside_first = family::of(&loaded.scenario).beside_first;
        let mut only: Vec<String> = Vec::new();
        if wanted.iter().all(|wanted| !beside_first.contains(&wanted.metric.as_str())) {
            let named = wanted.iter().flat_map(|wanted| [Some(&wanted.run), wanted.over.as_ref()]);
            only.extend(named.flatten().cloned());
            only.sort_unstable();
            only.dedup();
        }
        let mut set = vec![format!("scenario.seeds={seeds:?}")];
        for (at, axis) in axes.enumerate() {
            let is_named =
                |value: &&toml::Value| wanted.iter().any(|wanted| wanted.at.get(&axis.key) == Some(value));
            if wanted.iter().all(|wanted| wanted.at.contains_key(&axis.key)) {
                let values = axis.values.iter().filter(is_named).cloned().collect();
                set.push(format!("sweep.axis.{at}.values={}", toml::Value::Array(values)));
            }
        }
        Runs { seeds, only, set }
    }

    /// Returns the values from results with these seeds.
    pub fn read(&self, seeds: &[u64], runs: &[Figures<'_>]) -> Vec<Ours> {
        let is_of = |theirs: &[u64]| theirs.is_empty() || theirs == seeds;
        let of_seeds = self.values.iter().filter(|(_, theirs)| is_of(theirs));
        let value = |(wanted, theirs): &(Wanted, Vec<u64>)| {
            Some(Ours { of: wanted.clone(), value: wanted.spread(theirs, runs)? })
        };
        of_seeds.filter_map(value).collect()
    }
}

// ---- values in sentences ----

/// Returns the parts of a sentence: a text, followed by a value in braces if there is one.
fn placeholders(text: &str) -> impl Iterator<Item = (&str, Option<(String, Wanted)>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let found = whole.split_once('{').and_then(|(before, behind)| {
            let (inside, behind) = behind.split_once('}')?;
            Some((before, parsed(inside)?, behind))
        });
        match found {
            Some((before, wanted, behind)) => {
                rest = Some(behind);
                Some((before, Some(wanted)))
            }
            None => {
                rest = None;
                Some((whole, None))
            }
        }
    })
}

/// Parses `scenario: run / other: metric at key = value, key = value`.
fn parsed(text: &str) -> Option<(String, Wanted)> {
    let (scenario, rest) = text.split_once(": ")?;
    let (run, metric) = rest.split_once(": ")?;
    let (metric, points) = metric.split_once(" at ").unwrap_or((metric, ""));
    let (run, over) = run.split_once(" / ").map_or((run, None), |(run, over)| (run, Some(over.to_owned())));
    let point = |text: &str| {
        let (key, value) = text.split_once(" = ")?;
        let whole = value.parse::<i64>().map(toml::Value::Integer);
        let number = whole.or_else(|_| value.parse::<f64>().map(toml::Value::Float));
        Some((key.to_owned(), number.unwrap_or_else(|_| toml::Value::String(value.to_owned()))))
    };
    let at = points.split(", ").filter(|text| !text.is_empty()).map(point).collect::<Option<_>>()?;
    Some((scenario.to_owned(), Wanted { run: run.to_owned(), metric: metric.to_owned(), over, at }))
}

/// Puts our values into a sentence. `row` gets those without a result, and counts those over few seeds.
fn filled(text: &str, results: &Results, row: &mut Row) -> String {
    let part = |(text, found): (&str, Option<(String, Wanted)>)| {
        let Some((scenario, wanted)) = found else { return text.to_owned() };
        match value_of(results, &scenario, &wanted) {
            Some(value) => {
                row.few_seeds += usize::from(has_few_seeds(value));
                text.to_owned() + &shown(family_of(&scenario), &wanted, value)
            }
            None => {
                row.problems.push(format!("{scenario}: {}: {} has no result", wanted.run, wanted.metric));
                format!("{text}no result")
            }
        }
    };
    placeholders(text).map(part).collect()
}

fn value_of<'r>(results: &'r Results, scenario: &str, wanted: &Wanted) -> Option<&'r Spread> {
    results.get(scenario)?.iter().find(|ours| ours.of == *wanted).map(|ours| &ours.value)
}

/// Returns the family of a built-in scenario.
fn family_of(scenario: &str) -> &'static Family {
    let loaded = load_with(scenario, &Overrides::default()).expect("built-in scenarios load");
    family::of(&loaded.scenario)
}

/// Formats a value in the unit of its metric. Ratios have none, nor has a deviation as a share of the
/// mean.
fn written(family: &Family, wanted: &Wanted, value: f64) -> String {
    match unit_in(family, &wanted.metric) {
        _ if wanted.over.is_some() || wanted.metric.ends_with(".cv") => number(value),
        "share" => percent(value, 2),
        unit => format!("{} {unit}", number(value)).trim_end().to_owned(),
    }
}

/// Formats a mean with its confidence interval and its number of seeds.
fn shown(family: &Family, wanted: &Wanted, value: &Spread) -> String {
    let Spread { mean, confidence_95, seeds, .. } = *value;
    let mean = written(family, wanted, mean);
    match seeds {
        0 | 1 => mean + " (1 seed)",
        _ if confidence_95 == 0.0 => format!("{mean} ({seeds} seeds, equal)"),
        _ => {
            let half = written(family, wanted, confidence_95);
            format!("{mean} ± {} ({seeds} seeds)", half.split(' ').next().unwrap_or_default())
        }
    }
}

/// Whether a value rests on fewer seeds than the page promises.
fn has_few_seeds(value: &Spread) -> bool {
    value.seeds < SEEDS.len()
}

// ---- rows ----

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
    /// What contradicts the row.
    problems: Vec<String>,
    /// Number of values over fewer than three seeds.
    few_seeds: usize,
}

/// A figure with our value.
struct Judged<'f> {
    scenario: &'static str,
    family: &'static Family,
    figure: &'f PublishedFigure,
    ours: Option<Spread>,
    verdict: Verdict,
    /// Whether the value agrees with theirs at the inputs of its run.
    holds: bool,
    /// On what the verdict depends if the interval decides nothing.
    undecided: Option<String>,
}

impl<'f> Judged<'f> {
    fn of(
        scenario: &'static str,
        family: &'static Family,
        figure: &'f PublishedFigure,
        results: &Results,
    ) -> Self {
        let ours = value_of(results, scenario, &Wanted::of(figure)).copied();
        let interval = ours.map(|ours| judged(figure, &ours));
        let verdict = interval.map_or(Verdict::NotAttempted, |interval| figure.verdict(interval));
        let holds = interval.is_some_and(|interval| figure.holds(interval));
        let undecided = interval.and_then(|interval| figure.undecided(interval));
        Self { scenario, family, figure, ours, verdict, holds, undecided }
    }

    /// Whether the value rests on fewer seeds than the page promises, and the source names none.
    fn has_few_seeds(&self) -> bool {
        self.figure.seeds.is_empty() && self.ours.as_ref().is_some_and(has_few_seeds)
    }

    fn theirs(&self) -> String {
        let value = written(self.family, &Wanted::of(self.figure), self.figure.value);
        format!("{}{value}", self.figure.relation.words())
    }

    fn ours(&self) -> String {
        match &self.ours {
            None => "no result".to_owned(),
            Some(ours) => shown(self.family, &Wanted::of(self.figure), ours),
        }
    }

    fn evidence(&self) -> String {
        let figure = self.figure;
        let over = figure.over.iter().map(|over| format!(" --only {over}"));
        let only: String = std::iter::once(format!("--only {}", figure.run)).chain(over).collect();
        let seeds = match figure.seeds.as_slice() {
            [] => String::new(),
            seeds => format!(" --set 'scenario.seeds={seeds:?}'").replace(", ", ","),
        };
        let at: Vec<String> =
            figure.at.iter().map(|(key, value)| format!(" at {key} = {}", plain(value))).collect();
        format!("`samara run {} {only}{seeds}`: `{}`{}", self.scenario, figure.metric, at.concat())
    }

    fn problems(&self) -> Vec<String> {
        let figure = self.figure;
        let mut problems = Vec::new();
        if self.ours.is_none() {
            problems.push("no result".to_owned());
        }
        if figure.explains.is_some() && !self.holds {
            problems.push(format!("does not give their value: {}, not {}", self.ours(), self.theirs()));
        }
        if figure.explains.is_none() && figure.note.is_some() && self.holds {
            problems.push("a note on a difference, but there is none".to_owned());
        }
        problems.iter().map(|problem| format!("{} ({}): {problem}", figure.claim, self.evidence())).collect()
    }
}

impl Row {
    /// Judges a claim by its figures: one; one for each value of a key that the source leaves open; or
    /// several of which the claim says the same.
    fn of_figures(places: &[String], figures: &[&Judged<'_>], causes: &[&Judged<'_>]) -> Self {
        let first = figures[0];
        let depends = first.figure.depends.as_deref().filter(|_| figures.len() > 1);
        let count = |verdict: Verdict| figures.iter().filter(|judged| judged.verdict == verdict).count();
        let agreeing = figures.iter().filter(|judged| judged.holds).count();
        let verdicts = ORDER.into_iter().filter(|verdict| count(*verdict) > 0).collect::<Vec<_>>();
        let mut verdict = match (verdicts.as_slice(), depends) {
            ([only], _) => *only,
            (_, Some(_)) if agreeing > 0 || count(Verdict::Missed) == 0 => Verdict::Depends,
            // A claim on several figures holds for all of them or not.
            _ if count(Verdict::Missed) > 0 => Verdict::Missed,
            _ => Verdict::Depends,
        };
        let mut reasons = Vec::new();
        match depends {
            Some(key) => {
                let groups: [Group; 3] = [
                    ("holds", |judged| judged.holds),
                    ("fails", |judged| matches!(judged.verdict, Verdict::Missed | Verdict::Refuted)),
                    ("is undecided", |judged| judged.undecided.is_some()),
                ];
                let of_groups = groups.iter().filter_map(|(name, is_in)| {
                    let inside: Vec<&&Judged<'_>> = figures.iter().filter(|judged| is_in(judged)).collect();
                    let all = if inside.len() == figures.len() { "every value: " } else { "" };
                    (!inside.is_empty())
                        .then(|| format!("{name} at {all}{}", at_values(inside.into_iter(), key)))
                });
                let of_groups: Vec<String> = of_groups.collect();
                reasons.push(format!("on {key}: it {}", listed(&of_groups)));
            }
            None if figures.len() > 1 => {
                let counts = verdicts.iter().map(|verdict| match count(*verdict) {
                    all if all == figures.len() => format!("{all} of {all}"),
                    some => format!("{some} of {} {}", figures.len(), verdict.name()),
                });
                reasons.push(counts.collect::<Vec<_>>().join(", "));
            }
            None => reasons.extend(first.undecided.clone()),
        }
        let mut open: Vec<String> = figures.iter().filter_map(|judged| judged.figure.open_inputs()).collect();
        open.dedup();
        reasons.extend(open);
        let mut notes: Vec<&str> =
            figures.iter().filter_map(|judged| judged.figure.note.as_deref()).collect();
        notes.dedup();
        reasons.extend(notes.into_iter().map(str::to_owned));
        let mut fits: Vec<&str> = figures.iter().filter_map(|judged| judged.figure.fit.as_deref()).collect();
        fits.dedup();
        reasons.extend(fits.into_iter().map(|key| format!("{key} was chosen from this figure")));
        let mut sums: Vec<&str> =
            figures.iter().filter_map(|judged| judged.figure.arithmetic.as_deref()).collect();
        sums.dedup();
        reasons.extend(sums.into_iter().filter(|_| verdict == Verdict::Refuted).map(str::to_owned));
        for (cause, explains) in causes.iter().filter_map(|c| Some((c, c.figure.explains.as_ref()?))) {
            reasons.push(format!("with {}, {} ({})", explains.by, cause.ours(), cause.evidence()));
            if explains.refutes && verdict == Verdict::Missed {
                verdict = Verdict::Refuted;
            }
        }
        let mut theirs: Vec<String> = figures.iter().map(|judged| judged.theirs()).collect();
        theirs.dedup();
        let tolerance = match (first.figure.relation, first.figure.range) {
            (samara_scenario::Relation::About, None) => first.figure.tolerance.to_string(),
            (_, None) => String::new(),
            (_, Some([least, most])) => {
                let most = written(first.family, &Wanted::of(first.figure), most);
                format!("{}, or {} to {most}", first.figure.tolerance, number(least))
            }
        };
        let evidence = match figures {
            [only] => only.evidence(),
            _ => {
                let mut runs: Vec<String> = figures.iter().map(|judged| judged.figure.run.clone()).collect();
                runs.extend(figures.iter().filter_map(|judged| judged.figure.over.clone()));
                runs.sort_unstable();
                runs.dedup();
                let only: String = runs.iter().map(|run| format!(" --only {run}")).collect();
                format!("`samara run {}{only}`: `{}`", first.scenario, first.figure.metric)
            }
        };
        Self {
            place: place(places, &first.figure.place),
            claim: first.figure.claim.clone(),
            theirs: theirs.join("; "),
            ours: all_ours(figures),
            tolerance,
            verdict,
            reason: reasons.join("; "),
            evidence,
            problems: figures.iter().chain(causes).flat_map(|judged| judged.problems()).collect(),
            few_seeds: figures.iter().chain(causes).filter(|judged| judged.has_few_seeds()).count(),
        }
    }

    fn of_claim(places: &[String], claim: &Claim, results: &Results) -> Self {
        let mut row = Self {
            place: place(places, &claim.place),
            claim: claim.claim.clone(),
            theirs: claim.theirs.clone(),
            ours: String::new(),
            tolerance: String::new(),
            verdict: claim.verdict,
            reason: String::new(),
            evidence: claim.evidence.clone(),
            problems: Vec::new(),
            few_seeds: 0,
        };
        row.ours = filled(&claim.ours, results, &mut row);
        row.reason = filled(&claim.reason, results, &mut row);
        row
    }
}

/// A verb, and the figures that it is said of.
type Group = (&'static str, fn(&Judged<'_>) -> bool);

/// Returns the values of a key at which figures are judged.
fn at_values<'j>(figures: impl Iterator<Item = &'j &'j Judged<'j>>, key: &str) -> String {
    let value = |judged: &&Judged<'_>| judged.figure.at.get(key).map(plain).unwrap_or_default();
    listed(&figures.map(value).collect::<Vec<_>>())
}

/// Returns a few values, or the least and the largest of many.
fn all_ours(figures: &[&Judged<'_>]) -> String {
    let mean = |judged: &&&Judged<'_>| judged.ours.map_or(f64::NAN, |ours| ours.mean);
    let by_mean = |a: &&&Judged<'_>, b: &&&Judged<'_>| mean(a).total_cmp(&mean(b));
    let ends = (figures.iter().min_by(by_mean), figures.iter().max_by(by_mean));
    match ends {
        (Some(least), Some(largest)) if figures.len() > LISTED_MAX => {
            format!("{} to {}", least.ours(), largest.ours())
        }
        _ => {
            let mut all: Vec<String> = figures.iter().map(|judged| judged.ours()).collect();
            all.dedup();
            all.join("; ")
        }
    }
}

fn place(places: &[String], place: &str) -> usize {
    places.iter().position(|known| known == place).unwrap_or(places.len())
}

/// The page, and what contradicts it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcesPage {
    /// The page as Markdown.
    pub text: String,
    /// Rows without a result, causes that do not give the value, and notes on differences that do not
    /// exist; each as a line.
    pub problems: Vec<String>,
    /// Number of figures, also in sentences, that rest on fewer than three seeds.
    pub few_seeds: usize,
    pub claims: usize,
}

const ORDER: [Verdict; 7] = [
    Verdict::Reproduced,
    Verdict::Refuted,
    Verdict::Missed,
    Verdict::Depends,
    Verdict::Fit,
    Verdict::Assumed,
    Verdict::NotAttempted,
];

const INTRODUCTION: &str = "\
# The sources, claim by claim

Five documents started Samara. This page has a row for every figure, mechanism and open question of
them, and for the measurements of others that scenarios are compared with.
`samara sources --run DIR` runs the scenarios and writes it. A figure of ours is a mean over seeds
with its 95 % confidence interval, and the verdict judges the interval. Where the source names its
seeds, these run here, and the verdict judges the least and the largest of their values.

- **reproduced**: the whole interval is within the tolerance: 15 %, at most 25 % for measurements
  that differ as much between seeds, or a factor of 3 for rare events; or within the range of their
  seeds. \"At most\" and \"at least\" have no tolerance.
- **refuted**: the document is wrong: by arithmetic, or a run gives its value under other inputs
  than it states.
- **missed**: ours differs. If a run gives their value under another input, the row names it.
- **depends**: it holds for some values of an input that the document leaves open; or only one value
  of such an input ran; or the interval lies across a limit, so that more seeds would decide.
- **fit**: a parameter was chosen from this figure, so it shows nothing.
- **assumed**: the model takes it for granted.
- **not attempted**: with the reason.

Only the first two settle a claim.

";

/// Writes the page of all documents.
pub fn page(results: &Results) -> SourcesPage {
    let figures = figures();
    let mut judged: Vec<Judged<'_>> = Vec::new();
    for (scenario, figures) in &figures {
        let family = family_of(scenario);
        judged.extend(figures.iter().map(|figure| Judged::of(scenario, family, figure, results)));
    }
    let (sources, mut body, mut totals) = (sources(), String::new(), String::new());
    let (mut problems, mut claims, mut few_seeds) = (Vec::new(), 0, 0);
    for source in sources {
        let places = &source.places;
        let mut rows = rows_of(places, judged.iter().filter(|judged| judged.figure.source == source.id));
        rows.extend(source.claims.iter().map(|claim| Row::of_claim(places, claim, results)));
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
        problems.extend(rows.iter().flat_map(|row| &row.problems).map(|problem| format!("{id}: {problem}")));
        claims += rows.len();
        few_seeds += rows.iter().map(|row| row.few_seeds).sum::<usize>();
    }
    let of_others = judged.iter().filter(|judged| sources.iter().all(|s| s.id != judged.figure.source));
    let measured: Vec<Row> = of_others
        .map(|judged| {
            let claim = format!("{}: {}", judged.figure.source, judged.figure.run);
            Row { claim, ..Row::of_figures(&[], &[judged], &[]) }
        })
        .collect();
    problems.extend(measured.iter().flat_map(|row| row.problems.clone()));
    totals += &counts("[measurements](#measurements)", &measured);
    body += "\n## measurements\n\nMeasurements by others that scenarios are compared with.\n\n";
    body += &table(&measured);
    let headings = ORDER.map(Verdict::name).join(" | ");
    let rule = "--:|".repeat(ORDER.len() + 1);
    few_seeds += measured.iter().map(|row| row.few_seeds).sum::<usize>();
    let few = match few_seeds {
        0 => String::new(),
        count => format!("\n{count} figures rest on fewer than three seeds; their rows name the seeds.\n"),
    };
    let text = format!("{INTRODUCTION}| document | claims | {headings} |\n|---|{rule}\n{totals}{few}{body}");
    SourcesPage { text, problems, few_seeds, claims }
}

/// Returns a row for each claim of a document. Runs that explain a figure belong to its row.
fn rows_of<'j>(places: &[String], judged: impl Iterator<Item = &'j Judged<'j>>) -> Vec<Row> {
    let (causes, own): (Vec<&Judged<'_>>, Vec<&Judged<'_>>) =
        judged.partition(|judged| judged.figure.explains.is_some());
    let claim = |judged: &&Judged<'_>| (judged.figure.place.clone(), judged.figure.claim.clone());
    let mut groups: Vec<Vec<&Judged<'_>>> = Vec::new();
    for judged in own {
        match groups.iter_mut().find(|group| claim(&group[0]) == claim(&judged)) {
            Some(group) => group.push(judged),
            None => groups.push(vec![judged]),
        }
    }
    let row = |group: &Vec<&Judged<'_>>| {
        let explains = |cause: &&&Judged<'_>| {
            let run = cause.figure.explains.as_ref().map(|explains| &explains.run);
            claim(cause) == claim(&group[0]) && group.iter().any(|judged| run == Some(&judged.figure.run))
        };
        Row::of_figures(places, group, &causes.iter().filter(explains).copied().collect::<Vec<_>>())
    };
    groups.iter().map(row).collect()
}

fn counts(name: &str, rows: &[Row]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count().to_string();
    let counts: Vec<String> = ORDER.into_iter().map(count).collect();
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
