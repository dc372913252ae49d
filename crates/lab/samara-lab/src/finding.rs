//! Sentences of a scenario about its runs (`scenario.findings`), with figures of the results.

use samara_report::words::{fixed, ms, number, percent};
use samara_scenario::Loaded;

use crate::expect::{figure_of, known, run_and_metric};
use crate::metric::unit;
use crate::results::{Outcome, Run};

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    /// `{RUN:METRIC}`: the mean over the seeds, with its unit.
    Value(Figure),
    /// `{RUN:METRIC / RUN:METRIC}`: how often the second figure is in the first one.
    Ratio(Figure, Figure),
}

#[derive(Clone, Debug, PartialEq)]
struct Figure {
    run: String,
    metric: String,
}

/// Checks the sentences of a scenario.
///
/// # Errors
/// A brace is open, or a run or a metric does not exist.
pub fn check(loaded: &Loaded) -> Result<(), String> {
    for (place, text) in loaded.scenario.scenario.findings.iter().enumerate() {
        parse(text, loaded)
            .map_err(|error| loaded.error("scenario", &format!("findings.{place}"), &error))?;
    }
    Ok(())
}

/// Returns the sentences whose runs all have results in which nothing is missing, since means over
/// different nodes do not compare. A sentence says how often one figure is in another one: it is left
/// out if the figure is the smaller one.
pub fn sentences(loaded: &Loaded, results: &[Outcome]) -> Vec<String> {
    if loaded.scenario.sweep.is_some() {
        return Vec::new();
    }
    let parsed = loaded.scenario.scenario.findings.iter().filter_map(|text| parse(text, loaded).ok());
    parsed.filter_map(|parts| parts.iter().map(|part| written(part, results)).collect()).collect()
}

fn parse(text: &str, loaded: &Loaded) -> Result<Vec<Part>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, left) =
            after.split_once('}').ok_or_else(|| format!("\"{{{after}\" has no closing brace"))?;
        parts.push(Part::Text(before.to_owned()));
        parts.push(match inside.split_once(" / ") {
            None => Part::Value(figure(inside, loaded)?),
            Some((of, by)) => Part::Ratio(figure(of, loaded)?, figure(by, loaded)?),
        });
        rest = left;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

fn figure(text: &str, loaded: &Loaded) -> Result<Figure, String> {
    let (Some(run), metric) = run_and_metric(text) else {
        return Err(format!("\"{{{text}}}\" names no run; expected RUN:METRIC, or RUN:METRIC / RUN:METRIC"));
    };
    known(loaded, text)?;
    Ok(Figure { run: run.to_owned(), metric: metric.to_owned() })
}

fn written(part: &Part, results: &[Outcome]) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.clone()),
        Part::Value(figure) => {
            let value = figure.mean(results)?;
            Some(match unit(&figure.metric) {
                "ms" => ms(value),
                "share" => percent(value, 1),
                _ => number(value),
            })
        }
        Part::Ratio(of, by) => {
            let ratio = of.mean(results)? / by.mean(results)?;
            (ratio.is_finite() && ratio >= 1.0).then(|| fixed(ratio, 2))
        }
    }
}

impl Figure {
    /// Returns the mean over the seeds; `None` if a run lacks the figure or is incomplete.
    fn mean(&self, results: &[Outcome]) -> Option<f64> {
        let own: Vec<&Outcome> = results.iter().filter(|outcome| outcome.run.name == self.run).collect();
        let value = |Run { metrics, .. }: &Run| figure_of(metrics, &self.metric);
        let values: Option<Vec<f64>> =
            own.iter().map(|outcome| value(&outcome.run).filter(|_| !outcome.is_incomplete)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }
}
