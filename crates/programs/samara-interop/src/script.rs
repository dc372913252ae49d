//! The steps of one node: its part of the script, checked before the first step.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_gossipsub::rpc::{PartialMode, Topic};
use thiserror::Error;

use crate::engine::MESSAGE_BYTES_MAX;
use crate::identity::NodeId;
use crate::params::{GossipSubParams, Instruction};

/// Length of a message's id in bytes, which are the first bytes of its payload.
pub(crate) const ID_BYTES: usize = 8;

/// Maximum wait in seconds: a year.
const WAIT_MAX_S: u64 = 366 * 24 * 3600;

const DELAY_MAX_S: f64 = 3600.0;

#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    /// The place in the script, from 0.
    pub(crate) at: usize,
    pub(crate) action: Action,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Init(Box<GossipSubParams>),
    Connect(Vec<NodeId>),
    WaitUntil(Duration),
    Publish {
        id: u64,
        bytes: usize,
        topic: Topic,
    },
    Subscribe {
        topic: Topic,
        partial: bool,
    },
    /// Adds parts, one bit each, to those known of a group.
    AddPartial {
        topic: Topic,
        group: u64,
        parts: u8,
    },
    PublishPartial {
        topic: Topic,
        group: u64,
    },
    Delay {
        topic: Topic,
        delay: Duration,
    },
}

#[derive(Debug, PartialEq, Error)]
#[error("script[{at}]: {what}")]
pub(crate) struct ScriptError {
    at: usize,
    what: String,
}

/// Returns the steps of the node `me`.
pub(crate) fn steps(script: Vec<Instruction>, me: NodeId) -> Result<Vec<Step>, ScriptError> {
    let mut steps: Vec<Step> = Vec::new();
    for (at, instruction) in script.into_iter().enumerate() {
        let wrong = |what: String| ScriptError { at, what };
        let Some(instruction) = mine(instruction, me) else { continue };
        let action = action(instruction, me).map_err(wrong)?;
        let begun = steps.iter().any(|step| matches!(step.action, Action::Init(_)));
        match (&action, begun) {
            (Action::Init(_), true) => {
                return Err(wrong("found a second initGossipSub for this node, expected one".to_owned()));
            }
            (Action::Init(_) | Action::WaitUntil(_), _) | (_, true) => {}
            (_, false) => {
                return Err(wrong(
                    "GossipSub is not running yet; expected initGossipSub before it".to_owned(),
                ));
            }
        }
        steps.push(Step { at, action });
    }
    Ok(steps)
}

/// Returns what a node with these steps does with partial messages on each topic. A node that only
/// publishes parts needs none.
pub(crate) fn partial_topics(steps: &[Step]) -> BTreeMap<Topic, PartialMode> {
    let mut topics = BTreeMap::new();
    for Step { action, .. } in steps {
        let (topic, mode) = match action {
            Action::Subscribe { topic, partial: true } => (topic, PartialMode::Requests),
            Action::AddPartial { topic, .. } | Action::PublishPartial { topic, .. } => {
                (topic, PartialMode::Supports)
            }
            _ => continue,
        };
        let known: &mut PartialMode = topics.entry(topic.clone()).or_default();
        *known = mode.max(*known);
    }
    topics
}

/// Returns the instruction within its conditions, if they hold.
fn mine(mut instruction: Instruction, me: NodeId) -> Option<Instruction> {
    while let Instruction::IfNodeIdEquals { node_id, instruction: inner } = instruction {
        if node_id != me {
            return None;
        }
        instruction = *inner;
    }
    Some(instruction)
}

fn action(instruction: Instruction, me: NodeId) -> Result<Action, String> {
    Ok(match instruction {
        Instruction::InitGossipSub { gossip_sub_params } => Action::Init(gossip_sub_params),
        Instruction::Connect { connect_to } => {
            if connect_to.contains(&me) {
                return Err(format!("connectTo: found {me}, which is this node; expected others"));
            }
            Action::Connect(connect_to)
        }
        Instruction::WaitUntil { elapsed_seconds } => {
            if elapsed_seconds > WAIT_MAX_S {
                return Err(format!(
                    "elapsedSeconds: found {elapsed_seconds}, expected at most {WAIT_MAX_S}"
                ));
            }
            Action::WaitUntil(Duration::from_secs(elapsed_seconds))
        }
        Instruction::Publish { message_id, message_size_bytes, topic_id } => {
            let bytes = usize::try_from(message_size_bytes).unwrap_or(usize::MAX);
            if !(ID_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes) {
                return Err(format!(
                    "messageSizeBytes: found {message_size_bytes}, expected {ID_BYTES} (the id) to {MESSAGE_BYTES_MAX}"
                ));
            }
            Action::Publish { id: message_id, bytes, topic: Topic::new(&topic_id) }
        }
        Instruction::SubscribeToTopic { topic_id, partial } => {
            Action::Subscribe { topic: Topic::new(&topic_id), partial }
        }
        Instruction::SetTopicValidationDelay { topic_id, delay_seconds } => {
            if !(0.0..=DELAY_MAX_S).contains(&delay_seconds) {
                return Err(format!("delaySeconds: found {delay_seconds}, expected 0 to {DELAY_MAX_S}"));
            }
            Action::Delay { topic: Topic::new(&topic_id), delay: Duration::from_secs_f64(delay_seconds) }
        }
        Instruction::AddPartialMessage { parts, topic_id, group_id } => {
            Action::AddPartial { topic: Topic::new(&topic_id), group: group_id, parts }
        }
        // The router chooses the peers: a list only restricts where the parts go first.
        Instruction::PublishPartial { topic_id, group_id, publish_to_node_ids: _ } => {
            Action::PublishPartial { topic: Topic::new(&topic_id), group: group_id }
        }
        Instruction::IfNodeIdEquals { .. } => unreachable!("`mine` removes the conditions"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str, node: u64) -> Result<Vec<Step>, ScriptError> {
        let script: Vec<Instruction> = serde_json::from_str(script).unwrap();
        steps(script, NodeId::try_from(node).unwrap())
    }

    const INIT: &str = r#"{"type": "initGossipSub", "gossipSubParams": {}}"#;

    #[test]
    fn each_node_gets_its_part_of_the_script() {
        let script = format!(
            r#"[{INIT}, {{"type": "ifNodeIDEquals", "nodeID": 1, "instruction": {{"type": "connect", "connectTo": [0]}}}},
                {{"type": "subscribeToTopic", "topicID": "t"}}, {{"type": "waitUntil", "elapsedSeconds": 2}},
                {{"type": "ifNodeIDEquals", "nodeID": 0, "instruction":
                    {{"type": "publish", "messageID": 9, "messageSizeBytes": 8, "topicID": "t"}}}}]"#
        );
        let at = |steps: &[Step]| steps.iter().map(|step| step.at).collect::<Vec<_>>();
        let zero = of(&script, 0).unwrap();
        assert_eq!(at(&zero), [0, 2, 3, 4]);
        assert_eq!(zero[3].action, Action::Publish { id: 9, bytes: 8, topic: Topic::new("t") });
        assert_eq!(at(&of(&script, 1).unwrap()), [0, 1, 2, 3]);
        assert_eq!(at(&of(&script, 2).unwrap()), [0, 2, 3]);
    }

    #[test]
    fn topics_have_the_part_of_the_node() {
        let script = format!(
            r#"[{INIT}, {{"type": "ifNodeIDEquals", "nodeID": 1, "instruction":
                    {{"type": "subscribeToTopic", "topicID": "t", "partial": true}}}},
                {{"type": "subscribeToTopic", "topicID": "full", "partial": false}},
                {{"type": "addPartialMessage", "parts": 3, "topicID": "t", "groupID": 7}},
                {{"type": "publishPartial", "topicID": "t", "groupID": 7, "publishToNodeIDs": [1]}}]"#
        );
        let topics = |node| partial_topics(&of(&script, node).unwrap());
        assert_eq!(topics(0), BTreeMap::from([(Topic::new("t"), PartialMode::Supports)]));
        assert_eq!(topics(1), BTreeMap::from([(Topic::new("t"), PartialMode::Requests)]));
        let steps = of(&script, 0).unwrap();
        assert_eq!(steps[2].action, Action::AddPartial { topic: Topic::new("t"), group: 7, parts: 3 });
    }

    #[test]
    fn impossible_values_are_refused() {
        for (instruction, expected) in [
            (
                r#"{"type": "publish", "messageID": 1, "messageSizeBytes": 7, "topicID": "t"}"#,
                "messageSizeBytes: found 7",
            ),
            (
                r#"{"type": "publish", "messageID": 1, "messageSizeBytes": 99999999, "topicID": "t"}"#,
                "found 99999999",
            ),
            (r#"{"type": "connect", "connectTo": [1]}"#, "connectTo: found 1, which is this node"),
            (
                r#"{"type": "waitUntil", "elapsedSeconds": 18446744073709551615}"#,
                "elapsedSeconds: found 18446744073709551615",
            ),
            (
                r#"{"type": "setTopicValidationDelay", "topicID": "t", "delaySeconds": -1}"#,
                "delaySeconds: found -1",
            ),
            (INIT, "a second initGossipSub"),
        ] {
            let error = of(&format!("[{INIT}, {instruction}]"), 1).unwrap_err().to_string();
            assert!(error.starts_with("script[1]: ") && error.contains(expected), "{error}");
        }
        let error = of(r#"[{"type": "subscribeToTopic", "topicID": "t"}]"#, 1).unwrap_err().to_string();
        assert!(error.contains("expected initGossipSub before it"), "{error}");
    }
}
