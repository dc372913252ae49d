//! The sender: rounds, results, and what has to go again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures::future::join_all;
use samara_net::mix::{Address, Client, ClientError, ClientOptions, ClientStatus, Ended, Outcome, Round};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{MailError, MessageId, Naming, content_bytes_max, part_bytes, split};

/// Rounds of a message in progress: a few, so that their latencies overlap.
const ROUNDS_MAX: usize = 8;
/// Time for a node to accept payloads.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a node to answer a sender that withdraws its payloads.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(5);
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
    /// How the message gets its name: [`Naming::Contents`] lets the recipient recognise a message that
    /// it has.
    pub naming: Naming,
    /// Time without any part that comes out, after which the sender gives up: it withdraws the payloads
    /// of rounds that have not begun to mix.
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
        /// Further senders for which a round with parts waits.
        senders_wanted: Option<u32>,
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
    /// Payloads that the sender withdrew when it gave up.
    pub withdrawn: usize,
    /// Parts that may come out after the sender has given up: their round mixes, or its first node does
    /// not answer.
    pub may_come: usize,
    /// Further senders for which a round with parts waited when the sender gave up.
    pub senders_wanted: Option<u32>,
    /// The last reason why parts did not come out, if there was one.
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
    /// Rounds whose first node has or may have parts, and whose end is not known.
    open: BTreeMap<u64, (Round, BTreeSet<usize>)>,
    sent: Sent,
    last_cause: Option<String>,
}

/// Sends a message, and waits until all of its parts have come out of the mix, or no part has for a
/// time, or `stop` is ready. In the last two cases the sender withdraws the others.
///
/// # Errors
/// The message is too long, or the options are wrong.
pub async fn send(
    options: SendOptions,
    stop: impl Future<Output = ()> + Send,
    report: &mut (dyn FnMut(Sending) + Send),
) -> Result<Sent, MailError> {
    tokio::pin!(stop);
    let SendOptions { client, to, contents, naming, patience } = options;
    let group = client.group;
    let part = part_bytes(group).ok_or(MailError::NoRoom { group: group.name() })?;
    let max = content_bytes_max(group);
    if contents.len() > max {
        return Err(MailError::TooLong { found: contents.len(), max, part });
    }
    let id = match naming {
        Naming::Contents => MessageId::of(&contents),
        Naming::Random => {
            let mut id = [0; 16];
            getrandom::fill(&mut id)?;
            MessageId(id)
        }
    };
    let plain: Vec<Vec<u8>> = split(naming, id, &contents, part).iter().map(|one| one.write(part)).collect();
    let parts = plain.len();
    let mut sender = Sender {
        client: Client::start(client)?,
        to,
        pending: (0..parts).collect(),
        is_out: vec![false; parts],
        plain,
        under_way: JoinSet::new(),
        open: BTreeMap::new(),
        sent: Sent {
            id,
            parts,
            out: 0,
            rounds: BTreeMap::new(),
            again: 0,
            withdrawn: 0,
            may_come: 0,
            senders_wanted: None,
            failure: None,
        },
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
                sender.give_up(report).await;
                break;
            }
            () = &mut stop => {
                sender.give_up(report).await;
                break;
            }
        }
    }
    Ok(sender.sent)
}

impl Sender {
    fn progress(&self) -> Sending {
        let Sent { out, parts, .. } = self.sent;
        let under_way = parts - out - self.pending.len();
        Sending::Progress { out, parts, under_way, senders_wanted: self.senders_wanted() }
    }

    /// Returns the number of further senders for which the next round with parts waits.
    fn senders_wanted(&self) -> Option<u32> {
        let wanted = self.open.values().filter_map(|(round, _)| self.client.senders_wanted(round));
        wanted.filter(|many| *many > 0).min()
    }

    /// Records the reason, and withdraws all payloads that have not come out.
    async fn give_up(&mut self, report: &mut (dyn FnMut(Sending) + Send)) {
        self.sent.senders_wanted = self.senders_wanted();
        let failure = self.last_cause.take();
        self.sent.failure = match self.sent.senders_wanted {
            Some(_) => failure,
            None => failure.or_else(|| Some(reason(&self.client.status()))),
        };
        let client = &self.client;
        let withdraw = async |round: &Round| {
            let withdrawn = timeout(WITHDRAW_TIMEOUT, client.withdraw(round)).await;
            Some((round.round, withdrawn.ok()?.ok()?))
        };
        let withdrawn = join_all(self.open.values().map(|(round, _)| withdraw(round))).await;
        for (round, payloads) in withdrawn.into_iter().flatten() {
            self.open.remove(&round);
            self.sent.withdrawn += payloads as usize;
        }
        // The results that have come meanwhile.
        while let Some(Ok((round, submitted, ended))) = self.under_way.try_join_next() {
            self.note(&round, submitted, ended, report);
        }
        let parts: BTreeSet<&usize> = self.open.values().flat_map(|(_, parts)| parts).collect();
        self.sent.may_come = parts.into_iter().filter(|part| !self.is_out[**part]).count();
        if self.sent.is_complete() {
            self.sent.failure = None;
        }
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
        // The node may have them or not: the recipient ignores what comes twice.
        let (refused, may_be_there) = match timeout(SUBMIT_TIMEOUT, submit).await {
            Ok(Ok(_)) => (None, true),
            Ok(Err(error)) => (Some(text(&error)), error.may_have_submitted()),
            Err(_) => (Some("the first node does not answer".to_owned()), true),
        };
        if may_be_there {
            self.open.insert(round.round, (round.clone(), parts.iter().copied().collect()));
        }
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
        if ended.is_ok() {
            self.open.remove(&round.round);
        }
        let (outcomes, cause) = match ended {
            Ok(Ended::Delivered(outcomes)) => (outcomes, "the payload came out changed or not at all".into()),
            Ok(Ended::Failed { cause, culprit }) => {
                let of = culprit.map_or_else(String::new, |node| format!(" (node {node})"));
                let cause = match &*cause {
                    "too_few_senders" => "too few senders had payloads for it".to_owned(),
                    _ => cause,
                };
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
        _ => "each announced round is full, mixes, or has had payloads of this sender".to_owned(),
    }
}
