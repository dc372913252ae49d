//! The rounds that nodes announce, and which of them a sender uses.
//!
//! A sender seals for a team, and the payload is as anonymous as the team's honest nodes make it. So no node is believed about a team
//! alone: a round is used once every node of its team announces it with the same team and batch.

use std::collections::{BTreeMap, BTreeSet};

use samara_mix::Config;

use super::{ClientOptions, ClientStatus, Round};
use crate::relay::proto::OpenRound;

/// Rounds that were handed out and are remembered at most.
const TAKEN_MAX: usize = 4096;
/// Bytes of the longest announcement: 32 nodes of five bytes, three numbers, tags.
const ROUND_BYTES_MAX: usize = 256;

/// What a sender accepts of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Nodes of the pool.
    nodes: u32,
    team_min: usize,
    batch_max: u32,
    /// Announcements of a node at a time.
    announced_max: usize,
}

impl Rules {
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self {
            nodes: options.nodes.len() as u32,
            team_min: options.team_min,
            batch_max: options.batch_max,
            announced_max: options.announced_max,
        }
    }

    /// Bytes of a message with all announcements of a node.
    pub(super) const fn message_bytes_max(&self) -> usize {
        self.announced_max.saturating_mul(ROUND_BYTES_MAX)
    }

    /// Checks what an announcement says about itself.
    fn check(&self, node: u32, round: &OpenRound) -> Result<(), &'static str> {
        let team = &round.team;
        let rules = [
            ("team_too_small", team.len() >= self.team_min),
            ("team_too_large", team.len() <= Config::TEAM_MAX),
            ("not_in_team", team.contains(&node)),
            ("unknown_node", team.iter().all(|member| *member < self.nodes)),
            ("repeated_node", (1..team.len()).all(|seat| !team[..seat].contains(&team[seat]))),
            ("batch", (1..=self.batch_max).contains(&round.batch)),
        ];
        rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(rule))
    }
}

/// What all nodes announce at present, and what became of it.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// By round and node, so that no node replaces what another one says.
    rounds: BTreeMap<(u64, u32), Round>,
    /// Rounds that were handed out, each with its team: a number alone could be used up by nodes that are not of the team.
    taken: BTreeSet<(u64, Vec<u32>)>,
    /// Rounds with lower numbers may have been handed out and forgotten.
    floor: u64,
    ignored: BTreeMap<&'static str, u64>,
}

impl Announced {
    /// Replaces what a node announces. Announcements that break a rule are ignored, and counted.
    pub(super) fn replace(&mut self, rules: &Rules, node: u32, rounds: Vec<OpenRound>) {
        self.rounds.retain(|(_, of), _| *of != node);
        for (index, round) in rounds.into_iter().enumerate() {
            let key = (round.round, node);
            let checked = if index >= rules.announced_max {
                Err("too_many_rounds")
            } else if self.rounds.contains_key(&key) {
                Err("repeated_round")
            } else {
                rules.check(node, &round)
            };
            match checked {
                Ok(()) => {
                    let OpenRound { round, team, room, batch } = round;
                    self.rounds.insert(key, Round { round, team, room: room.min(batch), batch });
                }
                Err(rule) => self.ignore(node, rule),
            }
        }
    }

    /// Counts something of a node that is ignored.
    pub(super) fn ignore(&mut self, node: u32, rule: &'static str) {
        let count = self.ignored.entry(rule).or_default();
        *count += 1;
        // A node says the same again whenever anything changes.
        match *count {
            1 => tracing::warn!(node, rule, "an announcement of a round is ignored"),
            _ => tracing::debug!(node, rule, "an announcement of a round is ignored"),
        }
    }

    /// What the nodes of a round's team say of it, this announcement included; `None` of those that say nothing.
    fn votes<'a>(&'a self, round: &'a Round) -> impl Iterator<Item = Option<bool>> + 'a {
        let same = |other: &Round| other.team == round.team && other.batch == round.batch;
        round.team.iter().map(move |node| self.rounds.get(&(round.round, *node)).map(same))
    }

    /// Rounds on which all nodes of the team agree, as the first node announces them: that one knows how many payloads it takes.
    fn confirmed(&self) -> impl Iterator<Item = &Round> {
        let of_first = self.rounds.iter().filter(|((_, node), round)| round.team.first() == Some(node));
        of_first.map(|(_, round)| round).filter(|round| self.votes(round).all(|vote| vote == Some(true)))
    }

    /// Hands out the first confirmed round with room, each once, if secrets are shared with all nodes of its team.
    pub(super) fn take(&mut self, registered: &BTreeSet<u32>) -> Option<Round> {
        let is_usable = |round: &&Round| {
            round.room > 0
                && round.round >= self.floor
                && round.team.iter().all(|node| registered.contains(node))
                && !self.taken.contains(&(round.round, round.team.clone()))
        };
        let round = self.confirmed().find(is_usable)?.clone();
        self.taken.insert((round.round, round.team.clone()));
        // The lowest number goes first: the highest one may be invented, and must not end the use of all others.
        if self.taken.len() > TAKEN_MAX
            && let Some((lowest, _)) = self.taken.pop_first()
        {
            // No round comes after the last number there is: it is handed out again at worst.
            self.floor = self.floor.max(lowest.checked_add(1).unwrap_or(lowest));
        }
        Some(round)
    }

    /// Counts for [`Client::status`](super::Client::status), without the registrations.
    pub(super) fn status(&self) -> ClientStatus {
        let is_disputed = |round: &&Round| self.votes(round).any(|vote| vote == Some(false));
        ClientStatus {
            registered: 0,
            announced: self.rounds.len(),
            confirmed: self.confirmed().count(),
            disputed: self.rounds.values().filter(is_disputed).count(),
            ignored: self.ignored.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { nodes: 8, team_min: 3, batch_max: 100, announced_max: 16 };

    fn open(round: u64, team: &[u32]) -> OpenRound {
        OpenRound { round, team: team.to_vec(), room: 10, batch: 10 }
    }

    /// Every node of the team announces the rounds.
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
            assert_eq!(take(&mut announced), None, "node 5 says nothing");
        }
        announced.replace(&RULES, 5, vec![OpenRound { room: 0, ..open(7, &[2, 4, 5]) }]);
        assert_eq!(announced.status().confirmed, 1);
        assert_eq!(announced.take(&[2, 4].into()), None, "no secret is shared with node 5");
        assert_eq!(take(&mut announced), Some((7, vec![2, 4, 5])));
        assert_eq!(take(&mut announced), None, "it is handed out once");
        // A connection that ends takes the word of its node along, and does not make the round new.
        announced.replace(&RULES, 4, Vec::new());
        assert_eq!(announced.status().confirmed, 0);
        agree(&mut announced, &[7], &[2, 4, 5]);
        assert_eq!(take(&mut announced), None);
    }

    #[test]
    fn nodes_that_disagree_about_team_order_or_batch_have_no_round() {
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
            assert_eq!(
                (announced.status().announced, announced.status().disputed),
                (3, disputed),
                "{other:?}"
            );
        }
    }

    #[test]
    fn announcements_that_break_a_rule_are_ignored_and_counted() {
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
    fn one_node_does_not_replace_what_another_one_announces() {
        let mut announced = Announced::default();
        agree(&mut announced, &[7], &[1, 2, 3]);
        announced.replace(&RULES, 0, vec![open(7, &[0, 2, 3])]);
        assert_eq!(take(&mut announced), Some((7, vec![1, 2, 3])));
    }

    #[test]
    fn the_highest_numbers_are_rounds_like_others() {
        let mut announced = Announced::default();
        // Nodes that work together can agree on anything among them; others have their rounds still.
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
    fn what_is_remembered_of_rounds_is_bounded_and_no_round_is_handed_out_twice() {
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
}
