//! Frames, commands, events and counters come back from their encodings.

use samara_cat::pool::{Cause, Signer};
use samara_cat::wire::{
    Bundle, CompactBlock, KeyList, Kind, Member, PushedBy, SeenDetails, SeenKeys, SeenTx,
};
use samara_cat::{CatFrame, Ignored, Misbehaviour, Transaction, TxKey};
use samara_engine::outbox::Tally;
use samara_lab::testing::{bytes, frames_survive, survives};

use super::codec::Wire;
use super::{Act, Block, Counters, NodeEvent};

#[test]
fn frames_come_back() {
    let transactions = [0, 1, 5_000].map(|len| Transaction::new(bytes(len)));
    let keys = KeyList::new(transactions.each_ref().map(Transaction::key));
    let key = transactions[2].key();
    let details = SeenDetails { from: None, sequence: 7, signer: Some(Signer::new(&[3; 20])) };
    let from = SeenDetails { from: Some("ab".repeat(20).into()), ..SeenDetails::default() };
    let members = vec![Member::Full(transactions[1].clone()), Member::Key(key)];
    frames_survive(
        &Wire,
        &[
            CatFrame::tx(transactions[2].clone()),
            CatFrame::txs(transactions.to_vec()),
            SeenTx::from(key).into(),
            SeenTx { key, details: Some(details) }.into(),
            SeenTx { key, details: Some(from) }.into(),
            CatFrame::want(key),
            CatFrame::SeenKeys(
                SeenKeys { keys: keys.clone(), kind: Kind::Bundle, pushed_by: Some(PushedBy(5)) }.into(),
            ),
            CatFrame::WantKeys(keys.clone().into()),
            CatFrame::NotFound(keys.into()),
            CatFrame::Bundle(Bundle::new(members).into()),
            CatFrame::CompactBlock(CompactBlock::new(9, vec![key; 3]).into()),
        ],
    );
}

#[test]
fn commands_events_and_counters_come_back() {
    let transaction = Transaction::new(&b"tx+\0"[..]);
    let key = transaction.key();
    assert_eq!(survives(&Act::Submit(transaction)), r#"{"submit":"74782b00"}"#);
    survives(&Act::Propose { height: 1, max_bytes: 2, max_gas: Some(3), compact: true });
    let block = Block { height: 1, keys: [key; 2].into(), accounts: vec![(3, 4)], bytes: 5 };
    let json = survives(&Act::Commit(block.clone().into()));
    assert!(json.contains(&format!("[\"{key}\",\"{key}\"]")), "{json}");
    survives(&NodeEvent::Added { key, from: Some(3) });
    survives(&NodeEvent::Refused(key));
    survives(&NodeEvent::Proposed(block.into()));
    survives(&NodeEvent::BlockComplete { height: 1 });
    survives(&NodeEvent::BlockGivenUp);
    let misbehaved = survives(&NodeEvent::Misbehaved(Misbehaviour::TooManyTxs));
    assert_eq!(misbehaved, r#"{"misbehaved":"too_many_txs"}"#);
    let mut counters = Counters { keys: 1, ..Counters::default() };
    counters.engine.bodies_received = 2;
    counters.engine.ignored[Ignored::BlockKnown] = 3;
    counters.engine.received[samara_cat::FrameKind::Txs] = Tally { copies: 4, bytes: 5 };
    counters.pool.refused[Cause::Full] = 6;
    let json = survives(&counters);
    assert!(
        json.contains(r#""received":{"txs":{"copies":4,"bytes":5}},"ignored":{"block_known":3}"#),
        "{json}"
    );
    // Programs of others leave out what they do not count.
    let read = |json: &str| serde_json::from_str::<Counters>(json);
    assert_eq!(read(r#"{"keys":1}"#).ok(), Some(Counters { keys: 1, ..Counters::default() }));
    for wrong in [r#"{"other":1}"#, r#"{"pool":{"other":1}}"#, r#"{"engine":{"sent":{"other":{}}}}"#] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    for wrong in [r#"{"refused":"00"}"#, r#"{"refused":"0"}"#, r#"{"refused":"é0"}"#, r#"{"refused":7}"#] {
        assert!(serde_json::from_str::<NodeEvent>(wrong).is_err(), "{wrong}");
    }
    assert!(serde_json::from_str::<TxKey>(&format!("\"{}\"", "0g".repeat(32))).is_err());
}
