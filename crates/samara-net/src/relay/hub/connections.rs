//! Links come and go. A link is two connections: each side is a client of the other's server.
//!
//! ```text
//! the one that dials                         the one that is dialled
//!   TCP, TLS, HTTP/2  ------------------------->
//!   Open(link)        ------------------------->
//!                     <-------------------------  TCP, TLS, HTTP/2
//!                     <-------------------------  Confirm(link): the link is up for the one that dials
//!   answer            ------------------------->  the link is up here, too
//!                     <-------------------------  answer to Open
//! ```

use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Input, PeerId, PeerInfo};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use tonic::Status;

use super::{Hub, LANES};
use crate::relay::identity::Fingerprint;
use crate::relay::link::{Lanes, Link, negotiate};
use crate::relay::options::{Options, Sockets, Windows};
use crate::relay::status::Closed;
use crate::relay::team::{CONFIRM, OPEN};
use crate::relay::tls;
use crate::relay::wire::{Dial, Driven, Wire};

type Answer = oneshot::Sender<Result<(), Status>>;

/// How an attempt to get a link goes on.
pub(in crate::relay) enum Attempt {
    /// A connection to the one that this one dials.
    Connected { number: u32, link: u64, wire: Wire, driven: Driven },
    /// Another one asks for a link.
    Asked { peer: Fingerprint, link: u64, answer: Answer },
    /// The way back of a link that this one asked for.
    Confirmed { peer: Fingerprint, link: u64, answer: Answer },
    /// The way back of a link that another one asked for, which knows.
    Ready { number: u32, link: u64, wire: Wire, driven: Driven, answer: Answer },
    /// It came to nothing.
    Failed { number: u32, link: u64, why: Closed },
}

/// An attempt under way.
pub(super) struct Pending {
    link: u64,
    outbound: bool,
    /// The way out, once there is one.
    way: Option<(Wire, Driven)>,
}

/// A link, from outside.
pub(super) struct LinkHandle {
    pub(super) link: u64,
    pub(super) outbound: bool,
    pub(super) lanes: Lanes,
    task: AbortHandle,
    /// Bytes that were handed to it and that HTTP/2 has not taken yet.
    pub(super) in_flight: u64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
    pub(super) round_trip: Option<Duration>,
}

/// Everybody, as this one dials them.
pub(in crate::relay) struct Party {
    /// By number.
    contacts: Vec<(Fingerprint, Dial)>,
}

impl Party {
    /// What it takes to dial everybody.
    ///
    /// # Errors
    /// The key is none that TLS can use.
    pub(in crate::relay) fn new(options: &Options) -> Result<Self, tokio_rustls::rustls::Error> {
        let dial = |number: u32| {
            let contact = options.contact(number)?;
            let tls = tls::client(&options.identity, contact.fingerprint);
            Some(tls.map(|tls| (contact.fingerprint, Self::dial(options, contact.address, tls))))
        };
        let contacts = (0..=options.pool.len() as u32).filter_map(dial).collect::<Result<_, _>>()?;
        Ok(Self { contacts })
    }

    fn dial(options: &Options, address: std::net::SocketAddr, tls: Arc<ClientConfig>) -> Dial {
        let (sockets, windows): (Sockets, Windows) = (options.sockets, options.windows);
        Dial { address, tls, sockets, windows, timeout: options.handshake_timeout }
    }

    pub(super) fn number_of(&self, fingerprint: Fingerprint) -> Option<u32> {
        self.contacts.iter().position(|(known, _)| *known == fingerprint).map(|number| number as u32)
    }
}

impl Hub {
    pub(super) fn dial(&mut self, number: u32) {
        let is_under_way = self.pending.get(&number).is_some_and(|pending| pending.outbound);
        let Some((fingerprint, dial)) = self.party.contacts.get(number as usize).cloned() else { return };
        if self.links.contains_key(&number) || is_under_way {
            return;
        }
        let Ok(link) = getrandom::u64() else {
            return self.driver.input(Input::DialFailed { identity: fingerprint.peer() });
        };
        self.replace_pending(number, Pending { link, outbound: true, way: None });
        let attempts = self.inbound.attempt_sender.clone();
        self.tasks.spawn(async move {
            let why = match dial.connect().await {
                Err(why) => why,
                Ok((wire, driven)) => {
                    let connected = Attempt::Connected { number, link, wire: wire.clone(), driven };
                    // Fails only if this node ends, as below.
                    let _ = attempts.send(connected).await;
                    match timeout(dial.timeout, negotiate(&wire, OPEN, link)).await {
                        Ok(Ok(())) => return,
                        Ok(Err(why)) => why,
                        Err(_) => Closed::HandshakeTimeout,
                    }
                }
            };
            let _ = attempts.send(Attempt::Failed { number, link, why }).await;
        });
    }

    fn replace_pending(&mut self, number: u32, pending: Pending) {
        if let Some(old) = self.pending.insert(number, pending) {
            self.doors.shut(old.link);
        }
    }

    /// Takes the attempt with this link out of those under way.
    fn take_pending(&mut self, number: u32, link: u64) -> Option<Pending> {
        let is_it = self.pending.get(&number).is_some_and(|pending| pending.link == link);
        if is_it { self.pending.remove(&number) } else { None }
    }

    pub(super) fn attempted(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Connected { number, link, wire, driven } => {
                let waiting_kib = self.options.waiting_kib;
                let Some(pending) = self.pending.get_mut(&number).filter(|pending| pending.link == link)
                else {
                    return;
                };
                pending.way = Some((wire, driven));
                self.doors.prepare(link, self.party.contacts[number as usize].0, waiting_kib);
            }
            Attempt::Asked { peer, link, answer } => self.asked(peer, link, answer),
            Attempt::Confirmed { peer, link, answer } => {
                let number = self.party.number_of(peer);
                let pending = number.and_then(|number| Some((number, self.take_pending(number, link)?)));
                match pending {
                    Some((number, Pending { link, outbound: true, way: Some(way) })) => {
                        // Fails only if the other side has given up, which shows at once.
                        let _ = answer.send(Ok(()));
                        self.bring_up(number, link, true, way);
                    }
                    _ => drop(answer.send(Err(Status::failed_precondition("nobody asked for this link")))),
                }
            }
            Attempt::Ready { number, link, wire, driven, answer } => match self.take_pending(number, link) {
                Some(_) => {
                    self.bring_up(number, link, false, (wire, driven));
                    let _ = answer.send(Ok(()));
                }
                None => drop(answer.send(Err(Status::aborted("there is a newer link")))),
            },
            Attempt::Failed { number, link, why } => {
                let Some(pending) = self.take_pending(number, link) else { return };
                self.doors.shut(link);
                tracing::debug!(node = number, %why, "no link");
                self.tally.count(why.name());
                if pending.outbound && !self.links.contains_key(&number) {
                    let identity = self.party.contacts[number as usize].0.peer();
                    self.driver.input(Input::DialFailed { identity });
                }
            }
        }
    }

    /// Another one asks for a link: it is dialled back.
    fn asked(&mut self, peer: Fingerprint, link: u64, answer: Answer) {
        let me = self.options.number();
        let number = self.party.number_of(peer).filter(|number| Some(*number) != me);
        let known =
            number.and_then(|number| Some((number, self.party.contacts.get(number as usize)?.1.clone())));
        let Some((number, dial)) = known else {
            return drop(answer.send(Err(Status::permission_denied("not a node of this pool"))));
        };
        if !self.doors.prepare(link, peer, self.options.waiting_kib) {
            return drop(answer.send(Err(Status::already_exists("there is such a link"))));
        }
        self.replace_pending(number, Pending { link, outbound: false, way: None });
        let attempts = self.inbound.attempt_sender.clone();
        self.tasks.spawn(async move {
            let confirmed = async {
                let (wire, driven) = dial.connect().await?;
                let confirmed = timeout(dial.timeout, negotiate(&wire, CONFIRM, link));
                confirmed.await.map_err(|_| Closed::HandshakeTimeout)??;
                Ok((wire, driven))
            };
            let attempt = match confirmed.await {
                Ok((wire, driven)) => Attempt::Ready { number, link, wire, driven, answer },
                Err(why) => {
                    let _ = answer.send(Err(Status::unavailable(format!("dialled back in vain: {why}"))));
                    Attempt::Failed { number, link, why }
                }
            };
            // Fails only if this node ends.
            let _ = attempts.send(attempt).await;
        });
    }

    fn bring_up(&mut self, number: u32, link: u64, outbound: bool, way: (Wire, Driven)) {
        // Whoever asks again has lost the link that this one believes in.
        self.take_down(number, &Closed::Duplicate);
        let (task, lanes) = Link::new(link, way, LANES, self.inbound.told.0.clone());
        let task = self.tasks.spawn(task.run());
        self.of_link.insert(link, number);
        self.links.insert(
            number,
            LinkHandle {
                link,
                outbound,
                lanes,
                task,
                in_flight: 0,
                bytes_up: 0,
                bytes_down: 0,
                round_trip: None,
            },
        );
        self.counters.links += 1;
        self.doors.open(link);
        let (fingerprint, dial) = &self.party.contacts[number as usize];
        let info = PeerInfo {
            identity: fingerprint.peer(),
            outbound,
            address: Some(dial.address.ip()),
            protocol: "samara.mix.v1".into(),
        };
        self.driver.outbox().link_up(PeerId(number));
        self.driver.input(Input::LinkUp { peer: PeerId(number), info });
        tracing::debug!(node = number, outbound, "a link is up");
    }

    /// Ends a link. Nothing happens if it is gone already.
    pub(super) fn take_down(&mut self, number: u32, why: &Closed) {
        let Some(link) = self.links.remove(&number) else { return };
        link.task.abort();
        self.of_link.remove(&link.link);
        self.doors.shut(link.link);
        tracing::debug!(node = number, %why, "a link is down");
        self.tally.count(why.name());
        let peer = PeerId(number);
        self.counters.lost_copies += self.driver.outbox().link_down(peer) as u64;
        self.driver.input(Input::LinkDown { peer });
    }
}
