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
        #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
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

pub(crate) use counters;
