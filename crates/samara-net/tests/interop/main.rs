//! Our runtime beside rust-libp2p's own gossipsub and go-libp2p-pubsub, over TCP, Noise and Yamux on loopback.

mod common;
mod delivery;
mod go;
mod hostile;
mod protocols;
mod recovery;
