//! A TCP connection that can be read while it is used.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use crate::transport::registry::{Ends, Meters, Registered};

/// A TCP connection, registered until it is dropped.
#[derive(Debug)]
pub struct Stream {
    socket: Arc<Socket>,
    _registered: Option<Registered>,
}

/// The socket. The connection owns it, and the registry has a weak reference, so no reading can
/// meet a descriptor that was closed and used again.
#[derive(Debug)]
struct Socket(Mutex<State>);

#[derive(Debug)]
struct State {
    stream: TcpStream,
    /// Bytes that the socket has taken.
    written: u64,
    #[cfg(target_os = "linux")]
    round_trips: super::info::RoundTrips,
}

impl Stream {
    pub(super) fn new(stream: TcpStream, ends: Option<Ends>, meters: &Meters) -> Self {
        let socket = Arc::new(Socket(Mutex::new(State {
            stream,
            written: 0,
            #[cfg(target_os = "linux")]
            round_trips: super::info::RoundTrips::default(),
        })));
        let registered = ends.and_then(|ends| register(&socket, ends, meters));
        Self { socket, _registered: registered }
    }

    /// Locks the socket. A reading takes a microsecond.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.socket.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(target_os = "linux")]
fn register(socket: &Arc<Socket>, ends: Ends, meters: &Meters) -> Option<Registered> {
    let state = socket.0.lock().unwrap_or_else(PoisonError::into_inner);
    let options = socket2::SockRef::from(&state.stream);
    if let Err(error) = options.set_tcp_notsent_lowat(super::NOTSENT_BYTES) {
        tracing::debug!(%error, "cannot set TCP_NOTSENT_LOWAT");
    }
    // Sandboxes such as gVisor have no TCP_INFO, or less of it.
    if let Err(error) = super::info::Info::read(&state.stream) {
        tracing::debug!(%error, "cannot read TCP_INFO");
        return None;
    }
    drop(state);
    let meter: std::sync::Weak<Socket> = Arc::downgrade(socket);
    Some(meters.register(ends, meter))
}

#[cfg(not(target_os = "linux"))]
fn register(_socket: &Arc<Socket>, _ends: Ends, _meters: &Meters) -> Option<Registered> {
    None
}

#[cfg(target_os = "linux")]
impl crate::transport::Meter for Socket {
    fn read(&self) -> Option<crate::transport::Reading> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let info = super::info::Info::read(&state.stream).ok()?;
        let round_trip = state.round_trips.next(&info);
        Some(info.reading(state.written, round_trip))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.lock().stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        let written = ready!(Pin::new(&mut state.stream).poll_write(cx, bytes))?;
        state.written += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        let written = ready!(Pin::new(&mut state.stream).poll_write_vectored(cx, parts))?;
        state.written += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_shutdown(cx)
    }
}
