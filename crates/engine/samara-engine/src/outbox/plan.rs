//! The planned order of the copies of one batch.

use super::message::position;
use super::{MessageOrder, PeerOrder, Schedule, Weight};
use crate::{NodeRng, PeerId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The message's place in the batch.
    pub(super) index: u32,
    pub(super) peer: PeerId,
    /// The peer's place among all peers of a balanced batch, otherwise 0.
    pub(super) column: u32,
}

/// All copies of a batch, in the order in which they leave if nothing delays them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The seed of shuffled rounds.
    pub(super) seed: u64,
    /// The number of peers of a balanced batch, otherwise 0.
    pub(super) columns: usize,
}

impl Plan {
    /// Plans copies for the peers of each message.
    pub(super) fn new(
        mut targets: Vec<Vec<PeerId>>,
        schedule: &Schedule,
        weight_of: impl Fn(PeerId, Weight) -> f64,
        rng: &mut NodeRng,
    ) -> Self {
        let (messages, peers) = match *schedule {
            Schedule::Sequential | Schedule::Staggered { .. } => return Self::sequential(&targets),
            Schedule::Interleaved { messages, peers } | Schedule::Feedback { messages, peers, .. } => {
                (messages, peers)
            }
            // This order decides only which copies a full queue keeps.
            Schedule::Custom(_) => (MessageOrder::AsGiven, PeerOrder::AsGiven),
        };
        let seed = match messages {
            MessageOrder::AsGiven => 0,
            MessageOrder::Shuffled => rng.next_u64(),
        };
        match peers {
            PeerOrder::AsGiven => {}
            PeerOrder::Random => targets.iter_mut().for_each(|peers| rng.shuffle(peers)),
            PeerOrder::Weighted(weight) => {
                targets.iter_mut().for_each(|peers| by_weight(peers, |peer| weight_of(peer, weight), rng));
            }
            PeerOrder::Balanced => {
                let (steps, columns) = balanced(&targets, messages, seed);
                return Self { steps, seed, columns };
            }
        }
        let mut steps = Vec::with_capacity(targets.iter().map(Vec::len).sum());
        for (round, indices) in rounds(&targets, messages, seed) {
            steps.extend(indices.into_iter().map(|index| Step {
                index,
                peer: targets[index as usize][round as usize],
                column: 0,
            }));
        }
        Self { steps, seed, columns: 0 }
    }

    fn sequential(targets: &[Vec<PeerId>]) -> Self {
        let of_message = |(index, peers): (usize, &Vec<PeerId>)| -> Vec<Step> {
            peers.iter().map(|peer| Step { index: index as u32, peer: *peer, column: 0 }).collect()
        };
        Self { steps: targets.iter().enumerate().flat_map(of_message).collect(), seed: 0, columns: 0 }
    }
}

/// Returns the messages that have a copy in each round, in the order of the round.
fn rounds(
    targets: &[Vec<PeerId>],
    order: MessageOrder,
    seed: u64,
) -> impl Iterator<Item = (u32, Vec<u32>)> + '_ {
    let last = targets.iter().map(Vec::len).max().unwrap_or(0) as u32;
    (0..last).map(move |round| {
        let mut indices: Vec<u32> = (0..targets.len() as u32)
            .filter(|index| targets[*index as usize].len() > round as usize)
            .collect();
        indices.sort_by_key(|index| (position(order, seed, round, *index), *index));
        (round, indices)
    })
}

/// Orders peers at random: each place goes to one of the remaining peers with a probability
/// proportional to its weight. Sorts them by an exponential variate with the weight as its rate,
/// which is the order of the keys `u^(1/w)` of Efraimidis and Spirakis, "Weighted random sampling
/// with a reservoir", Information Processing Letters 97 (2006).
fn by_weight(peers: &mut [PeerId], weight_of: impl Fn(PeerId) -> f64, rng: &mut NodeRng) {
    let mut keyed: Vec<(f64, PeerId)> =
        peers.iter().map(|peer| (rng.exponential(1.0) / weight_of(*peer), *peer)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (place, (_, peer)) in peers.iter_mut().zip(keyed) {
        *place = peer;
    }
}

// ---- plans that give all peers their copies at the same pace ----
//
// Taking the least loaded peer each time is not enough: towards the end, the least loaded peer may
// already have all the messages that are left in the round. Peers that are owed exactly the same
// messages are therefore planned as one *class*:
//
// 1. The rounds are processed in the order of messages. Each copy goes to the class with the fewest
//    copies per peer so far among those that can still take one; among equals, to the one after the
//    class served last.
// 2. The copies of a class of `c` peers are cut into blocks of `c`. In a graph of messages and
//    blocks with an edge for each copy, every vertex has degree `c`, so that `c` colours suffice
//    for its edges (König 1916). A colour is a peer: each peer gets exactly one copy of each
//    message and exactly one copy in each block.
//
// So at every prefix of the plan, two peers that are owed the same messages differ by at most one
// copy.

/// Peers that are owed the same messages.
#[derive(Debug)]
struct Class {
    columns: Vec<u32>,
    messages: Vec<u32>,
    /// The place in `messages` of each copy's message, in the order of the plan.
    served: Vec<u32>,
}

/// Returns the plan and the number of different peers.
fn balanced(targets: &[Vec<PeerId>], order: MessageOrder, seed: u64) -> (Vec<Step>, usize) {
    let (peers, mut classes) = classes_of(targets);
    // For each message: its classes, its place in each class, and the number of copies that the
    // class still takes.
    let mut open: Vec<Vec<(u32, u32, u32)>> = vec![Vec::new(); targets.len()];
    for (id, class) in classes.iter().enumerate() {
        for (place, message) in class.messages.iter().enumerate() {
            open[*message as usize].push((id as u32, place as u32, class.columns.len() as u32));
        }
    }
    let mut sequence: Vec<(u32, u32)> = Vec::with_capacity(targets.iter().map(Vec::len).sum());
    let mut last = 0;
    let count = classes.len() as u32;
    for (_, indices) in rounds(targets, order, seed) {
        for message in indices {
            let open = &mut open[message as usize];
            let choice = (0..open.len()).min_by_key(|i| {
                let class = &classes[open[*i].0 as usize];
                (class.served.len() / class.columns.len(), (open[*i].0 + count - last) % count)
            });
            let Some(choice) = choice else { continue };
            let (id, place, left) = &mut open[choice];
            classes[*id as usize].served.push(*place);
            sequence.push((message, *id));
            last = (*id + 1) % count;
            *left -= 1;
            if *left == 0 {
                open.swap_remove(choice);
            }
        }
    }
    let mut colours: Vec<_> = classes.iter().map(|class| colour(class).into_iter()).collect();
    let steps = sequence.into_iter().filter_map(|(index, id)| {
        let column = classes[id as usize].columns[colours[id as usize].next()? as usize];
        Some(Step { index, peer: peers[column as usize], column })
    });
    (steps.collect(), peers.len())
}

/// Returns the peers in the order of their first message, and their classes.
fn classes_of(targets: &[Vec<PeerId>]) -> (Vec<PeerId>, Vec<Class>) {
    let mut owed: Vec<(PeerId, u32, u32)> = Vec::new();
    for (message, peers) in targets.iter().enumerate() {
        owed.extend(peers.iter().enumerate().map(|(place, peer)| (*peer, message as u32, place as u32)));
    }
    owed.sort_unstable();
    let mut by_peer: Vec<((u32, u32), PeerId, Vec<u32>)> = owed
        .chunk_by(|a, b| a.0 == b.0)
        .map(|run| ((run[0].1, run[0].2), run[0].0, run.iter().map(|(_, message, _)| *message).collect()))
        .collect();
    by_peer.sort_unstable();
    let peers: Vec<PeerId> = by_peer.iter().map(|(_, peer, _)| *peer).collect();
    let mut columns: Vec<u32> = (0..peers.len() as u32).collect();
    columns.sort_by(|a, b| by_peer[*a as usize].2.cmp(&by_peer[*b as usize].2));
    let mut classes: Vec<Class> = columns
        .chunk_by(|a, b| by_peer[*a as usize].2 == by_peer[*b as usize].2)
        .map(|run| Class {
            columns: run.to_vec(),
            messages: by_peer[run[0] as usize].2.clone(),
            served: Vec::new(),
        })
        .collect();
    classes.sort_by_key(|class| class.columns[0]);
    (peers, classes)
}

/// Returns a colour for each copy of a class, in order. No message and no block has a colour twice.
///
/// Colours edge by edge. If the message and the block have no free colour in common, exchanges two
/// colours along the path that alternates between them (the proof of König's theorem).
fn colour(class: &Class) -> Vec<u32> {
    let size = class.columns.len();
    if size == 1 {
        return vec![0; class.served.len()];
    }
    let mut table = Table::new(size, class.messages.len());
    let mut shift = 0;
    for (edge, message) in class.served.iter().enumerate() {
        let (message, block) = (*message as usize, edge / size);
        // Rotating with the place in the block is right most of the time; `shift` corrects it after
        // a miss.
        let wanted = (edge + shift) % size;
        let found = (0..size)
            .map(|i| (wanted + i) % size)
            .find(|colour| table.is_free(message, *colour) && table.is_free(table.block(block), *colour));
        match found {
            Some(colour) => {
                shift = (colour + size - edge % size) % size;
                table.set(edge, message, block, colour);
            }
            None => table.exchange(edge, message, block, class),
        }
    }
    table.colours
}

const FREE: u32 = u32::MAX;

/// The edge of each colour at each vertex (messages first, then blocks).
struct Table {
    size: usize,
    messages: usize,
    at: Vec<u32>,
    colours: Vec<u32>,
}

impl Table {
    fn new(size: usize, messages: usize) -> Self {
        Self { size, messages, at: vec![FREE; 2 * size * messages], colours: vec![FREE; size * messages] }
    }

    fn block(&self, block: usize) -> usize {
        self.messages + block
    }

    fn is_free(&self, vertex: usize, colour: usize) -> bool {
        self.at[vertex * self.size + colour] == FREE
    }

    fn set(&mut self, edge: usize, message: usize, block: usize, colour: usize) {
        let block = self.block(block);
        self.at[message * self.size + colour] = edge as u32;
        self.at[block * self.size + colour] = edge as u32;
        self.colours[edge] = colour as u32;
    }

    fn free_at(&self, vertex: usize) -> usize {
        (0..self.size).find(|colour| self.is_free(vertex, *colour)).unwrap_or(0)
    }

    /// Colours an edge whose ends have no free colour in common: frees at the block the colour that
    /// is free at the message. The path cannot return to the message, since it would arrive there
    /// by that colour.
    fn exchange(&mut self, edge: usize, message: usize, block: usize, class: &Class) {
        let (mine, theirs) = (self.free_at(message), self.free_at(self.block(block)));
        let mut path = Vec::new();
        let (mut vertex, mut colour) = (self.block(block), mine);
        while !self.is_free(vertex, colour) {
            let next = self.at[vertex * self.size + colour] as usize;
            path.push(next);
            let (left, right) = (class.served[next] as usize, self.block(next / self.size));
            vertex = if vertex == right { left } else { right };
            colour = if colour == mine { theirs } else { mine };
        }
        for edge in &path {
            let colour = self.colours[*edge] as usize;
            for vertex in [class.served[*edge] as usize, self.block(*edge / self.size)] {
                self.at[vertex * self.size + colour] = FREE;
            }
        }
        for edge in path {
            let colour = if self.colours[edge] as usize == mine { theirs } else { mine };
            self.set(edge, class.served[edge] as usize, edge / self.size, colour);
        }
        self.set(edge, message, block, mine);
    }
}
