//! Rounds without faults.

use std::time::Duration;

use bytes::Bytes;
use samara_engine::Shape;
use samara_mix::{
    Cause, Command, Group, Mark, NodeState, Outcome, Phase, RoundState, SealError, Sealed, Transfer,
};

use crate::config;
use crate::net::Net;

#[test]
fn payloads_come_out_in_another_order_at_all_nodes() {
    for (team, transfer) in [(2, Transfer::Streamed), (5, Transfer::Streamed), (3, Transfer::Unary)] {
        let mut net =
            Net::new(team as u64, samara_mix::Config { transfer, ..config(8, team, Group::Small256) });
        net.run_until(Duration::from_secs(3), |net| net.record.complete().len() >= 6);
        net.record.check(&[]);
        let complete = net.record.complete();
        assert!(net.record.failed.is_empty() && net.record.refused.is_empty());
        let moved = complete.iter().filter(|round| {
            let outcomes = &net.record.delivered.range((**round, 0)..).next().unwrap().1.1;
            let sent = &net.record.sent[round];
            outcomes
                .iter()
                .zip(sent)
                .any(|(outcome, sent)| *outcome != samara_mix::Outcome::Content(sent.clone().into()))
        });
        assert_eq!(moved.count(), complete.len());
    }
}

#[test]
fn states_follow_the_order_of_the_original() {
    let mut net = Net::new(1, config(5, 5, Group::Model));
    net.run_for(Duration::from_secs(2));
    let round = net.record.complete()[0];
    for node in 0..5 {
        let states: Vec<NodeState> = net.record.states[&(round, node)].iter().map(|state| state.1).collect();
        assert_eq!(states, NodeState::ALL[..5]);
    }
    let states: Vec<RoundState> = net.record.rounds[&round].iter().map(|state| state.1).collect();
    assert_eq!(states, RoundState::ALL[..6]);
}

#[test]
fn results_reach_all_nodes_in_every_shape() {
    for shape in Shape::ALL {
        for transfer in Transfer::ALL {
            let shape = samara_mix::ResultShape::Fixed(shape);
            let mut net = Net::new(3, samara_mix::Config { shape, transfer, ..config(7, 7, Group::Model) });
            net.run_until(Duration::from_secs(2), |net| net.record.complete().len() >= 4);
            net.record.check(&[]);
        }
    }
}

#[test]
fn slots_leave_early_except_in_permuting_phases() {
    let mut net = Net::new(5, config(5, 5, Group::Model));
    net.slot_cost = Duration::from_millis(5);
    net.run_until(Duration::from_secs(60), |net| !net.record.complete().is_empty());
    let round = net.record.complete()[0];
    let plan = net.record.plans[&round].clone();
    for pair in plan.team.windows(2) {
        for phase in [Phase::Decrypt, Phase::Permute, Phase::PrecomputeDecrypt, Phase::PrecomputePermute] {
            let first_there = net.record.marks[&(round, pair[1], phase, Mark::FirstReceived)];
            let last_here = net.record.marks[&(round, pair[0], phase, Mark::LastReceived)];
            match phase.gate() {
                samara_mix::Gate::Barrier => assert!(first_there > last_here, "{phase:?}"),
                samara_mix::Gate::SlotWise => {
                    let finished = net.record.marks[&(round, pair[0], phase, Mark::LastFinished)];
                    assert!(first_there < finished, "{phase:?}");
                }
            }
        }
    }
}

#[test]
fn rounds_in_flight_reach_and_respect_the_limit() {
    for most in [1, 3] {
        let config = samara_mix::Config { realtime_max: most, rounds_max: 12, ..config(5, 5, Group::Model) };
        let mut net = Net::new(9, config);
        net.slot_cost = Duration::from_micros(300);
        let mut seen = 0;
        for _ in 0..2_000 {
            net.run_for(Duration::from_millis(1));
            for node in 0..5 {
                let running = net.node(node).rounds().filter(|(_, state)| *state == NodeState::Realtime);
                seen = seen.max(running.count());
            }
        }
        assert_eq!(seen, most);
        net.record.check(&[]);
    }
}

/// Returns the average duration of real time with up to `rounds_max` rounds of the team at a time.
fn realtime_span(rounds_max: usize, slot_cost: Duration, rate: u64) -> Duration {
    let mut net = Net::new(
        4,
        samara_mix::Config {
            rounds_max,
            precomputing_max: rounds_max,
            jobs_max: 1,
            realtime_max: 1,
            batch: 60,
            ..config(5, 5, Group::Model)
        },
    );
    net.slot_cost = slot_cost;
    net.rate = rate;
    net.run_until(Duration::from_secs(120), |net| net.record.complete().len() >= 6);
    let span = |round: &u64| {
        let plan = &net.record.plans[round];
        let begin = net.record.marks[&(*round, plan.team[0], Phase::Decrypt, Mark::FirstReceived)];
        net.record.delivered[&(*round, plan.team[4])].0.since(begin)
    };
    let complete = net.record.complete();
    complete.iter().map(span).sum::<Duration>() / complete.len() as u32
}

#[test]
fn real_time_does_not_wait_for_precomputation() {
    // On a busy core or a busy uplink, a round takes little longer during other precomputations
    // than alone.
    for (slot_cost, rate) in [(Duration::from_micros(500), 0), (Duration::from_micros(10), 1_000_000)] {
        let [alone, among] = [1, 12].map(|rounds_max| realtime_span(rounds_max, slot_cost, rate));
        assert!(among < alone.mul_f64(1.3), "{alone:?} alone, {among:?} among others");
    }
}

#[test]
fn same_seed_gives_the_same_history() {
    let run = |seed| {
        let mut net = Net::new(seed, config(8, 5, Group::Model));
        net.record.digest = Some(0);
        net.run_for(Duration::from_secs(1));
        (net.record.digest, net.frames)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn teams_share_a_pool_and_are_drawn_again() {
    let mut net =
        Net::new(6, samara_mix::Config { teams: 2, rounds_per_draw: 5, ..config(8, 5, Group::Model) });
    net.run_until(Duration::from_secs(4), |net| net.record.complete().len() > 35);
    net.record.check(&[]);
    assert!(net.record.drawn.len() > 6, "{:?}", net.record.drawn);
    let teams: std::collections::BTreeSet<_> =
        net.record.plans.values().map(|plan| plan.team.clone()).collect();
    assert!(teams.len() > 6);
}

#[test]
fn number_of_rounds_is_limited() {
    let rounds = Some(7);
    let mut net =
        Net::new(6, samara_mix::Config { rounds, rounds_per_draw: 2, ..config(5, 5, Group::Model) });
    net.run_for(Duration::from_secs(10));
    net.record.check(&[]);
    assert_eq!(net.record.complete(), (0..7).collect::<Vec<u64>>());
    assert_eq!(net.engine(net.scheduler()).metrics().rounds, 7);
}

#[test]
fn dummies_come_out_like_payloads() {
    for group in [Group::Model, Group::Small256] {
        let mut net = Net::new(1, config(5, 5, group));
        net.tamper = Some(|plan, sealed| {
            let group = if sealed[0].fits(Group::Model, 5) { Group::Model } else { Group::Small256 };
            for (index, slot) in sealed.iter_mut().enumerate().take(20) {
                let content = vec![index as u8; group.content_bytes()];
                *slot = Sealed::dummy(group, plan.team.len(), &content).unwrap();
            }
        });
        net.run_until(Duration::from_secs(10), |net| net.record.complete().len() >= 2);
        let round = net.record.complete()[0];
        let outcomes = &net.record.delivered.range((round, 0)..).next().unwrap().1.1;
        let content = |outcome: &Outcome| match outcome {
            Outcome::Content(content) => content.clone(),
            other => panic!("{other:?}"),
        };
        let contents: Vec<Bytes> = outcomes.iter().map(content).collect();
        let places: Vec<usize> = (0..20u8)
            .map(|byte| contents.iter().position(|of| of.iter().all(|found| *found == byte)).unwrap())
            .collect();
        assert!(places.windows(2).any(|pair| pair[0] > pair[1]), "the dummies are not mixed: {places:?}");
    }
    let short = Sealed::dummy(Group::Small256, 5, &[0; 59]);
    assert_eq!(short, Err(SealError::Length { found: 59, expected: 60 }));
}

#[test]
fn abandoned_round_fails_everywhere_and_its_team_stays() {
    let mut net = Net::new(1, config(5, 5, Group::Model));
    net.is_idle = true;
    net.run_for(Duration::from_millis(500));
    let open = |net: &Net| {
        let (round, plan) = net.record.plans.first_key_value().unwrap();
        (*round, plan.team.clone())
    };
    let (round, team) = open(&net);
    // Only the first node can abandon a round.
    net.command(team[1], Command::Abandon { round });
    assert!(net.record.failed.is_empty());
    net.command(team[0], Command::Abandon { round });
    net.command(team[0], Command::Abandon { round: 9_999 });
    net.run_for(Duration::from_millis(500));
    let failed = net.record.failed.iter();
    let failed: Vec<_> = failed.map(|((round, host), (_, failure))| (*round, *host, failure.cause)).collect();
    assert_eq!(failed, (0..6).map(|host| (round, host, Cause::TooFewSenders)).collect::<Vec<_>>());
    assert_eq!(net.record.drawn.len(), 1);
}
