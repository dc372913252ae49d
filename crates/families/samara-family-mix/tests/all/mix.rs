//! Teams that mix batches: from the scenario to the figures.

use samara_family_mix::FAMILY;
use samara_family_mix::MixData;
use samara_family_mix::application::WorkKind;
use samara_family_mix::section::Mix;
use samara_lab::results::Outcome;
use samara_lab::run::{Progress, RunOptions, run};
use samara_mix::{Cause, Mark, Phase};
use samara_scenario::load;

use crate::{loaded, outcomes};

pub(crate) fn results(name: &str, set: &[(&str, &str)], only: &[&str]) -> Vec<Outcome<MixData>> {
    outcomes(&loaded(name, set, only, Some(1)), 1)
}

/// Checks that every round is delivered whole, in one order, or reported as failed, and that no
/// bound is exceeded.
fn is_sound(result: &Outcome<MixData>) {
    let m = &result.metrics;
    let name = &result.run.name;
    assert_eq!(m.completed + m.failed, m.rounds, "{name}");
    let bad =
        [m.unresolved, m.wrong, m.disagreements, m.contradictions, m.unmixed, m.refused, m.failed_unharmed];
    assert_eq!(bad, [0; 7], "{name}");
    assert!(m.share_of_bound < 1.05, "{name}: {:.3} of the bound", m.share_of_bound);
    assert_eq!(m.queue_drops, 0, "{name}");
}

fn near(found: f64, expected: f64, share: f64) -> bool {
    (found / expected - 1.0).abs() <= share
}

/// 100 payloads: `c` is 21 ms.
const SMALL: [(&str, &str); 2] = [("mix.batch", "100"), ("mix.rounds", "20")];

#[test]
fn five_rounds_in_flight_give_five_times_the_throughput_without_latency() {
    let [one, five] = &results("mix", &SMALL, &["equal", "equal-5"])[..] else { panic!("two runs") };
    [one, five].into_iter().for_each(is_sound);
    assert!(near(one.metrics.compute_ms, 21.0, 1e-6), "{}", one.metrics.compute_ms);
    assert!(near(one.metrics.period_ms, 210.0, 0.02), "five nodes, two passes: {} ms", one.metrics.period_ms);
    assert!(
        near(five.metrics.period_ms, 42.0, 0.02),
        "two passes of one node: {} ms",
        five.metrics.period_ms
    );
    assert!(five.metrics.gain.unwrap() >= 4.5, "{:?}", five.metrics.gain);
    assert_eq!(five.metrics.limit, "processor");
    assert_eq!(one.metrics.limit, "latency");
    assert!(near(one.metrics.cpu_utilisation, 0.2, 0.02), "one of five nodes works at a time");
}

#[test]
fn a_tenth_of_a_processor_takes_ten_times_as_long() {
    // The run sets its own number of rounds.
    let set = [("mix.batch", "100"), ("mix.processor", "10 %")];
    let [five] = &results("mix", &set, &["equal-5"])[..] else { panic!("one run") };
    is_sound(five);
    assert!(near(five.metrics.period_ms, 420.0, 0.02), "{} ms", five.metrics.period_ms);
    assert_eq!(five.metrics.limit, "processor");
}

/// A round passes five nodes twice, and ten links: five in decryption, four in permutation, and one
/// that takes the result to the first node.
#[test]
fn pipelining_reduces_the_period_to_two_passes() {
    // The latency is half or twice the time of the work, which needs 8 or 15 rounds in flight.
    for (latency, in_flight, rounds) in [("10 ms", "20", 5.0 + 5.0 * 0.5), ("40 ms", "30", 5.0 + 5.0 * 2.0)] {
        let set = [
            ("network.latency", latency),
            ("mix.batch", "100"),
            ("run.12.set.\"protocol.realtime_max\"", in_flight),
            ("run.12.set.\"mix.rounds\"", "80"),
        ];
        let [one, many] = &results("mix", &set, &["kept", "kept-10"])[..] else { panic!("two runs") };
        [one, many].into_iter().for_each(is_sound);
        let (compute, transfer) = (one.metrics.compute_ms, one.metrics.transfer_ms);
        assert!(near(compute, 21.0, 1e-6), "{compute}");
        let period = one.metrics.period_ms;
        assert!(near(period, 10.0 * (compute + transfer), 0.01), "{period}: {compute}, {transfer}");
        assert!(near(many.metrics.period_ms, 2.0 * compute, 0.02), "{}", many.metrics.period_ms);
        let formula = many.metrics.gain_by_formula.unwrap();
        assert!(near(formula, 5.0 + 5.0 * transfer / compute, 1e-9), "{formula}");
        assert!(
            near(formula, rounds, 0.1),
            "{formula}: {transfer} ms exceed the latency by the time of the bytes"
        );
        // No schedule is faster than a node that always works, so the formula is a bound.
        let share = many.metrics.gain_over_formula.unwrap();
        assert!((0.97..=1.001).contains(&share), "{latency}: {:?}, {formula} by formula", many.metrics.gain);
    }
}

/// "With only three nodes, the network is operating at 33% efficiency" (xx network, 2019).
#[test]
fn one_of_three_nodes_works_without_pipelining() {
    let set = [SMALL[0], ("network.nodes", "3")];
    let [one, three] = &results("mix", &set, &["three", "three-3"])[..] else { panic!("two runs") };
    [one, three].into_iter().for_each(is_sound);
    let m = &one.metrics;
    assert!(near(m.cpu_utilisation, 1.0 / 3.0, 0.01), "{}", m.cpu_utilisation);
    assert!(near(m.period_ms, 6.0 * (m.compute_ms + m.transfer_ms), 0.01), "{} ms", m.period_ms);
    assert!(three.metrics.cpu_utilisation > 0.97, "{}", three.metrics.cpu_utilisation);
    assert!(near(three.metrics.gain.unwrap(), 3.0, 0.03), "{:?}", three.metrics.gain);
}

#[test]
fn ping_around_the_team_takes_five_latencies() {
    let [one] = &results("mix", &[("mix.batch", "20"), ("mix.rounds", "20")], &["alpha-streamed"])[..] else {
        panic!("one run")
    };
    let looped = one.metrics.loop_ms.unwrap();
    assert!(near(looped.p50, 5.0 * 45.0, 0.01) && near(looped.mean, 5.0 * 45.0, 0.05), "{looped:?}");
    assert_eq!(one.metrics.loops_lost, 0);
}

/// The alpha's dashboard showed almost no latency with streaming, "obviously not correct". A clock
/// that runs from the last slot finished at one node to the first slot received at the next one
/// goes backwards when both work on the batch at the same time. `transfer_ms` does not.
#[test]
fn time_from_the_last_slot_to_the_first_one_is_negative_with_streaming() {
    for (call, overlaps) in [("unary", false), ("streamed", true)] {
        let set = [("mix.batch", "320"), ("mix.rounds", "3"), ("protocol.call", call)];
        let [run] = &results("mix", &set, &["alpha"])[..] else { panic!("one run") };
        let round = run.rounds.last().unwrap();
        let phase = Phase::Decrypt;
        for pair in round.nodes.windows(2) {
            let at = |node, mark| run.phases[&(round.round, node, phase)][mark as usize].unwrap();
            let (left, first) = (at(pair[0], Mark::LastFinished), at(pair[1], Mark::FirstReceived));
            assert_eq!(first < left, overlaps, "{call}: {first} and {left}");
            assert!(at(pair[1], Mark::LastReceived) >= left + 45_000_000, "{call}");
        }
    }
}

/// A payload that arrives while another team mixes waits for no precomputation.
#[test]
fn payloads_wait_less_while_other_teams_precompute() {
    let set = [
        ("mix.batch", "50"),
        ("mix.rounds", "24"),
        ("network.latency", "5 ms"),
        ("mix.interval", "100 ms"),
        ("network.nodes", "20"),
        ("sweep.axis.0.values", "[1, 4]"),
    ];
    let results = results("mix-teams", &set, &["alternating", "ahead"]);
    let [alone, four, ahead, _] = &results[..] else { panic!("four runs") };
    results.iter().for_each(is_sound);
    let [alone, four, ahead] = [alone, four, ahead].map(|result| {
        let mut entries: Vec<u64> = result.rounds.iter().filter_map(|row| row.entered).collect();
        entries.sort_unstable();
        assert!(
            entries.windows(2).all(|pair| pair[1] - pair[0] >= 95_000_000),
            "batches keep their distance"
        );
        result.metrics.service_ms.unwrap().mean
    });
    assert!(four < 0.65 * alone, "{four} ms with four teams, {alone} ms with one");
    assert!(ahead < 0.9 * alone, "{ahead} ms with rounds precomputed ahead, {alone} ms without");
}

#[test]
fn reading_delays_slots_by_its_time() {
    let set = |receive| [("mix.batch", "100"), ("mix.rounds", "3"), ("mix.cpu.receive", receive)];
    let [before, after] = ["0 us", "200 us"].map(|receive| {
        let [one] = &results("mix", &set(receive), &["kept"])[..] else { panic!("one run") };
        is_sound(one);
        (one.metrics.first_hop_ms, one.metrics.period_ms)
    });
    assert!(near(after.0 - before.0, 20.0, 1e-3), "100 slots of 200 us: {before:?} and {after:?}");
    // Ten hops, of which one takes the result to the first node.
    assert!(near(after.1 - before.1, 200.0, 0.05), "{before:?} and {after:?}");
}

#[test]
fn repeated_faults_leave_no_round_open() {
    let set = [
        ("mix.rounds", "100"),
        ("mix.interval", "8 s"),
        ("fault.0.at", "100 s"),
        ("fault.0.until", "105 s"),
        ("fault.1.at", "300 s"),
        ("fault.1.until", "360 s"),
        ("fault.3.at", "500 s"),
        ("fault.3.until", "545 s"),
    ];
    let [soak] = &results("mix-soak", &set, &[])[..] else { panic!("one run") };
    is_sound(soak);
    let m = &soak.metrics;
    assert!((1..=8).contains(&m.failed), "{:?}", m.failed_by_cause);
    assert!(m.service_gap_ms < 60_000.0, "{} ms", m.service_gap_ms);
    // Two rounds of 20 slots, each with four elements of 256 bytes twice at most.
    assert!(m.held_bytes_max <= 2 * 20 * 8 * 256, "{} bytes", m.held_bytes_max);
}

/// A cut of 25 s fails rounds if nodes give up after 15 s, the least that the pauses between
/// attempts allow. If they wait for 45 s, it does not.
#[test]
fn longer_limit_saves_the_rounds_of_a_cut() {
    let set = [
        POOL[0],
        ("mix.rounds", "400"),
        ("run.3.set.\"fault.0.until\"", "55 s"),
        ("protocol.realtime_timeout", "60 s"),
    ];
    let failed = ["15 s", "45 s"].map(|limit| {
        let set = [&set[..], &[("protocol.reconnect_limit", limit)]].concat();
        let [result] = &results("mix-pool", &set, &["partition"])[..] else { panic!("one run") };
        is_sound(result);
        result.metrics.failed
    });
    assert!(failed[0] > 0 && failed[1] == 0, "{failed:?}");
}

#[test]
fn formula_does_not_apply_to_streamed_rounds() {
    let set = [("mix.batch", "100"), ("protocol.call", "streamed")];
    let [one, ten] = &results("mix", &set, &["kept", "kept-10"])[..] else { panic!("two runs") };
    assert!(ten.metrics.gain.unwrap() > 3.0, "{:?}", ten.metrics.gain);
    assert_eq!((one.metrics.gain_by_formula, ten.metrics.gain_by_formula), (None, None));
    assert_eq!(ten.metrics.gain_over_formula, None);
}

#[test]
fn drawn_teams_avoid_the_bottleneck_of_the_last_node() {
    let results = results("mix", &[("mix.batch", "100")], &["free", "free-5", "free-drawn"]);
    let [one, fixed, drawn] = &results[..] else { panic!("three runs") };
    results.iter().for_each(is_sound);
    assert!(one.metrics.gain == Some(1.0));
    let gain = fixed.metrics.gain.unwrap();
    // The gain is 89 + 4 x 4 + 11.8 over 8.9 + 11.8 microseconds per slot.
    assert!(near(gain, 72.3 / 20.7, 0.05), "{gain}");
    assert!(fixed.metrics.cpu_utilisation_max > 1.4 * fixed.metrics.cpu_utilisation_min);
    assert!(drawn.metrics.gain.unwrap() >= 4.5, "{:?}", drawn.metrics.gain);
}

#[test]
fn streamed_decryption_takes_hardly_longer_than_one_node() {
    let set = [
        ("mix.batch", "96"),
        ("mix.rounds", "6"),
        ("protocol.realtime_slots", "4"),
        ("protocol.call", "streamed"),
    ];
    let [one] = &results("mix", &set, &["equal"])[..] else { panic!("one run") };
    is_sound(one);
    // One node's work and four more pieces, then each node's work one after the other.
    let expected = 96.0 * 0.21 * (1.0 + 4.0 / 24.0 + 5.0);
    assert!(near(one.metrics.period_ms, expected, 0.02), "{} ms, not {expected}", one.metrics.period_ms);
    let phases = one.phases.iter().filter(|((round, _, phase), _)| *round == 3 && *phase == Phase::Decrypt);
    assert_eq!(phases.count(), 5);
}

#[test]
fn stock_is_precomputed_before_payloads_and_its_rate_is_measured() {
    let set = [("mix.batch", "16"), ("mix.rounds", "30"), ("protocol.precomputing_max", "10")];
    let [stocked] = &results("mix", &set, &["equal"])[..] else { panic!("one run") };
    assert!(stocked.rounds.iter().all(|row| row.opened.unwrap() <= stocked.begun));
    let m = &stocked.metrics;
    let rate = m.precomputation_slots_per_s.unwrap();
    // A slot takes 2.33 ms, and a round takes five parts of keys and the secrets.
    let bound = 16.0 / (16.0 * 0.00233 + 5.0 * 0.0047 + 0.005);
    assert!((0.7 * bound..1.05 * bound).contains(&rate), "{rate} of {bound}");
    let share = m.precomputation_share_of_bound.unwrap();
    assert!((0.7..1.05).contains(&share), "{share}");
    let set = [set[0], set[1], ("mix.stock", "0")];
    let [flowing] = &results("mix", &set, &["equal"])[..] else { panic!("one run") };
    is_sound(flowing);
    assert!(flowing.rounds.iter().any(|row| row.opened.unwrap() > flowing.begun));
    assert_eq!(flowing.metrics.precomputation_slots_per_s, None);
    let rate = flowing.metrics.slots_per_s;
    let bound = flowing.metrics.sustained_bound_slots_per_s;
    assert!(rate < bound * 1.05, "{rate} of {bound}: processors do both halves");
}

#[test]
fn model_sends_the_same_packets_as_the_arithmetic() {
    let set = |group| [("mix.batch", "6"), ("mix.rounds", "2"), ("mix.group", group)];
    let digest = |group| {
        let [result] = &results("mix", &set(group), &["alpha-streamed"])[..] else { panic!("one run") };
        is_sound(result);
        result.run.digest.clone()
    };
    assert_eq!(digest("model"), digest("modp-2048"));
}

#[test]
fn digest_is_independent_of_threads() {
    let set = [("mix.batch", "20"), ("mix.rounds", "40")];
    let digests = [1, 2, 3].map(|threads| {
        let [result] = &outcomes::<MixData>(&loaded("mix-pool", &set, &["restart"], Some(1)), threads)[..]
        else {
            panic!("one run")
        };
        (result.run.digest.clone(), result.metrics.clone())
    });
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0], digests[2]);
}

/// Rounds of 40 payloads are so short that many fit into the time around a fault.
const POOL: [(&str, &str); 1] = [("mix.batch", "40")];

#[test]
fn lost_node_stops_only_its_own_rounds() {
    let set = [POOL[0], ("mix.rounds", "700")];
    let [result] = &results("mix-pool", &set, &["crash"])[..] else { panic!("one run") };
    is_sound(result);
    let m = &result.metrics;
    assert!(m.failed > 0 && m.failed <= 20, "at most the rounds of its teams: {}", m.failed);
    assert!(
        m.failed_by_cause.keys().all(|cause| *cause == Cause::PeerLost.name()),
        "{:?}",
        m.failed_by_cause
    );
    assert!((25_000.0..35_000.0).contains(&m.longest_gap_ms), "{} ms", m.longest_gap_ms);
    assert!(m.service_gap_ms < 5_000.0, "{} ms", m.service_gap_ms);
    // Later teams do not contain the lost node, and they work.
    let last = result.harm[0].from + 40_000_000_000;
    let later: Vec<_> = result.rounds.iter().filter(|row| row.made > last).collect();
    assert!(later.iter().any(|row| row.team == 0) && later.iter().any(|row| row.team == 1));
    assert!(later.iter().all(|row| !row.nodes.contains(&2) && row.cause.is_none()));
}

#[test]
fn restarted_node_fails_its_rounds_at_once_and_returns() {
    let set = [POOL[0], ("mix.rounds", "700")];
    let [result] = &results("mix-pool", &set, &["restart"])[..] else { panic!("one run") };
    is_sound(result);
    let m = &result.metrics;
    assert!(m.failed > 0, "it was in a team");
    assert!(
        m.failed_by_cause.keys().all(|cause| *cause == Cause::Restarted.name()),
        "{:?}",
        m.failed_by_cause
    );
    assert!(m.longest_gap_ms < 16_000.0, "{} ms", m.longest_gap_ms);
    let back = result.rounds.iter().filter(|row| row.nodes.contains(&2) && row.exit().is_some());
    assert!(back.clone().any(|row| row.made > result.harm[0].until), "the node is drawn again");
}

/// A failed round is over, but nothing of it was delivered.
#[test]
fn progress_counts_delivered_rounds_only() {
    let loaded = loaded("mix-pool", &[POOL[0], ("mix.rounds", "700")], &["restart"], Some(1));
    let mut last = Progress::default();
    let options = RunOptions::new(1, &loaded.inputs);
    let measured = run(&loaded.points[0], options, |progress, _| last = progress).unwrap();
    let outcome: Outcome<MixData> = measured.outcome().typed().unwrap();
    let m = &outcome.metrics;
    assert!(m.failed > 0);
    assert_eq!((last.deliveries, last.deliveries_expected), (Some(m.completed), Some(m.rounds)));
}

#[test]
fn restored_link_fails_no_round() {
    let set = [POOL[0], ("mix.rounds", "500")];
    let [result] = &results("mix-pool", &set, &["partition"])[..] else { panic!("one run") };
    is_sound(result);
    assert_eq!(result.metrics.failed, 0, "{:?}", result.metrics.failed_by_cause);
    assert!(
        result.metrics.longest_gap_ms > 10_000.0,
        "the partition had an effect: {} ms",
        result.metrics.longest_gap_ms
    );
    assert!(result.metrics.longest_gap_ms < 20_000.0, "{} ms", result.metrics.longest_gap_ms);
}

#[test]
fn measured_costs_are_written_into_the_scenario() {
    let mut first = loaded("mix", &[("mix.costs", "measured"), ("mix.batch", "8")], &["today"], Some(1));
    let (is_wanted, measure) = (FAMILY.calibration.is_wanted, FAMILY.calibration.measure);
    assert!(is_wanted(&first));
    let words = measure(&mut first).unwrap().unwrap();
    let costs = &first.scenario.part::<Mix>().cpu;
    assert_eq!((costs.len(), words.split(", ").count()), (8, 8), "{words}");
    let nanos = |kind: WorkKind| costs[&kind].nanos();
    let is_power = nanos(WorkKind::Reveal) > 20 * nanos(WorkKind::Decrypt);
    assert!(is_power, "a power costs more than a few products: {costs:?}");
    assert!(nanos(WorkKind::PermuteLast) > nanos(WorkKind::Permute), "{costs:?}");
    assert!(!is_wanted(&first) && measure(&mut first).unwrap().is_none(), "a second call measures nothing");

    let file = std::env::temp_dir().join(format!("samara-measured-{}.toml", std::process::id()));
    std::fs::write(&file, &first.text).unwrap();
    let again = load(file.to_str().unwrap(), &[], &["today".to_owned()], Some(1));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(again.unwrap().points[0].scenario.selected, first.points[0].scenario.selected);

    let mut of_a_run = loaded("mix", &[("run.0.set.\"mix.costs\"", "measured")], &[], Some(1));
    let error = measure(&mut of_a_run).unwrap_err().to_string();
    assert!(error.contains("cannot be set in a run"), "{error}");
}

/// Rounds that were under way at the start of the measurement had been worked on before. Rounds of
/// a team drawn later were precomputed during it. Neither may raise the throughput above the bound
/// of the processors.
#[test]
fn throughput_stays_below_the_bound_when_teams_are_redrawn() {
    let set = [
        ("sweep.axis.0.values", "[3]"),
        ("protocol.rounds_per_draw", "100"),
        ("run.3.set.\"mix.rounds\"", "256"),
        ("mix.batch", "300"),
    ];
    let [forty] = &results("mix-team", &set, &["forty"])[..] else { panic!("one run") };
    is_sound(forty);
    assert!(forty.metrics.draws > 2, "teams were redrawn");
    assert!((0.2..=1.0 + 1e-9).contains(&forty.metrics.share_of_bound), "{}", forty.metrics.share_of_bound);
}
