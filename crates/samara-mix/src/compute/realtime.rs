//! Real time: only multiplications.

use blake3::Hash;

use super::cmix::{CMix, Pass};
use super::vault::{BadElement, Input, Output, Seat, Slots, Voided};
use crate::content;
use crate::group::field::{Field, Form, Modulus};
use crate::sender::{FIELD_BYTES, SenderId, code, credential_bytes, payload_keys};
use crate::{Group, Secret};

/// A slot whose sender is known, and made it for this round.
pub(super) struct Admitted<'a> {
    pub(super) shared: &'a Secret,
    pub(super) salt: [u8; FIELD_BYTES],
}

/// What a slot of real-time decryption turns out to be.
pub(super) enum Entry<'a> {
    Admitted(Admitted<'a>),
    /// A node before this one voided it.
    WasVoid,
    /// This node voids it.
    Void,
}

/// Looks at the credentials of a slot, and counts what is wrong with them.
pub(super) fn admit<'a>(
    seat: Seat,
    round: u64,
    shared: Option<&'a Secret>,
    elements: &[u8],
    credentials: &[u8],
    voided: &mut Voided,
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
        voided.unknown_sender += 1;
        return Entry::Void;
    };
    let covered = if seat.is_first() { elements } else { &[] };
    if code(shared, round, &salt, sender, covered) != Hash::from_bytes(field(2)) {
        voided.wrong_code += 1;
        return Entry::Void;
    }
    Entry::Admitted(Admitted { shared, salt })
}

/// Passes the credentials on without the code that this node has checked; of a void slot, zeros.
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

/// The slots of a piece of real-time decryption: elements, credentials, and what is shared with the sender.
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
    /// Replaces this node's key with the sender by R and U. A slot with a fault is voided: it goes on as 1, and harms no other.
    pub(super) fn decrypt(&self, slots: &Slots) -> Output {
        let mut out = Output::default();
        out.elements.reserve_exact(slots.count as usize * self.group.slot_bytes());
        let void = content::void(self.group);
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
            let breaks = sound.is_none() && !matches!(entry, Entry::Void);
            out.voided.bad_element += u64::from(breaks);
            let is_kept = admitted.is_some() || (matches!(entry, Entry::WasVoid) && sound.is_some());
            let Some(payloads) = (if is_kept { sound } else { read(&void) }) else { continue };
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

    /// Permutes, and multiplies by S and V; the last node also by what the precomputation has left, so that payloads come out.
    pub(super) fn permute(&self, slots: &Slots) -> Result<Output, BadElement> {
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
