//! Interoperability with js-libp2p's gossipsub (`interop/js`) over TCP; it has no QUIC.
//!
//! Needs Node.js and npm, which installs the packages of the lock file below the target directory.
//! Without them, these tests print that they were skipped; with `SAMARA_REQUIRE_PEERS` set, they
//! fail.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::OnceLock;

use crate::common::*;
use crate::delivery::a_mebibyte_there_and_back;
use crate::process::start;

/// Files to copy to the directory of the packages.
const FILES: [&str; 4] = ["package.json", "package-lock.json", "node20.mjs", "peer.mjs"];

/// Installs the packages, unless they are already installed. Returns the directory, or the missing
/// requirement.
fn install() -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        Process::new(program).arg("--version").output().map_err(|_| format!("{program} is not installed"))?;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/js");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("js-peer");
    std::fs::create_dir_all(&target).expect("a directory below the target directory");
    for file in FILES {
        std::fs::copy(source.join(file), target.join(file)).expect("a copy");
    }
    let wanted = std::fs::read(source.join("package-lock.json")).expect("the lock file");
    let installed = target.join("installed");
    if std::fs::read(&installed).is_ok_and(|lock| lock == wanted) {
        return Ok(target);
    }
    let npm = Process::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&target).output();
    let npm = npm.expect("npm runs");
    if !npm.status.success() {
        return Err(format!(
            "npm ci in {} failed: {}",
            target.display(),
            String::from_utf8_lossy(&npm.stderr)
        ));
    }
    std::fs::write(installed, wanted).expect("the list of installed packages");
    Ok(target)
}

/// Starts a node of js-libp2p; `None` if this is not possible.
async fn javascript(flags: &[&str]) -> Option<Node> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match INSTALLED.get_or_init(install) {
        Ok(directory) => {
            let mut command = tokio::process::Command::new("node");
            command.arg(directory.join("peer.mjs")).args(flags);
            Some(start(command).await)
        }
        Err(missing) => {
            let required = std::env::var_os("SAMARA_REQUIRE_PEERS").is_some();
            assert!(!required, "SAMARA_REQUIRE_PEERS is set, but js-libp2p is not available: {missing}");
            // Written to standard error directly, because the macros of the standard library print
            // only if a test fails.
            let _ = writeln!(std::io::stderr(), "SKIPPED: nothing was tested with js-libp2p: {missing}");
            None
        }
    }
}

#[tokio::test]
async fn messages_go_both_ways_with_javascript() {
    for (dial, with_author) in
        [(Dial::Ours, true), (Dial::Theirs, true), (Dial::Ours, false), (Dial::Theirs, false)]
    {
        let flags: &[&str] = if with_author { &[] } else { &["--unsigned"] };
        let Some(mut js) = javascript(flags).await else { return };
        let config = if with_author { like_go(signed()) } else { anonymous() };
        let mut our = ours(config, options()).await;
        meet(&mut our, &mut js, "t", dial).await;
        our.publish("t", b"from us");
        assert_eq!(js.message().await.1, b"from us", "{dial:?}, with author: {with_author}");
        js.publish("t", b"from js");
        assert_eq!(our.message().await.1, b"from js", "{dial:?}, with author: {with_author}");
    }
}

#[tokio::test]
async fn a_mebibyte_goes_both_ways_with_javascript() {
    let Some(mut js) = javascript(&[]).await else { return };
    let mut our = ours(like_go(signed()), options()).await;
    a_mebibyte_there_and_back(&mut our, &mut js, Dial::Theirs).await;
}

/// A peer outside our mesh learns of a message by IHAVE, and requests it.
#[tokio::test]
async fn javascript_recovers_by_gossip() {
    let mut narrow = like_go(signed());
    narrow.mesh = samara_gossipsub::config::MeshParams {
        d: 1,
        d_low: 1,
        d_high: 1,
        d_score: 0,
        d_out: 0,
        ..narrow.mesh
    };
    narrow.flood_publish = false;
    let mut hub = ours(narrow, options()).await;
    hub.subscribe("t");
    let mut leaves = Vec::new();
    for _ in 0..2 {
        let Some(mut leaf) = javascript(&[]).await else { return };
        leaf.subscribe("t");
        leaf.dial(&hub);
        leaf.joined(hub.peer).await;
        hub.joined(leaf.peer).await;
        leaves.push(leaf);
    }
    hub.mesh_of("t", 1).await;
    hub.publish("t", b"by gossip");
    for leaf in &mut leaves {
        assert_eq!(leaf.message().await.1, b"by gossip");
    }
    hub.counted("an answered request", |metrics| metrics.copies_answered >= 1).await;
}
