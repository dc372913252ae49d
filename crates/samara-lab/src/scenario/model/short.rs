//! Short forms: `latency = "50 ms"` for `latency = { kind = "constant", value = "50 ms" }`.

use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::units::UnitKind;

/// How a text stands for a table with a `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// The text is the kind, and all other keys of the table have their default.
    Kind,
    /// A text that is no kind is the value of `key` in a table of this kind.
    Value {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: &'static str,
    },
}

/// Adds to the schema of a tagged enumeration that a kind can be written alone.
pub(crate) fn kind_alone(schema: &mut Schema) {
    add(schema, &[Short::Kind], None);
}

/// Adds the short form of [`Latency`](super::Latency).
pub(crate) fn latency(schema: &mut Schema) {
    add(schema, &[Short::Value { kind: "constant", key: "value" }], Some(UnitKind::Span));
}

/// Adds the short forms of [`SendBuffer`](super::SendBuffer).
pub(crate) fn send_buffer(schema: &mut Schema) {
    add(schema, &[Short::Kind, Short::Value { kind: "fixed", key: "size" }], Some(UnitKind::Size));
}

/// Adds the short forms of [`FaultTime`](super::FaultTime).
pub(crate) fn fault_time(schema: &mut Schema) {
    add(schema, &[Short::Value { kind: "fixed", key: "time" }], Some(UnitKind::Span));
}

/// The kinds that need no other key.
fn complete_kinds(schema: &Schema) -> Vec<Value> {
    let variants = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    variants
        .filter(|variant| variant["required"].as_array().is_some_and(|keys| keys.len() == 1))
        .map(|variant| variant["properties"]["kind"]["const"].clone())
        .collect()
}

fn add(schema: &mut Schema, shorts: &[Short], unit: Option<UnitKind>) {
    let mut alternatives = Vec::new();
    let mut mark = Map::new();
    for short in shorts {
        match short {
            Short::Kind => {
                mark.insert("kinds".into(), Value::Array(complete_kinds(schema)));
                alternatives.push(json!({ "type": "string", "enum": complete_kinds(schema) }));
            }
            Short::Value { kind, key } => {
                mark.insert("kind".into(), json!(kind));
                mark.insert("key".into(), json!(key));
                alternatives.extend(unit.map(|unit| unit.schema().to_value()));
            }
        }
    }
    schema.insert("x-short".into(), Value::Object(mark));
    if let Some(Value::Array(variants)) = schema.get_mut("oneOf") {
        variants.extend(alternatives);
    }
}
