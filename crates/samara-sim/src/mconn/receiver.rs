//! The receive routine: segments in, messages out, as fast as it may read.

use std::collections::VecDeque;

use super::limiter::Limiter;
use super::stream::Load;
use crate::config::{TcpConfig, Transport};
use crate::half::{Ack, AckNeed};
use crate::{rewind, tcp};

/// What was read besides messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// A ping, which wants a pong.
    pub(crate) ping: bool,
    /// A pong.
    pub(crate) pong: bool,
    /// The window that the sender knows of is far behind: it should be told.
    pub(crate) window_opened: bool,
}

/// The receiving end of a connection. Times in nanoseconds.
///
/// What was not read yet fills the window: the sender never has more than a window's packets in flight and unread.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    tcp: tcp::Receiver<Load<F>>,
    /// What arrived in order and whole.
    unread: VecDeque<Load<F>>,
    /// The segments that brought it.
    unread_segments: u32,
    limiter: Limiter,
    /// When reading goes on; `u64::MAX` if it does not wait.
    read_at: u64,
    /// The segment that the window ends at which the sender was told of.
    edge: u32,
    /// What the last segment completed.
    arrived: Vec<Load<F>>,
}

impl<F: Clone> Receiver<F> {
    pub(crate) fn new(config: Option<&TcpConfig>) -> Self {
        Self {
            tcp: tcp::Receiver::new(),
            unread: VecDeque::new(),
            unread_segments: 0,
            limiter: Limiter::default(),
            read_at: u64::MAX,
            edge: config.map_or(0, |config| config.receive_window),
            arrived: Vec::new(),
        }
    }

    /// Takes segments: the number of the first, how many they are, and what the last one brings.
    pub(crate) fn segments(
        &mut self,
        stamp: u32,
        (seq, count, load): (u32, u32, Option<Load<F>>),
        transport: &Transport,
    ) -> AckNeed {
        let need = match transport.control.tcp() {
            Some(config) => {
                let last = seq + count - 1;
                let mut need = AckNeed::Later;
                for seq in seq..last {
                    need = need.max(self.tcp.segment(seq, stamp, None, config, &mut self.arrived));
                }
                need.max(self.tcp.segment(last, stamp, load, config, &mut self.arrived))
            }
            None => {
                self.arrived.extend(load);
                AckNeed::None
            }
        };
        for load in self.arrived.drain(..) {
            self.unread_segments += load.segments;
            self.unread.push_back(load);
        }
        need
    }

    /// Reads what the limit of the rate lets through; messages go to `deliver` in order.
    pub(crate) fn read(
        &mut self,
        now: u64,
        rate: u64,
        config: Option<&TcpConfig>,
        deliver: &mut Vec<F>,
    ) -> Heard {
        let mut heard = Heard::default();
        if self.read_at != u64::MAX && now < self.read_at {
            return heard;
        }
        self.read_at = u64::MAX;
        while let Some(load) = self.unread.front() {
            if let Err(until) = self.limiter.admit(now, rate) {
                self.read_at = until;
                break;
            }
            self.limiter.count(now, load.plain);
            heard.ping |= load.ping;
            heard.pong |= load.pong;
            deliver.extend(load.messages.iter().cloned());
            self.unread_segments -= load.segments;
            self.unread.pop_front();
            rewind(&mut self.unread);
        }
        heard.window_opened = config.is_some_and(|config| self.window_opened(config));
        heard
    }

    /// When reading goes on.
    pub(crate) const fn read_at(&self) -> u64 {
        self.read_at
    }

    fn window(&self, config: &TcpConfig) -> u32 {
        config.receive_window.saturating_sub(self.unread_segments)
    }

    /// Whether the window was half closed and is twice as wide now (`tcp_cleanup_rbuf` in Linux).
    fn window_opened(&self, config: &TcpConfig) -> bool {
        let told = self.edge.saturating_sub(self.tcp.next());
        let window = self.window(config);
        2 * told <= config.receive_window && window > 0 && window >= 2 * told
    }

    /// A packet leaves. Returns what it acknowledges.
    pub(crate) fn acknowledge(&mut self, config: Option<&TcpConfig>) -> Ack {
        let (ack, echo) = (self.tcp.next(), self.tcp.echo());
        let window = config.map_or(0, |config| self.window(config));
        self.edge = ack + window;
        Ack { ack, echo, window, sack: self.tcp.acknowledge() }
    }
}
