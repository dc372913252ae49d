//! A connection: one task that reads, writes, pings and answers pings.

use std::future::Future;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use samara_engine::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{OwnedPermit, Sender, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep_until;

use super::codec::Codec;
use super::error::{Broken, Closed};
use super::handshake::Established;
use super::options::Options;
use super::receive::{Incoming, Receiving};
use super::secret::{SEALED, Secret};
use super::send::{Progress, Sending};
use super::wire::Packet;

/// How long a node waits for a peer to hang up after it has done so itself.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// Bytes of frames that wait for the engine, of all peers together, in KiB. Fair: peers take turns.
pub(super) const WAITING_KIB: usize = 32 << 10;

/// Bytes on the wire, sealed, since the connection is up.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) up: AtomicU64,
    pub(super) down: AtomicU64,
}

/// What a connection is told.
pub(super) enum ToConnection<F> {
    /// A copy for a channel (its index).
    Copy(usize, F),
    /// Send what is there, and hang up.
    Finish,
}

/// What comes from a peer, in order.
pub(super) enum FromPeer<F> {
    /// A frame, and its share of what may wait.
    Frame { connection: u64, frame: F, share: OwnedSemaphorePermit },
    /// The end.
    Down { connection: u64, why: Closed },
}

/// Room in the queue to the engine, and a share of its bytes.
type Slot<F> = (OwnedSemaphorePermit, OwnedPermit<FromPeer<F>>);
type Reserving<F> = Pin<Box<dyn Future<Output = Option<Slot<F>>> + Send>>;

/// Where a connection tells what happens.
pub(super) struct Outlets<F> {
    pub(super) frames: Sender<FromPeer<F>>,
    pub(super) waiting: Arc<Semaphore>,
    /// Not bounded by itself: there is progress only in what was handed over.
    pub(super) progress: UnboundedSender<(u64, Progress)>,
}

impl<F> Clone for Outlets<F> {
    fn clone(&self) -> Self {
        Self {
            frames: self.frames.clone(),
            waiting: Arc::clone(&self.waiting),
            progress: self.progress.clone(),
        }
    }
}

/// A connection.
pub(super) struct Connection<C: Codec> {
    number: u64,
    codec: Arc<C>,
    secret: Secret,
    receiving: Receiving,
    sending: Sending,
    orders: UnboundedReceiver<ToConnection<C::Frame>>,
    outlets: Outlets<C::Frame>,
    /// A frame that waits for room, and the waiting for it.
    inbox: Option<(C::Frame, Reserving<C::Frame>)>,
    traffic: Arc<Traffic>,
    finishing: bool,
    ping_interval: Duration,
    pong_timeout: Duration,
    ping_at: Instant,
    pong_until: Option<Instant>,
}

impl<C: Codec> Connection<C> {
    pub(super) fn new(
        number: u64,
        codec: Arc<C>,
        established: Established,
        options: &Options,
        orders: UnboundedReceiver<ToConnection<C::Frame>>,
        outlets: Outlets<C::Frame>,
        traffic: Arc<Traffic>,
    ) -> (Self, TcpStream) {
        let now = Instant::now();
        let sending = Sending::new(&codec.channels(), options.flush, now);
        let Established { stream, secret, receiving, .. } = established;
        let connection = Self {
            number,
            codec,
            secret,
            receiving,
            sending,
            orders,
            outlets,
            inbox: None,
            traffic,
            finishing: false,
            ping_interval: options.ping_interval,
            pong_timeout: options.pong_timeout,
            ping_at: now + options.ping_interval,
            pong_until: None,
        };
        (connection, stream)
    }

    /// Runs until the connection ends, and tells why.
    pub(super) async fn run(mut self, mut stream: TcpStream) {
        let why = match self.exchange(&mut stream).await {
            Ok(()) => self.hang_up(&mut stream).await,
            Err(why) => why,
        };
        self.tell_progress();
        let Self { number, outlets, .. } = self;
        // Fails only if nobody is interested any more.
        let _ = outlets.frames.send(FromPeer::Down { connection: number, why }).await;
    }

    /// Until the connection breaks, or everything was sent and it is to end.
    async fn exchange(&mut self, stream: &mut TcpStream) -> Result<(), Closed> {
        let ended = |error: std::io::Error| Closed::Ended(error.to_string());
        let (mut reader, mut writer) = stream.split();
        let mut buffer = [0; SEALED];
        loop {
            self.take_in()?;
            self.sending.work(&mut self.secret, Instant::now()).map_err(ended)?;
            self.tell_progress();
            if self.finishing && self.sending.is_idle() {
                return Ok(());
            }
            let wants = self.receiving.wants();
            let wake = self.next_wake();
            let unsent = self.sending.unsent();
            tokio::select! {
                slot = reserved(&mut self.inbox), if self.inbox.is_some() => self.deliver(slot)?,
                len = reader.read(&mut buffer[..wants]), if self.inbox.is_none() => {
                    let len = len.map_err(ended)?;
                    if len == 0 {
                        return Err(ended(ErrorKind::UnexpectedEof.into()));
                    }
                    self.traffic.down.fetch_add(len as u64, Ordering::Relaxed);
                    self.receiving.read(&buffer[..len]);
                }
                len = writer.write(unsent), if !unsent.is_empty() => {
                    let len = len.map_err(ended)?;
                    self.traffic.up.fetch_add(len as u64, Ordering::Relaxed);
                    self.sending.wrote(len);
                }
                order = self.orders.recv(), if !self.finishing => self.handle_command(order),
                () = sleep_until(wake.into()) => self.watch()?,
            }
        }
    }

    /// Takes what has come up to the next frame, which waits in the inbox.
    fn take_in(&mut self) -> Result<(), Closed> {
        while self.inbox.is_none() {
            match self.receiving.next(&mut self.secret)? {
                None => break,
                Some(Incoming::Ping) => self.sending.push_packet(&Packet::PONG, Instant::now()),
                Some(Incoming::Pong) => self.pong_until = None,
                Some(Incoming::Message { channel, bytes }) => {
                    let kib = bytes.len().div_ceil(1024).clamp(1, WAITING_KIB) as u32;
                    let frame = self.codec.decode(channel, bytes);
                    let frame = frame.map_err(|error| Broken::Frame { channel, error })?;
                    self.inbox = Some((frame, self.reserve(kib)));
                }
            }
        }
        Ok(())
    }

    /// A place in the queue to the engine. Kept until it is there: whoever asks anew is the last again.
    fn reserve(&self, kib: u32) -> Reserving<C::Frame> {
        let (frames, waiting) = (self.outlets.frames.clone(), Arc::clone(&self.outlets.waiting));
        Box::pin(async move {
            let share = waiting.acquire_many_owned(kib).await.ok()?;
            let place = frames.reserve_owned().await.ok()?;
            Some((share, place))
        })
    }

    fn deliver(&mut self, slot: Option<Slot<C::Frame>>) -> Result<(), Closed> {
        let (share, place) = slot.ok_or(Closed::Here)?;
        if let Some((frame, _)) = self.inbox.take() {
            place.send(FromPeer::Frame { connection: self.number, frame, share });
        }
        Ok(())
    }

    fn handle_command(&mut self, order: Option<ToConnection<C::Frame>>) {
        match order {
            Some(ToConnection::Copy(channel, frame)) => {
                debug_assert_eq!(self.codec.encode(&frame).len(), frame.encoded_len());
                self.sending.push(channel, self.codec.encode(&frame));
            }
            Some(ToConnection::Finish) | None => self.finishing = true,
        }
    }

    fn next_wake(&self) -> Instant {
        let flush = self.sending.next_flush();
        [flush, self.pong_until].into_iter().flatten().fold(self.ping_at, Instant::min)
    }

    fn watch(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        if self.inbox.is_some() && self.pong_until.is_some() {
            // The pong may be there: it is this node that does not read.
            self.pong_until = Some(now + self.pong_timeout);
        }
        if self.pong_until.is_some_and(|until| until <= now) {
            return Err(Closed::PongTimeout);
        }
        if self.ping_at <= now {
            self.ping_at = now + self.ping_interval;
            self.sending.push_packet(&Packet::PING, now);
            self.pong_until.get_or_insert(now + self.pong_timeout);
        }
        Ok(())
    }

    fn tell_progress(&mut self) {
        if let Some(progress) = self.sending.take_progress() {
            // Fails only if nobody is interested any more.
            let _ = self.outlets.progress.send((self.number, progress));
        }
    }

    /// Ends the connection such that the peer gets everything: a socket that is closed with unread bytes in it resets.
    async fn hang_up(&mut self, stream: &mut TcpStream) -> Closed {
        let drain = async {
            stream.shutdown().await?;
            let mut buffer = [0; SEALED];
            while stream.read(&mut buffer).await? > 0 {}
            std::io::Result::Ok(())
        };
        // However it ends, it ends.
        let _ = tokio::time::timeout(LINGER, drain).await;
        Closed::Here
    }
}

/// The place that the frame in the inbox waits for.
async fn reserved<F>(inbox: &mut Option<(F, Reserving<F>)>) -> Option<Slot<F>> {
    match inbox {
        Some((_, reserving)) => reserving.as_mut().await,
        None => std::future::pending().await,
    }
}
