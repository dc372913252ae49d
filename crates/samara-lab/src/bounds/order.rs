//! In which order columns are best sent, and how many nodes that makes wait how long.

/// For an order of columns that serves these nodes as early as a schedule could that knew what everybody keeps: how many
/// nodes have the last of their columns at the first position, the second, and so on.
///
/// An order that does not depend on who keeps what puts the last of `c` out of `C` columns at position
/// `c (C + 1) / (c + 1)` on average. What is built here is better than that: from the last position backwards, each gets
/// the column that the fewest nodes still wait for, which is the greedy rule for the least total of completion times.
pub fn finished_by_position(custody: &[&[u16]]) -> Vec<usize> {
    let columns = custody.iter().copied().flatten().max().map_or(0, |last| usize::from(*last) + 1);
    let mut keepers: Vec<Vec<u32>> = vec![Vec::new(); columns];
    for (node, own) in custody.iter().enumerate() {
        for column in *own {
            keepers[usize::from(*column)].push(node as u32);
        }
    }
    // Nodes that do not keep any column that has a later position.
    let mut open = vec![true; custody.len()];
    let mut waiting: Vec<usize> = keepers.iter().map(Vec::len).collect();
    let mut left: Vec<usize> = (0..columns).filter(|column| !keepers[*column].is_empty()).collect();
    // A column that nobody keeps need not be sent: it takes no position, to be on the safe side.
    let mut finished = vec![0; left.len()];
    while let Some(best) = (0..left.len()).min_by_key(|at| waiting[left[*at]]) {
        let position = left.len() - 1;
        let column = left.swap_remove(best);
        for node in &keepers[column] {
            if std::mem::replace(&mut open[*node as usize], false) {
                finished[position] += 1;
                for other in custody[*node as usize] {
                    waiting[usize::from(*other)] -= 1;
                }
            }
        }
    }
    finished
}

/// The mean position, counted from 1, of the last of `kept` out of `all` columns in an order that does not depend on who
/// keeps what: the expectation of the largest of a random subset.
pub fn expected_last_position(kept: u32, all: u32) -> f64 {
    f64::from(kept) * f64::from(all + 1) / f64::from(kept + 1)
}

/// The variance of that position.
pub fn variance_of_last_position(kept: u32, all: u32) -> f64 {
    let (c, n) = (f64::from(kept), f64::from(all));
    c * (n - c) * (n + 1.0) / ((c + 1.0).powi(2) * (c + 2.0))
}

/// How many nodes keep each of the columns that anybody keeps.
pub fn keepers(custody: &[&[u16]]) -> Vec<usize> {
    let columns = custody.iter().copied().flatten().max().map_or(0, |last| usize::from(*last) + 1);
    let mut counts = vec![0; columns];
    custody.iter().copied().flatten().for_each(|column| counts[usize::from(*column)] += 1);
    counts.retain(|count| *count > 0);
    counts
}

/// The probability that all of `kept` out of `all` columns are among the first `position` ones of an order that does not
/// depend on who keeps what.
pub fn done_by(kept: u32, all: u32, position: u32) -> f64 {
    (0..kept).map(|drawn| f64::from(position.saturating_sub(drawn)) / f64::from(all - drawn)).product()
}
