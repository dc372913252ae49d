//! Who subscribes to which columns, and whether gossip can reach them.
//!
//! A node only passes on columns that it subscribes to. A column therefore reaches a subscriber only over a path of
//! subscribers from the publisher: a network that is connected as a whole is not enough.

use rustc_hash::FxHashSet;
use samara_engine::NodeRng;

use super::graph::Graph;
use super::import::ImportError;

/// A subscriber that no path of subscribers links to the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The column.
    pub column: u16,
    /// The subscriber.
    pub node: u32,
}

/// Draws so many different columns for every node, sorted.
///
/// As long as there are enough draws, every column gets a subscriber: a column without one takes the place of one with the
/// most.
///
/// # Panics
/// If there are fewer columns.
pub fn draw_custody(nodes: u32, columns: u32, custody: u32, rng: &mut NodeRng) -> Vec<Vec<u16>> {
    assert!(custody <= columns, "a node cannot subscribe to more columns than there are");
    let mut deck: Vec<u16> = (0..columns).map(|column| column as u16).collect();
    let mut drawn = Vec::with_capacity(nodes as usize);
    let mut subscribers = vec![0u32; columns as usize];
    for _ in 0..nodes {
        for place in 0..custody as usize {
            let other = place + rng.index(deck.len() - place);
            deck.swap(place, other);
        }
        let mut own = deck[..custody as usize].to_vec();
        own.sort_unstable();
        own.iter().for_each(|column| subscribers[usize::from(*column)] += 1);
        drawn.push(own);
    }
    for column in 0..columns as usize {
        let most = (0..columns as usize).max_by_key(|other| (subscribers[*other], std::cmp::Reverse(*other)));
        let (0, Some(most)) = (subscribers[column], most) else { continue };
        if subscribers[most] < 2 {
            break;
        }
        let holders: Vec<usize> =
            (0..drawn.len()).filter(|node| drawn[*node].binary_search(&(most as u16)).is_ok()).collect();
        let node = *rng.choose(&holders).expect("the column has subscribers");
        replace(&mut drawn[node], most as u16, column as u16);
        subscribers[most] -= 1;
        subscribers[column] += 1;
    }
    drawn
}

fn replace(own: &mut [u16], old: u16, new: u16) {
    if let Ok(place) = own.binary_search(&old) {
        own[place] = new;
        own.sort_unstable();
    }
}

/// Reads CSV with the columns `node` and `column`. Nodes that are not in it subscribe to nothing.
///
/// # Errors
/// The first line that is not as it should be: a node or a column that there is not, or one that was there before.
pub fn read_custody(text: &str, nodes: u32, columns: u32) -> Result<Vec<Vec<u16>>, ImportError> {
    let error = |line: usize, found: &str, reason: String| ImportError::Line {
        line: line + 1,
        found: found.to_owned(),
        reason,
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    match lines.next() {
        Some((_, header)) if header.split(',').map(str::trim).eq(["node", "column"]) => {}
        other => {
            let (line, header) = other.unwrap_or((0, ""));
            return Err(error(line, header, "the columns node and column are expected".to_owned()));
        }
    }
    let mut custody = vec![Vec::new(); nodes as usize];
    let mut known = FxHashSet::default();
    for (index, line) in lines {
        let pair = line.split_once(',').and_then(|(node, column)| {
            Some((node.trim().parse::<u32>().ok()?, column.trim().parse::<u32>().ok()?))
        });
        let (node, column) = pair.ok_or_else(|| {
            error(index, line, "the numbers of a node and a column are expected".to_owned())
        })?;
        if node >= nodes {
            return Err(error(index, line, format!("there is no node {node}, nodes are 0 to {}", nodes - 1)));
        }
        if column >= columns {
            return Err(error(
                index,
                line,
                format!("there is no column {column}, columns are 0 to {}", columns - 1),
            ));
        }
        if !known.insert((node, column)) {
            return Err(error(index, line, "this line was there before".to_owned()));
        }
        custody[node as usize].push(column as u16);
    }
    custody.iter_mut().for_each(|own| own.sort_unstable());
    Ok(custody)
}

/// Subscriptions as bits, by node.
struct Subscribed {
    words: usize,
    bits: Vec<u64>,
}

impl Subscribed {
    fn new(custody: &[Vec<u16>], columns: u32) -> Self {
        let words = (columns as usize).div_ceil(64);
        let mut bits = vec![0; words * custody.len()];
        for (node, own) in custody.iter().enumerate() {
            for column in own {
                bits[node * words + usize::from(*column) / 64] |= 1 << (column % 64);
            }
        }
        Self { words, bits }
    }

    fn contains(&self, node: u32, column: u16) -> bool {
        self.bits[node as usize * self.words + usize::from(column) / 64] >> (column % 64) & 1 == 1
    }
}

/// The subscribers that columns cannot reach, in order of columns.
///
/// # Panics
/// If `custody` has not as many nodes as the graph.
pub fn check_custody(graph: &Graph, custody: &[Vec<u16>], columns: u32, publisher: u32) -> Vec<Unreached> {
    assert_eq!(custody.len(), graph.nodes() as usize, "every node has its columns");
    let subscribed = Subscribed::new(custody, columns);
    let mut unreached = Vec::new();
    for column in 0..columns {
        let column = column as u16;
        let reached = graph.reachable_from(publisher, |node| subscribed.contains(node, column));
        let missed = |node: &u32| !reached[*node as usize] && subscribed.contains(*node, column);
        unreached.extend((0..graph.nodes()).filter(missed).map(|node| Unreached { column, node }));
    }
    unreached
}

/// Draws columns that cannot reach a node again, from those that can; gives back how many, or the first that found none.
///
/// # Errors
/// A subscriber that no column can reach, or that is still not reached after many rounds.
///
/// # Panics
/// If `custody` has not as many nodes as the graph.
pub fn repair_custody(
    graph: &Graph,
    custody: &mut [Vec<u16>],
    columns: u32,
    publisher: u32,
    rng: &mut NodeRng,
) -> Result<usize, Unreached> {
    const ROUNDS: usize = 50;
    let mut repaired = 0;
    for _ in 0..ROUNDS {
        let unreached = check_custody(graph, custody, columns, publisher);
        let Some(first) = unreached.first().copied() else { return Ok(repaired) };
        let mut progress = false;
        for Unreached { column, node } in unreached.iter().copied() {
            let reached = |other: u16| {
                let passes =
                    |peer: u32| peer == publisher || custody[peer as usize].binary_search(&other).is_ok();
                let missed = |peer: u32| unreached.contains(&Unreached { column: other, node: peer });
                graph.links(node).iter().any(|link| passes(link.peer) && !missed(link.peer))
            };
            let own = &custody[node as usize];
            let candidates: Vec<u16> = (0..columns)
                .map(|other| other as u16)
                .filter(|other| own.binary_search(other).is_err() && reached(*other))
                .collect();
            if let Some(other) = rng.choose(&candidates).copied() {
                replace(&mut custody[node as usize], column, other);
                (repaired, progress) = (repaired + 1, true);
            }
        }
        if !progress {
            return Err(first);
        }
    }
    check_custody(graph, custody, columns, publisher).first().map_or(Ok(repaired), |first| Err(*first))
}
