//! The link layer: two connections a link, so that slots are always uploads.
//!
//! ```text
//! the node that dials                        the node that is dialled
//!   TCP, TLS, HTTP/2  ------------------------->
//!   Open(link)        ------------------------->
//!                     <-------------------------  TCP, TLS, HTTP/2
//!                     <-------------------------  Confirm(link)
//!   answer            ------------------------->  the link is up here
//!   the link is up    <-------------------------  answer to Open
//! ```
//!
//! Frames that arrive by a link that one side believes up and the other not yet wait at the [`LinkTable`].

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use http::uri::PathAndQuery;
use samara_engine::outbox::Outgoing;
use samara_engine::{PeerIdentity, PeerInfo};
use samara_mix::{Config, Mix, MixFrame, Transfer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::grpc::{Dial, Driven, Sending, Wire};
use super::identity::{self, Fingerprint};
use super::options::Options;
use super::proto::{Ack, LinkRequest};
use super::status::Tally;
use super::team::{CONFIRM, OPEN, POST, STREAM, name_link};
use crate::hub::{Attempted, LinkLayer, Task};
use crate::link::{Established, Links, Order, Ports, Progress, Report, Traffic};
use crate::status::{Closed, Counters};

/// Lanes of a link: control, real time, and precomputation.
const LANES: usize = Config::PRECOMPUTATION.0 as usize + 1;

/// Whether calls by a link may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// The link is coming up: calls wait.
    Connecting,
    Up,
    Down,
}

struct Entry {
    peer: Fingerprint,
    /// Whether this node dialled.
    outbound: bool,
    /// Whether the peer has dialled back.
    is_confirmed: bool,
    state: watch::Sender<LinkState>,
    waiting: Arc<Semaphore>,
    traffic: Arc<Traffic>,
}

/// The links of a node, as incoming calls find them.
#[derive(Clone, Default)]
pub(super) struct LinkTable(Arc<Mutex<BTreeMap<u64, Entry>>>);

/// A link's place in the table; the link is down once this is dropped.
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

/// What a call by a link needs.
#[derive(Clone, Debug)]
pub(super) struct CallAccess {
    state: watch::Receiver<LinkState>,
    /// KiB of frames that may wait for the engine.
    pub(super) waiting: Arc<Semaphore>,
    pub(super) traffic: Arc<Traffic>,
}

impl CallAccess {
    /// Waits until the link is up. Returns false if it failed instead.
    pub(super) async fn until_up(&mut self) -> bool {
        let state = self.state.wait_for(|state| *state != LinkState::Connecting).await;
        state.is_ok_and(|state| *state == LinkState::Up)
    }

    /// Waits until the link is down.
    pub(super) async fn until_down(&mut self) {
        // Fails only if the link is down and forgotten.
        let _ = self.state.wait_for(|state| *state == LinkState::Down).await;
    }
}

impl LinkTable {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a link that is coming up, in place of an older attempt of the same side. `None` if the number is in use;
    /// random numbers of 64 bits are not.
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

    /// Notes that a peer dialled back for a link. Returns false if this node did not ask it to.
    pub(super) fn confirm(&self, link: u64, peer: Fingerprint) -> bool {
        let mut entries = self.entries();
        let asked = entries.get_mut(&link).filter(|entry| entry.peer == peer && entry.outbound);
        asked.map(|entry| entry.is_confirmed = true).is_some()
    }

    /// Ends all links.
    pub(super) fn clear(&self) {
        for entry in std::mem::take(&mut *self.entries()).into_values() {
            entry.state.send_replace(LinkState::Down);
        }
    }

    /// Returns what a call by a link needs, if the caller is at its other end.
    pub(super) fn access(&self, link: u64, peer: Fingerprint) -> Option<CallAccess> {
        let entries = self.entries();
        let entry = entries.get(&link).filter(|entry| entry.peer == peer)?;
        let (waiting, traffic) = (Arc::clone(&entry.waiting), Arc::clone(&entry.traffic));
        Some(CallAccess { state: entry.state.subscribe(), waiting, traffic })
    }
}

/// A link whose both connections are up.
pub(super) struct Opened {
    wire: Wire,
    driven: Driven,
    registration: Registration,
}

/// All nodes and the scheduler, as this one dials them.
pub(super) struct Contacts {
    /// By number.
    contacts: Vec<(Fingerprint, Dial)>,
    own: Fingerprint,
    waiting_kib: u32,
    pub(super) table: LinkTable,
    tally: Tally,
}

impl Contacts {
    /// # Errors
    /// TLS cannot use the key.
    pub(super) fn new(options: &Options, tally: Tally) -> Result<Self, tokio_rustls::rustls::Error> {
        let dial = |number: u32| {
            let contact = options.contact(number)?;
            let tls = identity::client_tls(&options.identity, contact.fingerprint);
            let dial = |tls| Dial {
                address: contact.address,
                tls,
                sockets: options.sockets,
                windows: options.windows,
                timeout: options.handshake_timeout,
            };
            Some(tls.map(|tls| (contact.fingerprint, dial(tls))))
        };
        Ok(Self {
            contacts: (0..=options.pool.len() as u32).filter_map(dial).collect::<Result<_, _>>()?,
            own: options.identity.fingerprint(),
            waiting_kib: options.waiting_kib,
            table: LinkTable::default(),
            tally,
        })
    }

    fn number_of(&self, peer: Fingerprint) -> Option<u32> {
        self.contacts.iter().position(|(known, _)| *known == peer).map(|number| number as u32)
    }

    /// Asks a node for a link.
    async fn dial(&self, number: u32) -> Attempted<Grpc> {
        let (peer, dial) = &self.contacts[number as usize];
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

    /// Dials back for a link that a peer asked for.
    ///
    /// # Errors
    /// What the peer is told.
    pub(super) async fn dial_back(&self, peer: Fingerprint, link: u64) -> Result<Established<Grpc>, Status> {
        let number = self.number_of(peer).filter(|_| peer != self.own);
        let number = number.ok_or_else(|| Status::permission_denied("not a node of this pool"))?;
        let dial = &self.contacts[number as usize].1;
        let registration = self.table.register(link, peer, false, self.waiting_kib);
        let registration = registration.ok_or_else(|| Status::already_exists("the link exists"))?;
        let confirmed = async {
            let (wire, driven) = dial.connect().await?;
            let confirmed = timeout(dial.timeout, negotiate(&wire, CONFIRM, link));
            confirmed.await.map_err(|_| Closed::HandshakeTimeout)??;
            self.established(number, false, Opened { wire, driven, registration })
        };
        confirmed.await.map_err(|why| {
            tracing::debug!(node = number, %why, "dialling back failed");
            self.tally.count(why.name());
            Status::unavailable(format!("dialling back failed: {why}"))
        })
    }

    fn established(&self, number: u32, outbound: bool, opened: Opened) -> Attempted<Grpc> {
        let (peer, dial) = &self.contacts[number as usize];
        let link = opened.registration.link;
        let traffic = self.table.entries().get(&link).map(|entry| Arc::clone(&entry.traffic));
        let address = Some(dial.address.ip());
        let info = PeerInfo { identity: peer.peer(), outbound, address, protocol: "samara.mix.v1".into() };
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

/// gRPC. Nodes have the names of their numbers.
pub(super) struct Grpc(pub(super) Arc<Contacts>);

impl LinkLayer for Grpc {
    type Engine = Mix;
    type Name = u32;
    type Connection = Opened;
    /// The last round trip of a ping of the engine.
    type About = Option<Duration>;

    /// A peer that asks again has lost the link that this node still believes in.
    fn own_name(&self) -> Option<u32> {
        None
    }

    fn name(&self, identity: &PeerIdentity) -> Option<u32> {
        self.0.number_of(Fingerprint::of_peer(identity)?)
    }

    fn identity(&self, name: &u32) -> PeerIdentity {
        self.0.contacts[*name as usize].0.peer()
    }

    fn dial(&self, name: u32) -> Task<Attempted<Self>> {
        let contacts = Arc::clone(&self.0);
        Box::pin(async move { contacts.dial(name).await })
    }

    /// There is room: the pool is fixed, and each node has one link.
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

    /// The index of the lane, or [`LANES`] for all slots of a phase in one call, where the scheduler wants that.
    fn route(engine: &Mix, _: usize, copy: &Outgoing<MixFrame>, counters: &mut Counters) -> usize {
        let plan = match &copy.frame {
            MixFrame::Slots(piece) => engine.node().and_then(|node| node.plan(piece.round)),
            _ => None,
        };
        let is_post = plan.is_some_and(|plan| plan.transfer == Transfer::Unary);
        counters.posts += u64::from(is_post);
        if is_post { LANES } else { copy.lane.0 as usize }
    }
}

/// Frames on their way into a call. HTTP/2 asks for them as long as windows allow.
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
            // Fails only if the node stops.
            let _ = self.reports.send((self.link, Report::Sent(progress)));
            Some(frame)
        })
    }
}

/// Runs a link until its connection or a call ends: one call for each lane, and one for each frame of its own.
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
                // Only calls with one frame end well.
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
        tonic::Code::Unavailable | tonic::Code::Unknown | tonic::Code::Cancelled => Closed::ended(status),
        _ => Closed::Refused(status.to_string()),
    }
}

/// Makes a call with frames. Returns its path when it has ended well.
async fn call(wire: Wire, link: u64, path: &'static str, frames: Outbound) -> Result<&'static str, Status> {
    let mut request = Request::new(frames);
    name_link(&mut request, link);
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
