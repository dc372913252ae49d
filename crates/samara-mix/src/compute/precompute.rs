//! Precomputation: what the team multiplies payloads by is brought together under encryption, before there are any.
//!
//! A slot has, for each of its two payloads, *keys*, `g^y k` with the product `k` of factors so far, and a *ciphertext*, `Z^y`
//! with the team's key `Z = g^(z1 z2 ...)`: ElGamal, with the key split over the nodes. In the end each node takes its `z` off the
//! ciphertext, `g^y` is left, and the last node has the inverse of `k`.

use crypto_bigint::Uint;
use zeroize::Zeroizing;

use super::cmix::{CMix, Pass};
use super::vault::{BadElement, Input, Output, Slots};
use crate::group::field::{Field, Form, Modulus};
use crate::round::Phase;

impl<M: Modulus<LIMBS>, const LIMBS: usize> CMix<M, LIMBS> {
    /// Multiplies this node's factors into slots; in the second pass, into permuted ones.
    pub(super) fn precompute(&self, slots: &Slots) -> Result<Output, BadElement> {
        let pass = if slots.phase == Phase::PrecomputeDecrypt { Pass::Decrypt } else { Pass::Permute };
        // The last node keeps the keys: only ciphertexts go on to be revealed.
        let keeps_keys = pass == Pass::Permute && self.seat.is_last();
        let size = self.group.element_bytes();
        let mut out = Output::default();
        let mut kept = Vec::new();
        for index in 0..slots.count {
            let slot = slots.first + index;
            let incoming: Option<&[u8]> = match &slots.input {
                Input::Ones => None,
                Input::Some { elements, .. } => Some(slots.slot(self.group, elements, index as usize)),
                Input::All { elements } => {
                    Some(slots.slot(self.group, elements, self.permutation[slot as usize] as usize))
                }
            };
            let (factors, exponents) = (self.factors(pass, slot), self.exponents(pass, slot));
            for (half, (factor, exponent)) in factors.iter().zip(exponents).enumerate() {
                let read = |place: usize| match incoming {
                    None => Ok(Uint::ONE),
                    Some(bytes) => {
                        let at = (2 * half + place) * size;
                        Field::<M, LIMBS>::read(&bytes[at..at + size]).ok_or(BadElement)
                    }
                };
                let (keys, cipher) = (read(0)?, read(1)?);
                let public = self.key.get().ok_or(BadElement)?;
                let hidden = M::generator().power(&exponent).mul(factor);
                let sink = if keeps_keys { &mut kept } else { &mut out.elements };
                Field::<M, LIMBS>::write(&Field::times(&keys, &hidden), sink);
                let cipher = Field::times(&cipher, &public.power(&exponent));
                Field::<M, LIMBS>::write(&cipher, &mut out.elements);
            }
        }
        if keeps_keys {
            self.keep(slots.first, &kept);
        }
        Ok(out)
    }

    /// Takes this node's share of the key off; the last node strips the keys.
    pub(super) fn reveal(&self, slots: &Slots) -> Result<Output, BadElement> {
        let Input::Some { elements, .. } = &slots.input else { return Err(BadElement) };
        let root_bits = M::EXPONENT_BITS;
        let mut revealed = Vec::with_capacity(2 * slots.count as usize);
        for element in elements.chunks_exact(self.group.element_bytes()) {
            let cipher = Field::<M, LIMBS>::read(element).ok_or(BadElement)?;
            revealed.push(Field::<M, LIMBS>::power(&cipher, &self.root, root_bits));
        }
        if self.seat.is_last() {
            self.strip(slots.first, &revealed)?;
            return Ok(Output::default());
        }
        let mut out = Output::default();
        revealed.iter().for_each(|element| Field::<M, LIMBS>::write(element, &mut out.elements));
        Ok(out)
    }

    /// Divides `g^y` by the keys, `g^y k`: what is left, the inverse of all factors, is kept in their place.
    fn strip(&self, first: u32, revealed: &[Uint<LIMBS>]) -> Result<(), BadElement> {
        let keys = self.kept(first, revealed.len() / 2);
        let read = |bytes: &[u8]| Field::<M, LIMBS>::read(bytes).map(|key| Form::<M, LIMBS>::new(&key));
        let keys: Option<Vec<_>> = keys.chunks_exact(self.group.element_bytes()).map(read).collect();
        let keys = Zeroizing::new(keys.ok_or(BadElement)?);
        // One inversion for all (Montgomery's trick): `before[i]` is the product of the first `i` keys.
        let mut before = Zeroizing::new(Vec::with_capacity(keys.len()));
        let mut product = Form::<M, LIMBS>::ONE;
        for key in keys.iter() {
            before.push(product);
            product = product.mul(key);
        }
        let mut inverse = product.invert().into_option().ok_or(BadElement)?;
        let mut stripped = Zeroizing::new(vec![Uint::<LIMBS>::ZERO; keys.len()]);
        for index in (0..keys.len()).rev() {
            stripped[index] = Field::times(&revealed[index], &inverse.mul(&before[index]));
            inverse = inverse.mul(&keys[index]);
        }
        let mut bytes = Zeroizing::new(Vec::new());
        stripped.iter().for_each(|element| Field::<M, LIMBS>::write(element, &mut bytes));
        self.keep(first, &bytes);
        Ok(())
    }

    fn keep(&self, first: u32, bytes: &[u8]) {
        let at = first as usize * self.group.slot_bytes();
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// What is kept for some slots.
    pub(super) fn kept(&self, first: u32, count: usize) -> Zeroizing<Vec<u8>> {
        let (at, len) = (first as usize * self.group.slot_bytes(), count * self.group.slot_bytes());
        let kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Zeroizing::new(kept[at..at + len].to_vec())
    }
}
