//! The engine's configuration for an experiment: go-libp2p-pubsub's defaults, the script's changes
//! to them, and the settings that all runners of test-plans share (`go-libp2p/main.go`,
//! `pubsubOptions`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use samara_gossipsub::Config;
use samara_gossipsub::config::{
    Authenticity, ConfigError, IDontWantConfig, LaneCapacity, LaneLayout, SendingConfig, Withdraw,
};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::partial::{EqualParts, Exchange, FormatHook, PartialConfig};
use samara_gossipsub::rpc::{Message, MessageId, PartialMode, Topic};

use crate::params::{GossipSubParams, Nanos};
use crate::parts::{GROUP_BYTES, PART_BYTES, PARTS};
use crate::script::ID_BYTES;

/// Maximum frame of all runners: 10 MiB.
const RPC_BYTES_MAX: usize = 10 << 20;

/// Maximum payload, which leaves room for the fields around it.
pub(crate) const MESSAGE_BYTES_MAX: usize = RPC_BYTES_MAX - 1024;

/// Frames in the queue of a peer in go-libp2p-pubsub's runner (`WithPeerOutboundQueueSize`).
const GO_QUEUE: usize = 600;

/// Settings beyond the script: queues, and withdrawal of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Lanes for control, own messages, forwarded messages and answers, with withdrawal of useless
    /// copies. One peer at a time is asked for a part.
    Samara,
    /// One queue of 600 frames without withdrawal. All peers are asked for all parts.
    Go,
}

/// Returns the configuration, and the names of parameters that are set but have no effect in this
/// engine.
pub(crate) fn config(
    params: &GossipSubParams,
    profile: Profile,
) -> Result<(Config, Vec<&'static str>), ConfigError> {
    let mut config = base(profile);
    apply(params, &mut config);
    config.validate()?;
    Ok((config, without_meaning(params)))
}

/// Returns the configuration of partial messages in the format of test-plans; `None` without topics.
pub(crate) fn partial(topics: BTreeMap<Topic, PartialMode>, profile: Profile) -> Option<Arc<PartialConfig>> {
    if topics.is_empty() {
        return None;
    }
    let format = EqualParts { parts: PARTS, part_bytes: PART_BYTES, group_bytes: GROUP_BYTES, topics };
    let format = FormatHook::new(format);
    Some(Arc::new(match profile {
        Profile::Samara => PartialConfig::new(format),
        Profile::Go => PartialConfig { exchange: Exchange::everyone(), ..PartialConfig::new(format) },
    }))
}

fn base(profile: Profile) -> Config {
    let go = Config::go_libp2p_pubsub();
    let spec = Config::spec();
    let (sending, withdraw, aggregate_own) = match profile {
        Profile::Samara => (spec.sending, Withdraw::ALWAYS, true),
        Profile::Go => {
            let queue = LaneCapacity::copies(GO_QUEUE);
            let sending = SendingConfig {
                layout: LaneLayout::Shared,
                control: queue,
                publish: queue,
                forward: queue,
                answer: queue,
                ..go.sending.clone()
            };
            (sending, Withdraw::NEVER, false)
        }
    };
    Config {
        authenticity: Authenticity::anonymous(),
        message_id: MessageIdFn::custom(id_of),
        max_message_bytes: MESSAGE_BYTES_MAX,
        max_rpc_bytes: RPC_BYTES_MAX,
        // The node does not deliver its own messages.
        deliver_own: false,
        idontwant: IDontWantConfig { aggregate_own, ..go.idontwant.clone() },
        withdraw,
        sending,
        ..go
    }
}

/// The id is the first 8 bytes. Shorter payloads, which validation rejects, are their own id.
fn id_of(message: &Message) -> MessageId {
    MessageId::new(&message.data[..ID_BYTES.min(message.data.len())])
}

/// Applies the fields as in go-libp2p-pubsub's `GossipSubParams`.
fn apply(params: &GossipSubParams, config: &mut Config) {
    let mesh = &mut config.mesh;
    set(&mut mesh.d, params.d);
    set(&mut mesh.d_low, params.dlo);
    set(&mut mesh.d_high, params.dhi);
    set(&mut mesh.d_score, params.dscore);
    set(&mut mesh.d_out, params.dout);
    set(&mut mesh.d_lazy, params.dlazy);
    set(&mut mesh.gossip_factor, params.gossip_factor);
    set(&mut config.history_length, params.history_length);
    set(&mut config.history_gossip, params.history_gossip);
    set(&mut config.gossip.retransmissions_max, params.gossip_retransmission);
    set_time(&mut config.heartbeat_initial_delay, params.heartbeat_initial_delay);
    set_time(&mut config.heartbeat_interval, params.heartbeat_interval);
    set_time(&mut config.fanout_ttl, params.fanout_ttl);
    set(&mut config.prune_peers, params.prune_peers);
    set_time(&mut config.prune_backoff, params.prune_backoff);
    config.remote_backoff_max = config.remote_backoff_max.max(config.prune_backoff);
    set_time(&mut config.unsubscribe_backoff, params.unsubscribe_backoff);
    set(&mut config.pending_dials_max, params.max_pending_connections);
    set(&mut config.direct_connect_ticks, params.direct_connect_ticks);
    set_time(&mut config.direct_connect_initial_delay, params.direct_connect_initial_delay);
    set(&mut config.opportunistic_graft_ticks, params.opportunistic_graft_ticks);
    set(&mut config.opportunistic_graft_peers, params.opportunistic_graft_peers);
    set_time(&mut config.graft_flood_threshold, params.graft_flood_threshold);
    set(&mut config.gossip.ihave_ids_max, params.max_ihave_length);
    set(&mut config.gossip.ihave_messages_max, params.max_ihave_messages);
    set(&mut config.idontwant.ids_per_rpc_max, params.max_idontwant_length);
    set(&mut config.idontwant.rpcs_per_heartbeat_max, params.max_idontwant_messages);
    set_time(&mut config.gossip.iwant_follow_up, params.iwant_followup_time);
    set(&mut config.idontwant.threshold_bytes, params.idontwant_message_threshold);
    set(&mut config.idontwant.ttl_heartbeats, params.idontwant_message_ttl);
}

fn set<T: Copy>(value: &mut T, given: Option<T>) {
    *value = given.unwrap_or(*value);
}

fn set_time(value: &mut Duration, given: Option<Nanos>) {
    set(value, given.map(|Nanos(given)| given));
}

/// Returns the set parameters without effect: this engine does not measure its heartbeats, and peer
/// exchange is off.
fn without_meaning(params: &GossipSubParams) -> Vec<&'static str> {
    let all = [
        ("SlowHeartbeatWarning", params.slow_heartbeat_warning.is_some()),
        ("Connectors", params.connectors.is_some()),
        ("ConnectionTimeout", params.connection_timeout.is_some()),
    ];
    all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(json: &str) -> GossipSubParams {
        serde_json::from_str(json).unwrap()
    }

    /// `DefaultGossipSubParams` of go-libp2p-pubsub (v0.16.0, `gossipsub.go`).
    #[test]
    fn the_defaults_match_go_libp2p_pubsub() {
        for profile in [Profile::Samara, Profile::Go] {
            let (config, without) = config(&GossipSubParams::default(), profile).unwrap();
            assert!(without.is_empty());
            let mesh = config.mesh;
            assert_eq!((mesh.d, mesh.d_low, mesh.d_high, mesh.d_score, mesh.d_out), (6, 5, 12, 4, 2));
            assert_eq!((mesh.d_lazy, mesh.gossip_factor), (6, 0.25));
            assert_eq!((config.history_length, config.history_gossip), (5, 3));
            assert_eq!(config.heartbeat_initial_delay, Duration::from_millis(100));
            assert_eq!(config.heartbeat_interval, Duration::from_secs(1));
            assert_eq!(config.idontwant.threshold_bytes, 1024);
            assert!(!config.flood_publish && !config.peer_exchange && config.peer_score.is_none());
        }
    }

    #[test]
    fn every_parameter_is_applied() {
        let given = params(
            r#"{"D": 3, "Dlo": 2, "Dhi": 9, "Dscore": 1, "Dout": 0, "HistoryLength": 7, "HistoryGossip": 6, "Dlazy": 0,
                "GossipFactor": 0, "GossipRetransmission": 4, "HeartbeatInitialDelay": 5e6, "HeartbeatInterval": 7e8,
                "FanoutTTL": 2e9, "PrunePeers": 1, "PruneBackoff": 7.2e12, "UnsubscribeBackoff": 3e9,
                "MaxPendingConnections": 12, "DirectConnectTicks": 13, "DirectConnectInitialDelay": 14,
                "OpportunisticGraftTicks": 15, "OpportunisticGraftPeers": 16, "GraftFloodThreshold": 17,
                "MaxIHaveLength": 18, "MaxIHaveMessages": 19, "MaxIDontWantLength": 20, "MaxIDontWantMessages": 21,
                "IWantFollowupTime": 22, "IDontWantMessageThreshold": 23, "IDontWantMessageTTL": 24,
                "SlowHeartbeatWarning": 0.1, "Connectors": 8, "ConnectionTimeout": 3e10}"#,
        );
        let (config, without) = config(&given, Profile::Samara).unwrap();
        let mesh = config.mesh;
        assert_eq!((mesh.d, mesh.d_low, mesh.d_high, mesh.d_score, mesh.d_out), (3, 2, 9, 1, 0));
        assert_eq!((mesh.d_lazy, mesh.gossip_factor), (0, 0.0));
        assert_eq!(
            (config.history_length, config.history_gossip, config.gossip.retransmissions_max),
            (7, 6, 4)
        );
        let nanos = Duration::from_nanos;
        assert_eq!(config.heartbeat_initial_delay, nanos(5_000_000));
        assert_eq!(config.heartbeat_interval, nanos(700_000_000));
        assert_eq!((config.fanout_ttl, config.prune_peers), (Duration::from_secs(2), 1));
        assert_eq!(config.prune_backoff, Duration::from_secs(7200));
        assert_eq!(config.unsubscribe_backoff, Duration::from_secs(3));
        assert_eq!((config.pending_dials_max, config.direct_connect_ticks), (12, 13));
        assert_eq!(config.direct_connect_initial_delay, nanos(14));
        assert_eq!((config.opportunistic_graft_ticks, config.opportunistic_graft_peers), (15, 16));
        assert_eq!(config.graft_flood_threshold, nanos(17));
        assert_eq!((config.gossip.ihave_ids_max, config.gossip.ihave_messages_max), (18, 19));
        let idontwant = &config.idontwant;
        assert_eq!((idontwant.ids_per_rpc_max, idontwant.rpcs_per_heartbeat_max), (20, 21));
        assert_eq!((idontwant.threshold_bytes, idontwant.ttl_heartbeats), (23, 24));
        assert_eq!(config.gossip.iwant_follow_up, nanos(22));
        assert_eq!(without, ["SlowHeartbeatWarning", "Connectors", "ConnectionTimeout"]);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let error = config(&params(r#"{"D": 3}"#), Profile::Samara).unwrap_err().to_string();
        assert!(error.contains("d_low: found 5, expected at most d = 3"), "{error}");
    }
}
