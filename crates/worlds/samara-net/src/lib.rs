//! The engines on real sockets.
//!
//! This crate has no protocol of its own: it makes connections, reads and writes frames, keeps the
//! clock, and requests the next copy from the engine's outbox only when a link has room for it.
//! `samara-libp2p` does the same in a libp2p swarm.
//!
//! There is one hub, which owns an engine and its links, and four link layers below it:
//!
//! | module | feature | link layer | runtime |
//! |---|---|---|---|
//! | `ring` | `ring` | framed TCP, open, sealed or over TLS | a member of a group |
//! | `mconn` | `mconnection` | the connections of CometBFT | the transaction pool, and with `hosted` a host of an experiment |
//! | `mix` | `mix` | gRPC with mutual TLS | a node of a mix pool, and its scheduler |
//! | `hosted` | `hosted` | framed TCP between processes that trust each other | a host of an experiment |

#![warn(clippy::disallowed_types)]
#![cfg_attr(
    not(all(feature = "hosted", feature = "mconnection", feature = "mix", feature = "ring")),
    allow(dead_code, reason = "each link layer uses a part of the hub")
)]
#![cfg_attr(
    not(all(feature = "fuzzing", feature = "hosted")),
    allow(unreachable_pub, reason = "the fuzz targets reach parsers that are private without them")
)]

#[cfg(feature = "hosted")]
pub mod hosted;
#[cfg(any(feature = "hosted", feature = "mconnection", feature = "mix", feature = "ring"))]
mod hub;
#[cfg(any(feature = "mix", feature = "ring"))]
mod identity;
#[cfg(any(feature = "hosted", feature = "mconnection", feature = "mix", feature = "ring"))]
mod link;
#[cfg(feature = "mconnection")]
pub mod mconn;
#[cfg(feature = "mix")]
pub mod mix;
#[cfg(feature = "ring")]
pub mod ring;
#[cfg(any(feature = "hosted", feature = "mconnection", feature = "mix", feature = "ring"))]
mod status;

#[cfg(any(feature = "hosted", feature = "mconnection", feature = "mix", feature = "ring"))]
pub use link::host;
#[cfg(any(feature = "hosted", feature = "mconnection", feature = "mix", feature = "ring"))]
pub use status::{Request, ask};

/// Compiles the program of the guide.
#[cfg(all(doctest, feature = "ring"))]
#[doc = include_str!("../../../../docs/guides/groups.md")]
mod guide {}
