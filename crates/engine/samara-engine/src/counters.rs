//! Counters: declared once, with name, unit and meaning. Metrics of nodes, JSON, documentation and
//! results derive from the declaration.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::time::Duration;

use crate::outbox::Tally;

/// Declares a struct of counters. The name of a field is the exported name of its counter and ends
/// with the unit, if there is one (`_bytes`, `_seconds`, `_ns`); its documentation is the exported
/// meaning. The type of a field decides what it is: see [`Value`].
///
/// A field with a label has a value for each name of an enum ([`names!`](macro@crate::names)), which a
/// method of the field's name returns.
///
/// ```
/// use samara_engine::{Counted, counters, names};
///
/// names! {
///     pub enum Ignored { TooLong = "too_long", Unknown = "unknown", }
/// }
/// counters! {
///     /// Counters of one node since its start.
///     pub struct Metrics {
///         /// Frames received from peers.
///         pub pings_received: u64,
///         /// Frames without effect.
///         pub ignored[cause: Ignored]: u64,
///     }
/// }
/// let mut metrics = Metrics::default();
/// metrics.pings_received += 1;
/// metrics.ignored[Ignored::TooLong] += 1;
/// assert_eq!((metrics.ignored(Ignored::TooLong), metrics.ignored(Ignored::Unknown)), (1, 0));
/// let names = Metrics::declared().into_iter().map(|counter| counter.name);
/// assert_eq!(names.collect::<Vec<_>>(), ["pings_received", "ignored"]);
/// ```
#[macro_export]
macro_rules! counters {
    (@type $ty:ty) => { $ty };
    (@type $ty:ty; $names:ty) => { $crate::By<$names, $ty> };
    (
        $(#[$about:meta])*
        $vis:vis struct $type:ident {
            $(
                $(#[doc = $help:literal])+
                $field_vis:vis $field:ident $([$label:ident $(: $names:ty)?])?: $ty:ty,
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $type {
            $(
                $(#[doc = $help])+
                $field_vis $field: $crate::counters!(@type $ty $($(; $names)?)?),
            )*
        }

        impl $type {
            $($($(
                #[doc = concat!("Returns the value of [`", stringify!($type), "::", stringify!($field), "`] with this label.")]
                #[allow(dead_code, reason = "some counters are only exported")]
                $field_vis fn $field(&self, $label: $names) -> $ty {
                    self.$field[$label]
                }
            )?)?)*
        }

        impl $crate::Counted for $type {
            fn declared() -> Vec<$crate::Counter> {
                let mut all = Vec::new();
                $($crate::Counter::declare::<$crate::counters!(@type $ty $($(; $names)?)?)>(
                    stringify!($field),
                    None$(.or(Some(stringify!($label))))?,
                    concat!($($help),+),
                    &mut all,
                );)*
                all
            }

            fn rows(&self) -> Vec<$crate::Rows> {
                let mut all = Vec::new();
                $($crate::Value::rows(&self.$field, &mut all);)*
                all
            }

            fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64)) {
                $($crate::Value::change_by(&mut self.$field, &other.$field, change);)*
            }
        }
    };
}

/// A type that [`counters!`](macro@crate::counters) declares.
pub trait Counted {
    /// Returns all declarations, in their order.
    fn declared() -> Vec<Counter>
    where
        Self: Sized;

    /// Returns the values of each declared counter, in the same order.
    fn rows(&self) -> Vec<Rows>;

    /// Changes each counter by that of another node, or of an earlier moment. Gauges stay.
    fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64))
    where
        Self: Sized;

    /// Adds the counters of another node.
    fn add(&mut self, other: &Self)
    where
        Self: Sized,
    {
        self.change_by(other, |sum, more| *sum += more);
    }

    /// Subtracts counters that an earlier call added, or that nodes had earlier.
    fn remove(&mut self, earlier: &Self)
    where
        Self: Sized,
    {
        self.change_by(earlier, |sum, less| *sum -= less);
    }
}

/// The values of a counter. With a label, each has the label's value.
pub type Rows = Vec<(Option<Cow<'static, str>>, Number)>;

/// A number that is exported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Count(u64),
    /// Any other number, such as seconds.
    Real(f64),
}

/// The kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts from the start of the node on.
    Counter,
    /// The value of a moment.
    Gauge,
}

/// The declaration of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The exported name.
    pub name: String,
    /// The name of its label, if it has one.
    pub label: Option<&'static str>,
    /// The meaning, without a full stop.
    pub help: Cow<'static, str>,
    /// Whether it counts or holds the value of a moment.
    pub kind: Kind,
}

impl Counter {
    /// Adds the declarations of a field of type `V`.
    #[doc(hidden)]
    pub fn declare<V: Value>(
        name: &str,
        label: Option<&'static str>,
        help: &'static str,
        all: &mut Vec<Self>,
    ) {
        let help = help.trim_ascii();
        let help = help.strip_suffix('.').unwrap_or(help);
        all.extend(V::SUFFIXES.iter().map(|suffix| {
            let help = match help.split_at_checked(1).filter(|_| *suffix == "_bytes") {
                Some((first, rest)) => Cow::Owned(format!("Bytes of {}{rest}", first.to_lowercase())),
                None => Cow::Borrowed(help),
            };
            Self { name: format!("{name}{suffix}"), label, help, kind: V::KIND }
        }));
    }

    /// Splits the name into its stem and its unit, if it ends with one.
    pub fn unit(&self) -> (&str, Option<&'static str>) {
        let units = ["bytes", "seconds", "ns"];
        let split = units.into_iter().find_map(|unit| {
            let stem = self.name.strip_suffix(unit)?.strip_suffix('_')?;
            Some((stem, Some(unit)))
        });
        split.unwrap_or((&self.name, None))
    }
}

/// The type of a counter or gauge.
///
/// | type | meaning |
/// |---|---|
/// | `u64` | a counter |
/// | [`Tally`] | two counters: copies, and their bytes under a name that ends in `_bytes` |
/// | [`Duration`] | a counter in seconds |
/// | `usize`, `f64`, [`Gauge`] | the value of a moment |
/// | `Option` | one that may be unknown; an unknown value is not exported |
/// | [`By`], `BTreeMap` | one for each value of a label |
pub trait Value {
    /// Whether it counts or holds the value of a moment.
    const KIND: Kind;
    /// The endings of the exported names: one for each part of the value.
    const SUFFIXES: &'static [&'static str] = &[""];

    /// Returns the parts of the value. The parts of an unknown value are empty.
    fn parts(&self) -> Vec<Number>;

    /// Adds the rows of each part.
    fn rows(&self, all: &mut Vec<Rows>) {
        let mut parts = self.parts().into_iter();
        all.extend(
            Self::SUFFIXES.iter().map(|_| parts.next().map(|number| (None, number)).into_iter().collect()),
        );
    }

    /// Changes a counter by another value of it. Gauges stay.
    fn change_by(&mut self, _other: &Self, _change: fn(&mut u64, u64)) {}
}

impl Value for u64 {
    const KIND: Kind = Kind::Counter;

    fn parts(&self) -> Vec<Number> {
        vec![Number::Count(*self)]
    }

    fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64)) {
        change(self, *other);
    }
}

impl Value for Tally {
    const KIND: Kind = Kind::Counter;
    const SUFFIXES: &'static [&'static str] = &["", "_bytes"];

    fn parts(&self) -> Vec<Number> {
        vec![Number::Count(self.copies), Number::Count(self.bytes)]
    }

    fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64)) {
        change(&mut self.copies, other.copies);
        change(&mut self.bytes, other.bytes);
    }
}

impl Value for Duration {
    const KIND: Kind = Kind::Counter;

    fn parts(&self) -> Vec<Number> {
        vec![Number::Real(self.as_secs_f64())]
    }

    fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64)) {
        let mut nanos = self.as_nanos() as u64;
        change(&mut nanos, other.as_nanos() as u64);
        *self = Self::from_nanos(nanos);
    }
}

impl Value for usize {
    const KIND: Kind = Kind::Gauge;

    fn parts(&self) -> Vec<Number> {
        vec![Number::Count(*self as u64)]
    }
}

impl Value for f64 {
    const KIND: Kind = Kind::Gauge;

    fn parts(&self) -> Vec<Number> {
        vec![Number::Real(*self)]
    }
}

impl<V: Value> Value for Option<V> {
    const KIND: Kind = V::KIND;
    const SUFFIXES: &'static [&'static str] = V::SUFFIXES;

    fn parts(&self) -> Vec<Number> {
        self.as_ref().map(Value::parts).unwrap_or_default()
    }
}

/// The value of a moment, of a type that otherwise counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "config", serde(transparent))]
pub struct Gauge<T = u64>(pub T);

impl<V: Value> Value for Gauge<V> {
    const KIND: Kind = Kind::Gauge;
    const SUFFIXES: &'static [&'static str] = V::SUFFIXES;

    fn parts(&self) -> Vec<Number> {
        self.0.parts()
    }
}

impl<T> Deref for Gauge<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Gauge<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Adds the rows of values with labels.
fn labelled<V: Value>(values: impl Iterator<Item = (Cow<'static, str>, V)>, all: &mut Vec<Rows>) {
    let begin = all.len();
    all.extend(V::SUFFIXES.iter().map(|_| Rows::new()));
    for (label, value) in values {
        for (rows, number) in all[begin..].iter_mut().zip(value.parts()) {
            rows.push((Some(label.clone()), number));
        }
    }
}

impl<K: Clone + Into<Cow<'static, str>>, V: Value + Clone> Value for BTreeMap<K, V> {
    const KIND: Kind = V::KIND;
    const SUFFIXES: &'static [&'static str] = V::SUFFIXES;

    fn parts(&self) -> Vec<Number> {
        Vec::new()
    }

    fn rows(&self, all: &mut Vec<Rows>) {
        labelled(self.iter().map(|(label, value)| (label.clone().into(), value.clone())), all);
    }
}

/// An enum that [`names!`](macro@crate::names) declares.
pub trait Named: Copy + 'static {
    /// An array with an element for each variant.
    type Array<T: Copy>: AsRef<[T]> + AsMut<[T]> + Copy;

    /// All variants, in the order of the declaration.
    const ALL: &'static [Self];

    /// Returns the name of the variant in reports, metrics and options.
    fn name(self) -> &'static str;

    /// Returns the variant's place in the declaration.
    fn place(self) -> usize;

    /// Returns an array of equal elements.
    fn array<T: Copy>(element: T) -> Self::Array<T>;
}

/// A value for each name of an enum.
#[derive(Clone, Copy)]
pub struct By<E: Named, T: Copy = u64>(E::Array<T>);

impl<E: Named, T: Copy> By<E, T> {
    /// Returns all names with their values.
    pub fn iter(&self) -> impl Iterator<Item = (E, T)> + '_ {
        E::ALL.iter().copied().zip(self.0.as_ref().iter().copied())
    }
}

impl<E: Named> By<E> {
    /// Returns the sum of the values.
    pub fn total(&self) -> u64 {
        self.0.as_ref().iter().sum()
    }

    /// Adds the counts of others.
    pub fn add(&mut self, others: &Self) {
        self.change_by(others, |sum, more| *sum += more);
    }
}

impl<E: Named, T: Copy + Default> Default for By<E, T> {
    fn default() -> Self {
        Self(E::array(T::default()))
    }
}

impl<E: Named, T: Copy + PartialEq> PartialEq for By<E, T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

impl<E: Named, T: Copy + Eq> Eq for By<E, T> {}

impl<E: Named, T: Copy + Default + PartialEq + fmt::Debug> fmt::Debug for By<E, T> {
    /// Prints the values that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.iter().filter(|(_, value)| *value != T::default());
        f.debug_map().entries(set.map(|(name, value)| (name.name(), value))).finish()
    }
}

impl<E: Named, T: Copy> Index<E> for By<E, T> {
    type Output = T;

    fn index(&self, name: E) -> &T {
        &self.0.as_ref()[name.place()]
    }
}

impl<E: Named, T: Copy> IndexMut<E> for By<E, T> {
    fn index_mut(&mut self, name: E) -> &mut T {
        &mut self.0.as_mut()[name.place()]
    }
}

impl<E: Named, T: Copy + Value> Value for By<E, T> {
    const KIND: Kind = T::KIND;
    const SUFFIXES: &'static [&'static str] = T::SUFFIXES;

    fn parts(&self) -> Vec<Number> {
        Vec::new()
    }

    fn rows(&self, all: &mut Vec<Rows>) {
        labelled(self.iter().map(|(name, value)| (Cow::Borrowed(name.name()), value)), all);
    }

    fn change_by(&mut self, other: &Self, change: fn(&mut u64, u64)) {
        for (own, other) in self.0.as_mut().iter_mut().zip(other.0.as_ref()) {
            own.change_by(other, change);
        }
    }
}

/// A map from the names of the entries that are not zero.
#[cfg(feature = "config")]
impl<E: Named, T: Copy + Default + PartialEq + serde::Serialize> serde::Serialize for By<E, T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let set = self.iter().filter(|(_, value)| *value != T::default());
        serializer.collect_map(set.map(|(name, value)| (name.name(), value)).collect::<Vec<_>>())
    }
}

#[cfg(feature = "config")]
impl<'de, E: Named, T: Copy + Default + serde::Deserialize<'de>> serde::Deserialize<'de> for By<E, T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut values = Self::default();
        for (name, value) in BTreeMap::<String, T>::deserialize(deserializer)? {
            let named = E::ALL.iter().find(|known| known.name() == name);
            let named =
                named.ok_or_else(|| serde::de::Error::custom(format_args!("unknown name {name:?}")))?;
            values[*named] = value;
        }
        Ok(values)
    }
}
