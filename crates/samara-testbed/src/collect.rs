//! Turns the traces of nodes into the measurements of a simulation.

use std::path::Path;

use rustc_hash::FxHashMap;
use samara_gossipsub::rpc::Topic;
use samara_lab::columns::measure::CopyRow;
use samara_sim::{Arrival, Arrivals, Cause, Compact, Parts, Trigger};
use samara_trace::{Body, TraceReader, Unread};

use crate::TestbedError;

#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) node: u32,
    pub(crate) topic: String,
    /// Time of the publication in nanoseconds since 1970.
    pub(crate) at: u64,
}

/// A copy of a message that a node received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) at: u64,
    pub(crate) node: u32,
    /// The sender, or `u32::MAX` if the trace does not name it.
    pub(crate) from: u32,
    /// An index into [`Events::published`].
    pub(crate) message: usize,
    pub(crate) first: bool,
}

/// The events in the traces of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Publications by time.
    pub(crate) published: Vec<Published>,
    /// Publications of messages that another node has published before: columns that a node has
    /// completed from cells. An index into `published`, the node, and the time.
    pub(crate) completed: Vec<(usize, u32, u64)>,
    /// Receptions by time.
    pub(crate) received: Vec<Received>,
    /// The times at which a node (first) sent a message (last) to another, in order.
    sent: FxHashMap<(u32, u32, usize), Vec<u64>>,
    /// The times at which the writes of these transmissions began, where traces have them. `sent`
    /// then has the times at which they entered a queue.
    written: FxHashMap<(u32, u32, usize), Vec<u64>>,
    /// The time at which a node (first) received the first request of another for a message (last).
    requested: FxHashMap<(u32, u32, usize), u64>,
    /// The nodes that a node (first) asked for a message (second), each with the time of the first
    /// request.
    asked: FxHashMap<(u32, usize), Vec<(u32, u64)>>,
    /// RPCs with messages that a node (first) lost before they left for a peer (second).
    pub(crate) dropped: Vec<(u32, u32)>,
    /// Contents of the traces that this version does not know.
    unread: Unread,
}

/// Reads the traces of all nodes, in the order of the nodes.
pub(crate) fn events(traces: &[&Path]) -> Result<Events, TestbedError> {
    let mut peers: FxHashMap<Vec<u8>, u32> = FxHashMap::default();
    let mut messages: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    let mut events = Events::default();
    let mut own = Vec::new();
    for (trace, node) in traces.iter().zip(0..) {
        for event in TraceReader::open(trace)? {
            let event = event?;
            if let Some(peer) = &event.peer_id
                && !peers.contains_key(peer)
            {
                peers.insert(peer.clone(), node);
            }
            let at = event.timestamp.unwrap_or(0).max(0) as u64;
            if let Some(Body::PublishMessage(body)) = event.body() {
                let topic = body.topic.unwrap_or_default();
                own.push((body.message_id.unwrap_or_default(), Published { node, topic, at }));
            }
        }
    }
    own.sort_by_key(|(_, published)| published.at);
    for (id, published) in own {
        if let Some(known) = messages.get(&id) {
            events.completed.push((*known, published.node, published.at));
        } else {
            messages.insert(id, events.published.len());
            events.published.push(published);
        }
    }
    let number = |id: &Option<Vec<u8>>| id.as_ref().and_then(|id| messages.get(id).copied());
    let host = |peer: Option<Vec<u8>>| peer.and_then(|peer| peers.get(&peer).copied()).unwrap_or(u32::MAX);
    for (trace, node) in traces.iter().zip(0..) {
        let mut reader = TraceReader::open(trace)?;
        for event in &mut reader {
            let event = event?;
            let at = event.timestamp.unwrap_or(0).max(0) as u64;
            let (id, from, first) = match event.body() {
                Some(Body::DeliverMessage(body)) => (body.message_id, body.received_from, true),
                Some(Body::DuplicateMessage(body)) => (body.message_id, body.received_from, false),
                Some(Body::DropRpc(body)) => {
                    if body.meta.is_some_and(|meta| !meta.messages.is_empty()) {
                        events.dropped.push((node, host(body.send_to)));
                    }
                    continue;
                }
                Some(Body::SendRpc(body)) => {
                    let to = host(body.send_to);
                    let Some(meta) = body.meta else { continue };
                    for message in meta.messages.iter().filter_map(|message| number(&message.message_id)) {
                        events.sent.entry((node, to, message)).or_default().push(at);
                    }
                    let wanted = meta.control.into_iter().flat_map(|control| control.iwant);
                    for id in wanted.flat_map(|iwant| iwant.message_ids) {
                        let Some(message) = messages.get(&id) else { continue };
                        let asked = events.asked.entry((node, *message)).or_default();
                        if !asked.iter().any(|(peer, _)| *peer == to) {
                            asked.push((to, at));
                        }
                    }
                    continue;
                }
                Some(Body::SendRpcCompleted(body)) => {
                    let to = host(body.send_to);
                    let began = at.saturating_sub(body.write_nanos.unwrap_or(0).max(0) as u64);
                    let sent = body.meta.into_iter().flat_map(|meta| meta.messages);
                    for message in sent.filter_map(|message| number(&message.message_id)) {
                        events.written.entry((node, to, message)).or_default().push(began);
                    }
                    continue;
                }
                Some(Body::RecvRpc(body)) => {
                    let from = host(body.received_from);
                    let control = body.meta.and_then(|meta| meta.control);
                    let wanted = control.into_iter().flat_map(|control| control.iwant);
                    for id in wanted.flat_map(|iwant| iwant.message_ids) {
                        if let Some(message) = messages.get(&id) {
                            events.requested.entry((node, from, *message)).or_insert(at);
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            let from = host(from);
            let message = number(&id);
            // A node also delivers its own messages to itself.
            if let Some(message) = message.filter(|_| from != node) {
                events.received.push(Received { at, node, from, message, first });
            }
        }
        events.unread.merge(reader.unread());
    }
    events.received.sort_by_key(|row| (row.at, row.node));
    Ok(events)
}

impl Events {
    /// A doubt about contents of the traces that this version does not know.
    pub(crate) fn doubt(&self) -> Option<String> {
        let is_known = self.unread.is_empty();
        (!is_known).then(|| format!("traces have contents that this version does not know: {}", self.unread))
    }

    /// The number in the plan of each published message. The order of a node's messages is that of
    /// the plan.
    pub(crate) fn numbers(&self, publishers: &[u32]) -> Vec<Option<u32>> {
        let mut planned: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (publisher, number) in publishers.iter().zip(0..) {
            planned.entry(*publisher).or_default().push(number);
        }
        let mut next: FxHashMap<u32, usize> = FxHashMap::default();
        self.published
            .iter()
            .map(|message| {
                let place = next.entry(message.node).or_default();
                *place += 1;
                planned.get(&message.node)?.get(*place - 1).copied()
            })
            .collect()
    }

    /// The number of each published segment: slot times segments of a block plus segment. `topics`
    /// has the topic of each segment. Those of a topic follow each other, slot by slot.
    pub(crate) fn columns(&self, topics: &[Topic]) -> Vec<Option<u32>> {
        let mut of_topic: FxHashMap<&str, (Vec<u32>, usize)> = FxHashMap::default();
        for (topic, segment) in topics.iter().zip(0..) {
            of_topic.entry(topic.as_str()).or_default().0.push(segment);
        }
        self.published
            .iter()
            .map(|message| {
                let (segments, count) = of_topic.get_mut(message.topic.as_str())?;
                let (slot, place) = (*count / segments.len(), *count % segments.len());
                *count += 1;
                Some((slot * topics.len()) as u32 + segments[place])
            })
            .collect()
    }

    /// The first arrivals of messages, with the item of each message and times from `start`.
    /// `latency` returns that of the emulated link between two nodes. From the moment at which the
    /// sender had the message: an announcement, requests to others, the request, the wait in the
    /// outbox until the copy is written, the latency, and the rest of the transport.
    pub(crate) fn arrivals<I: Copy + Into<u64>>(
        &self,
        (items, nodes): (&[Option<I>], u32),
        start: u64,
        latency: impl Fn(u32, u32) -> u64,
    ) -> Arrivals {
        let own = self.published.iter().enumerate();
        let mut had: FxHashMap<(u32, usize), u64> =
            own.map(|(message, own)| ((own.node, message), own.at)).collect();
        let mut arrivals = vec![FxHashMap::default(); nodes as usize];
        for copy in self.received.iter().filter(|copy| copy.first) {
            let Received { at, node, from, message, .. } = *copy;
            had.insert((node, message), at);
            let (Some(item), Some(has)) = (items[message], had.get(&(from, message)).copied()) else {
                continue;
            };
            let way = (from, node, message);
            let last_in = |times: &FxHashMap<_, Vec<u64>>| {
                times.get(&way).and_then(|times| times.iter().rfind(|time| **time <= at).copied())
            };
            let sent = last_in(&self.written).or_else(|| last_in(&self.sent));
            let sent = sent.map_or(has, |sent| sent.max(has));
            let requested = self.requested.get(&way).filter(|requested| (has..=sent).contains(*requested));
            let owed = requested.copied().unwrap_or(has);
            let rest = at.saturating_sub(sent);
            let on_link = latency(from, node).min(rest);
            let asked = self.asked.get(&(node, message)).and_then(|asked| {
                let (_, sender) = asked.iter().find(|(peer, _)| *peer == from)?;
                Some(Box::new([asked[0].1, *sender].map(|at| at.saturating_sub(start))))
            });
            let mut parts = Parts::default();
            parts.add(Cause::Outbox, sent - owed);
            parts.add(Cause::Latency, on_link);
            parts.add(Cause::Transport, rest - on_link);
            let arrival = Arrival {
                item: item.into(),
                from,
                at: at.saturating_sub(start),
                owed_at: owed.saturating_sub(start),
                trigger: if requested.is_some() { Trigger::Frame } else { Trigger::Command },
                asked,
                parts: Compact::from(&parts),
            };
            arrivals[node as usize].entry(item.into()).or_insert(arrival);
        }
        Arrivals::new(arrivals)
    }

    /// The copies of columns, with times from `start`.
    pub(crate) fn copies(&self, columns: &[Option<u32>], start: u64) -> Vec<CopyRow> {
        let row = |copy: &Received| {
            Some(CopyRow {
                at: copy.at.saturating_sub(start),
                host: copy.node,
                from: copy.from,
                column: columns[copy.message]?,
                first: copy.first,
            })
        };
        self.received.iter().filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use samara_sim::{Hop, Origin, parts_of};
    use samara_trace::{
        DeliverMessage, Format, MessageMeta, PublishMessage, RpcMeta, SendRpc, SendRpcCompleted, TraceEvent,
    };

    use super::*;

    fn path_of(events: &Events, node: u32) -> Vec<Hop> {
        let arrivals = events.arrivals((&[Some(7_u32)], 3), 1_000, |_, _| 30);
        arrivals.path(node, 7, Origin { host: 0, at: 0 }).unwrap()
    }

    fn received(at: u64, node: u32, from: u32) -> Received {
        Received { at, node, from, message: 0, first: true }
    }

    /// Node 0 publishes at 1,000, node 1 has the message at 1,100, and node 2 requests it from there.
    #[test]
    fn parts_of_a_real_path_are_those_of_the_traces() {
        let events = Events {
            published: vec![Published { node: 0, topic: String::new(), at: 1_000 }],
            received: vec![received(1_100, 1, 0), received(1_400, 2, 1)],
            // The second transmission was lost, or came too late.
            sent: [((0, 1, 0), vec![1_020]), ((1, 2, 0), vec![1_340, 1_500])].into_iter().collect(),
            requested: [((1, 2, 0), 1_330)].into_iter().collect(),
            // Node 2 asks node 0 first, which does not answer.
            asked: [((2, 0), vec![(0, 1_150), (1, 1_310)])].into_iter().collect(),
            ..Events::default()
        };
        let causes = |node| parts_of(&path_of(&events, node)).iter().collect::<Vec<_>>();
        let first = [(Cause::Latency, 30), (Cause::Outbox, 20), (Cause::Transport, 50)];
        assert_eq!(causes(1), first);
        let hop = [(Cause::Announcement, 50), (Cause::Withheld, 160), (Cause::Request, 20)];
        let rest = [(Cause::Latency, 60), (Cause::Outbox, 30), (Cause::Transport, 80)];
        assert_eq!(causes(2), [&hop[..], &rest].concat());
    }

    #[test]
    fn segments_of_a_topic_follow_each_other() {
        let published = |topic: &&str| Published { node: 0, topic: (*topic).to_owned(), at: 0 };
        let numbers = |published_on: &[&str], topics: &[&str]| {
            let events =
                Events { published: published_on.iter().map(published).collect(), ..Events::default() };
            let topics: Vec<Topic> = topics.iter().map(|topic| Topic::new(topic)).collect();
            events.columns(&topics)
        };
        let each = numbers(&["a", "b", "b", "x", "a"], &["a", "b"]);
        assert_eq!(each, [Some(0), Some(1), Some(3), None, Some(2)]);
        let shared = numbers(&["p"; 5], &["p", "p"]);
        assert_eq!(shared, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    }

    /// A node of another implementation may trace no transmissions, or stamp them late.
    #[test]
    fn missing_transmissions_count_as_transport() {
        let mut events = Events {
            published: vec![Published { node: 0, topic: String::new(), at: 1_000 }],
            received: vec![received(1_100, 1, 0)],
            ..Events::default()
        };
        let parts = |events: &Events| parts_of(&path_of(events, 1)).iter().collect::<Vec<_>>();
        assert_eq!(parts(&events), [(Cause::Latency, 30), (Cause::Transport, 70)]);
        events.sent.insert((0, 1, 0), vec![1_101]);
        assert_eq!(parts(&events), [(Cause::Latency, 30), (Cause::Transport, 70)]);
        events.sent.insert((0, 1, 0), vec![1_090]);
        assert_eq!(parts(&events), [(Cause::Latency, 10), (Cause::Outbox, 90)]);
    }

    /// Two nodes of go-libp2p-pubsub 0.19. Node 0 publishes at 1,000 and queues the copy at once, which
    /// waits 40 ns in the queue. The write takes 25 ns, and the copy arrives at 1,100.
    #[test]
    fn wait_in_queues_of_go_is_no_transport() {
        let to_node_1 = || Some(b"1".to_vec());
        let meta = || {
            let message = MessageMeta { message_id: Some(b"m".to_vec()), topic: None };
            Some(RpcMeta { messages: vec![message], ..RpcMeta::default() })
        };
        let published = PublishMessage { message_id: Some(b"m".to_vec()), topic: None };
        let queued = SendRpc { send_to: to_node_1(), meta: meta() };
        let written = SendRpcCompleted { send_to: to_node_1(), meta: meta(), write_nanos: Some(25) };
        let delivered = DeliverMessage {
            message_id: Some(b"m".to_vec()),
            received_from: Some(b"0".to_vec()),
            ..DeliverMessage::default()
        };
        let traces = [
            vec![
                (1_000, Body::PublishMessage(published)),
                (1_000, Body::SendRpc(queued)),
                (1_065, Body::SendRpcCompleted(written)),
            ],
            vec![(1_100, Body::DeliverMessage(delivered))],
        ];
        let directory = std::env::temp_dir().join(format!("samara-collect-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut paths = Vec::new();
        for (node, trace) in traces.into_iter().enumerate() {
            let mut bytes = Vec::new();
            for (at, body) in trace {
                let event = TraceEvent::new(node.to_string().as_bytes(), at, body);
                Format::Protobuf.encode(&event, &mut bytes);
            }
            paths.push(directory.join(node.to_string()));
            std::fs::write(&paths[node], bytes).unwrap();
        }
        let events = events(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>()).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let parts = parts_of(&path_of(&events, 1)).iter().collect::<Vec<_>>();
        assert_eq!(parts, [(Cause::Latency, 30), (Cause::Outbox, 40), (Cause::Transport, 30)]);
        assert_eq!(events.doubt(), None);
    }

    #[test]
    fn unknown_contents_of_traces_are_a_doubt() {
        // An event of type 99 with a field 50.
        let path = std::env::temp_dir().join(format!("samara-unread-{}", std::process::id()));
        std::fs::write(&path, [5, 0x08, 99, 0x90, 0x03, 1]).unwrap();
        let doubt = events(&[path.as_path()]).unwrap().doubt().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(doubt.ends_with("does not know: events of type 99 (1), fields 50 (1)"), "{doubt}");
    }
}
