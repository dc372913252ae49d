//! Parts of messages through a mix.

use std::collections::BTreeSet;

use samara_mail::{Added, Inbox, MessageId, Part, split};

/// Payloads of 64 bytes, after decryption.
const PART_BYTES: usize = 41;
const PLAIN_BYTES: usize = 64;

/// A part is written as it was read, and an inbox gives each message once.
pub fn parts(data: &[u8]) {
    let mut inbox = Inbox::default();
    let mut done = BTreeSet::new();
    for plain in data.chunks(PLAIN_BYTES) {
        let Ok(part) = Part::read(plain) else { continue };
        assert_eq!(part.write(plain.len() - (PLAIN_BYTES - PART_BYTES)), plain);
        if let Added::Complete(message) = inbox.add(part) {
            assert!(done.insert(message.id), "message {} came twice", message.id);
        }
    }
    for unfinished in inbox.unfinished() {
        assert!(!unfinished.missing.is_empty() && !done.contains(&unfinished.id));
    }
}

/// A message of three parts, in another order and with one of them twice.
pub fn parts_seeds() -> Vec<Vec<u8>> {
    let parts = split(MessageId([3; 16]), &[5; 2 * PART_BYTES + 7], PART_BYTES);
    let order = [2, 0, 0, 1].into_iter().filter_map(|at: usize| parts.get(at));
    vec![order.flat_map(|part| part.write(PART_BYTES)).collect()]
}
