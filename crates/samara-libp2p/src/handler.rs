//! One connection: its negotiation, the outbound and inbound streams, and their frames.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

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

/// Maximum number of times that a stream is opened or accepted on one connection. Peers that keep
/// closing their streams are left alone.
const ATTEMPTS_MAX: u32 = 5;
/// The time after which the swarm gives up the negotiation of a stream, without a word to handlers
/// (the default of [`ConnectionHandler`]s).
const NEGOTIATION_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes of one read, and of small frames written together.
const CHUNK_BYTES: usize = 64 << 10;
/// Number of bytes of the first read. Most wake-ups deliver less, and a buffer must be cleared
/// before it is read into.
const FIRST_CHUNK_BYTES: usize = 8 << 10;
/// Maximum number of bytes of the length prefix of a frame.
const PREFIX_BYTES_MAX: usize = 10;

/// An event that a connection reports to the behaviour.
#[derive(Debug)]
pub enum FromHandler {
    /// The first stream was negotiated, and the peer speaks this protocol.
    Protocol(StreamProtocol),
    /// The peer speaks none of the protocols.
    NotSupported,
    Writable,
    /// The peer opened a further stream for its frames.
    OpenedAgain,
    /// The stream for frames broke, with this number of accepted frames.
    Broken(usize),
    /// No further stream for frames will be opened, because the peer keeps closing it.
    GaveUp,
    Written(usize),
    Frame(RpcFrame),
    /// The peer sent an invalid frame.
    Malformed(WireError),
}

#[derive(Debug)]
enum Outbound {
    Wanted,
    Opening,
    Open(Writer),
    /// Closed for good.
    Closed,
}

/// Reads and writes the frames of one connection.
#[derive(Debug)]
pub struct Handler {
    offer: Offer,
    limits: Arc<Limits>,
    /// Frames to write. The behaviour limits their bytes.
    frames: UnboundedReceiver<RpcFrame>,
    outbound: Outbound,
    outbound_attempts: u32,
    inbound: Option<Reader>,
    inbound_attempts: u32,
    /// The time at which the connection was established.
    since: Instant,
    protocol_reported: bool,
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
            since: Instant::now(),
            protocol_reported: false,
            events: VecDeque::new(),
        }
    }

    fn report_protocol(&mut self, protocol: StreamProtocol) {
        if !self.protocol_reported {
            self.protocol_reported = true;
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
                tracing::debug!(%error, "the outbound stream for frames broke");
                let mut taken = writer.taken;
                // No later stream writes these frames, because it starts without them.
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
                tracing::debug!(error, "the inbound stream for frames closed");
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

    /// Keeps a connection as long as frames can travel in either direction.
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
                    tracing::debug!("closed a stream beyond the limit of one connection");
                    return;
                }
                self.report_protocol(protocol);
                let is_late = self.since.elapsed() > NEGOTIATION_MAX;
                if self.inbound_attempts > 1 || is_late {
                    self.events.push_back(FromHandler::OpenedAgain);
                }
                // A new stream replaces the old one, as in other implementations.
                self.inbound = Some(Reader::new(stream, self.limits.frame_bytes));
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: (stream, protocol),
                ..
            }) => {
                self.report_protocol(protocol);
                self.outbound = Outbound::Open(Writer::new(stream));
                self.events.push_back(FromHandler::Writable);
            }
            ConnectionEvent::DialUpgradeError(failed) => {
                if matches!(failed.error, StreamUpgradeError::NegotiationFailed) {
                    self.outbound = Outbound::Closed;
                    if !self.protocol_reported {
                        self.events.push_back(FromHandler::NotSupported);
                    }
                } else {
                    tracing::debug!(error = %failed.error, "failed to open a stream for frames");
                    self.outbound_lost();
                }
            }
            _ => {}
        }
    }
}

/// The outbound stream. Small frames share a write.
#[derive(Debug)]
struct Writer {
    stream: Stream,
    buffer: BytesMut,
    /// Number of frames in the buffer, including partly written ones.
    taken: usize,
    unflushed: bool,
}

impl Writer {
    fn new(stream: Stream) -> Self {
        Self { stream, buffer: BytesMut::new(), taken: 0, unflushed: false }
    }

    /// Writes as much as possible. Returns the number of completely written frames.
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
                    // An idle connection holds no buffer.
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

    /// Returns an error if the peer has closed the stream. rust-libp2p closes it, without a reset,
    /// when it cannot read a frame. Later writes then succeed as long as there is a window, but
    /// nobody reads them.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match Pin::new(&mut self.stream).poll_read(cx, &mut [0])? {
            Poll::Pending => Ok(()),
            Poll::Ready(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            // Frames arrive only on streams that the peer opens.
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
    /// The part of the chunk that was read but not yet cut into frames.
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
                // The last read filled the chunk, so there is more to read.
                len if self.pending.end == len => self.chunk.resize(CHUNK_BYTES, 0),
                _ => {}
            }
            self.pending = 0..0;
            match Pin::new(&mut self.stream).poll_read(cx, &mut self.chunk) {
                Poll::Pending => {
                    // An idle connection holds no buffer.
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

/// Offers protocols. The output is the stream and its negotiated protocol.
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
