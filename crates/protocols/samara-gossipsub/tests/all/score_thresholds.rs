//! The consequences of scores.

use std::time::Duration;

use crate::common::*;
use samara_engine::outbox::LossCause;
use samara_gossipsub::config::{TopicConfig, Validator, ValidatorHook, Verdict};
use samara_gossipsub::score::{PeerScoreParams, TopicScoreParams};
use samara_gossipsub::{Config, Event, Ignored};

#[test]
fn graylisted_peers_are_ignored_except_for_subscriptions() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 6, 0);
    node.set_score(peers[0], -30.5);
    let mut rpc = publish([message("t", 1, 10)]);
    rpc.subscriptions = subscriptions(true, &["u".to_owned()]).subscriptions;
    node.rpc(peers[0], rpc);
    node.rpc(peers[0], ihave("t", ids(0, 5)));
    node.rpc(peers[0], idontwant(ids(0, 5)));
    node.rpc(peers[0], graft(&["t"]));
    assert!(node.delivered().is_empty());
    assert!(node.sent().0.is_empty());
    assert_eq!(node.engine.sizes().unwanted, 0);
    assert_eq!(node.ignored(Ignored::RpcGraylisted), 4);
    assert_eq!(node.engine.topic_peers(&topic("u")), [peers[0]]);
    node.set_score(peers[0], -30.0);
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    assert_eq!(node.delivered().len(), 1, "at the threshold the peer is not ignored");
}

#[test]
fn below_the_gossip_threshold_there_is_no_gossip_either_way() {
    let (mut node, peers) = Node::on_topic(Config { shuffle_recipients: false, ..scored() }, "t", 8, 8);
    let outside: Vec<_> = peers.iter().copied().filter(|peer| !node.mesh("t").contains(peer)).collect();
    let id = node.publish("t", 10).id;
    node.sent();
    node.set_score(outside[0], -10.5);
    node.rpc(outside[0], ihave("t", ids(0, 5)));
    node.rpc(outside[0], iwant(vec![id]));
    assert!(node.sent().0.is_empty());
    assert_eq!((node.ignored(Ignored::IHaveScore), node.ignored(Ignored::IWantScore)), (5, 1));
    node.heartbeat();
    let announced_to: Vec<_> = node.sent().ihaves().into_iter().map(|(peer, _)| peer).collect();
    assert_eq!(announced_to, [outside[1]]);
}

#[test]
fn the_heartbeat_prunes_members_with_negative_scores_and_grafts_others() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 10, 10);
    let mesh = node.mesh("t");
    for peer in &mesh[..3] {
        node.set_score(*peer, -0.1);
    }
    let sent = node.sent_at_heartbeat();
    assert_eq!(sent.pruned("t"), mesh[..3]);
    assert_eq!(sent.grafts("t").len(), 3);
    assert_eq!(node.mesh("t").len(), 6);
    assert!(mesh[..3].iter().all(|peer| !node.mesh("t").contains(peer)));
    assert_eq!(peers.len(), 10);
}

#[test]
fn a_graft_from_a_peer_with_negative_score_is_refused_with_a_backoff() {
    let (mut node, _) = Node::on_topic(scored(), "t", 0, 0);
    let peer = node.join_peer("t", false);
    node.set_score(peer, -1.0);
    node.rpc(peer, graft(&["t"]));
    assert_eq!(node.sent().pruned("t"), [peer]);
    assert_eq!(node.ignored(Ignored::GraftScore), 1);
    node.set_score(peer, 0.0);
    node.advance(Duration::from_secs(55));
    assert!(node.mesh("t").is_empty());
}

#[test]
fn pruning_keeps_the_best_peers() {
    for seed in 0..20 {
        let mut node = Node::with_seed(scored(), seed);
        node.subscribe("t");
        let peers = node.join_peers("t", 12, true);
        for (at, peer) in peers.iter().enumerate() {
            node.set_score(*peer, at as f64);
            node.rpc(*peer, graft(&["t"]));
        }
        node.heartbeat();
        let mesh = node.mesh("t");
        assert_eq!(mesh.len(), 6);
        assert!(peers[8..].iter().all(|peer| mesh.contains(peer)), "seed {seed}: the best four stay");
    }
}

#[test]
fn validation_feeds_the_score() {
    struct ByLength;
    impl Validator for ByLength {
        fn validate(
            &self,
            _: samara_engine::PeerId,
            _: &samara_gossipsub::rpc::Topic,
            message: &samara_gossipsub::rpc::Message,
        ) -> Verdict {
            match message.data.len() {
                1 => Verdict::Accept,
                2 => Verdict::Ignore,
                _ => Verdict::Reject,
            }
        }
    }
    let mut config = scored();
    let score = TopicScoreParams {
        first_message_deliveries_weight: 1.0,
        invalid_message_deliveries_weight: -1.0,
        ..TopicScoreParams::neutral()
    };
    config.topics.insert(topic("t"), TopicConfig { score: Some(score), ..TopicConfig::default() });
    config.validator = Some(ValidatorHook::new(ByLength));
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, 1)]));
    node.rpc(peers[1], publish([message("t", 2, 2)]));
    node.rpc(peers[2], publish([message("t", 3, 3)]));
    // A copy of a message known to be invalid counts like the first.
    node.rpc(peers[3], publish([message("t", 3, 3)]));
    let scores: Vec<f64> = peers[..5].iter().map(|peer| node.engine.peer_score(*peer)).collect();
    assert_eq!(scores, [1.0, 0.0, -1.0, -1.0, 0.0]);
    assert_eq!(node.delivered().len(), 1);
    assert_eq!((node.ignored(Ignored::MessageIgnored), node.ignored(Ignored::MessageRejected)), (1, 1));
}

#[test]
fn scores_decay() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 1, 0);
    node.rpc(peers[0], prune("t", None));
    node.rpc(peers[0], graft(&["t"]));
    let before = node.engine.peer_score(peers[0]);
    node.advance(Duration::from_millis(10_500));
    let after = node.engine.peer_score(peers[0]);
    assert_eq!(before, -4.0);
    assert!((after - -(2.0 * 0.9f64.powi(10)).powi(2)).abs() < 1e-9, "{after}");
}

#[test]
fn a_slow_peer_loses_score_and_every_loss_is_reported() {
    let mut config = scored();
    config.peer_score = Some(PeerScoreParams { slow_peer_weight: -0.5, ..config.peer_score.unwrap() });
    config.sending.publish.copies = 2;
    let (mut node, peers) = Node::on_topic(config, "t", 1, 0);
    for _ in 0..5 {
        node.publish("t", 10);
    }
    assert_eq!(node.sent().messages().len(), 2);
    assert_eq!(node.engine.metrics().queue_drops(LossCause::DroppedNewest), 3);
    assert_eq!(node.engine.peer_score(peers[0]), -1.5);
    let losses =
        node.events.iter().filter(|event| matches!(event, Event::Lost(lost) if lost.peer == peers[0]));
    assert_eq!(losses.count(), 3);
}

#[test]
fn a_score_outlives_the_link() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 1, 0);
    node.rpc(peers[0], prune("t", None));
    node.rpc(peers[0], graft(&["t"]));
    node.disconnect(peers[0]);
    node.connect_identity(peers[0], identity(0), V1_2, false);
    assert_eq!(node.engine.peer_score(peers[0]), -4.0);
}

#[test]
fn forget_peer_clears_state_once_the_link_is_down() {
    let mut node = Node::new(scored());
    node.subscribe("t");
    let peer = node.connect();
    node.set_score(peer, -1.0);
    node.rpc(peer, prune("t", None));
    node.with(|engine, _| engine.forget_peer(peer));
    assert!(node.engine.peer_score(peer) < 0.0, "the link is still up");
    node.disconnect(peer);
    assert!(node.engine.peer_score(peer) < 0.0 && node.engine.sizes().backoffs == 1);
    node.with(|engine, _| engine.forget_peer(peer));
    assert_eq!((node.engine.peer_score(peer), node.engine.sizes().backoffs), (0.0, 0));
}
