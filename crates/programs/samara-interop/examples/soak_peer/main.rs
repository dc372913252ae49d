//! `soak_peer samara|rust NUMBER`: a node of the soak, of samara's behaviour or of rust-libp2p's
//! gossipsub. Its secret key is the number in little endian.
//!
//! It reads commands as JSON lines from standard input, and writes events as JSON lines to standard
//! output, like `interop/go` and `interop/js`. It stops when its input ends.

mod node;
mod router;
mod streams;

use std::error::Error;
use std::io::BufRead;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::sync::mpsc::unbounded_channel;

/// A command of the soak.
#[derive(Debug, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum Command {
    Subscribe {
        topic: String,
    },
    Publish {
        topic: String,
        /// Base64, as in Go's JSON.
        data: String,
    },
    /// Dials the addresses whose peers are not connected.
    Connect {
        addresses: Vec<String>,
    },
    /// Closes the connections to a peer, or all without one.
    Disconnect {
        peer: Option<String>,
    },
    /// Resets all streams, except those with some peers.
    Reset {
        peers: Vec<String>,
    },
    /// Replaces the address to listen on, and closes all connections.
    Move {},
    State {
        topic: String,
    },
}

/// An event at a node.
#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum Report {
    Listening { peer: String, address: String },
    Moved { address: String },
    Message { data: String },
    Refused { data: String, error: String },
    State { connected: Vec<String>, subscribers: Vec<String>, count: usize, scores: BTreeMap<String, f64> },
}

impl Report {
    fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("reports can be serialized"));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Warnings say why a node lowers the score of another.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [which, number] = arguments.as_slice() else { return Err("expected samara|rust NUMBER".into()) };
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&number.parse::<u64>()?.to_le_bytes());
    let key = libp2p::identity::Keypair::ed25519_from_bytes(secret)?;
    let (lines, commands) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let command = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if lines.send(command).is_err() {
                return;
            }
        }
    });
    match which.as_str() {
        "samara" => node::run(router::samara(&key)?, key, commands).await,
        "rust" => node::run(router::rust(&key)?, key, commands).await,
        other => Err(format!("found {other}, expected samara or rust").into()),
    }
}
