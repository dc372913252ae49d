//! What a node keeps secret about one round, and what it does with it.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::cmix::CMix;
use super::model::Model;
use crate::group::{Modp2048, Modp4096};
use crate::round::Phase;
use crate::{Group, Secret};

/// A number that is no element of the group: whoever sent it does not keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a number that is no element of the group")]
pub struct BadElement;

/// Where a node sits in the team of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) position: u16,
    pub(crate) team: u16,
}

impl Seat {
    pub(crate) const fn is_first(self) -> bool {
        self.position == 0
    }

    pub(crate) const fn is_last(self) -> bool {
        self.position + 1 == self.team
    }

    /// Codes that a slot has when it comes to this seat for real-time decryption.
    pub(crate) const fn codes(self) -> usize {
        (self.team - self.position) as usize
    }
}

/// Slots to be worked on.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// Slots that begin here: all elements are 1.
    Ones,
    /// Just these slots.
    Some {
        elements: Bytes,
        /// Only for [`Phase::Decrypt`].
        credentials: Bytes,
    },
    /// All slots of the batch, from which the permutation chooses.
    All { elements: Bytes },
}

/// A piece of a phase.
pub(crate) struct Slots {
    pub(crate) round: u64,
    pub(crate) phase: Phase,
    /// The first slot that comes out.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) input: Input,
    /// By slot: what is shared with its sender, if that is known. Only for [`Phase::Decrypt`].
    pub(crate) shared: Vec<Option<Secret>>,
}

impl Slots {
    /// Where the elements of an incoming slot are, in a batch or a piece of it.
    pub(crate) fn slot<'a>(&self, group: Group, elements: &'a [u8], index: usize) -> &'a [u8] {
        let width = self.phase.elements() * group.element_bytes();
        &elements[index * width..(index + 1) * width]
    }
}

/// Why slots were voided: their senders' fault, and nobody else's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Voided {
    /// No secret is shared with the sender.
    pub unknown_sender: u64,
    /// The code is wrong: another round, another sender, or elements that were changed.
    pub wrong_code: u64,
    /// The payload is no element of the group.
    pub bad_element: u64,
    /// The salt came twice in the round: the slot is a copy of another one.
    pub repeated: u64,
}

impl Voided {
    /// Adds up.
    pub(crate) fn add(&mut self, other: Self) {
        self.unknown_sender += other.unknown_sender;
        self.wrong_code += other.wrong_code;
        self.bad_element += other.bad_element;
        self.repeated += other.repeated;
    }

    /// All of them.
    pub const fn total(&self) -> u64 {
        self.unknown_sender + self.wrong_code + self.bad_element + self.repeated
    }
}

/// What became of a piece of a phase.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) elements: Vec<u8>,
    pub(crate) credentials: Vec<u8>,
    pub(crate) voided: Voided,
}

/// The secrets of one node for one round: erased when dropped.
pub(crate) trait Vault: Send + Sync {
    /// Raises a part of the team's key by this node's exponent. A part that went through all nodes is the key, and is kept.
    fn share(&self, key: &[u8], is_complete: bool) -> Result<Vec<u8>, BadElement>;

    /// Works on slots.
    fn work(&self, slots: &Slots) -> Result<Output, BadElement>;
}

/// Draws the secrets of a round from its seed.
pub(crate) fn generate(group: Group, seat: Seat, batch: u32, seed: &Secret) -> Arc<dyn Vault> {
    match group {
        Group::Modp2048 => {
            Arc::new(CMix::<Modp2048, { crypto_bigint::U2048::LIMBS }>::new(group, seat, batch, seed))
        }
        Group::Modp4096 => {
            Arc::new(CMix::<Modp4096, { crypto_bigint::U4096::LIMBS }>::new(group, seat, batch, seed))
        }
        #[cfg(feature = "small-group")]
        Group::Small256 => {
            let vault =
                CMix::<crate::group::Small256, { crypto_bigint::U256::LIMBS }>::new(group, seat, batch, seed);
            Arc::new(vault)
        }
        Group::Model => Arc::new(Model::new(seat, batch, seed)),
    }
}
