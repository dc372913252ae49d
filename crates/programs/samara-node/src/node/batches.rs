//! The batches that this node published, and their copies that have left.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use libp2p::PeerId;
use samara_engine::MessageKey;
use samara_gossipsub::Receipt;
use samara_gossipsub::rpc::Topic;

use crate::model::{BatchReport, MessageReport, SentCopy};
use samara_trace::unix_ns;

/// Maximum number of messages whose copies the node tracks. It drops the oldest batches first.
const MESSAGES_KEPT: usize = 16_384;
/// Copies of one message that a report lists. Further ones are only counted.
const COPIES_KEPT: usize = 1024;
/// Maximum number of topics with a warning in the log that no connected peer has joined them.
const UNJOINED_KEPT: usize = 1024;

#[derive(Debug)]
struct Tracked {
    topic: String,
    note: Option<String>,
    receipt: Result<Receipt, String>,
    sent: Vec<SentCopy>,
    sent_more: usize,
}

#[derive(Debug)]
struct Batch {
    published_at_unix_ns: u64,
    messages: Vec<Tracked>,
}

#[derive(Debug, Default)]
pub(crate) struct Batches {
    next: u64,
    kept: BTreeMap<u64, Batch>,
    messages: usize,
    by_key: HashMap<MessageKey, (u64, usize)>,
    /// Topics without a peer, of which the log has a warning.
    unjoined: BTreeSet<String>,
}

impl Batches {
    /// Adds a published batch. `topics` has the topic of each message. `joined` returns the number of
    /// connected peers that have joined a topic.
    pub(crate) fn add(
        &mut self,
        published_at_unix_ns: u64,
        topics: Vec<String>,
        receipts: Vec<Result<Receipt, String>>,
        joined: impl Fn(&Topic) -> usize,
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        let mut messages = Vec::with_capacity(receipts.len());
        for (at, (topic, receipt)) in topics.into_iter().zip(receipts).enumerate() {
            let mut note = None;
            if let Ok(receipt) = &receipt {
                self.by_key.insert(receipt.key, (id, at));
                if receipt.peers == 0 {
                    let text = unheard(&topic, joined(&receipt.topic));
                    if self.is_first_unheard(&topic) {
                        tracing::warn!("{text}");
                    }
                    note = Some(text);
                }
            }
            messages.push(Tracked { topic, receipt, note, sent: Vec::new(), sent_more: 0 });
        }
        self.messages += messages.len();
        self.kept.insert(id, Batch { published_at_unix_ns, messages });
        while self.messages > MESSAGES_KEPT && self.kept.len() > 1 {
            self.forget_oldest();
        }
        id
    }

    /// Returns true once for each topic, up to a bound, so that the log has one warning of each.
    fn is_first_unheard(&mut self, topic: &str) -> bool {
        self.unjoined.len() < UNJOINED_KEPT && self.unjoined.insert(topic.to_owned())
    }

    fn forget_oldest(&mut self) {
        let Some((_, batch)) = self.kept.pop_first() else { return };
        self.messages -= batch.messages.len();
        for receipt in batch.messages.iter().filter_map(|message| message.receipt.as_ref().ok()) {
            self.by_key.remove(&receipt.key);
        }
    }

    /// Records that a copy was written. Ignores copies of messages of other nodes.
    pub(crate) fn sent(&mut self, key: MessageKey, peer: PeerId, rank: u32) {
        let Some((id, at)) = self.by_key.get(&key) else { return };
        let batch = self.kept.get_mut(id);
        let Some(message) = batch.and_then(|batch| batch.messages.get_mut(*at)) else { return };
        if message.sent.len() < COPIES_KEPT {
            message.sent.push(SentCopy { peer: peer.to_string(), at_unix_ns: unix_ns(), rank });
        } else {
            message.sent_more += 1;
        }
    }

    /// Reports the state of a batch. `owed_to` returns the peers to which a copy of a message is
    /// still owed.
    pub(crate) fn report(
        &self,
        id: u64,
        mut owed_to: impl FnMut(MessageKey) -> Vec<PeerId>,
    ) -> Option<BatchReport> {
        let batch = self.kept.get(&id)?;
        let mut report = BatchReport {
            batch: id,
            published_at_unix_ns: batch.published_at_unix_ns,
            copies: 0,
            sent: 0,
            owed: 0,
            not_sent: 0,
            complete: true,
            messages: Vec::with_capacity(batch.messages.len()),
        };
        for message in &batch.messages {
            let message = message.report(&mut owed_to);
            if let MessageReport::Published { copies, sent, owed, not_sent, .. } = &message {
                report.copies += copies;
                report.sent += sent;
                report.owed += owed;
                report.not_sent += not_sent;
                report.complete &= *owed == 0;
            }
            report.messages.push(message);
        }
        Some(report)
    }
}

impl Tracked {
    fn report(&self, owed_to: &mut impl FnMut(MessageKey) -> Vec<PeerId>) -> MessageReport {
        let topic = self.topic.clone();
        let receipt = match &self.receipt {
            Ok(receipt) => receipt,
            Err(error) => return MessageReport::Failed { topic, error: error.clone() },
        };
        let owed_to = owed_to(receipt.key);
        let copies = receipt.owed();
        let sent = self.sent.len() + self.sent_more;
        MessageReport::Published {
            topic,
            id: format!("{:?}", receipt.id),
            copies,
            lost: receipt.lost,
            sent,
            owed: owed_to.len(),
            // Answers to IWANT come on top of the copies that the message owed at first.
            not_sent: copies.saturating_sub(sent + owed_to.len()),
            note: self.note.clone(),
            sent_copies: self.sent.clone(),
            owed_to: owed_to.iter().map(PeerId::to_string).collect(),
        }
    }
}

/// Returns the note of a message that nobody receives. `joined` peers have joined its topic.
fn unheard(topic: &str, joined: usize) -> String {
    let why = match joined {
        0 => format!("no connected peer has joined topic {topic}"),
        1 => format!("the peer that has joined topic {topic} is not in the mesh yet"),
        _ => format!("none of the {joined} peers that have joined topic {topic} is in the mesh yet"),
    };
    format!("{why}: the message went to nobody; publish another one when samara_mesh_size is above 0")
}

#[cfg(test)]
mod tests {
    use samara_gossipsub::rpc::MessageId;

    use super::*;

    fn receipt(key: u64) -> Result<Receipt, String> {
        let (id, topic) = (MessageId::new(&key.to_be_bytes()), Topic::new("t"));
        Ok(Receipt { id, key: MessageKey(key), topic, peers: 3, lost: 1 })
    }

    #[test]
    fn copies_are_sent_owed_or_neither() {
        let mut batches = Batches::default();
        let (a, b) = (PeerId::random(), PeerId::random());
        let receipts = vec![receipt(1), Err("no topic".to_owned())];
        let id = batches.add(5, vec!["t".into(), "u".into()], receipts, |_| 0);
        let report = batches.report(id, |_| vec![a, b]).unwrap();
        assert_eq!((report.copies, report.sent, report.owed, report.not_sent), (2, 0, 2, 0));
        assert!(!report.complete);
        assert!(matches!(&report.messages[1], MessageReport::Failed { topic, .. } if topic == "u"));
        batches.sent(MessageKey(1), a, 0);
        batches.sent(MessageKey(2), a, 0);
        let report = batches.report(id, |_| vec![]).unwrap();
        assert_eq!((report.copies, report.sent, report.owed, report.not_sent), (2, 1, 0, 1));
        assert!(report.complete);
    }

    #[test]
    fn each_topic_without_peers_has_one_warning_up_to_the_bound() {
        let mut batches = Batches::default();
        assert_eq!(
            ["a", "a", "b", "a"].map(|topic| batches.is_first_unheard(topic)),
            [true, false, true, false]
        );
        let warnings = (0..2 * UNJOINED_KEPT).filter(|number| batches.is_first_unheard(&number.to_string()));
        assert_eq!(warnings.count(), UNJOINED_KEPT - 2);
    }

    #[test]
    fn a_message_before_the_mesh_has_a_note() {
        let mut batches = Batches::default();
        let unheard = receipt(1).map(|receipt| Receipt { peers: 0, lost: 0, ..receipt });
        let id = batches.add(0, vec!["t".into(), "t".into()], vec![unheard, receipt(2)], |_| 1);
        let report = batches.report(id, |_| vec![]).unwrap();
        let notes = report.messages.iter().map(|message| match message {
            MessageReport::Published { note, .. } => note.as_deref(),
            MessageReport::Failed { .. } => None,
        });
        let notes: Vec<Option<&str>> = notes.collect();
        let note = "the peer that has joined topic t is not in the mesh yet: the message went to nobody; ";
        assert!(notes[0].is_some_and(|found| found.starts_with(note)) && notes[1].is_none(), "{notes:?}");
    }

    #[test]
    fn the_oldest_batches_are_forgotten() {
        let mut batches = Batches::default();
        for key in 0..2 * MESSAGES_KEPT as u64 {
            batches.add(0, vec!["t".into()], vec![receipt(key)], |_| 1);
        }
        assert_eq!(batches.by_key.len(), MESSAGES_KEPT);
        assert_eq!(batches.kept.len(), MESSAGES_KEPT);
        assert!(batches.report(0, |_| vec![]).is_none());
    }
}
