//! Metrics, each declared once: name, unit, better direction, headlines, and meaning.
//!
//! JSON, comparisons, sweeps, reports and `docs/results.md` read the declarations.

pub mod groups;

use std::marker::PhantomData;

use samara_document::closest;

use crate::family::{self, Family};
use crate::results::BY_CLASS;
use crate::statistics::Statistics;

/// The paths of the values of [`Statistics`].
const STATISTICS: [&str; 5] = [".mean", ".p50", ".p95", ".p99", ".max"];

/// The direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Less,
    More,
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, which ends with the unit if there is one.
    pub name: &'static str,
    /// The unit in readable form; empty for plain numbers.
    pub unit: &'static str,
    /// The better direction; `None` for sizes, bounds, and properties of the run.
    pub better: Option<Better>,
    /// Headlines of the metric: paths below the name, or an empty path for the metric itself.
    pub headlines: &'static [&'static str],
    /// True if the metric has the values of [`Statistics`].
    pub is_distribution: bool,
    pub meaning: &'static str,
}

impl Metric {
    pub fn headline_paths(&self) -> impl Iterator<Item = String> {
        self.headlines.iter().map(|below| match *below {
            "" => self.name.to_owned(),
            below => format!("{}.{below}", self.name),
        })
    }
}

/// A metric in words: `time_to_custody_ms.p95` is "time to custody, p95".
pub(crate) fn in_words(metric: &str) -> String {
    let (name, below) = metric.split_once('.').unwrap_or((metric, ""));
    let name = ["_ms", "_bytes", "_us"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    let name = name.replace('_', " ");
    if below.is_empty() { name } else { format!("{name}, {}", below.replace(['_', '.'], " ")) }
}

/// Declares the metrics of a family: a struct of their values and a table of their declarations.
///
/// Each field states its unit, its better direction (`Less`, `More` or `Neither`), and its
/// headlines: paths below its name, or an empty path for the metric itself. `of` names the retained
/// data with these metrics. `with` adds [groups] of metrics that several families have; a group is
/// declared by this macro, too.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$outer:meta])*
        pub struct $Name:ident $(of $Data:path)? {
            $(
                $(#[doc = $meaning:literal])+
                $(#[serde($($serde:tt)*)])?
                pub $field:ident: $ty:ty = $unit:literal, $better:ident, [$($headline:literal),*];
            )*
        } $(with {
            $(pub $group:ident: $Group:ty,)*
        })?
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $Name {
            $(
                $(#[doc = $meaning])+
                $(#[serde($($serde)*)])?
                pub $field: $ty,
            )*
            $($(
                #[serde(flatten)]
                pub $group: $Group,
            )*)?
        }

        impl $Name {
            /// The declarations by group, first those of the fields.
            const PARTS: &'static [&'static [$crate::metric::Metric]] = &[
                &[$(
                    $crate::metric::Metric {
                        name: stringify!($field),
                        unit: $unit,
                        better: $crate::direction!($better),
                        headlines: &[$($headline),*],
                        is_distribution: {
                            use $crate::metric::Other as _;
                            $crate::metric::checked(<$crate::metric::Kind<$ty>>::IS_DISTRIBUTION, &[$($headline),*])
                        },
                        meaning: concat!($($meaning),+),
                    },
                )*],
                $($(<$Group>::METRICS,)*)?
            ];

            /// The declarations: those of the fields in their order, then those of the groups.
            pub const METRICS: &'static [$crate::metric::Metric] =
                &$crate::metric::joined::<{ $crate::metric::count($Name::PARTS) }>($Name::PARTS);
        }

        $(impl $crate::results::Data for $Data {
            type Metrics = $Name;

            fn metrics(&self) -> &$Name {
                &self.metrics
            }
        })?
    };
    ($($other:tt)*) => {
        compile_error!(
            "expected a struct whose fields have the form `/// Meaning.` and then `pub name: Type = \"unit\", Less, \
             [\"\"];`: the meaning is required, and the direction is Less, More or Neither"
        );
    };
}

/// Converts the better direction of a declaration.
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

/// Tells the types of statistics from all others: an associated constant of the type itself wins over
/// that of [`Other`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Kind<T>(PhantomData<T>);

impl Kind<Statistics> {
    pub const IS_DISTRIBUTION: bool = true;
}

impl Kind<Option<Statistics>> {
    pub const IS_DISTRIBUTION: bool = true;
}

#[doc(hidden)]
pub trait Other {
    const IS_DISTRIBUTION: bool = false;
}

impl<T> Other for Kind<T> {}

/// Returns `is_distribution`.
///
/// # Panics
/// If a headline of a distribution is not a statistic: the declaration does not compile.
#[doc(hidden)]
pub const fn checked(is_distribution: bool, headlines: &[&str]) -> bool {
    let mut at = 0;
    while is_distribution && at < headlines.len() {
        let is_known = matches!(headlines[at].as_bytes(), b"mean" | b"p50" | b"p95" | b"p99" | b"max");
        assert!(is_known, "a headline of statistics is one of mean, p50, p95, p99 and max");
        at += 1;
    }
    is_distribution
}

/// Returns the number of declarations in all parts.
#[doc(hidden)]
pub const fn count(parts: &[&[Metric]]) -> usize {
    let (mut all, mut part) = (0, 0);
    while part < parts.len() {
        all += parts[part].len();
        part += 1;
    }
    all
}

/// Returns the declarations of all parts, which are `N`.
#[doc(hidden)]
pub const fn joined<const N: usize>(parts: &[&[Metric]]) -> [Metric; N] {
    let mut all =
        [Metric { name: "", unit: "", better: None, headlines: &[], is_distribution: false, meaning: "" }; N];
    let (mut next, mut part) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[next] = parts[part][at];
            (next, at) = (next + 1, at + 1);
        }
        part += 1;
    }
    all
}

/// Returns the declarations of all families, one family after the other. Those of experiments that the
/// program adds come first, since their metrics may have names of Samara's.
fn all() -> impl Iterator<Item = &'static Metric> {
    let mut families = family::all();
    families.rotate_right(family::added().len());
    families.into_iter().flat_map(|family| family.metrics)
}

/// Returns the declaration of a metric by an experiment that the program adds.
fn added(path: &str) -> Option<&'static Metric> {
    family::added().into_iter().flat_map(|family| family.metrics).find(|metric| metric.name == name(path))
}

/// Returns the declaration of a metric by its dotted path.
///
/// A name covers all paths below it. Figures of single slots and of classes of nodes have the
/// declarations of their names.
fn find(path: &str) -> Option<&'static Metric> {
    all().find(|metric| metric.name == name(path))
}

fn name(path: &str) -> &str {
    let mut parts = path.split('.');
    match parts.next() {
        Some("slots" | BY_CLASS) => parts.nth(1).unwrap_or_default(),
        name => name.unwrap_or_default(),
    }
}

/// Length of the beginning that a wrong name shares with the suggested one, if no name is close.
const STEM: usize = 3;

/// Errors list the metrics of a family with at most so many.
const LISTED_MAX: usize = 20;

/// Returns an error for a path whose metric the family, or any family, does not declare.
pub fn declared(path: &str, family: Option<&Family>) -> Result<(), String> {
    let name = name(path);
    let own: Vec<&str> = match family {
        Some(family) => family.metrics.iter().map(|metric| metric.name).collect(),
        None => all().map(|metric| metric.name).collect(),
    };
    if own.contains(&name) {
        return Ok(());
    }
    let all = match own.len() {
        0..=LISTED_MAX => format!("; expected one of {}", own.join(", ")),
        _ => " (docs/results.md has all)".to_owned(),
    };
    if let (Some(family), true) = (family, find(path).is_some()) {
        return Err(format!("scenarios with [{}] have no metric \"{name}\"{all}", family.spec.section));
    }
    let below = path.split_once(name).map_or("", |(_, below)| below);
    let stem = name.get(..STEM).filter(|_| name.len() > STEM);
    let akin = stem.and_then(|stem| own.iter().copied().find(|other| other.starts_with(stem)));
    let hint = closest(name, own)
        .or(akin)
        .map_or_else(String::new, |name| format!("; did you mean \"{name}{below}\"?"));
    Err(format!("there is no metric \"{path}\"{hint}{all}"))
}

pub(crate) fn is_distribution(path: &str) -> bool {
    find(path).is_some_and(|metric| metric.is_distribution)
}

/// Returns an error for the path of a distribution that names none of its values.
pub(crate) fn has_value(path: &str) -> Result<(), String> {
    let name = name(path);
    let below = path.split_once(name).map_or("", |(_, below)| below);
    if !is_distribution(path) || STATISTICS.contains(&below) {
        return Ok(());
    }
    let values: Vec<String> = STATISTICS.iter().map(|below| format!("{name}{below}")).collect();
    let found = if below.is_empty() { "is no single value" } else { "is no value of this metric" };
    Err(format!("\"{path}\" {found}; expected one of {}", values.join(", ")))
}

/// Returns the better direction of a metric; `None` if it has none.
pub fn better(path: &str) -> Option<Better> {
    find(path)?.better
}

/// Returns the unit of a metric; empty for plain numbers and undeclared names.
pub fn unit(path: &str) -> &'static str {
    find(path).map_or("", |metric| metric.unit)
}

/// Returns the unit of a metric in a family. The same count may have another unit in another one.
pub(crate) fn unit_in(family: &Family, path: &str) -> &'static str {
    family.metrics.iter().find(|metric| metric.name == name(path)).map_or("", |metric| metric.unit)
}

/// Returns the rank of a metric. Headlines come first, in the order of their declarations; all
/// others share the last rank.
pub fn rank(path: &str) -> usize {
    all().flat_map(Metric::headline_paths).take_while(|headline| headline != path).count()
}

/// Returns true if a metric is a headline.
pub fn is_first(path: &str) -> bool {
    match added(path) {
        Some(metric) => metric.headline_paths().any(|headline| headline == path),
        None => all().flat_map(Metric::headline_paths).any(|headline| headline == path),
    }
}
