//! The announced rounds, and the choice of the rounds that a sender uses.
//!
//! A sender seals for a team, and the honest nodes of the team make the payload anonymous. So a
//! sender believes no single node about a team: it uses a round once every node of the team
//! announces it with the same team and batch.

use std::collections::{BTreeMap, BTreeSet};

use samara_mix::Config;

use super::client::{ClientOptions, ClientStatus, Round};
use super::proto::OpenRound;

/// Maximum number of used rounds to remember.
pub(super) const TAKEN_MAX: usize = 4096;
/// Maximum size of an announcement in bytes: 32 nodes of five bytes, three numbers, tags.
const ROUND_BYTES_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub nodes: u32,
    pub team_min: usize,
    pub batch_max: u32,
    pub announced_max: usize,
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

    /// Maximum size in bytes of a message with all announcements of a node.
    pub(super) const fn message_bytes_max(&self) -> usize {
        self.announced_max.saturating_mul(ROUND_BYTES_MAX)
    }

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

/// The current announcements of all nodes, and the rounds used so far.
#[derive(Debug, Default)]
pub struct Announced {
    /// Keyed by round and node, so that no node replaces the announcement of another one.
    rounds: BTreeMap<(u64, u32), Round>,
    /// Used rounds, each with its team. With the number alone, nodes outside of the team could use
    /// it up.
    pub(super) taken: BTreeSet<(u64, Vec<u32>)>,
    /// Rounds with lower numbers may be used and forgotten.
    floor: u64,
    ignored: BTreeMap<&'static str, u64>,
}

impl Announced {
    /// Replaces the announcements of a node. Ignores and counts those that break a rule.
    pub fn replace(&mut self, rules: &Rules, node: u32, rounds: Vec<OpenRound>) {
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
                    let OpenRound { round, team, room, batch, share, senders_wanted } = round;
                    let (room, share) = (room.min(batch), share.min(batch));
                    self.rounds.insert(key, Round { round, team, room, batch, share, senders_wanted });
                }
                Err(rule) => self.ignore(node, rule),
            }
        }
    }

    pub(super) fn ignore(&mut self, node: u32, rule: &'static str) {
        let count = self.ignored.entry(rule).or_default();
        *count += 1;
        // A node repeats its announcements whenever one of its rounds changes.
        match *count {
            1 => tracing::warn!(node, rule, "ignored an announcement of a round"),
            _ => tracing::debug!(node, rule, "ignored an announcement of a round"),
        }
    }

    /// For each node of a round's team: true if it announces the same team and batch, false if it
    /// announces others, `None` if it does not announce the round.
    fn votes<'a>(&'a self, round: &'a Round) -> impl Iterator<Item = Option<bool>> + 'a {
        let same = |other: &Round| other.team == round.team && other.batch == round.batch;
        round.team.iter().map(move |node| self.rounds.get(&(round.round, *node)).map(same))
    }

    /// Rounds on which all nodes of the team agree, as announced by the first node, which knows how
    /// many payloads the round still accepts.
    fn confirmed(&self) -> impl Iterator<Item = &Round> {
        let of_first = self.rounds.iter().filter(|((_, node), round)| round.team.first() == Some(node));
        of_first.map(|(_, round)| round).filter(|round| self.votes(round).all(|vote| vote == Some(true)))
    }

    /// Returns the first confirmed round with room whose nodes are all in `registered`. Returns
    /// each round once.
    pub fn take(&mut self, registered: &BTreeSet<u32>) -> Option<Round> {
        let is_usable = |round: &&Round| {
            round.room > 0
                && round.share > 0
                && round.round >= self.floor
                && round.team.iter().all(|node| registered.contains(node))
                && !self.taken.contains(&(round.round, round.team.clone()))
        };
        let round = self.confirmed().find(is_usable)?.clone();
        self.taken.insert((round.round, round.team.clone()));
        // Forget the lowest number first: the highest one may be invented, and must not end the use
        // of all others.
        if self.taken.len() > TAKEN_MAX
            && let Some((lowest, _)) = self.taken.pop_first()
        {
            // No round follows the highest number, so at worst it is used twice.
            self.floor = self.floor.max(lowest.checked_add(1).unwrap_or(lowest));
        }
        Some(round)
    }

    /// Returns the number of further senders that a round needs, as its first node announces it.
    pub(super) fn senders_wanted(&self, round: &Round) -> Option<u32> {
        let first = round.team.first()?;
        let announced = self.rounds.get(&(round.round, *first)).filter(|other| other.team == round.team);
        announced.map(|announced| announced.senders_wanted)
    }

    /// Counts for [`Client::status`](super::Client::status), without those of connections.
    pub fn status(&self) -> ClientStatus {
        let is_disputed = |round: &&Round| self.votes(round).any(|vote| vote == Some(false));
        ClientStatus {
            registered: 0,
            failures: BTreeMap::new(),
            announced: self.rounds.len(),
            confirmed: self.confirmed().count(),
            disputed: self.rounds.values().filter(is_disputed).count(),
            ignored: self.ignored.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
