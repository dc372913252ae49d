//! A scenario is read once for each point, beside its file.

use samara_document::keys::parse_axis;
use samara_scenario::Overrides;

use crate::{READS, load, set};

/// Returns the number of points, and how often the scenario was read.
fn reads(text: &str, overrides: &Overrides) -> (usize, usize) {
    READS.set(0);
    let loaded = load(text, overrides).unwrap_or_else(|error| panic!("{error}"));
    (loaded.points.len(), READS.get())
}

const FILE: &str = "[network]\nnodes = 100\n[work]\nsize = 5\n";
const RUNS: &str = "[[run]]\nname = \"as-it-is\"\n\
    [[run]]\nname = \"small\"\nset.\"work.size\" = 1\n\
    [[run]]\nname = \"near\"\nset = { \"network.latency\" = \"1 ms\", \"network.uplink\" = \"1 Gbit/s\" }\n";

#[test]
fn scenarios_are_read_once_for_each_point() {
    let none = Overrides::default();
    assert_eq!(reads(FILE, &none), (1, 1));
    let runs = format!("{FILE}{RUNS}");
    assert_eq!(reads(&runs, &none), (3, 1 + 2), "a run without keys is the scenario of the file");
    let seeds = format!("scenario.seeds = [1, 2, 3, 4]\n{runs}");
    assert_eq!(reads(&seeds, &none), (12, 1 + 2), "seeds share a scenario");
    let sweep = format!("{runs}[[sweep.axis]]\nkey = \"network.loss\"\nvalues = [\"0 %\", \"1 %\"]\n");
    assert_eq!(reads(&sweep, &none), (6, 1 + 6));
    let axes = vec![parse_axis("network.loss=0 %,1 %").unwrap()];
    assert_eq!(reads(&runs, &Overrides { axes, ..Overrides::default() }), (6, 1 + 6));
    let several = [("network.nodes", "80"), ("network.jitter", "1 ms"), ("work.title", "7")];
    assert_eq!(reads(&runs, &set(&several)), (3, 2 + 2), "the command line is one layer");
}
