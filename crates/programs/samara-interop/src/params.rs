//! The parameters of an experiment, as `gossipsub-interop/experiment.py` writes them.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::identity::NodeId;

/// Maximum file size in bytes: the script of 10,000 nodes has some 4 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The instructions of all nodes, in order.
    pub(crate) script: Vec<Instruction>,
}

impl Params {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let wrong = |what: String| format!("{}: {what}", path.display());
        if path.extension().is_none_or(|extension| extension != "json") {
            return Err(wrong("expected a file whose name ends in .json".to_owned()));
        }
        let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(format!("found {bytes} bytes, expected at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut json = serde_json::Deserializer::from_str(text);
        let params = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
        json.end().map_err(|error| error.to_string())?;
        Ok(params)
    }
}

/// An instruction of a script (`script_instruction.py`).
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(crate) enum Instruction {
    InitGossipSub {
        gossip_sub_params: Box<GossipSubParams>,
    },
    Connect {
        connect_to: Vec<NodeId>,
    },
    /// An instruction for one node only.
    #[serde(rename = "ifNodeIDEquals")]
    IfNodeIdEquals {
        #[serde(rename = "nodeID")]
        node_id: NodeId,
        instruction: Box<Instruction>,
    },
    WaitUntil {
        elapsed_seconds: u64,
    },
    Publish {
        /// The message's id, which is its first 8 bytes.
        #[serde(rename = "messageID")]
        message_id: u64,
        message_size_bytes: u64,
        #[serde(rename = "topicID")]
        topic_id: String,
    },
    SubscribeToTopic {
        #[serde(rename = "topicID")]
        topic_id: String,
        #[serde(default)]
        partial: bool,
    },
    /// Sets the time until a message has been checked.
    SetTopicValidationDelay {
        #[serde(rename = "topicID")]
        topic_id: String,
        delay_seconds: f64,
    },
    AddPartialMessage {
        /// The parts of the message, one bit each.
        parts: u8,
        #[serde(rename = "topicID")]
        topic_id: String,
        #[serde(rename = "groupID")]
        group_id: u64,
    },
    PublishPartial {
        #[serde(rename = "topicID")]
        topic_id: String,
        #[serde(rename = "groupID")]
        group_id: u64,
        #[serde(rename = "publishToNodeIDs", default)]
        #[allow(dead_code, reason = "parsed for validation only; the router chooses the peers")]
        publish_to_node_ids: Option<Vec<NodeId>>,
    },
}

/// The fields of go-libp2p-pubsub's `GossipSubParams`. Absent fields have the defaults of that
/// type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
pub(crate) struct GossipSubParams {
    pub(crate) d: Option<usize>,
    pub(crate) dlo: Option<usize>,
    pub(crate) dhi: Option<usize>,
    pub(crate) dscore: Option<usize>,
    pub(crate) dout: Option<usize>,
    pub(crate) history_length: Option<usize>,
    pub(crate) history_gossip: Option<usize>,
    pub(crate) dlazy: Option<usize>,
    pub(crate) gossip_factor: Option<f64>,
    pub(crate) gossip_retransmission: Option<u32>,
    pub(crate) heartbeat_initial_delay: Option<Nanos>,
    pub(crate) heartbeat_interval: Option<Nanos>,
    pub(crate) slow_heartbeat_warning: Option<f64>,
    #[serde(rename = "FanoutTTL")]
    pub(crate) fanout_ttl: Option<Nanos>,
    pub(crate) prune_peers: Option<usize>,
    pub(crate) prune_backoff: Option<Nanos>,
    pub(crate) unsubscribe_backoff: Option<Nanos>,
    pub(crate) connectors: Option<usize>,
    pub(crate) max_pending_connections: Option<usize>,
    pub(crate) connection_timeout: Option<Nanos>,
    pub(crate) direct_connect_ticks: Option<u64>,
    pub(crate) direct_connect_initial_delay: Option<Nanos>,
    pub(crate) opportunistic_graft_ticks: Option<u64>,
    pub(crate) opportunistic_graft_peers: Option<usize>,
    pub(crate) graft_flood_threshold: Option<Nanos>,
    #[serde(rename = "MaxIHaveLength")]
    pub(crate) max_ihave_length: Option<usize>,
    #[serde(rename = "MaxIHaveMessages")]
    pub(crate) max_ihave_messages: Option<u32>,
    #[serde(rename = "MaxIDontWantLength")]
    pub(crate) max_idontwant_length: Option<usize>,
    #[serde(rename = "MaxIDontWantMessages")]
    pub(crate) max_idontwant_messages: Option<u32>,
    #[serde(rename = "IWantFollowupTime")]
    pub(crate) iwant_followup_time: Option<Nanos>,
    #[serde(rename = "IDontWantMessageThreshold")]
    pub(crate) idontwant_message_threshold: Option<usize>,
    /// Number of heartbeats, as in Go.
    #[serde(rename = "IDontWantMessageTTL")]
    pub(crate) idontwant_message_ttl: Option<u64>,
}

/// A duration in nanoseconds, which may have a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nanos(pub(crate) Duration);

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(found / 1e9)
            .map(Self)
            .map_err(|_| de::Error::custom(format!("found {found}, expected nanoseconds, 0 or more")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Params::parse(text).unwrap_err()
    }

    /// An abbreviated output of `experiment.py` for its scenarios.
    #[test]
    fn scripts_are_parsed() {
        let params = Params::parse(
            r#"{"script": [
                {"type": "ifNodeIDEquals", "nodeID": 1, "instruction":
                    {"type": "initGossipSub", "gossipSubParams": {"D": 8, "HeartbeatInitialDelay": 100200000.0, "IDontWantMessageTTL": 3}}},
                {"type": "setTopicValidationDelay", "topicID": "a-subnet", "delaySeconds": 0.005},
                {"type": "ifNodeIDEquals", "nodeID": 0, "instruction": {"type": "connect", "connectTo": [1, 2]}},
                {"type": "subscribeToTopic", "topicID": "a-subnet", "partial": false},
                {"type": "subscribeToTopic", "topicID": "b-subnet"},
                {"type": "waitUntil", "elapsedSeconds": 120},
                {"type": "publish", "messageID": 3, "messageSizeBytes": 98304, "topicID": "a-subnet"},
                {"type": "addPartialMessage", "parts": 255, "topicID": "a", "groupID": 7},
                {"type": "publishPartial", "topicID": "a", "groupID": 7, "publishToNodeIDs": [1]}
            ]}"#,
        )
        .unwrap();
        assert_eq!(params.script.len(), 9);
        let Instruction::IfNodeIdEquals { node_id, instruction } = &params.script[0] else {
            panic!("{params:?}")
        };
        assert_eq!(node_id.number(), 1);
        let Instruction::InitGossipSub { gossip_sub_params } = &**instruction else { panic!("{params:?}") };
        let expected = GossipSubParams {
            d: Some(8),
            heartbeat_initial_delay: Some(Nanos(Duration::from_micros(100_200))),
            idontwant_message_ttl: Some(3),
            ..GossipSubParams::default()
        };
        assert_eq!(**gossip_sub_params, expected);
        assert!(matches!(
            &params.script[6],
            Instruction::Publish { message_id: 3, message_size_bytes: 98_304, .. }
        ));
    }

    #[test]
    fn errors_name_the_place() {
        let wrong = error(r#"{"script": [{"type": "waitUntil", "elapsedSeconds": 1}, {"type": "sleep"}]}"#);
        assert!(wrong.starts_with("script[1]") && wrong.contains("sleep"), "{wrong}");
        let wrong = error(r#"{"script": [{"type": "waitUntil", "elapsedSeconds": 1.5}]}"#);
        assert!(wrong.starts_with("script[0]") && wrong.contains("1.5"), "{wrong}");
        let wrong = error(r#"{"script": [{"type": "initGossipSub", "gossipSubParams": {"Dx": 1}}]}"#);
        assert!(wrong.starts_with("script[0]") && wrong.contains("`Dx`"), "{wrong}");
        let wrong = error(r#"{"script": [{"type": "initGossipSub", "gossipSubParams": {"FanoutTTL": -1}}]}"#);
        assert!(wrong.contains("found -1, expected nanoseconds"), "{wrong}");
        let wrong = error(r#"{"script": [{"type": "connect", "connectTo": [-1]}]}"#);
        assert!(wrong.starts_with("script[0]") && wrong.contains("-1"), "{wrong}");
        let wrong = error(r#"{"script": []} x"#);
        assert!(wrong.contains("trailing"), "{wrong}");
        let wrong = Params::read(Path::new("params.toml")).unwrap_err();
        assert!(wrong.contains("params.toml: expected a file whose name ends in .json"), "{wrong}");
    }

    /// A script cannot make the stack overflow.
    #[test]
    fn depth_is_bounded() {
        let deep = 10_000;
        let text = format!(
            r#"{{"script": [{}{{"type": "waitUntil", "elapsedSeconds": 1}}{}]}}"#,
            r#"{"type": "ifNodeIDEquals", "nodeID": 1, "instruction": "#.repeat(deep),
            "}".repeat(deep)
        );
        assert!(error(&text).contains("recursion limit"), "{}", error(&text));
    }
}
