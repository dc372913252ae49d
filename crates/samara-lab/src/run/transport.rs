//! Transport and queues: from the scenario to the simulator.

use std::time::Duration;

use samara_sim::{DownlinkQueue, Framing, NicDiscipline, RtoFloor, SendBuffer, TcpConfig, Transport};

use crate::scenario as model;

/// The simulator's transport.
pub(super) fn transport(spec: &model::Transport) -> Transport {
    let base = Transport::tcp();
    let small = |size: crate::units::Size| u32::try_from(size.bytes()).unwrap_or(u32::MAX);
    Transport {
        mss: spec.mss.map_or(base.mss, small),
        header: spec.header.map_or(base.header, small),
        framing: match spec.framing {
            model::Framing::NoiseYamux => Framing::NOISE_YAMUX,
            model::Framing::Plain => Framing::PLAIN,
            model::Framing::Custom { small: fits, large, lead } => {
                Framing { small_overhead: small(fits), large_overhead: small(large), lead: small(lead) }
            }
        },
        handshake_round_trips: spec.handshake_round_trips.unwrap_or(base.handshake_round_trips),
        tcp: match spec.kind {
            model::TransportKind::Ideal => None,
            model::TransportKind::Tcp => Some(tcp(spec)),
        },
        dead_peer_timeout: spec.dead_peer_timeout.map_or(base.dead_peer_timeout, |span| span.duration()),
    }
}

fn tcp(spec: &model::Transport) -> TcpConfig {
    let preset = match spec.preset {
        model::TransportPreset::Linux => TcpConfig::default(),
        model::TransportPreset::Shadow => shadow(),
    };
    let (per_packet, min) = match preset.send_buffer {
        SendBuffer::Auto { per_packet, min } => (per_packet, min),
        SendBuffer::Fixed { bytes } => (0, bytes),
    };
    TcpConfig {
        initial_window: spec.initial_window.unwrap_or(preset.initial_window),
        receive_window: spec.receive_window.unwrap_or(preset.receive_window),
        min_rto: spec.min_rto.map_or(preset.min_rto, |span| span.duration()),
        rto_floor: spec.rto_floor.map_or(preset.rto_floor, |floor| match floor {
            model::RtoFloor::Sum => RtoFloor::Sum,
            model::RtoFloor::Variation => RtoFloor::Variation,
        }),
        loss_window: spec.loss_window.unwrap_or(preset.loss_window),
        initial_rto: spec.initial_rto.map_or(preset.initial_rto, |span| span.duration()),
        delayed_ack: spec.delayed_ack.map_or(preset.delayed_ack, |span| span.duration()),
        ack_every: spec.ack_every.unwrap_or(preset.ack_every),
        separate_acks: spec.separate_acks.unwrap_or(preset.separate_acks),
        idle_restart: spec.idle_restart.unwrap_or(preset.idle_restart),
        grow_unused: spec.grow_unused.unwrap_or(preset.grow_unused),
        send_buffer: spec.send_buffer.map_or(preset.send_buffer, |buffer| match buffer {
            model::SendBuffer::Fixed { size } => SendBuffer::Fixed { bytes: size.bytes() },
            model::SendBuffer::Auto { per_packet: own, min: least } => SendBuffer::Auto {
                per_packet: own.map_or(per_packet, |size| size.bytes() as u32),
                min: least.map_or(min, |size| size.bytes()),
            },
        }),
    }
}

/// TCP of the Shadow simulator 3.3, as the reference runs show it: no idle restart, a window that also grows unused, each
/// acknowledgement a packet of its own, ten packets after a timeout.
fn shadow() -> TcpConfig {
    TcpConfig {
        receive_window: 119,
        rto_floor: RtoFloor::Sum,
        loss_window: 10,
        delayed_ack: Duration::from_millis(5),
        separate_acks: true,
        idle_restart: false,
        grow_unused: true,
        send_buffer: SendBuffer::Auto { per_packet: 4808, min: 16 * 1024 },
        ..TcpConfig::default()
    }
}

pub(super) fn nic(discipline: model::NicDiscipline) -> NicDiscipline {
    match discipline {
        model::NicDiscipline::RoundRobin => NicDiscipline::RoundRobin,
        model::NicDiscipline::Fifo => NicDiscipline::Fifo,
    }
}

pub(super) fn downlink(queue: model::DownlinkQueue) -> DownlinkQueue {
    match queue {
        model::DownlinkQueue::DropTail { size } => DownlinkQueue::DropTail { bytes: size.bytes() },
        model::DownlinkQueue::CoDel { target, interval } => {
            DownlinkQueue::CoDel { target: target.duration(), interval: interval.duration() }
        }
    }
}

/// Bytes on the wire of a frame: framing, and a header for each packet.
pub(super) fn wire_bytes(frame: u64, transport: &Transport) -> u64 {
    let Framing { small_overhead, large_overhead, lead } = transport.framing;
    let (mss, header) = (u64::from(transport.mss), u64::from(transport.header));
    let small = frame + u64::from(small_overhead);
    if small <= mss {
        return small + header;
    }
    let large = frame + u64::from(large_overhead);
    let packets = u64::from(lead > 0) + (large - u64::from(lead)).div_ceil(mss);
    large + packets * header
}
