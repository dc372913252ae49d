//! The service between nodes.

use std::sync::Arc;

use samara_mix::MixFrame;
use samara_mix::wire::Limits;
use tokio::sync::mpsc::UnboundedSender;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::server;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::grpc::{Answer, Answers, Method, Receiving, caller, unimplemented};
use super::layer::{CallAccess, Contacts, Grpc};
use super::proto::{Ack, LinkRequest};
use crate::hub::Attempt;
use crate::link::{Report, Share};
use crate::status::Closed;

pub(super) const OPEN: &str = "/samara.mix.v1.Team/Open";
pub(super) const CONFIRM: &str = "/samara.mix.v1.Team/Confirm";
pub(super) const STREAM: &str = "/samara.mix.v1.Team/Stream";
pub(super) const POST: &str = "/samara.mix.v1.Team/Post";
/// The metadata that names the link of a call.
const LINK: &str = "samara-link";

/// Names the link of a call.
pub(super) fn name_link<T>(request: &mut Request<T>, link: u64) {
    request.metadata_mut().insert(LINK, link.into());
}

fn link_of(metadata: &MetadataMap) -> Result<u64, Status> {
    let link = metadata.get(LINK).and_then(|value| value.to_str().ok()?.parse().ok());
    link.ok_or_else(|| Status::invalid_argument("no samara-link"))
}

/// The service.
#[derive(Clone)]
pub(super) struct Team {
    pub(super) contacts: Arc<Contacts>,
    pub(super) limits: Limits,
    pub(super) waiting_kib: u32,
    pub(super) reports: UnboundedSender<(u64, Report<MixFrame>)>,
    /// Unbounded by itself: an attempt follows from a call that waits, and calls are bounded.
    pub(super) attempts: UnboundedSender<Attempt<Grpc>>,
}

impl Team {
    /// Dials back, and offers the link to the hub.
    async fn open(self, request: Request<LinkRequest>) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        let new = self.contacts.dial_back(peer, request.into_inner().link).await?;
        let offered = self.attempts.send(Attempt::Offered(Box::new(new)));
        offered.map_err(|_| Status::unavailable("this node ends"))?;
        Ok(Response::new(Ack {}))
    }

    async fn confirm(self, request: Request<LinkRequest>) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        if !self.contacts.table.confirm(request.into_inner().link, peer) {
            return Err(Status::failed_precondition("this node did not ask for the link"));
        }
        Ok(Response::new(Ack {}))
    }

    /// Takes the frames of a call. A stream lasts as long as the link.
    async fn receive(
        self,
        request: Request<Streaming<(MixFrame, usize)>>,
        is_post: bool,
    ) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        let link = link_of(request.metadata())?;
        let access = self.contacts.table.access(link, peer);
        let mut access = access.ok_or_else(|| Status::failed_precondition("there is no such link"))?;
        let mut frames = request.into_inner();
        let down = || Status::unavailable("the link is down");
        if !access.until_up().await {
            return Err(down());
        }
        loop {
            tokio::select! {
                // In this order: frames of a link that is down are not for the engine.
                biased;
                () = access.until_down() => return Err(down()),
                frame = frames.message() => match frame {
                    Ok(Some((frame, len))) => {
                        access.traffic.received(len);
                        let share = self.share(len, &mut access).await.ok_or_else(down)?;
                        self.report(link, Report::Frame(frame, len, share));
                    }
                    Ok(None) if is_post => return Ok(Response::new(Ack {})),
                    Ok(None) => {
                        self.report(link, Report::Down(Closed::ended("the peer closed it")));
                        return Ok(Response::new(Ack {}));
                    }
                    Err(status) => {
                        self.report(link, Report::Down(cause(&status)));
                        return Err(status);
                    }
                },
            }
        }
    }

    /// Waits for a frame's share of the receive budget; `None` if the link goes down meanwhile.
    async fn share(&self, len: usize, access: &mut CallAccess) -> Option<Share> {
        // A frame that is longer than the budget waits alone.
        let kib = (len.div_ceil(1024) as u32).clamp(1, self.waiting_kib);
        tokio::select! {
            share = Arc::clone(&access.waiting).acquire_many_owned(kib) => Some(Share(share.ok()?, None)),
            () = access.until_down() => None,
        }
    }

    fn report(&self, link: u64, report: Report<MixFrame>) {
        // Fails only if this node stops.
        let _ = self.reports.send((link, report));
    }
}

/// Returns the cause for the error of a call.
fn cause(status: &Status) -> Closed {
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::ResourceExhausted | Code::Internal => {
            Closed::Malformed(status.message().to_owned())
        }
        _ => Closed::ended(status),
    }
}

impl Answers for Team {
    fn answer(&self, request: http::Request<Body>) -> Answer {
        let this = self.clone();
        let path = request.uri().path().to_owned();
        match path.as_str() {
            OPEN | CONFIRM => Box::pin(async move {
                let is_open = path == OPEN;
                let method = Method(move |request| {
                    let this = this.clone();
                    async move { if is_open { this.open(request).await } else { this.confirm(request).await } }
                });
                Ok(server::Grpc::new(ProstCodec::default()).unary(method, request).await)
            }),
            // A call with one frame is on the wire what a stream of one frame is.
            STREAM | POST => Box::pin(async move {
                let is_post = path == POST;
                let limits = this.limits;
                let method = Method(move |request| this.clone().receive(request, is_post));
                let longest = limits.slots_bytes.max(limits.control_bytes);
                let mut grpc = server::Grpc::new(Receiving(limits)).max_decoding_message_size(longest);
                Ok(grpc.client_streaming(method, request).await)
            }),
            _ => unimplemented(),
        }
    }
}
