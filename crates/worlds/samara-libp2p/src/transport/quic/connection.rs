//! Handshakes, connections and their streams.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite, FutureExt};
use libp2p::PeerId;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use quinn::{ConnectionError, RecvStream, SendStream, VarInt};
use tokio::io::ReadBuf;

use super::config::peer_of;
use super::flow::Flow;
use super::{Error, UNSENT_BYTES};
use crate::transport::registry::{Ends, Meters, Registered};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handshake, in either direction.
pub(super) type Handshake = BoxFuture<Result<(PeerId, Connection), Error>>;

type Opened = Result<(SendStream, RecvStream), ConnectionError>;

/// The application error code of a connection that its end closes, as in libp2p's own QUIC.
const CLOSED: VarInt = VarInt::from_u32(0);

/// A QUIC connection, registered until it is dropped.
pub struct Connection {
    connection: quinn::Connection,
    flow: Arc<Flow>,
    /// A stream of the peer, one of this node and the end that are waited for.
    inbound: Option<BoxFuture<Opened>>,
    outbound: Option<BoxFuture<Opened>>,
    closed: Option<BoxFuture<ConnectionError>>,
    _registered: Registered,
}

/// Waits for the end of a handshake, and registers the connection.
pub(super) async fn shake_hands(
    connecting: quinn::Connecting,
    timeout: Duration,
    flow: Arc<Flow>,
    ends: Ends,
    meters: Meters,
) -> Result<(PeerId, Connection), Error> {
    let connection =
        tokio::time::timeout(timeout, connecting).await.map_err(|_| Error::Timeout(timeout))??;
    let peer = peer_of(&connection).ok_or(Error::NoPeer)?;
    if let Ends::Outbound { peer: Some(expected), .. } = ends
        && expected != peer
    {
        connection.close(CLOSED, b"wrong peer");
        return Err(Error::WrongPeer { expected: Box::new(expected), found: Box::new(peer) });
    }
    flow.established(connection.rtt(), connection.min_rtt());
    let registered = meters.register(ends, Arc::downgrade(&flow) as _);
    let connection =
        Connection { connection, flow, inbound: None, outbound: None, closed: None, _registered: registered };
    Ok((peer, connection))
}

impl Connection {
    #[cfg(test)]
    pub(super) fn flow(&self) -> &Arc<Flow> {
        &self.flow
    }

    fn stream(&self, (send, receive): (SendStream, RecvStream)) -> Stream {
        Stream { send, receive, connection: self.connection.clone(), flow: Arc::clone(&self.flow) }
    }
}

impl StreamMuxer for Connection {
    type Substream = Stream;
    type Error = Error;

    fn poll_inbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Stream, Error>> {
        let Self { connection, inbound, .. } = &mut *self;
        let waiting = inbound.get_or_insert_with(|| {
            let connection = connection.clone();
            async move { connection.accept_bi().await }.boxed()
        });
        let opened = ready!(waiting.poll_unpin(cx));
        self.inbound = None;
        Poll::Ready(Ok(self.stream(opened?)))
    }

    fn poll_outbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Stream, Error>> {
        let Self { connection, outbound, .. } = &mut *self;
        let waiting = outbound.get_or_insert_with(|| {
            let connection = connection.clone();
            async move { connection.open_bi().await }.boxed()
        });
        let opened = ready!(waiting.poll_unpin(cx));
        self.outbound = None;
        Poll::Ready(Ok(self.stream(opened?)))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let connection = self.connection.clone();
        let closed = self.closed.get_or_insert_with(|| {
            connection.close(CLOSED, &[]);
            async move { connection.closed().await }.boxed()
        });
        // The cause of the end does not matter.
        ready!(closed.poll_unpin(cx));
        // A future that has finished must not be polled again, and a muxer may be.
        self.closed = Some(std::future::ready(ConnectionError::LocallyClosed).boxed());
        Poll::Ready(Ok(()))
    }

    /// Reports nothing: connections keep their addresses.
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, Error>> {
        Poll::Pending
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("remote", &self.connection.remote_address())
            .finish_non_exhaustive()
    }
}

/// A stream of a [`Connection`], in both directions.
#[derive(Debug)]
pub struct Stream {
    send: SendStream,
    receive: RecvStream,
    connection: quinn::Connection,
    flow: Arc<Flow>,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.receive).poll_read_buf(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { send, connection, flow, .. } = &mut *self;
        if let Some(window) = flow.new_send_window(UNSENT_BYTES) {
            connection.set_send_window(window);
        }
        let mut result = Poll::Pending;
        flow.write(bytes.len(), || {
            result = Pin::new(send).poll_write(cx, bytes);
            if let Poll::Ready(Ok(taken)) = result { taken } else { 0 }
        });
        result.map_err(io::Error::from)
    }

    /// Does nothing: quinn sends what it takes as soon as the window lets it.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the direction of this node. The peer still gets what was written. A stream that is
    /// dropped ends in the same way.
    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An error says that it has ended already.
        let _ = self.send.finish();
        Poll::Ready(Ok(()))
    }
}
