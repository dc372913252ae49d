//! Waiting until links are up and meshes have formed.

use std::time::{Duration, Instant};

use samara_gossipsub::config::Parameters;
use samara_lab::scenario::Scenario;
use samara_node::model::Status;

use crate::error::TestbedError;
use crate::plan::{Job, Wanted};
use crate::process::NodeProcess;
use crate::run::Stop;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Meshes that are smaller than wanted are taken as they are if none has changed for so long: peers with many neighbours
/// refuse those that they have no room for.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Lack {
    Links { found: usize, expected: usize },
    Mesh { topic: String, found: usize, expected: usize },
}

/// Waits until every node has its links, and in each topic a mesh of at least D_low or of all its peers there are; or until
/// meshes, none of which is empty, do not change any more. Pools have links only.
pub(crate) fn wait(
    nodes: &mut [NodeProcess],
    scenario: &Scenario,
    wanted: &Wanted,
    timeout: Duration,
    stop: &Stop<'_>,
    logs: &std::path::Path,
) -> Result<Duration, TestbedError> {
    let started = Instant::now();
    let links: Vec<usize> = wanted.graph.neighbours().iter().map(Vec::len).collect();
    let gossipsub = scenario.find::<Parameters>().cloned().unwrap_or_default();
    let least = gossipsub.build(None).mesh.d_low;
    let (mut meshes, mut changed) = (Vec::new(), Instant::now());
    loop {
        stop.check()?;
        let (mut lacks, mut sizes) = (Vec::new(), Vec::new());
        for (number, node) in nodes.iter_mut().enumerate() {
            node.check("set-up")?;
            if let Job::Transactions { .. } = wanted.job {
                let found = node.ask("set-up", |client| client.pool_status())?.peers.len();
                let lack = Lack::Links { found, expected: links[number] };
                lacks.extend((found < links[number]).then_some((number, lack)));
                continue;
            }
            let status = node.ask("set-up", |client| client.status())?;
            sizes.extend(status.topics.iter().map(|topic| topic.mesh.len()));
            lacks.extend(lack(&status, links[number], least).map(|lack| (number, lack)));
        }
        if sizes != meshes {
            (meshes, changed) = (sizes, Instant::now());
        }
        let small = |(_, lack): &(usize, Lack)| matches!(lack, Lack::Mesh { found, .. } if *found > 0);
        if lacks.iter().all(small) && (lacks.is_empty() || changed.elapsed() > SETTLED_AFTER) {
            return Ok(started.elapsed());
        }
        if started.elapsed() > timeout {
            let (node, first) = &lacks[0];
            let first = match first {
                Lack::Links { found, expected } => format!("node {node} has {found} of {expected} links"),
                Lack::Mesh { topic, found, expected } => {
                    format!("node {node} has {found} mesh peers on {topic}, expected at least {expected}")
                }
            };
            let missing = format!("{} nodes lack something; {first}", lacks.len());
            let waited_s = started.elapsed().as_secs_f64();
            return Err(TestbedError::NotReady { waited_s, missing, logs: logs.to_path_buf() });
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The first thing that a node lacks.
fn lack(status: &Status, links: usize, least: usize) -> Option<Lack> {
    let found = status.peers.iter().filter(|peer| peer.protocol.is_some()).count();
    if found < links {
        return Some(Lack::Links { found, expected: links });
    }
    status.topics.iter().find_map(|topic| {
        let expected = least.min(topic.subscribers.len());
        let found = topic.mesh.len();
        (found < expected).then(|| Lack::Mesh { topic: topic.topic.clone(), found, expected })
    })
}

#[cfg(test)]
mod tests {
    use samara_node::model::{PeerStatus, TopicStatus};

    use super::*;

    #[test]
    fn links_first_then_meshes() {
        let peer = |protocol: Option<&str>| PeerStatus {
            protocol: protocol.map(str::to_owned),
            ..PeerStatus::default()
        };
        let topic = |subscribers: usize, mesh: usize| TopicStatus {
            topic: "t".to_owned(),
            subscribers: vec![String::new(); subscribers],
            mesh: vec![String::new(); mesh],
        };
        let status = |peers, topics| Status { peers, topics, ..Status::default() };
        let connecting = status(vec![peer(Some("/meshsub/1.2.0")), peer(None)], vec![]);
        assert_eq!(lack(&connecting, 2, 4), Some(Lack::Links { found: 1, expected: 2 }));
        let alone = status(vec![peer(Some("x"))], vec![topic(1, 0)]);
        let expected = Lack::Mesh { topic: "t".to_owned(), found: 0, expected: 1 };
        assert_eq!(lack(&alone, 1, 4), Some(expected), "of one peer a mesh of one");
        assert_eq!(lack(&status(vec![peer(Some("x"))], vec![topic(9, 4), topic(0, 0)]), 1, 4), None);
    }
}
