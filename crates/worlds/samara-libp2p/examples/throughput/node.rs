//! A process with one node. It reads commands as lines from standard input, and answers each with a
//! line on standard output. It exits at the end of its input. `interop/go-bench` is the counterpart
//! in Go.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libp2p::core::Transport as _;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::upgrade::Version;
use libp2p::futures::StreamExt;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, Swarm, identify, noise, quic, tcp, yamux};
use samara_libp2p::transport::{self, Meters};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use crate::histogram::Histogram;
use crate::implementation::{Anyhow, Gossip, Transport, setup};

/// A payload starts with its publisher (1 byte), its load (1 byte), its number in the load (8
/// bytes), and the time at which it was due, in nanoseconds since 1970 (8 bytes).
const HEADER_BYTES: usize = 18;

/// Gossip and identify, which every libp2p node runs; go-libp2p has it built in.
#[derive(NetworkBehaviour)]
struct Both<B: NetworkBehaviour> {
    gossip: B,
    identify: identify::Behaviour,
}

/// Publishes whenever the node is less than a window ahead of the slowest other node, according to
/// the counters of received messages. No node then has more than two windows of any other node in
/// flight.
struct Fill {
    bytes: usize,
    window: u64,
    until: Instant,
}

struct Node<B: Gossip> {
    swarm: Swarm<Both<B>>,
    index: usize,
    /// The current load. Messages of another load do not count: a node that joins later receives
    /// some of them through IHAVE and IWANT.
    load: u8,
    published: u64,
    /// The numbers of the received messages, by publisher.
    received: Vec<HashSet<u64>>,
    latencies: Histogram,
    fill: Option<Fill>,
}

/// Runs a node until its input ends.
pub(crate) async fn run<B>(name: &str, index: usize, of: usize) -> Anyhow<()>
where
    B: Gossip<ToSwarm: Send, ConnectionHandler: Send> + Send,
{
    let meters = Meters::new();
    let (order, transport) = setup(name);
    let mut swarm = libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_other_transport(|key| {
            let config = tcp::Config::default();
            let (noise, yamux) = (noise::Config::new(key)?, yamux::Config::default());
            Ok(match transport {
                Transport::MeteredTcp => transport::tcp::Transport::new(config, &meters)
                    .upgrade(Version::V1Lazy)
                    .authenticate(noise)
                    .multiplex(yamux)
                    .boxed(),
                Transport::Tcp => tcp::tokio::Transport::new(config)
                    .upgrade(Version::V1Lazy)
                    .authenticate(noise)
                    .multiplex(yamux)
                    .boxed(),
                Transport::MeteredQuic => transport::quic::Transport::new(Default::default(), key, &meters)?
                    .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
                    .boxed(),
                Transport::Quic => quic::tokio::Transport::new(quic::Config::new(key))
                    .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
                    .boxed(),
            })
        })?
        .with_behaviour(|key| {
            let identify = identify::Config::new("/bench/1.0.0".to_owned(), key.public());
            Ok(Both { gossip: B::new(key, order, &meters)?, identify: identify::Behaviour::new(identify) })
        })?
        // The timeout is as long as the process runs, because no stream is open before identify has
        // finished.
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(3600)))
        .build();
    let any = match transport {
        Transport::Tcp | Transport::MeteredTcp => "/ip4/127.0.0.1/tcp/0",
        Transport::Quic | Transport::MeteredQuic => "/ip4/127.0.0.1/udp/0/quic-v1",
    };
    swarm.listen_on(any.parse()?)?;
    let address = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            break address;
        }
    };
    println!("listening {address}/p2p/{}", swarm.local_peer_id());
    let received = vec![HashSet::new(); of];
    let latencies = Histogram::default();
    let node = Node { swarm, index, load: 0, published: 0, received, latencies, fill: None };
    // A separate task, like those of the connections: in `main` it would have its own thread, which
    // every event must wake.
    tokio::spawn(node.serve()).await?
}

impl<B: Gossip> Node<B> {
    async fn serve(mut self) -> Anyhow<()> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let (due, mut to_publish) = mpsc::unbounded_channel();
        // Also needed apart from the end of a fill: rust-libp2p does not request a wake-up for its
        // next heartbeat.
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => {
                    if let SwarmEvent::Behaviour(BothEvent::Gossip(event)) = event {
                        self.on_event(&event)?;
                    }
                }
                Some(message) = to_publish.recv() => match message {
                    Due::Message { bytes, at } => self.publish(bytes, at)?,
                    Due::End => println!("done"),
                },
                line = lines.next_line() => {
                    let Some(line) = line? else { return Ok(()) };
                    self.handle_command(&line, &due)?;
                }
                _ = tick.tick() => {}
            }
            self.continue_filling()?;
        }
    }

    fn on_event(&mut self, event: &B::ToSwarm) -> Anyhow<()> {
        let Some(data) = B::message(event).filter(|data| data[1] == self.load) else { return Ok(()) };
        let [number, due] =
            [2, 10].map(|at| u64::from_be_bytes(data[at..at + 8].try_into().expect("8 bytes")));
        if !self.received[usize::from(data[0])].insert(number) {
            return Err(format!("message {number} of node {} was delivered twice", data[0]).into());
        }
        self.latencies.add(now().saturating_sub(due) / 1000);
        Ok(())
    }

    fn publish(&mut self, bytes: usize, at: u64) -> Anyhow<()> {
        let mut data = vec![0; bytes.max(HEADER_BYTES)];
        data[0] = self.index as u8;
        data[1] = self.load;
        data[2..10].copy_from_slice(&self.published.to_be_bytes());
        data[10..HEADER_BYTES].copy_from_slice(&at.to_be_bytes());
        self.swarm.behaviour_mut().gossip.publish(data)?;
        self.published += 1;
        Ok(())
    }

    fn continue_filling(&mut self) -> Anyhow<()> {
        let Some(Fill { bytes, window, until }) = self.fill else { return Ok(()) };
        if Instant::now() >= until {
            self.fill = None;
            println!("done");
            return Ok(());
        }
        let others = self.received.iter().enumerate().filter(|(from, _)| *from != self.index);
        let slowest = others.map(|(_, numbers)| numbers.len() as u64).min().unwrap_or(u64::MAX);
        while self.published < slowest.saturating_add(window) {
            self.publish(bytes, now())?;
        }
        Ok(())
    }

    fn handle_command(&mut self, line: &str, due: &mpsc::UnboundedSender<Due>) -> Anyhow<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["dial", address] => {
                self.swarm.dial(address.parse::<Multiaddr>()?)?;
                println!("dialled");
            }
            ["mesh"] => println!("mesh {}", self.swarm.behaviour().gossip.mesh()),
            ["begin", load] => {
                (self.load, self.published) = (load.parse()?, 0);
                self.received.iter_mut().for_each(HashSet::clear);
                self.latencies = Histogram::default();
                println!("begun");
            }
            ["fill", bytes, window, seconds] => {
                let until = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
                self.fill = Some(Fill { bytes: bytes.parse()?, window: window.parse()?, until });
            }
            ["pace", bytes, per_second, seconds] => {
                let (bytes, due) = (bytes.parse()?, due.clone());
                let gap = Duration::from_secs_f64(1.0 / per_second.parse::<f64>()?);
                let length = Duration::from_secs_f64(seconds.parse()?);
                // A separate thread: a busy swarm must not delay the time from which latency
                // counts.
                std::thread::spawn(move || pace(bytes, gap, length, &due));
            }
            ["counts"] => {
                let received: usize = self.received.iter().map(HashSet::len).sum();
                println!("counts {} {received}", self.published);
            }
            ["latencies"] => println!("latencies{}", self.latencies),
            _ => return Err(format!("unknown command {line:?}").into()),
        }
        Ok(())
    }
}

enum Due {
    Message { bytes: usize, at: u64 },
    End,
}

/// Requests messages at a fixed rate, regardless of their progress.
fn pace(bytes: usize, gap: Duration, length: Duration, due: &mpsc::UnboundedSender<Due>) {
    let start = Instant::now();
    let mut next = gap;
    while next <= length {
        std::thread::sleep((start + next).saturating_duration_since(Instant::now()));
        let _ = due.send(Due::Message { bytes, at: now() });
        next += gap;
    }
    let _ = due.send(Due::End);
}

/// Returns nanoseconds since 1970, a clock shared by all processes.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
