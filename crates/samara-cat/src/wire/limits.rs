//! How much a frame may hold.

/// Hard bounds of reading: beyond, the frame is refused. They bound the memory that a frame can claim to a small multiple of its
/// length: without them a peer could pack a frame with empty entries, of which each costs far more in memory than on the wire
/// (celestia-core had to repair that: #3227).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame (`RecvMessageCapacity` of the channel in celestia-core: one transaction of the largest size, and 8
    /// bytes or so around it). Ours is larger, for bundles.
    pub frame_bytes: usize,
    /// Transactions in a `Txs`. celestia-core sends one, and refuses more since 2026; older pools had no limit.
    pub txs: usize,
    /// Bytes of a `from`: an id has 40 characters.
    pub from_bytes: usize,
    /// Bytes of a `signer` (`maxSignerLength` in `mempool/cat/reactor.go`).
    pub signer_bytes: usize,
    /// Members of a bundle.
    pub members: usize,
    /// Keys in a compact block.
    pub block_keys: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 4 << 20,
            txs: 1_024,
            from_bytes: 128,
            signer_bytes: 64,
            members: 1_024,
            block_keys: 100_000,
        }
    }
}
