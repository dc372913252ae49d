//! How content becomes two elements, and how it is found again.
//!
//! An element is a 0, a 1, and content, big endian: below 2^(n-15), therefore in the group whatever the content. What comes out
//! of a mix otherwise was not sealed properly: random numbers have this form with a probability of 2^-15 an element. A slot
//! that the first node had to void comes out as two times the number 1; one that a later node had to void comes out as random numbers, because
//! the factors of those before it are lost with the payload.

use bytes::Bytes;

use crate::Group;

/// Bytes of an element that are not content.
pub(crate) const MARK_BYTES: usize = 2;
const MARK: [u8; MARK_BYTES] = [0, 1];

/// What came out of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Content, as long as it was sealed.
    Content(Bytes),
    /// The first node of the team refused the slot that went in: an unknown sender, a wrong code, a copy.
    Void,
    /// Something that no [`Sender`](crate::Sender) sealed, that a later node refused, or that a node spoiled.
    Unreadable,
}

/// The two elements of content.
///
/// # Panics
/// If the content has not [`Group::content_bytes`] bytes; callers check.
pub(crate) fn to_elements(group: Group, content: &[u8]) -> Vec<u8> {
    assert_eq!(content.len(), group.content_bytes(), "content has a fixed length");
    content.chunks_exact(content.len() / 2).flat_map(|half| MARK.iter().chain(half)).copied().collect()
}

/// The elements that a voided slot starts from: 1 and 1.
pub(crate) fn void(group: Group) -> Vec<u8> {
    let mut elements = vec![0; group.slot_bytes()];
    elements[group.element_bytes() - 1] = 1;
    elements[group.slot_bytes() - 1] = 1;
    elements
}

/// What two elements stand for.
pub(crate) fn from_elements(group: Group, elements: &[u8]) -> Outcome {
    let halves = elements.chunks_exact(group.element_bytes());
    if halves.clone().all(|half| half.starts_with(&MARK)) {
        return Outcome::Content(halves.flat_map(|half| &half[MARK_BYTES..]).copied().collect());
    }
    if elements == void(group) { Outcome::Void } else { Outcome::Unreadable }
}
