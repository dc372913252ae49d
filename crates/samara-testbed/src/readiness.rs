//! Waits until links are up and meshes have formed.

use std::time::{Duration, Instant};

use samara_gossipsub::config::Parameters;
use samara_node::model::{PoolStatus, Status};
use samara_spec::Scenario;

use crate::error::TestbedError;
use crate::plan::{Job, Wanted};
use crate::process::NodeProcess;
use crate::run::Stop;

const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// Meshes smaller than wanted are accepted if none has changed for this long: peers with many
/// neighbours reject grafts beyond their limit.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// The missing part of a node, and whether the only fault is that its meshes are small.
type Lack = (String, bool);

/// Waits until every node has its links, and in each topic a mesh of at least D_low or of all
/// available peers; or until meshes, none of which is empty, no longer change. Pools have links
/// only.
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
                let status: PoolStatus = node.ask("set-up", |client| client.get("/v1/pool"))?;
                lacks.extend(missing_links(status.peers.len(), links[number]).map(|lack| (number, lack)));
                continue;
            }
            let status: Status = node.ask("set-up", |client| client.get("/v1/status"))?;
            sizes.extend(status.topics.iter().map(|topic| topic.mesh.len()));
            lacks.extend(lack(&status, links[number], least).map(|lack| (number, lack)));
        }
        if sizes != meshes {
            (meshes, changed) = (sizes, Instant::now());
        }
        let is_small = |(_, (_, is_small)): &(usize, Lack)| *is_small;
        if lacks.iter().all(is_small) && (lacks.is_empty() || changed.elapsed() > SETTLED_AFTER) {
            return Ok(started.elapsed());
        }
        if started.elapsed() > timeout {
            let (node, (first, _)) = &lacks[0];
            let missing = format!("{} nodes are not ready; node {node} has {first}", lacks.len());
            let waited_s = started.elapsed().as_secs_f64();
            return Err(TestbedError::NotReady { waited_s, missing, logs: logs.to_path_buf() });
        }
        std::thread::sleep(SAMPLE_EVERY);
    }
}

fn missing_links(found: usize, expected: usize) -> Option<Lack> {
    (found < expected).then(|| (format!("{found} of {expected} links"), false))
}

/// Returns the first missing part of a node.
fn lack(status: &Status, links: usize, least: usize) -> Option<Lack> {
    let found = status.peers.iter().filter(|peer| peer.protocol.is_some()).count();
    let missing_mesh = || {
        status.topics.iter().find_map(|topic| {
            let (found, expected) = (topic.mesh.len(), least.min(topic.subscribers.len()));
            let what = || format!("{found} mesh peers on {}, expected at least {expected}", topic.topic);
            (found < expected).then(|| (what(), found > 0))
        })
    };
    missing_links(found, links).or_else(missing_mesh)
}

#[cfg(test)]
mod tests {
    use samara_node::model::{PeerStatus, TopicStatus};

    use super::*;

    #[test]
    fn links_are_checked_before_meshes() {
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
        assert_eq!(lack(&connecting, 2, 4), Some(("1 of 2 links".to_owned(), false)));
        let alone = status(vec![peer(Some("x"))], vec![topic(1, 0)]);
        let expected = "0 mesh peers on t, expected at least 1".to_owned();
        assert_eq!(lack(&alone, 1, 4), Some((expected, false)), "a single peer makes a mesh of one");
        assert_eq!(lack(&status(vec![peer(Some("x"))], vec![topic(9, 4), topic(0, 0)]), 1, 4), None);
    }
}
