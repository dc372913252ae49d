//! Metrics, each declared once: name, unit, which direction is better, whether it is a headline, and
//! what it means. JSON, comparisons, sweeps, reports and `docs/results.md` read the declaration.

use crate::family::all as all_families;

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller, the better.
    Less,
    /// The larger, the better.
    More,
}

/// The declaration of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, which ends with its unit where it has one.
    pub name: &'static str,
    /// The unit for people; empty for plain numbers.
    pub unit: &'static str,
    /// Which way it is better; `None` for sizes, bounds, and what was run.
    pub better: Option<Better>,
    /// What of it is shown first: paths below the name, or an empty path for the metric itself.
    pub headlines: &'static [&'static str],
    /// One line of meaning.
    pub meaning: &'static str,
}

impl Metric {
    /// The dotted paths of what is shown first.
    pub fn headline_paths(&self) -> impl Iterator<Item = String> {
        self.headlines.iter().map(|below| match *below {
            "" => self.name.to_owned(),
            below => format!("{}.{below}", self.name),
        })
    }
}

/// Declares the metrics of a family: a struct of their values and a table of their declarations.
///
/// Each field states its unit, which way it is better (`Less`, `More` or `Neither`), and what of it is
/// a headline: paths below its name, or an empty path for the metric itself.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$outer:meta])*
        pub struct $Name:ident {
            $(
                $(#[doc = $meaning:literal])+
                $(#[serde($($serde:tt)*)])?
                pub $field:ident: $ty:ty = $unit:literal, $better:ident, [$($headline:literal),*];
            )*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $Name {
            $(
                $(#[doc = $meaning])+
                $(#[serde($($serde)*)])?
                pub $field: $ty,
            )*
        }

        impl $Name {
            /// The declarations, in the order of the fields.
            pub const METRICS: &'static [$crate::metric::Metric] = &[$(
                $crate::metric::Metric {
                    name: stringify!($field),
                    unit: $unit,
                    better: $crate::direction!($better),
                    headlines: &[$($headline),*],
                    meaning: concat!($($meaning),+),
                },
            )*];
        }
    };
}
pub(crate) use metrics;

/// Which way a metric is better, as declarations say it.
#[doc(hidden)]
#[macro_export]
macro_rules! direction {
    (Neither) => {
        None
    };
    ($better:ident) => {
        Some($crate::metric::Better::$better)
    };
}

/// The declarations of all families, one family after the other.
fn all() -> impl Iterator<Item = &'static Metric> {
    all_families().into_iter().flat_map(|family| family.metrics)
}

/// Which way a metric (by its dotted path) is better. A name stands for all that is below it;
/// figures of single slots are those of their names. `None` if it is neither.
pub fn better(path: &str) -> Option<Better> {
    let mut parts = path.split('.');
    let name = match parts.next() {
        Some("slots") => parts.nth(1),
        name => name,
    };
    all().find(|metric| Some(metric.name) == name)?.better
}

/// Where a metric stands among others: headlines come first, in the order of their declarations, and
/// all others after them, equal.
pub fn rank(path: &str) -> usize {
    all().flat_map(Metric::headline_paths).take_while(|headline| headline != path).count()
}

/// Whether a metric is a headline.
pub fn is_first(path: &str) -> bool {
    all().flat_map(Metric::headline_paths).any(|headline| headline == path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn a_name_stands_for_what_is_below_it() {
        assert_eq!(better("time_to_custody_ms.p95"), Some(Better::Less));
        assert_eq!(better("packet_drops.random"), Some(Better::Less));
        assert_eq!(better("slots.0.incomplete"), Some(Better::Less));
        assert_eq!(better("throughput_mb_per_s"), Some(Better::More));
        for neither in
            ["mesh_size", "lower_bound_ms", "publish_interval_ms.mean", "slots.0.publisher_window_packets"]
        {
            assert_eq!(better(neither), None, "{neither}");
        }
        assert!(rank("time_to_custody_ms.mean") < rank("queue_drops") && !is_first("mesh_size"));
        assert_eq!(rank("mesh_size"), rank("no_such_metric"));
    }

    #[test]
    fn one_name_has_one_direction_and_no_empty_meaning() {
        let mut known = BTreeMap::new();
        for metric in all() {
            let first = *known.entry(metric.name).or_insert(metric.better);
            assert_eq!(first, metric.better, "{}", metric.name);
            assert!(metric.meaning.trim().split(' ').count() > 1, "{}: {}", metric.name, metric.meaning);
        }
    }

    /// The table of a family in `docs/results.md`.
    fn table(metrics: &[Metric]) -> String {
        let mut text = "| metric | unit | better | meaning |\n|---|---|---|---|\n".to_owned();
        for metric in metrics {
            let better = match metric.better {
                Some(Better::Less) => "less",
                Some(Better::More) => "more",
                None => "",
            };
            let headline = if metric.headlines.is_empty() { "" } else { " ★" };
            let (name, unit, meaning) = (metric.name, metric.unit, metric.meaning.trim());
            let _ = writeln!(text, "| `{name}`{headline} | {unit} | {better} | {meaning} |");
        }
        text
    }

    /// `SAMARA_UPDATE_DOCS=1 cargo test -p samara-lab --lib` writes the tables.
    #[test]
    fn the_documentation_lists_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.md");
        let old = std::fs::read_to_string(path).expect("docs/results.md");
        let mut new = old.clone();
        for family in crate::family::BUILTIN {
            let (begin, end) =
                (format!("<!-- metrics of {} -->\n", family.section), "<!-- end of metrics -->".to_owned());
            let from = new.find(&begin).unwrap_or_else(|| panic!("{begin} is missing")) + begin.len();
            let to = from + new[from..].find(&end).expect("the end of a table");
            new.replace_range(from..to, &format!("\n{}\n", table(family.metrics)));
        }
        if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
            std::fs::write(path, &new).expect("docs/results.md can be written");
        } else {
            assert!(old == new, "docs/results.md is not current: SAMARA_UPDATE_DOCS=1 writes it");
        }
    }
}
