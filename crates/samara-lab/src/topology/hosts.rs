//! What each host is.

use std::time::Duration;

use samara_engine::NodeRng;

use crate::scenario::{HostClass, Network};
use crate::units::{Rate, Share};

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Uplink rate.
    pub uplink: Rate,
    /// Downlink rate.
    pub downlink: Rate,
    /// Its class: an index into [`Blueprint::classes`](super::Blueprint::classes).
    pub class: u16,
    /// Its region: an index into [`Blueprint::regions`](super::Blueprint::regions); 0 if there are none.
    pub region: u16,
    /// How long it is busy with checking a message.
    pub validation_time: Duration,
}

/// How many hosts each part gets: in proportion to the weights, rounded by largest remainders, so that all are given out.
pub(super) fn apportion(total: u32, weights: &[f64]) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| f64::from(total) * weight / sum).collect();
    let mut counts: Vec<u32> = exact.iter().map(|part| part.floor() as u32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let rest = |index: usize| exact[index] - exact[index].floor();
    order.sort_by(|a, b| rest(*b).total_cmp(&rest(*a)).then(a.cmp(b)));
    let missing = total.saturating_sub(counts.iter().sum());
    order.iter().cycle().take(missing as usize).for_each(|index| counts[*index] += 1);
    counts
}

/// The names of all classes; the first one is of hosts that are of no class.
pub(super) fn class_names(classes: &[HostClass]) -> Vec<String> {
    std::iter::once("default".to_owned()).chain(classes.iter().map(|class| class.name.clone())).collect()
}

/// The class of each host: 0, or one more than the index in the scenario.
pub(super) fn draw_classes(nodes: u32, classes: &[HostClass], rng: &mut NodeRng) -> Vec<u16> {
    let counted: u32 = classes.iter().filter_map(|class| class.count).sum();
    let shares: Vec<f64> = classes.iter().map(|class| class.share.map_or(0.0, Share::fraction)).collect();
    let rest = (1.0 - shares.iter().sum::<f64>()).max(0.0);
    // Shares are of all hosts; those that are counted come out of what is left.
    let parts: Vec<f64> = shares.iter().copied().chain([rest]).collect();
    let by_share = apportion(nodes, &parts);
    let mut class_of = Vec::with_capacity(nodes as usize);
    for (index, class) in classes.iter().enumerate() {
        let count = class.count.unwrap_or(by_share[index]);
        class_of.extend(std::iter::repeat_n(index as u16 + 1, count as usize));
    }
    debug_assert!(counted <= nodes, "the rules of scenarios let no more pass");
    class_of.resize(nodes as usize, 0);
    rng.shuffle(&mut class_of);
    class_of
}

/// The region of each host: that of its class, or drawn in proportion to the weights.
pub(super) fn draw_regions(
    class_of: &[u16],
    fixed: &[Option<u16>],
    weights: &[u32],
    rng: &mut NodeRng,
) -> Vec<u16> {
    let free = class_of.iter().filter(|class| fixed[usize::from(**class)].is_none()).count();
    let weights: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
    let counts = apportion(free as u32, &weights);
    let pool = counts.iter().enumerate();
    let mut pool: Vec<u16> =
        pool.flat_map(|(region, count)| std::iter::repeat_n(region as u16, *count as usize)).collect();
    rng.shuffle(&mut pool);
    let mut pool = pool.into_iter();
    let region = |class: &u16| fixed[usize::from(*class)].or_else(|| pool.next()).unwrap_or(0);
    class_of.iter().map(region).collect()
}

/// The properties of a host of a class.
pub(super) fn host(network: &Network, class: u16, region: u16) -> Host {
    let own = usize::from(class).checked_sub(1).map(|index| &network.class[index]);
    let rate = |own_rate: fn(&HostClass) -> Option<Rate>, otherwise: Rate| {
        own.and_then(|class| own_rate(class).or(class.bandwidth)).unwrap_or(otherwise)
    };
    let validation_time = own.and_then(|class| class.validation_time).unwrap_or(network.validation_time);
    Host {
        uplink: rate(|class| class.uplink, network.uplink()),
        downlink: rate(|class| class.downlink, network.downlink()),
        class,
        region,
        validation_time: validation_time.duration(),
    }
}
