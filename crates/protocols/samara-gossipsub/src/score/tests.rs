//! Tests of the peer score: each part against its closed form, and the scenarios of the known
//! implementations' test suites.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::{PeerScoreParams, PeerScoreThresholds, PeerScores, TopicScoreParams, score_parameter_decay};
use crate::engine::tables::TopicIdx;
use proptest::prelude::*;
use samara_engine::{MessageKey, PeerId, Time};

const A: PeerId = PeerId(0);
const B: PeerId = PeerId(1);
const C: PeerId = PeerId(2);
const TOPIC: TopicIdx = TopicIdx(3);

fn scores(params: PeerScoreParams, topic: TopicScoreParams) -> PeerScores {
    let mut scores = PeerScores::new(Some(params));
    scores.set_topic_params(TOPIC, topic);
    for peer in [A, B, C] {
        scores.add_peer(peer, None);
    }
    scores
}

fn secs(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    let tolerance = 1e-9 * expected.abs().max(1.0);
    assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}");
}

#[test]
fn time_in_mesh_counts_whole_quanta_up_to_the_cap() {
    let topic = TopicScoreParams {
        topic_weight: 0.5,
        time_in_mesh_weight: 2.0,
        time_in_mesh_quantum: Duration::from_millis(300),
        time_in_mesh_cap: 10.0,
        ..TopicScoreParams::neutral()
    };
    let mut scores = scores(PeerScoreParams::neutral(), topic);
    assert_eq!(scores.score(A), 0.0);
    scores.graft(Time::ZERO, A, TOPIC);
    scores.refresh(secs(1));
    assert_close(scores.score(A), 0.5 * 2.0 * 3.0);
    scores.refresh(secs(2));
    assert_close(scores.score(A), 0.5 * 2.0 * 6.0);
    scores.refresh(secs(100));
    assert_close(scores.score(A), 0.5 * 2.0 * 10.0);
    assert_eq!(scores.score(B), 0.0, "only members of the mesh are rewarded");
    scores.prune(A, TOPIC);
    assert_eq!(scores.score(A), 0.0, "time in the mesh ends with leaving it");
}

fn first_deliveries(decay: f64, cap: f64) -> TopicScoreParams {
    TopicScoreParams {
        first_message_deliveries_weight: 1.5,
        first_message_deliveries_decay: decay,
        first_message_deliveries_cap: cap,
        ..TopicScoreParams::neutral()
    }
}

fn deliver(scores: &mut PeerScores, now: Time, peer: PeerId, keys: std::ops::Range<u64>) {
    for key in keys.map(MessageKey) {
        scores.validate_message(now, key);
        scores.deliver_message(now, peer, TOPIC, key);
    }
}

#[test]
fn first_deliveries_are_capped_and_decay_to_zero() {
    let mut all = scores(PeerScoreParams::neutral(), first_deliveries(0.9, 2000.0));
    deliver(&mut all, secs(0), A, 0..100);
    assert_close(all.score(A), 150.0);
    for _ in 0..10 {
        all.refresh(secs(1));
    }
    assert_close(all.score(A), 150.0 * 0.9f64.powi(10));
    // 100 * 0.9^n falls below 0.01 at n = 88.
    for _ in 10..87 {
        all.refresh(secs(1));
    }
    assert!(all.score(A) > 0.0);
    all.refresh(secs(1));
    assert_eq!(all.score(A), 0.0);

    let mut capped = scores(PeerScoreParams::neutral(), first_deliveries(0.9, 50.0));
    deliver(&mut capped, secs(0), A, 0..100);
    assert_close(capped.score(A), 75.0);
    capped.set_topic_params(TOPIC, first_deliveries(0.9, 10.0));
    assert_close(capped.score(A), 15.0);
}

fn mesh_deliveries() -> TopicScoreParams {
    TopicScoreParams {
        mesh_message_deliveries_weight: -1.0,
        mesh_message_deliveries_decay: 0.9,
        mesh_message_deliveries_cap: 100.0,
        mesh_message_deliveries_threshold: 20.0,
        mesh_message_deliveries_window: Duration::from_millis(10),
        mesh_message_deliveries_activation: Duration::from_secs(1),
        ..TopicScoreParams::neutral()
    }
}

/// A delivers first. B's copy arrives before the verdict or within the window, and C's arrives too
/// late.
#[test]
fn mesh_deliveries_count_near_first_copies_only() {
    let mut scores = scores(PeerScoreParams::neutral(), mesh_deliveries());
    for peer in [A, B, C] {
        scores.graft(Time::ZERO, peer, TOPIC);
    }
    scores.refresh(secs(1));
    assert_eq!(scores.score(A), 0.0, "no deficit counts before the activation");
    let start = secs(1);
    for key in 0..100 {
        let key = MessageKey(key);
        scores.validate_message(start, key);
        if key.0.is_multiple_of(2) {
            scores.duplicate_message(start, B, TOPIC, key);
            // The validation takes longer than the window, which starts at the verdict.
            scores.deliver_message(start + Duration::from_millis(50), A, TOPIC, key);
        } else {
            scores.deliver_message(start, A, TOPIC, key);
            scores.duplicate_message(start + Duration::from_millis(10), B, TOPIC, key);
        }
        scores.duplicate_message(start + Duration::from_millis(61), C, TOPIC, key);
    }
    scores.refresh(secs(2));
    assert_eq!(scores.score(A), 0.0);
    assert_eq!(scores.score(B), 0.0);
    assert_close(scores.score(C), -400.0);
    // 100 deliveries decay below the threshold after a total of 16 intervals: 100 * 0.9^16 = 18.53.
    for _ in 1..16 {
        scores.refresh(secs(2));
    }
    let deficit = 20.0 - 100.0 * 0.9f64.powi(16);
    assert_close(scores.score(A), -deficit * deficit);
    assert_close(scores.score(B), -deficit * deficit);
}

#[test]
fn a_copy_counts_once_per_peer() {
    let mut scores = scores(PeerScoreParams::neutral(), mesh_deliveries());
    scores.graft(Time::ZERO, A, TOPIC);
    scores.graft(Time::ZERO, B, TOPIC);
    let key = MessageKey(1);
    scores.validate_message(secs(2), key);
    for _ in 0..50 {
        scores.duplicate_message(secs(2), A, TOPIC, key);
        scores.duplicate_message(secs(2), B, TOPIC, key);
    }
    scores.deliver_message(secs(2), A, TOPIC, key);
    for _ in 0..50 {
        scores.duplicate_message(secs(2), A, TOPIC, key);
        scores.duplicate_message(secs(2), B, TOPIC, key);
    }
    scores.refresh(secs(2));
    assert_close(scores.score(A), -(20.0f64 - 0.9).powi(2));
    assert_close(scores.score(B), -(20.0f64 - 0.9).powi(2));
}

#[test]
fn a_deficit_sticks_when_leaving_the_mesh() {
    let topic = TopicScoreParams {
        mesh_message_deliveries_weight: 0.0,
        mesh_failure_penalty_weight: -1.0,
        mesh_failure_penalty_decay: 0.5,
        ..mesh_deliveries()
    };
    let mut scores = scores(PeerScoreParams::neutral(), topic);
    for peer in [A, B] {
        scores.graft(Time::ZERO, peer, TOPIC);
    }
    deliver(&mut scores, secs(1), A, 0..100);
    scores.refresh(secs(2));
    assert_eq!((scores.score(A), scores.score(B)), (0.0, 0.0));
    for peer in [A, B, C] {
        scores.prune(peer, TOPIC);
    }
    assert_eq!(scores.score(A), 0.0);
    assert_close(scores.score(B), -400.0);
    assert_eq!(scores.score(C), 0.0, "the peer was not in the mesh");
    scores.prune(B, TOPIC);
    assert_close(scores.score(B), -400.0);
    scores.graft(secs(2), B, TOPIC);
    scores.refresh(secs(3));
    assert_close(scores.score(B), -200.0);
    // A departure counts like a PRUNE, once the activation of the member is over again.
    scores.refresh(secs(4));
    scores.remove_peer(secs(4), B);
    assert_close(scores.score(B), -100.0 - 400.0);
}

fn invalid_deliveries() -> TopicScoreParams {
    TopicScoreParams {
        invalid_message_deliveries_weight: -1.0,
        invalid_message_deliveries_decay: 0.9,
        ..TopicScoreParams::neutral()
    }
}

#[test]
fn invalid_messages_are_squared_and_decay() {
    let mut scores = scores(PeerScoreParams::neutral(), invalid_deliveries());
    for key in (0..100).map(MessageKey) {
        scores.reject_message(Time::ZERO, A, TOPIC, key, true);
    }
    assert_close(scores.score(A), -10_000.0);
    for _ in 0..10 {
        scores.refresh(secs(1));
    }
    assert_close(scores.score(A), -(100.0 * 0.9f64.powi(10)).powi(2));
}

#[test]
fn the_verdict_decides_which_senders_are_penalised() {
    let blamed = |is_invalid: bool| {
        let mut scores = scores(PeerScoreParams::neutral(), invalid_deliveries());
        let key = MessageKey(1);
        scores.validate_message(Time::ZERO, key);
        scores.duplicate_message(Time::ZERO, B, TOPIC, key);
        scores.reject_message(Time::ZERO, A, TOPIC, key, is_invalid);
        scores.duplicate_message(Time::ZERO, C, TOPIC, key);
        [A, B, C].map(|peer| scores.score(peer))
    };
    assert_eq!(blamed(true), [-1.0, -1.0, -1.0]);
    assert_eq!(blamed(false), [0.0, 0.0, 0.0]);
}

#[test]
fn a_malformed_message_penalises_only_its_sender() {
    let mut scores = scores(PeerScoreParams::neutral(), invalid_deliveries());
    scores.duplicate_message(Time::ZERO, B, TOPIC, MessageKey(1));
    scores.reject_malformed(A, TOPIC);
    scores.duplicate_message(Time::ZERO, C, TOPIC, MessageKey(1));
    assert_eq!([A, B, C].map(|peer| scores.score(peer)), [-1.0, 0.0, 0.0]);
}

#[test]
fn a_verdict_is_final() {
    let mut scores = scores(PeerScoreParams::neutral(), invalid_deliveries());
    deliver(&mut scores, Time::ZERO, A, 0..1);
    scores.reject_message(Time::ZERO, B, TOPIC, MessageKey(0), true);
    assert_eq!(scores.score(B), 0.0);
}

#[test]
fn topics_are_weighted_and_capped_together() {
    let params = PeerScoreParams { topic_score_cap: 10.0, ..PeerScoreParams::neutral() };
    let topic = TopicScoreParams { topic_weight: 0.5, ..first_deliveries(0.9, 1000.0) };
    let mut scores = scores(params, topic.clone());
    let other = TopicIdx(0);
    scores.set_topic_params(other, TopicScoreParams { topic_weight: 2.0, ..topic });
    scores.deliver_message(Time::ZERO, A, TOPIC, MessageKey(0));
    scores.deliver_message(Time::ZERO, A, other, MessageKey(1));
    assert_close(scores.score(A), 1.5 * 0.5 + 1.5 * 2.0);
    deliver(&mut scores, Time::ZERO, A, 2..50);
    assert_close(scores.score(A), 10.0);
    let parts = scores.breakdown(A).unwrap();
    assert_close(parts.topics, 10.0);
    assert_close(parts.first_message_deliveries, 1.5 * 0.5 * 49.0 + 3.0);
}

#[test]
fn the_application_score_is_weighted() {
    let params = PeerScoreParams { app_specific_weight: 0.5, ..PeerScoreParams::neutral() };
    let mut scores = scores(params, TopicScoreParams::neutral());
    for value in -100..100 {
        scores.set_app_score(A, f64::from(value));
        assert_close(scores.score(A), f64::from(value) * 0.5);
    }
}

fn colocation() -> PeerScoreParams {
    PeerScoreParams { ip_colocation_weight: -1.0, ip_colocation_threshold: 1.0, ..PeerScoreParams::neutral() }
}

#[test]
fn peers_that_share_an_address_are_penalised() {
    let address = |last| Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
    let listed = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
    let mut params = colocation();
    params.ip_colocation_whitelist.insert(listed);
    let mut scores = PeerScores::new(Some(params));
    scores.add_peer(A, address(1));
    assert_eq!(scores.score(A), 0.0);
    for peer in 1..4 {
        scores.add_peer(PeerId(peer), address(2));
    }
    for peer in 10..20 {
        scores.add_peer(PeerId(peer), Some(listed));
    }
    assert_eq!(scores.score(A), 0.0);
    for peer in 1..4 {
        assert_close(scores.score(PeerId(peer)), -4.0);
    }
    assert_eq!(scores.score(PeerId(10)), 0.0, "the address is whitelisted");

    // A departure with a negative score does not help the other peers before the retention is over,
    // ...
    scores.remove_peer(Time::ZERO, PeerId(3));
    assert_close(scores.score(PeerId(1)), -4.0);
    scores.refresh(secs(3601));
    assert_close(scores.score(PeerId(1)), -1.0);
    // ... and a peer that connects from another address counts there.
    scores.add_peer(PeerId(2), address(1));
    assert_close(scores.score(A), -1.0);
    assert_close(scores.score(PeerId(2)), -1.0);
    assert_eq!(scores.score(PeerId(1)), 0.0);
}

#[test]
fn a_peer_counts_at_each_of_its_addresses() {
    let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let mut scores = PeerScores::new(Some(colocation()));
    for peer in 0..3 {
        scores.add_peer(PeerId(peer), Some(address(peer as u8)));
    }
    assert_eq!(scores.score(A), 0.0);
    // Each keeps its own address, and connects again from one that all share.
    for peer in 0..3 {
        let own = address(peer as u8);
        scores.set_addresses(PeerId(peer), [own, address(9), address(9)]);
    }
    assert_close(scores.score(A), -4.0);
    scores.set_addresses(B, [address(1)]);
    assert_close(scores.score(A), -1.0);
    assert_eq!(scores.score(B), 0.0);
    scores.set_addresses(PeerId(7), [address(9)]);
    assert_close(scores.score(A), -1.0);
}

#[test]
fn an_ipv6_network_counts_as_one_address() {
    let address = |host| Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host)));
    let mut scores = PeerScores::new(Some(colocation()));
    for peer in 0..3 {
        scores.add_peer(PeerId(peer), address(peer as u16));
    }
    assert_close(scores.score(A), -4.0);
    scores.add_peer(PeerId(3), address(0));
    assert_close(scores.score(A), -9.0 - 1.0);
    assert_close(scores.score(B), -9.0);
}

#[test]
fn misbehaviour_is_squared_above_its_threshold_and_decays() {
    let params = PeerScoreParams {
        behaviour_penalty_weight: -2.0,
        behaviour_penalty_threshold: 1.0,
        behaviour_penalty_decay: 0.99,
        ..PeerScoreParams::neutral()
    };
    let mut scores = scores(params, TopicScoreParams::neutral());
    scores.add_penalty(A, 1.0);
    assert_eq!(scores.score(A), 0.0);
    scores.add_penalty(A, 2.0);
    assert_close(scores.score(A), -8.0);
    scores.refresh(secs(1));
    assert_close(scores.score(A), -2.0 * (3.0f64 * 0.99 - 1.0).powi(2));
    scores.add_penalty(PeerId(77), 1.0);
    assert_eq!(scores.score(PeerId(77)), 0.0, "unknown peers have no score");
}

#[test]
fn slow_peers_are_penalised_linearly() {
    let params = PeerScoreParams {
        slow_peer_weight: -0.2,
        slow_peer_threshold: 2.0,
        slow_peer_decay: 0.5,
        ..PeerScoreParams::neutral()
    };
    let mut scores = scores(params, TopicScoreParams::neutral());
    for _ in 0..8 {
        scores.slow_peer(A);
    }
    assert_close(scores.score(A), -0.2 * 6.0);
    scores.refresh(secs(1));
    assert_close(scores.score(A), -0.2 * 2.0);
}

#[test]
fn bad_scores_are_retained_without_decay_and_good_ones_forgotten() {
    let params = PeerScoreParams {
        behaviour_penalty_weight: -1.0,
        behaviour_penalty_decay: 0.5,
        retain_score: Duration::from_secs(10),
        ..PeerScoreParams::neutral()
    };
    let mut scores = scores(params, first_deliveries(0.9, 100.0));
    deliver(&mut scores, Time::ZERO, A, 0..10);
    scores.add_penalty(B, 4.0);
    deliver(&mut scores, Time::ZERO, B, 10..12);
    assert_close(scores.score(B), 3.0 - 16.0);
    scores.remove_peer(Time::ZERO, A);
    scores.remove_peer(Time::ZERO, B);
    assert!(scores.breakdown(A).is_none());
    assert_close(scores.score(B), -16.0);
    for second in 1..=10 {
        scores.refresh(secs(second));
        assert_close(scores.score(B), -16.0);
    }
    scores.add_peer(B, None);
    assert_close(scores.score(B), -16.0);
    scores.refresh(secs(11));
    assert_close(scores.score(B), -4.0);
    scores.remove_peer(secs(11), B);
    scores.refresh(secs(22));
    assert!(scores.breakdown(B).is_none());
}

#[test]
fn tracking_of_deliveries_is_bounded() {
    let params = PeerScoreParams {
        record_capacity: 10,
        record_ttl: Duration::from_secs(120),
        ..PeerScoreParams::neutral()
    };
    let mut scores = scores(params, invalid_deliveries());
    for key in 0..25 {
        scores.validate_message(secs(1), MessageKey(key));
    }
    assert_eq!((scores.records.queue.len(), scores.records_evicted()), (10, 15));
    scores.refresh(secs(121));
    assert_eq!(scores.records.queue.len(), 0);
}

#[test]
fn disabled_scores_keep_nothing() {
    let mut scores = PeerScores::new(None);
    scores.set_topic_params(TOPIC, TopicScoreParams::default());
    scores.add_peer(A, None);
    scores.graft(Time::ZERO, A, TOPIC);
    deliver(&mut scores, Time::ZERO, A, 0..10);
    scores.add_penalty(A, 10.0);
    scores.duplicate_message(Time::ZERO, A, TOPIC, MessageKey(0));
    scores.reject_message(Time::ZERO, A, TOPIC, MessageKey(99), true);
    scores.refresh(secs(1));
    assert_eq!((scores.score(A), scores.records.queue.len()), (0.0, 0));
    assert!(scores.breakdown(A).is_none());
}

#[test]
fn unknown_topics_are_not_scored() {
    let mut scores = scores(PeerScoreParams::neutral(), first_deliveries(0.9, 100.0));
    scores.graft(Time::ZERO, A, TopicIdx(100));
    scores.deliver_message(Time::ZERO, A, TopicIdx(100), MessageKey(0));
    assert_eq!(scores.score(A), 0.0);
}

#[test]
fn errors_name_invalid_parameters() {
    let field = |change: fn(&mut PeerScoreParams)| {
        let mut params = PeerScoreParams::default();
        change(&mut params);
        params.validate().unwrap_err().field
    };
    assert!(PeerScoreParams::default().validate().is_ok());
    assert_eq!(field(|p| p.topic_score_cap = -1.0), "topic_score_cap");
    assert_eq!(field(|p| p.app_specific_weight = f64::NAN), "app_specific_weight");
    assert_eq!(field(|p| p.ip_colocation_weight = 1.0), "ip_colocation_weight");
    assert_eq!(field(|p| p.ip_colocation_threshold = 0.0), "ip_colocation_threshold");
    assert_eq!(field(|p| p.behaviour_penalty_weight = 1.0), "behaviour_penalty_weight");
    assert_eq!(field(|p| p.behaviour_penalty_threshold = -1.0), "behaviour_penalty_threshold");
    assert_eq!(field(|p| p.behaviour_penalty_decay = 1.0), "behaviour_penalty_decay");
    assert_eq!(field(|p| p.slow_peer_weight = f64::INFINITY), "slow_peer_weight");
    assert_eq!(field(|p| p.slow_peer_decay = 0.0), "slow_peer_decay");
    assert_eq!(field(|p| p.decay_interval = Duration::from_millis(999)), "decay_interval");
    assert_eq!(field(|p| p.decay_to_zero = 0.0), "decay_to_zero");
    assert_eq!(field(|p| p.record_capacity = 0), "record_capacity");

    let field = |change: fn(&mut TopicScoreParams)| {
        let mut params = TopicScoreParams::default();
        change(&mut params);
        params.validate().unwrap_err().field
    };
    assert!(TopicScoreParams::default().validate().is_ok());
    assert!(TopicScoreParams::neutral().validate().is_ok());
    assert_eq!(field(|p| p.topic_weight = -1.0), "topic_weight");
    assert_eq!(field(|p| p.time_in_mesh_quantum = Duration::ZERO), "time_in_mesh_quantum");
    assert_eq!(field(|p| p.time_in_mesh_cap = 0.0), "time_in_mesh_cap");
    assert_eq!(field(|p| p.first_message_deliveries_weight = -1.0), "first_message_deliveries_weight");
    assert_eq!(field(|p| p.first_message_deliveries_decay = 2.0), "first_message_deliveries_decay");
    assert_eq!(field(|p| p.mesh_message_deliveries_weight = 1.0), "mesh_message_deliveries_weight");
    assert_eq!(field(|p| p.mesh_message_deliveries_cap = 0.0), "mesh_message_deliveries_cap");
    assert_eq!(field(|p| p.mesh_message_deliveries_threshold = 0.0), "mesh_message_deliveries_threshold");
    let activation = |p: &mut TopicScoreParams| p.mesh_message_deliveries_activation = Duration::ZERO;
    assert_eq!(field(activation), "mesh_message_deliveries_activation");
    assert_eq!(field(|p| p.mesh_failure_penalty_decay = -0.5), "mesh_failure_penalty_decay");
    assert_eq!(field(|p| p.invalid_message_deliveries_weight = 1.0), "invalid_message_deliveries_weight");
}

#[test]
fn errors_name_invalid_thresholds() {
    let field = |change: fn(&mut PeerScoreThresholds)| {
        let mut thresholds = PeerScoreThresholds::default();
        change(&mut thresholds);
        thresholds.validate().unwrap_err().field
    };
    assert!(PeerScoreThresholds::default().validate().is_ok());
    assert_eq!(field(|t| t.gossip = 1.0), "gossip");
    assert_eq!(field(|t| t.publish = -1.0), "publish");
    assert_eq!(field(|t| t.graylist = -2.0), "graylist");
    assert_eq!(field(|t| t.accept_px = -1.0), "accept_px");
    assert_eq!(field(|t| t.opportunistic_graft = f64::NAN), "opportunistic_graft");
}

#[test]
fn decay_factors_follow_from_the_time_to_decay() {
    let second = Duration::from_secs(1);
    assert_close(score_parameter_decay(Duration::from_secs(7200), second, 0.01), 0.01f64.powf(1.0 / 7200.0));
    let factor = score_parameter_decay(Duration::from_secs(60), second, 0.01);
    assert_close(factor.powi(60), 0.01);
    assert_eq!(score_parameter_decay(Duration::ZERO, second, 0.01), 0.0);
}

proptest! {
    /// After any events, the cached score equals a recomputed one, and no counter goes out of
    /// range.
    #[test]
    fn cached_scores_are_never_stale(
        events in prop::collection::vec((0u8..14, 0u32..5, 0u32..3, 0u64..10), 0..300),
    ) {
        let mut params = PeerScoreParams { ip_colocation_threshold: 1.0, ..PeerScoreParams::default() };
        params.retain_score = Duration::from_secs(20);
        let mut scores = PeerScores::new(Some(params));
        for topic in 0..2 {
            scores.set_topic_params(TopicIdx(topic), TopicScoreParams::default());
        }
        let address = |number: u64| Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number as u8 / 4)));
        for (at, (event, peer, topic, number)) in events.into_iter().enumerate() {
            let now = Time::from_millis(at as u64 * 300);
            let (peer, topic, key) = (PeerId(peer), TopicIdx(topic), MessageKey(number));
            match event {
                0 => scores.add_peer(peer, address(number)),
                1 => scores.set_addresses(peer, [address(number), address(number + 4)].into_iter().flatten()),
                2 => scores.remove_peer(now, peer),
                3 | 4 => scores.graft(now, peer, topic),
                5 => scores.prune(peer, topic),
                6 => scores.validate_message(now, key),
                7 => scores.deliver_message(now, peer, topic, key),
                8 => scores.duplicate_message(now, peer, topic, key),
                9 => scores.reject_message(now, peer, topic, key, true),
                10 => scores.add_penalty(peer, number as f64 / 4.0),
                11 => scores.slow_peer(peer),
                12 => scores.set_app_score(peer, number as f64 - 5.0),
                _ => scores.refresh(now),
            }
            for peer in (0..5).map(PeerId) {
                let fresh = scores.breakdown(peer).map_or(0.0, |parts| parts.total);
                prop_assert!(fresh.is_finite());
                prop_assert_eq!(scores.score(peer), fresh);
            }
        }
    }
}
