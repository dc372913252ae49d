//! Frames on a stream: a varint length, then so many bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use samara_engine::protobuf::{WireError, WireErrorKind};

/// Cuts a stream of bytes into frames.
///
/// A length beyond the maximum is refused as soon as it is read, before anything of the frame is kept, and memory
/// grows with what arrives (to four times of it at most), not with what is announced. After an error the stream has no frames any more: the error
/// is repeated, and the connection should be closed.
#[derive(Debug)]
pub struct FrameDecoder {
    frame_bytes_max: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Reading the length.
    Prefix {
        value: u64,
        read: usize,
    },
    /// Reading the frame.
    Body {
        len: usize,
        have: BytesMut,
    },
    Failed(WireError),
}

impl FrameDecoder {
    /// A decoder at the start of a stream, for frames of at most so many bytes (see [`Limits`](super::Limits)).
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max, state: State::Prefix { value: 0, read: 0 } }
    }

    /// Takes bytes from `input` until a frame is complete. `None`: all of `input` was taken and more is needed.
    /// Call it until it returns `None`. A frame that is in a [`Bytes`] as a whole shares it; out of a slice it is copied, so that
    /// a message that is kept keeps nothing else of what was read with it.
    ///
    /// # Errors
    /// A length beyond the maximum, or one that does not end; the same again on every later call.
    pub fn next(&mut self, input: &mut impl Buf) -> Result<Option<Bytes>, WireError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(*error),
                State::Prefix { value, read } => {
                    if !input.has_remaining() {
                        return Ok(None);
                    }
                    let byte = input.get_u8();
                    let (bits, shift) = (u64::from(byte & 0x7f), 7 * *read);
                    if *read == 9 && byte > 1 {
                        return self.fail(9, WireErrorKind::VarintTooLong);
                    }
                    *value |= bits << shift;
                    *read += 1;
                    let (value, read) = (*value, *read);
                    let max = self.frame_bytes_max;
                    // Bits only ever get set, so that a length can be refused before it ends.
                    if value > max as u64 {
                        return self
                            .fail(read, WireErrorKind::Limit { limit: "frame_bytes", found: value, max });
                    }
                    if byte & 0x80 == 0 {
                        self.state = State::Body { len: value as usize, have: BytesMut::new() };
                    }
                }
                State::Body { len, have } => {
                    let missing = *len - have.len();
                    if have.is_empty() && input.remaining() >= missing {
                        self.state = State::Prefix { value: 0, read: 0 };
                        return Ok(Some(input.copy_to_bytes(missing)));
                    }
                    have.put(input.take(missing));
                    // A peer that has sent a quarter is believed to send the rest: large frames are moved twice at most.
                    if have.len() >= *len / 4 {
                        have.reserve(*len - have.len());
                    }
                    if have.len() < *len {
                        return Ok(None);
                    }
                    let frame = std::mem::take(have).freeze();
                    self.state = State::Prefix { value: 0, read: 0 };
                    return Ok(Some(frame));
                }
            }
        }
    }

    /// Whether the stream may end here: between frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Prefix { read: 0, .. })
    }

    fn fail(&mut self, offset: usize, kind: WireErrorKind) -> Result<Option<Bytes>, WireError> {
        let error = WireError { path: "frame length", offset, kind };
        self.state = State::Failed(error);
        Err(error)
    }
}
