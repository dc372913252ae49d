//! Step curves in few characters: a page holds some ten thousand arrivals for each run.
//!
//! A panel is a sequence of unsigned LEB128 numbers in base64: for each curve its number, how many arrivals make it
//! complete, how many came, and the arrivals in order, each as the difference from the one before in units of
//! [`QUANTUM_MS`], the first from 0.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::model::StepCurve;

/// The unit of encoded times. A screen shows some thousand of them side by side at most.
pub const QUANTUM_MS: f64 = 0.1;

/// What was decoded is no panel of curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// It is not base64.
    #[error("not base64")]
    Base64,
    /// It ends within a curve.
    #[error("it ends within a curve")]
    Truncated,
    /// A number is larger than 64 bits.
    #[error("a number is too large")]
    Overflow,
}

/// Encodes the curves of a panel.
pub fn encode(curves: &[StepCurve]) -> String {
    let mut bytes = Vec::new();
    for curve in curves {
        let sorted = curve.sorted();
        put(&mut bytes, u64::from(curve.number));
        put(&mut bytes, u64::from(curve.of));
        put(&mut bytes, sorted.len() as u64);
        let mut before = 0;
        for at in sorted {
            let now = (at / QUANTUM_MS).round() as u64;
            put(&mut bytes, now - before);
            before = now;
        }
    }
    STANDARD.encode(bytes)
}

/// Decodes the curves of a panel.
///
/// # Errors
/// It was not made by [`encode`].
pub fn decode(text: &str) -> Result<Vec<StepCurve>, DecodeError> {
    let bytes = STANDARD.decode(text).map_err(|_| DecodeError::Base64)?;
    let mut rest = bytes.as_slice();
    let mut curves = Vec::new();
    while !rest.is_empty() {
        let number = take(&mut rest)?.try_into().map_err(|_| DecodeError::Overflow)?;
        let of = take(&mut rest)?.try_into().map_err(|_| DecodeError::Overflow)?;
        let mut arrivals_ms = Vec::new();
        let mut at: u64 = 0;
        for _ in 0..take(&mut rest)? {
            at = at.checked_add(take(&mut rest)?).ok_or(DecodeError::Overflow)?;
            arrivals_ms.push(at as f64 * QUANTUM_MS);
        }
        curves.push(StepCurve { number, of, arrivals_ms });
    }
    Ok(curves)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut value: u64 = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(DecodeError::Truncated)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return Err(DecodeError::Overflow);
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError::Overflow)
}
