//! The section of a page with the metrics of each class of nodes.

use samara_report::words::{MISSING, number};
use samara_report::{Bar, Bars, Figure, HUES, Part, Scale, Section, Table};

use super::{Grid, Runs, grouped, unit_of};
use crate::expect::figure_of;
use crate::family::Family;
use crate::metric::{Metric, in_words};
use crate::results::{BY_CLASS, CLASS_NODES};

const ABOUT: &str = "The same metrics over the nodes of each class alone. `summary.json` has all of their values, and tables \
                     of nodes and deliveries have a column `class`.";
const INTERVALS: &str = " Means over seeds; ± is Student's 95 % confidence interval of the mean.";
/// Maximum number of bars in a figure. A sweep has more; its table has them all.
const BARS_MAX: usize = 40;

/// Returns the section; `None` if no run has classes of nodes.
pub(crate) fn section(grid: &Grid<'_>, family: &Family) -> Option<Section> {
    let rows: Vec<(&Runs<'_>, String)> = grid.rows.iter().flat_map(of_run).collect();
    let has = |path: &String| rows.iter().any(|(row, class)| row.spread(&at(class, path)).is_some());
    let paths: Vec<String> = family.metrics.iter().flat_map(shown).filter(has).collect();
    let cells = |(row, class): &(&Runs<'_>, String)| {
        let nodes = row.spread(&at(class, CLASS_NODES)).map_or(f64::NAN, |nodes| nodes.mean);
        let value = |path: &String| {
            let spread = row.spread(&at(class, path));
            spread.map_or_else(|| MISSING.to_owned(), |spread| spread.written(unit_of(path)))
        };
        row.row([class.clone(), number(nodes)].into_iter().chain(paths.iter().map(value)).collect())
    };
    let labels = grid.axes.iter().map(|(_, label)| label.clone());
    let headings =
        ["class", "nodes"].map(str::to_owned).into_iter().chain(paths.iter().map(|path| in_words(path)));
    let headings = ["run".to_owned()].into_iter().chain(labels).chain(headings);
    let table = Table::new(headings, 2 + grid.axes.len(), rows.iter().map(cells).collect());
    let first = paths.first()?;
    let has_seeds = grid.rows.iter().any(|row| row.metrics.len() > 1);
    let about = ABOUT.to_owned() + if has_seeds { INTERVALS } else { "" };
    let mut section = Section::new("By class of nodes", about, Part::Table(table));
    if rows.len() <= BARS_MAX {
        section.parts.push(Part::Figures(vec![figure(first, &rows)]));
    }
    Some(section)
}

/// Draws a metric of all classes side by side.
fn figure(path: &str, rows: &[(&Runs<'_>, String)]) -> Figure {
    let bar = |(row, class): &(&Runs<'_>, String)| {
        let spread = row.spread(&at(class, path));
        let (mean, half) = spread.map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.confidence_95));
        let values = row.metrics.iter().filter_map(|metrics| figure_of(metrics, &at(class, path)));
        Bar {
            name: format!("{}, {class}", row.named()),
            values: values.filter(|value| value.is_finite()).collect(),
            interval: (half > 0.0).then_some([(mean - half).max(0.0), mean + half]),
            dot: Some(mean),
            colour: row.colour % HUES,
            text: if mean.is_finite() { String::new() } else { "not measured".to_owned() },
            ..Bar::default()
        }
    };
    let bars: Vec<Bar> = rows.iter().map(bar).collect();
    let ends =
        bars.iter().flat_map(|bar| bar.interval.into_iter().flatten().chain(bar.values.iter().copied()));
    let scale = Scale::linear("", 0.0..ends.fold(1e-6, f64::max) * 1.06, unit_of(path));
    let caption =
        "Means over seeds; bars: Student's 95 % confidence intervals of the mean. Pale dots: single seeds.";
    let title = format!("{}, by class of nodes", in_words(path));
    Figure::new(format!("by-class-{path}"), caption, Bars { title, scale, rows: bars, key: Vec::new() })
}

/// The path of a metric of a class.
fn at(class: &str, path: &str) -> String {
    format!("{BY_CLASS}.{class}.{path}")
}

/// The classes of a run, in the order of the scenario.
fn of_run<'a, 'b>(row: &'b Runs<'a>) -> impl Iterator<Item = (&'b Runs<'a>, String)> {
    let classes = row.metrics.iter().filter_map(|metrics| metrics.get(BY_CLASS)?.as_object());
    let names = classes.flat_map(|classes| classes.keys());
    grouped(names, |name| (*name).clone()).into_iter().map(move |(name, _)| (row, name))
}

/// The paths of a metric that the table shows: the first and the last headline.
fn shown(metric: &Metric) -> Vec<String> {
    let mut paths: Vec<String> = metric.headline_paths().collect();
    match paths.len() {
        0 if metric.is_distribution => vec![format!("{}.mean", metric.name)],
        0 => vec![metric.name.to_owned()],
        1 => paths,
        len => vec![paths[0].clone(), paths.swap_remove(len - 1)],
    }
}
