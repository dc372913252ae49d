//! Tests of nodes that crash and restart.

use samara_net::mix::Ended;

use crate::mix::common::{Network, check, config, send, soon, three};

/// A pool of six with teams of five: when a node crashes, the others continue.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_continue_after_a_crash() {
    const ROUNDS: usize = 100;
    let mut network = Network::start(6, config(8), |_| {}).await;
    let client = network.client().await;
    let (mut complete, mut failed, mut pending) = (0, 0, std::collections::VecDeque::new());
    let (mut crashed, mut has_resumed) = (None, false);
    for number in 0..ROUNDS {
        let (round, sent) = send(&client).await;
        pending.push_back((round, sent));
        if number == ROUNDS / 3 {
            // The second node of the team of the last round.
            let victim = pending.back().map_or(0, |(round, _)| round.team[1] as usize);
            network.crash(victim);
            crashed = Some(victim);
        }
        if number == 2 * ROUNDS / 3
            && let Some(victim) = crashed
        {
            network.restart(victim).await;
        }
        while pending.len() > 4 || (number + 1 == ROUNDS && !pending.is_empty()) {
            let Some((round, sent)) = pending.pop_front() else { break };
            match soon(client.result(&round)).await.expect("every round has an end") {
                ended @ Ended::Delivered(_) => {
                    check(&ended, &sent);
                    complete += 1;
                    has_resumed |= crashed.is_some_and(|victim| !round.team.contains(&(victim as u32)));
                }
                Ended::Failed { cause, culprit } => {
                    let victim: usize = crashed.expect("nothing fails before the crash");
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
    assert!(has_resumed, "there is no service of the others after the crash");
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
