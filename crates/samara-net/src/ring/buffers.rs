//! The buffers of a link: frames are cut out of blocks of memory and leave in vectored writes, without a copy.
//!
//! Messages that the engine keeps, forwards and delivers are slices of the blocks in which they came. A block is used again
//! once nothing of it is left: fresh memory would cost more than everything else that a received message costs.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::buf::BufMut;
use bytes::{Buf, Bytes, BytesMut};
use samara_ring::RingFrame;
use samara_ring::wire::{Sink, encode};
use tokio::net::TcpStream;

use crate::status::Closed;

const BLOCK: usize = 256 << 10;
/// Near its end, a block is only filled up to the end of a frame: what would be left of the next one had to be copied.
const TAIL: usize = 80 << 10;
/// Blocks that may be used again at most: as much as windows allow to be on the way, and what is kept until all members have it.
const SPENT_MAX: usize = 64;
/// How many of them are looked at: one may be held by an application for ever.
const LOOK_AT: usize = 4;
/// The length in front of a frame.
pub(super) const PREFIX: usize = 4;

#[derive(Debug)]
pub(super) struct Receiving {
    block: BytesMut,
    /// Blocks whose end was reached; parts of them are still in use, perhaps.
    spent: VecDeque<BytesMut>,
    frame_max: usize,
}

impl Receiving {
    pub(super) fn new(frame_max: usize) -> Self {
        Self { block: BytesMut::with_capacity(BLOCK), spent: VecDeque::new(), frame_max }
    }

    /// The length of the frame that comes next, if it is here.
    fn announced(&self) -> Option<usize> {
        let prefix = self.block.get(..PREFIX)?;
        Some(prefix.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }

    /// The next frame, `None` until more bytes are there.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Closed> {
        let Some(found) = self.announced() else { return Ok(None) };
        if found > self.frame_max {
            return Err(Closed::FrameTooLong { found, max: self.frame_max });
        }
        if self.block.len() < PREFIX + found {
            return Ok(None);
        }
        self.block.advance(PREFIX);
        Ok(Some(self.block.split_to(found).freeze()))
    }

    /// Reads what is there, after [`next`](Self::next) has given `None`. Returns how much that was; 0 at the end.
    pub(super) fn read(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let most = self.make_room();
        stream.try_read_buf(&mut (&mut self.block).limit(most))
    }

    /// How much may be read at once; there is room for it then.
    fn make_room(&mut self) -> usize {
        let missing = self.announced().map_or(PREFIX, |len| PREFIX + len) - self.block.len();
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

/// Shorter contents are copied beside the fields around them: that costs less than another piece.
const KEPT_MIN: usize = 1 << 10;
/// Pieces of one system call: 32 messages of 8 KiB with the fields between them. Linux takes 1,024.
const PIECES: usize = 64;
/// When so many bytes of fields have left, those that have not are moved to the front.
const COPIED_GONE: usize = 64 << 10;

#[derive(Debug)]
enum Piece {
    /// So many bytes of `copied`.
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
pub(super) struct Sending {
    pieces: VecDeque<Piece>,
    copied: Vec<u8>,
    /// Bytes of `copied` that have left.
    copied_gone: usize,
    /// Bytes of the first piece that have left.
    first_gone: usize,
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
        if bytes.len() < KEPT_MIN {
            self.slice(bytes);
        } else {
            self.pieces.push_back(Piece::Kept(bytes.clone()));
        }
    }
}

impl Sending {
    /// Takes a frame, whose length is known.
    pub(super) fn push(&mut self, frame: &RingFrame, len: u32) {
        self.slice(&len.to_le_bytes());
        encode(frame, self);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes what the socket takes at once. Returns how much that was.
    pub(super) fn write(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let (mut skip, mut at) = (self.first_gone, self.copied_gone);
        let mut count = 0;
        for (piece, slice) in self.pieces.iter().zip(&mut slices) {
            let bytes = match piece {
                Piece::Copied(len) => {
                    // What has left of the first piece is counted in `copied_gone` already.
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
        let written = stream.try_write_vectored(&slices[..count])?;
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
