//! The packets of the network.

use std::cmp::Reverse;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::explain::{Carried, Trace};
use crate::transport::StreamLoad;

/// A packet on its way, or in a queue.
#[derive(Debug)]
pub(crate) struct Packet<F> {
    /// The time at which its last bit reaches the receiver's side of the network, in nanoseconds.
    pub(crate) arrive: u64,
    pub(crate) src: u32,
    /// The receiving host, and the stops before it.
    pub(crate) heading: Heading,
    /// The number of the packet at its sending host: orders packets that arrive at the same time.
    pub(crate) order: u32,
    /// The receiver's slot for the link, or [`UNKNOWN_SLOT`].
    pub(crate) slot: u32,
    /// The incarnation of the link; packets of an older one are discarded.
    pub(crate) epoch: u32,
    /// Bytes on the wire.
    pub(crate) len: u32,
    /// The acknowledgement: see [`Ack`](crate::transport::Ack).
    pub(crate) ack: u32,
    /// TCP: the time at which it left (RFC 7323), in microseconds modulo 2^32. QUIC: its number.
    pub(crate) stamp: u32,
    pub(crate) echo: u32,
    /// How far the sender's own receiver lets data come: see [`Ack`](crate::transport::Ack).
    pub(crate) window: u32,
    pub(crate) sack: Option<Box<Sack>>,
    pub(crate) body: Body<Carried<F>>,
}

impl<F> Packet<F> {
    /// Removes the first of several segments, with the size of their mean. Returns its bytes, or
    /// `None` if there is only one segment.
    pub(crate) fn take_first_segment(&mut self) -> Option<u32> {
        let Body::Stream { seq, count, .. } = &mut self.body else { return None };
        if *count == 1 {
            return None;
        }
        let first = self.len.div_ceil(*count);
        *seq += 1;
        *count -= 1;
        self.len -= first;
        Some(first)
    }
}

/// Moves the packets that arrive before `end` out of an inbox, and sorts them: the first is the last.
pub(crate) fn take_arrivals<F>(inbox: &mut Vec<Packet<F>>, end: u64, arrivals: &mut Vec<Packet<F>>) {
    let mut i = 0;
    while i < inbox.len() {
        if inbox[i].arrive < end {
            arrivals.push(inbox.swap_remove(i));
        } else {
            i += 1;
        }
    }
    // The order in which packets were added does not matter: these keys are unique.
    arrivals.sort_unstable_by_key(|packet| Reverse((packet.arrive, packet.src, packet.order)));
}

/// The destination of a packet: the number of a host in the lower 24 bits (the maximum number of
/// hosts), and the number of gateways before it in the upper bits. Networks with gateways therefore
/// need no larger packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heading(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The way out of the sender's region.
    Out,
    /// The way into the receiver's region.
    In,
    Host(u32),
}

impl Heading {
    const HOST_BITS: u32 = 24;

    pub(crate) const fn to(host: u32) -> Self {
        Self(host)
    }

    pub(crate) const fn through_gateways(host: u32) -> Self {
        Self(host | 2 << Self::HOST_BITS)
    }

    pub(crate) const fn host(self) -> u32 {
        self.0 & ((1 << Self::HOST_BITS) - 1)
    }

    pub(crate) const fn stop(self) -> Stop {
        match self.0 >> Self::HOST_BITS {
            0 => Stop::Host(self.host()),
            1 => Stop::In,
            _ => Stop::Out,
        }
    }

    /// Returns the heading after the next gateway.
    pub(crate) const fn passed(self) -> Self {
        Self(self.0 - (1 << Self::HOST_BITS))
    }
}

/// The slot of a link that the sender does not know yet.
pub(crate) const UNKNOWN_SLOT: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) enum Body<F> {
    /// A segment; the last one of a frame carries the frame.
    Data { seq: u32, frame: Option<F> },
    /// `count` segments of a layer over TCP that left one after the other. With the last one, the body
    /// completes no, one or several frames.
    Stream { seq: u32, count: u32, load: Option<StreamLoad<F>> },
    /// Only an acknowledgement.
    Ack,
    /// A step of the handshake (an even number from the dialler) and the sender's own slot.
    Hello { step: u32, slot: u32 },
    /// The sender has closed the link.
    Close,
    /// A refusal: nothing listens at the host that this incarnation of the link dialled.
    Refuse { epoch: u32 },
}

impl<F> Body<Carried<F>> {
    /// Returns the records of the frames that end in the packet.
    pub(crate) fn traces(&self) -> SmallVec<[Arc<Trace>; 1]> {
        let trace = |carried: &Carried<F>| carried.trace.clone();
        match self {
            Self::Data { frame, .. } => frame.iter().filter_map(trace).collect(),
            Self::Stream { load, .. } => {
                load.iter().flat_map(|load| load.frames()).filter_map(trace).collect()
            }
            Self::Ack | Self::Hello { .. } | Self::Close | Self::Refuse { .. } => SmallVec::new(),
        }
    }
}

impl<F> Body<F> {
    pub(crate) const fn packets(&self) -> u32 {
        match self {
            Self::Stream { count, .. } => *count,
            Self::Data { .. } | Self::Ack | Self::Hello { .. } | Self::Close | Self::Refuse { .. } => 1,
        }
    }
}

/// Ranges (from, to exclusive) of arrived segments or packets. TCP: up to four beyond a gap, the
/// newest first (RFC 2018). QUIC: all that the receiver remembers, the largest first (RFC 9000
/// section 19.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sack {
    pub(crate) ranges: SmallVec<[(u32, u32); 4]>,
}

impl Sack {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranges.iter().copied()
    }
}
