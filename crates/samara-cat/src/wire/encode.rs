//! Lengths and writing. All field numbers are below 16, so that a tag is one byte.

use bytes::BufMut;
use samara_engine::protobuf::{BYTES, FIXED64, VARINT, put_varint, varint_len};

use super::frame::{Bundle, CatFrame, CompactBlock, Kind, Member, SeenDetails, SeenKeys, SeenTx};
use super::{KeyList, field};
use crate::TxKey;

const TAG: usize = 1;

/// The length of a field that holds `len` bytes.
const fn nested(len: usize) -> usize {
    TAG + varint_len(len as u64) + len
}

/// The length of a field of bytes or a number that is left out if it is empty or zero (proto3).
const fn bytes_len(len: usize) -> usize {
    if len == 0 { 0 } else { nested(len) }
}

const fn uint_len(value: u64) -> usize {
    if value == 0 { 0 } else { TAG + varint_len(value) }
}

const KEY_FIELD: usize = nested(TxKey::LEN);

/// How many bytes a frame has on the wire.
pub(super) fn encoded_len(frame: &CatFrame) -> usize {
    nested(body_len(frame))
}

fn body_len(frame: &CatFrame) -> usize {
    match frame {
        CatFrame::Tx(tx) => nested(tx.len()),
        CatFrame::Txs(txs) => txs.iter().map(|tx| nested(tx.len())).sum(),
        CatFrame::SeenTx(seen) => KEY_FIELD + seen.details.as_ref().map_or(0, details_len),
        CatFrame::WantTx(_) => KEY_FIELD,
        CatFrame::SeenKeys(seen) => {
            let pushed_by = if seen.pushed_by.is_some() { TAG + 8 } else { 0 };
            keys_len(&seen.keys) + uint_len(kind_number(seen.kind)) + pushed_by
        }
        CatFrame::WantKeys(keys) | CatFrame::NotFound(keys) => keys_len(keys),
        CatFrame::Bundle(bundle) => bundle.members().iter().map(|member| nested(member_len(member))).sum(),
        CatFrame::CompactBlock(block) => {
            uint_len(block.height()) + bytes_len(block.keys().len() * TxKey::LEN)
        }
    }
}

fn details_len(details: &SeenDetails) -> usize {
    details.from.as_deref().map_or(0, |from| nested(from.len()))
        + uint_len(details.sequence)
        + details.signer.as_ref().map_or(0, |signer| bytes_len(signer.as_bytes().len()))
}

fn keys_len(keys: &KeyList) -> usize {
    bytes_len(keys.len() * TxKey::LEN)
}

fn member_len(member: &Member) -> usize {
    match member {
        Member::Full(tx) => nested(tx.len()),
        Member::Key(_) => KEY_FIELD,
    }
}

pub(super) const fn kind_number(kind: Kind) -> u64 {
    match kind {
        Kind::Transaction => 0,
        Kind::Bundle => 1,
        Kind::Block => 2,
    }
}

/// Appends a frame.
///
/// # Panics
/// If `out` is full: it needs [`encoded_len`](samara_engine::Frame::encoded_len) bytes. A `Vec` grows.
pub fn encode(frame: &CatFrame, out: &mut impl BufMut) {
    let number = match frame {
        CatFrame::Tx(_) | CatFrame::Txs(_) => field::TXS,
        CatFrame::SeenTx(_) => field::SEEN_TX,
        CatFrame::WantTx(_) => field::WANT_TX,
        CatFrame::SeenKeys(_) => field::SEEN_KEYS,
        CatFrame::WantKeys(_) => field::WANT_KEYS,
        CatFrame::NotFound(_) => field::NOT_FOUND,
        CatFrame::Bundle(_) => field::BUNDLE,
        CatFrame::CompactBlock(_) => field::COMPACT_BLOCK,
    };
    put_head(out, number, body_len(frame));
    match frame {
        CatFrame::Tx(tx) => put_bytes(out, 1, tx.bytes()),
        CatFrame::Txs(txs) => txs.iter().for_each(|tx| put_bytes(out, 1, tx.bytes())),
        CatFrame::SeenTx(seen) => put_seen(out, seen),
        CatFrame::WantTx(key) => put_bytes(out, 1, key.as_bytes()),
        CatFrame::SeenKeys(seen) => put_seen_keys(out, seen),
        CatFrame::WantKeys(keys) | CatFrame::NotFound(keys) => put_keys(out, 1, keys.len(), keys.iter()),
        CatFrame::Bundle(bundle) => put_bundle(out, bundle),
        CatFrame::CompactBlock(block) => put_block(out, block),
    }
}

fn put_seen(out: &mut impl BufMut, seen: &SeenTx) {
    put_bytes(out, 1, seen.key.as_bytes());
    let Some(details) = seen.details.as_ref() else { return };
    if let Some(from) = details.from.as_deref() {
        put_bytes(out, 2, from.as_bytes());
    }
    put_uint(out, 2, details.sequence);
    if let Some(signer) = details.signer.as_ref().filter(|signer| !signer.as_bytes().is_empty()) {
        put_bytes(out, 3, signer.as_bytes());
    }
}

fn put_seen_keys(out: &mut impl BufMut, seen: &SeenKeys) {
    put_keys(out, 1, seen.keys.len(), seen.keys.iter());
    put_uint(out, 2, kind_number(seen.kind));
    if let Some(pushed_by) = seen.pushed_by {
        out.put_u8(3 << 3 | FIXED64);
        out.put_u64_le(pushed_by.0);
    }
}

fn put_bundle(out: &mut impl BufMut, bundle: &Bundle) {
    for member in bundle.members() {
        put_head(out, 1, member_len(member));
        match member {
            Member::Full(tx) => put_bytes(out, 1, tx.bytes()),
            Member::Key(key) => put_bytes(out, 2, key.as_bytes()),
        }
    }
}

fn put_block(out: &mut impl BufMut, block: &CompactBlock) {
    put_uint(out, 1, block.height());
    put_keys(out, 2, block.keys().len(), block.keys().iter());
}

fn put_keys<'a>(out: &mut impl BufMut, number: u8, count: usize, keys: impl Iterator<Item = &'a TxKey>) {
    if count > 0 {
        put_head(out, number, count * TxKey::LEN);
        keys.for_each(|key| out.put_slice(key.as_bytes()));
    }
}

fn put_bytes(out: &mut impl BufMut, number: u8, bytes: &[u8]) {
    put_head(out, number, bytes.len());
    out.put_slice(bytes);
}

/// The tag and the length of a field whose `len` bytes follow.
fn put_head(out: &mut impl BufMut, number: u8, len: usize) {
    out.put_u8(number << 3 | BYTES);
    put_varint(out, len as u64);
}

fn put_uint(out: &mut impl BufMut, number: u8, value: u64) {
    if value != 0 {
        out.put_u8(number << 3 | VARINT);
        put_varint(out, value);
    }
}
