//! The encoding of frames between programs that have the same engine.

/// Encodes the frames of an engine, for a connection between two programs that both have it.
pub trait FrameCodec<F>: Send + Sync {
    /// Writes a frame.
    fn write(&self, frame: &F, out: &mut Vec<u8>);

    /// Reads a frame that [`write`](Self::write) wrote. Returns `None` if the bytes are invalid.
    fn read(&self, reader: &mut Reader<'_>) -> Option<F>;

    /// Puts what all programs have in place of an equal part of a frame, which came in another format.
    fn recognise(&self, frame: F) -> F {
        frame
    }
}

/// Writes the length of a part in four bytes, and then the part.
pub fn write_part(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// A cursor over bytes, from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns true if no bytes are left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes that are left.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Reads the next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    /// Reads a part that [`write_part`] wrote.
    pub fn part(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(len as usize)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    /// Reads the next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads the next four bytes, little endian.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes, little endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
