//! Engines over the connections of CometBFT: among our own nodes, with hostile peers, and with celestia-core itself.
mod common;
