//! One connection: its negotiation, a stream out, a stream in, frames in between.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{AsyncRead, AsyncWrite, StreamExt};
use libp2p::StreamProtocol;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};
use libp2p::swarm::handler::{ConnectionEvent, FullyNegotiatedInbound, FullyNegotiatedOutbound};
use libp2p::swarm::{
    ConnectionHandler, ConnectionHandlerEvent, Stream, StreamUpgradeError, SubstreamProtocol,
};
use samara_engine::Frame;
use samara_gossipsub::rpc::RpcFrame;
use samara_gossipsub::wire::{self, FrameDecoder, Limits, WireError};

/// So often at most a stream is opened or accepted on one connection: peers that keep closing theirs are left alone.
const ATTEMPTS_MAX: u32 = 5;
/// How much is read at a time at most, and how much of small frames is written together.
const CHUNK_BYTES: usize = 64 << 10;
/// How much is read at first: most wake-ups bring less, and a buffer has to be cleared before it is read into.
const FIRST_CHUNK_BYTES: usize = 8 << 10;
/// Bytes of the length before a frame, at most.
const PREFIX_BYTES_MAX: usize = 10;

/// What a connection tells the behaviour.
#[derive(Debug)]
pub enum FromHandler {
    /// The first stream was negotiated: the peer speaks this protocol.
    Protocol(StreamProtocol),
    /// The peer speaks none of the protocols.
    NotSupported,
    Writable,
    /// The stream for frames is gone, with so many frames that had been taken.
    Broken(usize),
    /// There will be no stream for frames any more: the peer keeps closing it.
    GaveUp,
    Written(usize),
    Frame(RpcFrame),
    /// What has arrived is no frame.
    Malformed(WireError),
}

#[derive(Debug)]
enum Outbound {
    Wanted,
    Opening,
    Open(Writer),
    /// Not to be opened again.
    Closed,
}

/// Reads and writes the frames of one connection.
#[derive(Debug)]
pub struct Handler {
    offer: Offer,
    limits: Arc<Limits>,
    /// Frames to write. The behaviour bounds how many bytes are in here.
    frames: UnboundedReceiver<RpcFrame>,
    outbound: Outbound,
    outbound_attempts: u32,
    inbound: Option<Reader>,
    inbound_attempts: u32,
    protocol_told: bool,
    events: VecDeque<FromHandler>,
}

impl Handler {
    pub(crate) fn new(
        protocols: Arc<[StreamProtocol]>,
        limits: Arc<Limits>,
        frames: UnboundedReceiver<RpcFrame>,
    ) -> Self {
        Self {
            offer: Offer(protocols),
            limits,
            frames,
            outbound: Outbound::Wanted,
            outbound_attempts: 0,
            inbound: None,
            inbound_attempts: 0,
            protocol_told: false,
            events: VecDeque::new(),
        }
    }

    fn tell_protocol(&mut self, protocol: StreamProtocol) {
        if !self.protocol_told {
            self.protocol_told = true;
            self.events.push_back(FromHandler::Protocol(protocol));
        }
    }

    fn outbound_lost(&mut self) {
        if self.outbound_attempts < ATTEMPTS_MAX {
            self.outbound = Outbound::Wanted;
        } else {
            self.outbound = Outbound::Closed;
            self.events.push_back(FromHandler::GaveUp);
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        let Outbound::Open(writer) = &mut self.outbound else { return };
        let written = writer.poll(&mut self.frames, cx).and_then(|written| {
            writer.poll_closed(cx)?;
            Ok(written)
        });
        match written {
            Ok(0) => {}
            Ok(written) => self.events.push_back(FromHandler::Written(written)),
            Err(error) => {
                tracing::debug!(%error, "the stream for frames is gone");
                let mut taken = writer.taken;
                // Nobody will write these either: the next stream starts anew.
                while let Poll::Ready(Some(_)) = self.frames.poll_next_unpin(cx) {
                    taken += 1;
                }
                self.events.push_back(FromHandler::Broken(taken));
                self.outbound_lost();
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) {
        let Some(reader) = &mut self.inbound else { return };
        match reader.poll(cx, &self.limits) {
            Poll::Pending => {}
            Poll::Ready(Ok(frame)) => self.events.push_back(FromHandler::Frame(frame)),
            Poll::Ready(Err(ReadError::Closed(error))) => {
                tracing::debug!(error, "the peer's stream for frames is gone");
                self.inbound = None;
            }
            Poll::Ready(Err(ReadError::Malformed(error))) => {
                self.inbound = None;
                self.events.push_back(FromHandler::Malformed(error));
            }
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = std::convert::Infallible;
    type ToBehaviour = FromHandler;
    type InboundProtocol = Offer;
    type OutboundProtocol = Offer;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = ();

    fn listen_protocol(&self) -> SubstreamProtocol<Offer> {
        SubstreamProtocol::new(self.offer.clone(), ())
    }

    /// A neighbour is kept as long as frames can go either way.
    fn connection_keep_alive(&self) -> bool {
        self.inbound.is_some() || matches!(self.outbound, Outbound::Opening | Outbound::Open(_))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Offer, (), FromHandler>> {
        if matches!(self.outbound, Outbound::Wanted) {
            self.outbound = Outbound::Opening;
            self.outbound_attempts += 1;
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                protocol: SubstreamProtocol::new(self.offer.clone(), ()),
            });
        }
        if self.events.is_empty() {
            self.write(cx);
        }
        if self.events.is_empty() {
            self.read(cx);
        }
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(event));
        }
        if matches!(self.outbound, Outbound::Wanted) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, event: Self::FromBehaviour) {
        match event {}
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Offer, Offer>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, protocol),
                ..
            }) => {
                self.inbound_attempts += 1;
                if self.inbound_attempts > ATTEMPTS_MAX {
                    tracing::debug!("too many streams on one connection; this one is closed");
                    return;
                }
                self.tell_protocol(protocol);
                // A new stream replaces the old one, as in the other implementations.
                self.inbound = Some(Reader::new(stream, self.limits.frame_bytes));
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: (stream, protocol),
                ..
            }) => {
                self.tell_protocol(protocol);
                self.outbound = Outbound::Open(Writer::new(stream));
                self.events.push_back(FromHandler::Writable);
            }
            ConnectionEvent::DialUpgradeError(failed) => {
                if matches!(failed.error, StreamUpgradeError::NegotiationFailed) {
                    self.outbound = Outbound::Closed;
                    if !self.protocol_told {
                        self.events.push_back(FromHandler::NotSupported);
                    }
                } else {
                    tracing::debug!(error = %failed.error, "no stream for frames");
                    self.outbound_lost();
                }
            }
            _ => {}
        }
    }
}

/// The stream out. Small frames share a write.
#[derive(Debug)]
struct Writer {
    stream: Stream,
    buffer: BytesMut,
    /// Frames that are in the buffer, whole or in part.
    taken: usize,
    unflushed: bool,
}

impl Writer {
    fn new(stream: Stream) -> Self {
        Self { stream, buffer: BytesMut::new(), taken: 0, unflushed: false }
    }

    /// Writes what can be written. Returns how many frames were written to their end.
    fn poll(&mut self, frames: &mut UnboundedReceiver<RpcFrame>, cx: &mut Context<'_>) -> io::Result<usize> {
        let mut written = 0;
        loop {
            if self.buffer.is_empty() {
                written += std::mem::take(&mut self.taken);
                while self.buffer.len() < CHUNK_BYTES
                    && let Poll::Ready(Some(frame)) = frames.poll_next_unpin(cx)
                {
                    self.buffer.reserve(frame.encoded_len() + PREFIX_BYTES_MAX);
                    wire::encode_frame(frame.rpc(), &mut self.buffer);
                    self.taken += 1;
                }
                if self.buffer.is_empty() {
                    // An idle connection keeps no buffer.
                    self.buffer = BytesMut::new();
                    break;
                }
            }
            match Pin::new(&mut self.stream).poll_write(cx, &self.buffer)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => {
                    self.buffer.advance(count);
                    self.unflushed = true;
                }
                Poll::Pending => return Ok(written),
            }
        }
        if self.unflushed && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.unflushed = false;
        }
        Ok(written)
    }

    /// An error if the peer has closed the stream. One that cannot read a frame does (rust-libp2p), without a reset: what is
    /// written from then on is taken as long as there is a window, and read by nobody.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match Pin::new(&mut self.stream).poll_read(cx, &mut [0])? {
            Poll::Pending => Ok(()),
            Poll::Ready(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            // Frames come on streams that the peer opens.
            Poll::Ready(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

enum ReadError {
    Closed(String),
    Malformed(WireError),
}

#[derive(Debug)]
struct Reader {
    stream: Stream,
    decoder: FrameDecoder,
    chunk: Vec<u8>,
    /// What of the chunk was read, but not yet cut into frames.
    pending: Range<usize>,
}

impl Reader {
    fn new(stream: Stream, frame_bytes_max: usize) -> Self {
        Self { stream, decoder: FrameDecoder::new(frame_bytes_max), chunk: Vec::new(), pending: 0..0 }
    }

    fn poll(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<Result<RpcFrame, ReadError>> {
        loop {
            let mut pending = &self.chunk[self.pending.clone()];
            let next = self.decoder.next(&mut pending);
            self.pending.start = self.pending.end - pending.len();
            match next {
                Err(error) => return Poll::Ready(Err(ReadError::Malformed(error))),
                Ok(Some(frame)) => {
                    let rpc = wire::decode(frame, limits).map(RpcFrame::new);
                    return Poll::Ready(rpc.map_err(ReadError::Malformed));
                }
                Ok(None) => {}
            }
            match self.chunk.len() {
                0 => self.chunk.resize(FIRST_CHUNK_BYTES, 0),
                // The last read filled it: there is more behind.
                len if self.pending.end == len => self.chunk.resize(CHUNK_BYTES, 0),
                _ => {}
            }
            self.pending = 0..0;
            match Pin::new(&mut self.stream).poll_read(cx, &mut self.chunk) {
                Poll::Pending => {
                    // An idle connection keeps no buffer.
                    if self.decoder.is_between_frames() {
                        self.chunk = Vec::new();
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => {
                    let cut =
                        if self.decoder.is_between_frames() { "closed" } else { "closed inside a frame" };
                    return Poll::Ready(Err(ReadError::Closed(cut.to_owned())));
                }
                Poll::Ready(Ok(count)) => self.pending = 0..count,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(ReadError::Closed(error.to_string())));
                }
            }
        }
    }
}

/// Offers protocols; the output is the stream and which of them it speaks.
#[derive(Clone, Debug)]
pub struct Offer(pub(crate) Arc<[StreamProtocol]>);

impl UpgradeInfo for Offer {
    type Info = StreamProtocol;
    type InfoIter = Vec<StreamProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.to_vec()
    }
}

impl InboundUpgrade<Stream> for Offer {
    type Output = (Stream, StreamProtocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_inbound(self, stream: Stream, protocol: StreamProtocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}

impl OutboundUpgrade<Stream> for Offer {
    type Output = (Stream, StreamProtocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_outbound(self, stream: Stream, protocol: StreamProtocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}
