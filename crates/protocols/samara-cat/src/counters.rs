//! Named counters.

/// Declares counters with their exported names. The documentation of each is also its exported
/// meaning.
macro_rules! counters {
    (
        $(#[$about:meta])* $type:ident {
            $($(#[doc = $doc:literal])* $counter:ident = $name:literal,)*
        } and {
            $($(#[$more:meta])* $vis:vis $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        ///
        /// With serde, counters of zero may be missing: other implementations do not count everything.
        #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "config", serde(default, deny_unknown_fields))]
        pub struct $type {
            $($(#[doc = $doc])* pub $counter: u64,)*
            $($(#[$more])* $vis $field: $kind,)*
        }

        impl $type {
            /// Returns name, meaning and value of every counter without labels.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$(($name, concat!($($doc),*).trim_ascii(), self.$counter),)*].into_iter()
            }

            /// Returns the same counters for writing.
            pub fn counters_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut u64)> {
                [$(($name, &mut self.$counter),)*].into_iter()
            }

            /// Adds the counters of another node.
            pub fn add(&mut self, other: &Self) {
                self.each_with(other, |sum, more| *sum += more);
            }

            /// Subtracts counters that an earlier call added, or that nodes had earlier.
            pub fn remove(&mut self, earlier: &Self) {
                self.each_with(earlier, |sum, less| *sum -= less);
            }
        }
    };
}

/// Declares a module for `serde(with = ...)` of arrays with an entry for each name of an enumeration:
/// they are maps from the names of the entries that are not zero.
macro_rules! by_name {
    ($module:ident: $names:ty) => {
        #[cfg(feature = "config")]
        mod $module {
            use std::collections::BTreeMap;

            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::*;

            const COUNT: usize = <$names>::ALL.len();

            pub(super) fn serialize<T: Serialize + Default + PartialEq, S: Serializer>(
                entries: &[T; COUNT],
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let named = <$names>::ALL.iter().map(|name| name.name()).zip(entries);
                serializer.collect_map(named.filter(|(_, entry)| **entry != T::default()).collect::<Vec<_>>())
            }

            pub(super) fn deserialize<'de, T: Deserialize<'de> + Copy + Default, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<[T; COUNT], D::Error> {
                let mut entries = [T::default(); COUNT];
                for (name, entry) in BTreeMap::<String, T>::deserialize(deserializer)? {
                    let known = <$names>::from_name(&name);
                    let known =
                        known.ok_or_else(|| D::Error::custom(format_args!("unknown name {name:?}")))?;
                    entries[known as usize] = entry;
                }
                Ok(entries)
            }
        }
    };
}

pub(crate) use {by_name, counters};
