//! `rust_libp2p --params params.json`: a node of rust-libp2p's gossipsub for the GossipSub
//! interoperability tests of libp2p's test-plans, with partial messages.
//!
//! It shares the identities and the parser of scripts with `samara-interop`, and nothing of its
//! engine.

#[allow(dead_code, reason = "the runner uses the rest")]
#[path = "../../src/identity.rs"]
mod identity;
mod message;
mod node;
#[allow(dead_code, reason = "rust-libp2p has no equivalent of some parameters")]
#[path = "../../src/params.rs"]
mod params;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tracing_subscriber::EnvFilter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [option, path] = arguments.as_slice() else { return Err("expected --params FILE.json".into()) };
    if option != "--params" {
        return Err(format!("found {option}, expected --params FILE.json").into());
    }
    let params = params::Params::read(Path::new(path))?;
    let id = identity::NodeId::of_host()?;
    Ok(node::Node::new(id, started).run(params.script).await?)
}
