//! The section `[cells]`: the blocks whose columns the node exchanges in cells.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use samara_engine::units::Span;
use samara_gossipsub::partial::ethereum::{BLOBS_MAX, PartialColumns};
use samara_gossipsub::partial::{Bits, Format};
use samara_gossipsub::rpc::Topic;
use serde::{Deserialize, Serialize};

use super::check::{Wrong, check};

/// Maximum number of blocks that can be configured: the node keeps the state of each.
const BLOCKS_MAX: usize = 10_000;

/// Columns in cells: partial messages in the format of Ethereum's partial columns of Fulu.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// Time from a header to the blobs of the mempool.
    #[serde(default)]
    pub lookup_time: Span,
    /// Time to verify a cell, one cell after the other.
    #[serde(default)]
    pub cell_time: Span,
    /// The blocks that the node exchanges. It ignores others.
    #[serde(default)]
    pub blocks: Vec<Block>,
}

/// A block, and what the mempool has of it. The contents of cells follow from both ids.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The id of the block's groups, in base64: the version byte 0 and the root.
    pub group: String,
    /// Number of blobs.
    pub blobs: u32,
    /// The numbers of the blobs in the mempool.
    #[serde(default)]
    pub mempool: Vec<u32>,
}

/// The checked section.
#[derive(Clone, Debug)]
pub struct CheckedCells {
    pub lookup_time: Duration,
    pub cell_time: Duration,
    /// Number of blobs, and those in the mempool, by the id of the group.
    pub blocks: BTreeMap<Bytes, (u32, Bits)>,
}

impl Cells {
    pub(super) fn checked(&self) -> Result<CheckedCells, Wrong> {
        let found = self.blocks.len();
        check(found <= BLOCKS_MAX, "cells.blocks", || {
            format!("found {found} blocks; expected at most {BLOCKS_MAX}")
        })?;
        let mut blocks = BTreeMap::new();
        for (at, block) in self.blocks.iter().enumerate() {
            let key = |key: &str| format!("cells.blocks.{at}.{key}");
            let Block { group, blobs, mempool } = block;
            let id = group_id(group).map_err(|message| (key("group"), message))?;
            check((1..=BLOBS_MAX).contains(blobs), key("blobs"), || {
                format!("found {blobs}; expected 1 to {BLOBS_MAX}")
            })?;
            let beyond = mempool.iter().find(|blob| *blob >= blobs);
            check(beyond.is_none(), key("mempool"), || {
                format!("found blob {}; expected numbers below {blobs}", beyond.unwrap_or(&0))
            })?;
            let known = mempool.iter().copied().collect();
            check(blocks.insert(id, (*blobs, known)).is_none(), key("group"), || {
                format!("duplicate group {group:?}; expected each group once")
            })?;
        }
        let (lookup_time, cell_time) = (self.lookup_time.duration(), self.cell_time.duration());
        Ok(CheckedCells { lookup_time, cell_time, blocks })
    }
}

/// Reads the id of a group.
pub(crate) fn group_id(text: &str) -> Result<Bytes, String> {
    let id = STANDARD.decode(text).map_err(|error| format!("found {text:?}; expected base64: {error}"))?;
    let wrong = PartialColumns::FULU.check_group(&Topic::new(""), &id).err();
    wrong.map_or(Ok(id.into()), |error| Err(error.to_string()))
}
