//! What transactions of a simulation consist of.

use bytes::Bytes;
use samara_cat::Transaction;
use samara_cat::pool::Signer;

/// The number of a transaction in its run.
pub type TxNumber = u32;

/// Bytes that every transaction begins with: the least size.
pub const HEADER_BYTES: usize = 24;

/// What valid transactions begin with.
const VALID: [u8; 4] = *b"tx+\0";
/// What transactions begin with that the application finds invalid.
const INVALID: [u8; 4] = *b"tx-\0";

/// What a transaction begins with; the rest is filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether the application takes it.
    pub valid: bool,
    /// Its number: no two transactions are the same.
    pub number: TxNumber,
    /// Who signed it: an index.
    pub signer: u32,
    /// Its place among the transactions of its signer.
    pub sequence: u32,
    /// Higher goes first.
    pub priority: u32,
    /// How much work a block has with it.
    pub gas: u32,
}

impl Header {
    /// A transaction of so many bytes (at least [`HEADER_BYTES`]).
    pub fn transaction(&self, bytes: u64) -> Transaction {
        let mut data = vec![0; (bytes as usize).max(HEADER_BYTES)];
        data[..4].copy_from_slice(if self.valid { &VALID } else { &INVALID });
        let words = [self.number, self.signer, self.sequence, self.priority, self.gas];
        for (place, word) in data[4..HEADER_BYTES].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Transaction::new(Bytes::from(data))
    }

    /// What a transaction begins with; `None` if it is garbage.
    pub fn of(transaction: &Transaction) -> Option<Self> {
        let data = transaction.bytes().get(..HEADER_BYTES)?;
        let valid = match data.first_chunk()? {
            mark if *mark == VALID => true,
            mark if *mark == INVALID => false,
            _ => return None,
        };
        let mut words =
            data[4..].chunks_exact(4).filter_map(|word| Some(u32::from_le_bytes(word.try_into().ok()?)));
        Some(Self {
            valid,
            number: words.next()?,
            signer: words.next()?,
            sequence: words.next()?,
            priority: words.next()?,
            gas: words.next()?,
        })
    }
}

/// Bytes of an account's address (Cosmos SDK: 20).
const SIGNER_BYTES: usize = 20;

/// The signer with this index.
pub fn signer(index: u32) -> Signer {
    let mut name = [0; SIGNER_BYTES];
    name[..4].copy_from_slice(&index.to_le_bytes());
    Signer::new(&name)
}

/// The index of a signer.
pub(super) fn signer_index(signer: &Signer) -> Option<u32> {
    let name: &[u8; SIGNER_BYTES] = signer.as_bytes().try_into().ok()?;
    name.first_chunk().map(|index| u32::from_le_bytes(*index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive() {
        for valid in [true, false] {
            let header = Header { valid, number: 1, signer: 2, sequence: 3, priority: 4, gas: u32::MAX };
            let transaction = header.transaction(4_800);
            assert_eq!((transaction.len(), Header::of(&transaction)), (4_800, Some(header)));
            assert_eq!(header.transaction(3).len(), HEADER_BYTES, "nothing is cut");
        }
        for garbage in [&b""[..], b"tx+\0", &[7; 100]] {
            assert_eq!(Header::of(&Transaction::new(garbage.to_vec())), None);
        }
        assert_eq!(signer_index(&signer(70_000)), Some(70_000));
        assert_eq!(signer_index(&Signer::new(b"somebody else")), None);
    }
}
