//! The link layer of hosts: TCP, with each frame behind its length.
//!
//! A frame takes as many bytes on the wire as its engine says, also if its encoding is shorter: what
//! an experiment models only, such as the payload of a message, is zeros.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use samara_engine::{Engine, Frame, FrameCodec, PeerId, PeerIdentity, PeerInfo, Reader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use super::{Names, Numbered, Options};
use crate::hub::{Attempted, FrameOf, LinkLayer, Task};
use crate::link::{
    Established, Links, Order, Ports, Progress, Report, Share, Traffic, connect_from, hang_up, set_up,
};
use crate::status::Closed;

/// The first bytes of every connection. The last byte is the version.
const MAGIC: [u8; 8] = *b"samhost\x01";
/// [`MAGIC`], the token of the run, and the numbers of both hosts.
const HELLO_BYTES: usize = MAGIC.len() + TOKEN_BYTES + 8;
/// Bytes of the secret that all hosts of a run share.
pub const TOKEN_BYTES: usize = 16;
/// The lengths in front of a frame: of all that follows, and of the encoding.
const PREFIX: usize = 8;
/// KiB of frames of one link that may wait for the engine; a longer frame waits alone.
const WAITING_KIB: usize = 512;
/// The longest frame. Experiments send payloads of some megabytes.
const FRAME_MAX: usize = 256 << 20;
/// Bytes that one write takes from the queue of a link.
const WRITE_BYTES: usize = 64 << 10;

/// Returns what a host says first: its number, and that of the host it means.
fn hello(token: &[u8; TOKEN_BYTES], from: u32, to: u32) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..8 + TOKEN_BYTES].copy_from_slice(token);
    bytes[8 + TOKEN_BYTES..][..4].copy_from_slice(&from.to_le_bytes());
    bytes[12 + TOKEN_BYTES..].copy_from_slice(&to.to_le_bytes());
    bytes
}

/// Connects hosts, and greets those that connect.
struct Doorway {
    own: u32,
    token: [u8; TOKEN_BYTES],
    address: IpAddr,
    peers: Vec<SocketAddr>,
    names: Names,
    not_sent_bytes: u32,
    timeout: Duration,
}

impl Doorway {
    fn new(options: &Options) -> Self {
        Self {
            own: options.own,
            token: options.token,
            address: options.listen.ip(),
            peers: options.peers.clone(),
            names: options.names.clone(),
            not_sent_bytes: options.not_sent_bytes,
            timeout: options.dial_timeout,
        }
    }

    async fn dial<E: Engine>(self: Arc<Self>, host: u32) -> Attempted<Plain<E>> {
        let call = async {
            let to = *self.peers.get(host as usize).ok_or(Closed::NoAddress)?;
            let mut stream = connect_from(self.address, to).await?;
            set_up(&stream, self.not_sent_bytes).map_err(Closed::handshake)?;
            stream.write_all(&hello(&self.token, self.own, host)).await.map_err(Closed::handshake)?;
            let mut answer = [0; HELLO_BYTES];
            stream.read_exact(&mut answer).await.map_err(Closed::handshake)?;
            if answer != hello(&self.token, host, self.own) {
                return Err(Closed::handshake("another host answered"));
            }
            Ok(self.established(host, to, true, stream))
        };
        timeout(self.timeout, call).await.map_err(|_| Closed::HandshakeTimeout)?
    }

    async fn greet<E: Engine>(
        self: Arc<Self>,
        mut stream: TcpStream,
        from: SocketAddr,
    ) -> Attempted<Plain<E>> {
        let answer = async {
            set_up(&stream, self.not_sent_bytes).map_err(Closed::handshake)?;
            let mut said = [0; HELLO_BYTES];
            stream.read_exact(&mut said).await.map_err(Closed::handshake)?;
            let number = said[8 + TOKEN_BYTES..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let host = number.filter(|host| said == hello(&self.token, *host, self.own));
            let host = host.ok_or_else(|| Closed::handshake("the peer is no host of this run"))?;
            if host == self.own || host as usize >= self.peers.len() {
                return Err(Closed::handshake(format!("there is no host {host}")));
            }
            stream.write_all(&hello(&self.token, self.own, host)).await.map_err(Closed::handshake)?;
            Ok(self.established(host, from, false, stream))
        };
        timeout(self.timeout, answer).await.map_err(|_| Closed::HandshakeTimeout)?
    }

    fn established<E: Engine>(
        &self,
        name: u32,
        remote: SocketAddr,
        outbound: bool,
        connection: TcpStream,
    ) -> Established<Plain<E>> {
        let (dialler, listener) = if outbound { (self.own, name) } else { (name, self.own) };
        let info = PeerInfo {
            identity: (self.names.identity)(name),
            outbound,
            address: Some(remote.ip()),
            protocol: (self.names.protocol)(dialler, listener),
        };
        Established { name, remote, info, about: (), number: None, traffic: Arc::default(), connection }
    }
}

/// Links of the hosts of one run, which trust each other.
pub(super) struct Plain<E: Engine> {
    own: u32,
    doorway: Arc<Doorway>,
    codec: Arc<dyn FrameCodec<E::Frame>>,
}

impl<E: Engine> Plain<E> {
    pub(super) fn new(options: &Options, codec: Arc<dyn FrameCodec<E::Frame>>) -> Self {
        Self { own: options.own, doorway: Arc::new(Doorway::new(options)), codec }
    }
}

impl<E: Engine + 'static> LinkLayer for Plain<E> {
    type Engine = E;
    type Name = u32;
    type Connection = TcpStream;
    type About = ();

    fn framing(&self) -> u32 {
        PREFIX as u32
    }

    fn own_name(&self) -> Option<u32> {
        Some(self.own)
    }

    fn name(&self, identity: &PeerIdentity) -> Option<u32> {
        (self.doorway.names.host)(identity).filter(|host| *host != self.own)
    }

    fn identity(&self, name: &u32) -> PeerIdentity {
        (self.doorway.names.identity)(*name)
    }

    fn dial(&self, name: u32) -> Task<Attempted<Self>> {
        Box::pin(Arc::clone(&self.doorway).dial(name))
    }

    fn admit(&self, _: &Links<Self>, _: &Established<Self>) -> Result<(), Closed> {
        Ok(())
    }

    fn run(&self, connection: TcpStream, ports: Ports<FrameOf<Self>>) -> Task<()> {
        Box::pin(exchange(connection, Arc::clone(&self.codec), ports))
    }

    /// An experiment has as many hosts as numbers.
    fn forget(_: &mut E, _: PeerId) -> bool {
        false
    }
}

impl<E: Engine + 'static> Numbered for Plain<E> {
    fn greet(&self, stream: TcpStream, from: SocketAddr) -> Task<Attempted<Self>> {
        Box::pin(Arc::clone(&self.doorway).greet(stream, from))
    }
}

/// Moves frames in both directions until the connection breaks, or everything has left after the
/// order to finish.
async fn exchange<F: Frame>(stream: TcpStream, codec: Arc<dyn FrameCodec<F>>, ports: Ports<F>) {
    let Ports { number, mut orders, reports, traffic } = ports;
    let report = |report: Report<F>| {
        // Fails only if the host is stopping.
        let _ = reports.send((number, report));
    };
    let (mut reading, mut writing) = stream.into_split();
    let why = tokio::select! {
        why = read(&mut reading, &*codec, &traffic, &report) => why,
        why = write(&mut writing, &*codec, &mut orders, &traffic, &report) => why,
    };
    let why = match (why, reading.reunite(writing)) {
        (Closed::Here, Ok(mut stream)) => hang_up(&mut stream).await,
        (why, _) => why,
    };
    report(Report::Down(why));
}

async fn write<F: Frame>(
    writing: &mut OwnedWriteHalf,
    codec: &dyn FrameCodec<F>,
    orders: &mut UnboundedReceiver<Order<F>>,
    traffic: &Traffic,
    report: &impl Fn(Report<F>),
) -> Closed {
    let mut buffer = Vec::new();
    let mut is_finishing = false;
    while !is_finishing {
        let mut next = orders.recv().await;
        let mut progress = Progress::default();
        loop {
            match next.take() {
                Some(Order::Frame { frame, len, .. }) => {
                    put(&frame, len, codec, &mut buffer);
                    progress.written_bytes += u64::from(len) + PREFIX as u64;
                }
                Some(Order::Finish) | None => is_finishing = true,
            }
            if is_finishing || buffer.len() >= WRITE_BYTES {
                break;
            }
            let Ok(order) = orders.try_recv() else { break };
            next = Some(order);
        }
        if let Err(error) = writing.write_all(&buffer).await {
            return Closed::ended(error);
        }
        traffic.sent(buffer.len());
        buffer.clear();
        report(Report::Sent(progress));
    }
    Closed::Here
}

/// Appends a frame that takes `len` bytes, or as many as its encoding.
fn put<F>(frame: &F, len: u32, codec: &dyn FrameCodec<F>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    codec.write(frame, out);
    let encoded = out.len() - start - PREFIX;
    let padded = encoded.max(len as usize);
    out.resize(start + PREFIX + padded, 0);
    out[start..start + 4].copy_from_slice(&(padded as u32).to_le_bytes());
    out[start + 4..start + PREFIX].copy_from_slice(&(encoded as u32).to_le_bytes());
}

/// Takes the next frame, with the bytes that it took; `None` until it has arrived.
fn take<F>(buffer: &mut BytesMut, codec: &dyn FrameCodec<F>) -> Result<Option<(F, usize)>, Closed> {
    let word = |at: usize| {
        let bytes = buffer.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let (Some(padded), Some(encoded)) = (word(0), word(4)) else { return Ok(None) };
    if padded > FRAME_MAX {
        return Err(Closed::FrameTooLong { found: padded, max: FRAME_MAX });
    }
    let malformed = |why: &str| Closed::Malformed(why.to_owned());
    if encoded > padded {
        return Err(malformed("its encoding is longer than the frame"));
    }
    if buffer.len() < PREFIX + padded {
        buffer.reserve(PREFIX + padded - buffer.len());
        return Ok(None);
    }
    buffer.advance(PREFIX);
    let frame = buffer.split_to(padded);
    let mut reader = Reader::new(&frame[..encoded]);
    let frame = codec.read(&mut reader).filter(|_| reader.is_empty());
    let frame = frame.ok_or_else(|| malformed("the codec of the experiment cannot read it"))?;
    Ok(Some((frame, PREFIX + padded)))
}

async fn read<F: Frame>(
    reading: &mut OwnedReadHalf,
    codec: &dyn FrameCodec<F>,
    traffic: &Traffic,
    report: &impl Fn(Report<F>),
) -> Closed {
    let waiting = Arc::new(Semaphore::new(WAITING_KIB));
    let mut buffer = BytesMut::with_capacity(WRITE_BYTES);
    loop {
        match take(&mut buffer, codec) {
            Err(why) => return why,
            Ok(None) => match reading.read_buf(&mut buffer).await {
                Ok(0) => return Closed::ended(io::ErrorKind::UnexpectedEof),
                Ok(len) => traffic.received(len),
                Err(error) => return Closed::ended(error),
            },
            Ok(Some((frame, len))) => {
                let share = len.div_ceil(1024).min(WAITING_KIB) as u32;
                let Ok(permit) = Arc::clone(&waiting).acquire_many_owned(share).await else {
                    return Closed::Here;
                };
                report(Report::Frame(frame, len - PREFIX, Share(permit, None)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a number as its own bytes.
    struct Numbers;

    impl FrameCodec<u32> for Numbers {
        fn write(&self, frame: &u32, out: &mut Vec<u8>) {
            out.extend_from_slice(&frame.to_le_bytes());
        }

        fn read(&self, reader: &mut Reader<'_>) -> Option<u32> {
            reader.u32()
        }
    }

    #[test]
    fn frames_take_the_bytes_that_their_engine_says() {
        let mut bytes = Vec::new();
        for (frame, len) in [(7, 4), (8, 100), (9, 0)] {
            put(&frame, len, &Numbers, &mut bytes);
        }
        assert_eq!(bytes.len(), 3 * PREFIX + 4 + 100 + 4);
        let mut buffer = BytesMut::new();
        let mut taken = Vec::new();
        // One byte at a time.
        for byte in bytes {
            buffer.extend_from_slice(&[byte]);
            taken.extend(take(&mut buffer, &Numbers).expect("it is whole"));
        }
        assert_eq!(taken, [(7, PREFIX + 4), (8, PREFIX + 100), (9, PREFIX + 4)]);
    }

    #[test]
    fn malformed_frames_are_refused() {
        let taken = |padded: u32, encoded: u32, rest: &[u8]| {
            let mut buffer = BytesMut::new();
            buffer.extend_from_slice(&padded.to_le_bytes());
            buffer.extend_from_slice(&encoded.to_le_bytes());
            buffer.extend_from_slice(rest);
            take(&mut buffer, &Numbers).map_err(|why| why.name())
        };
        assert_eq!(taken(4, 4, &[1, 0, 0, 0]), Ok(Some((1, 12))));
        assert_eq!(taken(u32::MAX, 4, &[]), Err("frame_too_long"));
        assert_eq!(taken(4, 5, &[1, 0, 0, 0, 0]), Err("malformed"));
        assert_eq!(taken(5, 5, &[1, 0, 0, 0, 0]), Err("malformed"));
        assert_eq!(taken(3, 3, &[1, 0, 0]), Err("malformed"));
    }
}
