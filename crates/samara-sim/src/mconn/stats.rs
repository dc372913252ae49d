//! What connections with channels count.

use super::channel::Written;

/// What the connections of a host with channels wrote, since the start of the run.
///
/// Everything that leaves is accounted for: payload and framing of the channels, three bytes for each ping and pong, twenty
/// for sealing each frame, padding, and the headers of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Sealed frames handed to the socket.
    pub sealed_frames: u64,
    /// Bytes that frames were filled up with.
    pub padding_bytes: u64,
    /// Flushes of something.
    pub flushes: u64,
    /// Those that a full buffer made.
    pub full_buffers: u64,
    /// Pings and pongs.
    pub pings_and_pongs: u64,
    /// How often a copy in the outbox began to wait for room in the queue of its channel.
    pub queue_waits: u64,
    /// The channels, in the order of the configuration.
    pub channels: Vec<ChannelStats>,
}

/// What was written on one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// The channel's number on the wire.
    pub id: u8,
    /// Messages whose last packet was written.
    pub messages: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes of messages in them.
    pub message_bytes: u64,
    /// All other bytes of them.
    pub framing_bytes: u64,
}

impl ConnectionStats {
    pub(crate) fn new(ids: impl Iterator<Item = u8>) -> Self {
        let channels = ids.map(|id| ChannelStats { id, ..ChannelStats::default() }).collect();
        Self { channels, ..Self::default() }
    }

    pub(super) fn packet<F>(&mut self, channel: usize, packet: &Written<F>) {
        let channel = &mut self.channels[channel];
        channel.packets += 1;
        channel.messages += u64::from(packet.complete.is_some());
        channel.message_bytes += u64::from(packet.data);
        channel.framing_bytes += u64::from(packet.bytes - packet.data);
    }

    /// What happened since an earlier look.
    pub fn since(&self, earlier: &Self) -> Self {
        let channels = self.channels.iter().zip(&earlier.channels);
        Self {
            sealed_frames: self.sealed_frames - earlier.sealed_frames,
            padding_bytes: self.padding_bytes - earlier.padding_bytes,
            flushes: self.flushes - earlier.flushes,
            full_buffers: self.full_buffers - earlier.full_buffers,
            pings_and_pongs: self.pings_and_pongs - earlier.pings_and_pongs,
            queue_waits: self.queue_waits - earlier.queue_waits,
            channels: channels
                .map(|(now, earlier)| ChannelStats {
                    id: now.id,
                    messages: now.messages - earlier.messages,
                    packets: now.packets - earlier.packets,
                    message_bytes: now.message_bytes - earlier.message_bytes,
                    framing_bytes: now.framing_bytes - earlier.framing_bytes,
                })
                .collect(),
        }
    }
}
