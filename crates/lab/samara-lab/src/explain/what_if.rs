//! Counterfactuals: a run again without one of its causes.

use std::time::Duration;

use samara_scenario::{Loaded, Point};
use samara_sim::{
    Cause, Connection, Control, DownlinkQueue, Flush, HostConfig, Http2Config, NicDiscipline, SimConfig,
    Window,
};
use serde::Serialize;

use super::{Explain, Means, Mode};
use crate::results::Measured;
use crate::run::{RunError, RunOptions, run};

/// A window that no run fills, in packets and in bytes.
const WIDE_PACKETS: u32 = 1 << 20;
const WIDE_BYTES: u32 = i32::MAX as u32;
/// A rate that takes no time, in bits per second.
const WIDE_BPS: u64 = 1_000_000_000_000_000;
/// A delay that no packet has.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// A property of the network that a counterfactual run lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Without {
    /// Validation and computation take no time.
    Processing,
    /// All links are up from the start.
    Handshakes,
    /// Congestion windows are open, and nothing paces packets.
    CongestionWindows,
    /// Congestion windows do not shrink while a connection is idle.
    IdleRestart,
    /// Receivers have room for everything.
    FlowControl,
    /// Channels flush as soon as they have nothing more to write.
    FlushThrottle,
    /// Nothing limits a node over all its links.
    NodeLimit,
    /// Uplinks are the hosts' own interfaces, without a queue out of their reach.
    UplinkQueue,
    /// The uplinks of these hosts take no time.
    PublisherUplinks(Vec<u32>),
    /// No uplink takes time.
    Uplinks,
    /// No downlink takes time.
    Downlinks,
    /// Regions have no gateways.
    Gateways,
    /// Nothing is lost: at random, or because a queue is full.
    Losses,
}

impl Without {
    fn all(causes: &[Cause], publishers: Vec<u32>) -> Vec<Self> {
        let has = |some: &[Cause]| some.iter().any(|cause| causes.contains(cause));
        let window = [Cause::SlowStart, Cause::IdleRestart, Cause::Avoidance, Cause::Recovery, Cause::Pacing];
        let uplink = [
            Cause::NodeLimit,
            Cause::SameBatch,
            Cause::OtherTraffic,
            Cause::Interface,
            Cause::UplinkQueue,
            Cause::Serialisation,
        ];
        [
            (has(&[Cause::Processor]), Self::Processing),
            (has(&[Cause::Handshake]), Self::Handshakes),
            (has(&window), Self::CongestionWindows),
            (has(&[Cause::IdleRestart]), Self::IdleRestart),
            (has(&[Cause::FlowControl]), Self::FlowControl),
            (has(&[Cause::Flush]), Self::FlushThrottle),
            (has(&[Cause::NodeLimit]), Self::NodeLimit),
            (has(&[Cause::NodeLimit, Cause::UplinkQueue]), Self::UplinkQueue),
            (has(&uplink), Self::PublisherUplinks(publishers)),
            (has(&uplink), Self::Uplinks),
            (has(&[Cause::Downlink]), Self::Downlinks),
            (has(&[Cause::Gateway]), Self::Gateways),
            (has(&[Cause::Loss]), Self::Losses),
        ]
        .into_iter()
        .filter_map(|(is_there, without)| is_there.then_some(without))
        .collect()
    }

    /// Returns a description for tables.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Processing => "no processing time",
            Self::Handshakes => "links up from the start",
            Self::CongestionWindows => "open congestion windows, no pacing",
            Self::IdleRestart => "no smaller window after idle times",
            Self::FlowControl => "unlimited receivers",
            Self::FlushThrottle => "channels flush at once",
            Self::NodeLimit => "no limit over all links",
            Self::UplinkQueue => "no queue before uplinks",
            Self::PublisherUplinks(_) => "unlimited uplinks of publishers",
            Self::Uplinks => "unlimited uplinks of all nodes",
            Self::Downlinks => "unlimited downlinks",
            Self::Gateways => "no gateways",
            Self::Losses => "no losses",
        }
    }

    /// Changes the rates of hosts in the simulation. Bounds and metrics refer to the network itself.
    pub(crate) fn change_rates(&self, hosts: &mut [HostConfig]) {
        match self {
            Self::PublisherUplinks(publishers) => {
                for host in publishers {
                    hosts[*host as usize].uplink_bps = WIDE_BPS;
                }
            }
            Self::Uplinks => hosts.iter_mut().for_each(|host| host.uplink_bps = WIDE_BPS),
            Self::Downlinks => hosts.iter_mut().for_each(|host| host.downlink_bps = WIDE_BPS),
            _ => {}
        }
    }

    pub fn change(&self, config: &mut SimConfig) {
        match (self, &mut config.transport.control, &mut config.transport.connection) {
            (Self::CongestionWindows, Control::Tcp(tcp), _) => {
                (tcp.initial_window, tcp.idle_restart) = (WIDE_PACKETS, false);
                tcp.receive_window = tcp.receive_window.max(WIDE_PACKETS);
            }
            (Self::CongestionWindows, Control::Quic(quic), _) => {
                (quic.initial_window, quic.pacing) = (WIDE_PACKETS, false);
                quic.receive_window = quic.receive_window.max(WIDE_PACKETS);
            }
            (Self::IdleRestart, Control::Tcp(tcp), _) => tcp.idle_restart = false,
            (Self::FlowControl, control, connection) => {
                match control {
                    Control::Tcp(tcp) => tcp.receive_window = WIDE_PACKETS,
                    Control::Quic(quic) => quic.receive_window = WIDE_PACKETS,
                    Control::Ideal | Control::Datagram => {}
                }
                match connection {
                    Connection::Http2(_) => {
                        *connection =
                            Connection::Http2(Http2Config { window: Window::Fixed { bytes: WIDE_BYTES } });
                    }
                    Connection::MConnection(channels) => (channels.send_rate, channels.receive_rate) = (0, 0),
                    Connection::Direct => {}
                }
            }
            (Self::FlushThrottle, _, Connection::MConnection(channels)) => channels.flush = Flush::WhenIdle,
            (Self::NodeLimit, ..) => config.transport.limit = None,
            (Self::UplinkQueue, ..) => config.nic = NicDiscipline::RoundRobin,
            (Self::Gateways, ..) => config.network.gateways.clear(),
            (Self::Losses, ..) => {
                (config.network.loss, config.network.losses) = (0.0, None);
                config.downlink_queue = DownlinkQueue::DropTail { bytes: u64::MAX };
                for gateway in &mut config.network.gateways {
                    gateway.queue = config.downlink_queue;
                }
                if let NicDiscipline::FqCoDel(fair) = &mut config.nic {
                    fair.target = NEVER;
                }
            }
            _ => {}
        }
    }
}

/// A run again without one property.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counterfactual {
    /// The cause that the run lacks.
    pub without: &'static str,
    /// The mean time of the main metric, in milliseconds.
    pub mean_ms: f64,
    /// The difference to the run itself; negative if the run is slower without the property.
    pub gain_ms: f64,
}

/// A run and its counterfactuals, the largest gain first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    pub run: String,
    /// The time of the main metric.
    pub of: &'static str,
    pub mean_ms: f64,
    pub without: Vec<Counterfactual>,
}

/// The statement that belongs to every list of counterfactuals.
pub const WHY_PARTS_DIFFER: &str = "A gain is not a part: without one cause, the same data often wait for the \
                                    next one, and several waits can end together.";

/// Runs a point, and again without one property after the other.
pub fn what_if(loaded: &Loaded, point: &Point, options: RunOptions<'_>) -> Result<WhatIf, String> {
    let (own, publishers) = means(point, options, None).map_err(|error| error.to_string())?;
    let causes: Vec<Cause> = own.causes.iter().filter_map(|label| Cause::of_label(label)).collect();
    let mut without = Vec::new();
    for one in Without::all(&causes, publishers) {
        let label = one.label();
        let (means, _) = means(point, options, Some(one))
            .map_err(|error| format!("{}: run {} with {label}: {error}", loaded.source, point.name()))?;
        let gain_ms = own.mean_ms - means.mean_ms;
        without.push(Counterfactual { without: label, mean_ms: means.mean_ms, gain_ms });
    }
    without.sort_by(|a, b| b.gain_ms.total_cmp(&a.gain_ms));
    Ok(WhatIf { run: point.name(), of: own.of, mean_ms: own.mean_ms, without })
}

/// Runs a point without a property. Returns the means, and the publishers.
fn means(
    point: &Point,
    options: RunOptions<'_>,
    without: Option<Without>,
) -> Result<(Means, Vec<u32>), RunError> {
    let explain = Explain { without, ..Explain::new(Mode::Every(1)) };
    let measured: Box<dyn Measured> = run(point, RunOptions { explain: &explain, ..options }, |_, _| {})?;
    let nothing = || RunError::Failed("this family explains no deliveries".to_owned());
    let explained = measured.explained().ok_or_else(nothing)?;
    let mut publishers: Vec<u32> = explained.rows.iter().map(|row| row.publisher).collect();
    publishers.sort_unstable();
    publishers.dedup();
    Ok((explained.means(), publishers))
}

impl WhatIf {
    /// Returns the counterfactuals as a table of text.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {} takes {:.1} ms in the mean\n", self.run, self.of, self.mean_ms);
        text += &format!("  {:<38}{:>10}{:>10}{:>9}\n", "with", "mean ms", "gain ms", "gain");
        // Gains below the last digit have no sign.
        let shown = |value: f64| if value.abs() < 0.05 { 0.0 } else { value };
        for one in &self.without {
            let share = shown(100.0 * one.gain_ms / self.mean_ms.max(1e-9));
            let gain_ms = shown(one.gain_ms);
            text += &format!("  {:<38}{:>10.1}{:>10.1}{share:>7.1} %\n", one.without, one.mean_ms, gain_ms);
        }
        text + "  " + WHY_PARTS_DIFFER + "\n"
    }
}
