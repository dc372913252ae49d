//! A host of an experiment: an application with its engine on real sockets, and a clock that all
//! hosts of the run share.
//!
//! The hosts of a run trust each other. A host takes [`Request`]s of the experiment, and tells the
//! application's events with their times.

mod layer;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::outbox;
use samara_engine::places::Shares;
use samara_engine::{Driver, Engine, FrameCodec, NodeRng, Outbox, PeerIdentity, Time};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::layer::Plain;
pub use self::layer::TOKEN_BYTES;
use crate::hub::{Event, Hub, Limits};
use crate::status::Closed;
pub use crate::status::Counters;

/// Handshakes for each host of the run that may be under way: it dials again while an earlier one
/// has not ended.
const PENDING_SHARE: usize = 4;

/// The names of hosts in the engine, by their numbers in the run.
#[derive(Clone)]
pub struct Names {
    /// Returns the identity of a host.
    pub identity: fn(u32) -> PeerIdentity,
    /// Returns the host with an identity.
    pub host: fn(&PeerIdentity) -> Option<u32>,
    /// Returns the protocol that a dialler and a listener agree on.
    pub protocol: Arc<dyn Fn(u32, u32) -> Arc<str> + Send + Sync>,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The number of this host.
    pub own: u32,
    /// A secret of the run: others cannot connect.
    pub token: [u8; TOKEN_BYTES],
    pub listen: SocketAddr,
    /// The address at which this host dials each host.
    pub peers: Vec<SocketAddr>,
    /// The hosts that this one dials, with the times.
    pub dials: Vec<(Time, u32)>,
    pub names: Names,
    /// The start of the run.
    pub start: Instant,
    /// Whether the host starts again, now. Otherwise it starts with the run.
    pub is_restart: bool,
    /// Bytes of a link between the outbox and the socket.
    pub in_flight_bytes: usize,
    /// Maximum number of unsent bytes of a socket in the kernel (`TCP_NOTSENT_LOWAT`).
    pub not_sent_bytes: u32,
    /// Maximum time until a link is up.
    pub dial_timeout: Duration,
}

/// Looks at a host.
pub type Looking<E> = Box<dyn FnOnce(Look<'_, E>) + Send>;

/// What an experiment asks of a host.
pub enum Request<E: Engine> {
    /// Passes a command to the application at this time, or at once if it has passed.
    Command(Time, E::Command),
    /// Loses the link to a host, and dials it again if `again`.
    Disconnect { host: u32, again: bool },
    /// Looks at the host.
    Look(Looking<E>),
    /// Ends the host, as soon as its links have sent what they have.
    Stop,
}

/// The state of a host.
pub struct Look<'a, E: Engine> {
    /// The time of the run.
    pub now: Time,
    pub engine: &'a E,
    /// The counters of links since the host started.
    pub links: Counters,
    /// The counters of the outbox by lane.
    pub lanes: Vec<(&'static str, outbox::Counters)>,
    /// Copies that the outbox holds.
    pub owed: usize,
    /// How much later than planned each command was carried out, until somebody takes that.
    pub late: &'a mut Vec<Duration>,
}

/// Runs a host until it is told to stop, or nobody is left who could. `tell` receives the events of
/// the application.
///
/// # Errors
/// There are no random numbers.
pub async fn serve<E: Engine + 'static>(
    options: Options,
    listener: TcpListener,
    codec: Arc<dyn FrameCodec<E::Frame>>,
    (engine, outbox): (E, Outbox<E::Frame>),
    requests: &mut mpsc::Receiver<Request<E>>,
    mut tell: impl FnMut(Time, E::Event),
) -> Result<(), String> {
    tokio::time::sleep_until(options.start.into()).await;
    let rng = NodeRng::from_entropy(getrandom::fill).map_err(|error| error.to_string())?;
    let limits = Limits {
        in_flight_bytes: options.in_flight_bytes,
        pending_max: PENDING_SHARE * options.peers.len() + PENDING_SHARE,
        // Each host has one link to another one, and a second one while both dial.
        inbound: Shares::per_host(usize::MAX),
        dials_max: usize::MAX,
    };
    let at = if options.is_restart { Time::ZERO + options.start.elapsed() } else { Time::ZERO };
    let driver = Driver::since(options.start, at, engine, outbox, rng);
    let hub = Hub::new(driver, Plain::new(&options, codec), Some(listener), limits, Vec::new());
    let dials = options.dials.iter().map(|dial| Reverse(*dial)).collect();
    let mut host = Host {
        hub,
        start: options.start,
        dials,
        commands: BTreeMap::new(),
        commanded: 0,
        late: Vec::new(),
        again: Vec::new(),
    };
    loop {
        host.hub.driver.fire_timers();
        host.act();
        host.hub.settle();
        for event in host.hub.take_events() {
            match event {
                Event::Engine(event) => tell(host.now(), event),
                Event::LinkDown { name, .. } if host.again.contains(&name) => {
                    host.again.retain(|again| *again != name);
                    host.hub.dial(name);
                }
                _ => {}
            }
        }
        host.hub.drain();
        let deadline = host.next_deadline();
        tokio::select! {
            turn = host.hub.next(deadline) => {
                if let Some((stream, remote)) = host.hub.handle(turn) {
                    let doorway = Arc::clone(&host.hub.layer.doorway);
                    host.hub.greet(remote, doorway.greet(stream, remote));
                }
            }
            request = requests.recv() => match request {
                Some(Request::Command(at, command)) => {
                    host.commanded += 1;
                    host.commands.insert((at, host.commanded), command);
                }
                Some(Request::Disconnect { host: peer, again }) => host.disconnect(peer, again),
                Some(Request::Look(look)) => look(host.look()),
                Some(Request::Stop) | None => break,
            },
        }
    }
    host.hub.stop();
    host.hub.finish().await;
    Ok(())
}

struct Host<E: Engine + 'static> {
    hub: Hub<Plain<E>>,
    start: Instant,
    dials: BinaryHeap<Reverse<(Time, u32)>>,
    /// Commands in the order of their times, and of their arrival.
    commands: BTreeMap<(Time, u64), E::Command>,
    commanded: u64,
    late: Vec<Duration>,
    /// Hosts to dial as soon as their links are gone.
    again: Vec<u32>,
}

impl<E: Engine + 'static> Host<E> {
    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Carries out the dials and the commands that are due.
    fn act(&mut self) {
        let now = self.now();
        while let Some(Reverse((at, host))) = self.dials.peek().copied()
            && at <= now
        {
            self.dials.pop();
            self.hub.dial(host);
        }
        while let Some(first) = self.commands.first_entry()
            && first.key().0 <= now
        {
            let (at, _) = *first.key();
            let command = first.remove();
            self.late.push(self.now().since(at));
            self.hub.driver.input(samara_engine::Input::Command(command));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let dial = self.dials.peek().map(|Reverse((at, _))| *at);
        let command = self.commands.keys().next().map(|(at, _)| *at);
        let next = [dial, command].into_iter().flatten().min()?;
        Some(self.start + next.since(Time::ZERO))
    }

    fn disconnect(&mut self, host: u32, again: bool) {
        if let Some((peer, _)) = self.hub.links.of(&host) {
            if again {
                self.again.push(host);
            }
            self.hub.take_down(peer, Closed::Here);
        }
    }

    fn look(&mut self) -> Look<'_, E> {
        let (now, links, lanes) = (self.now(), self.hub.counters(), self.hub.lanes());
        let owed = self.hub.driver.outbox().pending();
        Look { now, engine: self.hub.driver.engine(), links, lanes, owed, late: &mut self.late }
    }
}
