//! What the runtime adds to the engine's configuration.

use std::sync::Arc;

use libp2p::StreamProtocol;
use samara_gossipsub::wire::Limits;

/// The protocols that are offered, the preferred one first.
pub const PROTOCOLS: [StreamProtocol; 5] = [
    StreamProtocol::new("/meshsub/1.3.0"),
    StreamProtocol::new("/meshsub/1.2.0"),
    StreamProtocol::new("/meshsub/1.1.0"),
    StreamProtocol::new("/meshsub/1.0.0"),
    StreamProtocol::new("/floodsub/1.0.0"),
];

/// Options of a [`Behaviour`](crate::Behaviour) that no simulation has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which protocols are offered and accepted, the preferred one first.
    pub protocols: Arc<[StreamProtocol]>,
    /// Bytes that may be on their way from the outbox into a stream, for each link: beyond, copies stay in the outbox, where they can
    /// be withdrawn and their order follows what happens. A link with nothing on the way takes any one frame.
    pub in_flight_bytes: usize,
    /// Hard bounds of the frames that are read.
    pub limits: Limits,
    /// Whether [`Event::Sent`](crate::Event::Sent) tells of every copy of a message that was written.
    pub report_sent: bool,
    /// Whether every frame that is read or written is an event: for traces.
    pub report_frames: bool,
}

impl Default for Options {
    /// All protocols, 64 KiB in flight on each link: some milliseconds at a gigabit, and four columns of 16 KiB.
    fn default() -> Self {
        Self {
            protocols: PROTOCOLS.into(),
            in_flight_bytes: 64 << 10,
            limits: Limits::default(),
            report_sent: false,
            report_frames: false,
        }
    }
}
