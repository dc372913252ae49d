//! `rust_node NODE.toml`: a node of rust-libp2p's gossipsub for `samara testbed --node`, with columns in
//! cells. `docs/guides/testbed.md` has the contract of such programs.
//!
//! It shares the configuration, the models of the control API and the contents of blocks with samara's
//! own node, and nothing of its engine. It publishes only the columns that it completes.

mod cells;
mod control;
mod metadata;
mod node;
mod swarm;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use samara_node::NodeConfig;
use samara_node::model::{Ready, Stopped, TraceReport};
use samara_trace::{TraceOptions, TraceWriter};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing_subscriber::EnvFilter;

/// Requests to the control API that wait for the node.
const REQUESTS_MAX: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("rust_node: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path] = arguments.as_slice() else { return Err("expected the path of a node.toml".into()) };
    let config = NodeConfig::load(Path::new(path))?;
    let (Some(control), Some(trace)) = (&config.written.control, &config.written.trace) else {
        return Err(format!("{path}: expected the sections [control] and [trace]").into());
    };
    swarm::check(&config).map_err(|error| format!("{path}: {error}"))?;
    let filter = EnvFilter::try_new(&config.written.log.filter)?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut swarm = swarm::Host::start(&config)?;
    let listen = swarm.listening().await?;
    let server = TcpListener::bind(control.listen).await?;
    let file_max = trace.file_max.bytes();
    let options = TraceOptions {
        format: trace.format,
        queue: trace.queue,
        when_full: trace.when_full,
        bytes_max: file_max,
    };
    let trace = TraceWriter::create(&trace.file, options)?;
    let peer_id = swarm.peer_id();
    let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
    let ready = Ready {
        ready: true,
        peer_id: peer_id.to_string(),
        listen: vec![format!("{listen}/p2p/{peer_id}")],
        control: Some(server.local_addr()?),
        metrics: None,
        pool: None,
        group: None,
        mix: None,
    };
    tokio::spawn(control::serve(server, requests));
    let mut node = node::Node::new(swarm, &config, trace);
    print(&ready)?;
    tokio::select! {
        () = node.run(inbox) => {}
        _ = terminated.recv() => {}
        () = input_ended() => {}
    }
    let (counts, written) = node.end().await;
    let error = written.err().map(|error| error.to_string());
    let trace =
        TraceReport { written: counts.written, dropped: counts.dropped, failed: counts.failed, error };
    print(&Stopped { stopped: true, trace: Some(trace), ..Stopped::default() })?;
    Ok(())
}

/// Waits for the end of standard input, which ends when the parent process is gone. A thread of the
/// runtime that reads it would keep the process from ending.
async fn input_ended() {
    let (ended, is_ended) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let _ = is_ended.await;
}

/// Writes a line of JSON.
fn print(line: &impl Serialize) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}
