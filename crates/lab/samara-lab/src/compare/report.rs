//! Renders a comparison as a page, as a table for a terminal, and as a comment on a pull request.

use std::fmt::Write as _;

use samara_report::terminal::wrapped;
use samara_report::words::{MISSING, capitalised, plural};
use samara_report::{
    Bar, Bars, Figure, Ink, Lines, Look, Mark, Page, Part, Row, Scale, Section, Table, Unit, code, plain,
};

use super::{Change, Compared, Crossed, Verdict};
use crate::metric::{in_words, is_first, rank};
use crate::report::{grouped, unit_of};
use crate::results::{Saved, utc};

/// Maximum number of changes in words, and the minimum of such a change.
const MAIN_MAX: usize = 5;
const MAIN_SHARE_MIN: f64 = 0.005;
/// Maximum number of rows in the figure of changes.
const CHANGES_MAX: usize = 36;
/// Maximum number of runs with a figure of their distributions.
const RUNS_MAX: usize = 12;
/// A larger change would leave no room for the others in the figure.
const SHARE_MAX: f64 = 3.0;
/// Maximum number of rows in a Markdown table: a comment has at most 65,536 characters.
const ROWS_MAX: usize = 150;
/// Minimum width of a terminal with confidence intervals.
const INTERVALS_MIN: usize = 110;

/// The tests of differences: see [`Test::of`](crate::statistics::Test::of).
const TESTS: &str = "Welch's test, or of pairs of equal seeds";

impl Compared {
    /// Returns the text for a terminal of this width: the headline metrics that differ and all that
    /// changed significantly, or `all`.
    pub fn table(&self, width: usize, all: bool, crossed: usize) -> String {
        let has_intervals = width >= INTERVALS_MIN;
        let is_shown = |change: &&Change| {
            let is_headline = !change.is_same && is_first(&change.metric);
            all || is_headline || change.verdict().is_decided()
        };
        let row = |change: &Change| {
            let verdict = match change.verdict() {
                Verdict::Noise => "noise",
                verdict => verdict.word(),
            };
            let mut cells = change.cells();
            if !has_intervals {
                let unit = unit_of(&change.metric);
                cells[..2].clone_from_slice(&[change.a, change.b].map(|side| unit.written(side.mean)));
            }
            Row::new(&change.metric, [vec![verdict.to_owned()], cells].concat())
        };
        let shown: Vec<&Change> = self.changes.iter().filter(is_shown).collect();
        let rows = shown.chunk_by(|one, other| one.name() == other.name()).flat_map(|changes| {
            let heading = Row { look: Look::Heading, ..Row::new(changes[0].name(), Vec::new()) };
            std::iter::once(heading).chain(changes.iter().map(|change| row(change)))
        });
        let table = Table::new(["metric", "", "first", "second", "change", "p"], 2, rows.collect());
        let [a, b] = &self.names;
        let mut sentences = self.findings(crossed);
        let lead = sentences.remove(0);
        let mut lines = vec![lead, String::new(), format!("first: {a}"), format!("second: {b}")];
        if !shown.is_empty() {
            lines.push(String::new());
            lines.push(table.terminal(width, "--format json has them").trim_end().to_owned());
            let intervals = match has_intervals {
                true => "± is Student's 95 % confidence interval over seeds",
                false => "A wider window, --html and --format json show confidence intervals",
            };
            lines.push(format!("{intervals}; p is of {TESTS}. noise: the seeds may be the cause."));
        }
        lines.push(String::new());
        lines.extend(sentences);
        if shown.len() < self.changes.len() {
            let hidden = plural((self.changes.len() - shown.len()) as f64, "more figure");
            lines.push(format!("--all shows {hidden}."));
        }
        lines.iter().flat_map(|line| line.split('\n')).map(|line| wrapped(line, width, 0) + "\n").collect()
    }

    /// Returns the comparison in Markdown, as for a comment: the changes, most important metrics
    /// first.
    pub fn markdown(&self, crossed: &[Crossed]) -> String {
        let [a, b] = &self.names;
        let line = |Crossed { run, metric, change, threshold }: &Crossed| {
            format!("- {}, {}: {}; allowed: {}\n", plain(run), code(metric), plain(change), code(threshold))
        };
        let mut text: String = crossed.iter().map(line).collect();
        if !crossed.is_empty() {
            text = format!("**Thresholds are exceeded:**\n\n{text}\n");
        }
        let _ = writeln!(text, "{} and {}: {}.\n", code(a), code(b), self.counted());
        let row = |change: &Change| {
            let verdict = change.verdict();
            let strong = if matches!(verdict, Verdict::Better | Verdict::Worse) { "**" } else { "" };
            let verdict = format!("{strong}{}{strong}", verdict.word());
            let cells = [vec![code(&change.metric)], change.cells(), vec![verdict]];
            Row::new(change.name(), cells.concat())
        };
        let rows: Vec<Row> = self.headlines().map(row).collect();
        if !rows.is_empty() {
            let headings = ["run", "metric", "before", "after", "change", "p", ""];
            text += &Table::new(headings, 2, rows).markdown(ROWS_MAX);
        }
        text.push('\n');
        for note in &self.notes {
            let _ = writeln!(text, "- {}", plain(note));
        }
        text
    }

    /// Returns the comparison as an HTML page.
    ///
    /// # Errors
    /// Returns an error if a table of one of the results cannot be read.
    pub fn html(&self, crossed: &[Crossed]) -> Result<String, String> {
        let [a, b] = &self.names;
        let mut sections = vec![self.differences()];
        if !crossed.is_empty() {
            let line = |crossed: &Crossed| {
                let Crossed { run, metric, change, threshold } = crossed;
                format!("✗ {run}: {metric}: {change}; allowed: {threshold}")
            };
            let failures = Part::Failures(String::new(), crossed.iter().map(line).collect());
            sections.insert(0, Section::new("Exceeded thresholds", "", failures));
        }
        sections.extend(self.drawn_changes().map(|figure| Section::new("Changes", "", vec![figure])));
        let drawn = self.distributions()?;
        if !drawn.is_empty() {
            sections.push(Section::new("Distributions of times", "", drawn));
        }
        sections.push(self.all_figures());
        let page = Page {
            kind: format!("{}, compared", self.a.scenario),
            title: format!("{a} and {b}"),
            findings: self.findings(crossed.len()),
            is_bad: !crossed.is_empty(),
            sections,
            ..Page::default()
        };
        Ok(page.html())
    }

    fn differences(&self) -> Section {
        let [a, b] = &self.names;
        let (left, right) = (&self.a.configuration, &self.b.configuration);
        let rows: Vec<Row> =
            self.differing.iter().map(|(key, values)| Row::new(key, values.to_vec())).collect();
        let text = match rows.len() {
            _ if left.is_empty() || right.is_empty() => "The configuration of a result is unknown.",
            0 => "Both results have the same configuration.",
            _ => "",
        };
        let origin = |saved: &Saved| {
            let (command, date) =
                saved.origin.as_ref().map_or((MISSING.to_owned(), MISSING.to_owned()), |origin| {
                    (origin.command.clone(), utc(origin.finished_unix_s))
                });
            let commit = saved.origin.as_ref().map(|origin| format!(" ({})", origin.commit));
            let version = format!("{}{}", saved.version, commit.unwrap_or_default());
            let seeds = grouped(&saved.runs, |run| run.key()).iter().map(|(_, runs)| runs.len()).max();
            [command, version, date, seeds.unwrap_or(0).to_string(), saved.digest.clone()]
        };
        let sides = origin(&self.a).into_iter().zip(origin(&self.b));
        let labels = ["Command", "Version", "Date", "Seeds", "Digest"];
        let origins =
            labels.into_iter().zip(sides).map(|(label, (a, b))| Row::new(label, vec![a, b])).collect();
        let table = |first: &str, rows| Part::Table(Table::new([first, a, b], 3, rows));
        let mut parts = Vec::new();
        if !rows.is_empty() {
            parts.push(table("Key", rows));
        }
        parts.push(table("Result", origins));
        Section { heading: "What differs".to_owned(), text: text.to_owned(), parts }
    }

    /// Counts the changes by verdict, such as "3 better, 80 the same".
    fn counted(&self) -> String {
        let count =
            |verdict: Verdict| self.changes.iter().filter(|change| change.verdict() == verdict).count();
        let named = [
            (Verdict::Better, "better"),
            (Verdict::Worse, "worse"),
            (Verdict::Changed, "changed without a better direction"),
            (Verdict::Undecided, "undecided with one seed"),
            (Verdict::Noise, "within noise"),
            (Verdict::Same, "the same"),
        ];
        let counts: Vec<String> = named
            .into_iter()
            .map(|(verdict, words)| (count(verdict), words))
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        format!("of {}, {}", plural(self.changes.len() as f64, "figure"), counts.join(", "))
    }

    fn headlines(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.is_same && is_first(&change.metric))
    }

    fn findings(&self, crossed: usize) -> Vec<String> {
        let exceeded = (crossed > 0).then(|| format!("{} exceeded.", plural(crossed as f64, "threshold")));
        let is_main = |change: &&Change| {
            let unit = unit_of(&change.metric);
            let is_seen = unit.written(change.a.mean) != unit.written(change.b.mean);
            is_seen && change.share().is_finite() && change.share().abs() >= MAIN_SHARE_MIN
        };
        let all = || self.headlines().filter(is_main);
        let is_decided = |change: &&Change| change.verdict().is_decided();
        let main: Vec<&Change> = match all().any(|change| is_decided(&change)) {
            true => all().filter(is_decided).collect(),
            false => all().filter(|change| change.verdict() == Verdict::Undecided).collect(),
        };
        let (mut sentences, mut undecided): (Vec<String>, _) = (exceeded.into_iter().collect(), None);
        if self.changes.iter().any(|change| change.verdict() == Verdict::Undecided) {
            let text = "One seed cannot tell a change from noise. Repeat both results with more seeds, for example \
                        --set scenario.seeds=[1,2,3,4,5].";
            undecided = Some(text.to_owned());
        }
        // The largest change of each metric, most important metrics first.
        let metric = |change: &&Change| change.metric.split('.').next().unwrap_or_default().to_owned();
        let mut groups = grouped(main, metric);
        groups.sort_by_key(|(_, changes)| changes.iter().map(|change| rank(&change.metric)).min());
        for (_, changes) in groups.iter().take(MAIN_MAX) {
            let largest = changes.iter().max_by(|a, b| a.share().abs().total_cmp(&b.share().abs()));
            sentences.extend(largest.map(|change| change.sentence()));
        }
        sentences.extend(undecided);
        if sentences.is_empty() && !self.is_identical {
            sentences.push("No headline figure changes beyond noise.".to_owned());
        }
        let counted = self.counted();
        let (first, last) = self.notes.split_at(usize::from(self.is_identical));
        let others = first.iter().chain([&counted]).chain(last);
        sentences.extend(others.map(|text| format!("{}.", capitalised(text))));
        sentences
    }

    /// Returns a table of changed figures for each run; the first is open.
    fn all_figures(&self) -> Section {
        let [a, b] = &self.names;
        let row = |change: &Change| {
            let verdict = change.verdict();
            let look = match verdict {
                Verdict::Better => Look::Good,
                Verdict::Worse => Look::Bad,
                _ => Look::Plain,
            };
            let cells = [change.cells(), vec![verdict.word().to_owned()]].concat();
            Row { look, ..Row::new(&change.metric, cells) }
        };
        let of_run = |one: &Change, other: &Change| one.name() == other.name();
        let table = |(at, changes): (usize, &[Change])| {
            let rows: Vec<Row> = changes.iter().filter(|change| !change.is_same).map(row).collect();
            let same = changes.len() - rows.len();
            let name = format!("{}: {} changed, {same} the same", changes[0].name(), rows.len());
            let table = Table::new(["Metric", a, b, "Change", "p", "Verdict"], 1, rows);
            Part::Table(table.folded(name, at == 0))
        };
        let parts = self.changes.chunk_by(of_run).enumerate().map(table).collect();
        let text = format!(
            "± is Student's 95 % confidence interval of the mean over seeds; p is of {TESTS}, significant below 0.05. A \
             difference that is not significant is within noise."
        );
        Section { heading: "All figures".to_owned(), text, parts }
    }

    /// Draws the changes of the headline metrics of all runs; `None` if there are none.
    fn drawn_changes(&self) -> Option<Figure> {
        let mut drawn: Vec<&Change> =
            self.headlines().filter(|change| change.share().abs() <= SHARE_MAX).collect();
        let more = match drawn.len().saturating_sub(CHANGES_MAX) {
            0 => String::new(),
            more => format!(" {} are in the tables only.", plural(more as f64, "more change")),
        };
        // Keep the most important ones in their original order.
        let mut by_rank: Vec<usize> = (0..drawn.len()).collect();
        by_rank.sort_by_key(|at| (drawn[*at].verdict() == Verdict::Noise, rank(&drawn[*at].metric)));
        by_rank.truncate(CHANGES_MAX);
        by_rank.sort_by_key(|at| rank(&drawn[*at].metric));
        drawn = by_rank.into_iter().map(|at| drawn[at]).collect();
        let colour = |verdict: Verdict| match verdict {
            Verdict::Better => 3,
            Verdict::Worse => 0,
            Verdict::Changed => 1,
            Verdict::Undecided | Verdict::Noise | Verdict::Same => 8,
        };
        let row = |change: &&Change| {
            let (share, half) =
                (change.share(), change.test.map_or(0.0, |test| test.half / change.a.mean.abs()));
            Bar {
                name: format!("{}: {}", in_words(&change.metric), change.name()),
                text: change.written(),
                interval: (half > 0.0).then_some([share - half, share + half]),
                dot: Some(share),
                colour: colour(change.verdict()),
                ..Bar::default()
            }
        };
        let rows: Vec<Bar> = drawn.iter().map(row).collect();
        let ends = rows.iter().flat_map(|row| row.interval.into_iter().flatten().chain(row.dot));
        let (least, most) = ends.fold((0.0_f64, 0.0_f64), |(low, high), at| (low.min(at), high.max(at)));
        let room = ((most - least) * 0.06).max(0.005);
        let verdicts =
            [Verdict::Better, Verdict::Worse, Verdict::Changed, Verdict::Undecided, Verdict::Noise];
        let shown =
            verdicts.into_iter().filter(|verdict| drawn.iter().any(|change| change.verdict() == *verdict));
        let key: Vec<(Mark, String)> =
            shown.map(|verdict| (Mark::Dot(Ink::of(colour(verdict))), verdict.word().to_owned())).collect();
        let [a, b] = &self.names;
        let caption = format!(
            "Bars: confidence intervals of the difference, as a share of the first mean; none with one seed. They are of 95 %, or \
             of 97.5 % where both sides have the same seeds, since two tests share 5 % there. Changes of more than 300 % and \
             from 0 are in the tables only.{more}"
        );
        let scale = Scale::linear("", least - room..most + room, Unit::Share);
        let drawn = Bars { title: format!("Change from {a} to {b}"), scale, key, rows };
        (!drawn.rows.is_empty()).then(|| Figure::new("changes", caption, drawn))
    }

    fn distributions(&self) -> Result<Vec<Figure>, String> {
        let mut figures = Vec::new();
        let other = |key: &String| {
            let partner = self.partners.get(key)?;
            self.b.runs.iter().find(|other| other.key() == *partner)
        };
        let both = grouped(&self.a.runs, |run| run.key());
        let both = both.into_iter().filter_map(|(key, runs)| Some((runs[0], other(&key)?)));
        for (run, other) in both.take(RUNS_MAX) {
            let is_of_run = |change: &&Change| change.run == run.name && change.parameters == run.parameters;
            let name = self.changes.iter().find(is_of_run).map_or_else(|| run.name.clone(), Change::name);
            let custody = (self.a.time_to_custody(run)?, self.b.time_to_custody(other)?);
            let latency = (self.a.delivery_latency(run)?, self.b.delivery_latency(other)?);
            for (what, both, axis) in [
                ("share of nodes with all their columns", custody, "time to custody"),
                ("share of deliveries made", latency, "delivery latency"),
            ] {
                let (Some(before), Some(after)) = both else { continue };
                let curves = self.names.iter().cloned().zip([before, after]);
                let lines = Lines::shares(format!("{name}: {what}"), axis, curves);
                let caption = format!("All seeds combined; dots at 50 and 99 %.{}", lines.hidden());
                figures.push(Figure::new(axis, caption, lines));
            }
        }
        Ok(figures)
    }
}

impl Change {
    fn sentence(&self) -> String {
        let unit = unit_of(&self.metric);
        let [before, after] = [self.a, self.b].map(|side| unit.written(side.mean));
        let (name, metric) = (self.name(), in_words(&self.metric));
        let verdict = match self.verdict() {
            Verdict::Undecided => "which one seed cannot test",
            verdict => verdict.word(),
        };
        format!("{name}: {metric} from {before} to {after} ({}, {verdict}).", self.written())
    }

    fn cells(&self) -> Vec<String> {
        let [a, b] = [self.a, self.b].map(|side| side.written(unit_of(&self.metric)));
        vec![a, b, self.written(), self.p()]
    }
}
