//! Segments in, messages out, and credit back.

use samara_engine::Frame;

use super::config::{Http2Config, Window};
use super::credit::Credit;
use super::estimator::Estimator;
use super::sender::{Item, Load, Sender};
use crate::config::Transport;
use crate::half::{Ack, AckNeed};
use crate::tcp;

/// What came of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) need: AckNeed,
    /// Frames that this end has written because of it.
    pub(crate) written: u64,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    tcp: tcp::Receiver<Load<F>>,
    credit: Credit,
    estimator: Option<Estimator>,
    /// What arrived in order and was not looked at yet.
    arrived: Vec<Load<F>>,
}

impl<F: Frame> Receiver<F> {
    pub(crate) fn new(config: Http2Config) -> Self {
        Self {
            tcp: tcp::Receiver::new(),
            credit: Credit::new(config.window.at_first()),
            estimator: match config.window {
                Window::Estimated => Some(Estimator::new()),
                Window::Fixed { .. } => None,
            },
            arrived: Vec::new(),
        }
    }

    /// Takes a segment; messages that are complete now go to `deliver`, and what they make this end write to `sender`, with ranks after
    /// `writes`.
    pub(crate) fn segment(
        &mut self,
        now: u64,
        stamp: u32,
        (seq, load): (u32, Option<Load<F>>),
        transport: &Transport,
        (sender, writes): (&mut Sender<F>, u64),
        deliver: &mut Vec<F>,
    ) -> Heard {
        let need = match transport.control.tcp() {
            Some(config) => self.tcp.segment(seq, stamp, load, config, &mut self.arrived),
            None => {
                self.arrived.extend(load);
                AckNeed::None
            }
        };
        let mut rank = writes;
        let mut arrived = std::mem::take(&mut self.arrived);
        for item in arrived.iter().flat_map(|load| load.iter()) {
            self.take(now, item, sender, &mut rank, deliver);
        }
        arrived.clear();
        self.arrived = arrived;
        Heard { need, written: rank - writes }
    }

    fn take(
        &mut self,
        now: u64,
        item: &Item<F>,
        sender: &mut Sender<F>,
        rank: &mut u64,
        deliver: &mut Vec<F>,
    ) {
        let mut next = || {
            *rank += 1;
            *rank
        };
        match item {
            Item::Data { bytes, message } => {
                let ping = self.estimator.as_mut().is_some_and(|estimator| estimator.add(now, *bytes));
                if let Some(given) = self.credit.take_in(*bytes) {
                    sender.give_credit(given, next());
                }
                if ping {
                    // With all credit before it: grpc-go's way not to be taken for a flood of pings.
                    if let Some(given) = self.credit.give_back() {
                        sender.give_credit(given, next());
                    }
                    sender.ping(next());
                }
                deliver.extend(message.clone());
            }
            Item::Update(bytes) => sender.add_credit(*bytes),
            Item::Ping => sender.pong(next()),
            Item::Pong => {
                let window = self.estimator.as_mut().and_then(|estimator| estimator.answered(now));
                if let Some(more) = window.and_then(|window| self.credit.widen(window)) {
                    sender.give_credit(more, next());
                }
            }
        }
    }

    /// A packet leaves. Returns what it acknowledges.
    pub(crate) fn acknowledge(&mut self) -> Ack {
        let (ack, echo) = (self.tcp.next(), self.tcp.echo());
        Ack { ack, echo, window: 0, sack: self.tcp.acknowledge() }
    }
}
