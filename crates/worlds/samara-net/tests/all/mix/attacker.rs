//! An attacker with a certificate who speaks gRPC and sends arbitrary messages.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use futures::{Stream, StreamExt, stream};
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use samara_mix::{KeyPair, Secret};
use samara_net::mix::Identity;
use samara_net::mix::proto::{
    Ack, LinkRequest, OpenRound, OpenRounds, OutSlot, RegisterReply, RegisterRequest, ResultPart,
    ResultRequest, SubmitReply, SubmitRequest, WatchRequest,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::mix::common::{GROUP, Host};

/// A codec that passes bytes unchanged.
#[derive(Clone, Copy, Default)]
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

/// A verifier that trusts every server.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Returns certificate and key. The only way to get them out of an identity is its file.
fn parts(identity: &Identity) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let name = format!("samara-attacker-{}-{}.pem", std::process::id(), identity.fingerprint());
    let path = std::env::temp_dir().join(name);
    // A test may use one identity twice.
    let _ = std::fs::remove_file(&path);
    identity.save(&path).expect("it is written");
    let text = std::fs::read(&path).expect("it is read");
    std::fs::remove_file(&path).expect("it is removed");
    let certificate = CertificateDer::from_pem_slice(&text).expect("a certificate");
    (vec![certificate], PrivateKeyDer::from_pem_slice(&text).expect("a key"))
}

/// The connection of an attacker.
#[derive(Clone)]
struct Wire(http2::SendRequest<Body>);

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

/// An attacker who is connected to a node.
pub(crate) struct Attacker {
    wire: Wire,
    _tasks: JoinSet<()>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Attacker {
    /// Connects with a certificate. In TLS 1.3 a client learns only later that it was refused, so
    /// this makes a call.
    pub(crate) async fn connect(identity: &Identity, host: &Host) -> Result<Self, Failure> {
        let attacker = Self::dial(identity, Ipv4Addr::LOCALHOST, host.address).await?;
        match attacker.post(0, Bytes::new()).await {
            // There is no such link, so the node has received and answered the call.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => Ok(attacker),
            Err(status) => Err(status.into()),
            Ok(_) => Err("a frame without a link was accepted".into()),
        }
    }

    /// Connects from a local address, and makes no call.
    pub(crate) async fn dial(identity: &Identity, from: Ipv4Addr, to: SocketAddr) -> Result<Self, Failure> {
        Self::dial_with_window(identity, from, to, 64 << 10).await
    }

    /// Connects, and takes at most this many bytes of each answer.
    pub(crate) async fn dial_with_window(
        identity: &Identity,
        from: Ipv4Addr,
        to: SocketAddr,
        window: u32,
    ) -> Result<Self, Failure> {
        let stream = secure(identity, from, to).await?;
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.initial_stream_window_size(window);
        let (send, connection) = http.handshake(TokioIo::new(stream)).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        Ok(Self { wire: Wire(send), _tasks: tasks })
    }

    async fn grpc(&self) -> Result<tonic::client::Grpc<Wire>, Status> {
        let origin = http::Uri::from_static("https://x/");
        let mut grpc = tonic::client::Grpc::with_origin(self.wire.clone(), origin);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    /// Registers at a gateway.
    pub(crate) async fn register(&self) -> Result<RegisterReply, Status> {
        let keys = KeyPair::new(GROUP, Secret::new([9; 32]));
        let public = Bytes::copy_from_slice(keys.public());
        let path = PathAndQuery::from_static("/samara.mix.v1.Gateway/Register");
        let request = Request::new(RegisterRequest { public });
        let codec = ProstCodec::<RegisterRequest, RegisterReply>::default();
        self.grpc().await?.unary(request, path, codec).await.map(Response::into_inner)
    }

    /// Sends messages with payloads to a gateway, until their stream ends.
    pub(crate) async fn submit(
        &self,
        messages: impl Stream<Item = SubmitRequest> + Send + 'static,
    ) -> Result<SubmitReply, Status> {
        let path = PathAndQuery::from_static("/samara.mix.v1.Gateway/Submit");
        let codec = ProstCodec::<SubmitRequest, SubmitReply>::default();
        let reply = self.grpc().await?.client_streaming(Request::new(messages), path, codec).await;
        reply.map(Response::into_inner)
    }

    /// Subscribes to the announcements of a gateway.
    pub(crate) async fn watch(&self) -> Result<Streaming<OpenRounds>, Status> {
        let path = PathAndQuery::from_static("/samara.mix.v1.Gateway/Watch");
        let codec = ProstCodec::<WatchRequest, OpenRounds>::default();
        let states = self.grpc().await?.server_streaming(Request::new(WatchRequest {}), path, codec).await;
        states.map(Response::into_inner)
    }

    /// Requests the result of a round.
    pub(crate) async fn result(&self, round: u64) -> Result<Streaming<ResultPart>, Status> {
        let path = PathAndQuery::from_static("/samara.mix.v1.Gateway/Result");
        let codec = ProstCodec::<ResultRequest, ResultPart>::default();
        let request = Request::new(ResultRequest { round });
        self.grpc().await?.server_streaming(request, path, codec).await.map(Response::into_inner)
    }

    /// Connects like [`connect`](Self::connect), and serves at the address of the node whose
    /// certificate the attacker has. The server agrees to every link and answers no other call.
    pub(crate) async fn impersonate(identity: &Identity, at: SocketAddr, host: &Host) -> Self {
        let listener = loop {
            match TcpListener::bind(at).await {
                Ok(listener) => break listener,
                // The node is about to end.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        let mut attacker = Self::connect(identity, host).await.expect("its certificate is known");
        attacker._tasks.spawn(serve(listener, identity, Arc::new(|request| Box::pin(agree(request)))));
        attacker
    }

    async fn call(&self, method: &str, link: Option<u64>, bytes: Bytes) -> Result<Bytes, Status> {
        let mut request = Request::new(bytes);
        if let Some(link) = link {
            request.metadata_mut().insert("samara-link", link.into());
        }
        let path: PathAndQuery = format!("/samara.mix.v1.Team/{method}").parse().expect("a path");
        self.grpc().await?.unary(request, path, Raw).await.map(Response::into_inner)
    }

    /// Sends bytes on a link.
    pub(crate) async fn post(&self, link: u64, bytes: Bytes) -> Result<Bytes, Status> {
        self.call("Post", Some(link), bytes).await
    }

    /// Requests a link.
    pub(crate) async fn open(&self, link: u64) -> Result<(), Status> {
        let mut bytes = vec![0x09];
        bytes.extend_from_slice(&link.to_le_bytes());
        self.call("Open", None, bytes.into()).await.map(drop)
    }

    /// Requests links until one comes up.
    pub(crate) async fn take_link(&self) -> u64 {
        let taken = async {
            let mut link = 1;
            while self.open(link).await.is_err() {
                link += 1;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            link
        };
        crate::mix::common::soon(taken).await
    }
}

async fn secure(
    identity: &Identity,
    from: Ipv4Addr,
    to: SocketAddr,
) -> Result<TlsStream<TcpStream>, Failure> {
    let (chain, key) = parts(identity);
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(to).await?;
    Ok(TlsConnector::from(Arc::new(config)).connect("x".try_into()?, stream).await?)
}

/// Returns the settings of HTTP/2 that a server announces, by number (RFC 9113, 6.5.2).
pub(crate) async fn settings(identity: &Identity, to: SocketAddr) -> Result<BTreeMap<u16, u32>, Failure> {
    let mut stream = secure(identity, Ipv4Addr::LOCALHOST, to).await?;
    // The preface, and a frame with no settings.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    // Nine bytes of header, of which the first three are the length.
    let mut header = [0; 9];
    stream.read_exact(&mut header).await?;
    let [_, _, len, kind, ..] = header;
    assert_eq!(kind, 4, "the first frame has the settings");
    let mut settings = vec![0; len.into()];
    stream.read_exact(&mut settings).await?;
    let mut settings = Bytes::from(settings);
    Ok(std::iter::from_fn(|| settings.has_remaining().then(|| (settings.get_u16(), settings.get_u32())))
        .collect())
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;
type Answers = Arc<dyn Fn(http::Request<Incoming>) -> Answer + Send + Sync>;

/// Serves HTTP/2 to all clients, with the certificate of an identity.
fn serve(listener: TcpListener, identity: &Identity, answers: Answers) -> impl Future<Output = ()> + use<> {
    let (chain, key) = parts(identity);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (acceptor, answers) = (acceptor.clone(), Arc::clone(&answers));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |request| answers(request));
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                drop(builder.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    }
}

/// A function as a service of gRPC.
struct Method<F>(F);

impl<Q, R, F: FnMut(Q) -> Result<R, Status>> Service<Q> for Method<F> {
    type Response = R;
    type Error = Status;
    type Future = Ready<Result<R, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Q) -> Self::Future {
        ready((self.0)(request))
    }
}

/// Agrees to links, and never answers any other call.
async fn agree(request: http::Request<Incoming>) -> Result<http::Response<Body>, Infallible> {
    if !request.uri().path().ends_with("/Confirm") {
        return std::future::pending().await;
    }
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<Ack, LinkRequest>::default());
    let agree = Method(|_: Request<LinkRequest>| Ok(Response::new(Ack {})));
    Ok(grpc.unary(agree, request.map(Body::new)).await)
}

/// The gateway of a node that lies to senders. It registers them like an honest one, and rejects
/// payloads.
pub(crate) struct FalseGateway {
    pub(crate) address: SocketAddr,
    submits: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl FalseGateway {
    /// Announces these rounds as a node of the pool. Each result has nine void slots in three
    /// parts.
    pub(crate) async fn start(identity: &Identity, node: u32, rounds: Vec<OpenRound>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let submits = Arc::new(AtomicUsize::new(0));
        let (counted, state) = (Arc::clone(&submits), OpenRounds { rounds });
        let answers: Answers = Arc::new(move |request| {
            if request.uri().path().ends_with("/Submit") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Box::pin(lie(request, node, state.clone()))
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, identity, answers));
        Self { address, submits, _tasks: tasks }
    }

    /// Number of calls that brought payloads.
    pub(crate) fn submits(&self) -> usize {
        self.submits.load(Ordering::Relaxed)
    }
}

async fn lie(
    request: http::Request<Incoming>,
    node: u32,
    state: OpenRounds,
) -> Result<http::Response<Body>, Infallible> {
    let path = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let request = request.map(Body::new);
    Ok(match &path[..] {
        "Register" => {
            let keys = KeyPair::new(GROUP, Secret::new([7; 32]));
            let public = Bytes::copy_from_slice(keys.public());
            let reply = RegisterReply { public, node, group: GROUP.name().to_owned() };
            let register = Method(move |_: Request<RegisterRequest>| Ok(Response::new(reply.clone())));
            tonic::server::Grpc::new(ProstCodec::default()).unary(register, request).await
        }
        "Watch" => {
            let states = move || stream::iter([Ok(state.clone())]).chain(stream::pending());
            let watch = Method(move |_: Request<WatchRequest>| Ok(Response::new(states())));
            tonic::server::Grpc::new(ProstCodec::default()).server_streaming(watch, request).await
        }
        "Result" => {
            let void = OutSlot { kind: 1, content: Bytes::new() };
            let part = ResultPart { slots: vec![void; 3], ..ResultPart::default() };
            let parts = move || stream::iter(vec![Ok(part.clone()); 3]);
            let result = Method(move |_: Request<ResultRequest>| Ok(Response::new(parts())));
            tonic::server::Grpc::new(ProstCodec::default()).server_streaming(result, request).await
        }
        _ => Status::unavailable("no").into_http(),
    })
}
