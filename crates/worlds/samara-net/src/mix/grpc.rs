//! gRPC for links and gateways: connections, servers, services and the codec of frames.
//!
//! A connection is made once. To reconnect, the caller dials again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures::future::{AbortHandle, AbortRegistration, Abortable};
use http::{Response, Uri};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper::server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use samara_engine::places::{Places, Refusal, Shares};
use samara_mix::MixFrame;
use samara_mix::wire::{self, Limits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
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
use super::quota::Part;
use crate::identity::{Fingerprint, SERVER_NAME};
use crate::link::{accept, set_up};
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
    pub(super) pending_shares: Shares,
    pub(super) connections_max: usize,
    /// The connections of a host, those in their handshake included. Each loopback address is a
    /// host.
    pub(super) shares: Shares,
    /// Maximum concurrent calls of a connection.
    pub(super) calls_max: u32,
    /// Time without a call after which the connection is closed; `None` for never.
    pub(super) idle_timeout: Option<Duration>,
    /// Time within which the caller must take each part of an answer; `None` for no limit.
    pub(super) send_timeout: Option<Duration>,
    pub(super) tally: Tally,
}

/// The connection that a call comes from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) ip: IpAddr,
    /// Number of its calls that receive announcements.
    pub(super) watches: Arc<AtomicU32>,
}

/// The connections of a server. One in its handshake can lose its place to a newcomer.
struct Doors {
    pending: Places<u64>,
    all: Places<u64>,
    tasks: BTreeMap<u64, AbortHandle>,
    last: u64,
}

impl Doors {
    /// Takes the places of a connection. Returns its number, and what ends its handshake.
    fn take(&mut self, from: IpAddr, tally: &Tally) -> Option<(u64, AbortRegistration)> {
        self.last += 1;
        let why = match self.all.take(self.last, Some(from)) {
            Err(Refusal::Prefix) => ADDRESS_FULL,
            Err(Refusal::All) => Closed::Full.name(),
            Ok(()) => match self.pending.take_or_evict(self.last, Some(from)) {
                Ok(evicted) => {
                    if let Some(evicted) = evicted {
                        tally.count(Closed::Evicted.name());
                        // Its task ends later.
                        self.all.free(&evicted);
                        self.tasks.remove(&evicted).inspect(AbortHandle::abort);
                    }
                    let (task, handle) = AbortHandle::new_pair();
                    self.tasks.insert(self.last, task);
                    return Some((self.last, handle));
                }
                Err(_) => {
                    self.all.free(&self.last);
                    ADDRESS_FULL
                }
            },
        };
        tally.count(why);
        None
    }
}

/// The places of a connection, free again when this is dropped.
struct Place {
    doors: Arc<Mutex<Doors>>,
    number: u64,
}

impl Place {
    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the handshake: the connection keeps its other place.
    fn secured(&self) {
        let mut doors = self.doors();
        doors.pending.free(&self.number);
        doors.tasks.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.secured();
        self.doors().all.free(&self.number);
    }
}

/// The cause in metrics of connections beyond the limit of an address.
const ADDRESS_FULL: &str = "address_full";

impl Listening {
    /// Serves connections concurrently, within the limits. All of them end when the future is
    /// dropped.
    pub(super) async fn serve<S: Answers>(self, listener: TcpListener, service: S) {
        let this = Arc::new(self);
        let doors = Arc::new(Mutex::new(Doors {
            pending: Places::new(this.pending_max, this.pending_shares),
            all: Places::new(this.connections_max, this.shares).with_loopback_shares(),
            tasks: BTreeMap::new(),
            last: 0,
        }));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = accept(Some(&listener)) => {
                    let Some((stream, from)) = accepted else { continue };
                    let origin = Origin { ip: from.ip(), watches: Arc::default() };
                    let mut open = doors.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some((number, handle)) = open.take(origin.ip, &this.tally) else { continue };
                    // A runtime that ends drops the task in `spawn`, and its place takes the lock.
                    drop(open);
                    let place = Place { doors: Arc::clone(&doors), number };
                    let (this, service) = (Arc::clone(&this), service.clone());
                    connections.spawn(Abortable::new(async move {
                        let secured = timeout(this.timeout, this.secure(stream)).await;
                        place.secured();
                        match secured.unwrap_or(Err(Closed::HandshakeTimeout)) {
                            Ok((stream, caller)) => this.answer(stream, caller, origin, service).await,
                            Err(why) => {
                                tracing::debug!(%from, %why, "refused a connection");
                                this.tally.count(why.name());
                            }
                        }
                        drop(place);
                    }, handle));
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
        let sending = Unsent::default();
        let sends = Arc::clone(&sending);
        let service = service_fn(move |request: http::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(origin.clone());
            let (service, call, sends) = (service.clone(), OpenCall::new(&calls), Arc::clone(&sends));
            async move {
                let answer = service.answer(request).await;
                let sent = Sent::new(sends);
                Ok::<_, Infallible>(answer.map(|body| Body::new(Answer { body, sent, _call: call })))
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
            () = stalled(&sending, self.send_timeout) => {
                tracing::debug!(%caller, "closed a connection that does not take answers");
                self.tally.count(Closed::Stalled.name());
            }
        }
    }
}

/// The parts of answers that the caller has not taken yet, each with the time since when. The keys
/// are numbers without a meaning.
type Unsent = Arc<Mutex<(u64, BTreeMap<u64, Instant>)>>;

/// Waits until a part of an answer has not been taken for a time.
async fn stalled(sending: &Unsent, timeout: Option<Duration>) {
    let Some(timeout) = timeout else { return std::future::pending().await };
    loop {
        tokio::time::sleep((timeout / 4).max(Duration::from_millis(10))).await;
        let sending = sending.lock().unwrap_or_else(PoisonError::into_inner);
        if sending.1.values().any(|since| since.elapsed() > timeout) {
            return;
        }
    }
}

/// The state of an answer: whether HTTP/2 holds a part of it, for lack of a window.
struct Sent {
    sending: Unsent,
    number: u64,
}

impl Sent {
    fn new(sending: Unsent) -> Self {
        let number = {
            let mut sending = sending.lock().unwrap_or_else(PoisonError::into_inner);
            sending.0 += 1;
            sending.0
        };
        let sent = Self { sending, number };
        sent.set(true);
        sent
    }

    /// Records that HTTP/2 got a part, or wants the next one.
    fn set(&self, is_held: bool) {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if is_held {
            sending.1.insert(self.number, Instant::now());
        } else {
            sending.1.remove(&self.number);
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.set(false);
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
    sent: Sent,
    _call: OpenCall,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.sent.set(polled.is_ready());
        polled
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
                Err(Refusal::All) => "waiting",
                Err(Refusal::Prefix) => "waiting_address",
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
