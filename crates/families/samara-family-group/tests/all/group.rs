//! Groups that broadcast: from the scenario to the figures.

use samara_document::Inputs;
use samara_family_group::GroupData;
use samara_lab::results::Outcome;
use samara_scenario::{Overrides, load_source};

use samara_family_group::FAMILY;
use samara_lab::family::set_base;

use crate::{loaded, outcomes};

fn results(scenario: &str, set: &[(&str, &str)], only: &[&str], threads: usize) -> Vec<Outcome<GroupData>> {
    outcomes(&loaded(scenario, set, only, Some(1)), threads)
}

fn assert_clean(result: &Outcome<GroupData>) {
    let (name, m) = (&result.run.name, &result.metrics);
    let wrong = [m.lost, m.duplicates, m.order_violations, m.disagreements, m.garbled];
    assert_eq!(wrong, [0; 5], "{name}: {:?}", result.run.parameters);
}

/// Keys of a run are the same with dots and in tables.
#[test]
fn a_run_has_one_value_of_a_key() {
    for key in ["run.0.set.protocol.preset", "run.0.set.\"protocol.preset\""] {
        // The run sets the preset in its file.
        let ring = loaded("ring", &[(key, "ring-total")], &["direct"], Some(1));
        let preset = ring.points[0].scenario.part::<samara_ring::Parameters>().preset;
        assert_eq!(preset, samara_ring::Preset::RingTotal, "{key}");
    }
    let run =
        "[[run]]\nname = \"a\"\nset = { \"protocol.chunk\" = \"8 kB\", protocol = { chunk = \"9 kB\" } }\n";
    let text = format!("scenario = {{ seeds = [1] }}\nnetwork = {{ nodes = 4 }}\ngroup = {{ }}\n{run}");
    let error = load_source("twice.toml", &text, Inputs::default(), &Overrides::default());
    let error = error.expect_err("the key has two values").to_string();
    let message =
        "run.0.set.protocol.chunk: run \"a\" sets it as a dotted key and in a table; keep one of them";
    assert!(error.contains(message), "{error}");
}

const SLOW: [(&str, &str); 2] = [("network.bandwidth", "100 Mbit/s"), ("group.messages", "2000")];

#[test]
fn rounds_match_the_schedules_of_the_post() {
    let only = ["direct", "ring", "binary-tree", "double-tree", "direct-small", "ring-small"];
    for result in results("ring-rounds", &[], &only, 1) {
        assert_clean(&result);
        let (rounds, schedule) =
            (result.metrics.rounds.unwrap(), result.metrics.rounds_of_schedule.unwrap() as f64);
        match result.run.name.as_str() {
            "direct" => assert_eq!(schedule, 90.0),
            "ring" => assert_eq!(schedule, 18.0),
            "direct-small" => assert_eq!(schedule, 6.0),
            "ring-small" => assert_eq!(schedule, 4.0),
            _ => {}
        }
        assert!(rounds < schedule + 3.0, "{}: {rounds} against {schedule}", result.run.name);
        // With direct sending and a chain, nothing is shorter. In trees, links that share an uplink
        // evenly can beat the schedule.
        let is_least = !result.run.name.contains("tree");
        assert!(!is_least || rounds > schedule * 0.99, "{}: {rounds} against {schedule}", result.run.name);
    }
}

#[test]
fn ring_gains_with_one_sender_but_not_with_all() {
    let results = results("ring", &SLOW, &["direct", "ring", "direct-1", "ring-1"], 1);
    results.iter().for_each(assert_clean);
    let [direct, ring, direct_1, ring_1] = &results[..] else { panic!("four runs") };
    assert!((ring.metrics.upper_bound_mb_per_s - 15.94).abs() < 0.01, "{:?}", ring.metrics);
    assert!((ring_1.metrics.upper_bound_mb_per_s - 11.95).abs() < 0.01);
    assert!((direct_1.metrics.shape_bound_mb_per_s - 3.98).abs() < 0.01);
    for result in &results {
        let share = result.metrics.share_of_shape_bound;
        assert!((0.94..=1.0).contains(&share), "{}: {share}", result.run.name);
    }
    let gain = |result: &Outcome<GroupData>| result.metrics.gain.unwrap();
    assert!((0.97..1.06).contains(&gain(ring)) && ring.metrics.gain_bound == Some(1.0), "{}", gain(ring));
    assert!((2.8..3.1).contains(&gain(ring_1)), "{}", gain(ring_1));
    assert_eq!((gain(direct), gain(direct_1)), (1.0, 1.0));
    // Only the uplink of the single sender is busy; on the ring, all except that of the last member
    // are busy.
    let busy = |result: &Outcome<GroupData>, host: usize| result.members[host].uplink_utilisation;
    assert!(busy(direct_1, 0) > 0.9 && (1..4).all(|host| busy(direct_1, host) < 0.1));
    assert!((0..3).all(|host| busy(ring_1, host) > 0.85) && busy(ring_1, 3) < 0.1);
    let links = &ring_1.links;
    let on_the_ring: u64 = (0..3).map(|host| links[host][host + 1]).sum();
    let all: u64 = links.iter().flatten().sum();
    assert!(on_the_ring as f64 > 0.98 * all as f64, "{on_the_ring} of {all}");
}

/// A lap takes longer than its frames, since news queues behind units. Windows must allow for that
/// on fast links too.
#[test]
fn total_order_fills_fast_links() {
    let result = &results("ring", &[], &["ring-total"], 1)[0];
    assert!(result.metrics.share_of_bound > 0.95, "{:?}", result.metrics.share_of_bound);
}

#[test]
fn bytes_are_counted_by_kind() {
    for result in results("ring", &SLOW, &["ring", "ring-total", "daisychain"], 1) {
        assert_clean(&result);
        let bytes = &result.metrics.bytes;
        assert!((bytes.content - 8_192.0).abs() < 1.0, "{}: {bytes:?}", result.run.name);
        assert!(bytes.headers > 5.0 && bytes.headers < 100.0 && bytes.transport > 300.0, "{bytes:?}");
        let parts = bytes.content + bytes.headers + bytes.credit + bytes.heartbeats + bytes.views;
        assert!((parts + bytes.transport - bytes.total).abs() < 1e-6, "{bytes:?}");
        assert!(result.metrics.idle_bytes_per_s < 20_000.0, "{}", result.metrics.idle_bytes_per_s);
    }
}

#[test]
fn number_of_threads_does_not_change_results() {
    let digests = |threads| -> Vec<(String, u64)> {
        let all = results("ring", &SLOW, &["ring", "daisychain"], threads);
        all.iter().map(|result| (result.run.digest.clone(), result.metrics.deliveries)).collect()
    };
    assert_eq!(digests(1), digests(3));
}

#[test]
fn group_survives_failures_leaves_and_joins_without_loss() {
    let only = ["crash", "crash-total", "vanish", "restart", "leave", "join", "partition"];
    for result in results("ring-churn", &[("group.duration", "4 s")], &only, 1) {
        assert_clean(&result);
        let (name, m) = (&result.run.name, &result.metrics);
        assert!(m.longest_gap_ms <= 1_000.0, "{name}: {} ms, {:?}", m.longest_gap_ms, result.run.parameters);
        assert_eq!(result.members.iter().filter(|member| member.is_steady).count(), 3, "{name}");
        assert!(m.views >= 2, "{name}: {} views", m.views);
        if name != "leave" && name != "join" {
            assert!(m.suspicions > 0, "{name}");
        }
        assert_eq!(m.false_suspicions, 0, "{name}");
    }
}

/// A member that is to start again before it has left ends as in a crash.
#[test]
fn unfinished_leaves_are_counted_as_failures() {
    for (until, unfinished) in [("5010 ms", 1), ("10 s", 0)] {
        let set = [("fault.0.until", until), ("sweep.axis.0.values", "[[1]]")];
        for result in results("ring-churn", &set, &["leave"], 1) {
            assert_eq!(result.metrics.unfinished_leaves, unfinished, "{until}");
            assert_clean(&result);
        }
    }
}

/// A member that was removed hears one of the others earlier than the rest, and proposes a view with it
/// before it knows that the other has a newer one.
#[test]
fn a_removed_member_takes_nobody_out_of_the_newer_view() {
    let mut removed = 0;
    for until in [13_350, 13_360, 13_370, 13_380, 13_390, 13_400] {
        let text = format!(
            r#"
            scenario = {{ name = "heals", seeds = [1, 253771876438710767] }}
            transport = {{}}
            protocol = {{ kind = "ring", preset = "ring-total" }}
            group = {{ senders = 1, size = "434 B", messages = 14, rate = 6.0, warm_up = "12 s" }}
            [network]
            nodes = 6
            uplink = "2160538 bit/s"
            jitter = "482 us"
            [network.regions]
            names = ["r0", "r1"]
            weights = [1.0, 1.0]
            latency = [["497 us", "97959 us"], ["2500 us", "1080 us"]]
            [[fault]]
            kind = "partition"
            at = "12936 ms"
            until = "{until} ms"
            nodes = [3]
            "#
        );
        set_base(&[&FAMILY]);
        let loaded = load_source("heals.toml", &text, Inputs::default(), &Overrides::default())
            .unwrap_or_else(|error| panic!("{error}"));
        for result in outcomes(&loaded, 2) {
            let result: Outcome<GroupData> = result;
            removed += u32::from(result.metrics.views > 2);
            assert_clean(&result);
        }
    }
    assert!(removed > 6, "in {removed} of 12 runs");
}

/// One minute of the scenario `ring-hour` (`samara run ring-hour`).
#[test]
fn full_load_with_jitter_and_loss_causes_no_suspicions() {
    for result in results("ring-hour", &[("group.duration", "1 min")], &["ring", "direct"], 1) {
        assert_clean(&result);
        let m = &result.metrics;
        assert_eq!((m.suspicions, m.views), (0, 1), "{}", result.run.name);
        assert!(
            m.losses.packet_drops.random > 0 && m.uplinks.uplink_utilisation > 0.6,
            "{:?}",
            m.losses.packet_drops
        );
    }
}

#[test]
fn small_switch_buffers_stall_direct_sending_but_not_the_ring() {
    let set = [("group.messages", "2000"), ("sweep.axis.0.values", r#"["8 kB", "16 kB", "128 kB"]"#)];
    let all = results("ring-switch", &set, &["direct", "ring"], 1);
    for result in &all {
        assert_clean(result);
        // Heartbeats wait as long as the connections that lost packets.
        assert_eq!(result.metrics.suspicions, 0, "{:?}", result.run.parameters);
    }
    let share = |run: &str, buffer: &str| {
        let is_it = |r: &&Outcome<GroupData>| {
            r.run.name == run
                && r.run.parameters.iter().any(|parameter| format!("{parameter:?}").contains(buffer))
        };
        all.iter().find(is_it).unwrap().metrics.share_of_bound
    };
    assert!(share("direct", "128 kB") > 0.9 && share("direct", "16 kB") < 0.5);
    assert!(share("ring", "128 kB") > 0.9 && share("ring", "16 kB") > 0.9);
}

#[test]
fn plain_daisy_chain_fills_links_and_stalls_when_a_member_fails() {
    let all = results("ring", &SLOW, &["daisychain", "daisychain-1"], 1);
    for result in &all {
        assert_clean(result);
        let share = result.metrics.share_of_bound;
        assert!(share > 0.95, "{}: {share}", result.run.name);
    }
    let set =
        [("protocol.preset", "daisychain"), ("group.duration", "3 s"), ("sweep.axis.0.values", "[[2]]")];
    let crashed = &results("ring-churn", &set, &["crash"], 1)[0];
    assert!(crashed.metrics.lost > 0, "there is no recovery");
}

/// Members send as much along the chain as directly when all send: N-1 copies for each own message.
#[test]
fn plain_daisy_chain_gains_with_one_sender_but_not_with_all() {
    let all = results("ring", &SLOW, &["direct", "daisychain", "direct-1", "daisychain-1"], 1);
    for result in &all {
        assert_clean(result);
        let share = result.metrics.share_of_shape_bound;
        assert!(share > 0.94, "{}: {share}", result.run.name);
    }
    let [direct, chain, direct_1, chain_1] = [0, 1, 2, 3].map(|run| all[run].metrics.throughput_mb_per_s);
    assert!((0.95..1.05).contains(&(chain / direct)), "{chain} to {direct}");
    assert!((2.8..3.1).contains(&(chain_1 / direct_1)), "{chain_1} to {direct_1}");
    let [direct, chain] = [0, 1].map(|run| all[run].links.iter().flatten().sum::<u64>() as f64);
    assert!((0.99..1.01).contains(&(chain / direct)), "{chain} to {direct} bytes of frames");
}

#[test]
fn rates_below_the_bound_are_reached() {
    let result = &results("ring-latency", &[("group.duration", "2 s")], &["ring"], 1)[3];
    assert_clean(result);
    let m = &result.metrics;
    assert_eq!(m.messages, 240, "120 per second for 2 s");
    assert!((m.throughput_mb_per_s - 120.0 * 8_192.0 / 1e6).abs() < 0.03, "{}", m.throughput_mb_per_s);
    // The last member is fifteen hops of half a millisecond away, plus the time of a message.
    let latency = m.delivery_latency_ms.unwrap();
    assert!(latency.max > 15.0 * 1.1 && latency.max < 40.0 && latency.p50 < 12.0, "{latency:?}");
}

#[test]
fn federation_sends_each_message_to_each_other_site_once() {
    let only = ["direct", "ring-mixed", "federation", "federation-1", "federation-1-direct"];
    let results = results("ring-federation", &[("group.duration", "2 s")], &only, 2);
    results.iter().for_each(assert_clean);
    let copies = |result: &Outcome<GroupData>| result.metrics.gateways.unwrap().copies;
    let [direct, mixed, federation, one, one_direct] = &results[..] else { panic!("five runs") };
    // There are two other sites of four members each.
    assert!((8.0..9.2).contains(&copies(direct)), "{}", copies(direct));
    assert!(copies(mixed) > 5.0, "{}", copies(mixed));
    for result in [federation, one, one_direct] {
        assert!((2.0..2.2).contains(&copies(result)), "{}: {}", result.run.name, copies(result));
    }
    // Each site can and must receive the messages of the two others: 3/2 of 100 Mbit/s, less
    // headers.
    let content = 1448.0 / 1514.0;
    assert!((federation.metrics.upper_bound_mb_per_s - 18.75 * content).abs() < 0.01);
    assert!((one.metrics.upper_bound_mb_per_s - 12.5 * content).abs() < 0.01);
    assert!((one_direct.metrics.shape_bound_mb_per_s - 6.25 * content).abs() < 0.01);
    for result in [federation, one] {
        assert!(result.metrics.share_of_bound > 0.85, "{}: {:?}", result.run.name, result.metrics);
    }
    assert!(one_direct.metrics.share_of_shape_bound > 0.85, "{:?}", one_direct.metrics);
}

#[test]
fn federation_members_without_a_fault_receive_everything() {
    for result in results("ring-federation-churn", &[], &[], 1) {
        assert_clean(&result);
        let (name, m) = (&result.run.name, &result.metrics);
        assert_eq!(m.false_suspicions, 0, "{name}");
        let steady = result.members.iter().filter(|member| member.is_steady).count();
        let expected = if matches!(name.as_str(), "quiet" | "site" | "other-site") { 9 } else { 8 };
        assert_eq!(steady, expected, "{name}: members of a separated site must receive everything too");
        let latest = m.delivery_latency_ms.as_ref().unwrap().max;
        let most = match name.as_str() {
            "quiet" | "member" => 500.0,
            "site" | "other-site" => 10_000.0,
            _ => 2_500.0,
        };
        assert!(latest < most, "{name}: {latest} ms");
        assert!(m.gateways.unwrap().copies < 2.0 * 1.6, "{name}: {:?}", m.gateways);
    }
}

/// A member that restarts delivers some messages before and some after its absence: only those between
/// are missed.
#[test]
fn deliveries_before_a_restart_are_not_missed() {
    let fault = r#"[{ kind = "crash", at = "4 s", until = "6 s", nodes = [3] }]"#;
    let set = [
        ("network.bandwidth", "100 Mbit/s"),
        ("group.messages", ""),
        ("group.duration", "5 s"),
        ("group.rate", "100"),
        ("fault", fault),
    ];
    let result = &results("ring", &set, &["ring-1"], 1)[0];
    assert_clean(result);
    let m = &result.metrics;
    let owed = m.messages * u64::from(m.members);
    assert_eq!((m.messages, m.missed), (500, owed - m.deliveries), "each pair is delivered or missed");
    assert!((200..300).contains(&m.missed), "{} of 2 s with 100 messages a second", m.missed);
}

/// A protocol without repair stops when a member fails, and its silence counts until senders stop.
#[test]
fn a_stream_that_stops_has_a_gap_to_its_end() {
    let crash = r#"[{ kind = "crash", at = "5 s", nodes = [2] }]"#;
    let set = |amount: &'static str, value: &'static str| {
        let bandwidth = ("network.bandwidth", "100 Mbit/s");
        [bandwidth, ("group.messages", ""), (amount, value), ("group.patience", "4 s"), ("fault", crash)]
    };
    let of = |amount, value| {
        let [ring, chain] = ["ring", "daisychain"].map(|run| {
            let mut found = results("ring", &set(amount, value), &[run], 1);
            found.remove(0).metrics.clone()
        });
        assert!(ring.longest_gap_ms < 1_000.0, "{}", ring.longest_gap_ms);
        chain
    };
    // Messages flow from 3 s on, and would for 10 s.
    let chain = of("group.duration", "10 s");
    assert!((7_500.0..8_001.0).contains(&chain.longest_gap_ms), "{}", chain.longest_gap_ms);
    assert!(chain.throughput_mb_per_s < 5.0, "{} over all 10 s", chain.throughput_mb_per_s);
    // The run waits for four seconds.
    let chain = of("group.messages", "20000");
    assert!((4_000.0..9_000.0).contains(&chain.longest_gap_ms), "{}", chain.longest_gap_ms);
}

/// The scenario asks for the removal of a member that holds the group up.
#[test]
fn removed_members_lose_nothing() {
    let set = [
        ("network.bandwidth", "20 Mbit/s"),
        ("network.nodes", "6"),
        ("group.messages", ""),
        ("group.duration", "8 s"),
        ("group.size", "64 KiB"),
        ("protocol.remove_slow_after", "600 ms"),
        // Heartbeats wait behind data on the slow link.
        ("protocol.suspect_after", "3 s"),
        ("fault", r#"[{ kind = "slow", at = "5 s", factor = 0.02, nodes = [5] }]"#),
    ];
    let result = &results("ring", &set, &["ring-1"], 1)[0];
    assert_clean(result);
    let m = &result.metrics;
    assert_eq!((m.removed, m.false_suspicions), (1, 0), "{} suspicions", m.suspicions);
    assert!(m.suspicions > 0 && m.missed > 0, "{m:?}");
    assert_eq!(result.members.iter().filter(|member| member.is_steady).count(), 5);
}

#[test]
fn times_of_removal_that_do_not_fit_have_a_note() {
    let note = |after: &str| {
        let set = [("network.bandwidth", "10 Mbit/s"), ("protocol.remove_slow_after", after)];
        loaded("ring", &set, &["ring-1"], Some(1)).notes.join("; ")
    };
    let short = note("60 ms");
    assert!(
        short.contains("of 60 ms removes healthy members") && short.contains("at least 207 ms"),
        "{short}"
    );
    assert_eq!((note("207 ms"), note("3 s")), (String::new(), String::new()));
    // A window of 4 MiB takes 3.36 s.
    let long = note("4 s");
    assert!(long.contains("of 4 s removes only members that take nothing at all"), "{long}");
    assert!(loaded("ring", &[], &["ring-1"], Some(1)).notes.is_empty(), "without the key there is none");
}

/// A chunk of 64 KiB takes 52 ms at 10 Mbit/s: windows hold too few of them for seven hops.
#[test]
fn frames_that_are_long_for_slow_links_have_a_note() {
    let of = |set: &[(&str, &str)]| {
        let base = [("network.nodes", "8"), ("group.size", "64 KiB"), ("group.messages", "100")];
        loaded("ring", &[&base, set].concat(), &["ring-1"], Some(1))
    };
    let slow = of(&[("network.bandwidth", "10 Mbit/s")]);
    let note = slow.notes.join("; ");
    assert!(note.contains("protocol.chunk and protocol.batch of 16 KiB do"), "{note}");
    assert!(of(&[("network.bandwidth", "100 Mbit/s")]).notes.is_empty());
    let fitting =
        [("network.bandwidth", "10 Mbit/s"), ("protocol.chunk", "16 KiB"), ("protocol.batch", "16 KiB")];
    let fitting = of(&fitting);
    assert!(fitting.notes.is_empty(), "{:?}", fitting.notes);
    let share = |loaded| outcomes::<GroupData>(&loaded, 1)[0].metrics.share_of_bound;
    let (slow, fitting) = (share(slow), share(fitting));
    assert!(slow < 0.7 && fitting > 0.9, "{slow} and {fitting} of the bound");
}
