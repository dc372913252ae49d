//! Our nodes and nodes of celestia-core v0.39.10 (`interop/go-cat3`) in one network. Their
//! applications accept the transactions of a signer in the order of their sequence numbers only, so
//! a pool that disturbs the order loses transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use samara_cat::pool::{Admission, Application, CheckKind, Signer, Verdict};
use samara_cat::{Cat, Config, Metrics, Preset, Transaction, TxKey};
use samara_engine::Outbox;
use samara_net::mconn::{CatCodec, Event, Node, Options, PeerAddress};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

use crate::mconn::common::{PATIENCE, key, options};
use crate::mconn::go_program::{GoProgram, Release};

static PROGRAM: GoProgram = GoProgram::new("go-cat3", "no test with today's celestia-core has run");

// ---- transactions and the application ----

/// The bytes of a transaction.
const BYTES: usize = 500;
/// The bytes of a signer's name.
const SIGNER_BYTES: usize = 20;

/// Returns a transaction in the format of `interop/go-cat3/ledger.go`.
fn transaction(signer: u32, sequence: u32) -> Transaction {
    let mut bytes = b"tx+\0".to_vec();
    for word in [0, signer, sequence, 0, 1] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(BYTES, 7);
    Transaction::new(bytes)
}

fn account_of(tx: &Transaction) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(tx.bytes().get(at..at + 4)?.try_into().ok()?));
    tx.bytes().starts_with(b"tx+\0").then(|| Some((word(8)?, word(12)?)))?
}

fn name_of(signer: u32) -> Signer {
    let mut name = [0; SIGNER_BYTES];
    name[..4].copy_from_slice(&signer.to_le_bytes());
    Signer::new(&name)
}

/// The application of our nodes, which has the rules of theirs.
#[derive(Debug, Default)]
struct Ledger {
    next: BTreeMap<u32, u32>,
    /// The signer and the sequence number of each accepted transaction, in the order of acceptance.
    accepted: Vec<(u32, u32)>,
    refused: usize,
}

impl Application for Ledger {
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        let Some((signer, sequence)) = account_of(tx) else {
            return Verdict::Reject { code: 1, reason: "garbage".to_owned() };
        };
        let next = self.next.entry(signer).or_default();
        if kind == CheckKind::New {
            if sequence != *next {
                self.refused += 1;
                return Verdict::Reject { code: 32, reason: "account sequence mismatch".to_owned() };
            }
            *next += 1;
            self.accepted.push((signer, sequence));
        }
        Verdict::Accept(Admission {
            gas: 1,
            sender: Some(name_of(signer)),
            sequence: Some(u64::from(sequence)),
            ..Admission::default()
        })
    }

    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let number = u32::from_le_bytes(*signer.as_bytes().first_chunk()?);
        Some(u64::from(self.next.get(&number).copied().unwrap_or(0)))
    }

    fn account(&mut self, tx: &Transaction) -> Option<(Signer, u64)> {
        account_of(tx).map(|(signer, sequence)| (name_of(signer), u64::from(sequence)))
    }
}

// ---- nodes ----

/// What a node reports of itself since its start.
#[derive(Debug, Default)]
struct Look {
    keys: BTreeSet<String>,
    accepted: Vec<(u32, u32)>,
    refused: u64,
    links: usize,
    /// Bodies received.
    bodies: u64,
    /// Announcements received.
    seen: u64,
}

enum Peer {
    Ours {
        number: u8,
        node: Node<Cat<Ledger>>,
        _events: Receiver<Event<samara_cat::Event>>,
    },
    Theirs {
        number: u8,
        address: PeerAddress,
        input: ChildStdin,
        lines: Lines<BufReader<ChildStdout>>,
        child: Box<Child>,
    },
}

impl Peer {
    async fn start(number: u8, is_ours: bool, at: Option<&PeerAddress>) -> Option<Self> {
        if is_ours { Some(Self::ours(number, at).await) } else { Self::theirs(number, at).await }
    }

    async fn ours(number: u8, at: Option<&PeerAddress>) -> Self {
        let config: Config = Preset::Cat.config();
        let key = key(number);
        let engine = Cat::new(config.clone(), &key.id().identity(), Ledger::default());
        let mut options = Options { redial_max: Duration::from_millis(200), ..options() };
        if let Some(at) = at {
            options.listen = Some(at.host.parse().expect("an address"));
        }
        let codec = CatCodec::new(&config);
        let outbox = Outbox::new(config.outbox());
        let started = Node::start(key, options, codec, engine.expect("a configuration"), outbox).await;
        let (node, events) = started.expect("it starts");
        Self::Ours { number, node, _events: events }
    }

    /// Starts a node of celestia-core. Returns `None` if Go is missing.
    async fn theirs(number: u8, at: Option<&PeerAddress>) -> Option<Self> {
        let port = at.and_then(|at| at.host.rsplit(':').next()).unwrap_or("0").to_owned();
        let mut child = Command::new(PROGRAM.path(Release::Pinned)?)
            .args(["-seed", &number.to_string(), "-port", &port, "-timeout", "2s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the peer starts");
        let input = child.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let ready = next_line(&mut lines).await;
        let address = ready["address"].as_str().expect("an address").parse().expect("an address");
        Some(Self::Theirs { number, address, input, lines, child: Box::new(child) })
    }

    fn is_ours(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }

    fn address(&self) -> PeerAddress {
        match self {
            Self::Ours { node, .. } => node.address().expect("it listens"),
            Self::Theirs { address, .. } => address.clone(),
        }
    }

    /// Sends a command to a node of theirs, and returns its answer.
    async fn ask(&mut self, command: Value) -> Value {
        let Self::Theirs { input, lines, .. } = self else { panic!("a node of ours") };
        let name = command["is"].clone();
        input.write_all(format!("{command}\n").as_bytes()).await.expect("the peer runs");
        loop {
            let line = next_line(lines).await;
            if line["is"] == name {
                assert_eq!(line["error"], Value::Null, "{command}");
                return line;
            }
        }
    }

    async fn dial(&mut self, to: &PeerAddress) {
        match self {
            Self::Ours { node, .. } => node.dial(to.clone()).await.expect("it runs"),
            Self::Theirs { .. } => _ = self.ask(json!({ "is": "dial", "address": to.to_string() })).await,
        }
    }

    async fn submit(&mut self, txs: &[Transaction]) {
        match self {
            Self::Ours { node, .. } => {
                for tx in txs.iter().cloned() {
                    let added = node.call(move |engine, cx| engine.submit(tx, cx)).await;
                    assert!(added.expect("it runs"), "a transaction of a client was refused");
                }
            }
            Self::Theirs { .. } => {
                let txs: Vec<String> = txs.iter().map(|tx| STANDARD.encode(tx.bytes())).collect();
                self.ask(json!({ "is": "submit", "txs": txs })).await;
            }
        }
    }

    async fn look(&mut self) -> Look {
        match self {
            Self::Ours { node, .. } => {
                let links = node.status().await.expect("it runs").peers.len();
                let look = |engine: &mut Cat<Ledger>, _: &mut samara_cat::Cx<'_>| {
                    let (pool, metrics): (_, &Metrics) = (engine.pool(), engine.metrics());
                    let ledger = pool.application();
                    Look {
                        keys: pool.iter().map(|entry| entry.transaction.key().to_string()).collect(),
                        accepted: ledger.accepted.clone(),
                        refused: ledger.refused as u64,
                        links: 0,
                        bodies: metrics.bodies_received,
                        seen: metrics.heard_keys,
                    }
                };
                Look { links, ..node.call(look).await.expect("it runs") }
            }
            Self::Theirs { .. } => {
                let found = self.ask(json!({ "is": "look" })).await;
                let list = |name: &str| found[name].as_array().cloned().unwrap_or_default();
                let pair =
                    |pair: &Value| (pair[0].as_u64().unwrap() as u32, pair[1].as_u64().unwrap() as u32);
                Look {
                    keys: list("keys").iter().map(|key| key.as_str().expect("a key").to_owned()).collect(),
                    accepted: list("accepted").iter().map(pair).collect(),
                    refused: found["refused"].as_u64().unwrap_or(0),
                    links: list("peers").len(),
                    bodies: found["received"]["txs"].as_u64().unwrap_or(0),
                    seen: found["received"]["seen_tx"].as_u64().unwrap_or(0),
                }
            }
        }
    }

    /// Ends the node at once, as a crash does, and starts it again at its address with an empty pool
    /// and an empty application.
    async fn restart(self) -> Self {
        let at = self.address();
        let (number, is_ours) = match self {
            Self::Ours { number, node, _events } => {
                node.stop(Duration::ZERO).await.expect("it runs");
                (number, true)
            }
            Self::Theirs { number, mut child, .. } => {
                child.kill().await.expect("it runs");
                (number, false)
            }
        };
        Self::start(number, is_ours, Some(&at)).await.expect("it ran before")
    }
}

async fn next_line(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    let line = timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("readable");
    serde_json::from_str(&line.expect("the peer runs")).expect("JSON")
}

// ---- networks ----

/// Five nodes with links between all.
struct Network {
    peers: Vec<Peer>,
    submitted: BTreeSet<String>,
    /// Transactions submitted to each node since its start.
    own: Vec<u64>,
}

impl Network {
    async fn start(first: u8, ours: &[bool]) -> Option<Self> {
        let mut peers: Vec<Peer> = Vec::new();
        for (number, is_ours) in (first..).zip(ours) {
            let mut peer = Peer::start(number, *is_ours, None).await?;
            for other in &peers {
                peer.dial(&other.address()).await;
            }
            peers.push(peer);
        }
        let own = vec![0; peers.len()];
        let mut network = Self { peers, submitted: BTreeSet::new(), own };
        network.linked().await;
        Some(network)
    }

    async fn linked(&mut self) {
        let others = self.peers.len() - 1;
        self.wait("links", |_, look| look.links == others).await;
    }

    async fn wait(&mut self, what: &str, is_so: impl Fn(usize, &Look) -> bool) {
        let since = Instant::now();
        for (number, peer) in self.peers.iter_mut().enumerate() {
            loop {
                let look = peer.look().await;
                if is_so(number, &look) {
                    break;
                }
                assert!(
                    since.elapsed() < PATIENCE,
                    "node {number} (ours: {}): timeout waiting for {what}: {} transactions, {} refused, {} links",
                    peer.is_ours(),
                    look.keys.len(),
                    look.refused,
                    look.links
                );
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Submits transactions of ten signers, each at one of the nodes but the last, and waits until all
    /// of these nodes have them.
    async fn submit(&mut self, sequences: std::ops::Range<u32>) {
        let homes = self.peers.len() - 1;
        for signer in 0..10u32 {
            let txs: Vec<Transaction> =
                sequences.clone().map(|sequence| transaction(signer, sequence)).collect();
            self.submitted.extend(txs.iter().map(|tx| TxKey::to_string(&tx.key())));
            let home = signer as usize % homes;
            self.own[home] += txs.len() as u64;
            self.peers[home].submit(&txs).await;
        }
        let submitted = self.submitted.clone();
        self.wait("transactions", |number, look| number == homes || look.keys == submitted).await;
    }

    /// Restarts the last node. The others dial it, as persistent peers do.
    async fn restart_last(&mut self) {
        let last = self.peers.pop().expect("nodes");
        let restarted = last.restart().await;
        let address = restarted.address();
        let homes = self.peers.len();
        self.own[homes] = 0;
        self.wait("the end of links", |_, look| look.links < homes).await;
        for peer in &mut self.peers {
            peer.dial(&address).await;
        }
        self.peers.push(restarted);
    }

    /// Checks that all nodes have everything, in order, and returns the bodies received for each
    /// transaction that a node had not got from a client.
    async fn finish(mut self) -> f64 {
        let submitted = self.submitted.clone();
        self.wait("all transactions", |_, look| look.keys == submitted).await;
        let (mut bodies, mut needed) = (0, 0);
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let look = peer.look().await;
            let mut next = BTreeMap::new();
            for (signer, sequence) in &look.accepted {
                let expected = next.entry(*signer).or_insert(0);
                assert_eq!(sequence, expected, "node {number}: out of order, signer {signer}");
                *expected += 1;
            }
            assert_eq!(look.accepted.len(), submitted.len(), "node {number}");
            println!(
                "node {number} (ours: {}): {} bodies, {} announcements, {} refused",
                peer.is_ours(),
                look.bodies,
                look.seen,
                look.refused
            );
            bodies += look.bodies;
            needed += submitted.len() as u64 - self.own[number];
        }
        bodies as f64 / needed as f64
    }
}

const OURS: bool = true;
const THEIRS: bool = false;

/// Two thousand transactions of ten signers: two of our nodes and three of theirs, of which one
/// restarts half-way, against five of theirs without a restart. Theirs announce nothing to a new peer,
/// so that the restarted node gets the first half from ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_transactions_keep_their_order_among_todays_nodes() {
    let Some(mut mixed) = Network::start(200, &[OURS, THEIRS, OURS, THEIRS, THEIRS]).await else { return };
    for round in 0..10 {
        if round == 5 {
            mixed.restart_last().await;
        }
        mixed.submit(20 * round..20 * (round + 1)).await;
    }
    let with_ours = mixed.finish().await;
    let mut theirs = Network::start(210, &[THEIRS; 5]).await.expect("Go is there");
    for round in 0..10 {
        theirs.submit(20 * round..20 * (round + 1)).await;
    }
    let alone = theirs.finish().await;
    println!("bodies for each needed one: {with_ours:.3} with ours, {alone:.3} without");
    assert!(with_ours <= 1.1 * alone, "{with_ours} bodies with ours, {alone} without");
}

/// One of ours restarts, and gets what it has lost from the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_ours_restarts_among_todays_nodes() {
    let Some(mut network) = Network::start(220, &[THEIRS, THEIRS, OURS, OURS]).await else { return };
    network.submit(0..40).await;
    network.restart_last().await;
    network.submit(40..80).await;
    let bodies = network.finish().await;
    assert!(bodies <= 1.1, "{bodies} bodies for each needed one");
}

/// Ours speaks with the generations of 2023 and of today at once, and carries transactions between
/// them. Those of 2023 have no signers in their announcements.
#[tokio::test]
async fn ours_connects_the_generations_of_celestia() {
    let Some(mut new) = Peer::start(230, THEIRS, None).await else { return };
    let Some(mut old) = crate::mconn::celestia::celestia(&[]).await else { return };
    let mut ours = Peer::start(231, OURS, None).await.expect("ours need no Go");
    ours.dial(&new.address()).await;
    ours.dial(&old.address).await;
    old.linked(1).await;
    let Peer::Ours { node, .. } = &ours else { unreachable!() };
    let wait = async {
        while node.status().await.expect("it runs").peers.len() < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("two links");
    let status = node.status().await.expect("it runs");
    let protocols: BTreeSet<&str> = status.peers.iter().map(|peer| &*peer.protocol).collect();
    assert_eq!(protocols, BTreeSet::from(["cat/1", "cat/3"]));
    let from_new: Vec<Transaction> = (0..50).map(|sequence| transaction(0, sequence)).collect();
    new.submit(&from_new).await;
    let from_old: Vec<Transaction> = (0..50).map(|sequence| transaction(1, sequence)).collect();
    old.submit(&from_old.iter().map(|tx| tx.bytes().to_vec()).collect::<Vec<_>>()).await;
    let all: BTreeSet<String> = from_new.iter().chain(&from_old).map(|tx| tx.key().to_string()).collect();
    old.has(&all).await;
    let end = Instant::now() + PATIENCE;
    while new.look().await.keys != all {
        assert!(Instant::now() < end, "{:?}", new.look().await);
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(new.look().await.refused, 0);
}
