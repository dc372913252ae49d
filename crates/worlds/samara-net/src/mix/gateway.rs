//! The gateway of a node: senders share secrets with it, receive the rounds that accept payloads,
//! submit payloads, and fetch results.
//!
//! The original has a gateway beside each node. Here it is a socket of the node with a service of
//! its own. It accepts every certificate. The fingerprint of the certificate is the name of the
//! sender.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use prost::Message;
use samara_engine::places::{Places, Rates};
use samara_mix::{Config, Group, KeyPair, Outcome, Sealed, SenderId};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codec::Codec;
use tonic::server::Grpc;
use tonic::{Code, Request as Call, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::grpc::{Answers, Metered, Origin, caller, unimplemented};
use super::node::Tally;
use super::options::GatewayOptions;
use super::proto::{
    KeptRequest, KeptRounds, OpenRounds, OutSlot, RegisterReply, RegisterRequest, ResultPart, ResultRequest,
    SealedSlot, SubmitReply, SubmitRequest, WatchRequest, WithdrawReply, WithdrawRequest,
};
use super::quota::{Quota, Registrations};
use super::task::Task;
use crate::status::{Request, ask, ask_later};

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
pub(super) const WITHDRAW: &str = "/samara.mix.v1.Gateway/Withdraw";
pub(super) const RESULT: &str = "/samara.mix.v1.Gateway/Result";
pub(super) const KEPT: &str = "/samara.mix.v1.Gateway/Kept";
/// Maximum slots in a message with payloads: some 200 KiB in the larger group.
pub(super) const MESSAGE_SLOTS: usize = 128;
/// Slots in a part of a result: 256 KiB in the larger group.
const PART_SLOTS: usize = 256;
/// Maximum number of results that leave at once: 64 MiB of parts.
pub(super) const RESULTS_MAX: usize = 256;
/// Bytes that a list of rounds costs of an address's rate at least: its work is that of some KiB.
const LIST_BYTES_MIN: usize = 4 << 10;
/// Maximum bytes of a request without payloads: the longest has an element of the group.
const REQUEST_BYTES_MAX: usize = 1 << 10;

/// Maximum bytes of a message with payloads for the largest team.
const fn message_bytes_max(group: Group) -> usize {
    // Fields and lengths of a slot take at most 12 bytes, and the round 11.
    let slot = group.slot_bytes() + (2 + Config::TEAM_MAX) * 32 + 12;
    MESSAGE_SLOTS * slot + 11
}

#[derive(Clone)]
pub(super) struct Gateway(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) node: u32,
    pub(super) group: Group,
    pub(super) keys: KeyPair,
    pub(super) task: mpsc::Sender<Request<Task>>,
    pub(super) rounds: watch::Receiver<OpenRounds>,
    /// Bytes of payloads in calls that have not ended.
    pub(super) waiting: Arc<Quota>,
    /// Bytes of announcements and results that leave.
    pub(super) rates: Mutex<Rates>,
    /// The number of the last result, and those that are leaving: each holds a part in memory.
    pub(super) results: Mutex<(u64, Places<u64>)>,
    pub(super) registrations: Registrations,
    /// Registrations compute one after another: together they take one core at most.
    pub(super) agreeing: Semaphore,
    pub(super) refused: Tally,
    pub(super) options: GatewayOptions,
}

type Parts<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Gateway {
    async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Task, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<T, Status> {
        ask_later(&self.0.task, request).await.map_err(|_| Status::unavailable("this node is stopping"))
    }

    fn refuse(&self, limit: &'static str, status: Status) -> Status {
        self.0.refused.count(limit);
        status
    }

    async fn register(self, call: Call<RegisterRequest>) -> Result<Response<RegisterReply>, Status> {
        let sender = caller(&call)?.sender();
        if !self.0.registrations.take(sender, origin(call.extensions()).ip, Instant::now()) {
            let status = "too many registrations within a minute; try again later";
            return Err(self.refuse("registrations", Status::resource_exhausted(status)));
        }
        let public = call.into_inner().public;
        let inner = Arc::clone(&self.0);
        let turn = self.0.agreeing.acquire().await;
        let _turn = turn.map_err(|_| Status::unavailable("this node is stopping"))?;
        // A power of a long number takes a millisecond or more.
        let agreed = tokio::task::spawn_blocking(move || inner.keys.agree(&public)).await;
        let agreed = agreed.map_err(|error| Status::internal(error.to_string()))?;
        let secret = agreed.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let registered = ask(&self.0.task, move |task| task.register(sender, secret)).await;
        let registered = registered.map_err(|_| Status::unavailable("this node is stopping"))?;
        registered.map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(RegisterReply {
            public: Bytes::copy_from_slice(self.0.keys.public()),
            node: self.0.node,
            group: self.0.group.name().to_owned(),
        }))
    }

    /// Announces open rounds. One call is enough for a connection: several share the rate of one.
    fn watch(&self, origin: Origin) -> Response<Parts<OpenRounds>> {
        let mut rounds = self.0.rounds.clone();
        rounds.mark_changed();
        let Origin { ip, watches } = origin;
        let open = OpenWatch::new(watches);
        let inner = Arc::clone(&self.0);
        let states = stream::unfold((rounds, true), move |(mut rounds, is_first)| {
            let interval = if is_first { Duration::ZERO } else { inner.options.announce_interval };
            let (inner, wait) = (Arc::clone(&inner), interval * open.count());
            async move {
                tokio::time::sleep(wait).await;
                rounds.changed().await.ok()?;
                let state = rounds.borrow_and_update().clone();
                inner.pace(ip, state.encoded_len()).await;
                Some((Ok(state), (rounds, false)))
            }
        });
        Response::new(Box::pin(states))
    }

    async fn submit(self, call: Call<Streaming<SubmitRequest>>) -> Result<Response<SubmitReply>, Status> {
        let sender = caller(&call)?.sender();
        // Until the end of the call its bytes count as waiting.
        let mut messages = call.into_inner();
        let received = timeout(self.0.options.receive_timeout, self.receive(sender, &mut messages)).await;
        let (round, slots) = received.map_err(|_| {
            self.refuse("receive_timeout", Status::deadline_exceeded("the payloads took too long to arrive"))
        })??;
        let room = self.ask(move |task, answer| task.submit(round, sender, slots, answer)).await??;
        Ok(Response::new(SubmitReply { room }))
    }

    /// Removes the payloads of a sender that gives up.
    async fn withdraw(self, call: Call<WithdrawRequest>) -> Result<Response<WithdrawReply>, Status> {
        let sender = caller(&call)?.sender();
        let WithdrawRequest { round } = call.into_inner();
        let payloads = self.ask(move |task, answer| task.withdraw(round, sender, answer)).await??;
        Ok(Response::new(WithdrawReply { payloads }))
    }

    /// Receives the payloads of a call.
    async fn receive(
        &self,
        sender: SenderId,
        messages: &mut Streaming<SubmitRequest>,
    ) -> Result<(u64, Vec<Sealed>), Status> {
        let (mut slots, mut open) = (Vec::new(), None);
        loop {
            let message = messages.message().await.map_err(|status| match status.code() {
                Code::OutOfRange => self.refuse("message_bytes", status),
                _ => status,
            })?;
            let Some(SubmitRequest { round, slots: more }) = message else { break };
            let (of_round, share) = match open {
                None => *open.insert((round, self.share(round)?)),
                Some(known) => known,
            };
            if of_round != round {
                return Err(Status::invalid_argument(
                    "the call has payloads for several rounds; expected one",
                ));
            }
            if more.len() > MESSAGE_SLOTS {
                let status =
                    format!("found {} payloads in a message; expected at most {MESSAGE_SLOTS}", more.len());
                return Err(self.refuse("message_slots", Status::invalid_argument(status)));
            }
            if slots.len() + more.len() > share {
                return Err(self.refuse("sender_share", share_exceeded(share)));
            }
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
        let (round, _) = open.ok_or_else(|| Status::invalid_argument("the call has no payloads"))?;
        Ok((round, slots))
    }

    /// Returns the number of payloads that a sender may submit for a round.
    fn share(&self, round: u64) -> Result<usize, Status> {
        let rounds = self.0.rounds.borrow();
        let open = rounds.rounds.iter().find(|open| open.round == round && open.room > 0);
        let open = open.ok_or_else(|| self.refuse("not_open", not_open()))?;
        Ok(self.0.options.sender_share(open.batch) as usize)
    }

    async fn result(self, call: Call<ResultRequest>) -> Result<Response<Parts<ResultPart>>, Status> {
        let from = origin(call.extensions()).ip;
        let round = call.into_inner().round;
        let ended = self.ask(move |task, answer| task.wait_for(round, from, answer)).await??;
        let leaving = Leaving::new(&self.0, from).ok_or_else(|| {
            self.refuse(
                "results",
                Status::resource_exhausted("too many results are being sent; try again later"),
            )
        })?;
        let count = match &*ended {
            Ended::Delivered(outcomes) => outcomes.len(),
            Ended::Failed { .. } => 1,
        };
        let parts = stream::iter((0..count).step_by(PART_SLOTS)).then(move |slot| {
            let part = part(&ended, slot);
            let inner = Arc::clone(&leaving.inner);
            async move {
                inner.pace(from, part.encoded_len()).await;
                Ok(part)
            }
        });
        Ok(Response::new(Box::pin(parts)))
    }

    /// Lists the rounds whose results this node keeps.
    async fn kept(self, call: Call<KeptRequest>) -> Result<Response<KeptRounds>, Status> {
        let from_ip = origin(call.extensions()).ip;
        self.0.pace(from_ip, LIST_BYTES_MIN).await;
        let KeptRequest { from, after } = call.into_inner();
        let listed = ask(&self.0.task, move |task| task.kept(from, after)).await;
        let listed = listed.map_err(|_| Status::unavailable("this node is stopping"))?;
        self.0.pace(from_ip, listed.encoded_len().saturating_sub(LIST_BYTES_MIN)).await;
        Ok(Response::new(listed))
    }
}

impl Inner {
    /// Waits until the address may get this many bytes.
    async fn pace(&self, to: IpAddr, bytes: usize) {
        let wait = {
            let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
            rates.take(to, bytes, Instant::now())
        };
        tokio::time::sleep(wait).await;
    }
}

/// A call that receives announcements, counted until it is dropped.
struct OpenWatch(Arc<AtomicU32>);

impl OpenWatch {
    fn new(watches: Arc<AtomicU32>) -> Self {
        watches.fetch_add(1, Ordering::Relaxed);
        Self(watches)
    }

    /// Returns the number of such calls of the connection.
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of a result that leaves, free again when this is dropped.
struct Leaving {
    inner: Arc<Inner>,
    number: u64,
}

impl Leaving {
    fn new(inner: &Arc<Inner>, to: IpAddr) -> Option<Self> {
        let mut results = inner.results.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, places) = &mut *results;
        *last += 1;
        places.take(*last, Some(to)).ok()?;
        Some(Self { inner: Arc::clone(inner), number: *last })
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut results = self.inner.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.1.free(&self.number);
    }
}

pub(super) fn not_open() -> Status {
    Status::not_found("the round accepts no payloads at this node")
}

pub(super) fn share_exceeded(share: usize) -> Status {
    Status::resource_exhausted(format!("a sender may have {share} payloads in this round"))
}

/// Returns the connection that a call comes from.
fn origin(extensions: &http::Extensions) -> Origin {
    let unknown = || Origin { ip: Ipv4Addr::UNSPECIFIED.into(), watches: Arc::default() };
    extensions.get::<Origin>().cloned().unwrap_or_else(unknown)
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
            let slots = outcomes.iter().skip(from).take(PART_SLOTS).map(|outcome| match outcome {
                Outcome::Content(content) => OutSlot { kind: 0, content: content.clone() },
                Outcome::Void => OutSlot { kind: 1, content: Bytes::new() },
                Outcome::Unreadable => OutSlot { kind: 2, content: Bytes::new() },
            });
            ResultPart { cause: String::new(), culprit: 0, slots: slots.collect() }
        }
    }
}

impl Answers for Gateway {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        match request.uri().path() {
            REGISTER => {
                let method = service_fn(move |call| self.clone().register(call));
                small().unary(method, request).await
            }
            WATCH => {
                let origin = origin(request.extensions());
                let watch = move |_: Call<WatchRequest>| std::future::ready(Ok(self.watch(origin.clone())));
                let method = service_fn(watch);
                small().server_streaming(method, request).await
            }
            SUBMIT => {
                let part = self.0.waiting.part(origin(request.extensions()).ip);
                let refused = self.0.refused.clone();
                let request = request.map(|body| Body::new(Metered::new(body, part, refused)));
                let bytes_max = message_bytes_max(self.0.group);
                let method = service_fn(move |call| self.clone().submit(call));
                let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(bytes_max);
                grpc.client_streaming(method, request).await
            }
            WITHDRAW => {
                let method = service_fn(move |call| self.clone().withdraw(call));
                small().unary(method, request).await
            }
            RESULT => {
                let method = service_fn(move |call| self.clone().result(call));
                small().server_streaming(method, request).await
            }
            KEPT => {
                let method = service_fn(move |call| self.clone().kept(call));
                small().unary(method, request).await
            }
            _ => unimplemented(),
        }
    }
}

/// A call whose request has no payloads.
fn small<E, D>() -> Grpc<ProstCodec<E, D>>
where
    ProstCodec<E, D>: Codec + Default,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(REQUEST_BYTES_MAX)
}
