//! Reading.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::protobuf::{Head, Reader, WireError, WireErrorKind};

use super::encode::kind_number;
use super::frame::{
    self, Bundle, CatFrame, CompactBlock, Kind, Member, PushedBy, SeenDetails, SeenKeys, SeenTx,
};
use super::{KeyList, Limits, field};
use crate::{Transaction, TxKey};

/// Reads a frame. Transactions get the key of their bytes.
///
/// # Errors
/// The frame is malformed, or beyond a limit.
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<CatFrame, WireError> {
    decode_with(frame, limits, &mut |bytes| Transaction::new(bytes))
}

/// Reads a frame, for applications whose transactions have keys of their own ([`Transaction::with_key`]).
///
/// # Errors
/// The frame is malformed, or beyond a limit.
pub fn decode_with(
    frame: &Bytes,
    limits: &Limits,
    make: &mut impl FnMut(Bytes) -> Transaction,
) -> Result<CatFrame, WireError> {
    over("frame_bytes", frame.len(), limits.frame_bytes, "message", 0)?;
    let mut reader = Reader::new(frame, "message");
    let mut last = None;
    while let Some(head) = reader.head()? {
        let Some(path) = path_of(head.number()) else {
            skip(&mut reader, head)?;
            continue;
        };
        // Each is read, so that a malformed one is found even if another follows; what is read costs no more than the last one.
        let body = reader.message(head, path)?;
        last = Some(read_kind(head.number() as u8, body, limits, make)?);
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

fn read_kind(
    number: u8,
    mut body: Reader<'_>,
    limits: &Limits,
    make: &mut impl FnMut(Bytes) -> Transaction,
) -> Result<CatFrame, WireError> {
    match number {
        field::TXS => read_txs(&mut body, limits, make),
        field::SEEN_TX => read_seen(&mut body, limits),
        field::WANT_TX => read_key(&mut body, "want_tx.tx_key").map(CatFrame::want),
        field::SEEN_KEYS => read_seen_keys(&mut body),
        field::WANT_KEYS => read_keys(&mut body, "want.keys").map(CatFrame::want_keys),
        field::NOT_FOUND => read_keys(&mut body, "missing.keys").map(CatFrame::not_found),
        field::BUNDLE => read_bundle(&mut body, limits, make),
        _ => read_block(&mut body, limits),
    }
}

fn read_txs(
    body: &mut Reader<'_>,
    limits: &Limits,
    make: &mut impl FnMut(Bytes) -> Transaction,
) -> Result<CatFrame, WireError> {
    let mut txs = Vec::new();
    while let Some(head) = body.head()? {
        if head.number() == 1 {
            over("txs", txs.len() + 1, limits.txs, "txs.txs", head.start())?;
            txs.push(make(body.bytes(head, "txs.txs")?));
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
                details.signer = frame::signer(bytes);
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
                kind = known.into_iter().find(|kind| kind_number(*kind) == found).ok_or(unknown)?;
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

fn read_bundle(
    body: &mut Reader<'_>,
    limits: &Limits,
    make: &mut impl FnMut(Bytes) -> Transaction,
) -> Result<CatFrame, WireError> {
    let mut members = Vec::new();
    while let Some(head) = body.head()? {
        if head.number() == 1 {
            over("members", members.len() + 1, limits.members, "bundle.members", head.start())?;
            let mut inner = body.message(head, "bundle.members")?;
            members.push(read_member(&mut inner, make)?);
        } else {
            skip(body, head)?;
        }
    }
    Ok(CatFrame::Bundle(Arc::new(Bundle::new(members))))
}

fn read_member(
    body: &mut Reader<'_>,
    make: &mut impl FnMut(Bytes) -> Transaction,
) -> Result<Member, WireError> {
    let start = body.offset();
    let mut member = None;
    while let Some(head) = body.head()? {
        match head.number() {
            1 => member = Some(Member::Full(make(body.bytes(head, "bundle.members.tx")?))),
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

/// The key in field 1 of a message that has nothing else.
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

/// celestia-core reads an absent key as an empty one, and refuses it.
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
