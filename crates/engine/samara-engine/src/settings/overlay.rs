//! Reads and writes the keys of settings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::units::{Size, Span};

/// A configuration whose fields have keys in a file. [`settings!`](crate::settings!) implements it.
pub trait Settings {
    /// The documentation of the type.
    const ABOUT: &'static str;

    /// Returns the keys, in the order of the fields.
    fn keys() -> &'static [&'static str];

    /// Takes note of a table that sets keys, or none.
    fn begin(&mut self) {}

    /// Sets the field of a key, and notes the key as given.
    ///
    /// # Errors
    /// Returns an error if the value is not one of the field.
    fn read<'de, D: Deserializer<'de>>(
        &mut self,
        key: &str,
        value: D,
        given: &mut Given,
    ) -> Result<(), D::Error>;

    /// Writes the fields whose keys are given.
    ///
    /// # Errors
    /// Returns the errors of the serializer.
    fn write<M: SerializeMap>(&self, given: &Given, map: &mut M) -> Result<(), M::Error>;

    /// Returns true if the fields whose keys are given have the same values.
    fn equals(&self, other: &Self, given: &Given) -> bool;

    /// Adds the keys to the properties of a schema.
    fn describe(generator: &mut SchemaGenerator, properties: &mut Schema);

    /// Returns the dotted key of a field, which has the name of
    /// [`ConfigError`](crate::config::ConfigError).
    fn key_of(field: &str) -> Option<String>;
}

/// Settings that a file can add to a configuration.
impl<T: Settings + Default> Settings for Option<T> {
    const ABOUT: &'static str = T::ABOUT;

    fn keys() -> &'static [&'static str] {
        T::keys()
    }

    fn begin(&mut self) {
        self.get_or_insert_default();
    }

    fn read<'de, D: Deserializer<'de>>(
        &mut self,
        key: &str,
        value: D,
        given: &mut Given,
    ) -> Result<(), D::Error> {
        self.get_or_insert_default().read(key, value, given)
    }

    fn write<M: SerializeMap>(&self, given: &Given, map: &mut M) -> Result<(), M::Error> {
        self.as_ref().map_or(Ok(()), |settings| settings.write(given, map))
    }

    fn equals(&self, other: &Self, given: &Given) -> bool {
        match (self, other) {
            (Some(one), Some(other)) => one.equals(other, given),
            (one, other) => one.is_some() == other.is_some(),
        }
    }

    fn describe(generator: &mut SchemaGenerator, properties: &mut Schema) {
        T::describe(generator, properties);
    }

    fn key_of(field: &str) -> Option<String> {
        T::key_of(field)
    }
}

/// The form of a value in a file.
pub trait Form<T> {
    /// Replaces the value of a field.
    fn put(self, field: &mut T);
    /// Returns the form of a field that a file has set.
    fn of(field: &T) -> Self;
    /// Returns true if a file can state the value of the field. Presets have further values.
    fn states(_field: &T) -> bool {
        true
    }
}

macro_rules! forms {
    ($($form:ty, $field:ty: |$value:ident| $put:expr, |$own:ident| $of:expr;)*) => {
        $(impl Form<$field> for $form {
            fn put(self, field: &mut $field) {
                let $value = self;
                *field = $put;
            }

            fn of($own: &$field) -> Self {
                $of
            }
        })*
    };
}

forms! {
    Span, Duration: |span| span.duration(),
        |time| Self::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    Size, u64: |size| size.bytes(), |bytes| Self::from_bytes(*bytes);
    Size, usize: |size| usize::try_from(size.bytes()).unwrap_or(usize::MAX),
        |bytes| Self::from_bytes(*bytes as u64);
    u32, u64: |number| number.into(), |number| Self::try_from(*number).unwrap_or(Self::MAX);
    u32, usize: |number| number as usize, |number| Self::try_from(*number).unwrap_or(Self::MAX);
}

impl Form<Option<Duration>> for Span {
    fn put(self, field: &mut Option<Duration>) {
        *field = Some(self.duration());
    }

    fn of(field: &Option<Duration>) -> Self {
        Self::of(&field.unwrap_or_default())
    }

    fn states(field: &Option<Duration>) -> bool {
        field.is_some()
    }
}

/// The keys that a file gives, with those of the tables in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    keys: BTreeMap<String, Given>,
    is_all: bool,
}

impl Given {
    /// All keys of a configuration.
    pub const ALL: Self = Self { keys: BTreeMap::new(), is_all: true };

    /// Notes a key, and returns the keys of its table.
    pub fn add(&mut self, key: &str) -> &mut Self {
        self.keys.entry(key.to_owned()).or_default()
    }

    /// Returns the keys, without those of tables in them.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Returns the keys of a table; `None` if the table is not given.
    pub fn get(&self, key: &str) -> Option<&Self> {
        if self.is_all { Some(self) } else { self.keys.get(key) }
    }

    /// Returns true if the dotted key is given.
    pub fn has(&self, key: &str) -> bool {
        key.split('.').try_fold(self, Self::get).is_some()
    }
}

/// All settings of a section of a file.
pub trait Section: Settings + Clone + Default + fmt::Debug + Send + Sync + 'static {
    /// Keys that a written section has in any case.
    const WRITTEN: &'static [&'static str] = &[];
    /// Whether a written section has all keys.
    const WRITES_ALL: bool = false;

    /// Replaces all values by those of the preset, which the key `preset` has set.
    fn apply_preset(&mut self) {}

    /// Sets the values that follow others, unless they are given themselves.
    fn settle(&mut self, _given: &Given) {}

    /// Sets the keys without a value, which stand for several values of a preset or for one without a
    /// key, to the values in effect.
    fn fill(&mut self) {}
}

/// The settings of a section of a file, and the keys that the file gives. All other values are those
/// of the preset, or follow from given ones.
#[derive(Clone, Debug)]
pub struct Overlay<S> {
    settings: S,
    given: Given,
}

impl<S: Section> Overlay<S> {
    /// Returns the keys that the file gives.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// Notes further keys as given, with their present values.
    pub fn give(&mut self, keys: impl IntoIterator<Item = &'static str>) {
        keys.into_iter().for_each(|key| _ = self.given.add(key));
    }

    /// Returns the same settings with all keys given, also those whose values are of the preset or
    /// follow from others.
    #[must_use]
    pub fn in_effect(&self) -> Self {
        let mut settings = self.settings.clone();
        settings.fill();
        Self { settings, given: Given::ALL }
    }

    fn written(&self) -> Given {
        if S::WRITES_ALL {
            return Given::ALL;
        }
        let mut given = self.given.clone();
        S::WRITTEN.iter().for_each(|key| _ = given.add(key));
        given
    }
}

impl<S: Section> Default for Overlay<S> {
    fn default() -> Self {
        let mut settings = S::default();
        settings.settle(&Given::default());
        Self { settings, given: Given::default() }
    }
}

impl<S> Deref for Overlay<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.settings
    }
}

impl<S> DerefMut for Overlay<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.settings
    }
}

impl<S: Section> PartialEq for Overlay<S> {
    fn eq(&self, other: &Self) -> bool {
        let written = self.written();
        written == other.written() && self.settings.equals(&other.settings, &written)
    }
}

impl<S: Section> Serialize for Overlay<S> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        Written::new(&self.settings, &self.written()).serialize(serializer)
    }
}

impl<'de, S: Section> Deserialize<'de> for Overlay<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<S>(PhantomData<S>);

        impl<'de, S: Section> Visitor<'de> for Keys<S> {
            type Value = Overlay<S>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a table with the keys {}", S::keys().join(", "))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Overlay<S>, A::Error> {
                let (mut settings, mut given) = (S::default(), Given::default());
                while let Some(key) = map.next_key_seed(KnownKey::<S>(PhantomData))? {
                    if key == "preset" && given != Given::default() {
                        return Err(de::Error::custom("`preset` stands after keys that differ from it"));
                    }
                    map.next_value_seed(OfKey { key, settings: &mut settings, given: &mut given })?;
                    if key == "preset" {
                        settings.apply_preset();
                    }
                }
                settings.settle(&given);
                Ok(Overlay { settings, given })
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

impl<S: Section> JsonSchema for Overlay<S> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<S>().into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = schema_of::<S>(generator);
        schema.insert("description".to_owned(), plain(S::ABOUT).into());
        schema
    }
}

/// Reads the keys of a table into settings.
///
/// # Errors
/// Returns the errors of the deserializer, and those of keys that do not exist.
pub fn read_table<'de, T: Settings, D: Deserializer<'de>>(
    settings: &mut T,
    deserializer: D,
    given: &mut Given,
) -> Result<(), D::Error> {
    struct Keys<'a, T>(&'a mut T, &'a mut Given);

    impl<'de, T: Settings> Visitor<'de> for Keys<'_, T> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a table with the keys {}", T::keys().join(", "))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let Self(settings, given) = self;
            settings.begin();
            while let Some(key) = map.next_key_seed(KnownKey::<T>(PhantomData))? {
                map.next_value_seed(OfKey { key, settings: &mut *settings, given: &mut *given })?;
            }
            Ok(())
        }
    }
    deserializer.deserialize_map(Keys(settings, given))
}

/// Reads a key that settings have.
struct KnownKey<T>(PhantomData<T>);

impl<'de, T: Settings> DeserializeSeed<'de> for KnownKey<T> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<T: Settings> Visitor<'_> for KnownKey<T> {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<&'static str, E> {
        let known = T::keys().iter().find(|known| **known == key);
        known.copied().ok_or_else(|| E::unknown_field(key, T::keys()))
    }
}

/// Reads the value of a key.
struct OfKey<'a, T> {
    key: &'static str,
    settings: &'a mut T,
    given: &'a mut Given,
}

impl<'de, T: Settings> DeserializeSeed<'de> for OfKey<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.settings.read(self.key, deserializer, self.given)
    }
}

/// Writes the given keys of settings.
pub struct Written<'a, T>(&'a T, &'a Given);

impl<'a, T: Settings> Written<'a, T> {
    /// Returns settings, of which the given keys are written.
    pub fn new(settings: &'a T, given: &'a Given) -> Self {
        Self(settings, given)
    }
}

impl<T: Settings> Serialize for Written<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.write(self.1, &mut map)?;
        map.end()
    }
}

/// Returns the schema of a table with the keys of settings.
pub fn schema_of<T: Settings>(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Schema::default();
    T::describe(generator, &mut properties);
    json_schema!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// Adds a key with its documentation to the properties of a schema.
pub fn property(properties: &mut Schema, key: &str, doc: &str, mut schema: Schema) {
    schema.insert("description".to_owned(), plain(doc).into());
    properties.insert(key.to_owned(), schema.to_value());
}

/// Removes the space at the start of the lines of a doc comment.
fn plain(doc: &str) -> String {
    let lines: Vec<&str> = doc.trim().lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n")
}

/// Returns the rest of a dotted field below a field.
pub fn below<'a>(field: &'a str, parent: &str) -> Option<&'a str> {
    field.strip_prefix(parent)?.strip_prefix('.')
}
