//! Senders: the keys that they share with nodes, and the sealing of content.

use std::collections::BTreeMap;
use std::fmt;

use blake3::Hasher;
use bytes::Bytes;
use crypto_bigint::Uint;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::compute::BadElement;
use crate::group::field::{Field, Form, Modulus};
use crate::group::with_field;
use crate::secret::Stream;
use crate::{Group, Secret};

/// The name of a sender, for example the hash of its public key. 32 zeros mean nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub [u8; 32]);

impl SenderId {
    /// The sender of a slot that a node voided.
    pub const NOBODY: Self = Self([0; 32]);
}

impl fmt::Debug for SenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sender ")?;
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pub(crate) fn sender_of(credentials: &[u8]) -> SenderId {
    let mut name = [0; FIELD_BYTES];
    name.copy_from_slice(&credentials[FIELD_BYTES..2 * FIELD_BYTES]);
    SenderId(name)
}

/// Bytes of a salt, of a name, and of a code.
pub(crate) const FIELD_BYTES: usize = 32;

/// Returns the bytes of a slot's credentials in real-time decryption: salt, sender, and a code for
/// each node that has not checked it yet.
pub(crate) const fn credential_bytes(codes: usize) -> usize {
    (2 + codes) * FIELD_BYTES
}

/// A key pair of a sender or of a node for [`agree`](Self::agree). The secret half is erased when
/// dropped.
pub struct KeyPair {
    group: Group,
    secret: Secret,
    public: Vec<u8>,
}

const PURPOSE: &str = "key pair";

impl KeyPair {
    /// Derives a key pair from a secret.
    pub fn new(group: Group, secret: Secret) -> Self {
        let public = with_field!(group, F => {
            let two = Uint::from_u8(2);
            let exponent = Zeroizing::new(F::random_exponent(&mut secret.stream(PURPOSE, 0)));
            let mut out = Vec::new();
            F::write(&F::power(&two, &exponent, F::EXPONENT_BYTES as u32 * 8), &mut out);
            out
        }, model => {
            // The model has no secrets.
            let mut out = vec![0; group.element_bytes()];
            secret.stream(PURPOSE, 0).fill(&mut out);
            out
        });
        Self { group, secret, public }
    }

    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the secret shared with the owner of another public key.
    ///
    /// # Errors
    /// Returns an error if the other key is not an element of the group, or is 1.
    pub fn agree(&self, other: &[u8]) -> Result<Secret, BadElement> {
        let mut shared = Zeroizing::new(Vec::new());
        with_field!(self.group, F => {
            let element = F::read(other).filter(|element| *element != Uint::ONE).ok_or(BadElement)?;
            let exponent = Zeroizing::new(F::random_exponent(&mut self.secret.stream(PURPOSE, 0)));
            F::write(&F::power(&element, &exponent, F::EXPONENT_BYTES as u32 * 8), &mut shared);
        }, model => ());
        // Both keys are part of the hash, in the same order on both sides.
        let (first, second) =
            if self.public[..] <= *other { (&self.public[..], other) } else { (other, &self.public[..]) };
        let mut hasher = Hasher::new_derive_key("samara-mix 1 shared key of sender and node");
        hasher.update(&shared).update(first).update(second);
        Ok(Secret::new(*hasher.finalize().as_bytes()))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.group.name())
    }
}

/// The secrets that a node shares with senders. Beyond the maximum, the sender that has been unused
/// for the longest time leaves.
#[derive(Clone, Debug)]
pub struct Keyring {
    /// The secrets, each with the number of its last use.
    secrets: BTreeMap<SenderId, (u64, Secret)>,
    by_use: BTreeMap<u64, SenderId>,
    uses: u64,
    senders_max: usize,
    evicted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    #[error("a sender's name must not be 32 zeros")]
    Nobody,
}

impl Keyring {
    pub const fn new(senders_max: usize) -> Self {
        Self { secrets: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, senders_max, evicted: 0 }
    }

    /// Registers a sender, or replaces its secret.
    ///
    /// # Errors
    /// Returns an error if the name is [`SenderId::NOBODY`].
    pub fn register(&mut self, sender: SenderId, secret: Secret) -> Result<(), RegisterError> {
        if sender == SenderId::NOBODY {
            return Err(RegisterError::Nobody);
        }
        self.remove(sender);
        self.uses += 1;
        self.by_use.insert(self.uses, sender);
        self.secrets.insert(sender, (self.uses, secret));
        while self.secrets.len() > self.senders_max
            && let Some((_, unused)) = self.by_use.pop_first()
        {
            self.secrets.remove(&unused);
            self.evicted += 1;
        }
        Ok(())
    }

    pub fn remove(&mut self, sender: SenderId) -> bool {
        let Some((used, _)) = self.secrets.remove(&sender) else { return false };
        self.by_use.remove(&used);
        true
    }

    pub fn contains(&self, sender: SenderId) -> bool {
        self.secrets.contains_key(&sender)
    }

    /// Returns the number of senders that left because others came.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Returns the secret of a sender, and notes its use.
    pub(crate) fn use_secret(&mut self, sender: SenderId) -> Option<&Secret> {
        let (used, secret) = self.secrets.get_mut(&sender)?;
        // Slots of one sender often follow each other.
        if *used != self.uses {
            self.by_use.remove(used);
            self.uses += 1;
            *used = self.uses;
            self.by_use.insert(self.uses, sender);
        }
        Some(secret)
    }
}

/// Returns the stream for the keys of a slot, first element A and then B. It is the same at the
/// sender and at the node.
pub(crate) fn payload_keys(shared: &Secret, round: u64, salt: &[u8; FIELD_BYTES]) -> Stream {
    shared.stream_of("payload keys", &[&round.to_le_bytes(), salt])
}

/// Returns the code that proves to a node that a registered sender made a slot for this round. The
/// first node of a team sees the elements as the sender made them, and its code covers them. For
/// the other nodes `elements` is empty.
pub(crate) fn code(
    shared: &Secret,
    round: u64,
    salt: &[u8; FIELD_BYTES],
    sender: SenderId,
    elements: &[u8],
) -> blake3::Hash {
    let mut code = [0; FIELD_BYTES];
    shared.stream_of("code", &[&round.to_le_bytes(), salt, &sender.0, elements]).fill(&mut code);
    // Values of `blake3::Hash` are compared in constant time.
    blake3::Hash::from_bytes(code)
}

/// A sender: its name, and the secrets that it shares with nodes.
#[derive(Clone, Debug)]
pub struct Sender {
    group: Group,
    id: SenderId,
    /// The secrets, by the number of the node in the pool.
    secrets: BTreeMap<u32, Secret>,
}

/// A sealed payload for a team.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    pub(crate) elements: Vec<u8>,
    pub(crate) credentials: Vec<u8>,
}

impl Sealed {
    /// Creates a payload from the parts received over a network: its two elements, and salt, sender
    /// and codes.
    pub const fn from_parts(elements: Vec<u8>, credentials: Vec<u8>) -> Self {
        Self { elements, credentials }
    }

    /// Creates a void slot, to fill a batch with too few payloads. It comes out as
    /// [`Outcome::Void`].
    pub fn void(group: Group, team: usize) -> Self {
        Self { elements: void(group), credentials: vec![0; credential_bytes(team)] }
    }

    /// Creates a slot of nobody that comes out as [`Outcome::Content`] with this content. The node
    /// that makes it for its own batch knows the content, and the nodes of the team see at its entry
    /// that it is nobody's. At the exit, nobody else can distinguish it from a payload.
    ///
    /// # Errors
    /// Returns an error if the length of the content differs from [`Group::content_bytes`].
    pub fn dummy(group: Group, team: usize, content: &[u8]) -> Result<Self, SealError> {
        let (found, expected) = (content.len(), group.content_bytes());
        if found != expected {
            return Err(SealError::Length { found, expected });
        }
        Ok(Self { elements: to_elements(group, content), credentials: vec![0; credential_bytes(team)] })
    }

    /// Returns true if the lengths are right for a team of `team` nodes.
    pub const fn fits(&self, group: Group, team: usize) -> bool {
        self.elements.len() == group.slot_bytes() && self.credentials.len() == credential_bytes(team)
    }

    /// Returns the claimed sender, if the credentials are long enough. Nodes check it with codes.
    pub fn sender(&self) -> Option<SenderId> {
        (self.credentials.len() >= 2 * FIELD_BYTES).then(|| sender_of(&self.credentials))
    }

    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.elements, self.credentials)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes, {} of credentials)", self.elements.len(), self.credentials.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    #[error("the content has {found} bytes, but a slot carries exactly {expected}")]
    Length { found: usize, expected: usize },
    /// The sender shares no secret with a node of the team.
    #[error("the sender shares no secret with node {node}")]
    Stranger { node: u32 },
}

impl Sender {
    pub const fn new(group: Group, id: SenderId) -> Self {
        Self { group, id, secrets: BTreeMap::new() }
    }

    pub const fn id(&self) -> SenderId {
        self.id
    }

    /// Registers the secret shared with a node.
    pub fn register(&mut self, node: u32, secret: Secret) {
        self.secrets.insert(node, secret);
    }

    /// Seals content for a round of a team. The salt must be random and must never be reused.
    ///
    /// # Errors
    /// Returns an error if the length of the content differs from [`Group::content_bytes`], or if a
    /// node of the team is unknown.
    pub fn seal(
        &self,
        round: u64,
        team: &[u32],
        salt: [u8; 32],
        content: &[u8],
    ) -> Result<Sealed, SealError> {
        let (found, expected) = (content.len(), self.group.content_bytes());
        if found != expected {
            return Err(SealError::Length { found, expected });
        }
        let shared = |node: &u32| self.secrets.get(node).ok_or(SealError::Stranger { node: *node });
        let secrets = team.iter().map(shared).collect::<Result<Vec<&Secret>, SealError>>()?;
        let mut elements = to_elements(self.group, content);
        with_field!(self.group, F => F::cover(&mut elements, round, &salt, &secrets), model => ());
        let mut credentials = Vec::with_capacity(credential_bytes(team.len()));
        credentials.extend_from_slice(&salt);
        credentials.extend_from_slice(&self.id.0);
        for (seat, secret) in secrets.iter().enumerate() {
            let covered = if seat == 0 { &elements[..] } else { &[] };
            credentials.extend_from_slice(code(secret, round, &salt, self.id, covered).as_bytes());
        }
        Ok(Sealed { elements, credentials })
    }
}

impl<M: Modulus<LIMBS>, const LIMBS: usize> Field<M, LIMBS> {
    /// Multiplies both elements by the inverses of the keys of all nodes.
    fn cover(elements: &mut [u8], round: u64, salt: &[u8; FIELD_BYTES], secrets: &[&Secret]) {
        let keys = |secret: &&Secret| {
            let mut stream = payload_keys(secret, round, salt);
            [Self::random(&mut stream), Self::random(&mut stream)]
        };
        let multiply = |[a, b]: [_; 2], [c, d]: [_; 2]| [Form::<M, LIMBS>::mul(&a, &c), Form::mul(&b, &d)];
        let Some(products) = secrets.iter().map(keys).reduce(multiply) else { return };
        for (element, product) in elements.chunks_exact_mut(Self::BYTES).zip(products) {
            // Keys are not 0 and the modulus is prime, so there is an inverse.
            let Some(inverse) = product.invert().into_option() else { return };
            let mut out = Vec::with_capacity(Self::BYTES);
            Self::write(&Self::times(&Uint::from_be_slice(element), &inverse), &mut out);
            element.copy_from_slice(&out);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub(crate) slots: usize,
    pub(crate) elements: Bytes,
    pub(crate) credentials: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    #[error("the batch has no payloads")]
    Empty,
    /// The payloads were sealed for different groups, or for teams of different sizes.
    #[error("payload {index} differs in length from the first one")]
    Mixed { index: usize },
}

impl Batch {
    /// Creates a batch of these payloads in this order.
    ///
    /// # Errors
    /// Returns an error if there are no payloads, or if they differ in length.
    pub fn new(slots: &[Sealed]) -> Result<Self, BatchError> {
        let lengths = |slot: &Sealed| (slot.elements.len(), slot.credentials.len());
        let first = slots.first().ok_or(BatchError::Empty)?;
        if let Some(index) = slots.iter().position(|slot| lengths(slot) != lengths(first)) {
            return Err(BatchError::Mixed { index });
        }
        let elements = slots.iter().flat_map(|slot| &slot.elements).copied().collect();
        let credentials = slots.iter().flat_map(|slot| &slot.credentials).copied().collect();
        Ok(Self { slots: slots.len(), elements, credentials })
    }

    pub const fn len(&self) -> usize {
        self.slots
    }

    /// Returns true if there are no payloads, which is never the case.
    pub const fn is_empty(&self) -> bool {
        self.slots == 0
    }
}

// The encoding of content as two elements.
//
// An element is a 0, a 1, and content, in big-endian order: below 2^(n-15), and therefore in the
// group, whatever the content. Any other output of a mix was not sealed properly: a random number
// has this form with a probability of 2^-15 for each element. If the first node voids a slot, it
// comes out as two times the number 1. If a later node voids it, it comes out as random numbers,
// because the factors of the earlier nodes are lost with the payload.

/// Bytes of an element that are not content.
pub(crate) const MARK_BYTES: usize = 2;
const MARK: [u8; MARK_BYTES] = [0, 1];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The content with its original length.
    Content(Bytes),
    /// The first node of the team rejected the slot: an unknown sender, a wrong code, or a copy.
    Void,
    /// A slot that no [`Sender`] sealed, that a later node rejected, or that a node corrupted.
    Unreadable,
}

/// Encodes content as two elements.
///
/// # Panics
/// Panics if the content does not have [`Group::content_bytes`] bytes; callers check this.
pub(crate) fn to_elements(group: Group, content: &[u8]) -> Vec<u8> {
    assert_eq!(content.len(), group.content_bytes(), "content has a fixed length");
    content.chunks_exact(content.len() / 2).flat_map(|half| MARK.iter().chain(half)).copied().collect()
}

/// Returns the initial elements of a voided slot: 1 and 1.
pub(crate) fn void(group: Group) -> Vec<u8> {
    let mut elements = vec![0; group.slot_bytes()];
    elements[group.element_bytes() - 1] = 1;
    elements[group.slot_bytes() - 1] = 1;
    elements
}

/// Decodes two elements.
pub(crate) fn from_elements(group: Group, elements: &[u8]) -> Outcome {
    let halves = elements.chunks_exact(group.element_bytes());
    if halves.clone().all(|half| half.starts_with(&MARK)) {
        return Outcome::Content(halves.flat_map(|half| &half[MARK_BYTES..]).copied().collect());
    }
    if elements == void(group) { Outcome::Void } else { Outcome::Unreadable }
}
