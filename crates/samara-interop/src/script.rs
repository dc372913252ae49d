//! The steps of one node: its part of the script, checked before the first step.

use std::time::Duration;

use samara_gossipsub::rpc::Topic;
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
    Publish { id: u64, bytes: usize, topic: Topic },
    Subscribe(Topic),
    Delay { topic: Topic, delay: Duration },
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
    let partial = |what: &str| {
        format!(
            "found {what}, but this engine has no partial messages (docs/guides/interop.md, \"Deviations\"); \
             run a scenario without them (subnet-blob-msg, simple-fanout), or give this node to another implementation"
        )
    };
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
        Instruction::SubscribeToTopic { partial: true, .. } => {
            return Err(partial("subscribeToTopic with \"partial\": true"));
        }
        Instruction::SubscribeToTopic { topic_id, partial: false } => {
            Action::Subscribe(Topic::new(&topic_id))
        }
        Instruction::SetTopicValidationDelay { topic_id, delay_seconds } => {
            if !(0.0..=DELAY_MAX_S).contains(&delay_seconds) {
                return Err(format!("delaySeconds: found {delay_seconds}, expected 0 to {DELAY_MAX_S}"));
            }
            Action::Delay { topic: Topic::new(&topic_id), delay: Duration::from_secs_f64(delay_seconds) }
        }
        Instruction::AddPartialMessage { .. } => return Err(partial("addPartialMessage")),
        Instruction::PublishPartial { .. } => return Err(partial("publishPartial")),
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
    fn unsupported_instructions_are_refused_at_their_node() {
        let script = format!(
            r#"[{INIT}, {{"type": "ifNodeIDEquals", "nodeID": 1, "instruction":
                {{"type": "addPartialMessage", "parts": 1, "topicID": "t", "groupID": 7}}}}]"#
        );
        assert!(of(&script, 0).is_ok(), "the instruction is for another node");
        let error = of(&script, 1).unwrap_err().to_string();
        assert!(error.starts_with("script[1]: found addPartialMessage, but"), "{error}");
        for partial in [
            r#"{"type": "subscribeToTopic", "topicID": "t", "partial": true}"#,
            r#"{"type": "publishPartial", "topicID": "t", "groupID": 7}"#,
        ] {
            let error = of(&format!("[{INIT}, {partial}]"), 1).unwrap_err().to_string();
            assert!(error.contains("no partial messages"), "{error}");
        }
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
