//! A host of a run: it carries out orders, and says what the library reports.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::StreamExt;
use libp2p::PeerId;
use libp2p::gossipsub::{self, PublishError};
use libp2p::swarm::SwarmEvent;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use crate::cells::{Cells, Changes, Counts};
use crate::contents::{Contents, Family};
use crate::lines::Lines;
use crate::links::{BehaviourEvent, Links};
use crate::orders::{Application, Dial, Listen, Order, Transport};
use crate::protocol::Protocol;

/// The behaviour sets the timer of its next heartbeat without polling it (0.50.1): without other
/// events, there is no heartbeat.
const POLL_AT_LEAST_EVERY: Duration = Duration::from_millis(50);
/// Number of attempts to dial a host, since packets can be lost, and the time between them.
const DIAL_TRIES: u32 = 3;
const DIAL_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Time for queues to drain at the end. The library does not report when they are empty.
const DRAIN: Duration = Duration::from_millis(500);

const NO_BATCH: &str = "publish_batch: protocol.schedule_publish has an order that rust-libp2p lacks; \
                        remove the key, or let another host publish";

pub(crate) struct Host<'a> {
    lines: &'a Lines,
    links: Links,
    family: Family,
    contents: Rc<Contents>,
    cells: Option<Cells>,
    /// Whether the protocol wants the messages of a batch one after the other.
    is_sequential: bool,
    /// The dials of the briefing, until the run begins.
    planned: Vec<Dial>,
    start: Option<Instant>,
    /// Dials that are due, with the number of the attempt.
    dials: BTreeSet<(Instant, u32, u32)>,
    /// The last attempt to dial each host.
    dialled: HashMap<u32, u32>,
    commands: BTreeMap<(Instant, u64), Command>,
    next: u64,
    late_ns: Vec<u64>,
    /// The messages that the host has, or had.
    known: HashSet<u32>,
    /// Messages that have arrived, without further copies.
    arrived: u64,
    /// Frames with cells, or with what hosts say about them.
    cell_frames: u64,
    /// Bytes besides contents that were sent and received, as last reported. The library counts the contents of a
    /// frame before its bytes, and reported counts never fall.
    control: [u64; 2],
}

#[derive(Clone, Copy)]
enum Command {
    Message(u32),
    Slot(u32),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ColumnsCommand {
    PublishBatch { slot: u32 },
    PublishEach { slot: u32 },
}

impl<'a> Host<'a> {
    /// Starts to listen, and says so.
    pub(crate) async fn listen(listen: Listen, lines: &'a Lines) -> Result<Self, String> {
        let brief = &listen.brief;
        if matches!(brief.transport, Transport::Quic) {
            return Err("brief.transport: found \"quic\", expected \"tcp\"".to_owned());
        }
        let Application { family, columns } = &brief.application;
        let wrong = |error| format!("brief.application: {error}");
        let contents = Rc::new(Contents::new(columns).map_err(wrong)?);
        let cells = columns.cells.as_ref().map(|cells| Cells::new(cells, &contents));
        let cells = cells.transpose().map_err(wrong)?;
        let protocol = Protocol::read(&columns.protocol, cells.is_some()).map_err(wrong)?;
        let gossip = protocol.gossip().map_err(wrong)?;
        let mut links = Links::new(&listen, gossip, &contents, cells.is_some())?;
        for dial in &brief.dials {
            links.check(dial.host).map_err(|error| format!("brief.dials: {error}"))?;
        }
        links.listening().await?;
        lines.say(&json!({ "ready": { "host": listen.host } }));
        Ok(Self {
            lines,
            links,
            family: *family,
            contents,
            cells,
            is_sequential: protocol.is_sequential(),
            planned: listen.brief.dials,
            start: None,
            dials: BTreeSet::new(),
            dialled: HashMap::new(),
            commands: BTreeMap::new(),
            next: 0,
            late_ns: Vec::new(),
            known: HashSet::new(),
            arrived: 0,
            cell_frames: 0,
            control: [0; 2],
        })
    }

    /// Runs until an order to stop, or the end of the orders. Heartbeats do not wait for the run to begin,
    /// since those of all hosts would beat as one.
    pub(crate) async fn run(mut self, mut orders: Receiver<Result<Order, String>>) -> Result<(), String> {
        loop {
            let due = self.cells.as_ref().and_then(Cells::next_at);
            let dial = self.dials.first().map(|(at, ..)| *at);
            let command = self.commands.keys().next().map(|(at, _)| *at);
            let poll = Instant::now() + POLL_AT_LEAST_EVERY;
            let wake = [due, dial, command].into_iter().flatten().fold(poll, Instant::min);
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                event = self.links.swarm.select_next_some() => self.on_event(event)?,
                order = orders.recv() => match order.transpose()? {
                    Some(Order::Stop) => break,
                    Some(order) => self.obey(order)?,
                    None => return Ok(()),
                },
            }
            self.act()?;
        }
        let until = Instant::now() + DRAIN;
        while let Ok(event) = tokio::time::timeout_at(until.into(), self.links.swarm.select_next_some()).await
        {
            self.on_event(event)?;
        }
        Ok(())
    }

    // ---- orders ----

    fn obey(&mut self, order: Order) -> Result<(), String> {
        let start = match order {
            Order::Begin { at_unix_ns } if self.start.is_none() => {
                self.begin(instant(at_unix_ns));
                return Ok(());
            }
            Order::Listen(_) | Order::Begin { .. } => {
                return Err("an order to listen or to begin came twice".to_owned());
            }
            _ => self.start.ok_or("the second order was not to begin")?,
        };
        match order {
            Order::Command { at_ns, command } => {
                let command = self.read(command).map_err(|error| format!("command: {error}"))?;
                let at = start + Duration::from_nanos(at_ns);
                self.commands.insert((at, self.next), command);
                self.next += 1;
            }
            // All events before are said.
            Order::Sync(number) => self.lines.say(&json!({ "synced": number })),
            Order::Look => {
                let looked = self.looked();
                self.lines.say(&json!({ "looked": looked }));
            }
            Order::Reconnect { host } => {
                self.links.check(host).map_err(|error| format!("reconnect: {error}"))?;
                self.dialled.insert(host, 1);
                self.links.reconnect(host);
            }
            Order::Listen(_) | Order::Begin { .. } | Order::Stop => {}
        }
        Ok(())
    }

    fn begin(&mut self, start: Instant) {
        let planned = std::mem::take(&mut self.planned);
        let dials = planned.iter().map(|dial| (start + Duration::from_nanos(dial.at_ns), dial.host, 1));
        self.dials = dials.collect();
        self.start = Some(start);
    }

    fn read(&self, command: Value) -> Result<Command, String> {
        let wrong = |error: serde_json::Error| error.to_string();
        let below = |found: u32, count: u32| {
            let is_below = found < count;
            is_below.then_some(found).ok_or_else(|| format!("found {found}, expected a number below {count}"))
        };
        if self.family == Family::Messages {
            let number = serde_json::from_value(command).map_err(wrong)?;
            return below(number, self.contents.total()).map(Command::Message);
        }
        let slot = match serde_json::from_value(command).map_err(wrong)? {
            ColumnsCommand::PublishBatch { .. } if !self.is_sequential => return Err(NO_BATCH.to_owned()),
            ColumnsCommand::PublishBatch { slot } | ColumnsCommand::PublishEach { slot } => slot,
        };
        below(slot, self.contents.slots).map(Command::Slot)
    }

    // ---- what is due ----

    fn act(&mut self) -> Result<(), String> {
        let now = Instant::now();
        while let Some(dial) = self.dials.first().copied().filter(|(at, ..)| *at <= now) {
            self.dials.remove(&dial);
            let (_, host, attempt) = dial;
            self.dialled.insert(host, attempt);
            self.links.dial(host);
        }
        while let Some(first) = self.commands.first_entry()
            && let Some(late) = Instant::now().checked_duration_since(first.key().0)
        {
            self.late_ns.push(late.as_nanos() as u64);
            match first.remove() {
                Command::Message(number) => self.publish(number)?,
                Command::Slot(slot) => self.publish_slot(slot)?,
            }
        }
        while let Some(changes) = self.cells.as_mut().and_then(Cells::due) {
            self.apply(changes)?;
        }
        Ok(())
    }

    /// Publishes a block. With cells, whole columns go to peers that request no cells.
    fn publish_slot(&mut self, slot: u32) -> Result<(), String> {
        if let Some(cells) = &mut self.cells {
            let columns = cells.publish(slot);
            cells.set_publishing(slot, true);
            columns.iter().for_each(|column| self.send(*column));
        }
        if let Some(cells) = &self.cells {
            cells.set_publishing(slot, false);
        }
        let count = self.contents.count();
        (slot * count..(slot + 1) * count).try_for_each(|number| self.publish(number))
    }

    fn publish(&mut self, number: u32) -> Result<(), String> {
        self.known.insert(number);
        let (topic, data) = (self.contents.topic(number).clone(), self.contents.payload(number));
        match self.links.swarm.behaviour_mut().gossip.publish(topic, data) {
            Ok(_) => Ok(()),
            // The results show a message that no peer took; all peers may request cells.
            Err(PublishError::NoPeersSubscribedToTopic | PublishError::AllQueuesFull(_)) => Ok(()),
            // It has arrived whole.
            Err(PublishError::Duplicate) => Ok(()),
            Err(error) => Err(format!("cannot publish message {number}: {error}")),
        }
    }

    // ---- what the library reports ----

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) -> Result<(), String> {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Gossip(event)) => return self.on_gossip(event),
            SwarmEvent::ConnectionClosed { peer_id, num_established: 0, .. } => {
                self.links.disconnected(&peer_id);
            }
            SwarmEvent::OutgoingConnectionError { peer_id: Some(peer), error, .. } => {
                let Some(host) = self.links.number(&peer) else { return Ok(()) };
                tracing::warn!(host, %error, "cannot connect");
                let attempt = self.dialled.remove(&host).unwrap_or(DIAL_TRIES);
                if attempt < DIAL_TRIES {
                    self.dials.insert((Instant::now() + DIAL_AGAIN_AFTER, host, attempt + 1));
                }
            }
            SwarmEvent::ListenerClosed { reason, .. } => {
                return Err(format!("stopped listening: {reason:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn on_gossip(&mut self, event: gossipsub::Event) -> Result<(), String> {
        match event {
            gossipsub::Event::Message { propagation_source, message, .. } => {
                self.on_message(propagation_source, &message)
            }
            gossipsub::Event::Partial { topic_hash, peer_id, group_id, message, metadata } => {
                self.cell_frames += 1;
                let Some(cells) = &mut self.cells else { return Ok(()) };
                let key = (&topic_hash, Bytes::from(group_id));
                if let Err(error) = cells.receive(peer_id, key, message, metadata.is_some()) {
                    tracing::warn!(%peer_id, error, "a partial message is invalid");
                    self.links.swarm.behaviour_mut().gossip.report_invalid_partial(peer_id, &topic_hash);
                }
                Ok(())
            }
            // The library tells so at its heartbeat. What did not fit may also be gossip.
            gossipsub::Event::SlowPeer { peer_id, failed_messages } => {
                let Some(to) = self.links.number(&peer_id) else { return Ok(()) };
                let lost = match self.family {
                    Family::Messages => json!({ "lost": { "to": to } }),
                    Family::Columns => json!("lost"),
                };
                (0..failed_messages.non_priority).for_each(|_| self.tell(&lost));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_message(&mut self, from: PeerId, message: &gossipsub::Message) -> Result<(), String> {
        let number = self.contents.number(&message.topic, &message.data);
        let Some((number, host)) = number.zip(self.links.number(&from)) else {
            tracing::warn!(peer = %from, topic = %message.topic, "a message is none of the run");
            return Ok(());
        };
        // The library says nothing of further copies, but it does not know columns that cells have completed.
        let is_first = self.known.insert(number);
        self.arrived += u64::from(is_first);
        match self.family {
            Family::Messages if is_first => {
                self.tell(&json!({ "delivered": { "message": number, "from": host } }));
            }
            Family::Messages => {}
            Family::Columns => self.tell_copy(number, host, is_first),
        }
        match &mut self.cells {
            Some(cells) if is_first => {
                let changes = cells.whole(number, from);
                self.apply(changes)
            }
            _ => Ok(()),
        }
    }

    fn tell(&self, event: &Value) {
        let since = self.start.and_then(|start| Instant::now().checked_duration_since(start));
        let at_ns = since.unwrap_or_default().as_nanos() as u64;
        self.lines.say(&json!({ "event": { "at_ns": at_ns, "event": event } }));
    }

    fn tell_copy(&self, segment: u32, from: u32, first: bool) {
        self.tell(&json!({ "copy": { "segment": segment, "from": from, "first": first } }));
    }

    // ---- cells ----

    /// Sends what follows from a change.
    fn apply(&mut self, Changes { columns, from, header }: Changes) -> Result<(), String> {
        for column in columns {
            self.send(column);
            if self.cells.as_mut().is_some_and(|cells| cells.complete(column)) {
                if let Some(host) = self.links.number(&from).filter(|_| self.known.insert(column)) {
                    self.tell_copy(column, host, true);
                }
                // It goes to peers that want whole columns.
                self.publish(column)?;
            }
        }
        // The first topic of each peer carries the header.
        let Some(slot) = header else { return Ok(()) };
        for segment in self.contents.joins.clone() {
            let column = slot * self.contents.count() + segment;
            let peers = self.links.swarm.behaviour().gossip.mesh_peers(self.contents.topic(column));
            if self.cells.as_ref().is_some_and(|cells| cells.lacks_header(slot, peers)) {
                self.send(column);
            }
        }
        Ok(())
    }

    /// Has the library send what is new of a column.
    fn send(&mut self, column: u32) {
        let Some(snapshot) = self.cells.as_mut().and_then(|cells| cells.snapshot(column)) else { return };
        let topic = self.contents.topic(column).clone();
        match self.links.swarm.behaviour_mut().gossip.publish_partial(topic, snapshot) {
            // Other implementations do not take this for an error.
            Ok(()) | Err(PublishError::NoPeersSubscribedToTopic) => {}
            Err(error) => tracing::warn!(column, %error, "cannot send cells"),
        }
    }

    // ---- counters ----

    /// Returns the counters. The library reports neither what waits in queues, nor answers to requests, nor
    /// misbehaviours; and only frames with messages or cells.
    fn looked(&mut self) -> Value {
        let (counted, none) = (self.links.counted(), Counts::default());
        let cells = self.cells.as_ref().map_or(&none, |cells| &cells.counts);
        let (payload_sent, payload_received) =
            (counted.copy_bytes_sent, counted.copy_bytes_received + cells.received_bytes);
        let control = [(counted.bytes_sent, payload_sent), (counted.bytes_received, payload_received)];
        for (reported, (bytes, payload)) in self.control.iter_mut().zip(control) {
            *reported = bytes.saturating_sub(payload).max(*reported);
        }
        let counters = match self.family {
            Family::Messages => json!({
                "duplicates_received": counted.copies_received.saturating_sub(self.arrived),
                "answered_copies": 0,
                "kept_unwanted_copies": 0,
                "misbehaviours": 0,
                "mesh": self.links.mesh(self.contents.topic(0)),
            }),
            Family::Columns => {
                let meshes = self.contents.joins.iter();
                json!({
                    "joined": self.contents.joins.len(),
                    "targets": meshes.map(|at| self.links.mesh(self.contents.topic(*at))).sum::<usize>(),
                    "cells": [cells.missing, cells.local, cells.parts, cells.headers, cells.metadata],
                    "kept_unwanted_copies": 0,
                    "misbehaviours": 0,
                })
            }
        };
        json!({
            "counters": counters,
            "frames_sent": counted.copies_sent,
            "payload_bytes_sent": payload_sent,
            "control_bytes_sent": self.control[0],
            "frames_received": counted.copies_received + self.cell_frames,
            "payload_bytes_received": payload_received,
            "control_bytes_received": self.control[1],
            "bytes_sent": counted.bytes_sent,
            "bytes_received": counted.bytes_received,
            "withdrawn": counted.withdrawn,
            "owed": 0,
            "late_ns": std::mem::take(&mut self.late_ns),
        })
    }
}

/// Returns the moment of a Unix time on the monotonic clock.
fn instant(unix_ns: u64) -> Instant {
    let (now, unix) = (Instant::now(), Duration::from_nanos(unix_ns));
    let unix_now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match unix.checked_sub(unix_now) {
        Some(left) => now + left,
        None => now.checked_sub(unix_now - unix).unwrap_or(now),
    }
}
