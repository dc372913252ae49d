//! Counters that have names.

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

pub(crate) use counters;
