//! The rounds that nodes announce, and which of them a sender uses.
//!
//! A sender seals for a team, and the honest nodes of the team make the payload anonymous. So a sender
//! believes no single node about a team: it uses a round once every node of the team announces it with the
//! same team and batch.

use std::collections::{BTreeMap, BTreeSet};

use samara_mix::Config;

use super::client::{ClientOptions, ClientStatus, Round};
use super::proto::OpenRound;

/// Most rounds that were handed out and are remembered.
pub(super) const TAKEN_MAX: usize = 4096;
/// Bytes of the longest announcement: 32 nodes of five bytes, three numbers, tags.
const ROUND_BYTES_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) nodes: u32,
    pub(super) team_min: usize,
    pub(super) batch_max: u32,
    pub(super) announced_max: usize,
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

/// The announcements of all nodes at present, and the rounds that were handed out.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// By round and node, so that no node replaces the announcement of another one.
    rounds: BTreeMap<(u64, u32), Round>,
    /// Rounds that were handed out, each with its team: a number alone could be used up by nodes that are not of the team.
    pub(super) taken: BTreeSet<(u64, Vec<u32>)>,
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

    pub(super) fn ignore(&mut self, node: u32, rule: &'static str) {
        let count = self.ignored.entry(rule).or_default();
        *count += 1;
        // A node says the same again whenever anything changes.
        match *count {
            1 => tracing::warn!(node, rule, "an announcement of a round is ignored"),
            _ => tracing::debug!(node, rule, "an announcement of a round is ignored"),
        }
    }

    /// For each node of a round's team: whether it announces the round alike; `None` if it does not
    /// announce it.
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
mod tests;
