//! The parameters of GossipSub, as the scenario has them.

use std::fmt::Display;
use std::time::Duration;

use libp2p::gossipsub::{self, MessageId};
use samara_engine::outbox::Schedule;
use samara_gossipsub::Config;
use samara_gossipsub::config::Parameters;
use samara_gossipsub::rpc::{Message, Topic};
use serde_json::{Map, Value};

/// Number of frames that wait for a peer, as many as Samara's presets allow (`roomyQueue` of go-host).
const QUEUE: usize = 5_000;

/// The keys that this host supports.
const KEYS: [&str; 16] = [
    "preset",
    "version",
    "degree",
    "degree_low",
    "degree_high",
    "degree_lazy",
    "degree_score",
    "degree_out",
    "heartbeat",
    "history_length",
    "history_gossip",
    "gossip_factor",
    "flood_publish",
    "idontwant",
    "queue",
    // Only publishers of batches need it.
    "schedule_publish",
];
/// Other keys, with the values as which the library behaves.
const VALUES: [(&str, &str); 4] = [
    ("kind", "gossipsub"),
    ("withdraw", "false"),
    ("gossip_to_pruned", "false"),
    ("idontwant_on_publish", "false"),
];

/// The values of `[protocol]` that the library reads.
pub(crate) struct Protocol {
    config: Config,
    queue: usize,
}

impl Protocol {
    /// Reads the keys. Refuses what rust-libp2p's gossipsub does not support.
    pub(crate) fn read(keys: &Map<String, Value>, has_cells: bool) -> Result<Self, String> {
        let refuse = |key: &str, found: &dyn Display, expected: &str| {
            Err(format!(
                "protocol.{key}: found {found}, expected {expected}; remove the key, or use Samara's own \
                 hosts"
            ))
        };
        for (key, value) in keys.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())) {
            let known = VALUES.iter().find(|(known, _)| known == key);
            let found = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match known {
                Some((_, expected)) if *expected == found => {}
                Some((_, expected)) => return refuse(key, &found, expected),
                None if key == "parts" && *value == serde_json::json!({ "asking": "everyone" }) => {}
                None if key == "parts" => return refuse(key, &found, "only asking = \"everyone\""),
                None => return refuse(key, &found, "no such key"),
            }
        }
        // The library offers all versions up to 1.3, and hosts agree on the newest that both have.
        match keys.get("version").and_then(Value::as_str).unwrap_or("1.2") {
            "1.3" => {}
            "1.2" if !has_cells => {}
            found if has_cells => return refuse("version", &found, "1.3 for cells"),
            found => return refuse("version", &found, "1.2 or 1.3"),
        }
        let mut keys = keys.clone();
        keys.shift_remove("kind");
        let written: Parameters =
            serde_json::from_value(Value::Object(keys)).map_err(|error| format!("protocol: {error}"))?;
        Ok(Self { config: written.build(), queue: written.queue.unwrap_or(QUEUE) })
    }

    /// Returns whether the messages of a batch leave one after the other.
    pub(crate) fn is_sequential(&self) -> bool {
        matches!(self.config.schedule_publish, Schedule::Sequential)
    }

    /// Returns the configuration of the library.
    pub(crate) fn gossip(&self) -> Result<gossipsub::Config, String> {
        let (own, id) = (&self.config, self.config.message_id.clone());
        let id_of = move |message: &gossipsub::Message| {
            let message = Message::new(Topic::new(message.topic.as_str()), message.data.clone().into());
            MessageId::new(id.id(&message).as_bytes())
        };
        let threshold = if own.idontwant.send { own.idontwant.threshold_bytes } else { usize::MAX };
        gossipsub::ConfigBuilder::default()
            .mesh_n(own.mesh.d)
            .mesh_n_low(own.mesh.d_low)
            .mesh_n_high(own.mesh.d_high)
            .retain_scores(own.mesh.d_score)
            .mesh_outbound_min(own.mesh.d_out)
            .gossip_lazy(own.mesh.d_lazy)
            .gossip_factor(own.mesh.gossip_factor)
            .history_length(own.history_length)
            .history_gossip(own.history_gossip)
            // That of go-libp2p-pubsub. The library waits for five seconds by default.
            .heartbeat_initial_delay(Duration::from_millis(100))
            .heartbeat_interval(own.heartbeat_interval)
            .fanout_ttl(own.fanout_ttl)
            .prune_backoff(own.prune_backoff)
            .unsubscribe_backoff(own.unsubscribe_backoff)
            .duplicate_cache_time(own.seen_ttl)
            .idontwant_message_size_threshold(threshold)
            .flood_publish(own.flood_publish)
            .connection_handler_queue_len(self.queue)
            .max_transmit_size(own.max_rpc_bytes)
            .validation_mode(gossipsub::ValidationMode::Anonymous)
            .message_id_fn(id_of)
            .build()
            .map_err(|error| format!("protocol: {error}"))
    }
}
