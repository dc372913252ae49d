//! Parts of messages through a mix.

use std::collections::BTreeSet;

use samara_mail::{Added, Inbox, MessageId, Naming, Part, split};

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
        let naming = part.naming;
        if let Added::Complete(message) = inbox.add(part) {
            assert!(done.insert((naming, message.id)), "message {} came twice", message.id);
        }
    }
    for unfinished in inbox.unfinished() {
        let name = (unfinished.naming, unfinished.id);
        assert!(!unfinished.missing.is_empty() && !done.contains(&name));
    }
}

/// Messages of three parts with names of both kinds, in another order and with one of them twice.
pub fn parts_seeds() -> Vec<Vec<u8>> {
    let contents = [5; 2 * PART_BYTES + 7];
    let seed = |(naming, id)| {
        let parts = split(naming, id, &contents, PART_BYTES);
        let order = [2, 0, 0, 1].into_iter().filter_map(|at: usize| parts.get(at));
        order.flat_map(|part| part.write(PART_BYTES)).collect()
    };
    let names = [(Naming::Random, MessageId([3; 16])), (Naming::Contents, MessageId::of(&contents))];
    names.into_iter().map(seed).collect()
}
