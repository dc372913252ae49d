//! `rust_host`: a host of rust-libp2p's gossipsub for `samara testbed --host`, with columns in cells. It
//! takes orders on its standard input, and says what happens on its standard output.
//! `docs/guides/implementations.md` describes both.
//!
//! It shares the keys of `[protocol]`, the ids of messages and the format of cells with Samara's own hosts,
//! and nothing of their engine.

mod cells;
mod contents;
mod host;
mod lines;
mod links;
mod metadata;
mod orders;
mod protocol;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::host::Host;
use crate::lines::Lines;
use crate::orders::Order;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The library warns of each copy that does not fit into a queue, with its payload.
    let quiet = || EnvFilter::new("warn,libp2p_gossipsub=error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| quiet());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let lines = Lines::new();
    let ended = run(&lines).await;
    lines.end();
    if let Err(error) = ended {
        eprintln!("rust_host: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Carries out orders until one is to stop, or the input ends.
async fn run(lines: &Lines) -> Result<(), String> {
    if std::env::args().len() > 1 {
        return Err("expected no arguments, but orders on standard input".to_owned());
    }
    let mut orders = orders::read();
    match orders.recv().await.transpose()? {
        None => Ok(()),
        Some(Order::Listen(listen)) => Host::listen(*listen, lines).await?.run(orders).await,
        Some(_) => Err("the first order was not to listen".to_owned()),
    }
}
