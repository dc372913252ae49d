//! The parameters of GossipSub: from the scenario to the engine.

use samara_engine::PeerId;
use samara_engine::outbox::{Dispatch, FeedbackSource, MessageOrder, Overflow, PeerOrder, Schedule, Weight};
use samara_gossipsub::Config;
use samara_gossipsub::cache::SeenStrategy;
use samara_gossipsub::config::{Authenticity, LaneCapacity, LaneLayout};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::score::PeerScoreParams;

use crate::scenario as model;
use crate::units::{Size, Span};

/// The engine's schedule. `observer` is the peer whose word counts, where it is linked.
pub(crate) fn schedule(schedule: &model::Schedule, observer: Option<PeerId>) -> Schedule {
    match schedule {
        model::Schedule::Sequential => Schedule::Sequential,
        model::Schedule::Interleaved { messages, peers } => {
            Schedule::Interleaved { messages: message_order(*messages), peers: peer_order(*peers) }
        }
        model::Schedule::Staggered { timeout } => Schedule::Staggered { timeout: timeout.duration() },
        model::Schedule::Feedback { source, cap, messages, peers } => Schedule::Feedback {
            source: match (source, observer) {
                (model::FeedbackSource::Observer, Some(observer)) => FeedbackSource::Observer(observer),
                _ => FeedbackSource::Peers { cap: *cap },
            },
            messages: message_order(*messages),
            peers: peer_order(*peers),
        },
    }
}

fn message_order(order: model::MessageOrder) -> MessageOrder {
    match order {
        model::MessageOrder::AsGiven => MessageOrder::AsGiven,
        model::MessageOrder::Shuffled => MessageOrder::Shuffled,
    }
}

fn peer_order(order: model::PeerOrder) -> PeerOrder {
    match order {
        model::PeerOrder::AsGiven => PeerOrder::AsGiven,
        model::PeerOrder::Random => PeerOrder::Random,
        model::PeerOrder::Balanced => PeerOrder::Balanced,
        model::PeerOrder::WeightedScore => PeerOrder::Weighted(Weight::Score),
        model::PeerOrder::WeightedLatency => PeerOrder::Weighted(Weight::Latency),
        model::PeerOrder::WeightedBandwidth => PeerOrder::Weighted(Weight::Bandwidth),
    }
}

/// The engine's configuration, the same for all nodes. Messages carry neither author nor signature, so that ids that would
/// be made of them are those of the reference runs: the first 20 bytes of SHA-256 of the payload.
pub(super) fn config(spec: &model::GossipSub) -> Config {
    let mut config = match spec.preset {
        model::Preset::Spec => Config::spec(),
        model::Preset::Ethereum => Config::ethereum(),
        model::Preset::GoLibp2pPubsub => Config::go_libp2p_pubsub(),
    };
    config.authenticity = Authenticity::anonymous();
    if spec.preset != model::Preset::Ethereum {
        config.message_id = MessageIdFn::Sha256Data { len: 20 };
    }
    mesh(spec, &mut config);
    gossip(spec, &mut config);
    sending(spec, &mut config);
    config
}

fn set<T, U>(target: &mut T, value: &Option<U>, convert: impl Fn(&U) -> T) {
    if let Some(value) = value {
        *target = convert(value);
    }
}

fn count(value: &u32) -> usize {
    *value as usize
}

fn bytes(value: &Size) -> usize {
    usize::try_from(value.bytes()).unwrap_or(usize::MAX)
}

fn span(value: &Span) -> std::time::Duration {
    value.duration()
}

fn mesh(spec: &model::GossipSub, config: &mut Config) {
    set(&mut config.mesh.d, &spec.degree, count);
    set(&mut config.mesh.d_low, &spec.degree_low, count);
    set(&mut config.mesh.d_high, &spec.degree_high, count);
    set(&mut config.mesh.d_lazy, &spec.degree_lazy, count);
    set(&mut config.mesh.d_score, &spec.degree_score, count);
    set(&mut config.mesh.d_out, &spec.degree_out, count);
    set(&mut config.heartbeat_interval, &spec.heartbeat, span);
    set(&mut config.heartbeat_initial_delay, &spec.heartbeat_initial_delay, span);
    set(&mut config.heartbeat_random_phase, &spec.heartbeat_random_phase, |value| *value);
    set(&mut config.prune_backoff, &spec.prune_backoff, span);
    set(&mut config.unsubscribe_backoff, &spec.unsubscribe_backoff, span);
    set(&mut config.backoff_slack, &spec.backoff_slack, span);
    set(&mut config.graft_flood_threshold, &spec.graft_flood_threshold, span);
    set(&mut config.opportunistic_graft_ticks, &spec.opportunistic_graft_ticks, |value| (*value).into());
    set(&mut config.opportunistic_graft_peers, &spec.opportunistic_graft_peers, count);
    set(&mut config.graft_on_subscribe, &spec.graft_on_subscribe, |value| *value);
    set(&mut config.fanout_ttl, &spec.fanout_ttl, span);
    set(&mut config.peer_exchange, &spec.peer_exchange, |value| *value);
    set(&mut config.prune_peers, &spec.prune_peers, count);
    match spec.score {
        Some(true) if config.peer_score.is_none() => config.peer_score = Some(PeerScoreParams::default()),
        Some(false) => config.peer_score = None,
        _ => {}
    }
}

fn gossip(spec: &model::GossipSub, config: &mut Config) {
    set(&mut config.history_length, &spec.history_length, count);
    set(&mut config.history_gossip, &spec.history_gossip, count);
    set(&mut config.mesh.gossip_factor, &spec.gossip_factor, |value| value.fraction());
    set(&mut config.gossip.ihave_ids_max, &spec.ihave_ids_max, count);
    set(&mut config.gossip.ihave_messages_max, &spec.ihave_messages_max, |value| *value);
    set(&mut config.gossip.iwant_ids_max, &spec.iwant_ids_max, count);
    set(&mut config.gossip.iwant_follow_up, &spec.iwant_follow_up, span);
    set(&mut config.gossip.retransmissions_max, &spec.retransmissions_max, |value| *value);
    set(&mut config.seen_ttl, &spec.seen_ttl, span);
    set(&mut config.seen_strategy, &spec.seen_strategy, |value| match value {
        model::SeenStrategy::FirstSeen => SeenStrategy::FirstSeen,
        model::SeenStrategy::LastSeen => SeenStrategy::LastSeen,
    });
    set(&mut config.flood_publish, &spec.flood_publish, |value| *value);
    set(&mut config.flood_publish_max_bytes, &spec.flood_publish_max, bytes);
    set(&mut config.max_message_bytes, &spec.max_message_size, bytes);
    // A frame must have room for its message: 1 KiB for the topic and the fields around it.
    config.max_rpc_bytes = config.max_rpc_bytes.max(config.max_message_bytes.saturating_add(1024));
    let idontwant = &mut config.idontwant;
    set(&mut idontwant.send, &spec.idontwant, |value| *value);
    set(&mut idontwant.threshold_bytes, &spec.idontwant_threshold, bytes);
    set(&mut idontwant.on_publish, &spec.idontwant_on_publish, |value| *value);
    set(&mut idontwant.ids_per_rpc_max, &spec.idontwant_ids_per_rpc, count);
    set(&mut idontwant.ttl_heartbeats, &spec.idontwant_ttl, |value| (*value).into());
    let withdraw = &mut config.withdraw;
    set(&mut withdraw.on_idontwant, &spec.withdraw_on_idontwant, |value| *value);
    set(&mut withdraw.on_copy, &spec.withdraw_on_copy, |value| *value);
    set(&mut withdraw.on_ihave, &spec.withdraw_on_ihave, |value| *value);
    set(&mut withdraw.on_iwant, &spec.withdraw_on_iwant, |value| *value);
}

fn sending(spec: &model::GossipSub, config: &mut Config) {
    // Trusted observers are linked only once the run goes; publishing looks them up then.
    set(&mut config.schedule_publish, &spec.publish, |value| schedule(value, None));
    set(&mut config.schedule_forward, &spec.forward, |value| schedule(value, None));
    set(&mut config.shuffle_recipients, &spec.shuffle_recipients, |value| *value);
    set(&mut config.publish_deadline, &spec.publish_deadline, |value| Some(value.duration()));
    set(&mut config.forward_deadline, &spec.forward_deadline, |value| Some(value.duration()));
    let sending = &mut config.sending;
    set(&mut sending.dispatch, &spec.dispatch, |value| match value {
        model::Dispatch::PerLink => Dispatch::PerLink,
        model::Dispatch::Node => Dispatch::Node,
    });
    set(&mut sending.layout, &spec.lanes, |value| match value {
        model::LaneLayout::Split => LaneLayout::Split,
        model::LaneLayout::Shared => LaneLayout::Shared,
    });
    set(&mut sending.patience, &spec.patience, span);
    set(&mut sending.control.copies, &spec.control_capacity, count);
    let data: [&mut LaneCapacity; 3] = [&mut sending.publish, &mut sending.forward, &mut sending.answer];
    for lane in data {
        set(&mut lane.copies, &spec.queue_capacity, count);
        set(&mut lane.bytes, &spec.queue_size, |value| value.bytes());
        set(&mut lane.overflow, &spec.overflow, overflow);
    }
    set(&mut sending.control.overflow, &spec.overflow, overflow);
}

fn overflow(value: &model::Overflow) -> Overflow {
    match value {
        model::Overflow::Block => Overflow::Block,
        model::Overflow::DropNewest => Overflow::DropNewest,
        model::Overflow::DropOldest => Overflow::DropOldest,
    }
}
