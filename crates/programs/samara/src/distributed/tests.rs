use samara_document::Inputs;
use samara_scenario::{Overrides, load_source};
use samara_sim::Threads;

use super::*;

/// Returns what two processes with these contents of the hosts file find: whether the files are the
/// same.
fn agree(contents: [&'static str; 2]) -> Vec<bool> {
    samara_families::register();
    let text = "[scenario]\nname = \"two\"\ntitle = \"\"\n[network]\nnodes_file = \"nodes.csv\"\ntopology = { kind = \"ring\" }\n[columns]\n";
    let one = |(mut ranks, hosts): (Threads, &str)| {
        let inputs = Inputs::default().with("nodes.csv", hosts);
        let loaded = load_source("two", text, inputs, &Overrides::default());
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
        let mut ranks = Counted { ranks: &mut ranks, waited: Duration::ZERO, sent: 0 };
        have_same_files(&loaded, &mut ranks).unwrap_or_else(|error| panic!("{error}"))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            Threads::new(2).into_iter().zip(contents).map(|own| scope.spawn(move || one(own))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(false)).collect()
    })
}

#[test]
fn processes_with_different_files_do_not_start() {
    let (one, other) = ("node,uplink_mbps\n0,1\n1,1\n2,1\n", "node,uplink_mbps\n0,1\n1,1\n2,2\n");
    assert_eq!(agree([one, one]), [true, true]);
    assert_eq!(agree([one, other]), [false, false]);
    assert_eq!(agree([other, one]), [false, false]);
}
