//! Settings: the fields of a configuration that a file can set, over the values of a preset.
//!
//! [`settings!`](crate::settings!) declares a configuration with the keys of its fields. Behind the
//! feature `config`, `Overlay` reads these keys from a file: each replaces the value of the preset.

#[cfg(feature = "config")]
mod overlay;
mod range;

#[cfg(feature = "config")]
pub use overlay::{Form, Given, Overlay, Section, Settings, Written, below, property, read_table, schema_of};
#[cfg(feature = "config")]
pub use range::describe_range;
pub use range::{Bounded, Ranges, above, check_range, outside};

/// Declares a configuration. A field with a key can be set in a file.
///
/// The key follows `=>`, and the form of the value in the file `as` if it is another type. `[key]`
/// is a table with the keys of the field's own settings; the keys of `..` are beside the others.
/// The documentation of a field is that of its key.
///
/// `#[range(...)]` has the allowed values of a field. A file with another value is an error, and the
/// schema shows them. [`check_ranges`](crate::settings::Ranges::check_ranges) checks them in a
/// configuration of any origin. `#[range(..)]` on a field without a key stands for the ranges of its
/// own fields.
///
/// ```
/// use std::time::Duration;
///
/// use samara_engine::units::Span;
///
/// samara_engine::settings! {
///     /// The configuration of a protocol.
///     #[derive(Clone, Debug, Default)]
///     pub struct Config {
///         /// Time to wait.
///         #[range(Duration::from_millis(1)..)]
///         pub wait: Duration => patience as Span,
///         /// Not in files.
///         pub name: String,
///     }
/// }
///
/// use samara_engine::settings::Ranges;
///
/// let error = Config::default().check_ranges().unwrap_err();
/// assert_eq!(error.to_string(), "wait: found 0ns, expected at least 1ms");
/// # #[cfg(feature = "config")]
/// assert_eq!(<Config as samara_engine::settings::Settings>::key_of("wait").as_deref(), Some("patience"));
/// ```
#[macro_export]
macro_rules! settings {
    ($($tokens:tt)*) => {
        $crate::section!(@struct $($tokens)*);
        #[cfg(feature = "config")]
        $crate::section!(@impl $($tokens)*);
    };
}

/// Declares a structure whose fields have ranges, as in [`settings!`](crate::settings!), and no keys.
/// Its attributes for serde stand before the ranges.
#[macro_export]
macro_rules! ranges {
    ($($tokens:tt)*) => {
        $crate::section!(@struct $($tokens)*);
    };
}

/// As [`settings!`](crate::settings!), in crates that always read files. Others need a feature
/// `config` for it.
#[macro_export]
macro_rules! section {
    (@struct
        $(#[doc = $about:expr])*
        $(#[derive($($derive:path),* $(,)?)])?
        $(#[serde($($serde:tt)*)])?
        $vis:vis struct $type:ident {
            $(
                $(#[doc = $doc:expr])*
                $(#[serde($($own:tt)*)])?
                $(#[range($($range:tt)*)])?
                $field_vis:vis $field:ident: $kind:ty $(=> $key:tt $(as $form:ty)?)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        $(#[derive($($derive),*)])?
        $(#[serde($($serde)*)])?
        $vis struct $type {
            $($(#[doc = $doc])* $(#[serde($($own)*)])? $field_vis $field: $kind,)*
        }

        impl $crate::settings::Ranges for $type {
            fn check_ranges(&self) -> Result<(), $crate::config::ConfigError> {
                $($crate::section!(@check self.$field [$($key)?] [$($($range)*)?]);)*
                Ok(())
            }
        }
    };

    (@impl
        $(#[doc = $about:expr])*
        $(#[derive($($derive:path),* $(,)?)])?
        $vis:vis struct $type:ident {
            $(
                $(#[doc = $doc:expr])*
                $(#[range($($range:tt)*)])?
                $field_vis:vis $field:ident: $kind:ty $(=> $key:tt $(as $form:ty)?)?
            ),* $(,)?
        }
    ) => {
        impl $crate::settings::Settings for $type {
            const ABOUT: &'static str = concat!($($about, "\n",)*);

            fn keys() -> &'static [&'static str] {
                static KEYS: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
                KEYS.get_or_init(|| {
                    let mut keys: Vec<&'static str> = Vec::new();
                    $($($crate::section!(@keys keys, $kind, $key);)?)*
                    keys
                })
            }

            fn read<'de, D: serde::Deserializer<'de>>(
                &mut self,
                key: &str,
                value: D,
                given: &mut $crate::settings::Given,
            ) -> Result<(), D::Error> {
                $($crate::section!(
                    @read (self, key, value, given)
                    $field [$($($range)*)?], $kind $(, $key $(, $form)?)?
                );)*
                Err(serde::de::Error::custom(format_args!("unknown key `{key}`")))
            }

            fn write<M: serde::ser::SerializeMap>(
                &self,
                given: &$crate::settings::Given,
                map: &mut M,
            ) -> Result<(), M::Error> {
                $($($crate::section!(@write (self, given, map) $field, $kind, $key $(, $form)?);)?)*
                Ok(())
            }

            fn equals(&self, other: &Self, given: &$crate::settings::Given) -> bool {
                true $($(&& $crate::section!(@equals (self, other, given) $field, $kind, $key))?)*
            }

            fn describe(generator: &mut schemars::SchemaGenerator, properties: &mut schemars::Schema) {
                $(
                    let _doc = concat!($($doc, "\n",)*);
                    $crate::section!(
                        @describe (generator, properties) _doc [$($($range)*)?], $kind $(, $key $(, $form)?)?
                    );
                )*
            }

            fn key_of(field: &str) -> Option<String> {
                $($($crate::section!(@key_of (field) $field, $kind, $key);)?)*
                None
            }
        }
    };

    (@check $self:ident.$field:ident [..] []) => {
        $crate::section!(@check $self.$field [] [..]);
    };
    (@check $self:ident.$field:ident [[$key:ident]] []) => {
        $crate::section!(@check $self.$field [] [..]);
    };
    (@check $self:ident.$field:ident [$($key:ident)?] []) => {};
    (@check $self:ident.$field:ident [$($key:ident)?] [..]) => {
        $crate::settings::Ranges::check_ranges(&$self.$field)
            .map_err(|error| error.below(stringify!($field)))?;
    };
    (@check $self:ident.$field:ident [$($key:ident)?] [$range:expr]) => {
        $crate::settings::check_range(stringify!($field), &$self.$field, &$range)?;
    };

    (@keys $keys:ident, $kind:ty, ..) => {
        $keys.extend_from_slice(<$kind as $crate::settings::Settings>::keys());
    };
    (@keys $keys:ident, $kind:ty, [$key:ident]) => { $keys.push(stringify!($key)); };
    (@keys $keys:ident, $kind:ty, $key:ident) => { $keys.push(stringify!($key)); };

    (@read $context:tt $field:ident [$($range:tt)*], $kind:ty) => {};
    (@read ($self:ident, $name:ident, $value:ident, $given:ident) $field:ident [], $kind:ty, ..) => {
        if <$kind as $crate::settings::Settings>::keys().contains(&$name) {
            return $crate::settings::Settings::read(&mut $self.$field, $name, $value, $given);
        }
    };
    (@read ($self:ident, $name:ident, $value:ident, $given:ident) $field:ident [], $kind:ty, [$key:ident]) => {
        if $name == stringify!($key) {
            return $crate::settings::read_table(&mut $self.$field, $value, $given.add($name));
        }
    };
    (
        @read ($self:ident, $name:ident, $value:ident, $given:ident)
        $field:ident [$($range:tt)*], $kind:ty, $key:ident $(, $form:ty)?
    ) => {
        if $name == stringify!($key) {
            $crate::section!(@set $self.$field, $value, $kind $(, $form)?);
            $crate::section!(@allow $self.$field [$($range)*], $kind $(, $form)?);
            $given.add($name);
            return Ok(());
        }
    };
    (@set $self:ident.$field:ident, $value:ident, $kind:ty) => {
        $self.$field = <$kind as serde::Deserialize>::deserialize($value)?;
    };
    (@set $self:ident.$field:ident, $value:ident, $kind:ty, $form:ty) => {
        let form = <$form as serde::Deserialize>::deserialize($value)?;
        <$form as $crate::settings::Form<$kind>>::put(form, &mut $self.$field);
    };

    (@allow $self:ident.$field:ident [], $kind:ty $(, $form:ty)?) => {};
    (@allow $self:ident.$field:ident [$range:expr], $kind:ty $(, $form:ty)?) => {
        let show = $crate::section!(@show $kind $(, $form)?);
        if let Some((found, expected)) = $crate::settings::outside(&$self.$field, &$range, show) {
            return Err(serde::de::Error::custom(format_args!("found {found}; expected {expected}")));
        }
    };
    (@show $kind:ty) => { <$kind as $crate::settings::Bounded>::Value::clone };
    (@show $kind:ty, $form:ty) => {
        <$form as $crate::settings::Form<<$kind as $crate::settings::Bounded>::Value>>::of
    };

    (@write ($self:ident, $given:ident, $map:ident) $field:ident, $kind:ty, ..) => {
        $crate::settings::Settings::write(&$self.$field, $given, $map)?;
    };
    (@write ($self:ident, $given:ident, $map:ident) $field:ident, $kind:ty, [$key:ident]) => {
        if let Some(below) = $given.get(stringify!($key)) {
            let table = $crate::settings::Written::new(&$self.$field, below);
            $map.serialize_entry(stringify!($key), &table)?;
        }
    };
    (@write ($self:ident, $given:ident, $map:ident) $field:ident, $kind:ty, $key:ident) => {
        if $given.has(stringify!($key)) {
            $map.serialize_entry(stringify!($key), &$self.$field)?;
        }
    };
    (@write ($self:ident, $given:ident, $map:ident) $field:ident, $kind:ty, $key:ident, $form:ty) => {
        if $given.has(stringify!($key)) && <$form as $crate::settings::Form<$kind>>::states(&$self.$field) {
            let form = <$form as $crate::settings::Form<$kind>>::of(&$self.$field);
            $map.serialize_entry(stringify!($key), &form)?;
        }
    };

    (@equals ($self:ident, $other:ident, $given:ident) $field:ident, $kind:ty, ..) => {
        $crate::settings::Settings::equals(&$self.$field, &$other.$field, $given)
    };
    (@equals ($self:ident, $other:ident, $given:ident) $field:ident, $kind:ty, [$key:ident]) => {
        $given.get(stringify!($key)).is_none_or(|below| {
            $crate::settings::Settings::equals(&$self.$field, &$other.$field, below)
        })
    };
    (@equals ($self:ident, $other:ident, $given:ident) $field:ident, $kind:ty, $key:ident) => {
        (!$given.has(stringify!($key)) || $self.$field == $other.$field)
    };

    (@describe $context:tt $doc:ident [$($range:tt)*], $kind:ty) => {};
    (@describe ($generator:ident, $properties:ident) $doc:ident [], $kind:ty, ..) => {
        <$kind as $crate::settings::Settings>::describe($generator, $properties);
    };
    (@describe ($generator:ident, $properties:ident) $doc:ident [], $kind:ty, [$key:ident]) => {
        let schema = $crate::settings::schema_of::<$kind>($generator);
        $crate::settings::property($properties, stringify!($key), $doc, schema);
    };
    (
        @describe ($generator:ident, $properties:ident)
        $doc:ident [$($range:tt)*], $kind:ty, $key:ident $(, $form:ty)?
    ) => {
        let schema = $crate::section!(@schema $generator, $kind $(, $form)?);
        $crate::section!(@bound schema, $doc [$($range)*], $kind $(, $form)?);
        $crate::settings::property($properties, stringify!($key), &$doc, schema);
    };
    (@schema $generator:ident, $kind:ty) => { $generator.subschema_for::<$kind>() };
    (@schema $generator:ident, $kind:ty, $form:ty) => { $generator.subschema_for::<$form>() };
    (@bound $schema:ident, $doc:ident [], $kind:ty $(, $form:ty)?) => {};
    (@bound $schema:ident, $doc:ident [$range:expr], $kind:ty $(, $form:ty)?) => {
        let show = $crate::section!(@show $kind $(, $form)?);
        let ($schema, $doc) = $crate::settings::describe_range($schema, $doc, &$range, show);
    };

    (@key_of ($name:ident) $field:ident, $kind:ty, ..) => {
        if let Some(rest) = $crate::settings::below($name, stringify!($field)) {
            return <$kind as $crate::settings::Settings>::key_of(rest);
        }
    };
    (@key_of ($name:ident) $field:ident, $kind:ty, [$key:ident]) => {
        if let Some(rest) = $crate::settings::below($name, stringify!($field)) {
            let key = <$kind as $crate::settings::Settings>::key_of(rest)?;
            return Some(format!("{}.{key}", stringify!($key)));
        }
    };
    (@key_of ($name:ident) $field:ident, $kind:ty, $key:ident) => {
        if $name == stringify!($field) {
            return Some(stringify!($key).to_owned());
        }
    };

    ($($tokens:tt)*) => {
        $crate::section!(@struct $($tokens)*);
        $crate::section!(@impl $($tokens)*);
    };
}
