//! Enums whose variants have names, and counters that have names.

/// Declares an enum whose variants have names, which reports, metrics and configuration files share.
macro_rules! names {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
        pub enum $type {
            $($(#[$doc])* #[cfg_attr(feature = "config", serde(rename = $name))] $variant,)*
        }

        impl $type {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The variant's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

/// Declares counters with the names that they are exported under; their documentation says what they mean there, too.
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
        pub struct $type {
            $($(#[doc = $doc])* pub $counter: u64,)*
            $($(#[$more])* $vis $field: $kind,)*
        }

        impl $type {
            /// Name, meaning and value of every counter without labels.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$(($name, concat!($($doc),*).trim_ascii(), self.$counter),)*].into_iter()
            }

            /// The same counters, to set them.
            pub fn counters_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut u64)> {
                [$(($name, &mut self.$counter),)*].into_iter()
            }
        }
    };
}

pub(crate) use {counters, names};
