//! Listening: connections whose TLS is done are handed to HTTP/2.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::identity::Fingerprint;
use super::options::{Sockets, Windows};
use super::status::{Closed, Tally};
use super::wire::{reasons, set_up};

/// Who is at the other end of a connection, proved by TLS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) fingerprint: Fingerprint,
}

/// A connection whose TLS is done.
pub(super) struct Secured {
    stream: TlsStream<TcpStream>,
    caller: Caller,
    /// Its place among the connections that there may be.
    _place: OwnedSemaphorePermit,
}

/// How to listen.
#[derive(Clone)]
pub(super) struct Listening {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) sockets: Sockets,
    pub(super) windows: Windows,
    pub(super) timeout: Duration,
    pub(super) pending_max: usize,
    pub(super) connections_max: usize,
    /// Calls of a connection at the same time.
    pub(super) calls_max: u32,
    pub(super) tally: Tally,
}

impl Listening {
    /// The server of HTTP/2 as this one wants it. The windows are those of what comes in.
    pub(super) fn server(&self) -> Server {
        let server = Server::builder()
            .max_concurrent_streams(self.calls_max)
            .http2_keepalive_interval(Some(self.sockets.keepalive))
            .http2_keepalive_timeout(Some(self.sockets.keepalive));
        match self.windows {
            Windows::Adaptive => server.http2_adaptive_window(Some(true)),
            Windows::Fixed { stream, connection } => {
                server.initial_stream_window_size(stream).initial_connection_window_size(connection)
            }
        }
    }

    /// Takes connections, as many as may be, and does TLS with many at once, until nobody wants them any more.
    pub(super) async fn accept(
        self,
        listener: TcpListener,
        secured: mpsc::Sender<Result<Secured, std::io::Error>>,
    ) {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let mut handshakes = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => self.greet(stream, from, &places, &secured, &mut handshakes),
                    // Out of file descriptors, perhaps: trying again at once would only burn time.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Some(_) = handshakes.join_next() => {}
                () = secured.closed() => return,
            }
        }
    }

    fn greet(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        places: &Arc<Semaphore>,
        secured: &mpsc::Sender<Result<Secured, std::io::Error>>,
        handshakes: &mut JoinSet<()>,
    ) {
        let place = Arc::clone(places).try_acquire_owned();
        let (Ok(place), true) = (place, handshakes.len() < self.pending_max) else {
            return self.tally.count(Closed::Full.name());
        };
        let (this, secured) = (self.clone(), secured.clone());
        handshakes.spawn(async move {
            let greeted = timeout(this.timeout, this.secure(stream, place)).await;
            match greeted.unwrap_or(Err(Closed::HandshakeTimeout)) {
                // Fails only if this one ends.
                Ok(connection) => drop(secured.send(Ok(connection)).await),
                Err(why) => {
                    tracing::debug!(from = %IpAddr::to_canonical(&from.ip()), %why, "a connection was refused");
                    this.tally.count(why.name());
                }
            }
        });
    }

    async fn secure(&self, stream: TcpStream, place: OwnedSemaphorePermit) -> Result<Secured, Closed> {
        let failed = |error: std::io::Error| Closed::Handshake(reasons(&error));
        set_up(&stream, &self.sockets).map_err(failed)?;
        let stream = TlsAcceptor::from(Arc::clone(&self.tls)).accept(stream).await.map_err(failed)?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(|chain| chain.first());
        let certificate = certificate.ok_or_else(|| Closed::Handshake("no certificate".to_owned()))?;
        let caller = Caller { fingerprint: Fingerprint::of(certificate) };
        Ok(Secured { stream, caller, _place: place })
    }
}

impl Connected for Secured {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
