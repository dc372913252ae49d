//! The receive routine: segments in, messages out, as fast as the rate limit allows.

use std::collections::VecDeque;

use super::sender::{Limiter, Sender};
use crate::packet::Body;
use crate::rewind;
use crate::transport::socket::{Item, Load};
use crate::transport::{Ack, AckNeed, Around, EndTimer, ReceiveHalf, Taken, Transport, tcp};

/// The receiving end of a connection. Times in nanoseconds.
///
/// Unread data fill the window: the sender never has more than a window's packets in flight and
/// unread.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    tcp: tcp::Receiver<Load<F>>,
    /// Data that arrived completely and in order.
    unread: VecDeque<Load<F>>,
    /// The segments of the unread data.
    unread_segments: u32,
    limiter: Limiter,
    /// The segment at the end of the last announced window.
    edge: u32,
    /// Data that the last segment completed.
    arrived: Vec<Load<F>>,
}

impl<F: Clone> Receiver<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        Self {
            tcp: tcp::Receiver::new(transport),
            unread: VecDeque::new(),
            unread_segments: 0,
            limiter: Limiter::default(),
            edge: transport.control.tcp().map_or(0, |config| config.receive_window),
            arrived: Vec::new(),
        }
    }

    /// Takes segments: the number of the first, their count, and the load of the last one.
    pub(crate) fn segments(
        &mut self,
        stamp: u32,
        (seq, count, load): (u32, u32, Option<Load<F>>),
        transport: &Transport,
    ) -> AckNeed {
        let last = seq + count - 1;
        let mut need = AckNeed::None;
        for seq in seq..last {
            need = need.max(self.tcp.segment(stamp, (seq, None), transport, &mut self.arrived));
        }
        need = need.max(self.tcp.segment(stamp, (last, load), transport, &mut self.arrived));
        for load in self.arrived.drain(..) {
            self.unread_segments += load.segments;
            self.unread.push_back(load);
        }
        need
    }

    /// Reads as much as the rate limit allows; pings and pongs go to the sender.
    pub(super) fn read(&mut self, sender: &mut Sender<F>, around: &mut Around<'_, F>) -> Taken {
        let mut taken = Taken { was_held: sender.read_at != u64::MAX, ..Taken::default() };
        if taken.was_held && around.now < sender.read_at {
            return taken;
        }
        sender.read_at = u64::MAX;
        while let Some(load) = self.unread.front() {
            if let Err(until) = self.limiter.admit(around.now, around.channels().receive_rate) {
                sender.read_at = until;
                break;
            }
            self.limiter.count(around.now, load.bytes);
            for item in &load.items {
                match item {
                    Item::Data { frame, .. } => around.delivered.extend(frame.clone()),
                    Item::Ping => (sender.wants_pong, taken.wants_turn) = (true, true),
                    Item::Pong => sender.pong_by = u64::MAX,
                    Item::Credit(_) => {}
                }
            }
            self.unread_segments -= load.segments;
            self.unread.pop_front();
            rewind(&mut self.unread);
        }
        taken.window_opened = self.window_opened(around.transport);
        taken
    }

    /// Returns the window in packets, now and with nothing unread; 0 if there is none.
    fn window(&self, transport: &Transport) -> (u32, u32) {
        let most = transport.control.tcp().map_or(0, |config| config.receive_window);
        (most.saturating_sub(self.unread_segments), most)
    }

    /// Returns true if the window was half closed and is twice as wide now (`tcp_cleanup_rbuf` in
    /// Linux).
    fn window_opened(&self, transport: &Transport) -> bool {
        let announced = self.edge.saturating_sub(self.tcp.next);
        let (window, most) = self.window(transport);
        2 * announced <= most && window > 0 && window >= 2 * announced
    }
}

impl<F: Clone> ReceiveHalf<F> for Receiver<F> {
    type Sender = Sender<F>;

    fn take(
        &mut self,
        sender: &mut Sender<F>,
        stamp: u32,
        body: Body<F>,
        around: &mut Around<'_, F>,
    ) -> Taken {
        let Body::Stream { seq, count, load } = body else { return Taken::mismatch() };
        let ack = self.segments(stamp, (seq, count, load), around.transport);
        Taken { ack, ..self.read(sender, around) }
    }

    fn fired(
        &mut self,
        sender: &mut Sender<F>,
        timer: EndTimer,
        around: &mut Around<'_, F>,
    ) -> Option<Taken> {
        if !sender.takes(timer, around.now) {
            return None;
        }
        let taken = match timer {
            EndTimer::Work => {
                sender.tick(around);
                self.read(sender, around)
            }
            EndTimer::Ping => {
                let is_overdue = sender.tick_ping(around);
                Taken { is_overdue, ..Taken::default() }
            }
        };
        Some(Taken { wants_turn: true, ..taken })
    }

    fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        let (window, _) = self.window(transport);
        let ack = Ack { window, ..self.tcp.acknowledge(now, transport) };
        self.edge = ack.ack + window;
        ack
    }
}
