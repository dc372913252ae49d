//! The link layer of groups: frames over TCP, each behind its length.
//!
//! Both sides first send their group, their terms and their name. Afterwards one task for each link reads and
//! writes.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::{PeerId, PeerIdentity, PeerInfo};
use samara_ring::wire::{Limits, decode};
use samara_ring::{Ring, RingFrame};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, timeout};

use super::buffers::{PREFIX, Receiving, Sending};
use super::options::Options;
use crate::hub::{Attempted, LinkLayer, Task};
use crate::link::{Established, Links, Order, Ports, Progress, Report, Share, connect, hang_up, set_up};
use crate::status::Closed;

/// The first bytes of every connection.
const MAGIC: [u8; 7] = *b"samring";
/// The version of the framing, which follows.
const VERSION: u8 = 2;
/// The magic, the version and the group.
const HEAD_BYTES: usize = MAGIC.len() + 1 + 8;
/// The longest terms. Those of this version have at most 150 bytes.
const TERMS_MAX: usize = 200;
/// The longest address as text is `[` + 39 + `%` + a number of 10 digits + `]:65535`.
const NAME_MAX: usize = 64;
/// KiB of frames of one link that may wait for the engine; a longer frame waits alone.
const WAITING_KIB: usize = 512;

/// Returns a member's name. It is the address for dialling the member, so that the view is enough
/// to dial all members.
pub(super) fn identity_of(address: SocketAddr) -> PeerIdentity {
    PeerIdentity::new(address.to_string().as_bytes())
}

/// Returns the address for dialling the member with this name.
fn address_of(identity: &PeerIdentity) -> Option<SocketAddr> {
    std::str::from_utf8(identity.as_bytes()).ok()?.parse().ok()
}

#[derive(Clone, Debug)]
pub(super) struct LinkOptions {
    pub(super) frame_max: usize,
    pub(super) limits: Limits,
    pub(super) idle_timeout: Duration,
}

pub(super) struct Framed {
    members_max: usize,
    link: Arc<LinkOptions>,
    pub(super) handshake: Handshake,
}

#[derive(Clone)]
pub(super) struct Handshake {
    group: u64,
    /// The options that all members share, in words ([`Options::terms`]).
    terms: Arc<str>,
    own: SocketAddr,
    not_sent_bytes: u32,
    timeout: Duration,
}

impl Handshake {
    pub(super) fn own(&self) -> SocketAddr {
        self.own
    }

    async fn dial(self, address: SocketAddr) -> Attempted<Framed> {
        let stream = connect(address, self.timeout).await?;
        let new = self.greet(stream, true).await?;
        if new.name == address { Ok(new) } else { Err(Closed::OtherNode(new.name)) }
    }

    pub(super) async fn greet(self, mut stream: TcpStream, outbound: bool) -> Attempted<Framed> {
        let remote = stream.peer_addr().map_err(Closed::handshake)?;
        set_up(&stream, self.not_sent_bytes).map_err(Closed::handshake)?;
        let name = timeout(self.timeout, self.exchange(&mut stream));
        let name = name.await.map_err(|_| Closed::HandshakeTimeout)??;
        // A node that reaches itself under another address would be two members.
        if name == self.own {
            return Err(Closed::OtherNode(name));
        }
        let (identity, address) = (identity_of(name), Some(remote.ip()));
        let info = PeerInfo { identity, outbound, address, protocol: "samring/1".into() };
        let (about, traffic) = ((), Arc::default());
        Ok(Established { name, remote, info, about, number: None, traffic, connection: stream })
    }

    /// Sends this node's first message, and returns the name in the peer's. The caller's timeout cuts
    /// off slow peers.
    async fn exchange(&self, stream: &mut TcpStream) -> Result<SocketAddr, Closed> {
        let mut hello = Vec::with_capacity(HEAD_BYTES + 2 + TERMS_MAX + NAME_MAX);
        hello.extend_from_slice(&MAGIC);
        hello.push(VERSION);
        hello.extend_from_slice(&self.group.to_le_bytes());
        for text in [&*self.terms, &self.own.to_string()] {
            hello.push(text.len() as u8);
            hello.extend_from_slice(text.as_bytes());
        }
        stream.write_all(&hello).await.map_err(Closed::handshake)?;

        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await.map_err(Closed::handshake)?;
        let (magic, rest) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Closed::handshake("the peer does not speak this protocol"));
        }
        let (version, group) = rest.split_at(1);
        if version != [VERSION] {
            let found = version[0];
            return Err(Closed::Handshake(format!(
                "the peer speaks version {found} of this protocol; expected {VERSION}"
            )));
        }
        // The whole message, before its fields are judged: a socket that closes with unread bytes
        // resets the connection, and the peer could not read why.
        let terms = text(stream, "terms", TERMS_MAX).await?;
        let name = text(stream, "a name", NAME_MAX).await?;
        if group != self.group.to_le_bytes() {
            return Err(Closed::OtherGroup);
        }
        if terms != *self.terms {
            return Err(Closed::OtherOptions { found: terms, expected: self.terms.to_string() });
        }
        let address = name.parse::<SocketAddr>();
        address.map_err(|_| Closed::handshake("the peer's name is not an address"))
    }
}

/// Reads a text behind its length in one byte.
async fn text(stream: &mut TcpStream, what: &str, max: usize) -> Result<String, Closed> {
    let len = usize::from(stream.read_u8().await.map_err(Closed::handshake)?);
    if len > max {
        return Err(Closed::Handshake(format!("{what} of {len} bytes: expected at most {max}")));
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).await.map_err(Closed::handshake)?;
    // Texts of strangers end up in logs.
    let printable = String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control));
    printable.ok_or_else(|| Closed::Handshake(format!("{what}: expected printable text")))
}

impl Framed {
    pub(super) fn new(options: &Options, own: SocketAddr) -> Self {
        Self {
            members_max: options.config.members_max,
            link: Arc::new(options.link_options()),
            handshake: Handshake {
                group: options.group_number(),
                terms: options.terms().into(),
                own,
                not_sent_bytes: options.not_sent_bytes,
                timeout: options.handshake_timeout,
            },
        }
    }
}

impl LinkLayer for Framed {
    type Engine = Ring;
    type Name = SocketAddr;
    type Connection = TcpStream;
    type About = ();
    const FRAMING: u32 = PREFIX as u32;

    fn own_name(&self) -> Option<SocketAddr> {
        Some(self.handshake.own)
    }

    fn name(&self, identity: &PeerIdentity) -> Option<SocketAddr> {
        address_of(identity)
    }

    fn identity(&self, name: &SocketAddr) -> PeerIdentity {
        identity_of(*name)
    }

    fn dial(&self, name: SocketAddr) -> Task<Attempted<Self>> {
        Box::pin(self.handshake.clone().dial(name))
    }

    fn admit(&self, links: &Links<Self>, new: &Established<Self>) -> Result<(), Closed> {
        // Former and future members may have links besides all members.
        let is_full = links.len() >= 2 * self.members_max;
        // One host must not take the room of all others.
        let fills_up = || links.inbound(Some(new.remote.ip())) >= self.members_max;
        if is_full || !new.info.outbound && fills_up() { Err(Closed::Full) } else { Ok(()) }
    }

    fn run(&self, stream: TcpStream, ports: Ports<RingFrame>) -> Task<()> {
        Box::pin(Link::new(Arc::clone(&self.link), ports).run(stream))
    }

    fn forget(engine: &mut Ring, peer: PeerId) -> bool {
        engine.forget_peer(peer)
    }
}

struct Link {
    options: Arc<LinkOptions>,
    receiving: Receiving,
    sending: Sending,
    ports: Ports<RingFrame>,
    waiting: Arc<Semaphore>,
    /// A frame that waits for its share of the receive budget.
    held: Option<(RingFrame, usize)>,
    heard: Instant,
    is_finishing: bool,
}

impl Link {
    fn new(options: Arc<LinkOptions>, ports: Ports<RingFrame>) -> Self {
        Self {
            receiving: Receiving::new(options.frame_max),
            sending: Sending::default(),
            options,
            ports,
            waiting: Arc::new(Semaphore::new(WAITING_KIB)),
            held: None,
            heard: Instant::now(),
            is_finishing: false,
        }
    }

    async fn run(mut self, mut stream: TcpStream) {
        let why = match self.exchange(&stream).await {
            Ok(()) => hang_up(&mut stream).await,
            Err(why) => why,
        };
        self.ports.report(Report::Down(why));
    }

    /// Reads and writes until the connection breaks, or everything has left after the order to
    /// finish.
    async fn exchange(&mut self, stream: &TcpStream) -> Result<(), Closed> {
        // A timer for each wait would cost more than most of the work between waits.
        let mut watch = tokio::time::interval(self.options.idle_timeout / 4);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Ok(order) = self.ports.orders.try_recv() {
                self.handle_order(order);
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
                order = self.ports.orders.recv(), if !self.is_finishing => {
                    self.handle_order(order.unwrap_or(Order::Finish));
                }
                ready = ready(stream, interest) => {
                    if ready.map_err(Closed::ended)?.is_readable() && self.held.is_none() {
                        self.read(stream)?;
                    }
                }
                permit = Arc::clone(&self.waiting).acquire_many_owned(share), if self.held.is_some() => {
                    let permit = permit.map_err(|_| Closed::Here)?;
                    if let Some((frame, len)) = self.held.take() {
                        self.ports.report(Report::Frame(frame, len, Share(permit, None)));
                    }
                }
                _ = watch.tick() => self.check_idle()?,
            }
        }
    }

    fn handle_order(&mut self, order: Order<RingFrame>) {
        match order {
            Order::Frame { frame, len, .. } => self.sending.push(&frame, len),
            Order::Finish => self.is_finishing = true,
        }
    }

    /// Writes until the socket accepts no more.
    fn write(&mut self, stream: &TcpStream) -> Result<(), Closed> {
        let mut sent = 0;
        let mut result = Ok(());
        while !self.sending.is_empty() {
            match self.sending.write(stream) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    result = Err(Closed::ended(error));
                    break;
                }
            }
        }
        if sent > 0 {
            self.ports.traffic.sent(sent);
            self.ports.report(Report::Sent(Progress { taken: Vec::new(), written_bytes: sent as u64 }));
        }
        result
    }

    fn read(&mut self, stream: &TcpStream) -> Result<(), Closed> {
        match self.receiving.read(stream) {
            Ok(0) => Err(Closed::ended(ErrorKind::UnexpectedEof)),
            Ok(len) => {
                self.ports.traffic.received(len);
                self.heard = Instant::now();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(Closed::ended(error)),
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
                self.ports.report(Report::Frame(frame, len, Share(permit, None)));
            }
        }
        Ok(())
    }

    fn check_idle(&mut self) -> Result<(), Closed> {
        if self.held.is_some() {
            // This node is not reading, so the silence is its own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_addresses() {
        for text in ["127.0.0.1:7800", "[2001:db8::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(address_of(&identity_of(address)), Some(address));
        }
        let longest = format!("[{}%4294967295]:65535", ["ffff"; 8].join(":"));
        let longest: SocketAddr = longest.parse().unwrap();
        assert!(longest.to_string().len() <= NAME_MAX);
        assert_eq!(address_of(&PeerIdentity::new(b"somewhere")), None);
    }
}
