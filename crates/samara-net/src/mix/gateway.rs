//! The gateway of a node: senders share secrets with it, receive the rounds that accept payloads,
//! submit payloads, and fetch results.
//!
//! The original has a gateway beside each node. Here it is a socket of the node with a service of
//! its own. It accepts every certificate. The fingerprint of the certificate is the name of the
//! sender.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use samara_mix::{Command, Group, KeyPair, Outcome, Sealed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request as Call, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::board::kind;
use super::grpc::{Answers, Method, caller, unimplemented};
use super::proto::{
    OpenRounds, OutSlot, RegisterReply, RegisterRequest, ResultPart, ResultRequest, SealedSlot, SubmitReply,
    SubmitRequest, WatchRequest,
};
use super::task::Task;
use crate::status::{Request, ask_later};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All payloads, in the order of the mix's output.
    Delivered(Vec<Outcome>),
    Failed {
        /// The name of a [`Cause`](samara_mix::Cause), or the reason for which the node refused the
        /// batch.
        cause: String,
        /// The number of the node to blame.
        culprit: Option<u32>,
    },
}

pub(super) const REGISTER: &str = "/samara.mix.v1.Gateway/Register";
pub(super) const WATCH: &str = "/samara.mix.v1.Gateway/Watch";
pub(super) const SUBMIT: &str = "/samara.mix.v1.Gateway/Submit";
pub(super) const RESULT: &str = "/samara.mix.v1.Gateway/Result";
/// Slots in a part of a result: 256 KiB in the larger group.
const PART_SLOTS: usize = 256;

#[derive(Clone)]
pub(super) struct Gateway(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) node: u32,
    pub(super) group: Group,
    pub(super) batch_max: usize,
    pub(super) keys: KeyPair,
    pub(super) task: mpsc::Sender<Request<Task>>,
    pub(super) rounds: watch::Receiver<OpenRounds>,
    /// KiB of received payloads that may wait for a batch.
    pub(super) waiting: Arc<Semaphore>,
    pub(super) waiting_kib: u32,
}

type Parts<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Gateway {
    async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Task, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<T, Status> {
        ask_later(&self.0.task, request).await.map_err(|_| Status::unavailable("this node is stopping"))
    }

    async fn register(self, call: Call<RegisterRequest>) -> Result<Response<RegisterReply>, Status> {
        let sender = caller(&call)?.sender();
        let public = call.into_inner().public;
        let inner = Arc::clone(&self.0);
        // A power of a long number takes a millisecond or more.
        let agreed = tokio::task::spawn_blocking(move || inner.keys.agree(&public)).await;
        let agreed = agreed.map_err(|error| Status::internal(error.to_string()))?;
        let secret = agreed.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.ask(move |task, answer| {
            task.command(Command::Register { sender, secret });
            // Fails only if the caller has given up.
            let _ = answer.send(());
        })
        .await?;
        Ok(Response::new(RegisterReply {
            public: Bytes::copy_from_slice(self.0.keys.public()),
            node: self.0.node,
            group: self.0.group.name().to_owned(),
        }))
    }

    fn watch(&self) -> Response<Parts<OpenRounds>> {
        let mut rounds = self.0.rounds.clone();
        rounds.mark_changed();
        let states = stream::unfold(rounds, |mut rounds| async move {
            rounds.changed().await.ok()?;
            let state = rounds.borrow_and_update().clone();
            Some((Ok(state), rounds))
        });
        Response::new(Box::pin(states))
    }

    async fn submit(self, call: Call<Streaming<SubmitRequest>>) -> Result<Response<SubmitReply>, Status> {
        let sender = caller(&call)?.sender();
        let mut messages = call.into_inner();
        let (mut slots, mut of_round, mut shares) = (Vec::new(), None, Vec::new());
        while let Some(SubmitRequest { round, slots: more }) = messages.message().await? {
            if *of_round.get_or_insert(round) != round {
                return Err(Status::invalid_argument(
                    "the call has payloads for several rounds; expected one",
                ));
            }
            if slots.len() + more.len() > self.0.batch_max {
                return Err(Status::invalid_argument("the call has more payloads than a batch can hold"));
            }
            shares.push(self.share(&more)?);
            for SealedSlot { elements, credentials } in more {
                let slot = Sealed::from_parts(elements, credentials);
                if slot.sender() != Some(sender) {
                    return Err(Status::permission_denied(
                        "a payload names another sender than the certificate",
                    ));
                }
                slots.push(slot);
            }
        }
        let round = of_round.ok_or_else(|| Status::invalid_argument("the call has no payloads"))?;
        let room = self.ask(move |task, answer| task.submit(round, slots, answer)).await??;
        Ok(Response::new(SubmitReply { room }))
    }

    /// Takes the share of some payloads in the bytes that may wait.
    fn share(&self, slots: &[SealedSlot]) -> Result<OwnedSemaphorePermit, Status> {
        let bytes: usize = slots.iter().map(|slot| slot.elements.len() + slot.credentials.len()).sum();
        let kib = (bytes.div_ceil(1024) as u32).min(self.0.waiting_kib);
        let share = Arc::clone(&self.0.waiting).try_acquire_many_owned(kib);
        share.map_err(|_| Status::resource_exhausted("too many payloads wait for a batch; try again later"))
    }

    async fn result(self, call: Call<ResultRequest>) -> Result<Response<Parts<ResultPart>>, Status> {
        let round = call.into_inner().round;
        let ended = self.ask(move |task, answer| task.wait_for(round, answer)).await??;
        let count = match &*ended {
            Ended::Delivered(outcomes) => outcomes.len(),
            Ended::Failed { .. } => 1,
        };
        let parts = stream::iter((0..count).step_by(PART_SLOTS)).map(move |from| Ok(part(&ended, from)));
        Ok(Response::new(Box::pin(parts)))
    }
}

/// The part of a result that begins at slot `from`.
fn part(ended: &Ended, from: usize) -> ResultPart {
    match ended {
        Ended::Failed { cause, culprit } => ResultPart {
            cause: cause.clone(),
            culprit: culprit.map_or(0, |node| node.saturating_add(1)),
            slots: Vec::new(),
        },
        Ended::Delivered(outcomes) => {
            let slots = outcomes.iter().skip(from).take(PART_SLOTS).map(|outcome| OutSlot {
                kind: kind(outcome),
                content: match outcome {
                    Outcome::Content(content) => content.clone(),
                    Outcome::Void | Outcome::Unreadable => Bytes::new(),
                },
            });
            ResultPart { cause: String::new(), culprit: 0, slots: slots.collect() }
        }
    }
}

impl Answers for Gateway {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        match request.uri().path() {
            REGISTER => {
                let method = Method(move |call| self.clone().register(call));
                Grpc::new(ProstCodec::default()).unary(method, request).await
            }
            WATCH => {
                let method = Method(move |_: Call<WatchRequest>| std::future::ready(Ok(self.watch())));
                Grpc::new(ProstCodec::default()).server_streaming(method, request).await
            }
            SUBMIT => {
                let method = Method(move |call| self.clone().submit(call));
                Grpc::new(ProstCodec::default()).client_streaming(method, request).await
            }
            RESULT => {
                let method = Method(move |call| self.clone().result(call));
                Grpc::new(ProstCodec::default()).server_streaming(method, request).await
            }
            _ => unimplemented(),
        }
    }
}
