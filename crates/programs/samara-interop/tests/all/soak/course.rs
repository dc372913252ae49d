//! The course of the soak: starts the nodes, disturbs them, and checks what they have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ledger::{DELIVERY, HEARTBEAT, Ledger, SETTLED};
use super::plan::{Action, Plan};
use super::process::{Kind, Process, Report, Said, State};

const TOPIC: &str = "soak";
/// The keys of the nodes are these numbers on.
const FIRST_KEY: u64 = 7_000;
/// Duration of the disturbances between two rests.
const ROUND: Duration = Duration::from_secs(25);
/// Maximum duration of a rest, and of the start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two dials, two publications, and two requests for the state of a node.
const DIAL_INTERVAL: Duration = Duration::from_secs(1);
const PUBLISH_INTERVAL: Duration = Duration::from_millis(700);
const STATE_INTERVAL: Duration = Duration::from_millis(250);
/// Old processes of nodes that restart with open connections are killed after this time.
const OVERLAP: Duration = Duration::from_secs(3);
/// A node is connected again when it has this many peers.
const PEERS_MIN: usize = 5;
/// go-libp2p-pubsub opens a stream again after at most this time, or never.
const GIVEN_UP: Duration = Duration::from_secs(4);

struct Node {
    kind: Kind,
    process: Process,
    /// Known once the process listens.
    address: Option<String>,
    peer: Option<String>,
    state: State,
    is_connected: bool,
    /// Since when go has no stream to a connected peer.
    without_stream: BTreeMap<String, Instant>,
    next_dial: Instant,
    next_publication: Instant,
    next_state: Instant,
}

/// The old process of a node that restarts while its old connections are open.
struct Frozen {
    until: Instant,
    node: usize,
    _process: Process,
}

pub(super) struct Course {
    start: Instant,
    nodes: Vec<Node>,
    frozen: Vec<Frozen>,
    reports: Receiver<Said>,
    sender: Sender<Said>,
    plan: Plan,
    ledger: Ledger,
    lives: u64,
    is_publishing: bool,
    actions: BTreeMap<(Kind, Action), u64>,
    /// The lowest score that an implementation has given to another.
    scores: BTreeMap<(Kind, Kind), f64>,
    /// Peers that go has given up, by go's release and the peer's implementation.
    given_up: BTreeMap<(Kind, Kind), u64>,
    faults: BTreeSet<String>,
    rounds: u64,
}

impl Course {
    /// Starts the nodes. `None` if an implementation is not available.
    pub(super) fn start(kinds: &[Kind], seed: u64) -> Option<Self> {
        let (sender, reports) = channel();
        let now = Instant::now();
        let mut nodes = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let command = kind.command(FIRST_KEY + number as u64)?;
            nodes.push(Node {
                kind: *kind,
                process: Process::start(command, number, 0, sender.clone()),
                address: None,
                peer: None,
                state: State::default(),
                is_connected: false,
                without_stream: BTreeMap::new(),
                next_dial: now,
                next_publication: now + PUBLISH_INTERVAL.mul_f64(number as f64 / kinds.len() as f64),
                next_state: now,
            });
        }
        Some(Self {
            start: now,
            plan: Plan::new(seed, nodes.len()),
            ledger: Ledger::new(nodes.len(), now),
            nodes,
            frozen: Vec::new(),
            reports,
            sender,
            lives: 0,
            is_publishing: true,
            actions: BTreeMap::new(),
            scores: BTreeMap::new(),
            given_up: BTreeMap::new(),
            faults: BTreeSet::new(),
            rounds: 0,
        })
    }

    /// Runs rounds of disturbances and rests, for at least this time.
    pub(super) fn run(&mut self, duration: Duration) {
        self.rest("start");
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.rounds += 1;
            self.disturb((Instant::now() + ROUND).min(until));
            self.rest(&format!("round {}", self.rounds));
        }
    }

    /// Prints what happened, and fails if anything is missing.
    pub(super) fn report(mut self) {
        let names: Vec<String> = (0..self.nodes.len()).map(|node| self.name(node)).collect();
        let (due, missing) = self.ledger.check(Instant::now(), |node| names[node].clone());
        println!(
            "{} rounds, {} messages, {due} deliveries due, {} missing",
            self.rounds,
            self.ledger.count(),
            missing.len()
        );
        println!("disturbances: {:?}", self.actions);
        println!("lowest scores: {:?}", self.scores);
        println!("peers that go has given up: {:?}", self.given_up);
        self.faults.extend(missing);
        let faults: Vec<String> = std::mem::take(&mut self.faults).into_iter().collect();
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
        assert!(due > 0, "nothing was due, so the soak is void");
    }

    fn name(&self, node: usize) -> String {
        format!("{:?}-{node}", self.nodes[node].kind)
    }

    fn node_of(&self, peer: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.peer.as_deref() == Some(peer))
    }

    fn say(&self, text: &str) {
        println!("{:7.2} s: {text}", self.start.elapsed().as_secs_f64());
    }

    fn disturb(&mut self, until: Instant) {
        loop {
            let step = self.plan.next();
            let at = Instant::now() + step.after;
            self.advance(at.min(until));
            if at >= until {
                return;
            }
            self.act(step.node, step.action);
        }
    }

    fn act(&mut self, number: usize, action: Action) {
        // js-libp2p cannot replace the address that it listens on. A restart moves it, too.
        let is_fixed = self.nodes[number].kind == Kind::Js && action == Action::Move;
        let action = if is_fixed { Action::Restart } else { action };
        let name = self.name(number);
        if self.nodes[number].address.is_none() {
            return self.say(&format!("{name} is still starting, so it does not act: {}", action.text()));
        }
        self.say(&format!("{name} {}", action.text()));
        *self.actions.entry((self.nodes[number].kind, action)).or_default() += 1;
        self.ledger.disturb(number, Instant::now());
        self.nodes[number].is_connected = false;
        self.nodes[number].state = State::default();
        match action {
            Action::Restart | Action::Overlap => self.restart(number, action == Action::Overlap),
            Action::Reset => self.send(number, &json!({"is": "reset", "peers": []})),
            Action::Reconnect => self.send(number, &json!({"is": "disconnect"})),
            Action::Move => {
                self.nodes[number].address = None;
                self.send(number, &json!({"is": "move"}));
            }
        }
    }

    fn restart(&mut self, number: usize, keeps_connections: bool) {
        let node = &mut self.nodes[number];
        let command = node.kind.command(FIRST_KEY + number as u64).expect("the program is there");
        node.address = None;
        node.without_stream.clear();
        self.lives += 1;
        if keeps_connections {
            node.process.freeze();
        }
        let fresh = Process::start(command, number, self.lives, self.sender.clone());
        let old = std::mem::replace(&mut node.process, fresh);
        if keeps_connections {
            let until = Instant::now() + OVERLAP;
            self.frozen.push(Frozen { until, node: number, _process: old });
        }
    }

    fn send(&mut self, number: usize, command: &Value) {
        if let Err(error) = self.nodes[number].process.send(command) {
            let name = self.name(number);
            self.faults.insert(format!("{name} ended by itself: {error}"));
        }
    }

    /// Lets the nodes run until a time.
    fn advance(&mut self, until: Instant) {
        loop {
            let now = Instant::now();
            if now >= until {
                return;
            }
            self.end_frozen(now);
            for number in 0..self.nodes.len() {
                self.serve(number, now);
            }
            let wait = Duration::from_millis(20).min(until - now);
            if let Ok(said) = self.reports.recv_timeout(wait) {
                self.take(said);
            }
            while let Ok(said) = self.reports.try_recv() {
                self.take(said);
            }
        }
    }

    /// Ends old processes, whose connections then close.
    ///
    /// Peers other than ours that stay have faults with that, so they reconnect. Ours do not.
    /// - go-libp2p-pubsub (0.16, 0.19) forgets the topics of the new process when its stream to the
    ///   old one ends (`handleDeadPeers`).
    /// - rust-libp2p (gossipsub 0.50.1) sends its topics on the first of several connections only
    ///   (`on_connection_established`).
    /// - js-libp2p (gossipsub 17.1.1) opens no second stream to a peer (`createOutboundStream`), and
    ///   none when the first one ends.
    fn end_frozen(&mut self, now: Instant) {
        let is_over = |frozen: &mut Frozen| frozen.until <= now;
        let ended: Vec<usize> = self.frozen.extract_if(.., is_over).map(|frozen| frozen.node).collect();
        for number in ended {
            let Some(peer) = self.nodes[number].peer.clone() else { continue };
            for other in (0..self.nodes.len()).filter(|other| *other != number) {
                if self.nodes[other].kind != Kind::Samara && self.nodes[other].address.is_some() {
                    self.send(other, &json!({"is": "disconnect", "peer": peer}));
                }
            }
        }
    }

    /// Sends the commands that are due.
    fn serve(&mut self, number: usize, now: Instant) {
        if self.nodes[number].address.is_none() {
            return;
        }
        if self.nodes[number].next_dial <= now {
            self.nodes[number].next_dial = now + DIAL_INTERVAL;
            let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != number);
            let addresses: Vec<String> = others
                .filter_map(|(_, other)| {
                    Some(format!("{}/p2p/{}", other.address.as_ref()?, other.peer.as_ref()?))
                })
                .collect();
            self.send(number, &json!({"is": "connect", "addresses": addresses}));
        }
        if self.nodes[number].next_state <= now {
            self.nodes[number].next_state = now + STATE_INTERVAL;
            self.send(number, &json!({"is": "state", "topic": TOPIC}));
        }
        if self.is_publishing && self.nodes[number].is_connected && self.nodes[number].next_publication <= now
        {
            self.nodes[number].next_publication = now + PUBLISH_INTERVAL;
            self.publish(number);
        }
    }

    /// Publishes a message, and returns its number.
    fn publish(&mut self, number: usize) -> usize {
        let message = self.ledger.publish(number, Instant::now());
        let data = STANDARD.encode(format!("message {message}"));
        self.send(number, &json!({"is": "publish", "topic": TOPIC, "data": data}));
        message
    }

    fn take(&mut self, said: Said) {
        let Said { node: number, life, at, report } = said;
        if self.nodes[number].process.life != life {
            return;
        }
        match report {
            Report::Listening { peer, address } => {
                self.nodes[number].peer = Some(peer);
                self.nodes[number].address = Some(address);
                self.send(number, &json!({"is": "subscribe", "topic": TOPIC}));
            }
            Report::Moved { address } => self.nodes[number].address = Some(address),
            Report::Message { data } => {
                if let Some(message) = message(&data) {
                    self.ledger.received(number, message, at);
                }
            }
            Report::Refused { data, error } => {
                if let Some(message) = message(&data) {
                    self.ledger.refused(message, error);
                }
            }
            Report::State(state) => self.see(number, state, at),
            Report::Other => {}
        }
    }

    fn see(&mut self, number: usize, state: State, at: Instant) {
        let kind = self.nodes[number].kind;
        for (peer, score) in &state.scores {
            let Some(other) = self.node_of(peer) else { continue };
            let lowest = self.scores.entry((kind, self.nodes[other].kind)).or_insert(0.0);
            *lowest = lowest.min(*score);
            if *score < 0.0 {
                let (name, other) = (self.name(number), self.name(other));
                if self.faults.insert(format!("{name} gives {other} a score below 0")) {
                    self.say(&format!("{name} gives {other} the score {score}"));
                }
            }
        }
        if kind.is_go() {
            self.heal(number, &state, at);
        }
        let node = &mut self.nodes[number];
        node.state = state;
        if !node.is_connected && node.state.connected.len() >= PEERS_MIN {
            node.is_connected = true;
            self.ledger.connect(number, at);
        }
    }

    /// go-libp2p-pubsub opens at most four streams to a peer that stays connected, and then none until
    /// the next connection, for ten minutes. A program that uses it has to reconnect.
    fn heal(&mut self, number: usize, state: &State, at: Instant) {
        let lacking: Vec<String> =
            state.connected.iter().filter(|peer| !state.peers.contains(peer)).cloned().collect();
        self.nodes[number].without_stream.retain(|peer, _| lacking.contains(peer));
        for peer in lacking {
            let since = *self.nodes[number].without_stream.entry(peer.clone()).or_insert(at);
            let Some(other) = self.node_of(&peer).filter(|_| at - since > GIVEN_UP) else { continue };
            self.nodes[number].without_stream.remove(&peer);
            self.say(&format!("{} has given up {}", self.name(number), self.name(other)));
            let kinds = (self.nodes[number].kind, self.nodes[other].kind);
            *self.given_up.entry(kinds).or_default() += 1;
            self.send(number, &json!({"is": "disconnect", "peer": peer}));
        }
    }

    /// Waits until all nodes are connected and know each other's topics, and then until a message of
    /// each has reached all.
    fn rest(&mut self, when: &str) {
        self.say(&format!("{when}: rest"));
        let deadline = Instant::now() + PATIENCE;
        let mut strangers = self.strangers();
        while !strangers.is_empty() && Instant::now() < deadline {
            self.advance(Instant::now() + STATE_INTERVAL);
            strangers = self.strangers();
        }
        self.faults.extend(strangers.into_iter().map(|text| format!("{when}: {text}")));
        self.advance(Instant::now() + SETTLED + HEARTBEAT);
        let last: Vec<usize> = (0..self.nodes.len()).map(|number| self.publish(number)).collect();
        self.is_publishing = false;
        self.advance(Instant::now() + DELIVERY);
        self.is_publishing = true;
        for (publisher, message) in last.into_iter().enumerate() {
            for number in 0..self.nodes.len() {
                if !self.ledger.has(number, message) {
                    let (name, publisher) = (self.name(number), self.name(publisher));
                    self.faults.insert(format!("{when}: {name} lacks the last message of {publisher}"));
                }
            }
        }
        self.say(&format!("{when}: {} faults so far", self.faults.len()));
    }

    /// Returns the nodes that are not connected, and the pairs with a node of ours of which one does
    /// not know the topic of the other.
    fn strangers(&self) -> Vec<String> {
        let mut strangers = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for (other, peer) in self.nodes.iter().enumerate().filter(|(other, _)| *other != number) {
                let Some(id) = &peer.peer else {
                    strangers.push(format!("{} has not started", self.name(other)));
                    continue;
                };
                let (name, other) = (self.name(number), self.name(other));
                if !node.state.connected.contains(id) {
                    strangers.push(format!("{name} is not connected to {other}"));
                } else if [node.kind, peer.kind].contains(&Kind::Samara)
                    && !node.state.subscribers.contains(id)
                {
                    strangers.push(format!("{name} does not know the topic of {other}"));
                }
            }
        }
        strangers
    }
}

/// Returns the number of a message from its payload.
fn message(data: &str) -> Option<usize> {
    let text = String::from_utf8(STANDARD.decode(data).ok()?).ok()?;
    text.strip_prefix("message ")?.parse().ok()
}
