//! Encoding and decoding of fields: each type defines both in one place.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::protobuf::{WireError, WireErrorKind, varint_len};
use samara_engine::{PeerIdentity, Shape};

use super::FRAME_UNITS_MAX;
use crate::{Member, ViewId};

/// Limits of a frame. The decoder rejects larger frames before it allocates memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub members: usize,
    /// Maximum bytes of the name of a node.
    pub identity_bytes: usize,
    pub units: usize,
    /// Maximum bytes of a unit, or of an early message.
    pub unit_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { members: 1_024, identity_bytes: 128, units: FRAME_UNITS_MAX, unit_bytes: 4 << 20 }
    }
}

/// A destination of encoded fields. Implementations need only [`slice`](Self::slice).
pub trait Sink {
    fn slice(&mut self, bytes: &[u8]);

    /// Appends the content of a message. An implementation can keep it instead of copying it.
    fn content(&mut self, bytes: &Bytes) {
        self.slice(bytes);
    }

    fn byte(&mut self, byte: u8) {
        self.slice(&[byte]);
    }

    /// Appends 8 bytes in little-endian order.
    fn fixed(&mut self, value: u64) {
        self.slice(&value.to_le_bytes());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Appends bytes, preceded by their length.
    fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.slice(bytes);
    }
}

impl Sink for Vec<u8> {
    fn slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts encoded bytes without writing them.
pub(super) struct Count(pub(super) usize);

impl Sink for Count {
    fn slice(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn varint(&mut self, value: u64) {
        self.0 += varint_len(value);
    }
}

/// A cursor over the fields of a frame.
pub(crate) struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
    limits: &'a Limits,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(frame: &'a Bytes, limits: &'a Limits) -> Self {
        Self { frame, at: 0, limits }
    }

    pub(crate) fn get<T: Field>(&mut self, path: &'static str) -> Result<T, WireError> {
        T::get(self, path)
    }

    pub(crate) fn error(&self, path: &'static str, kind: WireErrorKind) -> WireError {
        WireError { path, offset: self.at, kind }
    }

    pub(crate) fn unknown(&self, path: &'static str, found: u64) -> WireError {
        self.error(path, WireErrorKind::Unknown { found })
    }

    fn left(&self) -> usize {
        self.frame.len() - self.at
    }

    pub(crate) fn finish(&self) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            found => Err(self.error("frame", WireErrorKind::Trailing { found })),
        }
    }

    fn take(&mut self, len: u64, path: &'static str) -> Result<&'a [u8], WireError> {
        let available = self.left();
        if len > available as u64 {
            return Err(self.error(path, WireErrorKind::Truncated { needed: len, available }));
        }
        let start = self.at;
        self.at += len as usize;
        Ok(&self.frame[start..self.at])
    }

    pub(crate) fn byte(&mut self, path: &'static str) -> Result<u8, WireError> {
        self.take(1, path).map(|bytes| bytes[0])
    }

    pub(super) fn fixed(&mut self, path: &'static str) -> Result<u64, WireError> {
        let bytes = self.take(8, path)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn varint(&mut self, path: &'static str) -> Result<u64, WireError> {
        let start = self.at;
        let mut value = 0u64;
        for index in 0..10 {
            let byte = self.byte(path)?;
            // The tenth byte holds only the 64th bit.
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError { path, offset: start, kind: WireErrorKind::VarintTooLong })
    }

    /// Reads a varint that is at most `max`.
    fn at_most(&mut self, max: u64, path: &'static str) -> Result<u64, WireError> {
        let found = self.varint(path)?;
        if found > max { Err(self.error(path, WireErrorKind::Exceeds { found, max })) } else { Ok(found) }
    }

    fn bytes(&mut self, max: usize, path: &'static str) -> Result<Bytes, WireError> {
        let len = self.at_most(max as u64, path)?;
        let start = self.at;
        self.take(len, path)?;
        Ok(self.frame.slice(start..self.at))
    }

    /// Reads the name of a node. An empty name means `None`.
    pub(super) fn name(&mut self, path: &'static str) -> Result<Option<PeerIdentity>, WireError> {
        let name = self.get::<PeerIdentity>(path)?;
        Ok(Some(name).filter(|name| !name.as_bytes().is_empty()))
    }

    /// Returns all remaining bytes without copying.
    pub(crate) fn rest(&mut self) -> Bytes {
        let start = std::mem::replace(&mut self.at, self.frame.len());
        self.frame.slice(start..)
    }
}

pub(crate) trait Field: Sized {
    /// Minimum bytes of a value. A list that cannot fit into the frame allocates no memory.
    const LEAST: usize = 1;

    /// Maximum number of values in a list.
    fn most(limits: &Limits) -> usize {
        limits.members
    }

    fn put(&self, sink: &mut impl Sink);

    /// Reads the field, which errors call `path`.
    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError>;
}

impl Field for u64 {
    fn put(&self, sink: &mut impl Sink) {
        sink.varint(*self);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        r.varint(path)
    }
}

/// The rank of a member, or a number of links.
impl Field for u16 {
    fn put(&self, sink: &mut impl Sink) {
        sink.varint(u64::from(*self));
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        r.at_most(Self::MAX.into(), path).map(|value| value as Self)
    }
}

impl Field for bool {
    fn put(&self, sink: &mut impl Sink) {
        sink.byte(u8::from(*self));
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        match r.byte(path)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(r.unknown(path, other.into())),
        }
    }
}

impl Field for Shape {
    fn put(&self, sink: &mut impl Sink) {
        sink.byte(self.number());
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        let number = r.byte(path)?;
        Self::from_number(number).ok_or_else(|| r.unknown(path, number.into()))
    }
}

impl Field for Bytes {
    fn put(&self, sink: &mut impl Sink) {
        sink.varint(self.len() as u64);
        sink.content(self);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        r.bytes(r.limits.unit_bytes, path)
    }
}

impl Field for PeerIdentity {
    fn put(&self, sink: &mut impl Sink) {
        sink.bytes(self.as_bytes());
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        Ok(Self::new(&r.bytes(r.limits.identity_bytes, path)?))
    }
}

impl Field for ViewId {
    const LEAST: usize = 9;

    fn put(&self, sink: &mut impl Sink) {
        sink.varint(self.counter);
        sink.fixed(self.proposer);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        Ok(Self { counter: r.varint(path)?, proposer: r.fixed(path)? })
    }
}

impl Field for Member {
    const LEAST: usize = 9;

    fn put(&self, sink: &mut impl Sink) {
        self.identity.put(sink);
        sink.fixed(self.incarnation);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        Ok(Self { identity: r.get(path)?, incarnation: r.fixed(path)? })
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const LEAST: usize = A::LEAST + B::LEAST;

    fn put(&self, sink: &mut impl Sink) {
        self.0.put(sink);
        self.1.put(sink);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        Ok((r.get(path)?, r.get(path)?))
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, sink: &mut impl Sink) {
        self.is_some().put(sink);
        if let Some(value) = self {
            value.put(sink);
        }
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        if r.get(path)? { r.get(path).map(Some) } else { Ok(None) }
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, sink: &mut impl Sink) {
        sink.varint(self.len() as u64);
        self.iter().for_each(|value| value.put(sink));
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        let count = r.at_most(T::most(r.limits) as u64, path)?;
        let (needed, available) = (count * T::LEAST as u64, r.left());
        if needed > available as u64 {
            return Err(r.error(path, WireErrorKind::Truncated { needed, available }));
        }
        (0..count).map(|_| r.get(path)).collect()
    }
}

impl<T: Field> Field for Arc<T> {
    fn put(&self, sink: &mut impl Sink) {
        (**self).put(sink);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        r.get(path).map(Self::new)
    }
}

/// Defines the layout of a struct: its name in errors, its minimum bytes, and its fields in order.
/// Each field has the coding of its type, except that `as fixed` means 8 bytes, and `as name` a
/// name that is empty for `None`.
macro_rules! layout {
    ($type:ident, $name:literal, $least:literal: $($field:ident $(as $coding:ident)?),+) => {
        impl Field for $type {
            const LEAST: usize = $least;

            fn put(&self, sink: &mut impl Sink) {
                $(layout!(@put sink, self.$field $(, $coding)?);)+
            }

            fn get(r: &mut Reader<'_>, _: &'static str) -> Result<Self, WireError> {
                Ok(Self { $($field: layout!(@get r, concat!($name, ".", stringify!($field)) $(, $coding)?)),+ })
            }
        }
    };
    (@put $sink:ident, $value:expr) => { $value.put($sink) };
    (@put $sink:ident, $value:expr, fixed) => { $sink.fixed($value) };
    (@put $sink:ident, $value:expr, name) => {
        $sink.bytes($value.as_ref().map_or(&[], PeerIdentity::as_bytes))
    };
    (@get $reader:ident, $path:expr) => { $reader.get($path)? };
    (@get $reader:ident, $path:expr, $coding:ident) => { $reader.$coding($path)? };
}

pub(crate) use layout;
