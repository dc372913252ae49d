//! A process with one node in it: commands come as lines on standard input, each is answered by a line on standard output. It ends
//! with its input. `interop/go-bench` is the same in Go.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libp2p::futures::StreamExt;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, Swarm, identify, noise, tcp, yamux};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use crate::histogram::Histogram;
use crate::implementation::{Anyhow, Gossip};

/// A payload starts with its publisher (1 byte), the load that it belongs to (1), its number in it (8) and when it was due, in
/// nanoseconds since 1970 (8).
const HEADER_BYTES: usize = 18;

/// Gossip and what every libp2p node has beside it; go-libp2p has it built in.
#[derive(NetworkBehaviour)]
struct Both<B: NetworkBehaviour> {
    gossip: B,
    identify: identify::Behaviour,
}

/// Publishes whenever it is less than a window ahead of the slowest of the others, whose counters of received messages say
/// how far they are: nobody then has more than two windows of anybody on the way.
struct Fill {
    bytes: usize,
    window: u64,
    until: Instant,
}

struct Node<B: Gossip> {
    swarm: Swarm<Both<B>>,
    index: usize,
    /// The load under way. Messages of another one do not count: a node that joins later gets some of them by IHAVE and IWANT.
    load: u8,
    published: u64,
    /// The numbers of the messages received, by publisher.
    received: Vec<HashSet<u64>>,
    latencies: Histogram,
    fill: Option<Fill>,
}

/// Runs a node until its input ends.
pub(crate) async fn run<B>(index: usize, of: usize) -> Anyhow<()>
where
    B: Gossip<ToSwarm: Send, ConnectionHandler: Send> + Send,
{
    let mut swarm = libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|key| {
            let identify = identify::Config::new("/bench/1.0.0".to_owned(), key.public());
            Ok(Both { gossip: B::new(key)?, identify: identify::Behaviour::new(identify) })
        })?
        // As long as the process: there is no stream before identify has had its say.
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(3600)))
        .build();
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    let address = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            break address;
        }
    };
    println!("listening {address}/p2p/{}", swarm.local_peer_id());
    let received = vec![HashSet::new(); of];
    let latencies = Histogram::default();
    let node = Node { swarm, index, load: 0, published: 0, received, latencies, fill: None };
    // A task like those of the connections: in `main` it would have a thread of its own, which every event has to wake.
    tokio::spawn(node.serve()).await?
}

impl<B: Gossip> Node<B> {
    async fn serve(mut self) -> Anyhow<()> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let (due, mut to_publish) = mpsc::unbounded_channel();
        // Beside the end of a fill: rust-libp2p does not ask to be woken for its next heartbeat.
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => {
                    if let SwarmEvent::Behaviour(BothEvent::Gossip(event)) = event {
                        self.told(&event)?;
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
            self.go_on_filling()?;
        }
    }

    fn told(&mut self, event: &B::ToSwarm) -> Anyhow<()> {
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

    fn go_on_filling(&mut self) -> Anyhow<()> {
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
                // A thread of its own: a busy swarm must not delay the moment from which latency counts.
                std::thread::spawn(move || pace(bytes, gap, length, &due));
            }
            ["counts"] => {
                let received: usize = self.received.iter().map(HashSet::len).sum();
                println!("counts {} {received}", self.published);
            }
            ["latencies"] => println!("latencies{}", self.latencies),
            _ => return Err(format!("{line:?} is no command").into()),
        }
        Ok(())
    }
}

enum Due {
    Message { bytes: usize, at: u64 },
    End,
}

/// Asks for messages at a rate, whatever comes.
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

/// Nanoseconds since 1970: the same clock in all processes.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
