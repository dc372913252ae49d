//! Data sets that come along.
//!
//! `reference/` holds what real go-libp2p-pubsub nodes did under the Shadow simulator (100 nodes, 20 Mbit/s, 128 columns of
//! 16 KiB): the graph, the custody sets, a mesh, and when each column arrived where. `regions/` holds tables of latencies
//! between regions.

mod arrivals;

pub use arrivals::{Arrival, ArrivalsError, arrivals};

macro_rules! compressed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../data/", $name, ".zst")) as &[u8])),*]
    };
}

const COMPRESSED: &[(&str, &[u8])] = compressed![
    "reference/edges_n100.csv",
    "reference/custody_n100.csv",
    "reference/mesh_n100_s1.csv",
    "reference/arrivals_n100_bw20_seq_s1.csv",
    "reference/arrivals_n100_bw20_seq_s2.csv",
    "reference/arrivals_n100_bw20_seq_s3.csv",
    "reference/arrivals_n100_bw20_seq_rr.csv",
    "reference/arrivals_n100_bw20_batch_s1.csv",
    "reference/arrivals_n100_bw20_batch_s2.csv",
    "reference/arrivals_n100_bw20_batch_s3.csv",
    "reference/arrivals_n100_bw20_batch_rr.csv",
];

/// Eight regions of the libp2p project's gossipsub-interop tests, with the numbers of nodes that were counted in each and
/// one-way latencies in ms.
const PLAIN: &[(&str, &str)] = &[("regions/interop8.csv", include_str!("../../data/regions/interop8.csv"))];

/// The names of all data sets.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMPRESSED.iter().map(|(name, _)| *name).chain(PLAIN.iter().map(|(name, _)| *name))
}

/// The text of a data set; `None` if there is none of this name. A ".zst" at its end does not matter.
///
/// # Panics
/// Never: tests read all of them.
pub fn read(name: &str) -> Option<String> {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    if let Some((_, text)) = PLAIN.iter().find(|(known, _)| *known == name) {
        return Some((*text).to_owned());
    }
    let (_, bytes) = COMPRESSED.iter().find(|(known, _)| *known == name)?;
    let text = zstd::decode_all(*bytes).expect("data sets that come along are whole");
    Some(String::from_utf8(text).expect("data sets that come along are text"))
}
