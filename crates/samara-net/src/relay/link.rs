//! The way out of a link: calls on the connection to the server of another one.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use http::uri::PathAndQuery;
use samara_mix::MixFrame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::codec::Sending;
use super::proto::{Ack, LinkRequest};
use super::status::Closed;
use super::team::{POST, STREAM, name_link};
use super::wire::{Driven, Wire};

/// What a link tells.
#[derive(Debug)]
pub(super) enum Told {
    /// A frame came, of this length. It has its share of what may wait.
    Frame(MixFrame, usize, OwnedSemaphorePermit),
    /// HTTP/2 has taken so many bytes.
    Sent(u32),
    /// The end.
    Down(Closed),
}

/// Which link tells what.
pub(super) type FromLink = (u64, Told);

/// A frame with its length.
type Order = (MixFrame, u32);

/// Where frames for a link go. What is handed over is bounded by who does it.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Frames of each lane, one after the other.
    streams: Vec<UnboundedSender<Order>>,
    /// Frames that are a call of their own.
    posts: UnboundedSender<Order>,
}

impl Lanes {
    pub(super) fn stream(&self, lane: usize, frame: MixFrame, len: u32) {
        // Fails only if the link has just ended, which is told next.
        if let Some(stream) = self.streams.get(lane) {
            let _ = stream.send((frame, len));
        }
    }

    pub(super) fn post(&self, frame: MixFrame, len: u32) {
        let _ = self.posts.send((frame, len));
    }
}

/// The task of a link.
pub(super) struct Link {
    number: u64,
    wire: Wire,
    driven: Driven,
    streams: Vec<UnboundedReceiver<Order>>,
    posts: UnboundedReceiver<Order>,
    hub: UnboundedSender<FromLink>,
}

/// Frames on their way into a call: each is told when HTTP/2 asks for it, which it does as long as windows allow.
struct Handed {
    queue: UnboundedReceiver<Order>,
    link: u64,
    hub: UnboundedSender<FromLink>,
}

impl Stream for Handed {
    type Item = MixFrame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<MixFrame>> {
        self.queue.poll_recv(cx).map(|order| {
            let (frame, len) = order?;
            // Fails only if nobody is interested any more.
            let _ = self.hub.send((self.link, Told::Sent(len)));
            Some(frame)
        })
    }
}

impl Link {
    /// A link on a connection, with so many lanes.
    pub(super) fn new(
        number: u64,
        (wire, driven): (Wire, Driven),
        lanes: usize,
        hub: UnboundedSender<FromLink>,
    ) -> (Self, Lanes) {
        let (senders, streams) = (0..lanes).map(|_| unbounded_channel()).unzip();
        let (post_sender, posts) = unbounded_channel();
        let link = Self { number, wire, driven, streams, posts, hub };
        (link, Lanes { streams: senders, posts: post_sender })
    }

    /// Runs until the connection or a call ends, and tells why.
    pub(super) async fn run(mut self) {
        let mut calls = JoinSet::new();
        for queue in std::mem::take(&mut self.streams) {
            let frames = Handed { queue, link: self.number, hub: self.hub.clone() };
            calls.spawn(call(self.wire.clone(), self.number, STREAM, frames));
        }
        let why = loop {
            tokio::select! {
                Some(order) = self.posts.recv() => {
                    let (one, queue) = unbounded_channel();
                    // The other end is right here.
                    let _ = one.send(order);
                    let frame = Handed { queue, link: self.number, hub: self.hub.clone() };
                    calls.spawn(call(self.wire.clone(), self.number, POST, frame));
                }
                Some(ended) = calls.join_next() => match ended {
                    // Only calls with one frame end well.
                    Ok(Ok(POST)) => {}
                    Ok(Ok(_)) => break Closed::Ended("the other side ended a stream".to_owned()),
                    Ok(Err(status)) => break refusal(&status),
                    Err(error) => break Closed::Ended(error.to_string()),
                },
                why = self.driven.ended() => break why,
            }
        };
        // Fails only if nobody is interested any more.
        let _ = self.hub.send((self.number, Told::Down(why)));
    }
}

/// What an error of a call says about the link.
fn refusal(status: &Status) -> Closed {
    match status.code() {
        tonic::Code::Unavailable | tonic::Code::Unknown | tonic::Code::Cancelled => {
            Closed::Ended(status.to_string())
        }
        _ => Closed::Refused(status.to_string()),
    }
}

/// A call that frames go by. When it has ended well: which one it was.
async fn call(wire: Wire, link: u64, path: &'static str, frames: Handed) -> Result<&'static str, Status> {
    let mut request = Request::new(frames);
    name_link(&mut request, link);
    let mut grpc = wire.grpc();
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    grpc.client_streaming(request, PathAndQuery::from_static(path), Sending).await?;
    Ok(path)
}

/// A call about a link: [`OPEN`](super::team::OPEN) or [`CONFIRM`](super::team::CONFIRM).
pub(super) async fn negotiate(wire: &Wire, path: &'static str, link: u64) -> Result<(), Closed> {
    let mut grpc = wire.grpc();
    grpc.ready().await.map_err(|error| Closed::Ended(error.to_string()))?;
    let codec = ProstCodec::<LinkRequest, Ack>::default();
    let answer = grpc.unary(Request::new(LinkRequest { link }), PathAndQuery::from_static(path), codec).await;
    answer.map(drop).map_err(|status| Closed::Refused(status.message().to_owned()))
}
