//! The price of authentication: groups of our members that differ in nothing else.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use samara_net::ring::{Authentication, Certificates, Frames, Identity, Secret};

use crate::Anyhow;
use crate::cluster::Cluster;
use crate::histogram::median;
use crate::measure::BYTES;
use crate::network::Network;
use crate::node::Implementation;

const KINDS: [&str; 4] = ["none", "fields", "encrypted", "tls"];
const SECRET: &[u8] = b"a secret for measurements only";
const MEMBERS: usize = 4;

/// The certificate of a member, which the first process that needs it writes.
fn identity(index: usize) -> Anyhow<Identity> {
    let directory = std::env::temp_dir().join("samara-daisychain");
    std::fs::create_dir_all(&directory)?;
    let path: PathBuf = directory.join(format!("{index}.pem"));
    if !path.exists() {
        Identity::generate()?.save(&path)?;
    }
    Ok(Identity::from_pem(&std::fs::read_to_string(path)?)?)
}

/// Returns the authentication of a member with this name, one of [`KINDS`].
pub(crate) fn authentication(kind: &str, index: usize, members: &[SocketAddr]) -> Anyhow<Authentication> {
    let secret = |frames| Ok(Authentication::Secret(Secret::new(SECRET)?, frames));
    match kind {
        // Members in namespaces of this machine are not on loopback.
        "none" => Ok(Authentication::Unauthenticated),
        "fields" => secret(Frames::Fields),
        "encrypted" => secret(Frames::Encrypted),
        "tls" => {
            let fingerprint = |(index, member): (usize, &SocketAddr)| {
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((*member, identity(index)?.fingerprint()))
            };
            let members: BTreeMap<_, _> =
                members.iter().enumerate().map(fingerprint).collect::<Result<_, _>>()?;
            Ok(Authentication::Certificates(Certificates { identity: identity(index)?, members }))
        }
        _ => Err(format!("found {kind:?}; expected one of {}", KINDS.join(", ")).into()),
    }
}

/// Starts a group of each kind, and lets the groups carry the same load in turn. Prints medians, and
/// the medians of ratios to the round without authentication beside each.
pub(crate) fn compare(network: &Network, rounds: usize, messages: u64) -> Anyhow<()> {
    (0..MEMBERS).try_for_each(|index| identity(index).map(drop))?;
    let program = std::env::current_exe()?;
    let mut clusters = Vec::new();
    for (number, kind) in (700..).zip(KINDS) {
        let arguments = vec!["member".into(), kind.into()];
        let ours = Implementation { name: "samara-ring", program: program.clone().into(), arguments };
        clusters.push(Cluster::start(&ours, network, MEMBERS, number)?);
    }
    println!(
        "\n| {} | senders | authentication | MB/s for each member | ratio | CPU s per GB | ratio |",
        network.name()
    );
    println!("|---|--:|---|--:|--:|--:|--:|");
    for senders in [MEMBERS, 1] {
        let mut rates = [const { Vec::new() }; KINDS.len()];
        let mut times = [const { Vec::new() }; KINDS.len()];
        // The first round warms up windows.
        for round in 0..=rounds {
            // Another group begins each round, so that the order favours none.
            for at in (0..KINDS.len()).map(|turn| (round + turn) % KINDS.len()) {
                let delivered = clusters[at].load(senders, messages / senders as u64, BYTES, 0.0)?;
                if round > 0 {
                    rates[at].push(delivered.mb_per_s);
                    times[at].push(delivered.cpu_s_per_gb);
                }
            }
        }
        let ratio = |values: &[f64], base: &[f64]| {
            median(&values.iter().zip(base).map(|(value, base)| value / base).collect::<Vec<_>>())
        };
        for (at, kind) in KINDS.iter().enumerate() {
            println!(
                "| | {senders} | {kind} | {:.1} | {:.3} | {:.2} | {:.2} |",
                median(&rates[at]),
                ratio(&rates[at], &rates[0]),
                median(&times[at]),
                ratio(&times[at], &times[0]),
            );
        }
    }
    Ok(())
}
