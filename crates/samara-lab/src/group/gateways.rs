//! What the gateways of a group's regions allow, and what passed them.

use crate::scenario::Group;
use samara_engine::Shape;
use samara_sim::GateStats;

use crate::results::ratio;
use crate::run::GroupMeasured;

/// What passed gateways, where there are any.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct GatewayFigures {
    /// How often a message left a region: bytes out of all gateways over the bytes of all messages that were broadcast. What is sent to each of the
    /// other regions once leaves as often as there are others, and packets have headers.
    pub copies: f64,
    /// The part of the time in which the busiest direction of any gateway was busy.
    pub utilisation_max: f64,
    /// Packets that gateways dropped.
    pub drops: u64,
    /// The longest that a packet waited in one, in milliseconds; also before the first message.
    pub wait_ms_max: f64,
}

impl GatewayFigures {
    /// Those of a run.
    pub(crate) fn of(measured: &GroupMeasured) -> Option<Self> {
        let rate = measured.point.scenario.network.regions.as_ref()?.gateway?;
        let group = measured.point.scenario.find::<Group>()?;
        let broadcast: u64 = measured.ledgers.iter().map(|ledger| ledger.broadcast).sum();
        let out: u64 = measured.gateways.iter().map(|[out, _]| out.passed.bytes).sum();
        let all = || measured.gateways.iter().flatten();
        let busy = |gate: &GateStats| gate.passed.bytes as f64 * 8e9 / rate.bps() as f64;
        Some(Self {
            copies: ratio(out as f64, (broadcast * group.size.bytes()) as f64),
            utilisation_max: ratio(all().map(busy).fold(0.0, f64::max), measured.measured_nanos as f64)
                .min(1.0),
            drops: all().map(|gate| gate.dropped.packets).sum(),
            wait_ms_max: all().map(|gate| gate.wait_nanos_max).max().unwrap_or(0) as f64 / 1e6,
        })
    }
}

/// Regions of a group that are behind gateways.
pub(crate) struct Behind {
    /// Bytes of content per second of a gateway in each direction.
    rate: f64,
    /// By region: members, and the share of all senders.
    regions: Vec<(f64, f64)>,
}

impl Behind {
    /// Of the members and senders of a run, if there are gateways; `content` is the share of packets that is.
    pub(crate) fn of(measured: &GroupMeasured, senders: usize, content: f64) -> Option<Self> {
        let spec = measured.point.scenario.network.regions.as_ref()?;
        let rate = spec.gateway?.bps() as f64 / 8.0 * content;
        let mut regions = vec![(0.0, 0.0); spec.names.len()];
        for (host, config) in measured.hosts.configs.iter().enumerate() {
            let (members, share) = &mut regions[usize::from(config.region)];
            *members += 1.0;
            *share += if host < senders { 1.0 / senders as f64 } else { 0.0 };
        }
        regions.retain(|(members, _)| *members > 0.0);
        Some(Self { rate, regions })
    }

    /// What no protocol exceeds, in bytes/s that a member delivers: all that others broadcast has to come in once, what its own members
    /// broadcast has to get out once, and everything has to leave as many regions as there are others.
    pub(crate) fn upper(&self) -> f64 {
        let others = self.regions.len() as f64 - 1.0;
        let own = self.regions.iter().map(|(_, share)| self.rate / share.max(1.0 - share));
        own.fold(self.rate * self.regions.len() as f64 / others, f64::min)
    }

    /// The same where leaders of regions use a shape among them. A ring exceeds it no sooner than anything does.
    pub(crate) fn of_bridge(&self, shape: Shape) -> f64 {
        let others = self.regions.len() as f64 - 1.0;
        match shape {
            // Each leader sends what its region broadcasts to each of the others.
            Shape::Direct => {
                let out = self.regions.iter().map(|(_, share)| self.rate / (share * others));
                out.fold(self.upper(), f64::min)
            }
            Shape::Ring | Shape::BinaryTree | Shape::DoubleTree => self.upper(),
        }
    }

    /// The same where everybody sends to everybody.
    pub(crate) fn direct(&self) -> f64 {
        let members: f64 = self.regions.iter().map(|(members, _)| members).sum();
        let each = self.regions.iter().map(|(own, share)| {
            let (out, into) = (share * (members - own), (1.0 - share) * own);
            self.rate / out.max(into)
        });
        each.fold(f64::INFINITY, f64::min)
    }
}
