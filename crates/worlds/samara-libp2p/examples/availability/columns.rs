//! Blobs that Reed-Solomon extends and cuts into columns, any half of which is enough.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use reed_solomon_simd::{Error, decode, encode};
use sha2::{Digest, Sha256};

pub(crate) const BLOBS: usize = 6;
/// The cell of Ethereum's data availability sampling (EIP-7594): a blob has 128 cells of 2 KiB, 64
/// of them original.
const CELL_BYTES: usize = 2048;
pub(crate) const ORIGINAL: usize = 64;
pub(crate) const COLUMNS: usize = 2 * ORIGINAL;

/// Extends blobs to columns. Every blob is a row of 64 cells, to which 64 more are added; a column
/// has one cell of each row.
pub(crate) fn extend(blobs: &[Vec<u8>]) -> Result<BTreeMap<usize, Vec<u8>>, Error> {
    let mut columns: BTreeMap<usize, Vec<u8>> = (0..COLUMNS).map(|at| (at, Vec::new())).collect();
    for blob in blobs {
        let added = encode(ORIGINAL, ORIGINAL, blob.chunks(CELL_BYTES))?;
        let cells = blob.chunks(CELL_BYTES).chain(added.iter().map(Vec::as_slice));
        columns.values_mut().zip(cells).for_each(|(column, cell)| column.extend_from_slice(cell));
    }
    Ok(columns)
}

/// Rebuilds the blobs from any 64 columns.
pub(crate) fn rebuild(columns: &BTreeMap<usize, &[u8]>) -> Result<Vec<Vec<u8>>, Error> {
    let row = |row: usize| {
        let cell = |column: &[u8]| column[row * CELL_BYTES..][..CELL_BYTES].to_vec();
        let original = columns.range(..ORIGINAL).map(|(at, column)| (*at, cell(column)));
        let added = columns.range(ORIGINAL..).map(|(at, column)| (*at - ORIGINAL, cell(column)));
        let mut cells: BTreeMap<usize, Vec<u8>> = original.clone().collect();
        cells.extend(decode(ORIGINAL, ORIGINAL, original, added)?);
        Ok(cells.into_values().flatten().collect())
    };
    (0..BLOBS).map(row).collect()
}

pub(crate) fn any_half(columns: &BTreeMap<usize, Vec<u8>>) -> BTreeMap<usize, &[u8]> {
    let random = RandomState::new();
    let mut drawn: Vec<(&usize, &Vec<u8>)> = columns.iter().collect();
    drawn.sort_by_key(|(at, _)| random.hash_one(at));
    drawn.iter().take(ORIGINAL).map(|(at, column)| (**at, column.as_slice())).collect()
}

pub(crate) fn some_blobs() -> Vec<Vec<u8>> {
    let random = RandomState::new();
    let word = |blob: usize, at: usize| random.hash_one((blob, at)).to_le_bytes();
    let blob = |blob| (0..ORIGINAL * CELL_BYTES / 8).flat_map(|at| word(blob, at)).collect();
    (0..BLOBS).map(blob).collect()
}

/// Returns the first 8 bytes of SHA-256 over all blobs.
pub(crate) fn hash(blobs: &[Vec<u8>]) -> String {
    Sha256::digest(blobs.concat()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn any_half_rebuilds_the_data_and_less_does_not() {
    let blobs = some_blobs();
    let columns = extend(&blobs).unwrap();
    for _ in 0..20 {
        let mut half = any_half(&columns);
        assert!(rebuild(&half).unwrap() == blobs, "the rebuilt blobs differ");
        half.pop_first();
        assert!(rebuild(&half).is_err(), "63 columns are too few");
    }
}
