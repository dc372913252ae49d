//! gRPC for links and gateways: connections, servers, services and the codec of frames.
//!
//! A connection is made once. To reconnect, the caller dials again.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{Response, Uri};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper::server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use samara_mix::MixFrame;
use samara_mix::wire::{self, Limits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};
use tonic_prost::{ProstDecoder, ProstEncoder};
use tower_service::Service;

use super::node::Tally;
use super::options::{Sockets, Windows};
use super::proto::Ack;
use super::quota::{Exhausted, Part, Quota};
use crate::identity::{Fingerprint, SERVER_NAME};
use crate::link::{accept, host, set_up};
use crate::status::Closed;

/// The application protocol of all connections.
pub(super) const ALPN: &[u8] = b"h2";
/// Bytes of a stream that HTTP/2 holds and has not written: nothing can overtake them any more.
const SEND_BUFFER: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Dial {
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) sockets: Sockets,
    pub(super) windows: Windows,
    pub(super) timeout: Duration,
}

/// A connection, cheap to clone. It ends when [`Driven`] is dropped.
#[derive(Clone, Debug)]
pub(super) struct Wire(http2::SendRequest<Body>);

#[derive(Debug)]
pub(super) struct Driven(JoinHandle<Result<(), hyper::Error>>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Driven {
    /// Waits until the other side or an error ends the connection, and returns the cause.
    pub(super) async fn ended(&mut self) -> Closed {
        match (&mut self.0).await {
            Ok(Ok(())) => Closed::ended("the peer hung up"),
            Ok(Err(error)) => Closed::Ended(reasons(&error)),
            Err(error) => Closed::ended(error),
        }
    }
}

/// Formats an error with its sources: hyper and tonic name only the last step.
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
    pub(super) async fn connect(&self) -> Result<(Wire, Driven), Closed> {
        timeout(self.timeout, self.shake()).await.map_err(|_| Closed::HandshakeTimeout)?
    }

    async fn shake(&self) -> Result<(Wire, Driven), Closed> {
        let unreachable = |error: std::io::Error| Closed::Unreachable(error.to_string());
        let failed = |error: std::io::Error| Closed::Handshake(reasons(&error));
        let stream = TcpStream::connect(self.address).await.map_err(unreachable)?;
        set_up(&stream, self.sockets.not_sent_bytes).map_err(failed)?;
        let name = ServerName::try_from(SERVER_NAME).map_err(Closed::handshake)?;
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

impl Wire {
    pub(super) async fn ready(&self) -> Result<Grpc<Self>, Status> {
        let origin = Uri::builder().scheme("https").authority(SERVER_NAME).path_and_query("/").build();
        let mut grpc = Grpc::with_origin(self.clone(), origin.unwrap_or_default());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }
}

impl Service<http::Request<Body>> for Wire {
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

pub(super) trait Answers: Clone + Send + Sync + 'static {
    fn answer(self, request: http::Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

pub(super) struct Listening {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) sockets: Sockets,
    pub(super) windows: Windows,
    pub(super) timeout: Duration,
    pub(super) pending_max: usize,
    pub(super) connections_max: usize,
    pub(super) connections_per_address_max: usize,
    /// Maximum concurrent calls of a connection.
    pub(super) calls_max: u32,
    /// Time without a call after which the connection is closed; `None` for never.
    pub(super) idle_timeout: Option<Duration>,
    pub(super) tally: Tally,
}

/// The host of the address that a call comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin(pub(super) IpAddr);

/// The cause in metrics of connections beyond the limit of an address.
const ADDRESS_FULL: &str = "address_full";

impl Listening {
    /// Serves connections concurrently, within the limits. All of them end when the future is
    /// dropped.
    pub(super) async fn serve<S: Answers>(self, listener: TcpListener, service: S) {
        let this = Arc::new(self);
        let places = Quota::new(this.connections_max, this.connections_per_address_max);
        let pending = Arc::new(Semaphore::new(this.pending_max));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = accept(Some(&listener)) => {
                    let Some((stream, from)) = accepted else { continue };
                    let origin = Origin(host(from.ip()));
                    let mut place = places.part(origin.0);
                    let handshake = Arc::clone(&pending).try_acquire_owned();
                    let handshake = match (place.grow(1), handshake) {
                        (Ok(()), Ok(handshake)) => handshake,
                        (Err(Exhausted::Address), _) => {
                            this.tally.count(ADDRESS_FULL);
                            continue;
                        }
                        _ => {
                            this.tally.count(Closed::Full.name());
                            continue;
                        }
                    };
                    let (this, service) = (Arc::clone(&this), service.clone());
                    connections.spawn(async move {
                        let secured = timeout(this.timeout, this.secure(stream)).await;
                        drop(handshake);
                        match secured.unwrap_or(Err(Closed::HandshakeTimeout)) {
                            Ok((stream, caller)) => this.answer(stream, caller, origin, service).await,
                            Err(why) => {
                                tracing::debug!(%from, %why, "refused a connection");
                                this.tally.count(why.name());
                            }
                        }
                        drop(place);
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn secure(&self, stream: TcpStream) -> Result<(TlsStream<TcpStream>, Fingerprint), Closed> {
        let failed = |error: std::io::Error| Closed::Handshake(reasons(&error));
        set_up(&stream, self.sockets.not_sent_bytes).map_err(failed)?;
        let stream = TlsAcceptor::from(Arc::clone(&self.tls)).accept(stream).await.map_err(failed)?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(|chain| chain.first());
        let certificate = certificate.ok_or_else(|| Closed::handshake("the peer shows no certificate"))?;
        let caller = Fingerprint::of(certificate);
        Ok((stream, caller))
    }

    /// Answers the requests of a connection until it ends, or has been idle for too long. The
    /// windows bound incoming data.
    async fn answer<S: Answers>(
        &self,
        stream: TlsStream<TcpStream>,
        caller: Fingerprint,
        origin: Origin,
        service: S,
    ) {
        let mut server = server::conn::http2::Builder::new(TokioExecutor::new());
        server
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.calls_max)
            .keep_alive_interval(self.sockets.keepalive)
            .keep_alive_timeout(self.sockets.keepalive);
        match self.windows {
            Windows::Adaptive => server.adaptive_window(true),
            Windows::Fixed { stream, connection } => {
                server.initial_stream_window_size(stream).initial_connection_window_size(connection)
            }
        };
        let calls = watch::Sender::new(0);
        let open = calls.subscribe();
        let service = service_fn(move |request: http::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(origin);
            let (service, call) = (service.clone(), OpenCall::new(&calls));
            async move {
                let answer = service.answer(request).await;
                Ok::<_, Infallible>(answer.map(|body| Body::new(Answer { body, _call: call })))
            }
        });
        tokio::select! {
            ended = server.serve_connection(TokioIo::new(stream), service) => if let Err(error) = ended {
                tracing::debug!(error = reasons(&error), "a connection ended");
            },
            () = idle(open, self.idle_timeout) => {
                tracing::debug!(%caller, "closed an idle connection");
                self.tally.count(Closed::Idle.name());
            }
        }
    }
}

/// Waits until no call has been open for a time.
async fn idle(mut open: watch::Receiver<usize>, timeout: Option<Duration>) {
    let Some(timeout) = timeout else { return std::future::pending().await };
    loop {
        match tokio::time::timeout(timeout, open.changed()).await {
            Err(_) if *open.borrow() == 0 => return,
            // The connection is about to end.
            Ok(Err(_)) => return std::future::pending().await,
            _ => {}
        }
    }
}

/// A call that counts as open until it is dropped.
struct OpenCall(watch::Sender<usize>);

impl OpenCall {
    fn new(calls: &watch::Sender<usize>) -> Self {
        calls.send_modify(|calls| *calls += 1);
        Self(calls.clone())
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls -= 1);
    }
}

/// The body of an answer. The call is open until the last part has left.
struct Answer {
    body: Body,
    _call: OpenCall,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(super) fn unimplemented() -> Response<Body> {
    Status::new(Code::Unimplemented, "unknown method").into_http()
}

/// Returns the caller, as authenticated by TLS.
pub(super) fn caller<T>(request: &tonic::Request<T>) -> Result<Fingerprint, Status> {
    let caller = request.extensions().get::<Fingerprint>();
    caller.copied().ok_or_else(|| Status::unauthenticated("the caller shows no certificate"))
}

/// The body of a request whose bytes count toward a quota until the call ends.
pub(super) struct Metered {
    body: Body,
    part: Part,
    refused: Tally,
}

impl Metered {
    pub(super) const fn new(body: Body, part: Part, refused: Tally) -> Self {
        Self { body, part, refused }
    }
}

impl hyper::body::Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let what = match self.part.grow(bytes) {
                Ok(()) => return polled,
                Err(Exhausted::All) => "waiting",
                Err(Exhausted::Address) => "waiting_address",
            };
            self.refused.count(what);
            let status = Status::resource_exhausted("too many payloads are arriving; try again later");
            return Poll::Ready(Some(Err(status)));
        }
        polled
    }
}

/// The codec of the side that sends frames, and receives one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sending;

/// The codec of the side that receives frames, within limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiving(pub(super) Limits);

impl Codec for Sending {
    type Encode = MixFrame;
    type Decode = Ack;
    type Encoder = Self;
    type Decoder = ProstDecoder<Ack>;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> ProstDecoder<Ack> {
        ProstDecoder::new(BufferSettings::default())
    }
}

impl Codec for Receiving {
    type Encode = Ack;
    type Decode = (MixFrame, usize);
    type Encoder = ProstEncoder<Ack>;
    type Decoder = Self;

    fn encoder(&mut self) -> ProstEncoder<Ack> {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Sending {
    type Item = MixFrame;
    type Error = Status;

    fn encode(&mut self, frame: MixFrame, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        wire::encode(&frame, into);
        Ok(())
    }
}

impl Decoder for Receiving {
    type Item = (MixFrame, usize);
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<(MixFrame, usize)>, Status> {
        let len = from.remaining();
        let frame = wire::decode(from.copy_to_bytes(len), &self.0);
        frame.map(|frame| Some((frame, len))).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
