//! Tests of the choice of rounds.

use super::{Announced, Rules, TAKEN_MAX};
use crate::mix::proto::OpenRound;

const RULES: Rules = Rules { nodes: 8, team_min: 3, batch_max: 100, announced_max: 16 };

fn open(round: u64, team: &[u32]) -> OpenRound {
    OpenRound { round, team: team.to_vec(), room: 10, batch: 10, share: 10, senders_wanted: 0 }
}

/// Announces the rounds as every node of the team.
fn agree(announced: &mut Announced, rounds: &[u64], team: &[u32]) {
    for node in team {
        announced.replace(&RULES, *node, rounds.iter().map(|round| open(*round, team)).collect());
    }
}

fn take(announced: &mut Announced) -> Option<(u64, Vec<u32>)> {
    announced.take(&(0..8).collect()).map(|round| (round.round, round.team))
}

#[test]
fn a_round_is_used_once_all_nodes_of_its_team_announce_it() {
    let mut announced = Announced::default();
    for node in [2, 4] {
        announced.replace(&RULES, node, vec![open(7, &[2, 4, 5])]);
        assert_eq!(take(&mut announced), None, "node 5 does not announce it");
    }
    announced.replace(&RULES, 5, vec![OpenRound { room: 0, ..open(7, &[2, 4, 5]) }]);
    assert_eq!(announced.status().confirmed, 1);
    let shares = |of: &mut Announced, share| {
        of.replace(&RULES, 2, vec![OpenRound { share, ..open(7, &[2, 4, 5]) }]);
        of.rounds[&(7, 2)].share
    };
    assert_eq!(shares(&mut announced, 0), 0);
    assert_eq!(take(&mut announced), None, "a sender may submit nothing");
    assert_eq!(shares(&mut announced, u32::MAX), 10, "a share is at most the batch");
    assert_eq!(announced.take(&[2, 4].into()), None, "the sender shares no secret with node 5");
    assert_eq!(take(&mut announced), Some((7, vec![2, 4, 5])));
    assert_eq!(take(&mut announced), None, "each round is used once");
    // The end of a connection removes the announcements of its node, and does not make the round
    // new.
    announced.replace(&RULES, 4, Vec::new());
    assert_eq!(announced.status().confirmed, 0);
    agree(&mut announced, &[7], &[2, 4, 5]);
    assert_eq!(take(&mut announced), None);
}

#[test]
fn a_round_is_unused_while_its_nodes_disagree() {
    let plan = open(7, &[2, 4, 5]);
    for other in [
        open(7, &[2, 4, 6]),
        open(7, &[2, 5, 4]),
        OpenRound { batch: 9, ..plan.clone() },
        open(8, &[2, 4, 5]),
    ] {
        let mut announced = Announced::default();
        announced.replace(&RULES, 2, vec![plan.clone()]);
        announced.replace(&RULES, 4, vec![other.clone()]);
        announced.replace(&RULES, 5, vec![plan.clone()]);
        assert_eq!(take(&mut announced), None, "{other:?}");
        let disputed = if other.round == 7 { 3 } else { 0 };
        assert_eq!((announced.status().announced, announced.status().disputed), (3, disputed), "{other:?}");
    }
}

#[test]
fn ignores_and_counts_invalid_announcements() {
    let mut announced = Announced::default();
    let large: Vec<u32> = (0..33).collect();
    let rounds = vec![
        open(1, &[0]),
        open(2, &[0, 0, 0]),
        open(3, &large),
        open(4, &[1, 2, 3]),
        open(5, &[0, 1, 8]),
        open(6, &[]),
        OpenRound { batch: 0, ..open(7, &[0, 1, 2]) },
        OpenRound { batch: 101, ..open(8, &[0, 1, 2]) },
        open(9, &[0, 1, 2]),
        open(9, &[0, 1, 3]),
    ];
    announced.replace(&RULES, 0, rounds);
    let status = announced.status();
    assert_eq!((status.announced, status.confirmed), (1, 0));
    let expected = [
        ("batch", 2),
        ("not_in_team", 1),
        ("repeated_node", 1),
        ("repeated_round", 1),
        ("team_too_large", 1),
        ("team_too_small", 2),
        ("unknown_node", 1),
    ];
    assert_eq!(status.ignored, expected.into());
}

#[test]
fn a_node_keeps_a_bounded_number_of_announcements() {
    let mut announced = Announced::default();
    for turn in 0..10 {
        let rounds = (0..100).map(|round| open(turn * 100 + round, &[0, 1, 2])).collect();
        announced.replace(&RULES, 0, rounds);
        assert_eq!(announced.status().announced, RULES.announced_max);
    }
    assert_eq!(announced.status().ignored, [("too_many_rounds", 10 * 84)].into());
}

#[test]
fn a_node_cannot_replace_the_announcements_of_another() {
    let mut announced = Announced::default();
    agree(&mut announced, &[7], &[1, 2, 3]);
    announced.replace(&RULES, 0, vec![open(7, &[0, 2, 3])]);
    assert_eq!(take(&mut announced), Some((7, vec![1, 2, 3])));
}

#[test]
fn the_highest_round_numbers_are_usable() {
    let mut announced = Announced::default();
    // Colluding nodes can agree on anything among themselves. Other rounds remain usable.
    agree(&mut announced, &[5, u64::MAX - 1, u64::MAX], &[0, 1, 2]);
    for round in [5, u64::MAX - 1, u64::MAX] {
        assert_eq!(take(&mut announced), Some((round, vec![0, 1, 2])));
    }
    agree(&mut announced, &[5, 6], &[3, 4, 5]);
    assert_eq!(take(&mut announced), Some((5, vec![3, 4, 5])));
    assert_eq!(take(&mut announced), Some((6, vec![3, 4, 5])));
    assert_eq!(take(&mut announced), None);
}

#[test]
fn memory_of_rounds_is_bounded_and_no_round_is_used_twice() {
    let mut announced = Announced::default();
    let invented = TAKEN_MAX as u64 - 2;
    for round in 0..invented {
        agree(&mut announced, &[u64::MAX - round], &[0, 1, 2]);
        assert!(take(&mut announced).is_some());
    }
    agree(&mut announced, &[], &[0, 1, 2]);
    for round in 0..100 {
        agree(&mut announced, &[round, round + 1], &[3, 4, 5]);
        assert_eq!(take(&mut announced), Some((round, vec![3, 4, 5])));
        assert!(announced.taken.len() <= TAKEN_MAX);
    }
    agree(&mut announced, &(85..=99).collect::<Vec<_>>(), &[3, 4, 5]);
    assert_eq!(take(&mut announced), None);
}
