//! Reads TOML documents: scenarios and the configuration of nodes.
//!
//! Errors name the key and the line, and describe values in the terms of TOML, not by their Rust
//! types.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::de::{DeTable, DeValue};

use crate::closest;
use crate::text::{bounded, shortened};

/// Maximum number of problems that an error shows.
const PROBLEMS_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The dotted key that causes the problem, if there is one.
    pub key: Option<String>,
    /// The line of the file, counted from 1, if known.
    pub line: Option<usize>,
    /// The message: the value that was found, the values that are allowed, and the action to take.
    pub message: String,
}

impl Problem {
    /// A problem with a key of a document. The empty key stands for the whole document.
    pub fn at(text: &str, key: &str, message: impl Into<String>) -> Self {
        let key = Some(key).filter(|key| !key.is_empty());
        let line = key.and_then(|key| line_of(text, key));
        Self { key: key.map(str::to_owned), line, message: message.into() }
    }

    /// Adds the line of the document to the message.
    pub fn quote(&mut self, text: &str) {
        let line = self.line.and_then(|line| Some((line, text.lines().nth(line - 1)?)));
        self.message +=
            &line.map_or_else(String::new, |(at, line)| format!("\n  {at} | {}", shortened(line.trim_end())));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or the name of the built-in scenario.
    pub source: String,
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

impl ScenarioError {
    pub fn of(source: &str, problem: Problem) -> Self {
        Self { source: source.to_owned(), problems: vec![problem] }
    }

    /// A problem without a key.
    pub fn one(source: &str, message: impl Into<String>) -> Self {
        Self::of(source, Problem { key: None, line: None, message: message.into() })
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().take(PROBLEMS_MAX).enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let line = problem.line.map_or_else(String::new, |line| format!(":{line}"));
            let key = problem.key.as_ref().map_or_else(String::new, |key| format!("{}: ", shortened(key)));
            let message = format!("{}{line}: {key}{}", self.source, problem.message.trim_end());
            f.write_str(&bounded(&message))?;
        }
        match self.problems.len().saturating_sub(PROBLEMS_MAX) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more problems"),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Reads a document into a type.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let table = text.parse::<toml::Table>().map_err(|error| syntax_problem(text, &error))?;
    from_table(&table).map_err(|error| Problem::at(text, &error.key, error.message))
}

/// Ends of TOML whose absence is a common slip, each with the message about it.
const ENDS: [(&str, &str); 3] = [
    (
        "]",
        "a list is not closed before or in this line; add the missing `]`, or the comma between two elements",
    ),
    (
        "}",
        "a table in braces is not closed before or in this line; add the missing `}`, or the comma between two keys",
    ),
    ("\"", "a text is not closed in this line, such as \"20 Mbit/s\"; add the quotation mark"),
];

const KEY_AND_VALUE: &str = "`[section]` or `key = value`, such as nodes = 200";
const VALUE: &str = "a number, true, false, or a text in quotation marks, such as \"20 Mbit/s\"";

/// Describes text that is not TOML, with a remedy.
fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let start = error.span().unwrap_or_default().start;
    let before = &text[..start];
    // Behind an element of a list, and for a text at the end of the line.
    let is_place = |end: &str| match end {
        "\"" => text[start..].lines().next().unwrap_or_default().is_empty(),
        _ => !before.trim_end().ends_with([',', '[', '{']),
    };
    // The parser has read the next key of a table in braces.
    let without_key = before.trim_end().rsplit_once(' ').map_or(before, |(rest, _)| rest);
    let lacks = |end: &str| {
        let around = ["", "]", "}"].into_iter().flat_map(|outer| [(before, outer), (without_key, outer)]);
        is_place(end)
            && around
                .map(|(before, outer)| format!("{before}{end}{outer}"))
                .any(|text| DeTable::parse(&text).is_ok())
    };
    let line = before.rsplit('\n').next().unwrap_or_default();
    let message = match ENDS.iter().find(|(end, _)| lacks(end)) {
        _ if error.message() == "duplicate key" => duplicate_key(text, start),
        Some(("]", _)) if line.starts_with('[') => "expected `[section]`; add the closing bracket".to_owned(),
        Some((_, message)) => (*message).to_owned(),
        None => format!(
            "{}; expected {}",
            error.message(),
            if line.contains('=') { VALUE } else { KEY_AND_VALUE }
        ),
    };
    Problem { key: None, line: error.span().map(|span| line_at(text, span.start)), message }
}

/// Describes the second of two equal keys, which starts at an offset.
fn duplicate_key(text: &str, offset: usize) -> String {
    let start = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    let header = |line: &str| Some(line.trim().strip_prefix('[')?.split(']').next()?.to_owned());
    let line = text[start..].lines().next().unwrap_or_default();
    let key = header(line).unwrap_or_else(|| {
        let name = line.split('=').next().unwrap_or_default().trim();
        let section = text[..start].lines().rev().find_map(header);
        section.map_or_else(|| name.to_owned(), |section| format!("{section}.{name}"))
    });
    // Entries of `[[section]]` may have equal keys, so the first line with the key tells nothing.
    let first =
        Some(&text[..start]).filter(|_| !key.starts_with('[')).and_then(|before| line_of(before, &key));
    let first = first.map_or_else(String::new, |line| format!(", first on line {line}"));
    format!(
        "duplicate key `{}`{first}; expected each key and section once; merge the two",
        key.trim_matches('[')
    )
}

/// Reads a table into a type.
pub fn from_table<T: DeserializeOwned>(table: &toml::Table) -> Result<T, Mismatch> {
    T::deserialize(MapAccessDeserializer::new(Entries::of(table)))
}

/// Reads a value into a type.
pub fn from_value<T: DeserializeOwned>(value: &toml::Value) -> Result<T, Mismatch> {
    T::deserialize(Reader(value))
}

/// The line of a document that sets a dotted key, counted from 1. If none does, the line of the
/// innermost table around it.
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    offset_in_table(document.get_ref(), key).map(|offset| line_at(text, offset))
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn offset_in_table(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let leads_to_key = table.iter().filter_map(|(name, value)| {
        let rest = key.strip_prefix(name.get_ref().as_ref())?;
        (rest.is_empty() || rest.starts_with('.'))
            .then(|| (name, value.get_ref(), rest.trim_start_matches('.')))
    });
    // A quoted key may contain dots (`set."network.nodes"`).
    let (name, value, rest) = leads_to_key.max_by_key(|(name, ..)| name.get_ref().len())?;
    offset_in_value(value, rest).or(Some(name.span().start))
}

fn offset_in_value(value: &DeValue<'_>, key: &str) -> Option<usize> {
    match value {
        DeValue::Table(table) => offset_in_table(table, key),
        DeValue::Array(array) => {
            let (index, rest) = key.split_once('.').unwrap_or((key, ""));
            let element = array.get(index.parse::<usize>().ok()?)?;
            offset_in_value(element.get_ref(), rest).or(Some(element.span().start))
        }
        _ => None,
    }
}

/// Words of the field, each with the key that has another name for the same thing.
const MEANT: [(&str, &str); 5] = [
    ("validators", "nodes"),
    ("peers", "nodes"),
    ("hosts", "nodes"),
    ("delay", "latency"),
    ("rtt", "latency"),
];

/// A value that a type cannot be read from.
#[derive(Debug)]
pub struct Mismatch {
    /// The dotted key below the value that is read, with the indices of lists; empty for the value
    /// itself.
    pub key: String,
    /// The value that was found, and those that are allowed.
    pub message: String,
    /// The last part of a key that is unknown and resembles no known one.
    pub stray: Option<String>,
}

impl Mismatch {
    /// A problem with the whole value.
    pub fn of(message: String) -> Self {
        Self { key: String::new(), message, stray: None }
    }

    /// A `key` that is not one of the `known` ones.
    pub fn of_key(key: &str, known: &[&str]) -> Self {
        Self::unknown(&format!("unknown key `{key}`"), key, known)
    }

    fn new(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of(format!("found {}; expected {}", describe(found), plain_words(&expected.to_string())))
    }

    /// Returns the mismatch relative to the table or list around its value.
    #[must_use]
    pub fn below(self, key: impl fmt::Display) -> Self {
        let key = if self.key.is_empty() { key.to_string() } else { format!("{key}.{}", self.key) };
        Self { key, ..self }
    }

    /// Adds the text that was found to an expectation alone.
    fn of_text(self, text: &str) -> Self {
        match self.message.starts_with("expected ") {
            true => Self { message: format!("found {text:?}; {}", self.message), ..self },
            false => self,
        }
    }

    /// A `word` that is not one of the `known` words.
    fn unknown(problem: &str, word: &str, known: &[&str]) -> Self {
        let meant = MEANT.iter().find(|(used, name)| *used == word && known.contains(name));
        let hint = meant.map(|(_, name)| *name).or_else(|| closest(word, known.iter().copied()));
        let stray = hint.is_none().then(|| word.to_owned());
        let hint = hint.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
        Self { stray, ..Self::of(format!("{problem}; expected {}{hint}", one_of(known))) }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        // The whole message of the standard library for an address that does not parse.
        if message == "invalid socket address syntax" {
            return Self::of("expected an IP address and a port, such as \"127.0.0.1:7000\"".to_owned());
        }
        Self::of(message)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // The most common slip has a remedy.
        let remedy = match (found, &*plain_words(&expected.to_string())) {
            (Unexpected::Str(text), "a list") => format!("; write [{text:?}]"),
            (Unexpected::Map, "a list") => "; write [{ ... }]".to_owned(),
            _ => String::new(),
        };
        let error = Self::new(found, expected);
        Self { message: error.message + &remedy, ..error }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(found, expected)
    }

    fn invalid_length(len: usize, expected: &dyn Expected) -> Self {
        Self::new(Unexpected::Other(&format!("a list of {len}")), expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self { stray: None, ..Self::unknown(&format!("found `{found}`"), found, expected) }
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        Self::of_key(found, expected)
    }

    fn missing_field(key: &'static str) -> Self {
        Self::of(format!("missing key `{key}`"))
    }
}

fn describe(found: Unexpected<'_>) -> Cow<'_, str> {
    match found {
        Unexpected::Bool(value) => value.to_string().into(),
        Unexpected::Unsigned(number) => number.to_string().into(),
        Unexpected::Signed(number) => number.to_string().into(),
        Unexpected::Float(number) => format!("{number:?}").into(),
        Unexpected::Str(text) => format!("{text:?}").into(),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        Unexpected::Other(text) => text.into(),
        // TOML has no other types.
        _ => "another value".into(),
    }
}

/// Translates an expectation of serde or of a type of the standard library into the terms of TOML.
fn plain_words(expected: &str) -> Cow<'_, str> {
    let length =
        ["a tuple of size ", "an array of length "].iter().find_map(|start| expected.strip_prefix(start));
    if let Some(length) = length {
        return format!("a list of {length}").into();
    }
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number from 0 to 9223372036854775807",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "path string" => "a text",
        // Names that select the kind of a table, such as `kind`.
        "variant identifier" => "a name",
        "a sequence" => "a list",
        "a map" => "a table",
        "socket address" => "an IP address and a port, such as \"127.0.0.1:7000\"",
        _ => expected,
    }
    .into()
}

/// Lists names in backticks: ``one of `a`, `b` ``.
fn one_of(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "none here".to_owned(),
        [name] => name.clone(),
        [a, b] => format!("{a} or {b}"),
        _ => format!("one of {}", names.join(", ")),
    }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a toml::Value);

impl<'a> Reader<'a> {
    fn found(self) -> Unexpected<'a> {
        match self.0 {
            toml::Value::String(text) => Unexpected::Str(text),
            toml::Value::Integer(number) => Unexpected::Signed(*number),
            toml::Value::Float(number) => Unexpected::Float(*number),
            toml::Value::Boolean(value) => Unexpected::Bool(*value),
            toml::Value::Datetime(_) => Unexpected::Other("a date"),
            toml::Value::Array(_) => Unexpected::Seq,
            toml::Value::Table(_) => Unexpected::Map,
        }
    }
}

struct Elements<'a>(std::iter::Enumerate<std::slice::Iter<'a, toml::Value>>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        let Some((index, element)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Reader(element)).map(Some).map_err(|error| error.below(index))
    }
}

/// The entries of a table, and the entry whose key was read last. A kind comes first, since it decides
/// about other keys, or a preset, whose values other keys replace.
struct Entries<'a> {
    first: Option<(&'a String, &'a toml::Value)>,
    first_key: Option<&'a String>,
    others: toml::map::Iter<'a, String, toml::Value>,
    last: Option<(&'a str, &'a toml::Value)>,
}

const FIRST: [&str; 2] = ["kind", "preset"];

impl<'a> Entries<'a> {
    fn of(table: &'a toml::Table) -> Self {
        let first = FIRST.into_iter().find_map(|key| table.get_key_value(key));
        Self { first, first_key: first.map(|(key, _)| key), others: table.iter(), last: None }
    }

    fn next(&mut self) -> Option<(&'a String, &'a toml::Value)> {
        self.first.take().or_else(|| self.others.find(|(key, _)| Some(*key) != self.first_key))
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        let Some((key, value)) = self.next() else { return Ok(None) };
        self.last = Some((key, value));
        seed.deserialize(key.as_str().into_deserializer())
            .map(Some)
            .map_err(|error: Mismatch| error.below(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let (key, value) = self.last.take().expect("serde reads keys before values");
        seed.deserialize(Reader(value)).map_err(|error| error.below(key))
    }
}

impl<'de> IntoDeserializer<'de, Mismatch> for Reader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            toml::Value::String(text) => {
                visitor.visit_borrowed_str(text).map_err(|error: Mismatch| error.of_text(text))
            }
            toml::Value::Integer(number) => visitor.visit_i64(*number),
            toml::Value::Float(number) => visitor.visit_f64(*number),
            toml::Value::Boolean(value) => visitor.visit_bool(*value),
            toml::Value::Datetime(date) => visitor.visit_string(date.to_string()),
            toml::Value::Array(array) => visitor.visit_seq(Elements(array.iter().enumerate())),
            toml::Value::Table(table) => visitor.visit_map(Entries::of(table)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        if !self.0.is_table() {
            // A type may have an example of its own.
            let own = (&visitor as &dyn Expected).to_string();
            if own.starts_with("a table") {
                return Err(Mismatch::new(self.found(), &own.as_str()));
            }
            let example = match self.0 {
                toml::Value::String(kind) if keys.contains(&"kind") => {
                    // Of a name that is no kind, the error lists those that are.
                    let table = MapDeserializer::new(std::iter::once(("kind", self)));
                    if let Err(error) = visitor.visit_map(table)
                        && error.message.starts_with("found ")
                    {
                        let message = error.message + "; write { kind = \"...\" }";
                        return Err(Mismatch { message, ..error });
                    }
                    format!(", such as {{ kind = {kind:?} }}")
                }
                _ => String::new(),
            };
            let expected = format!("a table with the keys {}{example}", keys.join(", "));
            return Err(Mismatch::new(self.found(), &expected.as_str()));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.0 {
            toml::Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            // A name may be a number, such as that of a version: `version = 1.1`.
            toml::Value::Integer(_) | toml::Value::Float(_) => {
                visitor.visit_enum(self.0.to_string().into_deserializer())
            }
            _ => Err(Mismatch::of(format!("found {}; expected {}", describe(self.found()), one_of(names)))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}
