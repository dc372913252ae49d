//! Somebody with a certificate who speaks gRPC, and says what it likes.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use samara_net::relay::Identity;
use samara_net::relay::proto::{Ack, LinkRequest};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::common::Host;

/// Bytes as they are.
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

/// Whoever it is, is right.
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

/// Certificate and key, by the only way out of an identity: its file.
fn parts(identity: &Identity) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let name = format!("samara-attacker-{}-{}.pem", std::process::id(), identity.fingerprint());
    let path = std::env::temp_dir().join(name);
    // One identity may be asked for twice.
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
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Somebody who is connected to a node.
pub(crate) struct Attacker {
    wire: Wire,
    _tasks: JoinSet<()>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Attacker {
    /// Connects with a certificate. In TLS 1.3 a client learns only later that it was refused: so a call is made.
    pub(crate) async fn connect(identity: &Identity, host: &Host) -> Result<Self, Failure> {
        let (chain, key) = parts(identity);
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting))
            .with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(host.address).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect("x".try_into()?, stream).await?;
        let (send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        let attacker = Self { wire: Wire(send), _tasks: tasks };
        match attacker.post(0, Bytes::new()).await {
            // There is no such link: the node has heard, and answered.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => Ok(attacker),
            Err(status) => Err(status.into()),
            Ok(_) => Err("a frame of nobody was taken".into()),
        }
    }

    /// The same, with a server at the address of the node whose certificate it has, which agrees to everything and answers nothing else.
    pub(crate) async fn impersonate(identity: &Identity, at: SocketAddr, host: &Host) -> Self {
        let listener = loop {
            match TcpListener::bind(at).await {
                Ok(listener) => break listener,
                // The node is about to end.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        let (chain, key) = parts(identity);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let mut attacker = Self::connect(identity, host).await.expect("its certificate is known");
        attacker._tasks.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(agree);
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    drop(builder.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        attacker
    }

    async fn call(&self, method: &str, link: Option<u64>, bytes: Bytes) -> Result<Bytes, Status> {
        let origin = http::Uri::from_static("https://x/");
        let mut grpc = tonic::client::Grpc::with_origin(self.wire.clone(), origin);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut request = Request::new(bytes);
        if let Some(link) = link {
            request.metadata_mut().insert("samara-link", link.into());
        }
        let path: PathAndQuery = format!("/samara.mix.v1.Team/{method}").parse().expect("a path");
        grpc.unary(request, path, Raw).await.map(Response::into_inner)
    }

    /// Says something by a link.
    pub(crate) async fn post(&self, link: u64, bytes: Bytes) -> Result<Bytes, Status> {
        self.call("Post", Some(link), bytes).await
    }

    /// Asks for a link.
    pub(crate) async fn open(&self, link: u64) -> Result<(), Status> {
        let mut bytes = vec![0x09];
        bytes.extend_from_slice(&link.to_le_bytes());
        self.call("Open", None, bytes.into()).await.map(drop)
    }

    /// Asks until it has a link.
    pub(crate) async fn take_link(&self) -> u64 {
        let taken = async {
            let mut link = 1;
            while self.open(link).await.is_err() {
                link += 1;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            link
        };
        crate::common::soon(taken).await
    }
}

/// Agrees to links; every other call is never answered.
async fn agree(request: http::Request<hyper::body::Incoming>) -> Result<http::Response<Body>, Infallible> {
    if !request.uri().path().ends_with("/Confirm") {
        return std::future::pending().await;
    }
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<Ack, LinkRequest>::default());
    Ok(grpc.unary(Agree, request.map(Body::new)).await)
}

struct Agree;

impl Service<Request<LinkRequest>> for Agree {
    type Response = Response<Ack>;
    type Error = Status;
    type Future = Ready<Result<Response<Ack>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<LinkRequest>) -> Self::Future {
        ready(Ok(Response::new(Ack {})))
    }
}
