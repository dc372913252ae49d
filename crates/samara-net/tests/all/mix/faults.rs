//! Tests of nodes that crash and restart.

use std::time::Instant;

use samara_net::mix::Ended;

use crate::mix::common::{LIMIT, Network, check, config, send, soon, three};

/// A pool of six with teams of five: when a node crashes, the others continue.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_continue_after_a_crash() {
    const ROUNDS: usize = 100;
    let mut network = Network::start(6, config(8), |_| {}).await;
    let client = network.client().await;
    let (mut complete, mut failed, mut pending) = (0, 0, std::collections::VecDeque::new());
    let (mut crashed_at, mut resumed) = (None, None);
    for number in 0..ROUNDS {
        let (round, sent) = send(&client).await;
        pending.push_back((round, sent));
        if number == ROUNDS / 3 {
            // The second node of the team of the last round.
            let victim = pending.back().map_or(0, |(round, _)| round.team[1] as usize);
            network.crash(victim);
            crashed_at = Some((victim, Instant::now()));
        }
        if number == 2 * ROUNDS / 3
            && let Some((victim, _)) = crashed_at
        {
            network.restart(victim).await;
        }
        while pending.len() > 4 || (number + 1 == ROUNDS && !pending.is_empty()) {
            let Some((round, sent)) = pending.pop_front() else { break };
            match soon(client.result(&round)).await.expect("every round has an end") {
                ended @ Ended::Delivered(_) => {
                    check(&ended, &sent);
                    complete += 1;
                    if let Some((victim, at)) = crashed_at
                        && resumed.is_none()
                        && !round.team.contains(&(victim as u32))
                    {
                        resumed = Some(at.elapsed());
                    }
                }
                Ended::Failed { cause, culprit } => {
                    let (victim, _) = crashed_at.expect("nothing fails before the crash");
                    assert!(
                        round.team.contains(&(victim as u32)),
                        "a round without the victim failed: {cause} {culprit:?}"
                    );
                    failed += 1;
                }
            }
        }
    }
    assert_eq!(complete + failed, ROUNDS);
    assert!(failed > 0 && complete > ROUNDS / 2, "{complete} complete, {failed} failed");
    // Rounds of a new team need precomputation before they accept payloads.
    let resumed = resumed.expect("there is service after the crash");
    assert!(resumed < 3 * LIMIT, "no round of the others was complete for {resumed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_without_replacement_waits_for_its_node() {
    let mut network = Network::start(3, three(4), |_| {}).await;
    let client = network.client().await;
    let (round, sent) = send(&client).await;
    check(&soon(client.result(&round)).await.expect("a result"), &sent);
    network.crash(1);
    network.restart(1).await;
    // Rounds from before the crash have failed by now. The node creates new ones.
    let complete = async {
        loop {
            let (round, sent) = send(&client).await;
            if let Ok(ended @ Ended::Delivered(_)) = client.result(&round).await {
                return check(&ended, &sent);
            }
        }
    };
    soon(complete).await;
}
