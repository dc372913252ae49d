//! The network graph in GML for Shadow: a node for each place, an edge for each pair of places.
//!
//! Hosts at a place have the same location and the same rates. The rates belong to the graph, since
//! Shadow up to 3.3.0 takes the upload rate of a host from its option for downloads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use samara_emulation::EmulationConfig;
use samara_sim::Latency;

/// The least latency, which is the simulator's floor: Shadow requires latencies above zero.
pub(super) const LATENCY_MIN: Duration = Duration::from_micros(50);

/// Maximum number of places: a graph of this size has 8 million edges.
const PLACES_MAX: usize = 4000;

/// A graph, and the place of each host in it.
pub(super) struct Places {
    pub(super) gml: String,
    pub(super) of_host: Vec<u32>,
    /// Whether a latency was raised to the minimum.
    pub(super) raised: bool,
}

pub(super) fn places(network: &EmulationConfig) -> Result<Places, String> {
    let hosts = network.hosts.len() as u32;
    let locations: Vec<u32> = match &network.latency {
        Latency::Constant(_) => vec![0; network.hosts.len()],
        Latency::Regions(_) => network.hosts.iter().map(|host| u32::from(host.region)).collect(),
        Latency::Pairs(_) => (0..hosts).collect(),
        Latency::Uniform { .. } => {
            return Err("network.latency: found a latency drawn for each pair, which is not exported; \
                        expected one for all pairs, regions, or a file"
                .to_owned());
        }
    };
    // Places in the order of their first hosts.
    let mut numbers = BTreeMap::new();
    let mut places = Vec::new();
    let mut of_host = Vec::with_capacity(locations.len());
    for (location, host) in locations.into_iter().zip(&network.hosts) {
        let place = (location, host.uplink_bps, host.downlink_bps);
        of_host.push(*numbers.entry(place).or_insert_with(|| {
            places.push(place);
            places.len() as u32 - 1
        }));
    }
    let count = places.len();
    if count > PLACES_MAX {
        return Err(format!(
            "network: found {count} places with separate latencies or rates, whose graph has an edge for each pair; \
             expected at most {PLACES_MAX}"
        ));
    }
    let one_way = |from: usize, to: usize| {
        let (from, to) = (places[from].0, places[to].0);
        match &network.latency {
            Latency::Regions(matrix) => matrix[from as usize][to as usize],
            Latency::Pairs(pairs) => pairs.get(from, to),
            Latency::Constant(latency) => *latency,
            Latency::Uniform { min, .. } => *min,
        }
    };
    let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let symmetric = pairs().all(|(from, to)| one_way(from, to) == one_way(to, from));
    let mut raised = false;
    let mut gml = format!("graph [\n  directed {}\n", u8::from(!symmetric));
    for (place, (_, up, down)) in places.iter().enumerate() {
        let _ = write!(
            gml,
            "  node [\n    id {place}\n    host_bandwidth_up \"{up} bit\"\n    host_bandwidth_down \"{down} bit\"\n  ]\n"
        );
    }
    for (from, to) in pairs().filter(|(from, to)| !symmetric || from <= to) {
        let latency = one_way(from, to);
        // A host with its own place has no peer there.
        let alone = from == to && matches!(network.latency, Latency::Pairs(_));
        raised |= latency < LATENCY_MIN && !alone;
        let _ = write!(
            gml,
            "  edge [\n    source {from}\n    target {to}\n    latency \"{} ns\"\n    packet_loss {:?}\n  ]\n",
            latency.max(LATENCY_MIN).as_nanos(),
            network.loss
        );
    }
    gml.push_str("]\n");
    Ok(Places { gml, of_host, raised })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn edges(gml: &str) -> Vec<(u32, u32, u64)> {
        let number = |line: &str, key: &str| {
            let value = line.trim().strip_prefix(key)?.trim().trim_matches('"').trim_end_matches(" ns");
            value.parse::<u64>().ok()
        };
        let of = |key: &'static str| gml.lines().filter_map(move |line| number(line, key));
        of("source")
            .zip(of("target"))
            .zip(of("latency"))
            .map(|((from, to), latency)| (from as u32, to as u32, latency))
            .collect()
    }

    #[test]
    fn one_latency_is_one_place() {
        let mut network = EmulationConfig::uniform(3, 1_000_000, 50 * MS);
        network.loss = 0.01;
        let places = places(&network).unwrap();
        assert_eq!(places.of_host, [0, 0, 0]);
        assert_eq!(edges(&places.gml), [(0, 0, 50_000_000)]);
        assert!(
            places.gml.contains("directed 0") && places.gml.contains("packet_loss 0.01"),
            "{}",
            places.gml
        );
        assert!(!places.raised);
    }

    #[test]
    fn hosts_with_other_rates_have_a_place_of_their_own() {
        let mut network = EmulationConfig::uniform(3, 1_000_000, 5 * MS);
        network.hosts[1].uplink_bps = 2_000_000;
        let places = places(&network).unwrap();
        assert_eq!(places.of_host, [0, 1, 0]);
        assert_eq!(edges(&places.gml), [(0, 0, 5_000_000), (0, 1, 5_000_000), (1, 1, 5_000_000)]);
        let node = "id 1\n    host_bandwidth_up \"2000000 bit\"\n    host_bandwidth_down \"1000000 bit\"";
        assert!(places.gml.contains(node), "{}", places.gml);
    }

    #[test]
    fn regions_are_places_and_directions_can_differ() {
        let mut network = EmulationConfig::uniform(3, 1_000_000, MS);
        network.hosts[2].region = 1;
        network.latency = Latency::Regions(vec![vec![MS, 2 * MS], vec![2 * MS, Duration::ZERO]]);
        let both = places(&network).unwrap();
        assert_eq!(both.of_host, [0, 0, 1]);
        assert_eq!(edges(&both.gml), [(0, 0, 1_000_000), (0, 1, 2_000_000), (1, 1, 50_000)]);
        assert!(both.raised);
        network.latency = Latency::Regions(vec![vec![MS, 2 * MS], vec![3 * MS, MS]]);
        let each = places(&network).unwrap();
        assert!(each.gml.contains("directed 1"));
        assert_eq!(edges(&each.gml).len(), 4);
        assert!(edges(&each.gml).contains(&(1, 0, 3_000_000)));
    }

    #[test]
    fn each_host_of_a_pair_table_is_a_place_up_to_the_limit() {
        let mut network = EmulationConfig::uniform(2, 1_000_000, MS);
        let nanos = MS.as_nanos() as u32;
        let pairs = samara_sim::PairLatencies::new(2, vec![0, nanos, nanos, 0]).unwrap();
        network.latency = Latency::Pairs(pairs.clone());
        let each = places(&network).unwrap();
        assert_eq!(each.of_host, [0, 1]);
        assert!(!each.raised, "a host alone at its place raises no latency");
        let many = EmulationConfig {
            latency: Latency::Pairs(pairs),
            ..EmulationConfig::uniform(PLACES_MAX + 1, 1_000_000, MS)
        };
        let error = places(&many).err().unwrap();
        assert!(error.contains("found 4001 places"), "{error}");
    }
}
