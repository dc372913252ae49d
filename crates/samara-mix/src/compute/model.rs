//! cMix without numbers, for simulations: slots have their real lengths, are checked, permuted and delivered, and nothing is
//! multiplied.

use zeroize::Zeroizing;

use super::realtime::{Entry, admit, entries, pop_code};
use super::vault::{BadElement, Input, Output, Seat, Slots, Vault};
use crate::round::Phase;
use crate::{Group, Secret, content};

/// One node's permutation for one round.
pub(super) struct Model {
    seat: Seat,
    permutation: Zeroizing<Vec<u32>>,
}

impl Model {
    pub(super) fn new(seat: Seat, batch: u32, seed: &Secret) -> Self {
        let permutation = seed.stream("permutation", 0).permutation(batch);
        Self { seat, permutation: Zeroizing::new(permutation) }
    }

    fn decrypt(&self, slots: &Slots) -> Output {
        let mut out = Output::default();
        for (elements, credentials, shared) in entries(Group::Model, self.seat, slots) {
            let entry = admit(self.seat, slots.round, shared, elements, credentials, &mut out.voided);
            let is_void = !matches!(entry, Entry::Admitted(_));
            match entry {
                Entry::Void => out.elements.extend(content::void(Group::Model)),
                Entry::Admitted(_) | Entry::WasVoid => out.elements.extend_from_slice(elements),
            }
            pop_code(self.seat, credentials, is_void, &mut out.credentials);
        }
        out
    }
}

impl Vault for Model {
    fn share(&self, key: &[u8], _is_complete: bool) -> Result<Vec<u8>, BadElement> {
        Ok(key.to_vec())
    }

    fn work(&self, slots: &Slots) -> Result<Output, BadElement> {
        // What leaves the last node after permutation is only ciphertexts, half of what came.
        let width = match slots.phase {
            Phase::PrecomputePermute if self.seat.is_last() => Group::Model.slot_bytes(),
            Phase::Reveal if self.seat.is_last() => 0,
            phase => phase.elements() * Group::Model.element_bytes(),
        };
        let mut out = Output::default();
        match &slots.input {
            _ if slots.phase == Phase::Decrypt => out = self.decrypt(slots),
            Input::Ones => out.elements.resize(slots.count as usize * width, 0),
            Input::Some { elements, .. } if width > 0 => out.elements.extend_from_slice(elements),
            Input::Some { .. } => {}
            Input::All { elements } => {
                for slot in slots.first..slots.first + slots.count {
                    let from = self.permutation[slot as usize] as usize;
                    out.elements.extend_from_slice(&slots.slot(Group::Model, elements, from)[..width]);
                }
            }
        }
        Ok(out)
    }
}
