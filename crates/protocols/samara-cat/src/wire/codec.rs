//! Hand-written encoding and decoding; see the parent module. All field numbers are below 16, so
//! that a tag is one byte.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use samara_engine::protobuf::{FIXED64, Head, Reader, WireError, WireErrorKind, Writer};

use super::{
    Bundle, CatFrame, CompactBlock, KeyList, Kind, Limits, Member, PushedBy, SeenDetails, SeenKeys, SeenTx,
};
use crate::pool::Signer;
use crate::{Transaction, TxKey};

/// The field numbers of the message kinds.
mod field {
    pub(super) const TXS: u8 = 1;
    pub(super) const SEEN_TX: u8 = 2;
    pub(super) const WANT_TX: u8 = 3;
    pub(super) const SEEN_KEYS: u8 = 10;
    pub(super) const WANT_KEYS: u8 = 11;
    pub(super) const NOT_FOUND: u8 = 12;
    pub(super) const BUNDLE: u8 = 13;
    pub(super) const COMPACT_BLOCK: u8 = 14;
}

// ---- encoding ----

/// Returns the length of a frame on the wire, in bytes.
pub(super) fn encoded_len(frame: &CatFrame) -> usize {
    Writer::<Vec<u8>>::count(|out| put_frame(out, frame))
}

/// Appends an encoded frame to `out`.
///
/// # Panics
/// If `out` has less than [`encoded_len`](samara_engine::Frame::encoded_len) bytes of room. A `Vec`
/// grows.
pub fn encode(frame: &CatFrame, out: &mut impl BufMut) {
    put_frame(&mut Writer::new(out), frame);
}

fn put_frame(out: &mut Writer<'_, impl BufMut>, frame: &CatFrame) {
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
    out.message(number.into(), |out| match frame {
        CatFrame::Tx(tx) => out.bytes(1, tx.bytes()),
        CatFrame::Txs(txs) => txs.iter().for_each(|tx| out.bytes(1, tx.bytes())),
        CatFrame::SeenTx(seen) => put_seen(out, seen),
        CatFrame::WantTx(key) => out.bytes(1, key.as_bytes()),
        CatFrame::SeenKeys(seen) => put_seen_keys(out, seen),
        CatFrame::WantKeys(keys) | CatFrame::NotFound(keys) => put_keys(out, 1, || keys.iter()),
        CatFrame::Bundle(bundle) => bundle.members().iter().for_each(|member| {
            out.message(1, |out| match member {
                Member::Full(tx) => out.bytes(1, tx.bytes()),
                Member::Key(key) => out.bytes(2, key.as_bytes()),
            });
        }),
        CatFrame::CompactBlock(block) => {
            put_uint(out, 1, block.height());
            put_keys(out, 2, || block.keys().iter());
        }
    });
}

fn put_seen(out: &mut Writer<'_, impl BufMut>, seen: &SeenTx) {
    out.bytes(1, seen.key.as_bytes());
    let Some(details) = seen.details.as_ref() else { return };
    if let Some(from) = details.from.as_deref() {
        out.bytes(2, from.as_bytes());
    }
    put_uint(out, 2, details.sequence);
    if let Some(signer) = details.signer.as_ref().filter(|signer| !signer.as_bytes().is_empty()) {
        out.bytes(3, signer.as_bytes());
    }
}

fn put_seen_keys(out: &mut Writer<'_, impl BufMut>, seen: &SeenKeys) {
    put_keys(out, 1, || seen.keys.iter());
    put_uint(out, 2, seen.kind as u64);
    if let Some(pushed_by) = seen.pushed_by {
        out.slice(&[3 << 3 | FIXED64]);
        out.slice(&pushed_by.0.to_le_bytes());
    }
}

/// Writes keys behind one another, unless there are none (proto3).
fn put_keys<'a, I: Iterator<Item = &'a TxKey>>(
    out: &mut Writer<'_, impl BufMut>,
    number: u32,
    keys: impl Fn() -> I,
) {
    if keys().next().is_some() {
        out.message(number, |out| keys().for_each(|key| out.slice(key.as_bytes())));
    }
}

/// Writes a number, unless it is zero (proto3).
fn put_uint(out: &mut Writer<'_, impl BufMut>, number: u32, value: u64) {
    if value != 0 {
        out.number(number, value);
    }
}

// ---- decoding ----

/// Decodes a frame. The key of each transaction is computed from its bytes.
///
/// # Errors
/// If the frame is malformed or exceeds a limit.
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<CatFrame, WireError> {
    over("frame_bytes", frame.len(), limits.frame_bytes, "message", 0)?;
    let mut reader = Reader::new(frame, "message");
    let mut last = None;
    while let Some(head) = reader.head()? {
        let Some(path) = path_of(head.number()) else {
            skip(&mut reader, head)?;
            continue;
        };
        // Every kind is decoded, so that a malformed one is found even if another follows. Only the
        // last one stays in memory.
        let body = reader.message(head, path)?;
        last = Some(read_kind(head.number() as u8, body, limits)?);
    }
    last.ok_or_else(|| WireErrorKind::NoKind.at("message", 0))
}

fn path_of(number: u32) -> Option<&'static str> {
    match u8::try_from(number).ok()? {
        field::TXS => Some("txs"),
        field::SEEN_TX => Some("seen_tx"),
        field::WANT_TX => Some("want_tx"),
        field::SEEN_KEYS => Some("seen"),
        field::WANT_KEYS => Some("want"),
        field::NOT_FOUND => Some("missing"),
        field::BUNDLE => Some("bundle"),
        field::COMPACT_BLOCK => Some("block"),
        _ => None,
    }
}

fn read_kind(number: u8, mut body: Reader<'_>, limits: &Limits) -> Result<CatFrame, WireError> {
    match number {
        field::TXS => read_txs(&mut body, limits),
        field::SEEN_TX => read_seen(&mut body, limits),
        field::WANT_TX => read_key(&mut body, "want_tx.tx_key").map(CatFrame::want),
        field::SEEN_KEYS => read_seen_keys(&mut body),
        field::WANT_KEYS => read_keys(&mut body, "want.keys").map(CatFrame::want_keys),
        field::NOT_FOUND => read_keys(&mut body, "missing.keys").map(CatFrame::not_found),
        field::BUNDLE => read_bundle(&mut body, limits),
        _ => read_block(&mut body, limits),
    }
}

fn read_txs(body: &mut Reader<'_>, limits: &Limits) -> Result<CatFrame, WireError> {
    let mut txs = Vec::new();
    while let Some(head) = body.head()? {
        if head.number() == 1 {
            over("txs", txs.len() + 1, limits.txs, "txs.txs", head.start())?;
            txs.push(Transaction::new(body.bytes(head, "txs.txs")?));
        } else {
            skip(body, head)?;
        }
    }
    Ok(CatFrame::txs(txs))
}

fn read_seen(body: &mut Reader<'_>, limits: &Limits) -> Result<CatFrame, WireError> {
    let start = body.offset();
    let (mut key, mut details) = (None, SeenDetails::default());
    while let Some(head) = body.head()? {
        match head.number() {
            1 => key = Some(key_at(body, head, "seen_tx.tx_key")?),
            2 if head.is_varint() => details.sequence = body.number(head, "seen_tx.sequence")?,
            2 => details.from = Some(read_from(body, head, limits)?),
            3 => {
                let bytes = body.short(head, "seen_tx.signer", "signer_bytes", limits.signer_bytes)?;
                details.signer = (!bytes.is_empty()).then(|| Signer::new(bytes));
            }
            _ => skip(body, head)?,
        }
    }
    let key = key.ok_or_else(|| no_key("seen_tx.tx_key", start))?;
    let details = (details != SeenDetails::default()).then_some(details);
    Ok(SeenTx { key, details }.into())
}

fn read_from(body: &mut Reader<'_>, head: Head, limits: &Limits) -> Result<Arc<str>, WireError> {
    const PATH: &str = "seen_tx.from";
    let bytes = body.short(head, PATH, "from_bytes", limits.from_bytes)?;
    let start = body.offset() - bytes.len();
    std::str::from_utf8(bytes).map(Arc::from).map_err(|_| WireErrorKind::NotUtf8.at(PATH, start))
}

fn read_seen_keys(body: &mut Reader<'_>) -> Result<CatFrame, WireError> {
    let (mut keys, mut kind, mut pushed_by) = (Vec::new(), Kind::Transaction, None);
    while let Some(head) = body.head()? {
        match head.number() {
            1 => keys = keys_at(body, head, "seen.keys", KeyList::MAX, "KeyList::MAX")?,
            2 => {
                let found = body.number(head, "seen.kind")?;
                let known = [Kind::Transaction, Kind::Bundle, Kind::Block];
                let unknown = WireErrorKind::Unknown { found }.at("seen.kind", head.start());
                kind = known.into_iter().find(|kind| *kind as u64 == found).ok_or(unknown)?;
            }
            3 => pushed_by = Some(PushedBy(body.fixed64(head, "seen.pushed_by")?)),
            _ => skip(body, head)?,
        }
    }
    Ok(SeenKeys { keys: KeyList::new(keys), kind, pushed_by }.into())
}

fn read_keys(body: &mut Reader<'_>, path: &'static str) -> Result<KeyList, WireError> {
    let mut keys = Vec::new();
    while let Some(head) = body.head()? {
        if head.number() == 1 {
            keys = keys_at(body, head, path, KeyList::MAX, "KeyList::MAX")?;
        } else {
            skip(body, head)?;
        }
    }
    Ok(KeyList::new(keys))
}

fn read_bundle(body: &mut Reader<'_>, limits: &Limits) -> Result<CatFrame, WireError> {
    let mut members = Vec::new();
    while let Some(head) = body.head()? {
        if head.number() == 1 {
            over("members", members.len() + 1, limits.members, "bundle.members", head.start())?;
            let mut inner = body.message(head, "bundle.members")?;
            members.push(read_member(&mut inner)?);
        } else {
            skip(body, head)?;
        }
    }
    Ok(CatFrame::Bundle(Arc::new(Bundle::new(members))))
}

fn read_member(body: &mut Reader<'_>) -> Result<Member, WireError> {
    let start = body.offset();
    let mut member = None;
    while let Some(head) = body.head()? {
        match head.number() {
            1 => member = Some(Member::Full(Transaction::new(body.bytes(head, "bundle.members.tx")?))),
            2 => member = Some(Member::Key(key_at(body, head, "bundle.members.key")?)),
            _ => skip(body, head)?,
        }
    }
    member.ok_or_else(|| WireErrorKind::NoKind.at("bundle.members", start))
}

fn read_block(body: &mut Reader<'_>, limits: &Limits) -> Result<CatFrame, WireError> {
    let (mut height, mut keys) = (0, Vec::new());
    while let Some(head) = body.head()? {
        match head.number() {
            1 => height = body.number(head, "block.height")?,
            2 => keys = keys_at(body, head, "block.keys", limits.block_keys, "block_keys")?,
            _ => skip(body, head)?,
        }
    }
    Ok(CatFrame::CompactBlock(Arc::new(CompactBlock::new(height, keys))))
}

/// Reads the key in field 1 of a message that has no other fields.
fn read_key(body: &mut Reader<'_>, path: &'static str) -> Result<TxKey, WireError> {
    let start = body.offset();
    let mut key = None;
    while let Some(head) = body.head()? {
        if head.number() == 1 {
            key = Some(key_at(body, head, path)?);
        } else {
            skip(body, head)?;
        }
    }
    key.ok_or_else(|| no_key(path, start))
}

fn key_at(body: &mut Reader<'_>, head: Head, path: &'static str) -> Result<TxKey, WireError> {
    let bytes = body.bytes(head, path)?;
    let at = body.offset() - bytes.len();
    let wrong = WireErrorKind::Length { found: bytes.len(), expected: "32" };
    TxKey::try_from(&bytes[..]).map_err(|_| wrong.at(path, at))
}

fn keys_at(
    body: &mut Reader<'_>,
    head: Head,
    path: &'static str,
    max: usize,
    limit: &'static str,
) -> Result<Vec<TxKey>, WireError> {
    let bytes = body.bytes(head, path)?;
    let at = body.offset() - bytes.len();
    let (whole, rest) = bytes.as_chunks::<{ TxKey::LEN }>();
    if !rest.is_empty() {
        let kind = WireErrorKind::Length { found: bytes.len(), expected: "a multiple of 32" };
        return Err(kind.at(path, at));
    }
    over(limit, whole.len(), max, path, at)?;
    Ok(whole.iter().map(|key| TxKey::new(*key)).collect())
}

fn skip(body: &mut Reader<'_>, head: Head) -> Result<(), WireError> {
    body.skip(head).map(drop)
}

/// celestia-core reads an absent key as an empty one, and rejects it.
fn no_key(path: &'static str, offset: usize) -> WireError {
    WireErrorKind::Length { found: 0, expected: "32" }.at(path, offset)
}

fn over(
    limit: &'static str,
    found: usize,
    max: usize,
    path: &'static str,
    offset: usize,
) -> Result<(), WireError> {
    if found <= max {
        return Ok(());
    }
    Err(WireErrorKind::Limit { limit, found: found as u64, max }.at(path, offset))
}
