//! The receiver: lists of rounds, batches, messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use samara_net::mix::{ClientError, ClientOptions, Ended, Kept, Outcome, Reader, RecipientKey};
use tokio::time::Instant;

use crate::{Added, Inbox, MailError, Message, MessageId, Part, UnfinishedMessage, UnreadablePart};

/// Time between two requests for new rounds.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Lists that a receiver takes from a node before it fetches their rounds: some thousand rounds.
const LISTS_MAX: usize = 8;
/// Rounds that a receiver remembers as fetched.
const FETCHED_MAX: usize = 1 << 16;
/// Attempts to fetch a round, at all nodes that have it.
const ATTEMPTS_MAX: u32 = 3;

/// What a receiver needs.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The pool, and a certificate of the receiver: a new one each time, so that nodes cannot tell that
    /// two receivers are one.
    pub client: ClientOptions,
    /// The key of the recipient.
    pub key: RecipientKey,
    /// The first round to fetch.
    pub from: u64,
    /// Whether the receiver goes on after the first messages.
    pub keeps_on: bool,
    /// Time without news after which the receiver ends.
    pub patience: Duration,
}

/// A report of the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// A whole message.
    Message(Message),
    /// A round was fetched.
    Fetched {
        /// Rounds so far.
        rounds: usize,
        /// Payloads so far, of everybody.
        payloads: usize,
    },
    /// What the nodes still have, after the first look at all of them.
    Reach {
        /// All answering nodes have their results of this last time.
        complete: Duration,
        /// The highest round, not below the first that was wanted, whose result a node has no more.
        gone: Option<u64>,
    },
    /// A node does not answer.
    Silent {
        /// Its number in the pool.
        node: u32,
        /// The reason.
        why: String,
    },
    /// A round that no node gives any more. Parts of messages may have been in it.
    Lost {
        /// Its number.
        round: u64,
        /// The reason.
        why: String,
    },
    /// A message that the receiver has came again, or a part of it.
    Repeated {
        /// The name of the message.
        id: MessageId,
        /// The round of the first further part.
        round: u64,
    },
    /// A message gave up its place for others: too many lack parts.
    GivenUp(UnfinishedMessage),
    /// A payload for this recipient that is no part of a message.
    Unreadable {
        /// Its number.
        round: u64,
        /// The reason.
        why: String,
    },
}

/// The end of a receiver.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Messages that came whole.
    pub messages: usize,
    /// Messages of which parts are missing.
    pub unfinished: Vec<UnfinishedMessage>,
    /// The first and the last of the rounds that were fetched.
    pub rounds: Option<(u64, u64)>,
    /// Whether rounds or messages were lost.
    pub has_losses: bool,
}

impl Received {
    /// Returns true if a message came, and nothing is missing.
    pub const fn is_complete(&self) -> bool {
        self.messages > 0 && self.unfinished.is_empty() && !self.has_losses
    }
}

/// A round that waits to be fetched.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// The nodes that have it, each with the number of payloads that it claims.
    nodes: Vec<(u32, u32)>,
    attempts: u32,
}

/// The owner's part of the work. An error of it ends the receiver.
type Report<'a> = &'a mut (dyn FnMut(Receiving) -> Result<(), String> + Send);

struct Receiver<'a> {
    key: RecipientKey,
    readers: Vec<Reader>,
    silent: BTreeMap<u32, String>,
    waiting: BTreeMap<u64, Waiting>,
    fetched: BTreeSet<u64>,
    inbox: Inbox,
    received: Received,
    rounds: usize,
    payloads: usize,
    /// The last message or part.
    news: Instant,
    report: Report<'a>,
}

/// Receives messages: fetches all finished rounds, whole, from the first that is wanted on. Ends when
/// there are messages and no part is missing, or when there has been no news for a time.
///
/// # Errors
/// No node answers, the options are wrong, or the owner's report fails.
pub async fn receive(options: ReceiveOptions, report: Report<'_>) -> Result<Received, MailError> {
    let ReceiveOptions { client, key, from, keeps_on, patience } = options;
    let nodes = 0..client.nodes.len() as u32;
    let readers = nodes.map(|node| Reader::new(&client, node)).collect::<Result<_, _>>()?;
    let mut receiver = Receiver {
        key,
        readers,
        silent: BTreeMap::new(),
        waiting: BTreeMap::new(),
        fetched: BTreeSet::new(),
        inbox: Inbox::default(),
        received: Received::default(),
        rounds: 0,
        payloads: 0,
        news: Instant::now(),
        report,
    };
    let mut has_looked = false;
    loop {
        let (kept, has_more) = receiver.look(from).await?;
        if !has_looked && !kept.is_empty() {
            has_looked = true;
            let complete = kept.iter().map(|kept| kept.reach).min().unwrap_or_default();
            let gone = kept.iter().filter_map(|kept| kept.gone).filter(|gone| *gone >= from).max();
            receiver.tell(Receiving::Reach { complete, gone })?;
        }
        receiver.fetch_all().await?;
        if has_more {
            continue;
        }
        let is_settled = receiver.inbox.is_settled() && receiver.waiting.is_empty();
        let is_over = receiver.news.elapsed() >= patience;
        if !keeps_on && (is_settled && receiver.received.messages > 0 || is_over) {
            break;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    if !has_looked {
        let silent = receiver.silent.iter().map(|(node, why)| format!("node {node}: {why}"));
        return Err(MailError::Unreachable(silent.collect::<Vec<_>>().join("; ")));
    }
    Ok(Received { unfinished: receiver.inbox.unfinished(), ..receiver.received })
}

impl Receiver<'_> {
    fn tell(&mut self, what: Receiving) -> Result<(), MailError> {
        (self.report)(what).map_err(MailError::Owner)
    }

    /// Asks all nodes for new rounds. Returns the last answer of each node that gave one, and whether
    /// a node has more.
    async fn look(&mut self, from: u64) -> Result<(Vec<Kept>, bool), MailError> {
        let lists = join_all(self.readers.iter_mut().map(|reader| list(reader, from))).await;
        let (mut answered, mut has_more) = (Vec::new(), false);
        for (node, (rounds, last)) in (0..).zip(lists) {
            rounds.into_iter().for_each(|(round, slots)| self.note_round(node, round, slots));
            match last {
                Ok(kept) => {
                    self.silent.remove(&node);
                    has_more |= !kept.rounds.is_empty();
                    answered.push(kept);
                }
                Err(error) => {
                    let why = text(&error);
                    if self.silent.insert(node, why.clone()).is_none() {
                        self.tell(Receiving::Silent { node, why })?;
                    }
                }
            }
        }
        Ok((answered, has_more))
    }

    fn note_round(&mut self, node: u32, round: u64, slots: u32) {
        if slots == 0 || self.fetched.contains(&round) {
            return;
        }
        let waiting = self.waiting.entry(round).or_default();
        if waiting.nodes.iter().all(|(other, _)| *other != node) {
            waiting.nodes.push((node, slots));
        }
    }

    async fn fetch_all(&mut self) -> Result<(), MailError> {
        let rounds: Vec<u64> = self.waiting.keys().copied().collect();
        for round in rounds {
            let Some(mut waiting) = self.waiting.remove(&round) else { continue };
            match self.fetch(round, &waiting.nodes).await? {
                Ok(ended) => self.take(round, ended).await?,
                Err(why) => {
                    waiting.attempts += 1;
                    if waiting.attempts < ATTEMPTS_MAX {
                        self.waiting.insert(round, waiting);
                    } else {
                        self.received.has_losses = true;
                        self.note_fetched(round);
                        self.tell(Receiving::Lost { round, why })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fetches a round from one of the nodes that have it, which is drawn at random.
    async fn fetch(&mut self, round: u64, nodes: &[(u32, u32)]) -> Result<Result<Ended, String>, MailError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        let first = u64::from_le_bytes(random) as usize % nodes.len().max(1);
        let mut last = "no node has it".to_owned();
        for (node, slots) in nodes.iter().cycle().skip(first).take(nodes.len()) {
            let Some(reader) = self.readers.get_mut(*node as usize) else { continue };
            match reader.result(round, *slots).await {
                Ok(ended) => return Ok(Ok(ended)),
                Err(error) => last = text(&error),
            }
        }
        Ok(Err(last))
    }

    /// Remembers a round. Those that are forgotten would be fetched again at worst.
    fn note_fetched(&mut self, round: u64) {
        self.fetched.insert(round);
        if self.fetched.len() > FETCHED_MAX {
            self.fetched.pop_first();
        }
    }

    /// Tries to read each payload of a round.
    async fn take(&mut self, round: u64, ended: Ended) -> Result<(), MailError> {
        self.note_fetched(round);
        let Ended::Delivered(outcomes) = ended else { return Ok(()) };
        self.rounds += 1;
        self.payloads += outcomes.len();
        let (first, last) = self.received.rounds.unwrap_or((round, round));
        self.received.rounds = Some((first.min(round), last.max(round)));
        let key = self.key.clone();
        // A batch of 1,000 payloads takes tens of milliseconds.
        let read = tokio::task::spawn_blocking(move || {
            let contents = outcomes.iter().filter_map(|outcome| match outcome {
                Outcome::Content(content) => key.decrypt(content),
                _ => None,
            });
            contents.map(|plain| Part::read(&plain)).collect::<Vec<Result<Part, UnreadablePart>>>()
        });
        let read = read.await.map_err(|error| MailError::Owner(error.to_string()))?;
        for part in read {
            match part {
                Ok(part) => self.add(round, part)?,
                Err(why) => self.tell(Receiving::Unreadable { round, why: why.to_string() })?,
            }
        }
        let (rounds, payloads) = (self.rounds, self.payloads);
        self.tell(Receiving::Fetched { rounds, payloads })
    }

    fn add(&mut self, round: u64, part: Part) -> Result<(), MailError> {
        match self.inbox.add(part) {
            Added::Duplicate => {}
            Added::Repeated(id) => self.tell(Receiving::Repeated { id, round })?,
            Added::Misnamed(id) => {
                let why = format!("message {id} has the name of other contents");
                self.tell(Receiving::Unreadable { round, why })?;
            }
            Added::Contradicts => {
                let why = "it contradicts other parts of its message".to_owned();
                self.tell(Receiving::Unreadable { round, why })?;
            }
            Added::Waits(lost) => {
                self.news = Instant::now();
                for message in lost {
                    self.received.has_losses = true;
                    self.tell(Receiving::GivenUp(message))?;
                }
            }
            Added::Complete(message) => {
                self.news = Instant::now();
                self.received.messages += 1;
                self.tell(Receiving::Message(message))?;
            }
        }
        Ok(())
    }
}

/// Takes the next lists of a node. The last one is empty if the node has no more.
async fn list(reader: &mut Reader, from: u64) -> (Vec<(u64, u32)>, Result<Kept, ClientError>) {
    let mut rounds = Vec::new();
    let mut last = Ok(Kept::default());
    for _ in 0..LISTS_MAX {
        last = reader.kept(from).await;
        match &last {
            Ok(kept) if !kept.rounds.is_empty() => rounds.extend_from_slice(&kept.rounds),
            _ => break,
        }
    }
    (rounds, last)
}

fn text(error: &ClientError) -> String {
    match error {
        ClientError::Node { status, .. } => status.message().to_owned(),
        ClientError::Unreachable { address, why, .. } => format!("{address}: {why}"),
        error => error.to_string(),
    }
}
