//! The secrets of cMix: what is drawn for a round, and the key of the team.
//!
//! After Chaum et al., "cMix: Mixing with minimal real-time asymmetric cryptographic operations" (ACNS 2017), in the order in which
//! the xx network does it (`graphs/precomputation` and `graphs/realtime` of its server).

use std::sync::{Mutex, OnceLock};

use crypto_bigint::{Odd, Uint};
use zeroize::Zeroizing;

use super::vault::{BadElement, Output, Seat, Slots, Vault};
use crate::group::field::{Field, Form, Modulus};
use crate::group::table::Table;
use crate::round::Phase;
use crate::{Group, Secret};

/// Which of the two passes of slots through the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// With `R` and `U`.
    Decrypt,
    /// With `S` and `V`.
    Permute,
}

/// One node's secrets for one round.
///
/// `R`, `S`, `U`, `V` and the exponents of ElGamal are not kept: they are drawn again from the seed where they are
/// needed, which costs a fraction of a multiplication, and a round takes no memory for them.
pub(super) struct CMix<M: Modulus<LIMBS>, const LIMBS: usize> {
    pub(super) group: Group,
    pub(super) seat: Seat,
    seed: Secret,
    /// The node's part of the exponent of the team's key; the inverse of `root` modulo the order of the group.
    exponent: Zeroizing<Uint<LIMBS>>,
    /// What takes that part off again. This is the one that is drawn, and short, because it is used for every slot.
    pub(super) root: Zeroizing<Uint<LIMBS>>,
    /// By slot that comes out: which one came in.
    pub(super) permutation: Zeroizing<Vec<u32>>,
    /// Powers of the team's key, once it is known.
    pub(super) key: OnceLock<Table<M, LIMBS>>,
    /// At the last node: keys of slots until they are stripped, then what payloads are multiplied by in the end.
    pub(super) kept: Mutex<Zeroizing<Vec<u8>>>,
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> CMix<M, LIMBS> {
    pub(super) fn new(group: Group, seat: Seat, batch: u32, seed: &Secret) -> Self {
        type Ops<M, const LIMBS: usize> = Field<M, LIMBS>;
        let mut stream = seed.stream("root", 0);
        let order = Odd::new(Ops::<M, LIMBS>::order()).expect("the order of the group is an odd prime");
        let (root, exponent) = loop {
            let root = Zeroizing::new(Ops::<M, LIMBS>::random_exponent(&mut stream));
            // A number below a prime that is not 0 has an inverse: this ends at once.
            if let Some(exponent) = root.invert_odd_mod(&order).into_option() {
                break (root, Zeroizing::new(exponent));
            }
        };
        let kept = if seat.is_last() { batch as usize * group.slot_bytes() } else { 0 };
        Self {
            group,
            seat,
            seed: seed.clone(),
            exponent,
            root,
            permutation: Zeroizing::new(seed.stream("permutation", 0).permutation(batch)),
            key: OnceLock::new(),
            kept: Mutex::new(Zeroizing::new(vec![0; kept])),
        }
    }

    /// The two factors of a slot: R and U, or S and V.
    pub(super) fn factors(&self, pass: Pass, slot: u32) -> Zeroizing<[Form<M, LIMBS>; 2]> {
        let purpose = if pass == Pass::Decrypt { "r and u" } else { "s and v" };
        let mut stream = self.seed.stream(purpose, slot.into());
        Zeroizing::new([Field::random(&mut stream), Field::random(&mut stream)])
    }

    /// The two exponents that hide the factors of a slot.
    pub(super) fn exponents(&self, pass: Pass, slot: u32) -> [Zeroizing<Vec<u8>>; 2] {
        let purpose = if pass == Pass::Decrypt { "exponents of r and u" } else { "exponents of s and v" };
        let mut stream = self.seed.stream(purpose, slot.into());
        [(); 2].map(|()| Zeroizing::new(Field::<M, LIMBS>::random_exponent_bytes(&mut stream)))
    }
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> Vault for CMix<M, LIMBS> {
    fn share(&self, key: &[u8], is_complete: bool) -> Result<Vec<u8>, BadElement> {
        // 1 would make all exponents vanish.
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
