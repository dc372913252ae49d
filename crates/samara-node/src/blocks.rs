//! The columns of the blocks of `[cells]`, for this node and for the nodes of other implementations
//! that testbeds compare with it: all nodes of a network make up the same contents.

use bytes::{BufMut, Bytes, BytesMut};
use samara_gossipsub::partial::ethereum::{CELL_BYTES, PART_BYTES, PROOF_BYTES};
use samara_gossipsub::rpc::Topic;

/// Returns the number at the end of the name of a column's topic.
pub fn column_of(topic: &Topic) -> Option<u64> {
    let (_, rest) = topic.as_str().split_once("/data_column_sidecar_")?;
    rest.split('/').next()?.parse().ok()
}

/// Returns the cells of blobs with their proofs. Their contents are those of no real blob: the id of
/// the group and the number of the blob, repeated.
pub fn parts(group: &Bytes, blobs: impl Iterator<Item = u32>) -> Vec<(u32, Bytes)> {
    let part = |blob: u32| {
        let unit = [&group[..], &blob.to_le_bytes()].concat();
        let bytes: Bytes = unit.iter().copied().cycle().take(PART_BYTES).collect();
        (blob, bytes)
    };
    blobs.map(part).collect()
}

/// Returns a column with all cells: `DataColumnSidecar` of Fulu in SSZ (consensus-specs
/// `fulu/das-core.md`). The header of partial columns has the same fields after its offset: the
/// signed header of the block, the inclusion proof, and the commitments.
pub fn sidecar(column: u64, header: &Bytes, parts: &[Bytes]) -> Bytes {
    const OFFSET_BYTES: usize = 4;
    let commitments_at = header.len() - parts.len() * PROOF_BYTES;
    let (fixed, commitments) = (&header[OFFSET_BYTES..commitments_at], &header[commitments_at..]);
    let cells = 8 + 3 * OFFSET_BYTES + fixed.len();
    let offsets = [cells, cells + parts.len() * CELL_BYTES, cells + parts.len() * (CELL_BYTES + PROOF_BYTES)];
    let mut out = BytesMut::new();
    out.put_u64_le(column);
    offsets.iter().for_each(|offset| out.put_u32_le(*offset as u32));
    out.put_slice(fixed);
    parts.iter().for_each(|part| out.put_slice(&part[..CELL_BYTES]));
    out.put_slice(commitments);
    parts.iter().for_each(|part| out.put_slice(&part[CELL_BYTES..]));
    out.freeze()
}

/// Length of the id of a block: the version byte and the root.
const GROUP_BYTES: usize = 33;

/// Returns the id of the block that a column is of. It is there if the first of [`parts`] begins with it.
pub fn group_of(sidecar: &[u8]) -> Option<&[u8]> {
    let cells = u32::from_le_bytes(sidecar.get(8..12)?.try_into().ok()?) as usize;
    sidecar.get(cells..cells.checked_add(GROUP_BYTES)?)
}

#[cfg(test)]
mod tests {
    use samara_gossipsub::partial::ethereum;

    use super::*;

    #[test]
    fn sidecar_has_the_bytes_of_a_column() {
        let cells: Vec<Bytes> = parts(&vec![7; 33].into(), 0..3).into_iter().map(|(_, cell)| cell).collect();
        let sidecar = sidecar(5, &ethereum::header(3), &cells);
        // The fixed part, and cell, commitment and proof of each blob.
        assert_eq!(sidecar.len(), 356 + 3 * (2_048 + 2 * 48));
        assert_eq!(sidecar[..8], 5_u64.to_le_bytes());
        assert_eq!(sidecar[8..12], 356_u32.to_le_bytes());
        assert_eq!(sidecar[356..356 + 2_048], cells[0][..2_048]);
        assert_eq!(sidecar[sidecar.len() - 48..], cells[2][2_048..]);
        assert_eq!(group_of(&sidecar), Some(&[7; 33][..]));
        assert_eq!(group_of(&sidecar[..300]), None);
        assert_eq!(group_of(&[0xff; 20]), None);
    }

    #[test]
    fn topics_name_their_column() {
        let name = |name| column_of(&Topic::new(name));
        assert_eq!(name("/eth2/00000000/data_column_sidecar_17/ssz_snappy"), Some(17));
        assert_eq!(name("/eth2/00000000/data_piece_sidecar_17/ssz_snappy"), None);
    }
}
