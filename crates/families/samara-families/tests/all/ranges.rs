//! Each range that the schema states for a key of `[protocol]` is that of the reader.

use samara_document::Inputs;
use samara_engine::units::{Size, Span};
use samara_scenario::Overrides;
use serde_json::Value;

use crate::{assert_none, error_of, load_source, schema};

/// Kinds of protocols, each with the section of an experiment.
const KINDS: [(&str, &str); 4] =
    [("gossipsub", "columns"), ("cat", "pool"), ("ring", "group"), ("cmix", "mix")];

/// A key with a range.
struct Ranged {
    key: String,
    schema: Value,
    /// The range in words.
    words: String,
}

/// Collects the keys with ranges, and those of tables in them.
fn collect(properties: &Value, prefix: &str, found: &mut Vec<Ranged>) {
    for (name, schema) in properties.as_object().expect("keys") {
        let key = format!("{prefix}{name}");
        if schema.get("properties").is_some() {
            collect(&schema["properties"], &format!("{key}."), found);
        }
        let description = schema["description"].as_str().unwrap_or_default();
        if let Some((_, words)) = description.split_once("\n\nAllowed: ") {
            let words = words.strip_suffix('.').expect("a sentence").to_owned();
            found.push(Ranged { key, schema: schema.clone(), words });
        }
    }
}

/// Returns a quantity that is `step` smallest units away from another one.
fn quantity(text: &str, step: i64) -> String {
    let moved = |base: u64| base.checked_add_signed(step).expect("no quantity is negative");
    let size = Size::parse(text).map(|size| Size::from_bytes(moved(size.bytes())).to_string());
    size.or_else(|_| Span::parse(text).map(|span| Span::from_nanos(moved(span.nanos())).to_string()))
        .expect(text)
}

impl Ranged {
    /// Returns true if the schema has this type, which an absent key adds `null` to.
    fn is_of(&self, name: &str) -> bool {
        let types = &self.schema["type"];
        types == name || types.as_array().is_some_and(|types| types.contains(&name.into()))
    }

    /// Returns the value beside a bound, as it stands in a file and as a message shows it.
    fn beside(&self, bound: &str, step: i64) -> (String, String) {
        if let Ok(number) = bound.parse::<i64>() {
            let number = number as f64 + if self.is_of("integer") { 1.0 } else { 0.5 } * step as f64;
            return (number.to_string(), number.to_string());
        }
        let shown = quantity(bound, step);
        (format!("{shown:?}"), shown)
    }

    /// Returns the values just outside of the range, and those at its bounds.
    fn values(&self) -> [Vec<(String, String)>; 2] {
        if let Some(least) = self.words.strip_prefix("more than ") {
            return [vec![self.beside(least, 0)], vec![self.beside(least, 1)]];
        }
        if let Some(least) = self.words.strip_prefix("at least ") {
            return [vec![self.beside(least, -1)], vec![self.beside(least, 0)]];
        }
        let (least, most) = self.words.split_once(" to ").expect("a range");
        let outside = vec![self.beside(least, -1), self.beside(most, 1)];
        [outside, vec![self.beside(least, 0), self.beside(most, 0)]]
    }

    /// Checks that the schema has the bounds of numbers.
    fn has_bounds(&self) -> bool {
        let numbers: Vec<f64> = self.words.split(' ').filter_map(|word| word.parse().ok()).collect();
        let bounds = [&self.schema["minimum"], &self.schema["maximum"]];
        let is_number = self.is_of("integer") || self.is_of("number");
        !is_number || bounds.iter().zip(numbers).all(|(bound, number)| bound.as_f64() == Some(number))
    }
}

#[test]
fn values_just_outside_of_a_range_are_refused_with_the_range() {
    let schema = schema();
    let protocols = schema["properties"]["protocol"]["anyOf"].as_array().expect("kinds of protocols");
    let mut wrong = Vec::new();
    for (kind, section) in KINDS {
        let own = protocols.iter().find(|one| one["properties"]["kind"]["const"] == kind).expect(kind);
        let mut keys = Vec::new();
        collect(&own["properties"], "", &mut keys);
        assert!(keys.len() > 1, "{kind}");
        let error = |key: &str, value: &str| {
            let text = format!("[{section}]\n[protocol]\nkind = \"{kind}\"\n{key} = {value}\n");
            error_of(load_source("s.toml", &text, Inputs::default(), &Overrides::default()))
        };
        wrong.extend(keys.iter().flat_map(|ranged| {
            let Ranged { key, words, .. } = ranged;
            let [outside, inside] = ranged.values();
            let outside = outside.iter().map(|(value, shown)| {
                let expected = format!("s.toml:4: protocol.{key}: found {shown}; expected {words}");
                let found = error(key, value);
                (!found.starts_with(&expected)).then(|| format!("{kind} {key} = {value}: {found}"))
            });
            let inside = inside.iter().map(|(value, _)| {
                let found = error(key, value);
                found
                    .contains(&format!("expected {words}"))
                    .then(|| format!("{kind} {key} = {value}: {found}"))
            });
            let bounds = (!ranged.has_bounds()).then(|| format!("{kind} {key}: {}", ranged.schema));
            outside.chain(inside).flatten().chain(bounds).collect::<Vec<_>>()
        }));
    }
    assert_none(wrong.into_iter());
}
