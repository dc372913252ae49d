//! Who subscribes to what, and that gossip can reach them.

use proptest::prelude::*;
use samara_engine::{NodeRng, Purpose};
use samara_lab::topology::{
    Graph, ImportError, Unreached, check_custody, draw_custody, random_regular, read_custody, repair_custody,
    ring,
};

fn rng(seed: u64) -> NodeRng {
    NodeRng::new(seed, 0, Purpose::Topology)
}

fn subscribers(custody: &[Vec<u16>], columns: u32) -> Vec<usize> {
    (0..columns).map(|column| custody.iter().filter(|own| own.contains(&(column as u16))).count()).collect()
}

#[test]
fn every_column_gets_a_subscriber_where_there_are_enough_draws() {
    // Ten draws for ten columns leave some without, unless they are moved.
    for seed in 0..50 {
        let custody = draw_custody(10, 10, 1, &mut rng(seed));
        assert_eq!(subscribers(&custody, 10), [1; 10]);
    }
    let few = draw_custody(3, 10, 1, &mut rng(1));
    assert_eq!(subscribers(&few, 10).iter().sum::<usize>(), 3);
}

#[test]
fn columns_are_drawn_evenly() {
    let counts = subscribers(&draw_custody(8000, 128, 16, &mut rng(1)), 128);
    // 1,000 each on average, deviation 30.
    assert!(counts.iter().all(|count| (850..=1150).contains(count)), "{counts:?}");
}

#[test]
fn a_path_must_lead_over_subscribers() {
    let line = Graph::new(4, vec![(0, 1), (1, 2), (2, 3)]).unwrap();
    let custody = vec![vec![0, 1], vec![0], vec![1], vec![0]];
    let unreached = check_custody(&line, &custody, 2, 0);
    assert_eq!(unreached, [Unreached { column: 0, node: 3 }, Unreached { column: 1, node: 2 }]);
    // The publisher need not subscribe: it sends by fanout.
    let custody = vec![vec![], vec![0], vec![0], vec![0]];
    assert_eq!(check_custody(&line, &custody, 1, 0), []);
}

#[test]
fn what_cannot_be_reached_is_drawn_again() {
    let graph = random_regular(300, 20, &mut rng(5)).unwrap();
    let mut custody = draw_custody(300, 128, 16, &mut rng(6));
    custody[0] = (0..128).collect();
    let before = check_custody(&graph, &custody, 128, 0).len();
    assert!(before > 50, "{before} of 4,800 subscriptions have a good chance to be cut off");
    let repaired = repair_custody(&graph, &mut custody, 128, 0, &mut rng(7)).unwrap();
    assert!(repaired >= before);
    assert_eq!(check_custody(&graph, &custody, 128, 0), []);
    assert!(custody[1..].iter().all(|own| own.len() == 16 && own.windows(2).all(|pair| pair[0] < pair[1])));
}

#[test]
fn what_no_column_can_reach_is_an_error() {
    // Everybody already has all columns that could come from either side.
    let ring = ring(6);
    let mut custody = vec![vec![0, 1], vec![0], vec![0], vec![1], vec![0], vec![0]];
    let result = repair_custody(&ring, &mut custody, 2, 0, &mut rng(1));
    assert_eq!(result, Ok(1), "node 3 takes column 0");
    let mut custody = vec![vec![], vec![0], vec![2], vec![2], vec![2], vec![1]];
    let apart = Graph::new(6, vec![(0, 1), (2, 3), (3, 4), (4, 5)]).unwrap();
    let result = repair_custody(&apart, &mut custody, 3, 0, &mut rng(1));
    assert_eq!(result, Err(Unreached { column: 1, node: 5 }));
}

#[test]
fn custody_files_are_read() {
    let custody = read_custody("node,column\n1,3\n1,0\n0,2\n", 3, 4).unwrap();
    assert_eq!(custody, [vec![2], vec![0, 3], vec![]]);
    let reason = |text: &str| match read_custody(text, 3, 4).unwrap_err() {
        ImportError::Line { line, reason, .. } => (line, reason),
        other => panic!("{other}"),
    };
    assert_eq!(reason("node\n1\n"), (1, "the columns node and column are expected".to_owned()));
    assert_eq!(reason("node,column\n3,0\n"), (2, "there is no node 3, nodes are 0 to 2".to_owned()));
    assert_eq!(reason("node,column\n0,4\n"), (2, "there is no column 4, columns are 0 to 3".to_owned()));
    assert_eq!(reason("node,column\n0,1\n0,1\n"), (3, "this line was there before".to_owned()));
    assert_eq!(
        reason("node,column\nx,1\n"),
        (2, "the numbers of a node and a column are expected".to_owned())
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn draws_are_distinct_and_complete(nodes in 1u32..60, columns in 1u32..200, part in 0.0..=1.0, seed: u64) {
        let custody = ((f64::from(columns) * part) as u32).max(1);
        let drawn = draw_custody(nodes, columns, custody, &mut rng(seed));
        for own in &drawn {
            prop_assert_eq!(own.len(), custody as usize);
            prop_assert!(own.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(own.iter().all(|column| u32::from(*column) < columns));
        }
        let covered = subscribers(&drawn, columns).iter().filter(|count| **count > 0).count();
        prop_assert_eq!(covered, (columns as usize).min((nodes * custody) as usize));
    }
}
