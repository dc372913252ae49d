//! Which nodes a team has.

use samara_engine::NodeRng;

use super::Scheduler;
use crate::event::Event;
use crate::node::Cx;

/// A team, as it is at present: rounds that were made before it was drawn anew keep their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Team {
    /// In order; none where there are too few.
    pub(super) nodes: Vec<u32>,
    /// Rounds made since it was drawn.
    pub(super) rounds: u64,
    /// Whether something has happened that asks for another team.
    pub(super) is_stale: bool,
}

/// Draws a team: the nodes that are in the fewest others, by lot among equals, in random order. `None` if there are too few.
pub(super) fn draw(there: &[u32], others: &[Team], size: usize, rng: &mut NodeRng) -> Option<Vec<u32>> {
    if there.len() < size {
        return None;
    }
    let mut nodes = there.to_vec();
    rng.shuffle(&mut nodes);
    let teams_of = |node: &u32| others.iter().filter(|team| team.nodes.contains(node)).count();
    nodes.sort_by_key(teams_of);
    nodes.truncate(size);
    rng.shuffle(&mut nodes);
    Some(nodes)
}

impl Scheduler {
    /// Draws the teams that have to be drawn, and makes the rounds that there is room for.
    pub(super) fn schedule(&mut self, cx: &mut Cx<'_>) {
        for index in 0..self.teams.len() {
            let team = &self.teams[index];
            if team.nodes.is_empty() || team.is_stale || team.rounds >= self.config.rounds_per_draw {
                self.redraw(index, cx);
            }
            while self.has_room(index) {
                self.make(index, cx);
            }
        }
    }

    fn redraw(&mut self, index: usize, cx: &mut Cx<'_>) {
        let (now, limit) = (cx.now(), self.config.reconnect.limit);
        let pool = 0..self.config.pool.len() as u32;
        let there: Vec<u32> = pool.clone().filter(|node| self.peers.is_there(*node)).collect();
        // Those who connect first are not the first teams: everybody has time for it.
        let may_come = |node: &u32| !there.contains(node) && !self.peers.is_lost(*node, now, limit);
        if self.metrics.rounds == 0 && pool.clone().any(|node| may_come(&node)) {
            return;
        }
        let had_none = std::mem::take(&mut self.teams[index]).nodes.is_empty();
        let drawn = draw(&there, &self.teams, self.config.team, cx.rng());
        if drawn.is_none() && had_none {
            return;
        }
        self.metrics.draws += 1;
        let nodes = drawn.unwrap_or_default();
        cx.emit(Event::Drawn { team: index, nodes: nodes.clone() });
        self.teams[index].nodes = nodes;
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::Purpose;

    use super::*;

    #[test]
    fn teams_share_the_pool_evenly_and_every_node_has_every_place() {
        let mut rng = NodeRng::new(1, 0, Purpose::Engine);
        let there: Vec<u32> = (0..8).collect();
        let mut places = [[0u32; 5]; 8];
        for _ in 0..4_000 {
            let mut teams: Vec<Team> = Vec::new();
            for _ in 0..2 {
                let nodes = draw(&there, &teams, 5, &mut rng).unwrap();
                nodes.iter().enumerate().for_each(|(place, node)| places[*node as usize][place] += 1);
                teams.push(Team { nodes, ..Team::default() });
            }
            // Ten seats, eight nodes: everybody has one, and nobody three.
            for node in 0..8 {
                assert!((1..=2).contains(&teams.iter().filter(|team| team.nodes.contains(&node)).count()));
            }
        }
        // 8,000 teams: each place goes to each node 1,000 times on average.
        assert!(places.iter().flatten().all(|times| (850..1_150).contains(times)), "{places:?}");
        assert!(draw(&there[..4], &[], 5, &mut rng).is_none());
    }
}
