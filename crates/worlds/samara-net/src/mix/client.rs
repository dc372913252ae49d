//! A sender: it shares secrets with all nodes of a pool, seals payloads for rounds, submits them,
//! and fetches the results.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::uri::PathAndQuery;
use samara_mix::{Config, Group, KeyPair, Outcome, SealError, Sealed, Secret, Sender, SenderId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::announced::{Announced, Rules};
use super::gateway::{Ended, MESSAGE_SLOTS, REGISTER, RESULT, SUBMIT, WATCH, WITHDRAW};
use super::grpc::{ALPN, Dial, Wire};
use super::options::{Contact, Sockets, Windows};
use super::proto::{
    OpenRounds, OutSlot, RegisterReply, RegisterRequest, ResultPart, ResultRequest, SealedSlot, SubmitReply,
    SubmitRequest, WatchRequest, WithdrawReply, WithdrawRequest,
};
use crate::identity::{Identity, client_tls};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub round: u64,
    /// The nodes of the team in order. The first one accepts payloads.
    pub team: Vec<u32>,
    /// Payloads that the first node still accepted when it announced the round.
    pub room: u32,
    pub batch: u32,
    /// Payloads that one sender may submit.
    pub share: u32,
    /// Different senders whose payloads the batch still needed when the first node announced it.
    pub senders_wanted: u32,
}

#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The sender's certificate and private key. The fingerprint is the sender's name.
    pub identity: Identity,
    /// The nodes of the pool in order, each with its address for senders.
    pub nodes: Vec<Contact>,
    pub group: Group,
    pub windows: Windows,
    pub sockets: Sockets,
    pub timeout: Duration,
    /// The pause before the sender dials a node again.
    pub retry: Duration,
    /// Minimum nodes of a team: the sender ignores rounds of smaller teams. If all nodes of a team
    /// collude, they know the sender of each payload.
    pub team_min: usize,
    /// Maximum payloads of a batch: the sender ignores rounds with more.
    pub batch_max: u32,
    /// Maximum rounds that a node may announce at a time. The sender ignores further ones.
    pub announced_max: usize,
}

impl ClientOptions {
    pub fn new(identity: Identity, nodes: Vec<Contact>, group: Group) -> Self {
        Self {
            identity,
            nodes,
            group,
            windows: Windows::default(),
            sockets: Sockets::default(),
            timeout: Duration::from_secs(5),
            retry: Duration::from_millis(500),
            team_min: 3,
            batch_max: Config::default().batch_max,
            // Nodes take part in 64 rounds at a time by default.
            announced_max: 1024,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("invalid certificate: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// No pool of this size has teams that the options accept.
    #[error("team_min: found {team_min}, expected 1 to {nodes}, the number of nodes")]
    TeamMin { team_min: usize, nodes: usize },
    #[error("cannot get random numbers: {0}")]
    Random(getrandom::Error),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("node {node} is not connected")]
    NotConnected { node: u32 },
    #[error("cannot reach node {node} at {address}: {why}")]
    Unreachable { node: u32, address: SocketAddr, why: String },
    #[error("node {node}: {status}")]
    Node { node: u32, status: Box<Status> },
    #[error("cannot seal the payloads: {0}")]
    Thread(String),
}

impl ClientError {
    /// Returns true if the first node of a team may have taken the payloads of a
    /// [`submit`](Client::submit) that ended with this error: its answer is lost.
    pub fn may_have_submitted(&self) -> bool {
        let Self::Node { status, .. } = self else { return false };
        // The gateway answers with other codes if it refuses payloads.
        matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStatus {
    /// Nodes with which the sender shares a secret.
    pub registered: usize,
    /// The last failure of each node with which the sender shares no secret.
    pub failures: BTreeMap<u32, String>,
    /// Current announcements, one for each round and node.
    pub announced: usize,
    /// Current rounds that all nodes of the team announce alike.
    pub confirmed: usize,
    /// Current announcements that another node of the team contradicts.
    pub disputed: usize,
    /// Announcements ignored since the start, by the rule that they break: `team_too_small`,
    /// `team_too_large`, `not_in_team`, `unknown_node`, `repeated_node`, `batch`, `repeated_round`,
    /// `too_many_rounds`. Also whole messages, as `message_too_long`. A node repeats an
    /// announcement whenever one of its rounds changes, and each repetition counts.
    pub ignored: BTreeMap<&'static str, u64>,
}

/// State shared by the tasks of connections and the calls.
struct Shared {
    options: ClientOptions,
    keys: KeyPair,
    /// Holds the secrets shared with all nodes at which the sender is registered.
    sender: Mutex<Sender>,
    registered: watch::Sender<BTreeSet<u32>>,
    failures: Mutex<BTreeMap<u32, String>>,
    /// The connection to each node, while there is one.
    wires: Vec<watch::Sender<Option<Wire>>>,
    rules: Rules,
    open: watch::Sender<Announced>,
}

impl Shared {
    fn sender(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<u32, String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first usable round that was not taken before.
    fn take_unused(&self) -> Option<Round> {
        let registered = self.registered.borrow().clone();
        let mut taken = None;
        // A round that disappears gives no waiter a reason to check again.
        self.open.send_if_modified(|open| {
            taken = open.take(&registered);
            false
        });
        taken
    }

    fn wire(&self, node: u32) -> Result<Wire, ClientError> {
        let wire = self.wires.get(node as usize).and_then(|wire| wire.borrow().clone());
        wire.ok_or(ClientError::NotConnected { node })
    }
}

/// A sender. Cheap to clone; its connections end when all clones are dropped.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    _tasks: Arc<JoinSet<()>>,
}

impl Client {
    /// Starts a sender. It connects to all nodes, and reconnects when a connection breaks.
    ///
    /// # Errors
    /// The certificate is invalid, there are no random numbers, or [`ClientOptions::team_min`]
    /// exceeds the number of nodes in the pool.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with time and input and output.
    pub fn start(options: ClientOptions) -> Result<Self, ClientError> {
        let nodes = options.nodes.len();
        if !(1..=nodes).contains(&options.team_min) {
            return Err(ClientError::TeamMin { team_min: options.team_min, nodes });
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(ClientError::Random)?;
        let shared = Arc::new(Shared {
            keys: KeyPair::new(options.group, Secret::new(secret)),
            sender: Mutex::new(Sender::new(options.group, options.identity.fingerprint().sender())),
            registered: watch::Sender::default(),
            failures: Mutex::default(),
            wires: options.nodes.iter().map(|_| watch::Sender::new(None)).collect(),
            rules: Rules::new(&options),
            open: watch::Sender::default(),
            options,
        });
        let mut tasks = JoinSet::new();
        for node in 0..shared.options.nodes.len() as u32 {
            tasks.spawn(keep(Arc::clone(&shared), node, dial(&shared.options, node)?));
        }
        Ok(Self { shared, _tasks: Arc::new(tasks) })
    }

    pub fn id(&self) -> SenderId {
        self.shared.sender().id()
    }

    /// Waits until the sender shares a secret with each node.
    pub async fn ready(&self) {
        let all = self.shared.options.nodes.len();
        // Cannot fail: this sender holds the other end.
        let _ = self.shared.registered.subscribe().wait_for(|registered| registered.len() == all).await;
    }

    /// Returns the counts of current and of ignored announcements.
    pub fn status(&self) -> ClientStatus {
        let registered = self.shared.registered.borrow().clone();
        let mut failures = self.shared.failures().clone();
        failures.retain(|node, _| !registered.contains(node));
        ClientStatus { registered: registered.len(), failures, ..self.shared.open.borrow().status() }
    }

    /// Waits for the next round that accepts payloads and that this method has not returned before.
    /// All nodes of its team announce the same team and batch, the team has at least
    /// [`ClientOptions::team_min`] different nodes, and this sender shares a secret with each of
    /// them.
    pub async fn next_round(&self) -> Round {
        let mut open = self.shared.open.subscribe();
        loop {
            open.mark_unchanged();
            if let Some(round) = self.shared.take_unused() {
                return round;
            }
            // Cannot fail: this sender holds the other end. A registration can also make a round
            // usable.
            let _ = tokio::time::timeout(self.shared.options.retry, open.changed()).await;
        }
    }

    /// Seals payloads for a round, each with a salt of its own.
    ///
    /// # Errors
    /// The length of a payload is not [`Group::content_bytes`], or the sender shares no secret with
    /// a node.
    pub async fn seal(&self, round: &Round, contents: Vec<Vec<u8>>) -> Result<Vec<Sealed>, ClientError> {
        let sender = self.shared.sender().clone();
        let (number, team) = (round.round, round.team.clone());
        let sealed = tokio::task::spawn_blocking(move || {
            let seal = |content: Vec<u8>| {
                let mut salt = [0; 32];
                getrandom::fill(&mut salt).map_err(ClientError::Random)?;
                Ok(sender.seal(number, &team, salt, &content)?)
            };
            contents.into_iter().map(seal).collect()
        });
        sealed.await.map_err(|error| ClientError::Thread(error.to_string()))?
    }

    /// Submits sealed payloads to the first node of the team, which accepts all or none. Returns
    /// the remaining room of the round.
    ///
    /// # Errors
    /// The node is not connected, or has no room for them.
    pub async fn submit(&self, round: &Round, sealed: Vec<Sealed>) -> Result<u32, ClientError> {
        let node = round.team.first().copied().unwrap_or_default();
        let wire = self.shared.wire(node)?;
        let number = round.round;
        let slots = sealed.into_iter().map(|slot| {
            let (elements, credentials) = slot.into_parts();
            SealedSlot { elements, credentials }
        });
        let slots: Vec<SealedSlot> = slots.collect();
        let messages: Vec<SubmitRequest> = slots
            .chunks(MESSAGE_SLOTS)
            .map(|slots| SubmitRequest { round: number, slots: slots.to_vec() })
            .collect();
        let of_node = |status| ClientError::Node { node, status: Box::new(status) };
        let mut grpc = wire.ready().await.map_err(of_node)?;
        let codec = ProstCodec::<SubmitRequest, SubmitReply>::default();
        let call = Request::new(stream::iter(messages));
        let reply = grpc.client_streaming(call, PathAndQuery::from_static(SUBMIT), codec).await;
        Ok(reply.map_err(of_node)?.into_inner().room)
    }

    /// Returns the number of further senders that a round needs, as its first node announces it now.
    /// `None` if the node announces the round no more: it has its batch, or is over.
    pub fn senders_wanted(&self, round: &Round) -> Option<u32> {
        self.shared.open.borrow().senders_wanted(round)
    }

    /// Removes all payloads of this sender from a round that has not begun to mix. Returns their
    /// number. An honest first node forgets them; the others have not seen them.
    ///
    /// # Errors
    /// The first node of the team is not connected, or the round does not wait for payloads any more:
    /// those of this sender may come out.
    pub async fn withdraw(&self, round: &Round) -> Result<u32, ClientError> {
        let node = round.team.first().copied().unwrap_or_default();
        let wire = self.shared.wire(node)?;
        let of_node = |status| ClientError::Node { node, status: Box::new(status) };
        let mut grpc = wire.ready().await.map_err(of_node)?;
        let codec = ProstCodec::<WithdrawRequest, WithdrawReply>::default();
        let call = Request::new(WithdrawRequest { round: round.round });
        let reply = grpc.unary(call, PathAndQuery::from_static(WITHDRAW), codec).await;
        Ok(reply.map_err(of_node)?.into_inner().payloads)
    }

    /// Waits for the end of a round. Queries the nodes of the team one after the other.
    ///
    /// # Errors
    /// None of the nodes is connected, or none knows the round.
    pub async fn result(&self, round: &Round) -> Result<Ended, ClientError> {
        let mut last = ClientError::NotConnected { node: round.team.first().copied().unwrap_or_default() };
        for node in &round.team {
            match self.result_of(*node, round).await {
                Ok(ended) => return Ok(ended),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn result_of(&self, node: u32, round: &Round) -> Result<Ended, ClientError> {
        let wire = self.shared.wire(node)?;
        let of_node = |status| ClientError::Node { node, status: Box::new(status) };
        let mut grpc = wire.ready().await.map_err(of_node)?;
        let codec = ProstCodec::<ResultRequest, ResultPart>::default();
        let call = Request::new(ResultRequest { round: round.round });
        let parts = grpc.server_streaming(call, PathAndQuery::from_static(RESULT), codec).await;
        let mut parts = parts.map_err(of_node)?.into_inner();
        let mut result = Partial::new(self.shared.options.group, round.batch);
        while let Some(part) = parts.message().await.map_err(of_node)? {
            if let Some(failed) = result.add(part).map_err(of_node)? {
                return Ok(failed);
            }
        }
        result.end().map_err(of_node)
    }
}

/// A result that arrives in parts.
pub(super) struct Partial {
    group: Group,
    batch: usize,
    outcomes: Vec<Outcome>,
}

impl Partial {
    pub(super) const fn new(group: Group, batch: u32) -> Self {
        Self { group, batch: batch as usize, outcomes: Vec::new() }
    }

    /// Adds a part. Returns the end of a round that failed.
    pub(super) fn add(&mut self, part: ResultPart) -> Result<Option<Ended>, Status> {
        if !part.cause.is_empty() {
            return Ok(Some(Ended::Failed { cause: part.cause, culprit: part.culprit.checked_sub(1) }));
        }
        if part.slots.is_empty() || self.outcomes.len() + part.slots.len() > self.batch {
            return Err(Status::internal("the parts of a result are empty or more than the batch"));
        }
        for slot in part.slots {
            self.outcomes.push(outcome(slot, self.group)?);
        }
        Ok(None)
    }

    /// Returns the result after its last part.
    pub(super) fn end(self) -> Result<Ended, Status> {
        if self.outcomes.len() != self.batch {
            let status = format!("{} outcomes of a batch of {}", self.outcomes.len(), self.batch);
            return Err(Status::internal(status));
        }
        Ok(Ended::Delivered(self.outcomes))
    }
}

pub(super) fn dial(options: &ClientOptions, node: u32) -> Result<Dial, tokio_rustls::rustls::Error> {
    let contact = options.nodes[node as usize];
    Ok(Dial {
        address: contact.address,
        tls: client_tls(&options.identity, contact.fingerprint, ALPN)?,
        sockets: options.sockets,
        windows: options.windows,
        timeout: options.timeout,
    })
}

/// Keeps a connection to a node until the task is aborted.
async fn keep(shared: Arc<Shared>, node: u32, dial: Dial) {
    loop {
        let why = match dial.connect().await {
            Err(why) => why.to_string(),
            Ok((wire, mut driven)) => tokio::select! {
                Err(status) = stay(&shared, node, &wire) => status.message().to_owned(),
                why = driven.ended() => why.to_string(),
            },
        };
        tracing::debug!(node, why, "no connection to a node");
        shared.failures().insert(node, why);
        // A node that restarts has another key.
        shared.registered.send_modify(|registered| {
            registered.remove(&node);
        });
        shared.wires[node as usize].send_replace(None);
        shared.open.send_modify(|open| open.replace(&shared.rules, node, Vec::new()));
        tokio::time::sleep(shared.options.retry).await;
    }
}

async fn stay(shared: &Shared, node: u32, wire: &Wire) -> Result<Infallible, Status> {
    let mut grpc = wire.ready().await?;
    let public = Bytes::copy_from_slice(shared.keys.public());
    let codec = ProstCodec::<RegisterRequest, RegisterReply>::default();
    let call = Request::new(RegisterRequest { public });
    let reply = grpc.unary(call, PathAndQuery::from_static(REGISTER), codec).await?.into_inner();
    if reply.group != shared.options.group.name() || reply.node != node {
        let (found, group) = (reply.node, reply.group);
        let expected = shared.options.group.name();
        return Err(Status::failed_precondition(format!(
            "the peer is node {found} with {group}; expected node {node} with {expected}"
        )));
    }
    // A second agreement yields the same secret as long as the node runs.
    let secret = shared.keys.agree(&reply.public).map_err(|error| Status::internal(error.to_string()))?;
    shared.sender().register(node, secret);
    shared.wires[node as usize].send_replace(Some(wire.clone()));
    shared.registered.send_modify(|registered| {
        registered.insert(node);
    });
    watch(shared, node, wire.ready().await?).await
}

async fn watch(shared: &Shared, node: u32, grpc: Grpc<Wire>) -> Result<Infallible, Status> {
    let mut grpc = grpc.max_decoding_message_size(shared.rules.message_bytes_max());
    let codec = ProstCodec::<WatchRequest, OpenRounds>::default();
    let call = Request::new(WatchRequest {});
    let states = grpc.server_streaming(call, PathAndQuery::from_static(WATCH), codec).await?;
    let mut states = states.into_inner();
    loop {
        match states.message().await {
            Ok(Some(OpenRounds { rounds })) => {
                shared.open.send_modify(|open| open.replace(&shared.rules, node, rounds));
            }
            Ok(None) => return Err(Status::unavailable("the node announces no more rounds")),
            Err(status) => {
                if status.code() == Code::OutOfRange {
                    shared.open.send_modify(|open| open.ignore(node, "message_too_long"));
                }
                return Err(status);
            }
        }
    }
}

fn outcome(slot: OutSlot, group: Group) -> Result<Outcome, Status> {
    match slot.kind {
        0 if slot.content.len() == group.content_bytes() => Ok(Outcome::Content(slot.content)),
        0 => Err(Status::internal(format!("the content has a wrong length of {} bytes", slot.content.len()))),
        1 => Ok(Outcome::Void),
        2 => Ok(Outcome::Unreadable),
        kind => Err(Status::internal(format!("unknown kind of outcome {kind}"))),
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({:?})", self.id())
    }
}
