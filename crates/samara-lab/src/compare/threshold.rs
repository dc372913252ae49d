//! How much worse a metric may become.

use crate::metric::{Better, better};
use samara_scenario::closest;

use super::{Change, Compared};
use crate::results::SavedRun;

/// Names that are listed where there is no such metric.
const NEAR_MAX: usize = 6;

/// How much a metric may change, for example `time_to_custody_ms.p95=5%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The run that it is about; all of them if absent.
    run: Option<String>,
    metric: String,
    /// What it may grow and fall by at most.
    up: Option<Limit>,
    down: Option<Limit>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// Of the first mean.
    Share(f64),
    /// In the unit of the metric.
    Value(f64),
}

impl Limit {
    fn parse(text: &str) -> Option<Self> {
        let (number, of) = match text.strip_suffix('%') {
            Some(number) => (number.trim(), 100.0),
            None => (text, 0.0),
        };
        let number = number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
        Some(if of > 0.0 { Self::Share(number / of) } else { Self::Value(number) })
    }

    /// Whether a growth by `difference`, or as much of the first mean, is more than this.
    fn is_passed(self, difference: f64, share: f64) -> bool {
        match self {
            Self::Share(limit) => share > limit,
            Self::Value(limit) => difference > limit,
        }
    }
}

/// A threshold that a run has crossed.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossed {
    /// The run with what tells it from others of its name.
    pub run: String,
    pub metric: String,
    /// The threshold as it was given.
    pub threshold: String,
    /// The change as people write it.
    pub change: String,
}

impl Threshold {
    /// Reads `METRIC=LIMIT`, with `RUN:` before it for one run only. A limit is a share (`5%`) or a number in the unit of the metric; without a
    /// sign it is what the metric may become worse by, with a sign what it may grow (`+5%`) or fall by (`-5%`); both after each other
    /// (`+5%,-5%`) is both.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "\"{text}\" is not METRIC=LIMIT; expected for example time_to_custody_ms.p95=5%, incomplete=0, or mesh_size=+5%,-5%"
            )
        };
        let (key, limits) = text.split_once('=').ok_or_else(wrong)?;
        let (run, metric) = match key.split_once(':') {
            Some((run, metric)) => (Some(run.trim().to_owned()), metric.trim()),
            None => (None, key.trim()),
        };
        let (mut up, mut down) = (None, None);
        for part in limits.split(',').map(str::trim) {
            let (sign, number) = match part.strip_prefix('+') {
                Some(number) => (Better::Less, number),
                None => match part.strip_prefix('-') {
                    Some(number) => (Better::More, number),
                    None => match better(metric) {
                        Some(better) => (better, part),
                        None => {
                            return Err(format!(
                                "\"{text}\": whether more or less of {metric} is better is not known; say what it may grow and fall by, for \
                                 example {metric}=+{part},-{part}"
                            ));
                        }
                    },
                },
            };
            let limit = Some(Limit::parse(number.trim()).ok_or_else(wrong)?);
            // What is better when there is less of it must not grow.
            let slot = if sign == Better::Less { &mut up } else { &mut down };
            if slot.is_some() || metric.is_empty() {
                return Err(wrong());
            }
            *slot = limit;
        }
        Ok(Self { run, metric: metric.to_owned(), up, down, text: text.to_owned() })
    }

    /// The runs that have crossed it.
    ///
    /// # Errors
    /// There is no such metric or no such run, and the text lists names that are near; or the second result lacks a value.
    pub fn check(&self, compared: &Compared) -> Result<Vec<Crossed>, String> {
        let of_metric: Vec<&Change> =
            compared.changes().iter().filter(|change| change.metric == self.metric).collect();
        if of_metric.is_empty() {
            return Err(format!(
                "--threshold {}: no run has this metric; {}",
                self.text,
                self.near(compared)
            ));
        }
        let is_meant = |change: &Change| self.run.as_ref().is_none_or(|run| change.run == *run);
        if !of_metric.iter().any(|change| is_meant(change)) {
            let mut runs: Vec<&str> = of_metric.iter().map(|change| change.run.as_str()).collect();
            runs.dedup();
            return Err(format!(
                "--threshold {}: there is no such run; the runs are {}",
                self.text,
                runs.join(", ")
            ));
        }
        if let Some(run) = self.lacking(compared) {
            let b = compared.b.path.display();
            return Err(format!("--threshold {}: {b} has no {} of {run}", self.text, self.metric));
        }
        let crossed = of_metric.into_iter().filter(|change| is_meant(change) && self.is_crossed(change));
        Ok(crossed
            .map(|change| Crossed {
                run: change.name(),
                metric: self.metric.clone(),
                threshold: self.text.clone(),
                change: format!(
                    "{} to {} ({})",
                    change.side(change.a),
                    change.side(change.b),
                    change.written()
                ),
            })
            .collect())
    }

    /// A run whose metric is in the first result only: what is not measured must not pass for unchanged.
    fn lacking<'a>(&self, compared: &'a Compared) -> Option<&'a str> {
        let has = |run: &SavedRun| run.metrics.contains_key(&self.metric);
        let is_meant = |run: &&SavedRun| has(run) && self.run.as_ref().is_none_or(|name| run.name == *name);
        let is_lacking = |run: &&SavedRun| {
            let key = run.key();
            !compared.b.runs.iter().any(|other| other.key() == key && has(other))
        };
        let mut of_first = compared.a.runs.iter().filter(is_meant);
        of_first.find(is_lacking).map(|run| run.name.as_str())
    }

    fn is_crossed(&self, change: &Change) -> bool {
        let (difference, share) = (change.b.mean - change.a.mean, change.share());
        self.up.is_some_and(|limit| limit.is_passed(difference, share))
            || self.down.is_some_and(|limit| limit.is_passed(-difference, -share))
    }

    /// Names that may have been meant.
    fn near(&self, compared: &Compared) -> String {
        let mut names: Vec<&str> = compared.changes().iter().map(|change| change.metric.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut near: Vec<&str> =
            names.iter().copied().filter(|name| name.contains(self.metric.as_str())).collect();
        near.extend(closest(&self.metric, names.iter().copied()).filter(|name| !near.contains(name)));
        near.truncate(NEAR_MAX);
        if near.is_empty() {
            format!("the metrics are {}", names.join(", "))
        } else {
            format!("did you mean {}?", near.join(", "))
        }
    }
}
