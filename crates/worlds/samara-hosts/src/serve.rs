//! The course of a host: commands and dials at their times, and the events of its application.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::{Driver, Engine, FrameCodec, Time};
use samara_sim::{App, Connection, Work};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Looked, ProtocolOf, Transport};

/// Bytes of the secret that all hosts of a run share.
pub const TOKEN_BYTES: usize = samara_net::hosted::TOKEN_BYTES;

/// A future that one thread runs.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Opens the sockets of a host. The returned function begins to use them.
pub type Open<A> =
    fn(Place, Arc<dyn FrameCodec<<A as Engine>::Frame>>) -> Waiting<'static, Result<Begin<A>, String>>;
/// Begins to use the sockets of a host.
pub type Begin<A> = Box<dyn FnOnce(Driver<A>) -> Result<Box<dyn Links<A>>, String>>;

/// Where a host is, and what its sockets are to be like.
pub struct Place {
    /// The number of this host.
    pub own: u32,
    /// A secret of the run: others cannot connect.
    pub token: [u8; TOKEN_BYTES],
    pub listen: SocketAddr,
    /// The address at which this host dials each host.
    pub peers: Vec<SocketAddr>,
    /// Returns the protocol that a dialler and a listener agree on.
    pub protocol: Option<ProtocolOf>,
    pub transport: Transport,
    /// Whether one order over all links has its limit of what is under way.
    pub has_limit: bool,
    /// Maximum number of unsent bytes of a socket of framed TCP.
    pub unsent_bytes: u32,
    /// The layer between frames and the transport. The channels of CometBFT are those of the
    /// application.
    pub connection: Connection,
}

/// The sockets of a host, and the application behind them.
pub trait Links<A: App> {
    fn dial(&mut self, host: u32);

    /// Loses the link to a host, and dials it again.
    fn reconnect(&mut self, host: u32);

    fn command(&mut self, command: A::Command);

    /// Fires timers, carries out what the engine asks for, and returns the events of the application.
    fn settle(&mut self) -> Vec<(Instant, A::Event)>;

    /// Takes the work that the application has for processors.
    fn take_work(&mut self) -> Vec<Work<A::Command>>;

    /// Returns the frames that have left or arrived since the last call. Links that do not see them
    /// return none.
    fn frames(&mut self) -> Vec<Moved<A::Frame>> {
        Vec::new()
    }

    /// Waits for the next thing that happens, or until a time, and handles it. Dropping the wait
    /// loses nothing.
    fn next(&mut self, until: Option<Instant>) -> Waiting<'_, ()>;

    /// Returns a snapshot of the counters, without those of commands.
    fn look(&mut self) -> Looked<A::Counters>;

    /// Ends the links as soon as they have sent what they have.
    fn finish(self: Box<Self>) -> Waiting<'static, ()>;
}

/// A frame that has left or arrived.
pub struct Moved<F> {
    pub at: Instant,
    /// The host at the other end.
    pub peer: u32,
    pub is_sent: bool,
    pub frame: F,
}

/// A snapshot of a host.
pub enum Happened<A: Engine> {
    /// The application emitted an event.
    Event(A::Event),
    /// A frame was sent to a host, or received from it.
    Frame { peer: u32, is_sent: bool, frame: A::Frame },
}

/// Looks at a host.
pub type Looking<A> = Box<dyn FnOnce(Looked<<A as App>::Counters>) + Send>;

/// A request of an experiment to a host.
pub enum Request<A: App> {
    /// Passes a command to the application at this time, or at once if it has passed.
    Command(Time, A::Command),
    Reconnect(u32),
    Look(Looking<A>),
    /// Calls back after the reports of all earlier events.
    Sync(Box<dyn FnOnce() + Send>),
    /// Ends the host, as soon as its links have sent what they have.
    Stop,
}

/// Receives what happens, with the times since the start.
pub type Tell<A> = Box<dyn FnMut(Time, Happened<A>)>;
/// Runs a host from a time until an order to stop, or until nobody is left to give one. It dials others at
/// these times.
pub type Serve<A> = fn(
    Box<dyn Links<A>>,
    Instant,
    Vec<(Time, u32)>,
    mpsc::Receiver<Request<A>>,
    Tell<A>,
) -> Waiting<'static, ()>;

/// Runs a host from `start` until an order to stop, or until nobody is left to give one. It dials others at
/// these times.
pub(crate) fn serve<A: App>(
    links: Box<dyn Links<A>>,
    start: Instant,
    dials: Vec<(Time, u32)>,
    requests: mpsc::Receiver<Request<A>>,
    tell: Tell<A>,
) -> Waiting<'static, ()> {
    Box::pin(run(links, start, dials, requests, tell))
}

async fn run<A: App>(
    links: Box<dyn Links<A>>,
    start: Instant,
    dials: Vec<(Time, u32)>,
    mut requests: mpsc::Receiver<Request<A>>,
    mut tell: Tell<A>,
) {
    tokio::time::sleep_until(start.into()).await;
    let dials = dials.into_iter().map(Reverse).collect();
    let mut host = Host { links, start, dials, commands: BTreeMap::new(), commanded: 0, late: Vec::new() };
    let mut working = JoinSet::new();
    loop {
        host.act();
        for (at, event) in host.links.settle() {
            tell(Time::ZERO + at.saturating_duration_since(start), Happened::Event(event));
        }
        for Moved { at, peer, is_sent, frame } in host.links.frames() {
            let happened = Happened::Frame { peer, is_sent, frame };
            tell(Time::ZERO + at.saturating_duration_since(start), happened);
        }
        // The application limits how much it has at a time.
        for work in host.links.take_work() {
            working.spawn_blocking(work);
        }
        let until = host.next_deadline();
        tokio::select! {
            () = host.links.next(until) => {}
            Some(done) = working.join_next() => match done {
                Ok(command) => host.links.command(command),
                // The application would wait for the result for ever.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            request = requests.recv() => match request {
                Some(Request::Command(at, command)) => {
                    host.commanded += 1;
                    host.commands.insert((at, host.commanded), command);
                }
                Some(Request::Reconnect(peer)) => host.links.reconnect(peer),
                Some(Request::Look(look)) => {
                    let late_ns = std::mem::take(&mut host.late);
                    look(Looked { late_ns, ..host.links.look() });
                }
                Some(Request::Sync(answer)) => answer(),
                Some(Request::Stop) | None => break,
            },
        }
    }
    host.links.finish().await;
}

struct Host<A: App> {
    links: Box<dyn Links<A>>,
    start: Instant,
    dials: BinaryHeap<Reverse<(Time, u32)>>,
    /// Commands in the order of their times, and of their arrival.
    commands: BTreeMap<(Time, u64), A::Command>,
    commanded: u64,
    /// How much later than planned each command was carried out, in nanoseconds.
    late: Vec<u64>,
}

impl<A: App> Host<A> {
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
            self.links.dial(host);
        }
        while let Some(first) = self.commands.first_entry()
            && first.key().0 <= now
        {
            let (at, _) = *first.key();
            let command = first.remove();
            self.late.push(nanos(self.now().since(at)));
            self.links.command(command);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let dial = self.dials.peek().map(|Reverse((at, _))| *at);
        let command = self.commands.keys().next().map(|(at, _)| *at);
        let next = [dial, command].into_iter().flatten().min()?;
        Some(self.start + next.since(Time::ZERO))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
