//! Failures of nodes and links.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_mix::{Cause, Command, Config, Group, Mark, NodeState, Phase, Reconnect, RoundState};

use crate::config;
use crate::net::{Crash, Net};

const LIMIT: Duration = Duration::from_secs(3);

/// Creates a pool in which a team works on its third round, slowly enough to tell phases apart.
fn slow(seed: u64, config: Config) -> Net {
    let mut net = Net::new(seed, config);
    net.slot_cost = Duration::from_millis(1);
    net.run_until(Duration::from_secs(60), |net| net.record.complete().len() >= 2);
    // Fewer rounds are enough from here on.
    net.pause = Duration::from_millis(500);
    net
}

#[test]
fn node_crash_in_any_phase_ends_its_rounds_and_service_continues() {
    let moments = Phase::ALL.into_iter().flat_map(|phase| [(phase, Crash::Closes), (phase, Crash::Silent)]);
    for (index, (phase, how)) in moments.enumerate() {
        let mut net = slow(index as u64, config(8, 5, Group::Model));
        let team = net.record.drawn[0].2.clone();
        let victim = team[1 + index % 4];
        let before = net.now;
        net.run_until(Duration::from_secs(60), |net| {
            let here = |key: &&(u64, u32, Phase, Mark)| {
                (key.1, key.2) == (victim, phase) && matches!(key.3, Mark::FirstReceived)
            };
            net.record.marks.iter().any(|(key, at)| here(&key) && *at > before)
        });
        let died = net.now;
        net.crash(victim, how);
        // Time to detect the silence, to reach the limit, to draw a team, and to run a round.
        let silence = if how == Crash::Silent { net.config.silence } else { Duration::ZERO };
        net.run_for(LIMIT + silence + Duration::from_secs(5));
        net.record.check(&[victim]);
        let redrawn = net.record.drawn.iter().find(|drawn| drawn.0 > died).expect("another team is drawn");
        assert!(!redrawn.2.contains(&victim) && redrawn.2.len() == 5, "{phase:?} {how:?}");
        assert!(redrawn.0.since(died) < LIMIT + silence + Duration::from_secs(1), "{phase:?} {how:?}");
        assert!(
            net.record.complete().iter().any(|round| !net.record.plans[round].team.contains(&victim)),
            "{phase:?} {how:?}: no further round completed"
        );
        let lost = net.record.failed.values().filter(|(at, _)| *at > died);
        assert!(lost.clone().count() > 0);
        for (_, failure) in lost {
            assert_eq!((failure.cause, failure.culprit), (Cause::PeerLost, Some(victim)));
        }
    }
}

#[test]
fn short_link_failure_in_any_phase_fails_no_round() {
    let mut resent = 0;
    for (index, phase) in Phase::ALL.into_iter().enumerate() {
        let mut net = slow(index as u64, config(5, 5, Group::Model));
        let team = net.record.drawn[0].2.clone();
        let before = net.now;
        for seat in 0..5 {
            let (a, b) = (team[seat], team[(seat + 1) % 5]);
            net.run_until(Duration::from_secs(60), |net| {
                net.record.marks.iter().any(|((_, node, of, mark), at)| {
                    (*node, *of, *mark) == (b, phase, Mark::FirstReceived) && *at > before
                })
            });
            net.disconnect(a, b);
            let scheduler = net.scheduler();
            net.disconnect(b, scheduler);
        }
        net.run_for(Duration::from_secs(5));
        net.record.check(&[]);
        assert!(net.record.failed.is_empty(), "{phase:?}: {:?}", net.record.causes());
        resent += (0..5).map(|node| net.node(node).metrics().resent_frames).sum::<u64>();
        assert!(net.record.complete().len() > 5);
    }
    assert!(resent > 100, "{resent} frames were sent again");
}

#[test]
fn lost_node_does_not_stall_other_teams() {
    let mut net = slow(3, Config { teams: 2, rounds_per_draw: 1_000, ..config(12, 5, Group::Model) });
    net.pause = Duration::from_millis(5);
    let victim = net.record.drawn[0].2[2];
    let other: Vec<u32> = net.record.drawn[1].2.clone();
    assert!(!other.contains(&victim));
    let died = net.now;
    net.crash(victim, Crash::Closes);
    net.run_for(LIMIT + Duration::from_secs(3));
    let mut times: Vec<_> = net
        .record
        .delivered
        .iter()
        .filter(|((_, host), (at, _))| *host == other[0] && *at > died)
        .map(|(_, (at, _))| *at)
        .collect();
    times.sort();
    let gap = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    assert!(gap < Duration::from_millis(700), "{gap:?}");
    assert!(times.len() > 10);
    assert!(!net.record.failed.keys().any(|(_, host)| *host == other[0]));
}

#[test]
fn killed_node_loses_no_payload_silently() {
    let mut net = Net::new(8, Config { rounds_per_draw: 1_000, ..config(8, 5, Group::Small256) });
    net.slot_cost = Duration::from_micros(50);
    net.run_until(Duration::from_secs(60), |net| net.record.complete().len() >= 50);
    let victim = net.record.drawn[0].2[3];
    // The victim has payloads in real time.
    net.run_until(Duration::from_secs(60), |net| {
        net.engine(victim).node().unwrap().rounds().any(|(_, state)| state == NodeState::Realtime)
    });
    net.crash(victim, Crash::Closes);
    net.run_until(Duration::from_secs(60), |net| net.record.complete().len() >= 100);
    net.run_for(Duration::from_secs(1));
    net.record.check(&[victim]);
    let sent: BTreeSet<u64> = net.record.sent.keys().copied().collect();
    let over = |round: &u64| net.record.rounds[round].last().unwrap().1;
    let (mut whole, mut failed) = (0, 0);
    for round in sent {
        match over(&round) {
            RoundState::Completed => whole += 1,
            RoundState::Failed => failed += 1,
            _ => {}
        }
    }
    assert!(whole >= 100 && (1..=10).contains(&failed), "{whole} complete, {failed} failed");
}

/// After a longer absence the others still wait to dial the restarted node, and fail each round with it
/// at once, while the scheduler has it back already.
#[test]
fn a_team_whose_draws_fail_waits_longer_each_time() {
    let reconnect = Reconnect { max: LIMIT, limit: LIMIT, first: Duration::from_millis(50) };
    let mut net = slow(6, Config { reconnect, ..config(5, 5, Group::Model) });
    let victim = 4;
    net.crash(victim, Crash::Closes);
    net.run_for(LIMIT + Duration::from_secs(5));
    let (made, whole) = (net.record.rounds.len(), net.record.complete().len());
    net.restart(victim);
    let scheduler = net.scheduler();
    net.run_until(Duration::from_secs(20), |net| net.record.complete().len() > whole + 20);
    net.record.check(&[]);
    let after: Vec<u64> = net.record.rounds.keys().copied().skip(made).collect();
    let failed = after.iter().filter(|round| net.record.failed.contains_key(&(**round, scheduler))).count();
    assert!((1..=10).contains(&failed), "{failed} of {} rounds failed", after.len());
    let metrics = net.engine(scheduler).scheduler().unwrap().metrics().clone();
    assert!((1..=10).contains(&metrics.paused_draws), "{metrics:?}");
    // The team is whole again: it precomputes several rounds at a time.
    let early = |(_, state): &(u64, RoundState)| *state < RoundState::Standby;
    net.run_until(Duration::from_secs(20), |net| {
        net.engine(scheduler).scheduler().unwrap().rounds().filter(early).count() > 1
    });
}

#[test]
fn restarted_node_is_drawn_again_after_its_rounds_failed() {
    let mut net = slow(5, config(5, 5, Group::Model));
    let victim = net.record.drawn[0].2[2];
    net.crash(victim, Crash::Closes);
    net.run_for(Duration::from_millis(300));
    net.restart(victim);
    net.run_for(Duration::from_secs(6));
    net.record.check(&[]);
    assert!(net.record.causes().contains_key(&Cause::Restarted), "{:?}", net.record.causes());
    let again = net.record.drawn.iter().filter(|drawn| drawn.2.contains(&victim)).count();
    assert!(again >= 2);
    assert!(net.record.complete().len() > 5);
}

/// The scheduler meets the new process before some of its peers do, whose dials back off or which
/// still hold their links to the old process.
#[test]
fn restart_costs_no_round_that_begins_after_it() {
    for (index, how) in [Crash::Closes, Crash::Silent].into_iter().cycle().take(10).enumerate() {
        let mut net = slow(index as u64, config(5, 5, Group::Model));
        net.pause = Duration::from_millis(20);
        let victim = net.record.drawn[0].2[index % 5];
        let died = net.now;
        net.crash(victim, how);
        // Without closed links, the old ones last for two seconds of silence.
        net.run_for(Duration::from_millis(if how == Crash::Silent { 100 } else { 1_500 }));
        net.restart(victim);
        let restarted = net.now;
        net.run_for(Duration::from_secs(8));
        net.record.check(&[]);
        let made = |round: &u64| net.record.rounds[round][0].0;
        // The scheduler learns of it after the time of a link or two.
        let known = if how == Crash::Silent { restarted } else { died } + Duration::from_millis(30);
        for ((round, host), (_, failure)) in &net.record.failed {
            assert!(made(round) <= known, "{how:?}: round {round} at {host}: {failure:?}");
        }
        assert!(net.record.causes().contains_key(&Cause::Restarted), "{how:?}");
        let later = net.record.complete().iter().filter(|round| made(round) > restarted).count();
        assert!(later > 10, "{how:?}: {later} rounds");
    }
}

#[test]
fn no_round_begins_while_one_of_its_nodes_is_away() {
    let mut net = Net::new(12, config(5, 5, Group::Model));
    net.is_idle = true;
    net.run_for(Duration::from_secs(4));
    let team = net.record.drawn[0].2.clone();
    let waiting: BTreeSet<u64> = net.record.rounds.keys().copied().collect();
    net.crash(team[2], Crash::Closes);
    net.run_for(Duration::from_millis(200));
    // An abandoned round leaves room for another one of the same team.
    net.command(team[0], Command::Abandon { round: *waiting.first().unwrap() });
    net.run_for(Duration::from_millis(500));
    assert!(net.record.failed.contains_key(&(*waiting.first().unwrap(), team[0])));
    assert!(net.record.rounds.keys().all(|round| waiting.contains(round)));
    net.restart(team[2]);
    net.run_for(Duration::from_secs(4));
    assert!(net.record.failed.keys().all(|(round, _)| waiting.contains(round)));
    assert!(net.record.rounds.len() > waiting.len());
}

#[test]
fn no_team_is_drawn_with_too_few_nodes() {
    let mut net = slow(6, config(5, 5, Group::Model));
    net.crash(0, Crash::Silent);
    net.run_for(LIMIT + Duration::from_secs(4));
    assert!(net.record.drawn.last().unwrap().2.is_empty());
    let complete = net.record.complete().len();
    net.restart(0);
    net.run_for(Duration::from_secs(4));
    assert_eq!(net.record.drawn.last().unwrap().2.len(), 5);
    assert!(net.record.complete().len() > complete + 3);
    net.record.check(&[]);
}

#[test]
fn two_disconnected_nodes_fail_only_their_rounds() {
    let mut net = slow(7, config(8, 5, Group::Model));
    let team = net.record.drawn[0].2.clone();
    net.cut(team[1], team[2]);
    net.run_for(LIMIT + Duration::from_secs(8));
    net.record.check(&[]);
    assert!(net.record.causes().contains_key(&Cause::PeerLost));
    assert!(net.record.drawn.len() > 1);
}

/// Only the scheduler loses the node, so its peers do not end the rounds first.
#[test]
fn scheduler_ends_the_waiting_rounds_of_a_node_that_it_lost() {
    let mut net = Net::new(10, config(8, 5, Group::Model));
    net.is_idle = true;
    net.run_for(Duration::from_secs(4));
    let victim = net.record.drawn[0].2[2];
    let waiting: BTreeSet<u64> = net.record.plans.keys().copied().collect();
    let cut = net.now;
    let scheduler = net.scheduler();
    net.cut(scheduler, victim);
    let silence = net.config.silence;
    net.run_for(LIMIT + silence + Duration::from_secs(1));
    for round in &waiting {
        let (at, failure) = net.record.failed[&(*round, scheduler)];
        assert_eq!((failure.cause, failure.culprit), (Cause::PeerLost, Some(victim)));
        assert!(at.since(cut) >= LIMIT, "a short cut ends no round");
    }
    let drawn = net.record.drawn.last().unwrap();
    assert!(drawn.2.len() == 5 && !drawn.2.contains(&victim));
}

#[test]
fn rounds_finish_without_the_scheduler_and_a_new_one_takes_over() {
    let mut net = slow(9, config(5, 5, Group::Model));
    let scheduler = net.scheduler();
    net.crash(scheduler, Crash::Closes);
    let running: Vec<u64> = net
        .node(0)
        .rounds()
        .filter(|(_, state)| *state == NodeState::Realtime)
        .map(|(round, _)| round)
        .collect();
    net.run_for(Duration::from_secs(2));
    for round in &running {
        assert!(
            net.record.delivered.contains_key(&(*round, 0)),
            "round {round} no longer needs the scheduler"
        );
    }
    let complete = net.record.complete().len();
    net.restart(scheduler);
    net.run_for(Duration::from_secs(4));
    net.record.check(&[]);
    assert!(net.record.complete().len() > complete + 3);
}

#[test]
fn round_without_a_batch_times_out() {
    let mut net = Net::new(2, config(5, 5, Group::Model));
    net.is_idle = true;
    net.run_for(Duration::from_secs(19));
    assert!(net.record.failed.is_empty());
    assert_eq!(net.record.plans.len(), 10);
    net.run_for(Duration::from_secs(4));
    assert!(net.record.causes()[&Cause::Timeout] > 0);
    assert!(net.record.plans.len() > 10);
}

#[test]
fn connection_attempts_back_off() {
    let mut net = slow(4, config(5, 5, Group::Model));
    net.crash(4, Crash::Closes);
    let dials = |net: &Net| net.node(0).metrics().dials;
    let at_first = dials(&net);
    net.run_for(Duration::from_secs(2));
    let early = dials(&net) - at_first;
    net.run_for(Duration::from_secs(20));
    let late = dials(&net) - at_first - early;
    // 50, 100, 200, 400, 800 ms, each shortened by up to a half. Then one second, shortened
    // likewise.
    assert!((4..=7).contains(&early), "{early}");
    assert!((19..=41).contains(&late), "{late}");
}

/// Returns the result of a cut between two nodes of a team of five in a pool of five: the failed
/// rounds, and the time from the end of the cut until the next round is complete.
fn cut_for(cut: Duration, reconnect: Reconnect) -> (usize, Duration) {
    let mut net = slow(11, Config { reconnect, ..config(5, 5, Group::Model) });
    let team = net.record.drawn[0].2.clone();
    net.cut(team[1], team[2]);
    net.run_for(cut);
    net.heal();
    let (healed, complete) = (net.now, net.record.complete().len());
    net.run_until(Duration::from_secs(60), |net| net.record.complete().len() > complete);
    let back = net.now.since(healed);
    net.record.check(&[]);
    (net.record.failed.len(), back)
}

/// "Lengthening the amount of time nodes wait between trying to reconnect and the amount of time
/// nodes wait before giving up" (xx network, 2019): the second of both waits saves rounds. The
/// first one only delays the return, because attempts are not counted here.
#[test]
fn longer_wait_before_giving_up_saves_rounds_and_longer_pauses_delay_the_return() {
    let ms = Duration::from_millis;
    let with = |first, max, limit| Reconnect { first: ms(first), max: ms(max), limit: ms(limit) };
    // The link is silent for 2 s before both sides close it.
    let (impatient, _) = cut_for(ms(4_000), with(50, 500, 1_000));
    let (patient, soon) = cut_for(ms(4_000), with(50, 500, 12_000));
    let (slow, late) = cut_for(ms(4_000), with(5_000, 5_000, 12_000));
    assert!(impatient > 0 && patient == 0 && slow == 0, "{impatient}, {patient} and {slow} rounds failed");
    assert!(late > soon + ms(300), "back after {soon:?} and {late:?}");
}

#[test]
fn panic_in_a_job_fails_its_round_only() {
    let mut net = Net::new(1, config(5, 5, Group::Small256));
    net.panics = Some(|host, job| host == 2 && job.round() == 3 && job.phase() == Some(Phase::Decrypt));
    net.run_for(Duration::from_secs(3));
    net.record.check(&[]);
    let failures = net.record.failed.iter();
    let failures = failures.map(|((round, _), (_, failure))| (*round, failure.cause, failure.culprit));
    assert_eq!(failures.collect::<BTreeSet<_>>(), [(3, Cause::Panicked, Some(2))].into());
    assert!(net.record.complete().len() > 5);
}
