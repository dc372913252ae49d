//! What happened to a group: in the log, and what was delivered when.

use std::collections::VecDeque;

use samara_net::ring::{Event, Member};

use crate::clock::unix_ns;
use crate::model::{Deliveries, Delivery};

/// Deliveries that are kept at most: the last ones.
const KEPT_MAX: usize = 200_000;
const ANSWER_MAX: usize = 10_000;

#[derive(Clone, Debug)]
struct Kept {
    origin: Member,
    epoch: Option<u64>,
    number: u64,
    bytes: usize,
    at_unix_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    /// The number of the first one that is kept.
    first: u64,
    kept: VecDeque<Kept>,
}

fn name(member: &Member) -> String {
    String::from_utf8_lossy(member.identity.as_bytes()).into_owned()
}

impl Record {
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Delivered { view, origin, number, payload, .. } => {
                if self.kept.len() >= KEPT_MAX {
                    self.kept.pop_front();
                    self.first += 1;
                }
                self.kept.push_back(Kept {
                    origin: origin.clone(),
                    epoch: view.map(|view| view.counter),
                    number: *number,
                    bytes: payload.len(),
                    at_unix_ns: unix_ns(),
                });
            }
            Event::View(view) => {
                let members: Vec<String> = view.members.iter().map(name).collect();
                tracing::info!(epoch = view.id.counter, shape = view.shape.name(), ?members, "a view");
            }
            Event::Suspected { member, cause } => {
                tracing::warn!(member = name(member), ?cause, "a member is taken for failed");
            }
            Event::Slow { member } => tracing::warn!(member = name(member), "the group waits for a member"),
            // Never told to the owner of a member.
            Event::Refused(_) | Event::Room | Event::Left => {}
        }
    }

    /// Deliveries from a number on, those that are known still.
    pub(super) fn deliveries(&self, from: u64) -> Deliveries {
        let skip = from.saturating_sub(self.first);
        let start = self.first + skip.min(self.kept.len() as u64);
        let deliveries = self.kept.iter().skip((start - self.first) as usize).take(ANSWER_MAX);
        let deliveries: Vec<_> = deliveries
            .map(|kept| Delivery {
                origin: name(&kept.origin),
                epoch: kept.epoch,
                number: kept.number,
                bytes: kept.bytes,
                at_unix_ns: kept.at_unix_ns,
            })
            .collect();
        Deliveries { first: start, next: start + deliveries.len() as u64, deliveries }
    }
}
