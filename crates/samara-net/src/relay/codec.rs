//! Frames of the mix as messages of gRPC.

use bytes::Buf;
use samara_mix::MixFrame;
use samara_mix::wire::{self, Limits};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::proto::Ack;

/// The side that sends frames, and is told in the end that they came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sending;

/// The side that receives frames, within limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiving(pub(super) Limits);

/// Encodes frames.
#[derive(Debug)]
pub(super) struct FrameEncoder;

/// Decodes frames, each with its length.
#[derive(Debug)]
pub(super) struct FrameDecoder(Limits);

impl Codec for Sending {
    type Encode = MixFrame;
    type Decode = Ack;
    type Encoder = FrameEncoder;
    type Decoder = ProstDecoder<Ack>;

    fn encoder(&mut self) -> FrameEncoder {
        FrameEncoder
    }

    fn decoder(&mut self) -> ProstDecoder<Ack> {
        ProstDecoder::new(BufferSettings::default())
    }
}

impl Codec for Receiving {
    type Encode = Ack;
    type Decode = (MixFrame, usize);
    type Encoder = ProstEncoder<Ack>;
    type Decoder = FrameDecoder;

    fn encoder(&mut self) -> ProstEncoder<Ack> {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> FrameDecoder {
        FrameDecoder(self.0)
    }
}

impl Encoder for FrameEncoder {
    type Item = MixFrame;
    type Error = Status;

    fn encode(&mut self, frame: MixFrame, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        wire::encode(&frame, into);
        Ok(())
    }
}

impl Decoder for FrameDecoder {
    type Item = (MixFrame, usize);
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<(MixFrame, usize)>, Status> {
        let len = from.remaining();
        let frame = wire::decode(from.copy_to_bytes(len), &self.0);
        frame.map(|frame| Some((frame, len))).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
