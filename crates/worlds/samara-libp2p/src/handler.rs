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
use samara_gossipsub::wire::{self, FrameDecoder, Limits};

use crate::event::FrameError;
use crate::unfinished::{Memory, Unfinished};

/// The time after which the swarm gives up the negotiation of a stream, without a word to handlers
/// (the default of [`ConnectionHandler`]s).
const NEGOTIATION_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes of one read, and of small frames written together.
const CHUNK_BYTES: usize = 64 << 10;
/// Number of bytes of the first read. Most wake-ups deliver less, and a buffer must be cleared
/// before it is read into.
const FIRST_CHUNK_BYTES: usize = 8 << 10;
/// Maximum number of bytes of the length prefix of a frame.
pub(crate) const PREFIX_BYTES_MAX: usize = 10;

/// Maximum number of streams of a peer that are read on one connection: the newest one, and the one
/// before, which may still have frames to read.
const READERS_MAX: usize = 2;

/// An order of the behaviour to a connection.
#[derive(Debug)]
pub enum ToHandler {
    /// Opens a stream with this number for these frames, in place of an earlier stream. The stream is
    /// closed when the sender of the frames is dropped and all of them are written.
    Open(u64, UnboundedReceiver<RpcFrame>),
}

/// An event that a connection reports to the behaviour. Numbers are those of [`ToHandler::Open`].
#[derive(Debug)]
pub enum FromHandler {
    /// The stream for frames is open.
    Opened(u64, StreamProtocol),
    /// The peer speaks none of the protocols.
    Refused(u64),
    /// The stream for frames broke with all frames that were not reported as written, or could not
    /// be opened.
    Broken(u64),
    Written(usize),
    /// The peer opened a stream. A late one may follow an attempt that failed unnoticed.
    TheirsOpened {
        protocol: StreamProtocol,
        is_late: bool,
    },
    /// No stream of the peer is open any more.
    TheirsEnded,
    /// A frame; whether it is the first of its stream.
    Frame(RpcFrame, bool),
    /// The peer sent an invalid frame, and its stream was closed.
    Malformed(FrameError),
}

#[derive(Debug)]
enum Outbound {
    Closed,
    Wanted(UnboundedReceiver<RpcFrame>),
    Opening(UnboundedReceiver<RpcFrame>),
    Open(Writer),
}

/// Reads and writes the frames of one connection.
#[derive(Debug)]
pub struct Handler {
    offer: Offer,
    limits: Arc<Limits>,
    memory: Arc<Memory>,
    outbound: Outbound,
    /// The number of the stream that is being opened, is open, or was open last.
    number: u64,
    /// The streams of the peer, oldest first.
    inbound: VecDeque<Reader>,
    /// The time at which the connection was established.
    since: Instant,
    events: VecDeque<FromHandler>,
}

impl Handler {
    pub(crate) fn new(protocols: Arc<[StreamProtocol]>, limits: Arc<Limits>, memory: Arc<Memory>) -> Self {
        Self {
            offer: Offer(protocols),
            limits,
            memory,
            outbound: Outbound::Closed,
            number: 0,
            inbound: VecDeque::new(),
            since: Instant::now(),
            events: VecDeque::new(),
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        let Outbound::Open(writer) = &mut self.outbound else { return };
        let written = writer.poll(cx).and_then(|written| {
            writer.poll_closed(cx)?;
            Ok(written)
        });
        match written {
            Ok((written, is_done)) => {
                if written > 0 {
                    self.events.push_back(FromHandler::Written(written));
                }
                if is_done {
                    self.outbound = Outbound::Closed;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the outbound stream for frames broke");
                // No later stream writes the frames that are left, because it starts without them.
                self.outbound = Outbound::Closed;
                self.events.push_back(FromHandler::Broken(self.number));
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) {
        let mut at = 0;
        while let Some(reader) = self.inbound.get_mut(at) {
            let error = match reader.poll(cx, &self.limits) {
                Poll::Pending => {
                    at += 1;
                    continue;
                }
                Poll::Ready(Ok(frame)) => {
                    let is_first = !std::mem::replace(&mut reader.has_begun, true);
                    self.events.push_back(FromHandler::Frame(frame, is_first));
                    return;
                }
                Poll::Ready(Err(error)) => error,
            };
            self.inbound.remove(at);
            match error {
                ReadError::Closed(error) => tracing::debug!(error, "the inbound stream for frames closed"),
                ReadError::Malformed(error) => self.events.push_back(FromHandler::Malformed(error)),
            }
            if self.inbound.is_empty() {
                self.events.push_back(FromHandler::TheirsEnded);
            }
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = ToHandler;
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
        !self.inbound.is_empty() || !matches!(self.outbound, Outbound::Closed)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Offer, (), FromHandler>> {
        if matches!(self.outbound, Outbound::Wanted(_))
            && let Outbound::Wanted(frames) = std::mem::replace(&mut self.outbound, Outbound::Closed)
        {
            self.outbound = Outbound::Opening(frames);
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
        match self.events.pop_front() {
            Some(event) => Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(event)),
            None => Poll::Pending,
        }
    }

    fn on_behaviour_event(&mut self, ToHandler::Open(number, frames): ToHandler) {
        // A stream that still writes its last frames does not outlive its successor.
        if matches!(self.outbound, Outbound::Open(_)) {
            self.events.push_back(FromHandler::Broken(self.number));
        }
        self.number = number;
        self.outbound = Outbound::Wanted(frames);
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Offer, Offer>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, protocol),
                ..
            }) => {
                let is_late = self.since.elapsed() > NEGOTIATION_MAX;
                self.events.push_back(FromHandler::TheirsOpened { protocol, is_late });
                if self.inbound.len() >= READERS_MAX {
                    self.inbound.pop_front();
                }
                let unfinished = Unfinished::new(Arc::clone(&self.memory));
                self.inbound.push_back(Reader::new(stream, self.limits.frame_bytes, unfinished));
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: (stream, protocol),
                ..
            }) => {
                if matches!(self.outbound, Outbound::Opening(_))
                    && let Outbound::Opening(frames) = std::mem::replace(&mut self.outbound, Outbound::Closed)
                {
                    self.outbound = Outbound::Open(Writer::new(stream, frames));
                    self.events.push_back(FromHandler::Opened(self.number, protocol));
                }
            }
            ConnectionEvent::DialUpgradeError(failed) => {
                self.outbound = Outbound::Closed;
                if matches!(failed.error, StreamUpgradeError::NegotiationFailed) {
                    self.events.push_back(FromHandler::Refused(self.number));
                } else {
                    tracing::debug!(error = %failed.error, "failed to open a stream for frames");
                    self.events.push_back(FromHandler::Broken(self.number));
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
    /// Frames to write. The behaviour limits their bytes.
    frames: UnboundedReceiver<RpcFrame>,
    buffer: BytesMut,
    /// Number of frames in the buffer, including partly written ones.
    taken: usize,
    unflushed: bool,
    /// Whether no more frames come.
    is_last: bool,
}

impl Writer {
    fn new(stream: Stream, frames: UnboundedReceiver<RpcFrame>) -> Self {
        Self { stream, frames, buffer: BytesMut::new(), taken: 0, unflushed: false, is_last: false }
    }

    /// Writes as much as possible. Returns the number of completely written frames, and whether the
    /// stream has been closed after its last one.
    fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<(usize, bool)> {
        let mut written = 0;
        loop {
            if self.buffer.is_empty() {
                written += std::mem::take(&mut self.taken);
                while self.buffer.len() < CHUNK_BYTES && !self.is_last {
                    match self.frames.poll_next_unpin(cx) {
                        Poll::Ready(Some(frame)) => {
                            self.buffer.reserve(frame.encoded_len() + PREFIX_BYTES_MAX);
                            wire::encode_frame(frame.rpc(), &mut self.buffer);
                            self.taken += 1;
                        }
                        Poll::Ready(None) => self.is_last = true,
                        Poll::Pending => break,
                    }
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
                Poll::Pending => return Ok((written, false)),
            }
        }
        if self.is_last {
            // Closing flushes.
            return Ok((written, Pin::new(&mut self.stream).poll_close(cx)?.is_ready()));
        }
        if self.unflushed && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.unflushed = false;
        }
        Ok((written, false))
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
    Malformed(FrameError),
}

#[derive(Debug)]
struct Reader {
    stream: Stream,
    decoder: FrameDecoder,
    chunk: Vec<u8>,
    /// The part of the chunk that was read but not yet cut into frames.
    pending: Range<usize>,
    unfinished: Unfinished,
    /// Whether a frame has arrived.
    has_begun: bool,
}

impl Reader {
    fn new(stream: Stream, frame_bytes_max: usize, unfinished: Unfinished) -> Self {
        let decoder = FrameDecoder::new(frame_bytes_max);
        Self { stream, decoder, chunk: Vec::new(), pending: 0..0, unfinished, has_begun: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<Result<RpcFrame, ReadError>> {
        loop {
            let mut pending = &self.chunk[self.pending.clone()];
            let next = self.decoder.next(&mut pending);
            self.pending.start = self.pending.end - pending.len();
            match next {
                Err(error) => return Poll::Ready(Err(ReadError::Malformed(error.into()))),
                Ok(Some(frame)) => {
                    self.unfinished.end();
                    let rpc = wire::decode(frame, limits).map(RpcFrame::new);
                    return Poll::Ready(rpc.map_err(|error| ReadError::Malformed(error.into())));
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
                Poll::Pending => return self.wait(cx),
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

    /// Waits for more bytes.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<RpcFrame, ReadError>> {
        if self.decoder.is_between_frames() {
            // An idle connection holds no buffer.
            self.chunk = Vec::new();
            return Poll::Pending;
        }
        let bytes = self.decoder.unfinished_bytes() + self.chunk.len();
        match self.unfinished.wait(bytes, self.decoder.expected_len(), Instant::now(), cx) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(ReadError::Malformed(error))),
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
