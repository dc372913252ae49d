//! The link layer: a link has two connections, so that slots are always uploads.
//!
//! ```text
//! the node that dials                        the dialled node
//!   TCP, TLS, HTTP/2  ------------------------->
//!   Open(link)        ------------------------->
//!                     <-------------------------  TCP, TLS, HTTP/2
//!                     <-------------------------  Confirm(link)
//!   answer            ------------------------->  the link is up here
//!   the link is up    <-------------------------  answer to Open
//! ```
//!
//! Frames can arrive on a link that only one side considers up. They wait at the [`LinkTable`].

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use http::uri::PathAndQuery;
use samara_engine::outbox::Outgoing;
use samara_engine::places::Shares;
use samara_engine::{Driver, Engine, PeerIdentity, PeerInfo};
use samara_mix::wire::Limits;
use samara_mix::{Config, MixFrame, Transfer, WithMix};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::rustls;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming, server};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::grpc::{ALPN, Answers, Dial, Driven, Listening, Receiving, Sending, Wire, caller, unimplemented};
use super::node::Tally;
use super::options::{Sockets, Windows};
use super::proto::{Ack, LinkRequest};
use crate::hub::{self, Attempt, Attempted, Hub, LinkLayer, Task};
use crate::identity::{self, Allowed, Fingerprint, Identity};
use crate::link::{Established, Links, Order, Ports, Progress, Report, Share, Traffic};
use crate::status::{Closed, Counters};

/// Concurrent calls of a node on one connection: streams of all lanes, and unary batches.
const TEAM_CALLS: u32 = 64;
/// Lanes of a link: control, real time, and precomputation.
const LANES: usize = Config::PRECOMPUTATION.0 as usize + 1;

/// Whether calls on a link may proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// The link is coming up: calls wait.
    Connecting,
    Up,
    Down,
}

struct Entry {
    peer: Fingerprint,
    outbound: bool,
    /// True once the peer has dialled back.
    is_confirmed: bool,
    state: watch::Sender<LinkState>,
    waiting: Arc<Semaphore>,
    traffic: Arc<Traffic>,
}

/// The links of a node, for the lookup by incoming calls.
#[derive(Clone, Default)]
pub(super) struct LinkTable(Arc<Mutex<BTreeMap<u64, Entry>>>);

/// A link's place in the table. Dropping it takes the link down.
pub(super) struct Registration {
    table: LinkTable,
    link: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(entry) = self.table.entries().remove(&self.link) {
            entry.state.send_replace(LinkState::Down);
        }
    }
}

#[derive(Clone, Debug)]
struct CallAccess {
    state: watch::Receiver<LinkState>,
    /// KiB of frames that may wait for the engine.
    waiting: Arc<Semaphore>,
    traffic: Arc<Traffic>,
}

impl CallAccess {
    /// Waits until the link is up. Returns false if it failed instead.
    async fn until_up(&mut self) -> bool {
        let state = self.state.wait_for(|state| *state != LinkState::Connecting).await;
        state.is_ok_and(|state| *state == LinkState::Up)
    }

    async fn until_down(&mut self) {
        // Fails only if the link is down and forgotten.
        let _ = self.state.wait_for(|state| *state == LinkState::Down).await;
    }
}

impl LinkTable {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a link that is coming up, in place of an older attempt of the same side. Returns
    /// `None` if the number is in use, which random 64-bit numbers prevent in practice.
    fn register(
        &self,
        link: u64,
        peer: Fingerprint,
        outbound: bool,
        waiting_kib: u32,
    ) -> Option<Registration> {
        let mut entries = self.entries();
        if entries.contains_key(&link) {
            return None;
        }
        entries.retain(|_, entry| {
            let is_older = entry.peer == peer
                && entry.outbound == outbound
                && *entry.state.borrow() == LinkState::Connecting;
            if is_older {
                entry.state.send_replace(LinkState::Down);
            }
            !is_older
        });
        let entry = Entry {
            peer,
            outbound,
            is_confirmed: false,
            state: watch::Sender::new(LinkState::Connecting),
            waiting: Arc::new(Semaphore::new(waiting_kib as usize)),
            traffic: Arc::default(),
        };
        entries.insert(link, entry);
        Some(Registration { table: self.clone(), link })
    }

    /// Notes that a peer dialled back for a link. Returns false if this node did not request the
    /// link.
    fn confirm(&self, link: u64, peer: Fingerprint) -> bool {
        let mut entries = self.entries();
        let asked = entries.get_mut(&link).filter(|entry| entry.peer == peer && entry.outbound);
        asked.map(|entry| entry.is_confirmed = true).is_some()
    }

    pub(super) fn clear(&self) {
        for entry in std::mem::take(&mut *self.entries()).into_values() {
            entry.state.send_replace(LinkState::Down);
        }
    }

    /// Returns the access of a call to a link, if the caller is at its other end.
    fn access(&self, link: u64, peer: Fingerprint) -> Option<CallAccess> {
        let entries = self.entries();
        let entry = entries.get(&link).filter(|entry| entry.peer == peer)?;
        let (waiting, traffic) = (Arc::clone(&entry.waiting), Arc::clone(&entry.traffic));
        Some(CallAccess { state: entry.state.subscribe(), waiting, traffic })
    }
}

pub(super) struct Opened {
    wire: Wire,
    driven: Driven,
    registration: Registration,
}

/// A node or the scheduler, as the others know it.
pub(super) struct Contact {
    pub(super) fingerprint: Fingerprint,
    /// The name of the node in the engine.
    pub(super) identity: PeerIdentity,
    pub(super) address: SocketAddr,
}

/// State that all links of a node share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) sockets: Sockets,
    pub(super) windows: Windows,
    /// Maximum time until a connection is up, and until the peer dials back.
    pub(super) timeout: Duration,
    /// KiB of frames of a link that may wait for the engine.
    pub(super) waiting_kib: u32,
    /// Maximum number of connections in their handshake.
    pub(super) pending_max: usize,
    /// Bytes of a link between the outbox and HTTP/2.
    pub(super) in_flight_bytes: usize,
    /// Limits of frames.
    pub(super) limits: Limits,
}

/// A peer, and how this node dials it.
struct Known {
    fingerprint: Fingerprint,
    identity: PeerIdentity,
    dial: Dial,
}

/// All nodes and the scheduler by their numbers, with what this node needs to dial them.
pub(super) struct Contacts {
    peers: Vec<Known>,
    own: Fingerprint,
    waiting_kib: u32,
    pub(super) table: LinkTable,
    tally: Tally,
}

impl Contacts {
    fn new(
        identity: &Identity,
        contacts: Vec<Contact>,
        terms: &Terms,
        tally: Tally,
    ) -> Result<Self, rustls::Error> {
        let known = |contact: Contact| {
            let Contact { fingerprint, identity: name, address } = contact;
            let tls = identity::client_tls(identity, fingerprint, ALPN)?;
            let Terms { sockets, windows, timeout, .. } = *terms;
            Ok(Known { fingerprint, identity: name, dial: Dial { address, tls, sockets, windows, timeout } })
        };
        Ok(Self {
            peers: contacts.into_iter().map(known).collect::<Result<_, rustls::Error>>()?,
            own: identity.fingerprint(),
            waiting_kib: terms.waiting_kib,
            table: LinkTable::default(),
            tally,
        })
    }

    fn number_of(&self, peer: Fingerprint) -> Option<u32> {
        self.peers.iter().position(|known| known.fingerprint == peer).map(|number| number as u32)
    }

    async fn dial<E: MixEngine>(&self, number: u32) -> Attempted<Grpc<E>> {
        let Known { fingerprint: peer, dial, .. } = &self.peers[number as usize];
        let link = getrandom::u64().map_err(Closed::handshake)?;
        let (wire, driven) = dial.connect().await?;
        let registration = self.table.register(link, *peer, true, self.waiting_kib);
        let registration = registration.ok_or(Closed::Duplicate)?;
        let opened = timeout(dial.timeout, negotiate(&wire, OPEN, link));
        opened.await.map_err(|_| Closed::HandshakeTimeout)??;
        if !self.table.entries().get(&link).is_some_and(|entry| entry.is_confirmed) {
            return Err(Closed::Refused("the peer did not dial back".to_owned()));
        }
        self.established(number, true, Opened { wire, driven, registration })
    }

    /// Dials back for a link that a peer requested.
    ///
    /// # Errors
    /// The status to return to the peer.
    async fn dial_back<E: MixEngine>(
        &self,
        peer: Fingerprint,
        link: u64,
    ) -> Result<Established<Grpc<E>>, Status> {
        let number = self.number_of(peer).filter(|_| peer != self.own);
        let number =
            number.ok_or_else(|| Status::permission_denied("the caller is not a node of this pool"))?;
        let dial = &self.peers[number as usize].dial;
        let registration = self.table.register(link, peer, false, self.waiting_kib);
        let registration = registration.ok_or_else(|| Status::already_exists("the link exists already"))?;
        let confirmed = async {
            let (wire, driven) = dial.connect().await?;
            let confirmed = timeout(dial.timeout, negotiate(&wire, CONFIRM, link));
            confirmed.await.map_err(|_| Closed::HandshakeTimeout)??;
            self.established(number, false, Opened { wire, driven, registration })
        };
        confirmed.await.map_err(|why| {
            tracing::debug!(node = number, %why, "cannot dial back");
            self.tally.count(why.name());
            Status::unavailable(format!("cannot dial back: {why}"))
        })
    }

    fn established<E: MixEngine>(&self, number: u32, outbound: bool, opened: Opened) -> Attempted<Grpc<E>> {
        let Known { identity, dial, .. } = &self.peers[number as usize];
        let link = opened.registration.link;
        let traffic = self.table.entries().get(&link).map(|entry| Arc::clone(&entry.traffic));
        let address = Some(dial.address.ip());
        let info =
            PeerInfo { identity: identity.clone(), outbound, address, protocol: "samara.mix.v1".into() };
        Ok(Established {
            name: number,
            remote: dial.address,
            info,
            about: None,
            number: Some(link),
            // A newer attempt has replaced this one.
            traffic: traffic.ok_or(Closed::Duplicate)?,
            connection: opened,
        })
    }
}

/// An engine that contains a node of a mix network, or its scheduler.
pub(super) trait MixEngine: Engine<Frame = MixFrame> + WithMix {}

impl<E: Engine<Frame = MixFrame> + WithMix> MixEngine for E {}

/// The gRPC layer. The name of a node is its number.
pub(super) struct Grpc<E> {
    pub(super) contacts: Arc<Contacts>,
    /// The servers, which end when this is dropped.
    pub(super) servers: JoinSet<()>,
    engine: PhantomData<fn(E)>,
}

impl<E: MixEngine> Grpc<E> {
    /// Serves the other nodes, and returns the hub of their links.
    pub(super) fn hub(
        driver: Driver<E>,
        identity: &Identity,
        contacts: Vec<Contact>,
        listener: TcpListener,
        terms: &Terms,
        tally: Tally,
    ) -> Result<Hub<Self>, rustls::Error> {
        let own = identity.fingerprint();
        let others: BTreeSet<Fingerprint> =
            contacts.iter().map(|contact| contact.fingerprint).filter(|other| *other != own).collect();
        // Each of the others has one connection, and a second one while it reconnects.
        let connections_max = 4 * contacts.len();
        let limits = hub::Limits {
            in_flight_bytes: terms.in_flight_bytes,
            pending_max: terms.pending_max,
            // The server has limits of its own.
            inbound: Shares::per_host(usize::MAX),
            dials_max: contacts.len(),
        };
        let contacts = Arc::new(Contacts::new(identity, contacts, terms, tally.clone())?);
        let layer = Self { contacts: Arc::clone(&contacts), servers: JoinSet::new(), engine: PhantomData };
        // The server listens, so the hub gets established links.
        let mut hub = Hub::new(driver, layer, None, limits, Vec::new());
        let (attempts, reports) = hub.inlets();
        let team = Team { contacts, limits: terms.limits, waiting_kib: terms.waiting_kib, reports, attempts };
        let listening = Listening {
            tls: identity::server_tls(identity, Allowed::Known(others), ALPN)?,
            sockets: terms.sockets,
            windows: terms.windows,
            timeout: terms.timeout,
            pending_max: terms.pending_max,
            // All of them have known certificates.
            pending_shares: Shares::per_host(terms.pending_max),
            connections_max,
            // Several nodes may share an address.
            shares: Shares::per_host(connections_max),
            calls_max: TEAM_CALLS,
            idle_timeout: None,
            send_timeout: None,
            tally,
        };
        hub.layer.servers.spawn(listening.serve(listener, team));
        Ok(hub)
    }
}

impl<E: MixEngine> LinkLayer for Grpc<E> {
    type Engine = E;
    type Name = u32;
    type Connection = Opened;
    /// The last round trip of a ping of the engine.
    type About = Option<Duration>;

    /// A peer that dials again has lost the link that this node still considers up.
    fn own_name(&self) -> Option<u32> {
        None
    }

    fn name(&self, identity: &PeerIdentity) -> Option<u32> {
        let mut peers = self.contacts.peers.iter();
        peers.position(|known| known.identity == *identity).map(|number| number as u32)
    }

    fn identity(&self, name: &u32) -> PeerIdentity {
        self.contacts.peers[*name as usize].identity.clone()
    }

    fn dial(&self, name: u32) -> Task<Attempted<Self>> {
        let contacts = Arc::clone(&self.contacts);
        Box::pin(async move { contacts.dial(name).await })
    }

    /// There is always room: the pool is fixed, and each node has one link.
    fn admit(&self, _links: &Links<Self>, _new: &Established<Self>) -> Result<(), Closed> {
        Ok(())
    }

    fn run(&self, opened: Opened, ports: Ports<MixFrame>) -> Task<()> {
        let table = &opened.registration.table;
        if let Some(entry) = table.entries().get(&opened.registration.link) {
            entry.state.send_replace(LinkState::Up);
        }
        Box::pin(run(opened, ports))
    }

    /// Returns the index of the lane, or [`LANES`] for all slots of a phase in one call, if the
    /// scheduler chose that transfer.
    fn route(engine: &E, _: usize, copy: &Outgoing<MixFrame>, counters: &mut Counters) -> usize {
        let plan = match &copy.frame {
            MixFrame::Slots(piece) => engine.mix().node().and_then(|node| node.plan(piece.round)),
            _ => None,
        };
        let is_post = plan.is_some_and(|plan| plan.transfer == Transfer::Unary);
        counters.unary_calls += u64::from(is_post);
        if is_post { LANES } else { copy.lane.0 as usize }
    }
}

/// Frames on their way into a call. HTTP/2 polls for frames as long as windows allow.
struct Outbound {
    queue: UnboundedReceiver<(MixFrame, u32)>,
    link: u64,
    reports: UnboundedSender<(u64, Report<MixFrame>)>,
    traffic: Arc<Traffic>,
}

impl Stream for Outbound {
    type Item = MixFrame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<MixFrame>> {
        self.queue.poll_recv(cx).map(|order| {
            let (frame, len) = order?;
            self.traffic.sent(len as usize);
            let progress = Progress { taken: Vec::new(), written_bytes: u64::from(len) };
            // Fails only if the node is stopping.
            let _ = self.reports.send((self.link, Report::Sent(progress)));
            Some(frame)
        })
    }
}

/// Runs a link until its connection or a call ends: one call for each lane, and one for each batch
/// in a call of its own.
async fn run(opened: Opened, mut ports: Ports<MixFrame>) {
    let Opened { wire, mut driven, registration: _registration } = opened;
    let mut calls = JoinSet::new();
    let begin = |calls: &mut JoinSet<_>, path| {
        let (sender, queue) = unbounded_channel();
        let (reports, traffic) = (ports.reports.clone(), Arc::clone(&ports.traffic));
        let frames = Outbound { queue, link: ports.number, reports, traffic };
        calls.spawn(call(wire.clone(), ports.number, path, frames));
        sender
    };
    let lanes: Vec<_> = (0..LANES).map(|_| begin(&mut calls, STREAM)).collect();
    let why = loop {
        tokio::select! {
            order = ports.orders.recv() => match order {
                Some(Order::Frame { channel, frame, len }) => {
                    let post = || begin(&mut calls, POST);
                    let lane = lanes.get(channel).cloned().unwrap_or_else(post);
                    // Fails only if the call has just ended.
                    let _ = lane.send((frame, len));
                }
                Some(Order::Finish) | None => break Closed::Here,
            },
            Some(ended) = calls.join_next() => match ended {
                // Only calls with one frame end without an error.
                Ok(Ok(POST)) => {}
                Ok(Ok(_)) => break Closed::ended("the peer ended a stream"),
                Ok(Err(status)) => break refusal(&status),
                Err(error) => break Closed::ended(error),
            },
            why = driven.ended() => break why,
        }
    };
    ports.report(Report::Down(why));
}

/// Returns the cause for the error of a call.
fn refusal(status: &Status) -> Closed {
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Cancelled => Closed::ended(status),
        _ => Closed::Refused(status.to_string()),
    }
}

/// Makes a call with frames. Returns its path when it has ended without an error.
async fn call(wire: Wire, link: u64, path: &'static str, frames: Outbound) -> Result<&'static str, Status> {
    let mut request = Request::new(frames);
    request.metadata_mut().insert(LINK, link.into());
    let mut grpc = wire.ready().await?;
    grpc.client_streaming(request, PathAndQuery::from_static(path), Sending).await?;
    Ok(path)
}

/// Makes a call about a link: [`OPEN`] or [`CONFIRM`].
async fn negotiate(wire: &Wire, path: &'static str, link: u64) -> Result<(), Closed> {
    let mut grpc = wire.ready().await.map_err(|status| Closed::ended(status.message()))?;
    let codec = ProstCodec::<LinkRequest, Ack>::default();
    let answer = grpc.unary(Request::new(LinkRequest { link }), PathAndQuery::from_static(path), codec).await;
    answer.map(drop).map_err(|status| Closed::Refused(status.message().to_owned()))
}

const OPEN: &str = "/samara.mix.v1.Team/Open";
const CONFIRM: &str = "/samara.mix.v1.Team/Confirm";
const STREAM: &str = "/samara.mix.v1.Team/Stream";
const POST: &str = "/samara.mix.v1.Team/Post";
/// The metadata that names the link of a call.
const LINK: &str = "samara-link";

fn link_of(metadata: &MetadataMap) -> Result<u64, Status> {
    let link = metadata.get(LINK).and_then(|value| value.to_str().ok()?.parse().ok());
    link.ok_or_else(|| Status::invalid_argument("missing or invalid metadata samara-link"))
}

/// The service for other nodes.
struct Team<E: MixEngine> {
    contacts: Arc<Contacts>,
    limits: Limits,
    waiting_kib: u32,
    reports: UnboundedSender<(u64, Report<MixFrame>)>,
    /// Unbounded: an attempt follows from a waiting call, and the number of calls is bounded.
    attempts: UnboundedSender<Attempt<Grpc<E>>>,
}

impl<E: MixEngine> Clone for Team<E> {
    fn clone(&self) -> Self {
        Self {
            contacts: Arc::clone(&self.contacts),
            reports: self.reports.clone(),
            attempts: self.attempts.clone(),
            ..*self
        }
    }
}

impl<E: MixEngine> Team<E> {
    async fn open(self, request: Request<LinkRequest>) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        let new = self.contacts.dial_back(peer, request.into_inner().link).await?;
        let offered = self.attempts.send(Attempt::Offered(Box::new(new)));
        offered.map_err(|_| Status::unavailable("this node is stopping"))?;
        Ok(Response::new(Ack {}))
    }

    async fn confirm(self, request: Request<LinkRequest>) -> Result<Response<Ack>, Status> {
        let peer = caller(&request)?;
        if !self.contacts.table.confirm(request.into_inner().link, peer) {
            return Err(Status::failed_precondition("this node did not request the link"));
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
        let mut access = access.ok_or_else(|| Status::failed_precondition("unknown link"))?;
        let mut frames = request.into_inner();
        let down = || Status::unavailable("the link is down");
        if !access.until_up().await {
            return Err(down());
        }
        loop {
            tokio::select! {
                // Biased, since frames of a link that is down must not reach the engine.
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
                        self.report(link, Report::Down(failure(&status)));
                        return Err(status);
                    }
                },
            }
        }
    }

    /// Waits for a frame's share of the receive budget. Returns `None` if the link goes down first.
    async fn share(&self, len: usize, access: &mut CallAccess) -> Option<Share> {
        // A frame that is longer than the budget waits alone.
        let kib = (len.div_ceil(1024) as u32).clamp(1, self.waiting_kib);
        tokio::select! {
            share = Arc::clone(&access.waiting).acquire_many_owned(kib) => Some(Share(share.ok()?, None)),
            () = access.until_down() => None,
        }
    }

    fn report(&self, link: u64, report: Report<MixFrame>) {
        // Fails only if this node is stopping.
        let _ = self.reports.send((link, report));
    }
}

/// Returns the cause for the error of a call.
fn failure(status: &Status) -> Closed {
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::ResourceExhausted | Code::Internal => {
            Closed::Malformed(status.message().to_owned())
        }
        _ => Closed::ended(status),
    }
}

impl<E: MixEngine> Answers for Team<E> {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let path = request.uri().path();
        match path {
            OPEN | CONFIRM => {
                let is_open = path == OPEN;
                let method = service_fn(move |request| {
                    let this = self.clone();
                    async move { if is_open { this.open(request).await } else { this.confirm(request).await } }
                });
                server::Grpc::new(ProstCodec::default()).unary(method, request).await
            }
            // On the wire, a call with one frame equals a stream of one frame.
            STREAM | POST => {
                let (is_post, limits) = (path == POST, self.limits);
                let method = service_fn(move |request| self.clone().receive(request, is_post));
                let longest = limits.slots_bytes.max(limits.control_bytes);
                let mut grpc = server::Grpc::new(Receiving(limits)).max_decoding_message_size(longest);
                grpc.client_streaming(method, request).await
            }
            _ => unimplemented(),
        }
    }
}
