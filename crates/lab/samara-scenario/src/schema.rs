//! The JSON Schema of scenarios, and the forms that it gives a key.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use samara_document::keys;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use crate::{Scenario, family};

/// The JSON Schema of scenario files of all families.
pub fn schema() -> Value {
    let mut generator = schemars::SchemaGenerator::default();
    let mut schema = Scenario::json_schema(&mut generator);
    family::add_to_schema(&mut schema, &mut generator);
    let dialect = generator.settings().meta_schema.as_ref().map(|uri| uri.to_string());
    if let Some(dialect) = dialect {
        schema.insert("$schema".to_owned(), dialect.into());
    }
    schema.insert("$defs".to_owned(), generator.take_definitions(true).into());
    RecursiveTransform(without_absent_defaults).transform(&mut schema);
    schema.to_value()
}

/// Removes absent keys from the defaults of a schema, as scenarios have them: TOML has no null.
fn without_absent_defaults(schema: &mut Schema) {
    fn without_nulls(value: &mut Value) {
        if let Some(table) = value.as_object_mut() {
            table.retain(|_, value| !value.is_null());
            table.values_mut().for_each(without_nulls);
        }
    }
    if let Some(schema) = schema.as_object_mut()
        && let Some(default) = schema.get_mut("default")
    {
        without_nulls(default);
        if default.is_null() {
            schema.shift_remove("default");
        }
    }
}

/// The forms that keys can have. Its schema is made when the first key needs it.
#[derive(Default)]
pub(crate) struct Forms(OnceCell<Value>);

impl Forms {
    /// Returns the schemas of a dotted key: one for each type or kind of table that it can have, and
    /// those that only refer to others.
    fn of(&self, key: &str) -> Vec<&Value> {
        let root = self.0.get_or_init(schema);
        let Ok(parts) = keys::parts(key) else { return Vec::new() };
        parts.iter().fold(vec![root], |parents, part| {
            let children = parents.into_iter().filter_map(|form| child(form, part));
            children.flat_map(|child| forms(root, child)).collect()
        })
    }

    /// Returns true if the key exists.
    pub(crate) fn has(&self, key: &str) -> bool {
        !self.of(key).is_empty()
    }

    /// Returns true if the key has any text: neither a quantity with its unit nor one of several names.
    pub(crate) fn is_text(&self, key: &str) -> bool {
        let mut forms = self.of(key).into_iter().filter(|form| form.get("type").is_some());
        let is_any_text = |form: &Value| {
            let is_bound = ["pattern", "const", "enum"].iter().any(|bound| form.get(bound).is_some());
            !is_bound && (form["type"] == "string" || form["type"][0] == "string")
        };
        forms.next().is_some_and(is_any_text) && forms.all(|form| form["type"] == "null" || is_any_text(form))
    }

    /// Returns the keys of a table of this kind, if the table has kinds.
    pub(crate) fn of_kind(&self, table: &str, kind: &str) -> Option<&Map<String, Value>> {
        let mut tables = self.of(table).into_iter().filter_map(|form| form.get("properties")?.as_object());
        tables.find(|keys| keys.get("kind").is_some_and(|own| own["const"] == kind))
    }

    /// Returns the names of all keys of a table with this kind: its own, and those of every kind. `None`
    /// if the table has no such kind.
    pub(crate) fn keys_with_kind(&self, table: &str, kind: &str) -> Option<BTreeSet<&str>> {
        let own = self.of_kind(table, kind)?;
        let tables = self.of(table).into_iter().filter_map(|form| form.get("properties")?.as_object());
        let common = tables.filter(|keys| !keys.contains_key("kind")).flat_map(Map::keys);
        Some(own.keys().chain(common).map(String::as_str).collect())
    }

    /// Returns the presets of a protocol.
    pub(crate) fn presets(&self, protocol: &str) -> Vec<&str> {
        let root = self.0.get_or_init(schema);
        let preset = self.of_kind("protocol", protocol).and_then(|keys| keys.get("preset"));
        let forms = preset.into_iter().flat_map(|preset| forms(root, preset));
        let names = forms.flat_map(|form| {
            let listed = form.get("enum").and_then(Value::as_array);
            form.get("const").into_iter().chain(listed.into_iter().flatten())
        });
        names.filter_map(Value::as_str).collect()
    }
}

/// Returns the schema of a key of a table, or of an element of a list.
fn child<'a>(form: &'a Value, name: &str) -> Option<&'a Value> {
    let is_index = name.bytes().all(|byte| byte.is_ascii_digit());
    let named = || form.get("properties")?.get(name);
    let any = || form.get(if is_index { "items" } else { "additionalProperties" });
    named().or_else(any).filter(|child| child.is_object())
}

/// Returns a schema with those that it refers to.
fn forms<'a>(root: &'a Value, form: &'a Value) -> Vec<&'a Value> {
    let reference = form.get("$ref").and_then(Value::as_str);
    let referred = reference.and_then(|reference| root.pointer(reference.trim_start_matches('#')));
    let variants = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|list| form.get(list)?.as_array());
    let inner = referred.into_iter().chain(variants.flatten());
    std::iter::once(form).chain(inner.flat_map(|inner| forms(root, inner))).collect()
}
