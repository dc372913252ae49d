//! A link: one task that reads and writes a connection.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_ring::RingFrame;
use samara_ring::wire::{Limits, decode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::MissedTickBehavior;

use super::receive::{PREFIX, Receiving};
use super::send::Sending;
use super::status::Closed;

/// How long a node waits for another to hang up after it has done so itself.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// KiB of frames of one link that wait for the engine at most; a longer frame waits alone.
const WAITING_KIB: usize = 512;

/// What a link is told.
pub(super) enum Order {
    /// Send this frame, of this length.
    Frame(RingFrame, u32),
    /// Send what is there, and hang up.
    Finish,
}

/// What a link tells.
pub(super) enum Told {
    /// A frame came, of this length. It has its share of what may wait.
    Frame(RingFrame, usize, OwnedSemaphorePermit),
    /// The socket has taken so many bytes.
    Sent(usize),
    /// The end.
    Down(Closed),
}

/// Which connection tells what.
pub(super) type FromLink = (u64, Told);

/// How a link is set up.
#[derive(Clone, Debug)]
pub(super) struct LinkOptions {
    pub(super) frame_max: usize,
    pub(super) limits: Limits,
    pub(super) idle_timeout: Duration,
}

/// A link.
pub(super) struct Link {
    number: u64,
    options: Arc<LinkOptions>,
    receiving: Receiving,
    sending: Sending,
    orders: UnboundedReceiver<Order>,
    /// Not bounded by itself: frames need a share of what may wait, and all else follows from what was handed over.
    hub: UnboundedSender<FromLink>,
    waiting: Arc<Semaphore>,
    /// A frame that waits for its share.
    held: Option<(RingFrame, usize)>,
    heard: Instant,
    is_finishing: bool,
}

impl Link {
    pub(super) fn new(
        number: u64,
        options: Arc<LinkOptions>,
        orders: UnboundedReceiver<Order>,
        hub: UnboundedSender<FromLink>,
    ) -> Self {
        Self {
            number,
            receiving: Receiving::new(options.frame_max),
            sending: Sending::default(),
            options,
            orders,
            hub,
            waiting: Arc::new(Semaphore::new(WAITING_KIB)),
            held: None,
            heard: Instant::now(),
            is_finishing: false,
        }
    }

    /// Runs until the connection ends, and tells why.
    pub(super) async fn run(mut self, mut stream: TcpStream) {
        let why = match self.exchange(&stream).await {
            Ok(()) => hang_up(&mut stream).await,
            Err(why) => why,
        };
        self.tell(Told::Down(why));
    }

    fn tell(&self, told: Told) {
        // Fails only if nobody is interested any more.
        let _ = self.hub.send((self.number, told));
    }

    /// Until the connection breaks, or everything was sent and it is to end.
    async fn exchange(&mut self, stream: &TcpStream) -> Result<(), Closed> {
        // Not a timer for each wait: that would cost more than most of what is waited for.
        let mut watch = tokio::time::interval(self.options.idle_timeout / 4);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Ok(order) = self.orders.try_recv() {
                self.handle_command(order);
            }
            self.write(stream)?;
            if self.is_finishing && self.sending.is_empty() {
                return Ok(());
            }
            self.hand_over()?;
            let share = self.share();
            let interest = match (self.held.is_none(), self.sending.is_empty()) {
                (true, true) => Some(Interest::READABLE),
                (true, false) => Some(Interest::READABLE | Interest::WRITABLE),
                (false, false) => Some(Interest::WRITABLE),
                (false, true) => None,
            };
            tokio::select! {
                order = self.orders.recv(), if !self.is_finishing => self.handle_command(order.unwrap_or(Order::Finish)),
                ready = ready(stream, interest) => {
                    let ready = ready.map_err(|error| Closed::Ended(error.to_string()))?;
                    if ready.is_readable() && self.held.is_none() {
                        self.read(stream)?;
                    }
                }
                permit = Arc::clone(&self.waiting).acquire_many_owned(share), if self.held.is_some() => {
                    let permit = permit.map_err(|_| Closed::Here)?;
                    if let Some((frame, len)) = self.held.take() {
                        self.tell(Told::Frame(frame, len, permit));
                    }
                }
                _ = watch.tick() => self.watch()?,
            }
        }
    }

    fn handle_command(&mut self, order: Order) {
        match order {
            Order::Frame(frame, len) => self.sending.push(&frame, len),
            Order::Finish => self.is_finishing = true,
        }
    }

    /// Writes until the socket takes no more.
    fn write(&mut self, stream: &TcpStream) -> Result<(), Closed> {
        let mut sent = 0;
        let mut result = Ok(());
        while !self.sending.is_empty() {
            match self.sending.write(stream) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    result = Err(Closed::Ended(error.to_string()));
                    break;
                }
            }
        }
        if sent > 0 {
            self.tell(Told::Sent(sent));
        }
        result
    }

    fn read(&mut self, stream: &TcpStream) -> Result<(), Closed> {
        match self.receiving.read(stream) {
            Ok(0) => Err(Closed::Ended(ErrorKind::UnexpectedEof.to_string())),
            Ok(_) => {
                self.heard = Instant::now();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(Closed::Ended(error.to_string())),
        }
    }

    fn share(&self) -> u32 {
        let len = self.held.as_ref().map_or(0, |(_, len)| *len);
        len.div_ceil(1024).clamp(1, WAITING_KIB) as u32
    }

    /// Hands frames to the engine, as many as may wait there.
    fn hand_over(&mut self) -> Result<(), Closed> {
        while self.held.is_none()
            && let Some(bytes) = self.receiving.next()?
        {
            let frame = decode(&bytes, &self.options.limits);
            let frame = frame.map_err(|error| Closed::Malformed(error.to_string()))?;
            self.held = Some((frame, PREFIX + bytes.len()));
            if let Ok(permit) = Arc::clone(&self.waiting).try_acquire_many_owned(self.share())
                && let Some((frame, len)) = self.held.take()
            {
                self.tell(Told::Frame(frame, len, permit));
            }
        }
        Ok(())
    }

    fn watch(&mut self) -> Result<(), Closed> {
        if self.held.is_some() {
            // It is this node that does not read.
            self.heard = Instant::now();
        }
        if self.heard.elapsed() > self.options.idle_timeout { Err(Closed::Idle) } else { Ok(()) }
    }
}

async fn ready(stream: &TcpStream, interest: Option<Interest>) -> std::io::Result<tokio::io::Ready> {
    match interest {
        Some(interest) => stream.ready(interest).await,
        None => std::future::pending().await,
    }
}

/// Ends a connection such that the other side gets everything: a socket that is closed with unread bytes in it resets.
async fn hang_up(stream: &mut TcpStream) -> Closed {
    let drain = async {
        stream.shutdown().await?;
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).await? > 0 {}
        std::io::Result::Ok(())
    };
    // However it ends, it ends.
    let _ = tokio::time::timeout(LINGER, drain).await;
    Closed::Here
}
