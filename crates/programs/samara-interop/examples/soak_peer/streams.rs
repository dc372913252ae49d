//! Connections whose streams can be reset from outside.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures::{AsyncRead, AsyncWrite};
use libp2p::PeerId;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};

/// All streams that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<Vec<Open>>>);

/// An open stream and its peer.
type Open = (PeerId, Weak<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Streams {
    pub(crate) fn wrap<M>(&self, peer: PeerId, muxer: M) -> Muxer<M> {
        Muxer { inner: Box::pin(muxer), peer, streams: self.clone() }
    }

    /// Resets all streams except those with some peers.
    pub(crate) fn reset(&self, except: &[PeerId]) {
        let streams = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (kept, reset): (Vec<_>, Vec<_>) =
            streams.into_iter().partition(|(peer, _)| except.contains(peer));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
        for state in reset.iter().filter_map(|(_, state)| state.upgrade()) {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_reset = true;
            let wakers = [state.reader.take(), state.writer.take()];
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }

    fn add<S>(&self, peer: PeerId, stream: S) -> Stream<S> {
        let state = Arc::default();
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|(_, state)| state.strong_count() > 0);
        streams.push((peer, Arc::downgrade(&state)));
        Stream { inner: Some(Box::pin(stream)), state }
    }
}

pub(crate) struct Muxer<M> {
    inner: Pin<Box<M>>,
    peer: PeerId,
    streams: Streams,
}

impl<M: StreamMuxer> StreamMuxer for Muxer<M> {
    type Substream = Stream<M::Substream>;
    type Error = M::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, M::Error>> {
        let opened = self.inner.as_mut().poll_inbound(cx);
        opened.map_ok(|stream| self.streams.add(self.peer, stream))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, M::Error>> {
        let opened = self.inner.as_mut().poll_outbound(cx);
        opened.map_ok(|stream| self.streams.add(self.peer, stream))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), M::Error>> {
        self.inner.as_mut().poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, M::Error>> {
        self.inner.as_mut().poll(cx)
    }
}

pub(crate) struct Stream<S> {
    /// `None` after a reset: dropping the stream resets it.
    inner: Option<Pin<Box<S>>>,
    state: Arc<Mutex<State>>,
}

impl<S> Stream<S> {
    /// Returns the stream, unless it was reset. The waker is stored by `keep`.
    fn alive(&mut self, keep: impl FnOnce(&mut State)) -> io::Result<Pin<&mut S>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_reset {
            self.inner = None;
        }
        keep(&mut state);
        drop(state);
        match &mut self.inner {
            Some(stream) => Ok(stream.as_mut()),
            None => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl<S: AsyncRead> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.alive(|state| state.reader = Some(cx.waker().clone()))?.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.alive(|state| state.writer = Some(cx.waker().clone()))?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive(|state| state.writer = Some(cx.waker().clone()))?.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive(|_| ())?.poll_close(cx)
    }
}
