//! The allowed values of fields.

use std::fmt::Display;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds;
use std::time::Duration;

use crate::config::ConfigError;

/// Returns the range of all values above `least`.
pub const fn above<T: Copy>(least: T) -> (Bound<T>, Bound<T>) {
    (Excluded(least), Unbounded)
}

/// A structure whose fields have ranges. [`settings!`](crate::settings!) and
/// [`ranges!`](crate::ranges!) implement it.
pub trait Ranges {
    /// Checks each field that has a range.
    ///
    /// # Errors
    /// Returns the first field outside of its range.
    fn check_ranges(&self) -> Result<(), ConfigError>;
}

impl<T: Ranges> Ranges for Option<T> {
    fn check_ranges(&self) -> Result<(), ConfigError> {
        self.as_ref().map_or(Ok(()), T::check_ranges)
    }
}

/// A type of fields that can have a range.
pub trait Bounded {
    /// The type of the bounds.
    type Value: PartialOrd + Clone;
    /// Whether a field can be absent.
    const IS_OPTIONAL: bool = false;

    /// Returns the value, if there is one.
    fn value(&self) -> Option<&Self::Value>;
    /// Returns the text of a value.
    fn text(value: &Self::Value) -> String;
}

macro_rules! bounded {
    ($($type:ty, $form:literal;)*) => {
        $(impl Bounded for $type {
            type Value = Self;

            fn value(&self) -> Option<&Self> {
                Some(self)
            }

            fn text(value: &Self) -> String {
                format!($form, value)
            }
        })*
    };
}

bounded! {
    u32, "{}";
    u64, "{}";
    usize, "{}";
    f64, "{}";
    Duration, "{:?}";
}
#[cfg(feature = "config")]
bounded! {
    crate::units::Size, "{}";
    crate::units::Span, "{}";
}

impl<T: Bounded> Bounded for Option<T> {
    type Value = T::Value;
    const IS_OPTIONAL: bool = true;

    fn value(&self) -> Option<&T::Value> {
        self.as_ref()?.value()
    }

    fn text(value: &T::Value) -> String {
        T::text(value)
    }
}

/// Returns the value of a field outside of a range, and the range in words.
pub fn outside<T: Bounded, F: Display>(
    field: &T,
    range: &impl RangeBounds<T::Value>,
    show: impl Fn(&T::Value) -> F,
) -> Option<(F, String)> {
    let value = field.value().filter(|value| !range.contains(value))?;
    Some((show(value), in_words(range, show)))
}

/// Checks a field.
///
/// # Errors
/// Returns an error if its value is outside of the range.
pub fn check_range<T: Bounded>(
    field: &'static str,
    found: &T,
    range: &impl RangeBounds<T::Value>,
) -> Result<(), ConfigError> {
    outside(found, range, T::text).map_or(Ok(()), |(found, expected)| {
        let expected = if T::IS_OPTIONAL { format!("none, or {expected}") } else { expected };
        Err(ConfigError { field: field.into(), found, expected: expected.into() })
    })
}

/// Returns a range in words.
fn in_words<T, F: Display>(range: &impl RangeBounds<T>, show: impl Fn(&T) -> F) -> String {
    let (least, most) = (range.start_bound(), range.end_bound());
    if let (Included(least), Included(most)) = (least, most) {
        return format!("{} to {}", show(least), show(most));
    }
    let word = |bound, included, excluded| match bound {
        Included(bound) => Some(format!("{included} {}", show(bound))),
        Excluded(bound) => Some(format!("{excluded} {}", show(bound))),
        Unbounded => None,
    };
    let words = [word(least, "at least", "more than"), word(most, "at most", "less than")];
    words.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Adds the range of a key to its schema and to its documentation. Quantities with units are texts in a
/// file, which have a range in the documentation only.
#[cfg(feature = "config")]
pub fn describe_range<T, F: Display + serde::Serialize>(
    mut schema: schemars::Schema,
    doc: &str,
    range: &impl RangeBounds<T>,
    show: impl Fn(&T) -> F,
) -> (schemars::Schema, String) {
    for (keyword, bound) in [("minimum", range.start_bound()), ("maximum", range.end_bound())] {
        if let Included(bound) = bound {
            let bound = schemars::json_schema!({ "bound": show(bound) });
            let number = bound.get("bound").filter(|bound| bound.is_number());
            number.map(|number| schema.insert(keyword.to_owned(), number.clone()));
        }
    }
    (schema, format!("{}\n\nAllowed: {}.", doc.trim_end(), in_words(range, show)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_words_for_each_kind_of_bound() {
        fn words(range: &impl RangeBounds<u32>) -> String {
            in_words(range, |bound| *bound)
        }
        assert_eq!(words(&(1..)), "at least 1");
        assert_eq!(words(&(1..=9)), "1 to 9");
        assert_eq!(words(&(1..9)), "at least 1 and less than 9");
        assert_eq!(words(&(..=9)), "at most 9");
        assert_eq!(words(&above(0)), "more than 0");
    }

    #[test]
    fn absent_values_are_inside_of_every_range() {
        assert_eq!(check_range("wait", &None::<Duration>, &above(Duration::ZERO)), Ok(()));
        let error = check_range("wait", &Some(Duration::ZERO), &above(Duration::ZERO)).unwrap_err();
        assert_eq!(error.to_string(), "wait: found 0ns, expected none, or more than 0ns");
        assert_eq!(error.below("requests").field, "requests.wait");
    }
}
