//! Our behaviour together with rust-libp2p's gossipsub, go-libp2p-pubsub and js-libp2p, over TCP
//! (with Noise and Yamux) and QUIC on loopback.

mod application;
mod backoff;
mod common;
mod crowds;
mod delivery;
mod drop_in;
mod extensions;
mod go;
#[path = "../../../../../interop/go.rs"]
mod go_program;
mod hostile;
mod idontwant;
mod js;
#[path = "../../../../../interop/js.rs"]
mod js_program;
mod lives;
mod nodes;
mod partial;
mod process;
mod protocols;
mod quic;
mod raw;
mod recovery;
mod schedules;
mod uplink;
