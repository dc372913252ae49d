//! What the application gets: the content of a message in the pieces in which it travelled.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

/// The content of a message. Large messages travel in chunks, and are not copied together unless that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    chunks: SmallVec<[Bytes; 1]>,
    len: usize,
}

impl Payload {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The content in one piece: copied if it came in several.
    pub fn to_bytes(&self) -> Bytes {
        match self.chunks.as_slice() {
            [] => Bytes::new(),
            [whole] => whole.clone(),
            chunks => {
                let mut joined = BytesMut::with_capacity(self.len);
                chunks.iter().for_each(|chunk| joined.extend_from_slice(chunk));
                joined.freeze()
            }
        }
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.len += chunk.len();
        self.chunks.push(chunk);
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        let mut payload = Self::default();
        payload.push(bytes);
        payload
    }
}
