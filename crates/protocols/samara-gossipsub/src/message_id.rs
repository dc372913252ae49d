//! Functions that compute message ids.
//!
//! All members of a network must use the same function: IHAVE, IWANT and IDONTWANT name messages by
//! id. The defaults of the implementations differ from each other, see [`MessageIdFn`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::rpc::{Message, MessageId};

/// Decompresses raw snappy. Returns `None` if the data are not valid snappy.
pub type Decompress = Arc<dyn Fn(&[u8]) -> Option<Bytes> + Send + Sync>;

type Compute = Arc<dyn Fn(&Message) -> MessageId + Send + Sync>;

/// A function that computes the id of a message.
#[derive(Clone)]
pub enum MessageIdFn {
    /// The bytes of `from`, then those of `seqno`: the default of go-libp2p-pubsub and of the
    /// specification.
    FromSeqno,
    /// `from` in base58, then `seqno` in decimal, as text: the default of rust-libp2p.
    FromSeqnoBase58,
    /// The first `len` bytes of SHA-256 of the payload (at most 32).
    Sha256Data {
        /// Number of bytes of the hash to keep.
        len: u8,
    },
    /// The header of a piece ([`Piece`]) and 4 bytes of SHA-256 of the payload: nodes see which pieces of
    /// a payload they lack. Other messages have a zero and 19 bytes of SHA-256. Zeros follow up to `len`.
    Pieces {
        /// Length of an id in bytes; [`Piece::ID_BYTES`] or more.
        len: u16,
    },
    /// A user-defined function from [`MessageIdFn::custom`], or the function from
    /// [`MessageIdFn::ethereum`].
    Custom(CustomId),
}

/// `MESSAGE_DOMAIN_VALID_SNAPPY` of consensus-specs.
const DOMAIN_VALID_SNAPPY: [u8; 4] = [1, 0, 0, 0];
/// `MESSAGE_DOMAIN_INVALID_SNAPPY` of consensus-specs.
const DOMAIN_INVALID_SNAPPY: [u8; 4] = [0, 0, 0, 0];

/// A user-defined function, with the tag that distinguishes its cached results from those of
/// others.
#[derive(Clone)]
pub struct CustomId {
    tag: u64,
    compute: Compute,
}

/// The first tag of user-defined functions. Functions without state have smaller tags.
const FIRST_FREE_TAG: u64 = 1 << 16;

/// Tags are only compared within a process, so the order in which they are assigned does not
/// matter.
fn next_tag() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_FREE_TAG);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl MessageIdFn {
    /// Returns a user-defined function. It must return equal ids for equal messages. Clones share
    /// the ids that messages cache, but two calls of `custom` do not. All nodes of a simulation
    /// should therefore share clones of one function.
    pub fn custom(compute: impl Fn(&Message) -> MessageId + Send + Sync + 'static) -> Self {
        Self::Custom(CustomId { tag: next_tag(), compute: Arc::new(compute) })
    }

    /// Returns the id function of Ethereum's consensus layer: the first 20 bytes of SHA-256 over a
    /// domain, the topic (since Altair), and the decompressed payload. The topic consists of the
    /// length of its name (8 bytes, little endian) and the name (consensus-specs, phase0 and altair
    /// p2p-interface, "message-id"). Without `decompress`, payloads count as already decompressed
    /// and valid.
    pub fn ethereum(with_topic: bool, decompress: Option<Decompress>) -> Self {
        Self::custom(move |message| ethereum_id(message, with_topic, decompress.as_ref()))
    }

    /// Returns the id of a message. It is computed once per message and function, however many
    /// nodes share the message.
    pub fn id(&self, message: &Message) -> MessageId {
        let tag = self.tag();
        let (known, id) = message.id.0.get_or_init(|| (tag, self.compute(message)));
        if *known == tag { id.clone() } else { self.compute(message) }
    }

    fn tag(&self) -> u64 {
        match self {
            Self::FromSeqno => 1,
            Self::FromSeqnoBase58 => 2,
            Self::Sha256Data { len } => 256 + u64::from(*len),
            Self::Pieces { len } => 1024 + u64::from(*len),
            Self::Custom(CustomId { tag, .. }) => *tag,
        }
    }

    fn compute(&self, message: &Message) -> MessageId {
        match self {
            Self::FromSeqno => from_seqno(message),
            Self::FromSeqnoBase58 => from_seqno_base58(message),
            Self::Sha256Data { len } => {
                MessageId::new(&Sha256::digest(&message.data)[..usize::from(*len).min(32)])
            }
            Self::Pieces { len } => piece_id(&message.data, usize::from(*len)),
            Self::Custom(custom) => (custom.compute)(message),
        }
    }
}

/// The payload that a message is a piece of, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece {
    /// The number of the payload.
    pub payload: u64,
    /// Number of pieces from which the payload can be restored.
    pub needed: u16,
    /// Number of pieces of the payload.
    pub total: u16,
}

impl Piece {
    /// Length of the header at the start of the data of a piece: a mark of 2 bytes, the number of the
    /// payload (8), the needed and all pieces (2 each), and the number of the piece (2); all little
    /// endian.
    pub const HEADER_BYTES: usize = 16;
    /// Least length of the ids of [`MessageIdFn::Pieces`] in bytes.
    pub const ID_BYTES: u16 = 20;
    const MARK: [u8; 2] = *b"PC";

    /// Returns the header of a piece.
    pub fn header(self, index: u16) -> [u8; Self::HEADER_BYTES] {
        let mut header = [0; Self::HEADER_BYTES];
        header[..2].copy_from_slice(&Self::MARK);
        header[2..10].copy_from_slice(&self.payload.to_le_bytes());
        let numbers = [self.needed, self.total, index];
        for (at, number) in header[10..].chunks_exact_mut(2).zip(numbers) {
            at.copy_from_slice(&number.to_le_bytes());
        }
        header
    }

    /// Returns the payload that an id of [`MessageIdFn::Pieces`] names; `None` for other messages.
    pub fn of(id: &MessageId) -> Option<Self> {
        Self::read(id.as_bytes())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; Self::HEADER_BYTES] = bytes.first_chunk()?;
        if header[..2] != Self::MARK {
            return None;
        }
        let payload = u64::from_le_bytes(header[2..10].try_into().ok()?);
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let (needed, total, index) = (number(10), number(12), number(14));
        (needed > 0 && needed <= total && index < total).then_some(Self { payload, needed, total })
    }
}

fn piece_id(data: &[u8], len: usize) -> MessageId {
    let hash = Sha256::digest(data);
    let mut id = vec![0; usize::from(Piece::ID_BYTES)];
    // The mark would make another message a piece.
    let header = if Piece::read(data).is_some() { &data[..Piece::HEADER_BYTES] } else { &[0] };
    id[..header.len()].copy_from_slice(header);
    let rest = id.len() - header.len();
    id[header.len()..].copy_from_slice(&hash[..rest]);
    id.resize(len.max(id.len()), 0);
    MessageId::new(&id)
}

fn ethereum_id(message: &Message, with_topic: bool, decompress: Option<&Decompress>) -> MessageId {
    let decompressed = match decompress {
        None => Some(message.data.clone()),
        Some(decompress) => decompress(&message.data),
    };
    let (domain, data) = match &decompressed {
        Some(data) => (DOMAIN_VALID_SNAPPY, data),
        None => (DOMAIN_INVALID_SNAPPY, &message.data),
    };
    let mut hash = Sha256::new();
    hash.update(domain);
    if with_topic {
        let topic = message.topic.as_ref().map_or("", |topic| topic.as_str());
        hash.update((topic.len() as u64).to_le_bytes());
        hash.update(topic);
    }
    hash.update(data);
    MessageId::new(&hash.finalize()[..20])
}

fn from_seqno(message: &Message) -> MessageId {
    let from = message.from.as_deref().unwrap_or_default();
    let seqno = message.seqno.as_deref().unwrap_or_default();
    MessageId::new(&[from, seqno].concat())
}

/// rust-libp2p reads `seqno` as a `u64`, and uses the peer id `00 01 00` if there is no author.
fn from_seqno_base58(message: &Message) -> MessageId {
    let seqno = message.seqno.as_deref().unwrap_or_default();
    let number = seqno.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let mut text = base58(message.from.as_deref().unwrap_or(&[0, 1, 0]));
    text.push_str(&number.to_string());
    MessageId::new(text.as_bytes())
}

/// Encodes bytes in base58 with Bitcoin's alphabet, the text form of peer ids. The running time is
/// quadratic in the length, which is about 40 bytes.
fn base58(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    // Digits in base 58, least significant first.
    let mut digits: Vec<u8> = Vec::new();
    for byte in &bytes[zeros..] {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let leading = std::iter::repeat_n('1', zeros);
    leading.chain(digits.iter().rev().map(|digit| ALPHABET[usize::from(*digit)] as char)).collect()
}

impl fmt::Debug for MessageIdFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FromSeqno => f.write_str("FromSeqno"),
            Self::FromSeqnoBase58 => f.write_str("FromSeqnoBase58"),
            Self::Sha256Data { len } => write!(f, "Sha256Data {{ len: {len} }}"),
            Self::Pieces { len } => write!(f, "Pieces {{ len: {len} }}"),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}
