//! Our runtime beside rust-libp2p's own gossipsub, over TCP, Noise and Yamux on loopback.

mod common;
mod delivery;
mod protocols;
mod recovery;
