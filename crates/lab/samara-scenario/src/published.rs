//! Figures and statements of others, and how far ours may be from them.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::LazyLock;

use samara_engine::units::deserialize_text;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::is_default;

/// A value that others have published or measured, shown beside the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// Name of the run that the value belongs to.
    pub run: String,
    /// Path of the metric, as in `expect`.
    pub metric: String,
    /// The value, in the unit of the metric.
    pub value: f64,
    /// Source of the value: the id of a document that docs/sources.md goes through, or a text.
    pub source: String,
    /// Values of the sweep's keys that the value belongs to. It is not shown for other values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub at: BTreeMap<String, toml::Value>,
    /// Seeds of the measurement, if a seed draws the same network there and here. Runs with other seeds
    /// are compared only if none of these ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u64>,
    /// The part of the document that has the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The claim of the document, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// How our value must relate to theirs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub relation: Relation,
    /// How far our value may be from theirs: a share, or a factor for rare events.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tolerance: Tolerance,
    /// The least and the largest value of the source, for example over its seeds. Ours may also be
    /// anywhere between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// The value is a ratio: the metric of `run` divided by that of this run with the same seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// The parameter of the run that was chosen so that the value results. It is then no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<String>,
    /// A key of the sweep that the source leaves open: the claim is judged at each of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends: Option<String>,
    /// Inputs that the source leaves open, with the only values that ran. The claim depends on them as
    /// long as no other values did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// The run gives the value of another figure of the same claim under other inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explains: Option<Explains>,
    /// Figures of the source itself that exclude the value: it is wrong by arithmetic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<String>,
    /// What is known about a difference. It is no cause without a run that `explains` the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The figure that a run explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explains {
    /// The run of the figure, which has the same source, place and claim.
    pub run: String,
    /// What differs from that run, in a few words.
    pub by: String,
    /// Whether the source states the input that differs, and is wrong about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refutes: bool,
}

impl PublishedFigure {
    /// Returns the least and the largest value of ours that agree with the source. There is no tolerance
    /// on "at most" and "at least".
    fn agreeing(&self) -> (f64, f64) {
        let (mut least, mut most) = match self.relation {
            Relation::About => self.tolerance.range(self.value),
            Relation::AtMost | Relation::AtLeast => (self.value, self.value),
        };
        if let Some([from, to]) = self.range {
            (least, most) = (least.min(from), most.max(to));
        }
        match self.relation {
            Relation::About => (least, most),
            Relation::AtMost => (f64::NEG_INFINITY, most),
            Relation::AtLeast => (least, f64::INFINITY),
        }
    }

    /// Returns on what the verdict depends if our interval decides nothing.
    pub fn undecided(&self, interval: (f64, f64)) -> Option<String> {
        let is_undecided = self.verdict(interval) == Verdict::Depends && !self.holds(interval);
        is_undecided.then(|| "on more seeds: the interval lies across a limit".to_owned())
    }

    /// Returns on what the verdict depends if no other value of an input ran.
    pub fn open_inputs(&self) -> Option<String> {
        self.open.as_ref().map(|open| format!("on inputs of which only one value ran: {open}"))
    }

    /// Whether the whole interval of our value agrees with the source.
    pub fn holds(&self, (low, high): (f64, f64)) -> bool {
        let (least, most) = self.agreeing();
        low >= least && high <= most
    }

    /// Returns the verdict on our value, which lies in an interval.
    pub fn verdict(&self, interval: (f64, f64)) -> Verdict {
        if self.holds(interval) {
            return match (&self.fit, &self.open) {
                (Some(_), _) => Verdict::Fit,
                (None, Some(_)) => Verdict::Depends,
                (None, None) => Verdict::Reproduced,
            };
        }
        let ((least, most), (low, high)) = (self.agreeing(), interval);
        match high < least || low > most {
            true if self.arithmetic.is_some() => Verdict::Refuted,
            true => Verdict::Missed,
            false => Verdict::Depends,
        }
    }

    /// Returns the problems of the figure, beside its names.
    pub(crate) fn problem(&self) -> Option<String> {
        if !self.value.is_finite() {
            return Some(format!("value is {}; it must be a number", self.value));
        }
        if self.relation != Relation::About && self.tolerance != Tolerance::default() {
            return Some("tolerance has no effect on \"at-most\" and \"at-least\"; remove it".to_owned());
        }
        if let Some([least, most]) = self.range
            && !(least <= self.value && self.value <= most)
        {
            return Some(format!(
                "range is {least} to {most}; expected one around the value, {}",
                self.value
            ));
        }
        let source = sources().iter().find(|source| source.id == self.source)?;
        if self.claim.is_empty() {
            return Some(format!("a figure of \"{}\" needs a claim, in one sentence", self.source));
        }
        let places = source.places.join("\", \"");
        (!source.places.contains(&self.place))
            .then(|| format!("place is \"{}\"; expected one of \"{places}\"", self.place))
    }
}

/// How our value must relate to a published one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Equal, within the tolerance.
    #[default]
    About,
    /// At most equal.
    AtMost,
    /// At least equal.
    AtLeast,
}

impl Relation {
    /// The relation in words, with a space behind; empty for "about".
    pub fn words(self) -> &'static str {
        match self {
            Self::About => "",
            Self::AtMost => "at most ",
            Self::AtLeast => "at least ",
        }
    }
}

/// How far our value may be from a published one. Written as `"15 %"`, or `"x 3"` for a factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum Tolerance {
    /// A share of the published value.
    Share(f64),
    /// A factor, for counts of rare events.
    Factor(f64),
}

impl Tolerance {
    const SHARE: f64 = 0.15;
    /// The largest share, for figures that differ as much between seeds of their source.
    const SHARE_MAX: f64 = 0.25;
    const FACTOR: f64 = 3.0;

    /// Returns the least and the largest value that count as equal.
    fn range(self, value: f64) -> (f64, f64) {
        let (a, b) = match self {
            Self::Share(share) => (value * (1.0 - share), value * (1.0 + share)),
            Self::Factor(factor) => (value / factor, value * factor),
        };
        (a.min(b), a.max(b))
    }
}

impl Default for Tolerance {
    fn default() -> Self {
        Self::Share(Self::SHARE)
    }
}

impl Display for Tolerance {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{} %", (share * 1e4).round() / 100.0),
            Self::Factor(factor) => write!(f, "x {factor}"),
        }
    }
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let share = text.strip_suffix('%').and_then(number).map(|percent| percent / 100.0);
        let factor = text.strip_prefix('x').and_then(number);
        match (share, factor) {
            (Some(share), _) if (0.0..=Self::SHARE_MAX).contains(&share) => Ok(Self::Share(share)),
            (_, Some(factor)) if (1.0..=Self::FACTOR).contains(&factor) => Ok(Self::Factor(factor)),
            _ => Err(format!(
                "\"{text}\" is not a tolerance; expected a share up to \"25 %\", or a factor up to \"x 3\" \
                 for rare events"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a share up to \"25 %\", or a factor up to \"x 3\"";
        deserialize_text(deserializer, expected, str::parse)
    }
}

impl From<Tolerance> for String {
    fn from(tolerance: Tolerance) -> Self {
        tolerance.to_string()
    }
}

impl JsonSchema for Tolerance {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tolerance".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A share up to \"25 %\", or a factor up to \"x 3\" for rare events.",
        })
    }
}

samara_engine::names! {
    /// The verdict on a claim. Only the first two settle it.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// The interval of ours agrees with theirs.
        Reproduced = "reproduced",
        /// The document is wrong: by arithmetic, or a run gives its value under other inputs than it
        /// states.
        Refuted = "refuted",
        /// The interval of ours does not agree with theirs.
        Missed = "missed",
        /// It agrees for some values of an input that the document leaves open, or for some seeds; or only
        /// one value of such an input ran.
        Depends = "depends",
        /// A parameter was chosen so that the figure results.
        Fit = "fit",
        /// The model takes it for granted.
        Assumed = "assumed",
        NotAttempted = "not attempted",
    }
}

/// A document whose claims docs/sources.md goes through.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The name in [`PublishedFigure::source`].
    pub id: String,
    pub title: String,
    /// Its public address; empty if there is none.
    #[serde(default)]
    pub url: String,
    /// The day of its publication.
    pub date: String,
    /// The parts of the document, in their order.
    pub places: Vec<String>,
    /// The claims that no metric of a scenario measures.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A statement that no metric of a scenario measures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub place: String,
    /// The claim of the document, in one sentence.
    pub claim: String,
    #[serde(default)]
    pub theirs: String,
    /// Samara's way, or its measurement. `{scenario: run: metric}` stands for a value of the results, and
    /// `{scenario: run / run: metric}` for a ratio; ` at key = value` behind selects a point of a sweep.
    #[serde(default)]
    pub ours: String,
    pub verdict: Verdict,
    /// A test (`crate: path::of::test`), or a command in backticks.
    #[serde(default)]
    pub evidence: String,
    /// Why it is refuted, missed, assumed or not attempted; what it depends on.
    #[serde(default)]
    pub reason: String,
}

/// Our values of the published figures, as JSON: `samara sources --run DIR` writes them.
pub const SOURCE_RESULTS: &str = include_str!("../sources/results.json");

/// Returns the documents whose claims docs/sources.md goes through.
pub fn sources() -> &'static [Source] {
    // Every point of a scenario checks its figures, so they are read once.
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let texts = [
            include_str!("../sources/batch-publishing.toml"),
            include_str!("../sources/adr-009.toml"),
            include_str!("../sources/gossip-study.toml"),
            include_str!("../sources/daisychain.toml"),
            include_str!("../sources/xx-alpha.toml"),
        ];
        let parse = |text: &str| toml::from_str(text).expect("the files of sources are valid");
        texts.into_iter().map(parse).collect()
    });
    &SOURCES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, tolerance: &str) -> PublishedFigure {
        let text = format!(
            "run = \"a\"\nmetric = \"m\"\nvalue = {value:?}\nsource = \"s\"\ntolerance = \"{tolerance}\""
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn verdicts_judge_the_interval() {
        let at = |figure: &PublishedFigure, value: f64| figure.verdict((value, value));
        let within = figure(100.0, "15 %");
        let expected = [Verdict::Missed, Verdict::Reproduced, Verdict::Reproduced, Verdict::Missed];
        assert_eq!([84.9, 85.1, 114.9, 115.1].map(|ours| at(&within, ours)), expected);
        assert_eq!(within.verdict((90.0, 120.0)), Verdict::Depends, "a part of the interval agrees");
        assert_eq!(within.verdict((80.0, 120.0)), Verdict::Depends, "its middle agrees");
        let most = PublishedFigure { relation: Relation::AtMost, ..within.clone() };
        assert_eq!(
            [1.0, 100.0, 100.1].map(|ours| at(&most, ours) == Verdict::Reproduced),
            [true, true, false]
        );
        let least = PublishedFigure { relation: Relation::AtLeast, ..within.clone() };
        assert_eq!(
            [99.9, 100.0, 1e9].map(|ours| at(&least, ours) == Verdict::Reproduced),
            [false, true, true]
        );
        assert_eq!(least.verdict((99.0, 101.0)), Verdict::Depends);
        let wide = PublishedFigure { range: Some([80.0, 130.0]), ..within.clone() };
        assert_eq!([79.9, 80.1, 129.9, 130.1].map(|ours| at(&wide, ours)), expected);
        assert_eq!(wide.problem(), None);
        assert!(PublishedFigure { range: Some([101.0, 130.0]), ..within.clone() }.problem().is_some());
        let loose = PublishedFigure { relation: Relation::AtMost, ..figure(22.0, "x 3") };
        assert!(loose.problem().is_some(), "no tolerance on a limit");
        let wrong = PublishedFigure { arithmetic: Some("1 + 1 is 2".to_owned()), ..within.clone() };
        assert_eq!((at(&wrong, 200.0), at(&wrong, 100.0)), (Verdict::Refuted, Verdict::Reproduced));
        let open = PublishedFigure { open: Some("70 links".to_owned()), ..within.clone() };
        assert_eq!((at(&open, 100.0), at(&open, 200.0)), (Verdict::Depends, Verdict::Missed));
        assert!(open.undecided((90.0, 120.0)).is_some() && open.undecided((100.0, 100.0)).is_none());
        assert!(within.undecided((200.0, 200.0)).is_none() && within.open_inputs().is_none());
        assert!(open.open_inputs().is_some_and(|inputs| inputs.ends_with(": 70 links")));
        let fit = PublishedFigure { fit: Some("network.latency".to_owned()), ..within };
        assert_eq!((at(&fit, 100.0), at(&fit, 200.0)), (Verdict::Fit, Verdict::Missed));
    }

    #[test]
    fn tolerances_are_bounded() {
        for text in ["26 %", "x 4", "x 0.5", "-1 %", "15", ""] {
            assert!(text.parse::<Tolerance>().is_err(), "{text}");
        }
        assert_eq!("x 3".parse::<Tolerance>().unwrap().to_string(), "x 3");
        assert_eq!("7.5 %".parse::<Tolerance>().unwrap().to_string(), "7.5 %");
    }

    #[test]
    fn claims_name_places_of_their_document_and_give_reasons() {
        for source in sources() {
            for claim in &source.claims {
                let name = format!("{}: {}", source.id, claim.claim);
                assert!(source.places.contains(&claim.place), "{name}: place {:?}", claim.place);
                assert_ne!(claim.verdict, Verdict::Fit, "{name}");
                let is_reproduced = claim.verdict == Verdict::Reproduced;
                assert!(is_reproduced || !claim.reason.is_empty(), "{name}: no reason");
                let is_shown = !matches!(claim.verdict, Verdict::Assumed | Verdict::NotAttempted);
                assert!(!is_shown || !claim.evidence.is_empty(), "{name}: no evidence");
            }
        }
    }
}
