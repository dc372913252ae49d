//! The JSON Schema of scenario files, and the check of a document against it.
//!
//! The published schema and the check cannot disagree, since the check is driven by the schema. Beyond standard keywords it
//! knows `x-unit` (a quantity of this kind), `x-short` (short forms of tables) and `x-expect` (expectations).

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::error::Finding;
use super::model::{Expectation, Scenario};
use super::suggest::closest;
use super::tree::{Data, Key, Node, Origin};
use crate::units::UnitKind;

/// The JSON Schema (2020-12) of scenario files.
pub fn json_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<Scenario>().to_value()
}

static SCHEMA: LazyLock<Value> = LazyLock::new(json_schema);

/// A pattern of plain texts.
struct Pattern {
    regex: &'static str,
    fits: fn(&str) -> bool,
    in_words: &'static str,
}

/// All patterns of the schema that are not quantities.
const PATTERNS: [Pattern; 2] = [
    Pattern {
        regex: "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        fits: is_name,
        in_words: "letters, digits, \"-\", \"_\" and \".\", not beginning with a sign",
    },
    Pattern {
        regex: "^(random|class:.+)$",
        fits: is_publisher,
        in_words: "the number of a node, \"random\", or \"class:\" and the name of a class",
    },
];

fn pattern(schema: &Value) -> Option<&'static Pattern> {
    let regex = schema.get("pattern").and_then(Value::as_str)?;
    PATTERNS.iter().find(|pattern| pattern.regex == regex)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_publisher(text: &str) -> bool {
    text == "random" || text.strip_prefix("class:").is_some_and(|name| !name.is_empty())
}

/// Checks a document, and writes short forms out.
pub(crate) fn check(document: &Node) -> (Value, Vec<Finding>) {
    let mut walk = Walk { path: Vec::new(), findings: Vec::new() };
    let value = walk.node(document, &SCHEMA);
    (value, walk.findings)
}

struct Walk {
    path: Vec<String>,
    findings: Vec<Finding>,
}

impl Walk {
    fn found(
        &mut self,
        origin: &Origin,
        message: String,
        allowed: Option<String>,
        suggestion: Option<String>,
    ) {
        let (path, origin) = (self.path.clone(), Some(origin.clone()));
        self.findings.push(Finding { path, origin, message, allowed, suggestion });
    }

    fn within<T>(&mut self, part: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(part.to_owned());
        let result = inner(self);
        self.path.pop();
        result
    }

    fn node(&mut self, node: &Node, schema: &Value) -> Value {
        let schema = resolve(schema);
        if schema.get("x-expect").is_some() {
            self.expectations(node);
            return node.to_json();
        }
        let alternatives = alternatives(schema);
        match alternatives.as_slice() {
            [] => self.single(node, schema),
            [only] => self.node(node, only),
            _ => self.choice(node, schema, &alternatives),
        }
    }

    /// A value whose schema has no alternatives.
    fn single(&mut self, node: &Node, schema: &Value) -> Value {
        let types = types(schema);
        let fits = |kind: &str| types.is_empty() || types.contains(&kind);
        match &node.data {
            Data::Table(_) if fits("object") => return self.object(node, schema),
            Data::Array(items) if fits("array") => return self.array(node, items, schema),
            Data::Plain(Value::String(text)) if fits("string") => self.text(node, text, schema),
            Data::Plain(Value::Bool(_)) if fits("boolean") => {}
            Data::Plain(Value::Number(number)) if number.is_f64() && fits("number") => {}
            Data::Plain(Value::Number(number)) if !number.is_f64() && (fits("integer") || fits("number")) => {
                self.integer(node, number, schema);
            }
            _ => self.mismatch(node, &[schema]),
        }
        node.to_json()
    }

    fn object(&mut self, node: &Node, schema: &Value) -> Value {
        let Data::Table(entries) = &node.data else { return node.to_json() };
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let mut object = Map::new();
        for (key, value) in entries {
            let checked = match (properties.get(&key.name), schema.get("additionalProperties")) {
                (Some(property), _) => self.within(&key.name, |walk| walk.node(value, property)),
                (None, Some(Value::Bool(false))) => {
                    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
                    self.within(&key.name, |walk| walk.unknown_key(&key.name, &key.origin, &names));
                    continue;
                }
                (None, Some(inner @ Value::Object(_))) => {
                    self.within(&key.name, |walk| walk.node(value, inner))
                }
                (None, _) => value.to_json(),
            };
            object.insert(key.name.clone(), checked);
        }
        for name in required(schema).filter(|name| node.get(name).is_none()) {
            let description = properties.get(name).map(first_sentence).unwrap_or_default();
            let allowed = (!description.is_empty()).then_some(description);
            self.within(name, |walk| {
                walk.found(&node.origin, "this key is missing".to_owned(), allowed, None)
            });
        }
        Value::Object(object)
    }

    fn unknown_key(&mut self, name: &str, origin: &Origin, names: &[&str]) {
        let suggestion = closest(name, names).map(|name| format!("{name:?}"));
        let allowed = match names.is_empty() {
            true => "no keys".to_owned(),
            false => names.join(", "),
        };
        self.found(origin, "there is no such key".to_owned(), Some(allowed), suggestion);
    }

    fn array(&mut self, node: &Node, items: &[Node], schema: &Value) -> Value {
        let minimum = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < minimum {
            let (message, allowed) =
                (format!("the list has {} items", items.len()), format!("{minimum} or more"));
            self.found(&node.origin, message, Some(allowed), None);
        }
        let any = Value::Bool(true);
        let inner = schema.get("items").unwrap_or(&any);
        let check = |(index, item): (usize, &Node)| {
            let part = index.to_string();
            self.within(&part, |walk| walk.node(item, inner))
        };
        Value::Array(items.iter().enumerate().map(check).collect())
    }

    fn text(&mut self, node: &Node, text: &str, schema: &Value) {
        if let Some(kind) = unit(schema) {
            if let Err(error) = kind.parse(text) {
                let message = format!("{text:?} is not a {}: {}", kind.name(), error.reason);
                self.found(&node.origin, message, Some(kind.allowed()), None);
            }
            return;
        }
        let names = constants(schema);
        if !names.is_empty() && !names.contains(&text) {
            return self.no_choice(&node.origin, text, &names);
        }
        if let Some(pattern) = pattern(schema).filter(|pattern| !(pattern.fits)(text)) {
            let allowed = Some(pattern.in_words.to_owned());
            self.found(&node.origin, format!("{text:?} is not allowed"), allowed, None);
        }
    }

    fn no_choice(&mut self, origin: &Origin, text: &str, names: &[&str]) {
        let allowed = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let suggestion = closest(text, names).map(|name| format!("{name:?}"));
        self.found(origin, format!("{text:?} is not known"), Some(allowed), suggestion);
    }

    fn integer(&mut self, node: &Node, number: &serde_json::Number, schema: &Value) {
        let bound = |name: &str| schema.get(name).and_then(Value::as_i64).map(i128::from);
        let format_max = match schema.get("format").and_then(Value::as_str) {
            Some("uint16") => Some(i128::from(u16::MAX)),
            Some("uint32") => Some(i128::from(u32::MAX)),
            _ => None,
        };
        let value = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        let Some(value) = value else { return };
        let (minimum, maximum) = (bound("minimum"), bound("maximum").or(format_max));
        if minimum.is_some_and(|least| value < least) || maximum.is_some_and(|most| value > most) {
            let allowed = match (minimum, maximum) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("{least} or more"),
                (None, most) => format!("at most {}", most.unwrap_or(i128::MAX)),
            };
            self.found(&node.origin, format!("{value} is out of range"), Some(allowed), None);
        }
    }

    /// A value that can be one of several things.
    fn choice(&mut self, node: &Node, schema: &Value, alternatives: &[&Value]) -> Value {
        let kinds = kinds(alternatives);
        if let (Data::Table(_), false) = (&node.data, kinds.is_empty()) {
            return self.tagged(node, &kinds);
        }
        if let (Data::Plain(Value::String(text)), Some(short)) = (&node.data, schema.get("x-short")) {
            return self.short(node, text, short, &kinds, alternatives);
        }
        let names: Vec<&str> = alternatives.iter().flat_map(|alternative| constants(alternative)).collect();
        match &node.data {
            Data::Plain(Value::String(text)) if !names.is_empty() => {
                if !names.contains(&text.as_str()) {
                    self.no_choice(&node.origin, text, &names);
                }
                node.to_json()
            }
            _ => match alternatives.iter().find(|alternative| has_type(node, alternative)) {
                Some(alternative) => self.node(node, alternative),
                None => {
                    self.mismatch(node, alternatives);
                    node.to_json()
                }
            },
        }
    }

    fn tagged(&mut self, node: &Node, kinds: &[(&str, &Value)]) -> Value {
        let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
        let allowed = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let Some(kind) = node.get("kind") else {
            let message = "this key is missing".to_owned();
            self.within("kind", |walk| walk.found(&node.origin, message, Some(allowed), None));
            return node.to_json();
        };
        let Data::Plain(Value::String(text)) = &kind.data else {
            self.within("kind", |walk| {
                let message = format!("{} is not a text", show(kind));
                walk.found(&kind.origin, message, Some(allowed), None);
            });
            return node.to_json();
        };
        match kinds.iter().find(|(name, _)| name == text) {
            Some((_, variant)) => self.object(node, variant),
            None => {
                self.within("kind", |walk| walk.no_choice(&kind.origin, text, &names));
                node.to_json()
            }
        }
    }

    /// A text that stands for a table.
    fn short(
        &mut self,
        node: &Node,
        text: &str,
        short: &Value,
        kinds: &[(&str, &Value)],
        alternatives: &[&Value],
    ) -> Value {
        let alone = short.get("kinds").and_then(Value::as_array).into_iter().flatten();
        if alone.filter_map(Value::as_str).any(|kind| kind == text) {
            return serde_json::json!({ "kind": text });
        }
        if let Some((name, variant)) = kinds.iter().find(|(name, _)| *name == text) {
            let keys: Vec<String> =
                required(variant).filter(|key| *key != "kind").map(|key| format!("{key} = ...")).collect();
            let allowed = format!("{{ kind = {name:?}, {} }}", keys.join(", "));
            self.found(&node.origin, format!("{text:?} needs more keys"), Some(allowed), None);
            return node.to_json();
        }
        if let (Some(kind), Some(key)) = (short.get("kind"), short.get("key").and_then(Value::as_str)) {
            if let Some(quantity) = alternatives.iter().find(|alternative| unit(alternative).is_some()) {
                self.text(node, text, quantity);
            }
            return serde_json::json!({ "kind": kind, key: text });
        }
        let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
        self.no_choice(&node.origin, text, &names);
        node.to_json()
    }

    fn mismatch(&mut self, node: &Node, schemas: &[&Value]) {
        let units = schemas.iter().find_map(|schema| unit(schema));
        let message = match (&node.data, units) {
            (Data::Plain(Value::Number(number)), Some(_)) => format!("{number} has no unit"),
            _ => format!("{} is not of the right type", show(node)),
        };
        let mut allowed: Vec<String> = schemas.iter().flat_map(|schema| describe(schema)).collect();
        allowed.dedup();
        self.found(&node.origin, message, Some(allowed.join(", or ")), None);
    }

    fn expectations(&mut self, node: &Node) {
        let Data::Table(entries) = &node.data else {
            let allowed =
                "a table of metrics and comparisons, for example \"time_to_custody_ms.p95\" = \"< 4 s\"";
            let message = format!("{} is not of the right type", show(node));
            return self.found(&node.origin, message, Some(allowed.to_owned()), None);
        };
        for (key, value) in entries {
            self.within(&key.name, |walk| match &value.data {
                Data::Array(items) => items.iter().for_each(|item| walk.expectation(key, item)),
                Data::Table(_) => {
                    let message = "a metric with points must be in quotes".to_owned();
                    let allowed = "\"time_to_custody_ms.p95\" = \"< 4 s\"".to_owned();
                    walk.found(&key.origin, message, Some(allowed), None);
                }
                _ => walk.expectation(key, value),
            });
        }
    }

    fn expectation(&mut self, key: &Key, value: &Node) {
        let Data::Plain(Value::String(text)) = &value.data else {
            let message = format!("{} is not of the right type", show(value));
            return self.found(
                &value.origin,
                message,
                Some("a text, for example \"< 4 s\"".to_owned()),
                None,
            );
        };
        if let Err(error) = Expectation::parse(&key.name, text) {
            let origin = if error.in_key { &key.origin } else { &value.origin };
            self.found(origin, error.reason, None, None);
        }
    }
}

/// Follows a reference to a definition.
fn resolve(schema: &Value) -> &Value {
    let mut schema = schema;
    while let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or_default();
        schema = &SCHEMA["$defs"][name];
    }
    schema
}

/// What a value can be, other than absent.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let listed = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    let resolved = listed.into_iter().flatten().map(resolve);
    resolved.filter(|alternative| alternative.get("type") != Some(&Value::from("null"))).collect()
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
        }
        _ => Vec::new(),
    }
}

fn unit(schema: &Value) -> Option<UnitKind> {
    schema.get("x-unit").and_then(Value::as_str).and_then(UnitKind::named)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The texts that a schema lists.
fn constants(schema: &Value) -> Vec<&str> {
    let one = schema.get("const").and_then(Value::as_str);
    let many = schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(many).collect()
}

/// The alternatives that are tables with a `kind`.
fn kinds<'a>(alternatives: &[&'a Value]) -> Vec<(&'a str, &'a Value)> {
    let kind = |alternative: &&'a Value| {
        let name = alternative.get("properties")?.get("kind")?.get("const")?.as_str()?;
        Some((name, *alternative))
    };
    alternatives.iter().filter_map(kind).collect()
}

fn has_type(node: &Node, schema: &Value) -> bool {
    let name = match &node.data {
        Data::Table(_) => "object",
        Data::Array(_) => "array",
        Data::Plain(Value::String(_)) => "string",
        Data::Plain(Value::Bool(_)) => "boolean",
        Data::Plain(Value::Number(number)) if !number.is_f64() => "integer",
        Data::Plain(_) => "number",
        Data::Datetime(_) => return false,
    };
    types(schema).contains(&name)
}

/// What a schema allows, in words.
fn describe(schema: &Value) -> Vec<String> {
    if let Some(kind) = unit(schema) {
        return vec![kind.allowed()];
    }
    let names = constants(schema);
    if !names.is_empty() {
        return names.iter().map(|name| format!("{name:?}")).collect();
    }
    if let Some(kind) = schema.get("properties").and_then(|properties| properties["kind"].get("const")) {
        return vec![format!("a table with kind = {kind}")];
    }
    if let Some(pattern) = pattern(schema) {
        return vec![pattern.in_words.to_owned()];
    }
    let name = |kind: &str| match kind {
        "object" => "a table",
        "array" => "a list",
        "string" => "a text in quotes",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a number",
    };
    types(schema).into_iter().map(|kind| name(kind).to_owned()).collect()
}

fn first_sentence(schema: &Value) -> String {
    let described = schema.get("description").or_else(|| resolve(schema).get("description"));
    let text = described.and_then(Value::as_str).unwrap_or_default();
    let end = text.find(['.', ':', '\n']).unwrap_or(text.len());
    text[..end].trim().to_owned()
}

/// A value for a message.
fn show(node: &Node) -> String {
    match &node.data {
        Data::Plain(value) => value.to_string(),
        Data::Datetime(text) => format!("the time {text}"),
        Data::Array(_) => "a list".to_owned(),
        Data::Table(_) => "a table".to_owned(),
    }
}
