//! Servers that stand for nodes on other machines: honest, slow and hostile ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use samara_dashboard::NodeAddress;
use samara_trace::live::{Edge, Event, Feed};
use samara_trace::unix_ns;

/// A server, which ends when this value is dropped.
pub(crate) struct Remote {
    pub(crate) address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Serves each connection in a thread with a function that gets the request.
    pub(crate) fn serve(
        address: &str,
        answer: impl Fn(&mut TcpStream, &str) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (stopped, answer) = (Arc::clone(&is_stopped), Arc::new(answer));
        let thread = std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    let mut request = Vec::new();
                    let mut byte = [0];
                    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0)
                    {
                        request.push(byte[0]);
                    }
                    answer(&mut stream, &String::from_utf8_lossy(&request));
                });
            }
        });
        Self { address, is_stopped, thread: Some(thread) }
    }

    pub(crate) fn node(&self) -> NodeAddress {
        self.address.to_string().parse().unwrap()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A node that answers as `samara node` does.
pub(crate) struct Node {
    pub(crate) remote: Remote,
    pub(crate) feed: Arc<Mutex<Feed>>,
    pub(crate) counts: Arc<Mutex<Vec<Event>>>,
}

pub(crate) fn body(stream: &mut TcpStream, text: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
    let _ = stream.write_all((head + text).as_bytes());
}

/// The number in the path of a request.
pub(crate) fn from(request: &str) -> u64 {
    let path = request.split(' ').nth(1).unwrap_or_default();
    path.strip_prefix("/live/").and_then(|from| from.parse().ok()).unwrap_or_else(|| panic!("{request}"))
}

impl Node {
    pub(crate) fn start(name: &str, role: &str) -> Self {
        Self::start_at("127.0.0.1:0", name, role)
    }

    pub(crate) fn start_at(address: &str, name: &str, role: &str) -> Self {
        let name = (!name.is_empty()).then(|| name.to_owned());
        let feed = Arc::new(Mutex::new(Feed::start(name, role, unix_ns())));
        let counts = Arc::new(Mutex::new(Vec::new()));
        let (served, counted) = (Arc::clone(&feed), Arc::clone(&counts));
        let remote = Remote::serve(address, move |stream, request| {
            let counts = counted.lock().unwrap().clone();
            let answer = served.lock().unwrap().answer(from(request), unix_ns(), counts);
            body(stream, &answer);
        });
        Self { remote, feed, counts }
    }

    pub(crate) fn say(&self, event: Event) {
        self.feed.lock().unwrap().push(unix_ns(), event);
    }

    pub(crate) fn count(&self, counts: Vec<Event>) {
        *self.counts.lock().unwrap() = counts;
    }

    /// Works on a phase of a round.
    pub(crate) fn phase(&self, round: u64, phase: &str) {
        self.say(Event::Phase { round, phase: phase.into(), edge: Edge::Begin });
        std::thread::sleep(Duration::from_millis(3));
        self.say(Event::Phase { round, phase: phase.into(), edge: Edge::End });
    }
}

pub(crate) fn link(peer: &str) -> Event {
    Event::Link {
        peer: peer.into(),
        up: true,
        round_trip_ns: Some(2_000_000),
        bytes_up: Some(1),
        bytes_down: Some(1),
        queued_frames: Some(0),
        queued_bytes: Some(0),
    }
}

/// A scheduler and nodes of a mix.
pub(crate) struct Mix {
    pub(crate) scheduler: Node,
    pub(crate) nodes: Vec<Node>,
}

impl Mix {
    pub(crate) fn start(nodes: usize) -> Self {
        let scheduler = Node::start("scheduler", "scheduler");
        let members = (0..nodes).map(|number| format!("node-{number}")).collect();
        scheduler.say(Event::Team { team: 0, members });
        let nodes: Vec<Node> =
            (0..nodes).map(|number| Node::start(&format!("node-{number}"), "node")).collect();
        for (number, node) in nodes.iter().enumerate() {
            let next = (number + 1) % nodes.len();
            node.count(vec![
                link(&format!("node-{next}")),
                link("scheduler"),
                Event::Queue { queue: "jobs".into(), entries: number as u64, bytes: None },
                Event::Errors { cause: "mix_links_closed: lost".into(), total: 0 },
            ]);
        }
        Self { scheduler, nodes }
    }

    pub(crate) fn addresses(&self) -> Vec<NodeAddress> {
        std::iter::once(&self.scheduler).chain(&self.nodes).map(|node| node.remote.node()).collect()
    }

    /// Mixes a round of ten payloads.
    pub(crate) fn round(&self, round: u64) {
        use samara_trace::live::{RoundState, Step};

        use crate::common::slots;
        let state = |state| Event::Round { round, state, team: Some(0), slots: Some(10), cause: None };
        self.scheduler.say(state(RoundState::Precomputing));
        self.nodes.iter().for_each(|node| node.phase(round, "precompute_decrypt"));
        self.scheduler.say(state(RoundState::Realtime));
        self.nodes[0].say(slots(round, Step::Entered, 10));
        self.nodes.iter().for_each(|node| node.phase(round, "decrypt"));
        self.nodes[0].say(slots(round, Step::Left, 10));
        self.scheduler.say(state(RoundState::Completed));
    }
}
