//! Metrics, each declared once: name, unit, which direction is better, whether it is a headline, and
//! what it means. JSON, comparisons, sweeps, reports and `docs/results.md` read the declaration.

use crate::family::all as all_families;

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Less,
    More,
}

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

/// The declaration of a metric (by its dotted path). A name stands for all that is below it; figures
/// of single slots are those of their names.
fn find(path: &str) -> Option<&'static Metric> {
    let mut parts = path.split('.');
    let name = match parts.next() {
        Some("slots") => parts.nth(1),
        name => name,
    };
    all().find(|metric| Some(metric.name) == name)
}

/// Which way a metric is better; `None` if it is neither.
pub fn better(path: &str) -> Option<Better> {
    find(path)?.better
}

/// The unit of a metric; empty for plain numbers and for what no family declares.
pub fn unit(path: &str) -> &'static str {
    find(path).map_or("", |metric| metric.unit)
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
mod tests;
