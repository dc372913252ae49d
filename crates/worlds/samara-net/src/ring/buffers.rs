//! The buffers of a link: frames are slices of blocks of memory and leave in vectored writes,
//! without a copy. Encrypted frames are copied once, when they leave.
//!
//! Messages that the engine keeps, forwards and delivers are slices of the blocks that received
//! them. A link reuses a block once nothing refers to it: fresh memory would cost more than all
//! other work for a received message.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::buf::{BufMut, Limit};
use bytes::{Buf, Bytes, BytesMut};
use samara_ring::RingFrame;
use samara_ring::wire::{Limits, Sink, decode, encode};

use super::auth::{CONTENT_MIN, Seal, TAG_BYTES};
use crate::status::Closed;

const BLOCK: usize = 256 << 10;
/// Near its end, a block is only filled up to the end of a frame: the start of the next frame would
/// have to be copied.
const TAIL: usize = 80 << 10;
/// Maximum number of blocks to reuse: enough for the bytes that windows allow in flight, and for
/// the messages kept until all members have them.
const SPENT_MAX: usize = 64;
/// Number of blocks to check for reuse at a time: an application may hold one for ever.
const LOOK_AT: usize = 4;
/// The length in front of a frame.
pub const PREFIX: usize = 4;

#[derive(Debug)]
pub struct Receiving {
    block: BytesMut,
    /// Full blocks, parts of which may still be in use.
    spent: VecDeque<BytesMut>,
    frame_max: usize,
    limits: Limits,
    seal: Option<Seal>,
}

impl Receiving {
    pub fn new(frame_max: usize, limits: Limits, seal: Option<Seal>) -> Self {
        Self { block: BytesMut::with_capacity(BLOCK), spent: VecDeque::new(), frame_max, limits, seal }
    }

    /// Returns the bytes on the wire of a frame of this length.
    fn framed(&self, len: usize) -> usize {
        PREFIX + len + self.seal.as_ref().map_or(0, |_| TAG_BYTES)
    }

    /// Returns the length of the next frame, if it has arrived.
    fn announced(&self) -> Option<usize> {
        let prefix = self.block.get(..PREFIX)?;
        Some(prefix.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }

    /// Returns the next frame and its length on the wire, or `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Result<Option<(RingFrame, usize)>, Closed> {
        let Some(found) = self.announced() else { return Ok(None) };
        if found > self.frame_max {
            return Err(Closed::FrameTooLong { found, max: self.frame_max });
        }
        let framed = self.framed(found);
        if self.block.len() < framed {
            return Ok(None);
        }
        self.block.advance(PREFIX);
        let mut frame = self.block.split_to(framed - PREFIX);
        let len = (found as u32).to_le_bytes();
        let malformed = |error: samara_ring::wire::WireError| Closed::Malformed(error.to_string());
        let frame = match &mut self.seal {
            Some(seal) if seal.covers_contents => {
                seal.decrypt(len, &mut frame)?;
                frame.truncate(found);
                decode(&frame.freeze(), &self.limits).map_err(malformed)?
            }
            Some(seal) => {
                let tag = frame.split_off(found);
                let frame = decode(&frame.freeze(), &self.limits).map_err(malformed)?;
                seal.check(len, &frame, &tag)?;
                frame
            }
            None => decode(&frame.freeze(), &self.limits).map_err(malformed)?,
        };
        Ok(Some((frame, framed)))
    }

    /// Lets `read` append the available bytes, after [`next_frame`](Self::next_frame) has returned `None`.
    /// Returns their number, or 0 at the end.
    pub fn read(
        &mut self,
        read: impl FnOnce(&mut Limit<&mut BytesMut>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let most = self.make_room();
        read(&mut (&mut self.block).limit(most))
    }

    /// Makes room in the block. Returns the number of bytes to read at most.
    fn make_room(&mut self) -> usize {
        let missing = self.announced().map_or(PREFIX, |len| self.framed(len)) - self.block.len();
        let mut free = self.block.capacity() - self.block.len();
        if free < missing {
            let mut next = self.empty_block(missing + self.block.len());
            next.extend_from_slice(&self.block);
            self.block.clear();
            self.spent.push_back(std::mem::replace(&mut self.block, next));
            if self.spent.len() > SPENT_MAX {
                self.spent.pop_front();
            }
            free = self.block.capacity() - self.block.len();
        }
        if free - missing < TAIL { missing } else { free }
    }

    fn empty_block(&mut self, len: usize) -> BytesMut {
        if len <= BLOCK {
            for _ in 0..LOOK_AT.min(self.spent.len()) {
                let Some(mut block) = self.spent.pop_front() else { break };
                if block.try_reclaim(BLOCK) {
                    return block;
                }
                self.spent.push_back(block);
            }
        }
        BytesMut::with_capacity(len.max(BLOCK))
    }
}

/// Pieces of one system call: 32 messages of 8 KiB with the fields between them. Linux accepts
/// 1,024.
const PIECES: usize = 64;
/// Once this many bytes of fields have left, the remaining ones move to the front.
const COPIED_GONE: usize = 64 << 10;

#[derive(Debug)]
enum Piece {
    /// A number of bytes of `copied`.
    Copied(usize),
    Kept(Bytes),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Copied(len) => *len,
            Self::Kept(bytes) => bytes.len(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Sending {
    pieces: VecDeque<Piece>,
    copied: Vec<u8>,
    /// Bytes of `copied` that have left.
    copied_gone: usize,
    /// Bytes of the first piece that have left.
    first_gone: usize,
    seal: Option<Seal>,
    /// Memory for encrypted frames.
    sealed: BytesMut,
}

/// Takes a whole frame.
struct Whole<'a>(&'a mut BytesMut);

impl Sink for Whole<'_> {
    fn slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl Sink for Sending {
    fn slice(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
        match self.pieces.back_mut() {
            Some(Piece::Copied(len)) => *len += bytes.len(),
            _ => self.pieces.push_back(Piece::Copied(bytes.len())),
        }
    }

    fn content(&mut self, bytes: &Bytes) {
        // A copy of a short one is cheaper than another piece.
        if bytes.len() < CONTENT_MIN {
            self.slice(bytes);
        } else {
            self.pieces.push_back(Piece::Kept(bytes.clone()));
        }
    }
}

impl Sending {
    pub fn new(seal: Option<Seal>) -> Self {
        Self { seal, ..Self::default() }
    }

    /// Appends a frame of known length.
    pub fn push(&mut self, frame: &RingFrame, len: u32) -> Result<(), Closed> {
        let prefix = len.to_le_bytes();
        if let Some(seal) = self.seal.as_mut().filter(|seal| seal.covers_contents) {
            self.sealed.reserve(PREFIX + len as usize + TAG_BYTES);
            self.sealed.extend_from_slice(&prefix);
            encode(frame, &mut Whole(&mut self.sealed));
            let tag = seal.encrypt(prefix, &mut self.sealed[PREFIX..])?;
            self.sealed.extend_from_slice(tag.as_ref());
            self.pieces.push_back(Piece::Kept(self.sealed.split().freeze()));
            return Ok(());
        }
        self.slice(&prefix);
        encode(frame, self);
        if let Some(seal) = &mut self.seal {
            let tag = seal.tag(prefix, frame)?;
            self.slice(tag.as_ref());
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Lets `write` take as many bytes as it accepts at once. Returns their number.
    pub fn write(&mut self, write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let (mut skip, mut at) = (self.first_gone, self.copied_gone);
        let mut count = 0;
        for (piece, slice) in self.pieces.iter().zip(&mut slices) {
            let bytes = match piece {
                Piece::Copied(len) => {
                    // `copied_gone` already counts the bytes of the first piece that have left.
                    let bytes = &self.copied[at..at + len - skip];
                    at += bytes.len();
                    bytes
                }
                Piece::Kept(bytes) => &bytes[skip..],
            };
            *slice = IoSlice::new(bytes);
            skip = 0;
            count += 1;
        }
        let written = write(&slices[..count])?;
        self.wrote(written);
        Ok(written)
    }

    fn wrote(&mut self, mut len: usize) {
        while let Some(first) = self.pieces.front() {
            let left = first.len() - self.first_gone;
            let gone = len.min(left);
            if matches!(first, Piece::Copied(_)) {
                self.copied_gone += gone;
            }
            len -= gone;
            if gone < left {
                self.first_gone += gone;
                break;
            }
            self.first_gone = 0;
            self.pieces.pop_front();
            if len == 0 {
                break;
            }
        }
        if self.pieces.is_empty() {
            self.copied.clear();
            self.copied_gone = 0;
        } else if self.copied_gone >= COPIED_GONE {
            self.copied.drain(..self.copied_gone);
            self.copied_gone = 0;
        }
    }
}
