//! At which position of the publication the last of a node's columns leaves.

use samara_engine::{NodeRng, Purpose};

/// Random orders that the spread of the mean position is estimated from: its standard deviation is then known to a
/// tenth or better.
const ORDERS: u32 = 64;

/// The mean position, counted from 1, of the last of `kept` out of `all` columns in an order that does not depend on who
/// keeps what: the expectation of the largest of a random subset.
pub fn expected_last_position(kept: u32, all: u32) -> f64 {
    f64::from(kept) * f64::from(all + 1) / f64::from(kept + 1)
}

/// The standard deviation, over random orders, of the mean position over these nodes. Estimated from random orders, since nodes that keep
/// the same columns finish together, which no formula of their numbers alone can know.
pub fn deviation_of_mean_position(custody: &[&[u32]], columns: &[u32]) -> f64 {
    let mut rng = NodeRng::new(0, 0, Purpose::Engine);
    let mut order: Vec<u32> = (1..=columns.len() as u32).collect();
    let last = columns.iter().copied().max().map_or(0, |last| last as usize + 1);
    let mut position = vec![0; last];
    let means: Vec<f64> = (0..ORDERS)
        .map(|_| {
            rng.shuffle(&mut order);
            columns.iter().zip(&order).for_each(|(column, at)| position[*column as usize] = *at);
            let lasts = custody.iter().map(|own| own.iter().map(|column| position[*column as usize]).max());
            lasts.map(|last| f64::from(last.unwrap_or(0))).sum::<f64>() / custody.len() as f64
        })
        .collect();
    let mean = means.iter().sum::<f64>() / f64::from(ORDERS);
    (means.iter().map(|found| (found - mean).powi(2)).sum::<f64>() / f64::from(ORDERS - 1)).sqrt()
}

/// The least mean position of the last column that any order can reach, even one that is made for these nodes.
///
/// The last of `c` different positions is at least `(c - 1) / 2` behind their mean. The sum of all these means is a weighted sum of the
/// positions, a column's weight being the sum of `1 / c` over its keepers, and is least if heavy columns go first.
pub fn least_mean_position(custody: &[&[u32]], columns: &[u32]) -> f64 {
    let last = columns.iter().copied().max().map_or(0, |last| last as usize + 1);
    let mut weights = vec![0.0; last];
    let mut behind = 0.0;
    for own in custody {
        own.iter().for_each(|column| weights[*column as usize] += 1.0 / own.len() as f64);
        behind += (own.len() as f64 - 1.0) / 2.0;
    }
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    let means: f64 = (1..).map(f64::from).zip(&weights).map(|(position, weight)| position * weight).sum();
    (means + behind) / custody.len() as f64
}

/// The columns that anybody keeps, sorted.
pub fn kept_columns(custody: &[&[u32]]) -> Vec<u32> {
    let mut columns: Vec<u32> = custody.iter().copied().flatten().copied().collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// How many nodes keep each of these columns.
pub fn keepers(custody: &[&[u32]], columns: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; columns.last().map_or(0, |last| *last as usize + 1)];
    custody.iter().copied().flatten().for_each(|column| counts[*column as usize] += 1);
    columns.iter().map(|column| counts[*column as usize]).collect()
}

/// The probability that all of `kept` out of `all` columns are among the first `position` ones of an order that does not
/// depend on who keeps what.
pub fn done_by(kept: u32, all: u32, position: u32) -> f64 {
    (0..kept).map(|drawn| f64::from(position.saturating_sub(drawn)) / f64::from(all - drawn)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_positions(custody: &[&[u32]], order: &[u32]) -> f64 {
        let position = |column: &u32| order.iter().position(|other| other == column).unwrap() as f64 + 1.0;
        let last = |own: &&[u32]| own.iter().map(position).fold(0.0, f64::max);
        custody.iter().map(last).sum::<f64>() / custody.len() as f64
    }

    /// Calls with every order of the columns.
    fn permute(left: &mut Vec<u32>, order: &mut Vec<u32>, visit: &mut impl FnMut(&[u32])) {
        if left.is_empty() {
            visit(order);
        }
        for at in 0..left.len() {
            order.push(left.remove(at));
            permute(left, order, visit);
            left.insert(at, order.pop().unwrap());
        }
    }

    #[test]
    fn over_all_orders_the_least_is_never_missed_and_the_mean_is_right() {
        let cases: [&[&[u32]]; 4] = [
            &[&[0, 1], &[2, 3], &[4, 5]],
            &[&[0], &[1, 2], &[0, 3, 4, 5]],
            &[&[0, 1, 2], &[0, 1, 2], &[3, 4, 5]],
            &[&[5], &[5], &[5, 0, 1], &[2, 3, 4]],
        ];
        for custody in cases {
            let columns = kept_columns(custody);
            let (mut least, mut total, mut orders) = (f64::INFINITY, 0.0, 0);
            permute(&mut columns.clone(), &mut Vec::new(), &mut |order| {
                let mean = last_positions(custody, order);
                least = least.min(mean);
                total += mean;
                orders += 1;
            });
            let expected = custody
                .iter()
                .map(|own| expected_last_position(own.len() as u32, columns.len() as u32))
                .sum::<f64>();
            assert!((total / f64::from(orders) - expected / custody.len() as f64).abs() < 1e-9);
            assert!(least_mean_position(custody, &columns) <= least + 1e-9, "{custody:?}: {least}");
        }
    }

    #[test]
    fn independent_nodes_have_the_known_deviation_and_equal_ones_do_not_average_out() {
        let mut rng = NodeRng::new(1, 0, Purpose::Topology);
        let columns: Vec<u32> = (0..128).collect();
        let drawn: Vec<Vec<u32>> = (0..400)
            .map(|_| {
                let mut all = columns.clone();
                rng.shuffle(&mut all);
                all.truncate(16);
                all
            })
            .collect();
        let custody: Vec<&[u32]> = drawn.iter().map(Vec::as_slice).collect();
        // One node: c (C - c) (C + 1) / ((c + 1)^2 (c + 2)).
        let one = (16.0 * 112.0 * 129.0 / (17.0f64.powi(2) * 18.0)).sqrt();
        let found = deviation_of_mean_position(&custody, &columns);
        assert!((0.6..1.5).contains(&(found / (one / 20.0))), "{found}");
        let same = vec![custody[0]; 400];
        let all: Vec<&[u32]> = same.into_iter().chain([columns.as_slice()]).collect();
        assert!(deviation_of_mean_position(&all, &columns) > 0.6 * one);
    }
}
