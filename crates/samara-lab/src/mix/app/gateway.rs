//! Who has payloads: fills every batch, and looks at what comes out.

use std::collections::VecDeque;
use std::sync::Arc;

use samara_mix::{Batch, Config, Group, Outcome, Plan, Secret, Sender, SenderId};

/// The only sender.
const SENDER: SenderId = SenderId([9; 32]);
/// Bytes of the round and the slot at the beginning of each payload.
const ROUND_BYTES: usize = 8;
const SLOT_BYTES: usize = 4;

/// What the sender shares with a node.
fn shared(node: u32) -> Secret {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&node.to_be_bytes());
    Secret::new(bytes)
}

/// A sender that always has payloads, beside the first node of a team.
#[derive(Debug)]
pub(super) struct Gateway {
    sender: Sender,
    group: Group,
    /// Batches that are in real time at the same time at most.
    running_max: usize,
    /// Rounds that take a batch, in their order.
    open: VecDeque<Arc<Plan>>,
    running: Vec<u64>,
}

impl Gateway {
    pub(super) fn new(config: &Config) -> Self {
        let mut sender = Sender::new(config.group, SENDER);
        (0..config.pool.len() as u32).for_each(|node| sender.register(node, shared(node)));
        Self {
            sender,
            group: config.group,
            running_max: config.realtime_max,
            open: VecDeque::new(),
            running: Vec::new(),
        }
    }

    /// What a node has to know.
    pub(super) fn registration(node: u32) -> (SenderId, Secret) {
        (SENDER, shared(node))
    }

    /// A round takes a batch.
    pub(super) fn opened(&mut self, plan: Arc<Plan>) {
        self.open.push_back(plan);
    }

    /// A round is over.
    pub(super) fn ended(&mut self, round: u64) {
        self.open.retain(|plan| plan.round != round);
        self.running.retain(|running| *running != round);
    }

    /// The next batch that is handed in, if there is room for one more.
    pub(super) fn next(&mut self) -> Option<(u64, Batch)> {
        if self.running.len() >= self.running_max {
            return None;
        }
        let plan = self.open.pop_front()?;
        self.running.push(plan.round);
        Some((plan.round, self.batch(&plan)))
    }

    fn batch(&self, plan: &Plan) -> Batch {
        let seal = |slot: u32| {
            let mut content = vec![0; self.group.content_bytes()];
            content[..ROUND_BYTES].copy_from_slice(&plan.round.to_be_bytes());
            content[ROUND_BYTES..][..SLOT_BYTES].copy_from_slice(&slot.to_be_bytes());
            // Real salts are random, so that nobody can tell which one belongs to whom; here it only matters that no two are the same.
            let mut salt = [0; 32];
            salt[..ROUND_BYTES + SLOT_BYTES].copy_from_slice(&content[..ROUND_BYTES + SLOT_BYTES]);
            match self.sender.seal(plan.round, &plan.team, salt, &content) {
                Ok(sealed) => sealed,
                Err(error) => unreachable!("the sender knows all nodes: {error}"),
            }
        };
        let sealed: Vec<_> = (0..plan.batch).map(seal).collect();
        match Batch::new(&sealed) {
            Ok(batch) => batch,
            Err(error) => unreachable!("payloads of one round belong together: {error}"),
        }
    }
}

/// What came out of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Payloads that went in and did not come out, or came out twice or changed.
    pub wrong: u32,
    /// Stands for the order: the same at all nodes, if they have the same.
    pub order: u64,
    /// Whether it is that in which they went in.
    pub is_unmixed: bool,
}

impl Checked {
    /// Looks at what came out.
    pub(super) fn of(round: u64, outcomes: &[Outcome]) -> Self {
        let mut seen = vec![false; outcomes.len()];
        // FNV-1a, over the places from which payloads came.
        let mut order = 0xcbf2_9ce4_8422_2325_u64;
        let mut is_unmixed = true;
        for (place, outcome) in outcomes.iter().enumerate() {
            let Some(slot) = slot_of(round, outcome).filter(|slot| *slot < seen.len()) else { continue };
            seen[slot] = true;
            is_unmixed &= slot == place;
            order = (order ^ slot as u64).wrapping_mul(0x0100_0000_01b3);
        }
        Self { wrong: seen.iter().filter(|seen| !**seen).count() as u32, order, is_unmixed }
    }
}

/// Where a payload was when it went in, if it is one of the round.
fn slot_of(round: u64, outcome: &Outcome) -> Option<usize> {
    let Outcome::Content(content) = outcome else { return None };
    let (number, rest) = content.split_first_chunk::<ROUND_BYTES>()?;
    let (slot, rest) = rest.split_first_chunk::<SLOT_BYTES>()?;
    let is_whole = u64::from_be_bytes(*number) == round && rest.iter().all(|byte| *byte == 0);
    is_whole.then(|| u32::from_be_bytes(*slot) as usize)
}
