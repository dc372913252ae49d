//! The sender: rounds, results, and what has to go again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use samara_net::mix::{Address, Client, ClientError, ClientOptions, ClientStatus, Ended, Outcome, Round};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{MailError, MessageId, content_bytes_max, part_bytes, split};

/// Rounds of a message in progress: a few, so that their latencies overlap.
const ROUNDS_MAX: usize = 8;
/// Time for a node to accept payloads.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two reports while nothing happens.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What a sender needs.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The pool, and the certificate of the sender: a new one for each message, so that nodes cannot
    /// tell that two have one sender.
    pub client: ClientOptions,
    /// The recipient.
    pub to: Address,
    /// The message.
    pub contents: Vec<u8>,
    /// Time without any part that comes out, after which the sender gives up.
    pub patience: Duration,
}

/// A report of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The state of the message.
    Progress {
        /// Parts that have come out of the mix.
        out: usize,
        /// All parts.
        parts: usize,
        /// Parts in rounds that have not ended.
        under_way: usize,
    },
    /// Parts that go into another round.
    Again {
        /// The round, in which they did not come out.
        round: u64,
        /// Their number.
        parts: usize,
        /// The reason.
        cause: String,
    },
}

/// The end of a sender.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The name of the message.
    pub id: MessageId,
    /// All parts.
    pub parts: usize,
    /// Parts that came out of the mix.
    pub out: usize,
    /// The rounds in which they came out, each with their number.
    pub rounds: BTreeMap<u64, usize>,
    /// Parts that went into another round.
    pub again: usize,
    /// The reason why parts are missing.
    pub failure: Option<String>,
}

impl Sent {
    /// Returns true if all parts came out.
    pub const fn is_complete(&self) -> bool {
        self.out == self.parts
    }
}

/// The parts of a round, each with the payload that has to come out.
type Submitted = Vec<(usize, Vec<u8>)>;

struct Sender {
    client: Client,
    to: Address,
    plain: Vec<Vec<u8>>,
    pending: VecDeque<usize>,
    /// Parts that have come out. Another copy of one may be under way, if its result could not be had.
    is_out: Vec<bool>,
    under_way: JoinSet<(Round, Submitted, Result<Ended, ClientError>)>,
    sent: Sent,
    last_cause: Option<String>,
}

/// Sends a message, and waits until all of its parts have come out of the mix, or no part has for a
/// time.
///
/// # Errors
/// The message is too long, or the options are wrong.
pub async fn send(options: SendOptions, report: &mut (dyn FnMut(Sending) + Send)) -> Result<Sent, MailError> {
    let SendOptions { client, to, contents, patience } = options;
    let group = client.group;
    let part = part_bytes(group).ok_or(MailError::NoRoom { group: group.name() })?;
    let max = content_bytes_max(group);
    if contents.len() > max {
        return Err(MailError::TooLong { found: contents.len(), max, part });
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    let id = MessageId(id);
    let plain: Vec<Vec<u8>> = split(id, &contents, part).iter().map(|one| one.write(part)).collect();
    let parts = plain.len();
    let mut sender = Sender {
        client: Client::start(client)?,
        to,
        pending: (0..parts).collect(),
        is_out: vec![false; parts],
        plain,
        under_way: JoinSet::new(),
        sent: Sent { id, parts, out: 0, rounds: BTreeMap::new(), again: 0, failure: None },
        last_cause: None,
    };
    let mut deadline = Instant::now() + patience;
    while !sender.sent.is_complete() {
        report(sender.progress());
        let (client, is_free) = (sender.client.clone(), sender.under_way.len() < ROUNDS_MAX);
        tokio::select! {
            Some(ended) = sender.under_way.join_next(), if !sender.under_way.is_empty() => {
                let Ok((round, submitted, ended)) = ended else { continue };
                if sender.note(&round, submitted, ended, report) {
                    deadline = Instant::now() + patience;
                }
            }
            round = client.next_round(), if is_free && !sender.pending.is_empty() => {
                sender.submit(round, report).await?;
            }
            () = tokio::time::sleep(REPORT_EVERY) => {}
            () = tokio::time::sleep_until(deadline) => {
                let status = sender.client.status();
                sender.sent.failure = Some(sender.last_cause.take().unwrap_or_else(|| reason(&status)));
                break;
            }
        }
    }
    Ok(sender.sent)
}

impl Sender {
    fn progress(&self) -> Sending {
        let Sent { out, parts, .. } = self.sent;
        Sending::Progress { out, parts, under_way: parts - out - self.pending.len() }
    }

    /// Puts parts back, to go into another round.
    fn again(
        &mut self,
        round: u64,
        parts: Vec<usize>,
        cause: String,
        report: &mut (dyn FnMut(Sending) + Send),
    ) {
        let parts: Vec<usize> = parts.into_iter().filter(|part| !self.is_out[*part]).collect();
        if parts.is_empty() {
            return;
        }
        self.sent.again += parts.len();
        report(Sending::Again { round, parts: parts.len(), cause: cause.clone() });
        self.last_cause = Some(format!("round {round}: {cause}"));
        parts.into_iter().rev().for_each(|part| self.pending.push_front(part));
    }

    /// Submits as many parts as one sender may have in the round.
    async fn submit(
        &mut self,
        round: Round,
        report: &mut (dyn FnMut(Sending) + Send),
    ) -> Result<(), MailError> {
        let count = self.pending.len().min(round.room.min(round.share) as usize);
        let parts: Vec<usize> = self.pending.drain(..count).collect();
        // A key for each payload, also of a part that goes again: nobody can tell that it does.
        let payloads = parts.iter().map(|part| self.to.encrypt(&self.plain[*part]));
        let payloads = payloads.collect::<Result<Vec<_>, _>>()?;
        let submit = async {
            let sealed = self.client.seal(&round, payloads.clone()).await?;
            self.client.submit(&round, sealed).await
        };
        let refused = match timeout(SUBMIT_TIMEOUT, submit).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(text(&error)),
            // The node may have them or not: the recipient ignores what comes twice.
            Err(_) => Some("the first node does not answer".to_owned()),
        };
        if let Some(cause) = refused {
            self.again(round.round, parts, cause, report);
            return Ok(());
        }
        let (client, submitted) = (self.client.clone(), parts.into_iter().zip(payloads).collect());
        self.under_way.spawn(async move {
            let ended = client.result(&round).await;
            (round, submitted, ended)
        });
        Ok(())
    }

    /// Looks for the payloads in the result of their round. Returns true if one came out.
    fn note(
        &mut self,
        round: &Round,
        submitted: Submitted,
        ended: Result<Ended, ClientError>,
        report: &mut (dyn FnMut(Sending) + Send),
    ) -> bool {
        let (outcomes, cause) = match ended {
            Ok(Ended::Delivered(outcomes)) => (outcomes, "the payload came out changed or not at all".into()),
            Ok(Ended::Failed { cause, culprit }) => {
                let of = culprit.map_or_else(String::new, |node| format!(" (node {node})"));
                (Vec::new(), cause + &of)
            }
            Err(error) => (Vec::new(), text(&error)),
        };
        let came = |payload: &[u8]| {
            outcomes
                .iter()
                .any(|outcome| matches!(outcome, Outcome::Content(content) if content[..] == *payload))
        };
        let (out, missing): (Submitted, Submitted) =
            submitted.into_iter().partition(|(_, payload)| came(payload));
        let mut new = 0;
        for (part, _) in out {
            new += usize::from(!std::mem::replace(&mut self.is_out[part], true));
            self.pending.retain(|waiting| *waiting != part);
        }
        self.sent.out += new;
        if new > 0 {
            *self.sent.rounds.entry(round.round).or_default() += new;
        }
        self.again(round.round, missing.into_iter().map(|(part, _)| part).collect(), cause, report);
        new > 0
    }
}

/// Returns an error without the parts of its type that say nothing to a person.
fn text(error: &ClientError) -> String {
    match error {
        ClientError::Node { node, status } => format!("node {node}: {}", status.message()),
        error => error.to_string(),
    }
}

/// Explains why there was no round.
fn reason(status: &ClientStatus) -> String {
    let ClientStatus { failures, confirmed, disputed, ignored, .. } = status;
    if !failures.is_empty() {
        let nodes: Vec<String> = failures.iter().map(|(node, why)| format!("node {node}: {why}")).collect();
        return format!("no secret shared with {}", nodes.join("; "));
    }
    if let Some((rule, _)) = ignored.iter().max_by_key(|(_, count)| **count) {
        return format!("the announced rounds break the rule {rule} of this sender");
    }
    match (confirmed, disputed) {
        (0, 0) => "the nodes announce no round; does the scheduler run?".to_owned(),
        (0, _) => "nodes contradict each other about the teams of rounds".to_owned(),
        _ => "no round has room for a payload".to_owned(),
    }
}
