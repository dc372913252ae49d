//! Batches from one process to itself over gRPC, by tonic: as one message each, or as a stream of payloads.

use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use futures::{StreamExt, stream};
use http::uri::PathAndQuery;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use samara_lab::scenario::Handover;
use samara_mix::Transfer;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use tower_service::Service;

use crate::Anyhow;

const PATH: &str = "/samara.Handover/Batch";
const PORT: u16 = 7800;
/// The largest message: a batch of 10,000 payloads is 5 MB.
const MESSAGE_MAX: usize = 64 << 20;
/// No batch takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes as they are.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, bytes: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = from.remaining();
        Ok(Some(from.copy_to_bytes(len)))
    }
}

/// The receiver: tells when all of a call has come, and how many bytes that was.
#[derive(Clone)]
struct Receiver(UnboundedSender<(Instant, usize)>);

type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl Service<Request<Streaming<Bytes>>> for Receiver {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = Boxed<Response<Bytes>, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let told = self.0.clone();
        Box::pin(async move {
            let mut messages = request.into_inner();
            let (mut bytes, mut last) = (0, Instant::now());
            while let Some(message) = messages.message().await? {
                (bytes, last) = (bytes + message.len(), Instant::now());
            }
            // Fails only if the measurement is over.
            let _ = told.send((last, bytes));
            Ok(Response::new(Bytes::new()))
        })
    }
}

impl NamedService for Receiver {
    const NAME: &'static str = "samara.Handover";
}

impl Service<http::Request<Body>> for Receiver {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Raw).max_decoding_message_size(MESSAGE_MAX);
            Ok(grpc.client_streaming(this, request).await)
        })
    }
}

/// The connection of the sender.
#[derive(Clone)]
struct Wire(http2::SendRequest<Body>);

impl Service<http::Request<Body>> for Wire {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Boxed<Self::Response, hyper::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Hands all batches over on one new connection. The windows are those that the receiver announces: of this many bytes, or as it finds
/// the path to need. How long each took, from the moment in which its last payload was ready.
pub(crate) async fn batches(
    handover: &Handover,
    window: Option<u32>,
    (own, listen, dialled): (Ipv4Addr, Ipv4Addr, Ipv4Addr),
) -> Anyhow<Vec<Duration>> {
    let (told, mut came) = unbounded_channel();
    let incoming = TcpIncoming::from(TcpListener::bind((listen, PORT)).await?).with_nodelay(Some(true));
    let mut server = match window {
        None => Server::builder().http2_adaptive_window(Some(true)),
        Some(bytes) => {
            Server::builder().initial_stream_window_size(bytes).initial_connection_window_size(bytes)
        }
    };
    let server = tokio::spawn(server.add_service(Receiver(told)).serve_with_incoming(incoming));
    let socket = TcpSocket::new_v4()?;
    socket.bind((own, 0).into())?;
    let stream = socket.connect((dialled, PORT).into()).await?;
    stream.set_nodelay(true)?;
    let (send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut times = Vec::new();
    // The settings of HTTP/2 are there before the first batch, as in the simulator: it begins on a connection that is up.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..handover.batches {
        times.push(timeout(PATIENCE, batch(handover, &Wire(send.clone()), &mut came)).await??);
        tokio::time::sleep(handover.pause.duration()).await;
    }
    connection.abort();
    server.abort();
    Ok(times)
}

/// One batch.
async fn batch(
    handover: &Handover,
    wire: &Wire,
    came: &mut UnboundedReceiver<(Instant, usize)>,
) -> Anyhow<Duration> {
    let (payloads, compute) = (handover.payloads, handover.compute.duration());
    let payload = Bytes::from(vec![7; handover.size.bytes() as usize]);
    let start = Instant::now();
    let ready = start + compute;
    let mut grpc = tonic::client::Grpc::with_origin(wire.clone(), http::Uri::from_static("http://samara/"));
    grpc.ready().await?;
    match handover.call {
        Transfer::Unary => {
            sleep_until(ready).await;
            let message = Bytes::from(payload.repeat(payloads as usize));
            grpc.unary(Request::new(message), PathAndQuery::from_static(PATH), Raw).await?;
        }
        Transfer::Streamed => {
            // Payload after payload is ready, the last one in the end.
            let messages = stream::iter(1..=payloads).then(move |number| {
                let payload = payload.clone();
                async move {
                    if !compute.is_zero() {
                        sleep_until(start + compute * number / payloads).await;
                    }
                    payload
                }
            });
            grpc.client_streaming(Request::new(messages), PathAndQuery::from_static(PATH), Raw).await?;
        }
    }
    let (at, bytes) = came.recv().await.ok_or("the receiver has ended")?;
    if bytes as u64 != handover.bytes() {
        return Err(format!("{bytes} bytes came of {}", handover.bytes()).into());
    }
    Ok(at.saturating_duration_since(ready))
}
