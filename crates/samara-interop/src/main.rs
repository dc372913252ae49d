//! `samara-interop --params params.json`: a node of the GossipSub interoperability tests of libp2p's [test-plans].
//!
//! It keeps the contract of `gossipsub-interop/test-specs/implementation.md` there: who the node is comes from the host's name,
//! what it does from the script in the parameters, and what happens goes to standard output as lines of JSON. What the engine lacks is
//! refused before anything is done. `docs/guides/interop.md` shows how to run it.
//!
//! [test-plans]: https://github.com/libp2p/test-plans/tree/master/gossipsub-interop

mod engine;
mod identity;
mod lines;
mod node;
mod params;
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
/// Parameters, script or host name are not what they have to be.
const BAD_INPUT: u8 = 2;

/// A node of the GossipSub interoperability tests of libp2p's test-plans.
///
/// The host's name, `node<N>`, says which one. The exit status is 0 when the script is over, 1 if an instruction failed, 2 if something
/// is wrong with the input.
#[derive(Debug, Parser)]
#[command(name = "samara-interop", version, about)]
struct Args {
    /// The parameters of the experiment: a .json file with its script.
    #[arg(long, value_name = "FILE")]
    params: PathBuf,
    /// Which queues there are, and what is taken back: ours, or as in go-libp2p-pubsub.
    #[arg(long, value_enum, default_value_t = Profile::Samara)]
    profile: Profile,
}

fn main() -> ExitCode {
    // The script counts from here.
    let started = Instant::now();
    let args = Args::parse();
    log();
    let (id, steps) = match prepare(&args) {
        Ok(prepared) => prepared,
        Err(message) => return fail(BAD_INPUT, &message),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &format!("the runtime cannot be started: {error}")),
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

/// Who this node is, and what it is to do.
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

/// Diagnostics go to standard error; `RUST_LOG` chooses which.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
