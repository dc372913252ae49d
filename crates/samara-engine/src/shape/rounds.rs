//! The rounds of the post, played out: in each round a member sends one unit and receives one.

use std::collections::VecDeque;

use super::Shape;

/// A unit that crosses a link in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The unit, from 1.
    pub unit: u64,
    /// The rank of the member that sends it.
    pub from: u16,
    /// The rank of the member that receives it.
    pub to: u16,
}

/// What crosses the links in each round until everybody has `units` units of member 0: the transfers of a round by rank of the
/// sender. Members send in the order in which they received; one whose receiver is taken in a round waits for the next.
pub fn rounds(shape: Shape, units: u64, members: u16) -> Vec<Vec<Transfer>> {
    let count = usize::from(members);
    let mut queues: Vec<VecDeque<Transfer>> = vec![VecDeque::new(); count];
    let enqueue = |queues: &mut Vec<VecDeque<Transfer>>, me: u16, unit: u64| {
        let children = shape.children(count, 0, me, unit);
        queues[usize::from(me)].extend(children.into_iter().map(|to| Transfer { unit, from: me, to }));
    };
    if members > 0 {
        (1..=units).for_each(|unit| enqueue(&mut queues, 0, unit));
    }
    let mut rounds = Vec::new();
    loop {
        let mut is_taken = vec![false; count];
        let mut transfers = Vec::new();
        for queue in &mut queues {
            let Some(transfer) = queue.front().copied() else { continue };
            if !std::mem::replace(&mut is_taken[usize::from(transfer.to)], true) {
                queue.pop_front();
                transfers.push(transfer);
            }
        }
        if transfers.is_empty() {
            return rounds;
        }
        transfers.iter().for_each(|transfer| enqueue(&mut queues, transfer.to, transfer.unit));
        rounds.push(transfers);
    }
}
