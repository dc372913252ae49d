//! The receiving end of a link: frames are cut out of blocks of memory without being copied.
//!
//! Messages that are kept, forwarded and delivered are slices of the blocks in which they came. A block is used again once
//! nothing of it is left: fresh memory would cost more than everything else that is done with what comes.

use std::collections::VecDeque;
use std::io;

use bytes::buf::BufMut;
use bytes::{Buf, Bytes, BytesMut};
use tokio::net::TcpStream;

use super::status::Closed;

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Near its end, a block is only filled up to the end of a frame: what would be left of the next one had to be copied.
const TAIL: usize = 80 << 10;
/// Blocks that may be used again at most: as much as windows allow to be on the way, and what is kept until all members have it.
const SPENT_MAX: usize = 64;
/// How many of them are looked at: one may be held by an application for ever.
const LOOK_AT: usize = 4;
/// The length in front of a frame.
pub(super) const PREFIX: usize = 4;

/// The receiving end.
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
    ///
    /// # Errors
    /// It is longer than any can be.
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
