//! A TOML document in which every value knows where it was written, so that keys can be set over it and errors still point
//! at the right place.

use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the file, at these bytes.
    File(Range<usize>),
    /// In a `--set`, the text of which this is.
    Set(String),
    /// Nowhere: a table that a `--set` had to make.
    Made,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) origin: Origin,
}

/// A key of a table and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) origin: Origin,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Anything but arrays and tables.
    Plain(Value),
    /// A date or time, which no key of a scenario takes.
    Datetime(String),
    Array(Vec<Node>),
    Table(Vec<(Key, Node)>),
}

impl Node {
    /// The document of a parsed file.
    pub(crate) fn document(table: &DeTable<'_>, span: Range<usize>) -> Self {
        Self { data: Self::table(table), origin: Origin::File(span) }
    }

    fn table(table: &DeTable<'_>) -> Data {
        let entries = table.iter().map(|(key, value)| {
            let name = key.get_ref().to_string();
            let key = Key { name, origin: Origin::File(key.span()) };
            (key, Self::value(value.get_ref(), value.span()))
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(key, _)| match &key.origin {
            Origin::File(span) => span.start,
            Origin::Set(_) | Origin::Made => usize::MAX,
        });
        Data::Table(entries)
    }

    fn value(value: &DeValue<'_>, span: Range<usize>) -> Self {
        let data = match value {
            DeValue::String(text) => Data::Plain(Value::String(text.to_string())),
            DeValue::Integer(number) => Data::Plain(integer(number.as_str(), number.radix())),
            DeValue::Float(number) => Data::Plain(float(number.as_str())),
            DeValue::Boolean(flag) => Data::Plain(Value::Bool(*flag)),
            DeValue::Datetime(time) => Data::Datetime(time.to_string()),
            DeValue::Array(items) => {
                Data::Array(items.iter().map(|item| Self::value(item.get_ref(), item.span())).collect())
            }
            DeValue::Table(table) => Self::table(table),
        };
        Self { data, origin: Origin::File(span) }
    }

    /// The same value as if it had been written elsewhere.
    pub(crate) fn moved(mut self, origin: &Origin) -> Self {
        self.relocate(origin);
        self
    }

    fn relocate(&mut self, origin: &Origin) {
        self.origin = origin.clone();
        match &mut self.data {
            Data::Array(items) => items.iter_mut().for_each(|item| item.relocate(origin)),
            Data::Table(entries) => {
                for (key, value) in entries {
                    key.origin = origin.clone();
                    value.relocate(origin);
                }
            }
            Data::Plain(_) | Data::Datetime(_) => {}
        }
    }

    /// The value without places.
    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Plain(value) => value.clone(),
            Data::Datetime(text) => Value::String(text.clone()),
            Data::Array(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Data::Table(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.name.clone(), value.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// The value of a key, if this is a table that has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|(_, value)| value)
    }

    /// A key and its value.
    pub(crate) fn entry(&self, name: &str) -> Option<(&Key, &Self)> {
        match &self.data {
            Data::Table(entries) => {
                entries.iter().find(|(key, _)| key.name == name).map(|(key, value)| (key, value))
            }
            _ => None,
        }
    }

    /// The items of an array; nothing of anything else.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.data {
            Data::Array(items) => items,
            _ => &[],
        }
    }

    /// The value at a path.
    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        let next = match &self.data {
            Data::Array(items) => first.parse().ok().and_then(|i: usize| items.get(i)),
            _ => self.get(first),
        };
        next?.at(rest)
    }

    /// The deepest thing on the way to a key, and whether the key itself is there.
    pub(crate) fn nearest(&self, path: &[String]) -> (&Origin, bool) {
        let mut node = self;
        let mut place = &self.origin;
        for part in path {
            let next = match &node.data {
                Data::Table(_) => node.entry(part).map(|(key, value)| (&key.origin, value)),
                Data::Array(items) => {
                    part.parse().ok().and_then(|i: usize| items.get(i)).map(|item| (&item.origin, item))
                }
                Data::Plain(_) | Data::Datetime(_) => None,
            };
            let Some((origin, value)) = next else {
                return (place, false);
            };
            // The header of a table is a better place than all of the table.
            place =
                if matches!(value.data, Data::Table(_) | Data::Array(_)) { origin } else { &value.origin };
            node = value;
        }
        (place, true)
    }

    /// Sets a key. Tables on the way are made; a plain value on the way gives way to a table. A table is added to the one
    /// that is there, unless it says by its `kind` what it is as a whole.
    ///
    /// # Errors
    /// A number that is beyond the end of an array, with what is allowed.
    pub(crate) fn set(&mut self, path: &[String], value: Self) -> Result<(), String> {
        let Some((first, rest)) = path.split_first() else {
            return self.put(value);
        };
        if let Data::Array(items) = &mut self.data {
            let len = items.len();
            let item = first.parse().ok().and_then(|i: usize| items.get_mut(i));
            let item = item.ok_or_else(|| match len {
                0 => format!("{first:?} is not in the list, which is empty"),
                _ => format!("{first:?} is not in the list; 0 to {} are allowed", len - 1),
            })?;
            return item.set(rest, value);
        }
        if !matches!(self.data, Data::Table(_)) {
            self.data = Data::Table(Vec::new());
        }
        let Data::Table(entries) = &mut self.data else { unreachable!("it was made a table just now") };
        if let Some((key, old)) = entries.iter_mut().find(|(key, _)| key.name == *first) {
            if rest.is_empty() {
                key.origin = value.origin.clone();
            }
            return old.set(rest, value);
        }
        let mut made = Self { data: Data::Table(Vec::new()), origin: Origin::Made };
        let key = Key { name: first.clone(), origin: value.origin.clone() };
        made.set(rest, value)?;
        entries.push((key, made));
        Ok(())
    }
}

impl Node {
    fn put(&mut self, value: Self) -> Result<(), String> {
        match value.data {
            Data::Table(entries)
                if matches!(self.data, Data::Table(_))
                    && entries.iter().all(|(key, _)| key.name != "kind") =>
            {
                entries.into_iter().try_for_each(|(key, value)| self.set(&[key.name], value))
            }
            data => {
                *self = Self { data, origin: value.origin };
                Ok(())
            }
        }
    }
}

fn integer(text: &str, radix: u32) -> Value {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | '+')).collect();
    let digits = match radix {
        10 => digits.as_str(),
        _ => digits.trim_start_matches("0x").trim_start_matches("0o").trim_start_matches("0b"),
    };
    let number = i64::from_str_radix(digits, radix).map(Number::from);
    let number = number.or_else(|_| u64::from_str_radix(digits, radix).map(Number::from));
    // What fits neither is kept as text, and then is not an integer as the schema wants it.
    number.map_or_else(|_| Value::String(text.to_owned()), Value::Number)
}

fn float(text: &str) -> Value {
    let number = text.replace('_', "").parse().ok().and_then(Number::from_f64);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}
