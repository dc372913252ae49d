//! The output: a line of JSON for each event, in the words of go-libp2p's runner, which the
//! analysis of test-plans reads.

use std::io::{self, Write};

use libp2p::PeerId;
use samara_gossipsub::config::Config;
use samara_gossipsub::rpc::{MessageId, Rpc, Topic};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::identity::NodeId;
use crate::script::ID_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Received,
    Sent,
}

#[derive(Debug)]
pub(crate) struct Lines<W> {
    out: W,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes the first line, which identifies the node.
    pub(crate) fn started(&mut self, node: NodeId) -> io::Result<()> {
        let (id, number) = (json!(node.peer_id().to_string()), json!(node.number()));
        self.write("PeerID", [("id", id), ("node_id", number)])?;
        self.out.flush()
    }

    /// Writes that all parts of a group are known. The checks of test-plans count the text of `msg`.
    pub(crate) fn complete(&mut self, topic: &Topic, group: u64) -> io::Result<()> {
        self.write("All parts received", [("topic", json!(topic.as_str())), ("group id", json!(group))])?;
        self.out.flush()
    }

    pub(crate) fn frame(&mut self, way: Way, peer: &PeerId, rpc: &Rpc, config: &Config) -> io::Result<()> {
        let (verb, end) = match way {
            Way::Received => ("Received", "from"),
            Way::Sent => ("Sent", "to"),
        };
        let mut say = |what: &str, fields: &[(&'static str, Option<String>)]| {
            let head = [("service", json!("gossipsub")), (end, json!(peer.to_string()))];
            let fields = fields.iter().filter_map(|(key, value)| Some((*key, json!(value.as_ref()?))));
            self.write(&format!("{verb} {what}"), head.into_iter().chain(fields))
        };
        let named = |topic: &Topic| ("topic", Some(topic.as_str().to_owned()));
        for message in &rpc.publish {
            let topic = message.topic.as_ref().map(|topic| topic.as_str().to_owned());
            say("Message", &[("topic", topic), ("id", Some(decimal(&config.message_id.id(message))))])?;
        }
        for change in &rpc.subscriptions {
            say("Subscription", &[named(&change.topic)])?;
        }
        if let Some(control) = &rpc.control {
            for topic in &control.graft {
                say("Graft", &[named(topic)])?;
            }
            for prune in &control.prune {
                say("Prune", &[named(&prune.topic)])?;
            }
            let ihave = control.ihave.iter().map(|ihave| ("Ihave", ihave.ids.as_slice()));
            let others = [("Idontwant", control.idontwant.as_slice()), ("Iwant", control.iwant.as_slice())];
            for (what, ids) in others.into_iter().chain(ihave).filter(|(_, ids)| !ids.is_empty()) {
                let ids: Vec<String> = ids.iter().map(decimal).collect();
                say(what, &[("ids", Some(format!("[{}]", ids.join(", "))))])?;
            }
        }
        self.out.flush()
    }

    fn write<'a>(&mut self, msg: &str, fields: impl IntoIterator<Item = (&'a str, Value)>) -> io::Result<()> {
        let time = OffsetDateTime::now_utc().format(&Rfc3339).map_err(io::Error::other)?;
        let head = [("time", json!(time)), ("level", json!("INFO")), ("msg", json!(msg))];
        let fields = head.into_iter().chain(fields).map(|(key, value)| (key.to_owned(), value));
        serde_json::to_writer(&mut self.out, &fields.collect::<Map<_, _>>())?;
        self.out.write_all(b"\n")
    }
}

/// Formats an id as a number. Ids of other lengths, which only hostile peers create, are in
/// hexadecimal.
fn decimal(id: &MessageId) -> String {
    match <[u8; ID_BYTES]>::try_from(id.as_bytes()) {
        Ok(bytes) => u64::from_be_bytes(bytes).to_string(),
        Err(_) => format!("0x{id:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use samara_gossipsub::rpc::{Control, IHave, Message};

    use super::*;
    use crate::engine::{Profile, config};
    use crate::params::GossipSubParams;

    fn said(out: &[u8]) -> Vec<Value> {
        let lines = std::str::from_utf8(out).unwrap().lines();
        lines
            .map(|line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                let time = line.as_object_mut().unwrap().remove("time").unwrap();
                OffsetDateTime::parse(time.as_str().unwrap(), &Rfc3339).unwrap();
                assert_eq!(line.as_object_mut().unwrap().remove("level"), Some(json!("INFO")));
                line
            })
            .collect()
    }

    #[test]
    fn frames_are_written_in_the_words_of_go() {
        let node = NodeId::try_from(3).unwrap();
        let peer = NodeId::try_from(4).unwrap().peer_id();
        let message = |data: &'static [u8]| Arc::new(Message::new(Topic::new("t"), Bytes::from_static(data)));
        let id = |number: u64| MessageId::new(&number.to_be_bytes());
        let rpc = Rpc {
            publish: [message(&[0, 0, 0, 0, 0, 0, 1, 2, 9, 9]), message(&[1])].into_iter().collect(),
            control: Some(Box::new(Control {
                graft: vec![Topic::new("g")],
                ihave: vec![IHave { topic: Topic::new("t"), ids: vec![id(5)] }],
                idontwant: vec![id(7), id(8)],
                ..Control::default()
            })),
            ..Rpc::default()
        };
        let (config, _) = config(&GossipSubParams::default(), Profile::Samara).unwrap();
        let mut lines = Lines::new(Vec::new());
        lines.started(node).unwrap();
        lines.frame(Way::Received, &peer, &rpc, &config).unwrap();
        let from = peer.to_string();
        assert_eq!(
            said(&lines.out),
            [
                json!({"msg": "PeerID", "id": node.peer_id().to_string(), "node_id": 3}),
                json!({"msg": "Received Message", "service": "gossipsub", "from": from, "topic": "t", "id": "258"}),
                json!({"msg": "Received Message", "service": "gossipsub", "from": from, "topic": "t", "id": "0x01"}),
                json!({"msg": "Received Graft", "service": "gossipsub", "from": from, "topic": "g"}),
                json!({"msg": "Received Idontwant", "service": "gossipsub", "from": from, "ids": "[7, 8]"}),
                json!({"msg": "Received Ihave", "service": "gossipsub", "from": from, "ids": "[5]"}),
            ]
        );
        let mut lines = Lines::new(Vec::new());
        lines.frame(Way::Sent, &peer, &rpc, &config).unwrap();
        assert_eq!(
            said(&lines.out)[0],
            json!({"msg": "Sent Message", "service": "gossipsub", "to": from, "topic": "t", "id": "258"})
        );
    }
}
