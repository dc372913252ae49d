//! The section of a page with the metrics of each class of nodes.

use samara_report::words::{MISSING, number};
use samara_report::{Part, Section, Table};

use super::{Grid, Runs, grouped, unit_of};
use crate::family::Family;
use crate::metric::{Metric, in_words};
use crate::results::{BY_CLASS, CLASS_NODES};

const ABOUT: &str = "The same metrics over the nodes of each class alone. `summary.json` has all of their values, and tables \
                     of nodes and deliveries have a column `class`.";

/// Returns the section; `None` if no run has classes of nodes.
pub(crate) fn section(grid: &Grid<'_>, family: &Family) -> Option<Section> {
    let rows: Vec<(&Runs<'_>, String)> = grid.rows.iter().flat_map(of_run).collect();
    let has = |path: &String| rows.iter().any(|(row, class)| row.spread(&at(class, path)).is_some());
    let paths: Vec<String> = family.metrics.iter().flat_map(shown).filter(has).collect();
    let cells = |(row, class): &(&Runs<'_>, String)| {
        let nodes = row.spread(&at(class, CLASS_NODES)).map_or(f64::NAN, |nodes| nodes.mean);
        let value = |path: &String| {
            let spread = row.spread(&at(class, path));
            spread.map_or_else(|| MISSING.to_owned(), |spread| unit_of(path).written(spread.mean))
        };
        row.row([class.clone(), number(nodes)].into_iter().chain(paths.iter().map(value)).collect())
    };
    let labels = grid.axes.iter().map(|(_, label)| label.clone());
    let headings =
        ["class", "nodes"].map(str::to_owned).into_iter().chain(paths.iter().map(|path| in_words(path)));
    let headings = ["run".to_owned()].into_iter().chain(labels).chain(headings);
    let table = Table::new(headings, 2 + grid.axes.len(), rows.iter().map(cells).collect());
    (!paths.is_empty()).then(|| Section::new("By class of nodes", ABOUT, Part::Table(table)))
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
