//! `samara-interop --params params.json`: a node of the GossipSub interoperability tests of
//! libp2p's [test-plans].
//!
//! It implements `gossipsub-interop/test-specs/implementation.md` of that repository: the host's
//! name identifies the node, the script in the parameters defines its actions, and it writes events
//! to standard output as lines of JSON. It rejects scripts with impossible instructions at the
//! start. `docs/guides/interop.md` shows how to run it.
//!
//! [test-plans]: https://github.com/libp2p/test-plans/tree/master/gossipsub-interop

mod engine;
mod identity;
mod lines;
mod node;
mod params;
mod parts;
mod script;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use engine::Profile;
use identity::NodeId;
use node::Node;
use params::Params;

const FAILED: u8 = 1;
/// The parameters, the script or the host name are invalid.
const BAD_INPUT: u8 = 2;

/// A node of the GossipSub interoperability tests of libp2p's test-plans.
///
/// The host's name, `node<N>`, is the number of the node. The exit status is 0 at the end of the
/// script, 1 if an instruction failed, and 2 if the input is invalid.
#[derive(Debug, Parser)]
#[command(name = "samara-interop", version, about)]
struct Args {
    /// The parameters of the experiment: a .json file with its script.
    #[arg(long, value_name = "FILE")]
    params: PathBuf,
    /// Queues and withdrawal of copies: ours, or those of go-libp2p-pubsub.
    #[arg(long, value_enum, default_value_t = Profile::Samara)]
    profile: Profile,
}

fn main() -> ExitCode {
    // The script counts time from here.
    let started = Instant::now();
    let args = Args::parse();
    log();
    let (id, steps) = match prepare(&args) {
        Ok(prepared) => prepared,
        Err(message) => return fail(BAD_INPUT, &message),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &format!("cannot start the runtime: {error}")),
    };
    let outcome = runtime.block_on(async {
        let mut node = Node::new(id, args.profile, started)?;
        node.run(&steps).await
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(FAILED, &message),
    }
}

/// Returns the number of this node, and its steps.
fn prepare(args: &Args) -> Result<(NodeId, Vec<script::Step>), String> {
    let params = Params::read(&args.params)?;
    let id = NodeId::of_host()?;
    let steps =
        script::steps(params.script, id).map_err(|error| format!("{}: {error}", args.params.display()))?;
    Ok((id, steps))
}

fn fail(status: u8, message: &str) -> ExitCode {
    eprintln!("samara-interop: {message}");
    ExitCode::from(status)
}

/// Writes diagnostics to standard error, filtered by `RUST_LOG`.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
