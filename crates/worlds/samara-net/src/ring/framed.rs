//! The link layer of groups: frames over TCP, each behind its length.
//!
//! Both sides first prove that they are members. Afterwards one task for each link reads and writes.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{PeerId, PeerIdentity, PeerInfo};
use samara_ring::RingFrame;
use samara_ring::wire::Limits;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_rustls::rustls::Connection;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::auth::{
    Authentication, Certificates, DIGEST_BYTES, INSTANCE_BYTES, Instance, Keys, NONCE_BYTES, PROOF_BYTES,
    Protection, Role, Seal, TAG_BYTES,
};
use super::buffers::{PREFIX, Receiving, Sending};
use super::engine::GroupEngine;
use super::options::Options;
use super::wire::Wire;
use crate::hub::{Attempted, LinkLayer, Task};
use crate::identity::{Allowed, Fingerprint, SERVER_NAME, client_tls, server_tls};
use crate::link::{self, Established, Links, Order, Ports, Progress, Report, Share, connect, set_up};
use crate::status::{Closed, StartError};

/// The first bytes of every connection, inside of TLS. The last byte is the version.
pub const MAGIC: [u8; 8] = *b"samring\x02";
/// The protocol in TLS (ALPN), and for the engine.
const PROTOCOL: &str = "samring/2";
/// The longest terms. Those of this version have at most 150 bytes, and 50 more in a federation.
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

pub(super) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[derive(Clone, Debug)]
pub(super) struct LinkOptions {
    pub(super) frame_max: usize,
    pub(super) limits: Limits,
    pub(super) idle_timeout: Duration,
}

pub(super) struct Framed<E> {
    members_max: usize,
    /// Silence after which another node may take over the name of a peer.
    silence_max: Duration,
    is_local: bool,
    link: Arc<LinkOptions>,
    pub(super) handshake: Arc<Handshake>,
    engine: PhantomData<fn() -> E>,
}

pub(super) struct Connected {
    stream: TcpStream,
    tls: Option<Connection>,
    /// For frames to the peer, and from it.
    seals: Option<(Seal, Seal)>,
}

pub struct Handshake {
    keys: Keys,
    /// The options that all members share, in words (those that a member sends when it connects).
    pub terms: String,
    protection: Protection,
    /// Without authentication, a name must have the address of its host.
    is_open: bool,
    tls: Option<Tls>,
    pub(super) own: SocketAddr,
    not_sent_bytes: u32,
    timeout: Duration,
}

struct Tls {
    members: BTreeMap<SocketAddr, Fingerprint>,
    connectors: BTreeMap<SocketAddr, TlsConnector>,
    acceptor: TlsAcceptor,
}

impl Tls {
    fn new(certificates: &Certificates) -> Result<Self, StartError> {
        let Certificates { identity, members } = certificates;
        let connector = |(address, fingerprint): (&SocketAddr, &Fingerprint)| {
            Ok((*address, TlsConnector::from(client_tls(identity, *fingerprint, PROTOCOL.as_bytes())?)))
        };
        let allowed = Allowed::Known(members.values().copied().collect());
        Ok(Self {
            members: members.clone(),
            connectors: members.iter().map(connector).collect::<Result<_, StartError>>()?,
            acceptor: TlsAcceptor::from(server_tls(identity, allowed, PROTOCOL.as_bytes())?),
        })
    }

    /// Returns true if the holder of a certificate is the member with this name.
    fn has_name(&self, certificate: Option<&CertificateDer<'_>>, name: &SocketAddr) -> bool {
        certificate.is_some_and(|held| self.members.get(name) == Some(&Fingerprint::of(held)))
    }
}

impl Handshake {
    pub fn new(options: &Options, own: SocketAddr) -> Result<Self, StartError> {
        let authentication = &options.authentication;
        let tls = match authentication {
            Authentication::Certificates(certificates) => Some(Tls::new(certificates)?),
            _ => None,
        };
        Ok(Self {
            keys: Keys::new(&options.group, authentication)?,
            terms: options.terms(),
            protection: authentication.protection(),
            is_open: authentication.protection() == Protection::Open,
            tls,
            own,
            not_sent_bytes: options.not_sent_bytes,
            timeout: options.handshake_timeout,
        })
    }

    async fn dial<E: GroupEngine>(self: Arc<Self>, address: SocketAddr) -> Attempted<Framed<E>> {
        let stream = connect(address, self.timeout).await?;
        self.within(self.call(stream, address)).await
    }

    pub(super) async fn greet<E: GroupEngine>(self: Arc<Self>, stream: TcpStream) -> Attempted<Framed<E>> {
        self.within(self.answer(stream)).await
    }

    /// Cuts off slow peers.
    async fn within<E: GroupEngine>(
        &self,
        handshake: impl Future<Output = Attempted<Framed<E>>>,
    ) -> Attempted<Framed<E>> {
        timeout(self.timeout, handshake).await.map_err(|_| Closed::HandshakeTimeout)?
    }

    async fn call<E: GroupEngine>(&self, mut stream: TcpStream, address: SocketAddr) -> Attempted<Framed<E>> {
        let remote = self.set_up(&stream)?;
        let (instance, connected) = match &self.tls {
            None => {
                let (instance, said) = self.join(&mut stream, address).await?;
                let seals = self.seals(Role::Dialler, &said)?;
                (instance, Connected { stream, tls: None, seals })
            }
            Some(tls) => {
                let connector = tls.connectors.get(&address).ok_or(Closed::NoAddress)?;
                let server = ServerName::try_from(SERVER_NAME).map_err(Closed::handshake)?;
                let mut stream = connector.connect(server, stream).await.map_err(tls_failed)?;
                let (instance, _) = self.join(&mut stream, address).await?;
                let (stream, connection) = stream.into_inner();
                (instance, Connected { stream, tls: Some(connection.into()), seals: None })
            }
        };
        Ok(self.established(address, remote, true, instance, connected))
    }

    async fn answer<E: GroupEngine>(&self, mut stream: TcpStream) -> Attempted<Framed<E>> {
        let remote = self.set_up(&stream)?;
        let (name, instance, connected) = match &self.tls {
            None => {
                let is_of_host = |name: &SocketAddr| {
                    let ip = remote.ip();
                    !self.is_open
                        || name.ip().to_canonical() == ip.to_canonical()
                        || is_loopback(name.ip()) && is_loopback(ip)
                };
                let check = |name| if is_of_host(&name) { Ok(()) } else { Err(Closed::OtherAddress(name)) };
                let (name, instance, said) = self.admit(&mut stream, check).await?;
                let seals = self.seals(Role::Listener, &said)?;
                (name, instance, Connected { stream, tls: None, seals })
            }
            Some(tls) => {
                let mut stream = tls.acceptor.accept(stream).await.map_err(tls_failed)?;
                let held = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
                let has_name = |name: &SocketAddr| tls.has_name(held.as_ref(), name);
                let check = |name| if has_name(&name) { Ok(()) } else { Err(Closed::Unauthenticated) };
                let (name, instance, _) = self.admit(&mut stream, check).await?;
                let (stream, connection) = stream.into_inner();
                (name, instance, Connected { stream, tls: Some(connection.into()), seals: None })
            }
        };
        Ok(self.established(name, remote, false, instance, connected))
    }

    fn set_up(&self, stream: &TcpStream) -> Result<SocketAddr, Closed> {
        set_up(stream, self.not_sent_bytes).map_err(Closed::handshake)?;
        stream.peer_addr().map_err(Closed::handshake)
    }

    fn seals(&self, role: Role, said: &[u8]) -> Result<Option<(Seal, Seal)>, Closed> {
        match self.protection {
            Protection::Open | Protection::Tls => Ok(None),
            protection => self.keys.seals(role, said, protection == Protection::Encrypted).map(Some),
        }
    }

    fn established<E: GroupEngine>(
        &self,
        name: SocketAddr,
        remote: SocketAddr,
        outbound: bool,
        instance: Instance,
        connection: Connected,
    ) -> Established<Framed<E>> {
        let (identity, address) = (identity_of(name), Some(remote.ip()));
        let info = PeerInfo { identity, outbound, address, protocol: PROTOCOL.into() };
        Established { name, remote, info, about: instance, number: None, traffic: Arc::default(), connection }
    }

    /// Proves to the node at an address that this one is a member, and lets it prove the same.
    /// Returns its instance, and all bytes that both have said.
    pub async fn join(
        &self,
        stream: &mut impl Duplex,
        address: SocketAddr,
    ) -> Result<(Instance, Vec<u8>), Closed> {
        let mut said = MAGIC.to_vec();
        said.push(self.protection as u8);
        said.extend_from_slice(&nonce()?);
        stream.write_all(&said).await.map_err(Closed::handshake)?;
        // The other side says nothing about its reasons to hang up.
        let refused = |cause| match cause {
            Closed::Handshake(error) => Closed::Refused(error),
            other => other,
        };
        hear::<NONCE_BYTES>(stream, &mut said).await.map_err(refused)?;
        let start = said.len();
        said.extend_from_slice(&self.keys.instance(address));
        put_text(&mut said, &self.own.to_string());
        put_text(&mut said, &address.to_string());
        said.extend_from_slice(self.keys.digest(&self.terms).as_ref());
        said.extend_from_slice(self.keys.prove(Role::Dialler, &said).as_ref());
        stream.write_all(&said[start..]).await.map_err(Closed::handshake)?;
        let instance = hear::<INSTANCE_BYTES>(stream, &mut said).await.map_err(refused)?;
        let terms = hear_text(stream, &mut said, "terms", TERMS_MAX).await.map_err(refused)?;
        let proven = said.len();
        let proof = hear::<PROOF_BYTES>(stream, &mut said).await.map_err(refused)?;
        self.keys.check(Role::Listener, &said[..proven], &proof)?;
        if terms != self.terms {
            return Err(Closed::OtherOptions(difference(&terms, &self.terms)));
        }
        Ok((instance, said))
    }

    /// Lets a node that dialled prove that it is a member, and then proves the same to it. Returns
    /// its name and instance, and all bytes that both have said.
    pub async fn admit(
        &self,
        stream: &mut impl Duplex,
        check_name: impl Fn(SocketAddr) -> Result<(), Closed>,
    ) -> Result<(SocketAddr, Instance, Vec<u8>), Closed> {
        let mut said = Vec::new();
        if hear::<{ MAGIC.len() }>(stream, &mut said).await? != MAGIC {
            return Err(Closed::handshake("the peer does not speak this protocol"));
        }
        let [protection] = hear::<1>(stream, &mut said).await?;
        if protection != self.protection as u8 {
            return Err(Closed::handshake("the peer has another kind of authentication"));
        }
        hear::<NONCE_BYTES>(stream, &mut said).await?;
        let own = nonce()?;
        stream.write_all(&own).await.map_err(Closed::handshake)?;
        said.extend_from_slice(&own);
        let instance = hear::<INSTANCE_BYTES>(stream, &mut said).await?;
        let name = hear_name(stream, &mut said).await?;
        let meant = hear_name(stream, &mut said).await?;
        let digest = hear::<DIGEST_BYTES>(stream, &mut said).await?;
        let proven = said.len();
        let proof = hear::<PROOF_BYTES>(stream, &mut said).await?;
        self.keys.check(Role::Dialler, &said[..proven], &proof)?;
        // A node that reaches itself under another address would be two members.
        if meant != self.own || name == self.own {
            return Err(Closed::OtherNode(if meant == self.own { name } else { meant }));
        }
        check_name(name)?;
        let start = said.len();
        said.extend_from_slice(&self.keys.instance(name));
        put_text(&mut said, &self.terms);
        said.extend_from_slice(self.keys.prove(Role::Listener, &said).as_ref());
        stream.write_all(&said[start..]).await.map_err(Closed::handshake)?;
        if digest != self.keys.digest(&self.terms).as_ref() {
            // Only the dialler knows those of both.
            return Err(Closed::OtherOptions(UNKNOWN_DIFFERENCE.to_owned()));
        }
        Ok((name, instance, said))
    }
}

/// The difference for a listener, which has only a digest of the other options.
const UNKNOWN_DIFFERENCE: &str = "; its log lists them";

/// Names the options of a peer that differ from the own ones, and the remedy.
fn difference(found: &str, own: &str) -> String {
    let (theirs, ours): (Vec<&str>, Vec<&str>) = (found.split(", ").collect(), own.split(", ").collect());
    // A peer of another version may have other ones.
    let pairs =
        if theirs.len() == ours.len() { theirs.into_iter().zip(ours).collect() } else { vec![(found, own)] };
    let differ = pairs.into_iter().filter(|(found, own)| found != own);
    let each: Vec<String> = differ.map(|(found, own)| format!("found {found:?}; expected {own:?}")).collect();
    format!(": {}; use the same options as the other members", each.join("; "))
}

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

fn nonce() -> Result<[u8; NONCE_BYTES], Closed> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(Closed::handshake)?;
    Ok(nonce)
}

/// Reads bytes, and adds them to those that both sides have said.
async fn hear<const N: usize>(stream: &mut impl Duplex, said: &mut Vec<u8>) -> Result<[u8; N], Closed> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.map_err(tls_failed)?;
    said.extend_from_slice(&bytes);
    Ok(bytes)
}

/// Adds a text, preceded by its length in a byte.
fn put_text(said: &mut Vec<u8>, text: &str) {
    said.push(text.len() as u8);
    said.extend_from_slice(text.as_bytes());
}

async fn hear_text(
    stream: &mut impl Duplex,
    said: &mut Vec<u8>,
    what: &str,
    max: usize,
) -> Result<String, Closed> {
    let [len] = hear::<1>(stream, said).await?;
    let len = usize::from(len);
    if len > max {
        return Err(Closed::Handshake(format!("{what} of {len} bytes: expected at most {max}")));
    }
    let start = said.len();
    said.resize(start + len, 0);
    stream.read_exact(&mut said[start..]).await.map_err(tls_failed)?;
    // Texts of strangers end up in logs.
    let text = std::str::from_utf8(&said[start..]).ok().filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| Closed::Handshake(format!("{what}: expected printable text")))
}

async fn hear_name(stream: &mut impl Duplex, said: &mut Vec<u8>) -> Result<SocketAddr, Closed> {
    let name = hear_text(stream, said, "a name", NAME_MAX).await?;
    name.parse().map_err(|_| Closed::handshake("the peer's name is not an address"))
}

/// Returns the cause of a failed handshake: a certificate that is not among those of the members
/// has its own.
fn tls_failed(error: std::io::Error) -> Closed {
    use tokio_rustls::rustls::Error;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Closed::Unauthenticated,
        Some(Error::AlertReceived(alert)) => Closed::Refused(format!("TLS alert {alert:?}")),
        _ if error.kind() == ErrorKind::UnexpectedEof => Closed::handshake("it ended the connection"),
        _ => Closed::handshake(error),
    }
}

impl<E> Framed<E> {
    pub(super) fn new(options: &Options, own: SocketAddr) -> Result<Self, StartError> {
        Ok(Self {
            members_max: options.config.members_max,
            silence_max: options.config.detection.timeout_max,
            is_local: matches!(options.authentication, Authentication::Loopback),
            link: Arc::new(options.link_options()),
            handshake: Arc::new(Handshake::new(options, own)?),
            engine: PhantomData,
        })
    }
}

impl<E: GroupEngine> LinkLayer for Framed<E> {
    type Engine = E;
    type Name = SocketAddr;
    type Connection = Connected;
    type About = Instance;

    fn own_name(&self) -> Option<SocketAddr> {
        Some(self.handshake.own)
    }

    /// Any node can name addresses. A member on loopback dials no others, and a member with
    /// certificates only those of members.
    fn name(&self, identity: &PeerIdentity) -> Option<SocketAddr> {
        let tls = self.handshake.tls.as_ref();
        address_of(identity).filter(|address| {
            (!self.is_local || is_loopback(address.ip()))
                && tls.is_none_or(|tls| tls.members.contains_key(address))
        })
    }

    fn identity(&self, name: &SocketAddr) -> PeerIdentity {
        identity_of(*name)
    }

    fn framing(&self) -> u32 {
        let tag = matches!(self.handshake.protection, Protection::Fields | Protection::Encrypted);
        (PREFIX + if tag { TAG_BYTES } else { 0 }) as u32
    }

    /// Nobody takes over the name of a member that is alive: members send heartbeats.
    fn may_replace(&self, old: &link::Link<Self>, new: &Established<Self>) -> bool {
        old.about == new.about || old.traffic.silence() > self.silence_max
    }

    fn dial(&self, name: SocketAddr) -> Task<Attempted<Self>> {
        Box::pin(Arc::clone(&self.handshake).dial(name))
    }

    fn admit(&self, links: &Links<Self>, new: &Established<Self>) -> Result<(), Closed> {
        // Former and future members may have links besides all members.
        let is_full = links.len() >= 2 * self.members_max;
        // One host must not take the room of all others.
        let fills_up = || links.inbound(Some(new.remote.ip())) >= self.members_max;
        if is_full || !new.info.outbound && fills_up() { Err(Closed::Full) } else { Ok(()) }
    }

    fn run(&self, connected: Connected, ports: Ports<RingFrame>) -> Task<()> {
        let Connected { stream, tls, seals } = connected;
        let wire = Wire::new(stream, tls, Arc::clone(&ports.traffic));
        Box::pin(Link::new(Arc::clone(&self.link), ports, seals).run(wire))
    }

    fn forget(engine: &mut E, peer: PeerId) -> bool {
        engine.forget(peer)
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
    is_finishing: bool,
}

impl Link {
    fn new(options: Arc<LinkOptions>, ports: Ports<RingFrame>, seals: Option<(Seal, Seal)>) -> Self {
        let (sent, received) = seals.unzip();
        Self {
            receiving: Receiving::new(options.frame_max, options.limits.clone(), received),
            sending: Sending::new(sent),
            options,
            ports,
            waiting: Arc::new(Semaphore::new(WAITING_KIB)),
            held: None,
            is_finishing: false,
        }
    }

    async fn run(mut self, mut wire: Wire) {
        let why = match self.exchange(&mut wire).await {
            Ok(()) => wire.hang_up().await,
            Err(why) => why,
        };
        self.ports.report(Report::Down(why));
    }

    /// Reads and writes until the connection breaks, or everything has left after the order to
    /// finish.
    async fn exchange(&mut self, wire: &mut Wire) -> Result<(), Closed> {
        // A timer for each wait would cost more than most of the work between waits.
        let mut watch = tokio::time::interval(self.options.idle_timeout / 4);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Ok(order) = self.ports.orders.try_recv() {
                self.handle_order(order)?;
            }
            self.write(wire)?;
            let is_written = self.sending.is_empty() && !wire.wants_write();
            if self.is_finishing && is_written {
                return Ok(());
            }
            self.hand_over()?;
            if self.held.is_none() && wire.has_more() {
                self.read(wire)?;
                continue;
            }
            let share = self.share();
            let interest = match (self.held.is_none(), is_written) {
                (true, true) => Some(Interest::READABLE),
                (true, false) => Some(Interest::READABLE | Interest::WRITABLE),
                (false, false) => Some(Interest::WRITABLE),
                (false, true) => None,
            };
            tokio::select! {
                order = self.ports.orders.recv(), if !self.is_finishing => {
                    self.handle_order(order.unwrap_or(Order::Finish))?;
                }
                ready = wire.ready(interest) => {
                    if ready.map_err(Closed::ended)?.is_readable() && self.held.is_none() {
                        self.read(wire)?;
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

    fn handle_order(&mut self, order: Order<RingFrame>) -> Result<(), Closed> {
        match order {
            Order::Frame { frame, len, .. } => self.sending.push(&frame, len)?,
            Order::Finish => self.is_finishing = true,
        }
        Ok(())
    }

    /// Writes until the socket accepts no more.
    fn write(&mut self, wire: &mut Wire) -> Result<(), Closed> {
        let mut sent = 0;
        let mut result = wire.flush().map_err(Closed::ended);
        while result.is_ok() && !self.sending.is_empty() {
            match self.sending.write(|slices| wire.write(slices)) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => result = Err(Closed::ended(error)),
            }
        }
        if sent > 0 {
            self.ports.report(Report::Sent(Progress { taken: Vec::new(), written_bytes: sent as u64 }));
        }
        result
    }

    fn read(&mut self, wire: &mut Wire) -> Result<(), Closed> {
        match self.receiving.read(|into| wire.read(into)) {
            Ok(0) => Err(Closed::ended(ErrorKind::UnexpectedEof)),
            Ok(_) => Ok(()),
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
            && let Some(next) = self.receiving.next_frame()?
        {
            self.held = Some(next);
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
            self.ports.traffic.hear();
        }
        if self.ports.traffic.silence() > self.options.idle_timeout { Err(Closed::Idle) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_only_the_options_that_differ() {
        let of = |found: &str, own: &str| Closed::OtherOptions(difference(found, own)).to_string();
        assert_eq!(
            of("fifo order, shape ring, up to 4 members", "total order, shape ring, up to 5 members"),
            "the peer has other options: found \"fifo order\"; expected \"total order\"; found \"up to 4 members\"; \
             expected \"up to 5 members\"; use the same options as the other members"
        );
        let newer = of("fifo order, something new, shape ring", "fifo order, shape ring");
        assert!(
            newer.contains("found \"fifo order, something new, shape ring\"; expected \"fifo order, s"),
            "{newer}"
        );
        let listener = Closed::OtherOptions(UNKNOWN_DIFFERENCE.to_owned()).to_string();
        assert_eq!(listener, "the peer has other options; its log lists them");
    }

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
