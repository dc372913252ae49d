//! Powers of one base, by a table.

use crypto_bigint::{CtAssign, CtEq};

use super::field::{Field, Form, Modulus};

/// Bits of an exponent that one product takes care of.
const WINDOW_BITS: usize = 4;
const WINDOW_SIZE: usize = 1 << WINDOW_BITS;

/// For each window of four bits of an exponent, the powers of the base that it can stand for: exponentiation is one product a
/// window and no squaring (Brickell, Gordon, McCurley and Wilson, "Fast exponentiation with precomputation", EUROCRYPT
/// 1992). A round raises two bases, the generator and the team's key, 4,000 times each for 1,000 slots.
///
/// Entries are looked up in constant time: all of a window are read.
pub(crate) struct Table<M: Modulus<LIMBS>, const LIMBS: usize> {
    /// By window, from the least significant one.
    windows: Vec<[Form<M, LIMBS>; WINDOW_SIZE]>,
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> Table<M, LIMBS> {
    /// The table of a base, which is public, for exponents of [`Modulus::EXPONENT_BITS`].
    pub(crate) fn new(base: &Form<M, LIMBS>) -> Self {
        let mut step = *base;
        let count = M::EXPONENT_BITS as usize / WINDOW_BITS;
        let windows = (0..count).map(|_| {
            let mut window = [Form::<M, LIMBS>::ONE; WINDOW_SIZE];
            for index in 1..WINDOW_SIZE {
                window[index] = window[index - 1].mul(&step);
            }
            step = window[WINDOW_SIZE - 1].mul(&step);
            window
        });
        Self { windows: windows.collect() }
    }

    /// The base to the power of an exponent (big endian, [`Field::EXPONENT_BYTES`] long), in constant time.
    pub(crate) fn power(&self, exponent: &[u8]) -> Form<M, LIMBS> {
        debug_assert_eq!(exponent.len(), Field::<M, LIMBS>::EXPONENT_BYTES);
        let nibbles = exponent.iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
        let mut product = Form::<M, LIMBS>::ONE;
        for (window, nibble) in self.windows.iter().zip(nibbles) {
            let mut factor = window[0];
            for (index, entry) in window.iter().enumerate().skip(1) {
                factor.ct_assign(entry, nibble.ct_eq(&(index as u8)));
            }
            product = product.mul(&factor);
        }
        product
    }
}
