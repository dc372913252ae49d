//! The secrets of cMix: those of a round, and the key of the team.
//!
//! After Chaum et al., "cMix: Mixing with minimal real-time asymmetric cryptographic operations"
//! (ACNS 2017), in the order of the xx network (`graphs/precomputation` and `graphs/realtime` of
//! its server).
//!
//! Precomputation: the team combines the factors for the payloads under encryption, before there
//! are any payloads.
//!
//! A slot has, for each of its two payloads, *keys*, `g^y k` with the product `k` of the factors so
//! far, and a *ciphertext*, `Z^y` with the team's key `Z = g^(z1 z2 ...)`: ElGamal, with the key
//! split over the nodes. In the end each node removes its `z` from the ciphertext, which leaves
//! `g^y`, and the last node computes the inverse of `k`.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use blake3::Hash;
use crypto_bigint::{Odd, Uint};
use samara_engine::By;
use zeroize::Zeroizing;

use super::{BadElement, Input, Output, Seat, Slots, Vault, Voided};
use crate::group::field::{Field, Form, Modulus, Table};
use crate::round::Phase;
use crate::sender::{FIELD_BYTES, SenderId, code, credential_bytes, payload_keys, void};
use crate::{Group, Secret};

/// One of the two passes of slots through the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The pass with `R` and `U`.
    Decrypt,
    /// The pass with `S` and `V`.
    Permute,
}

/// One node's secrets for one round.
///
/// `R`, `S`, `U`, `V` and the exponents of ElGamal are not stored. They are drawn again from the
/// seed where they are needed, which costs a fraction of a multiplication, and saves the memory of
/// a round.
struct CMix<M: Modulus<LIMBS>, const LIMBS: usize> {
    group: Group,
    seat: Seat,
    seed: Secret,
    /// The node's share of the exponent of the team's key: the inverse of `root` modulo the order
    /// of the group.
    exponent: Zeroizing<Uint<LIMBS>>,
    /// The exponent that removes this share again. It is the one that is drawn, and short, because
    /// every slot uses it.
    root: Zeroizing<Uint<LIMBS>>,
    /// The incoming slot for each outgoing one.
    permutation: Zeroizing<Vec<u32>>,
    /// Powers of the team's key, once it is known.
    key: OnceLock<Table<M, LIMBS>>,
    /// At the last node: the keys of slots until `strip`, then the final factors of payloads.
    kept: Mutex<Zeroizing<Vec<u8>>>,
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> Field<M, LIMBS> {
    pub(super) fn vault(group: Group, seat: Seat, batch: u32, seed: &Secret) -> Arc<dyn Vault> {
        let mut stream = seed.stream("root", 0);
        let order = Odd::new(Self::order()).expect("the order of the group is an odd prime");
        let (root, exponent) = loop {
            let root = Zeroizing::new(Self::random_exponent(&mut stream));
            // A nonzero number below a prime has an inverse, so this loop ends at once.
            if let Some(exponent) = root.invert_odd_mod(&order).into_option() {
                break (root, Zeroizing::new(exponent));
            }
        };
        let kept = if seat.is_last() { batch as usize * group.slot_bytes() } else { 0 };
        Arc::new(CMix::<M, LIMBS> {
            group,
            seat,
            seed: seed.clone(),
            exponent,
            root,
            permutation: Zeroizing::new(seed.stream("permutation", 0).permutation(batch)),
            key: OnceLock::new(),
            kept: Mutex::new(Zeroizing::new(vec![0; kept])),
        })
    }
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> CMix<M, LIMBS> {
    /// Returns the two factors of a slot: R and U, or S and V.
    fn factors(&self, pass: Pass, slot: u32) -> Zeroizing<[Form<M, LIMBS>; 2]> {
        let purpose = if pass == Pass::Decrypt { "r and u" } else { "s and v" };
        let mut stream = self.seed.stream(purpose, slot.into());
        Zeroizing::new([Field::random(&mut stream), Field::random(&mut stream)])
    }

    /// Returns the two exponents that hide the factors of a slot.
    fn exponents(&self, pass: Pass, slot: u32) -> [Zeroizing<Vec<u8>>; 2] {
        let purpose = if pass == Pass::Decrypt { "exponents of r and u" } else { "exponents of s and v" };
        let mut stream = self.seed.stream(purpose, slot.into());
        [(); 2].map(|()| Zeroizing::new(Field::<M, LIMBS>::random_exponent_bytes(&mut stream)))
    }
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> Vault for CMix<M, LIMBS> {
    fn share(&self, key: &[u8], is_complete: bool) -> Result<Vec<u8>, BadElement> {
        // With 1, all exponents would vanish.
        let base = Field::<M, LIMBS>::read(key).filter(|base| *base != Uint::ONE).ok_or(BadElement)?;
        let shared = Field::<M, LIMBS>::power(&base, &self.exponent, Uint::<LIMBS>::BITS);
        if is_complete {
            self.key.get_or_init(|| Table::new(&Form::new(&Field::<M, LIMBS>::fold(&shared))));
        }
        let mut out = Vec::with_capacity(key.len());
        Field::<M, LIMBS>::write(&shared, &mut out);
        Ok(out)
    }

    fn work(&self, slots: &Slots) -> Result<Output, BadElement> {
        match slots.phase {
            Phase::PrecomputeDecrypt | Phase::PrecomputePermute => self.precompute(slots),
            Phase::Reveal => self.reveal(slots),
            Phase::Decrypt => Ok(self.decrypt(slots)),
            Phase::Permute | Phase::Result => self.permute(slots),
        }
    }
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> CMix<M, LIMBS> {
    /// Multiplies this node's factors into slots; in the second pass, into permuted ones.
    fn precompute(&self, slots: &Slots) -> Result<Output, BadElement> {
        let pass = if slots.phase == Phase::PrecomputeDecrypt { Pass::Decrypt } else { Pass::Permute };
        // The last node keeps the keys: only ciphertexts go on to `Phase::Reveal`.
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

    /// Removes this node's share of the key; the last node also divides out the keys.
    fn reveal(&self, slots: &Slots) -> Result<Output, BadElement> {
        let Input::Some { elements, .. } = &slots.input else { return Err(BadElement) };
        let root_bits = M::EXPONENT_BITS;
        // Never grows, so that no copy of its contents stays behind.
        let count = elements.len() / self.group.element_bytes();
        let mut revealed = Zeroizing::new(Vec::with_capacity(count));
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

    /// Divides `g^y` by the keys, `g^y k`, and stores the result, the inverse of all factors, in
    /// their place.
    fn strip(&self, first: u32, revealed: &[Uint<LIMBS>]) -> Result<(), BadElement> {
        let keys = self.kept(first, revealed.len() / 2);
        let read = |bytes: &[u8]| Field::<M, LIMBS>::read(bytes).map(|key| Form::<M, LIMBS>::new(&key));
        let keys: Option<Vec<_>> = keys.chunks_exact(self.group.element_bytes()).map(read).collect();
        let keys = Zeroizing::new(keys.ok_or(BadElement)?);
        // One inversion for all (Montgomery's trick): `before[i]` is the product of the first `i`
        // keys.
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
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn kept(&self, first: u32, count: usize) -> Zeroizing<Vec<u8>> {
        let (at, len) = (first as usize * self.group.slot_bytes(), count * self.group.slot_bytes());
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Zeroizing::new(kept[at..at + len].to_vec())
    }
}

/// A slot of a registered sender that made it for this round.
pub(super) struct Admitted<'a> {
    pub(super) sender: SenderId,
    pub(super) shared: &'a Secret,
    pub(super) salt: [u8; FIELD_BYTES],
}

/// The result of checking a slot of real-time decryption.
pub(super) enum Entry<'a> {
    Admitted(Admitted<'a>),
    /// An earlier node voided the slot.
    WasVoid,
    Void,
}

/// Checks the credentials of a slot, and counts its faults.
pub(super) fn admit<'a>(
    seat: Seat,
    round: u64,
    shared: Option<&'a Secret>,
    elements: &[u8],
    credentials: &[u8],
    voided: &mut By<Voided>,
) -> Entry<'a> {
    let field = |index: usize| {
        let mut field = [0; FIELD_BYTES];
        field.copy_from_slice(&credentials[index * FIELD_BYTES..(index + 1) * FIELD_BYTES]);
        field
    };
    let (salt, sender) = (field(0), SenderId(field(1)));
    if sender == SenderId::NOBODY {
        return Entry::WasVoid;
    }
    let Some(shared) = shared else {
        voided[Voided::UnknownSender] += 1;
        return Entry::Void;
    };
    let covered = if seat.is_first() { elements } else { &[] };
    if code(shared, round, &salt, sender, covered) != Hash::from_bytes(field(2)) {
        voided[Voided::WrongCode] += 1;
        return Entry::Void;
    }
    Entry::Admitted(Admitted { sender, shared, salt })
}

/// Forwards the credentials without the code that this node has checked, or zeros for a void slot.
pub(super) fn pop_code(seat: Seat, credentials: &[u8], is_void: bool, out: &mut Vec<u8>) {
    if seat.is_last() {
        return;
    }
    if is_void {
        out.resize(out.len() + credential_bytes(seat.codes() - 1), 0);
    } else {
        out.extend_from_slice(&credentials[..2 * FIELD_BYTES]);
        out.extend_from_slice(&credentials[3 * FIELD_BYTES..]);
    }
}

/// Returns the slots of a piece of real-time decryption: elements, credentials, and the secret
/// shared with the sender.
pub(super) fn entries(
    group: Group,
    seat: Seat,
    slots: &Slots,
) -> impl Iterator<Item = (&[u8], &[u8], Option<&Secret>)> {
    let (elements, credentials): (&[u8], &[u8]) = match &slots.input {
        Input::Some { elements, credentials } => (elements, credentials),
        _ => (&[], &[]),
    };
    elements
        .chunks_exact(group.slot_bytes())
        .zip(credentials.chunks_exact(credential_bytes(seat.codes())))
        .zip(&slots.shared)
        .map(|((elements, credentials), shared)| (elements, credentials, shared.as_ref()))
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> CMix<M, LIMBS> {
    /// Replaces this node's key with the sender by R and U. A faulty slot is voided: it continues
    /// as 1, and affects no other slot.
    fn decrypt(&self, slots: &Slots) -> Output {
        let mut out = Output::default();
        out.elements.reserve_exact(slots.count as usize * self.group.slot_bytes());
        let empty = void(self.group);
        let size = self.group.element_bytes();
        for (index, (elements, credentials, shared)) in entries(self.group, self.seat, slots).enumerate() {
            let entry = admit(self.seat, slots.round, shared, elements, credentials, &mut out.voided);
            let read = |bytes: &[u8]| {
                Some([Field::<M, LIMBS>::read(&bytes[..size])?, Field::<M, LIMBS>::read(&bytes[size..])?])
            };
            let sound = read(elements);
            let admitted = match &entry {
                Entry::Admitted(admitted) if sound.is_some() => Some(admitted),
                _ => None,
            };
            if let Some(admitted) = admitted {
                out.admit(admitted.sender);
            }
            let breaks = sound.is_none() && !matches!(entry, Entry::Void);
            out.voided[Voided::BadElement] += u64::from(breaks);
            let is_kept = admitted.is_some() || (matches!(entry, Entry::WasVoid) && sound.is_some());
            let Some(payloads) = (if is_kept { sound } else { read(&empty) }) else { continue };
            let factors = self.factors(Pass::Decrypt, slots.first + index as u32);
            let mut keys = admitted.map(|of| payload_keys(of.shared, slots.round, &of.salt));
            for (payload, factor) in payloads.iter().zip(factors.iter()) {
                let factor = keys.as_mut().map_or(*factor, |keys| factor.mul(&Field::random(keys)));
                Field::<M, LIMBS>::write(&Field::times(payload, &factor), &mut out.elements);
            }
            pop_code(self.seat, credentials, admitted.is_none(), &mut out.credentials);
        }
        out
    }

    /// Permutes, and multiplies by S and V. The last node also multiplies by the results of the
    /// precomputation, which yields the payloads.
    fn permute(&self, slots: &Slots) -> Result<Output, BadElement> {
        let Input::All { elements } = &slots.input else { return Err(BadElement) };
        let size = self.group.element_bytes();
        let last = self.seat.is_last();
        let kept = if last { self.kept(slots.first, slots.count as usize) } else { Vec::new().into() };
        let mut out = Output::default();
        out.elements.reserve_exact(slots.count as usize * self.group.slot_bytes());
        for index in 0..slots.count {
            let slot = slots.first + index;
            let incoming = slots.slot(self.group, elements, self.permutation[slot as usize] as usize);
            for (half, factor) in self.factors(Pass::Permute, slot).iter().enumerate() {
                let payload =
                    Field::<M, LIMBS>::read(&incoming[half * size..(half + 1) * size]).ok_or(BadElement)?;
                let mut product = Field::times(&payload, factor);
                if last {
                    let at = (2 * index as usize + half) * size;
                    let left = Field::<M, LIMBS>::read(&kept[at..at + size]).ok_or(BadElement)?;
                    product = Field::times(&product, &Form::<M, LIMBS>::new(&left));
                }
                Field::<M, LIMBS>::write(&product, &mut out.elements);
            }
        }
        Ok(out)
    }
}
