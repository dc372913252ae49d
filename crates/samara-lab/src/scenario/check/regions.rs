//! Values of regions that cannot be.

use std::time::Duration;

use samara_sim::LATENCY_FLOOR;

use super::super::Regions;
use super::Checks;

impl Checks<'_> {
    pub(super) fn regions(&mut self, regions: &Regions) {
        let count = regions.names.len();
        let square = regions.latency.len() == count && regions.latency.iter().all(|row| row.len() == count);
        if count == 0 || regions.weights.len() != count || !square {
            let rows = regions.latency.len();
            self.wrong(
                "network.regions",
                format!(
                    "{count} names, {} weights and {rows} rows of latency; each region needs a name, a weight, and a \
                     row with a latency to every region (or weights_file, and network.latency_file)",
                    regions.weights.len()
                ),
            );
            return;
        }
        if regions.weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0)
            || regions.weights.iter().sum::<f64>() <= 0.0
        {
            self.wrong(
                "network.regions.weights",
                "weights are positive numbers, and one is not zero".to_owned(),
            );
        }
        self.gateways(regions);
    }

    /// The simulator splits the way between regions in three parts, none of which is shorter than the shortest way.
    fn gateways(&mut self, regions: &Regions) {
        let Some(rate) = regions.gateway else { return };
        if rate.bps() == 0 {
            self.wrong("network.regions.gateway", "is 0 bit/s; it must be positive".to_owned());
        }
        let all = regions.latency.iter().flatten().map(|latency| latency.duration());
        let least = all.min().unwrap_or_default().max(LATENCY_FLOOR);
        for (from, row) in regions.latency.iter().enumerate() {
            let near = |(to, latency): &(usize, Duration)| *to != from && *latency < 3 * least;
            if let Some((to, latency)) = row.iter().map(|latency| latency.duration()).enumerate().find(near) {
                let (from, to) = (&regions.names[from], &regions.names[to]);
                self.wrong(
                    "network.regions.latency",
                    format!(
                        "is {latency:?} from {from} to {to}; where regions have gateways, at least three times the least latency of all, \
                         {least:?}"
                    ),
                );
                return;
            }
        }
    }
}
