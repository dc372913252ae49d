//! Peers whose streams the test writes directly.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use libp2p::futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::identity::Keypair;
use libp2p::{PeerId, Stream, StreamProtocol};
use libp2p_stream as raw;
use samara_gossipsub::rpc::{Control, Rpc, SubOpts, Topic};
use samara_gossipsub::wire::{FrameDecoder, decode, encode_frame};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::common::*;

/// The protocol of these peers, unless a test sets another.
const VERSION: &str = "/meshsub/1.2.0";

/// The treatment of streams that the target opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Keeps streams open and unread.
    Kept,
    /// Reads all streams.
    Read,
    /// Reads all streams after [`Raw::begin_to_read`].
    Gated,
    /// Drops a stream as soon as something has arrived.
    Dropped,
    /// Closes the first stream at once, as rust-libp2p does when it cannot read a frame, and reads
    /// the others.
    FirstClosed,
}

/// A raw peer. It disconnects when dropped.
pub(crate) struct Raw {
    pub(crate) peer: PeerId,
    protocol: StreamProtocol,
    control: raw::Control,
    accepted: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<Rpc>>>,
    gate: Arc<Semaphore>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Raw {
    /// Dials a node, and keeps the streams that it opens.
    pub(crate) fn new(target: &Node) -> Self {
        Self::with(target, Streams::Kept, Keypair::generate_ed25519())
    }

    pub(crate) fn with(target: &Node, streams: Streams, key: Keypair) -> Self {
        Self::speaking(target, VERSION, streams, key)
    }

    pub(crate) fn speaking(target: &Node, version: &'static str, streams: Streams, key: Keypair) -> Self {
        let protocol = StreamProtocol::new(version);
        let behaviour = raw::Behaviour::new();
        let mut control = behaviour.new_control();
        let mut incoming = control.accept(protocol.clone()).expect("no other acceptor of this protocol");
        let mut swarm = swarm(key, |_| behaviour);
        let peer = *swarm.local_peer_id();
        swarm.dial(target.full_address()).expect("an address");
        let alive = tokio::spawn(async move {
            loop {
                swarm.select_next_some().await;
            }
        });
        let accepted = Arc::new(AtomicUsize::new(0));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (counter, sink) = (Arc::clone(&accepted), Arc::clone(&received));
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let accepting = tokio::spawn(async move {
            let mut unread = Vec::new();
            while let Some((_, mut stream)) = incoming.next().await {
                let before = counter.fetch_add(1, Ordering::Relaxed);
                match streams {
                    Streams::Kept => unread.push(stream),
                    Streams::FirstClosed if before == 0 => drop(stream.close().await),
                    Streams::Read | Streams::FirstClosed => {
                        drop(tokio::spawn(read(stream, Arc::clone(&sink))));
                    }
                    Streams::Gated => {
                        let (sink, opened) = (Arc::clone(&sink), Arc::clone(&opened));
                        drop(tokio::spawn(async move {
                            let _open = opened.acquire().await.expect("it is never closed");
                            read(stream, sink).await;
                        }));
                    }
                    Streams::Dropped => drop(stream.read(&mut [0]).await),
                }
            }
        });
        Self { peer, protocol, control, accepted, received, gate, tasks: [alive, accepting] }
    }

    /// Returns the number of streams opened to this peer.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Lets the streams be read from now on, those to come too.
    pub(crate) fn begin_to_read(&self) {
        self.gate.add_permits(100);
    }

    /// Returns the RPCs read so far.
    pub(crate) fn received(&self) -> Vec<Rpc> {
        self.received.lock().expect("no thread panicked").clone()
    }

    /// Opens a stream, if the connection is still there.
    pub(crate) async fn try_stream(&mut self, target: PeerId) -> Option<Stream> {
        self.control.open_stream(target, self.protocol.clone()).await.ok()
    }

    pub(crate) async fn stream(&mut self, target: &Node) -> Stream {
        for _ in 0..500 {
            if let Ok(stream) = self.control.open_stream(target.peer, self.protocol.clone()).await {
                return stream;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no stream to the target")
    }
}

async fn read(mut stream: Stream, received: Arc<Mutex<Vec<Rpc>>>) {
    let limits = options().limits_with(&signed());
    let (mut decoder, mut chunk) = (FrameDecoder::new(limits.frame_bytes), vec![0; 1 << 16]);
    while let Ok(count) = stream.read(&mut chunk).await
        && count > 0
    {
        let mut bytes = Bytes::copy_from_slice(&chunk[..count]);
        while let Some(frame) = decoder.next(&mut bytes).expect("a frame") {
            received.lock().expect("no thread panicked").push(decode(frame, &limits).expect("an RPC"));
        }
    }
}

/// Writes an RPC completely.
pub(crate) async fn send_rpc(stream: &mut Stream, rpc: &Rpc) {
    stream.write_all(&frame(rpc)).await.expect("written");
    stream.flush().await.expect("written");
}

pub(crate) fn frame(rpc: &Rpc) -> BytesMut {
    let mut out = BytesMut::new();
    encode_frame(rpc, &mut out);
    out
}

pub(crate) fn subscribes(topic: &str) -> SubOpts {
    SubOpts { subscribe: true, topic: Topic::new(topic), partial: Default::default(), unknown: Bytes::new() }
}

/// Returns an RPC with a subscription and a GRAFT.
pub(crate) fn joins(topic: &str) -> Rpc {
    let graft = Control { graft: vec![Topic::new(topic)], ..Control::default() };
    Rpc { subscriptions: vec![subscribes(topic)], control: Some(Box::new(graft)), ..Rpc::default() }
}
