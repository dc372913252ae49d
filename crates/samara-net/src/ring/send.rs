//! The sending end of a link: frames become pieces that one system call writes, and contents are not copied.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;
use samara_ring::RingFrame;
use samara_ring::wire::{Sink, encode_to};
use tokio::net::TcpStream;

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

/// The sending end.
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
        encode_to(frame, self);
    }

    /// Whether nothing waits.
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
