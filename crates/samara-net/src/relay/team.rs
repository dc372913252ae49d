//! The service between nodes: what others call here.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use samara_mix::MixFrame;
use samara_mix::wire::Limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, NamedService};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::codec::Receiving;
use super::doors::{Doors, Pass};
use super::hub::Attempt;
use super::link::{FromLink, Told};
use super::method::{Answer, Method, caller, unimplemented};
use super::proto::{Ack, LinkRequest};
use super::status::Closed;

pub(super) const OPEN: &str = "/samara.mix.v1.Team/Open";
pub(super) const CONFIRM: &str = "/samara.mix.v1.Team/Confirm";
pub(super) const STREAM: &str = "/samara.mix.v1.Team/Stream";
pub(super) const POST: &str = "/samara.mix.v1.Team/Post";
/// The metadata that says by which link a call comes.
const LINK: &str = "samara-link";

/// Says by which link a call goes.
pub(super) fn name_link<T>(request: &mut Request<T>, link: u64) {
    request.metadata_mut().insert(LINK, link.into());
}

fn link_of(metadata: &MetadataMap) -> Result<u64, Status> {
    let link = metadata.get(LINK).and_then(|value| value.to_str().ok()?.parse().ok());
    link.ok_or_else(|| Status::invalid_argument("no samara-link"))
}

/// What calls from other nodes need.
#[derive(Clone)]
pub(super) struct Team(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) doors: Doors,
    pub(super) limits: Limits,
    pub(super) waiting_kib: u32,
    pub(super) told: mpsc::UnboundedSender<FromLink>,
    pub(super) attempts: mpsc::Sender<Attempt>,
}

impl Team {
    async fn open(self, request: Request<LinkRequest>) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        let link = request.into_inner().link;
        self.ask(|answer| Attempt::Asked { peer, link, answer }).await
    }

    async fn confirm(self, request: Request<LinkRequest>) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        let link = request.into_inner().link;
        self.ask(|answer| Attempt::Confirmed { peer, link, answer }).await
    }

    async fn ask(
        &self,
        attempt: impl FnOnce(oneshot::Sender<Result<(), Status>>) -> Attempt,
    ) -> Result<Response<Ack>, Status> {
        let gone = |_| Status::unavailable("this node ends");
        let (answer, answered) = oneshot::channel();
        self.0.attempts.send(attempt(answer)).await.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))??;
        Ok(Response::new(Ack {}))
    }

    /// Frames of a link. A call that is one of many frames lasts as long as the link.
    async fn receive(
        self,
        request: Request<Streaming<(MixFrame, usize)>>,
        is_post: bool,
    ) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        let link = link_of(request.metadata())?;
        let mut pass = self
            .0
            .doors
            .pass(link, peer)
            .ok_or_else(|| Status::failed_precondition("there is no such link"))?;
        let mut frames = request.into_inner();
        let down = || Status::unavailable("the link is down");
        if !pass.opened().await {
            return Err(down());
        }
        let waiting = Arc::clone(&pass.waiting);
        loop {
            tokio::select! {
                // In this order: what comes by a link that is down is not for the engine.
                biased;
                () = pass.shut() => return Err(down()),
                frame = frames.message() => match frame {
                    Ok(Some((frame, len))) => {
                        let share = self.share(&waiting, len, &mut pass.clone()).await.ok_or_else(down)?;
                        self.tell(link, Told::Frame(frame, len, share));
                    }
                    Ok(None) if is_post => return Ok(Response::new(Ack {})),
                    Ok(None) => {
                        self.tell(link, Told::Down(Closed::Ended("the other side closed it".to_owned())));
                        return Ok(Response::new(Ack {}));
                    }
                    Err(status) => {
                        self.tell(link, Told::Down(why(&status)));
                        return Err(status);
                    }
                },
            }
        }
    }

    /// A frame's share of what may wait for the engine; `None` if the link goes down meanwhile.
    async fn share(
        &self,
        waiting: &Arc<Semaphore>,
        len: usize,
        pass: &mut Pass,
    ) -> Option<OwnedSemaphorePermit> {
        // A frame that is longer than all that may wait waits alone.
        let share = (len.div_ceil(1024) as u32).clamp(1, self.0.waiting_kib);
        tokio::select! {
            share = Arc::clone(waiting).acquire_many_owned(share) => share.ok(),
            () = pass.shut() => None,
        }
    }

    fn tell(&self, link: u64, told: Told) {
        // Fails only if this node ends.
        let _ = self.0.told.send((link, told));
    }
}

/// What an error of a call says about the link.
fn why(status: &Status) -> Closed {
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::ResourceExhausted | Code::Internal => {
            Closed::Malformed(status.message().to_owned())
        }
        _ => Closed::Ended(status.to_string()),
    }
}

impl NamedService for Team {
    const NAME: &'static str = "samara.mix.v1.Team";
}

impl Service<http::Request<Body>> for Team {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        let this = self.clone();
        let path = request.uri().path().to_owned();
        match path.as_str() {
            OPEN | CONFIRM => Box::pin(async move {
                let is_open = path == OPEN;
                let method = Method(move |request| {
                    let this = this.clone();
                    async move { if is_open { this.open(request).await } else { this.confirm(request).await } }
                });
                Ok(Grpc::new(ProstCodec::default()).unary(method, request).await)
            }),
            // A call with one frame is on the wire what a stream of one frame is.
            STREAM | POST => Box::pin(async move {
                let is_post = path == POST;
                let limits = this.0.limits;
                let method = Method(move |request| this.clone().receive(request, is_post));
                let longest = limits.slots_bytes.max(limits.control_bytes);
                let mut grpc = Grpc::new(Receiving(limits)).max_decoding_message_size(longest);
                Ok(grpc.client_streaming(method, request).await)
            }),
            _ => unimplemented(),
        }
    }
}
