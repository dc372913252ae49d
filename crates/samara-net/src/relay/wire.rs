//! A connection to the server of another one, on which calls are made. There is no second attempt here: whoever wants one dials again.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::body::Body;
use tonic::client::Grpc;

use super::identity::SERVER_NAME;
use super::options::{Sockets, Windows};
use super::status::Closed;

/// Bytes of a stream that HTTP/2 holds and has not written: what is in there can no longer be overtaken.
const SEND_BUFFER: usize = 64 << 10;

/// How to dial.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) sockets: Sockets,
    pub(super) windows: Windows,
    pub(super) timeout: Duration,
}

/// A connection; cheap to clone. It ends when [`Driven`] is dropped.
#[derive(Clone, Debug)]
pub(super) struct Wire(http2::SendRequest<Body>);

/// The task of a connection.
#[derive(Debug)]
pub(super) struct Driven(JoinHandle<Result<(), hyper::Error>>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Driven {
    /// Waits until the connection ends by itself: why.
    pub(super) async fn ended(&mut self) -> Closed {
        match (&mut self.0).await {
            Ok(Ok(())) => Closed::Ended("the other side hung up".to_owned()),
            Ok(Err(error)) => Closed::Ended(reasons(&error)),
            Err(error) => Closed::Ended(error.to_string()),
        }
    }
}

/// An error with what is behind it: hyper and tonic name only the last step.
pub(super) fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

impl Dial {
    /// Connects.
    pub(super) async fn connect(&self) -> Result<(Wire, Driven), Closed> {
        timeout(self.timeout, self.shake()).await.map_err(|_| Closed::HandshakeTimeout)?
    }

    async fn shake(&self) -> Result<(Wire, Driven), Closed> {
        let unreachable = |error: std::io::Error| Closed::Unreachable(error.to_string());
        let failed = |error: std::io::Error| Closed::Handshake(reasons(&error));
        let stream = TcpStream::connect(self.address).await.map_err(unreachable)?;
        set_up(&stream, &self.sockets).map_err(failed)?;
        let name = ServerName::try_from(SERVER_NAME).map_err(|error| Closed::Handshake(error.to_string()))?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await.map_err(failed)?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(self.sockets.keepalive)
            .keep_alive_timeout(self.sockets.keepalive)
            .keep_alive_while_idle(true);
        match self.windows {
            Windows::Adaptive => builder.adaptive_window(true),
            Windows::Fixed { stream, connection } => {
                builder.initial_stream_window_size(stream).initial_connection_window_size(connection)
            }
        };
        let (send, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Closed::Handshake(reasons(&error)))?;
        Ok((Wire(send), Driven(tokio::spawn(connection))))
    }
}

/// Sets what both sides of a connection want of their sockets.
pub(super) fn set_up(stream: &TcpStream, sockets: &Sockets) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    SockRef::from(stream).set_tcp_notsent_lowat(sockets.not_sent_bytes)?;
    #[cfg(not(target_os = "linux"))]
    let _ = (sockets, SockRef::from(stream));
    Ok(())
}

impl Wire {
    /// To make calls with.
    pub(super) fn grpc(&self) -> Grpc<Self> {
        let origin = Uri::builder().scheme("https").authority(SERVER_NAME).path_and_query("/").build();
        Grpc::with_origin(self.clone(), origin.unwrap_or_default())
    }
}

impl tower_service::Service<http::Request<Body>> for Wire {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
