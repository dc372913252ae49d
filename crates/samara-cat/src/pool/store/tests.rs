use samara_engine::Time;

use super::*;
use crate::Transaction;

fn entry(number: u64, priority: i64, sender: Option<&str>) -> Entry {
    let sender = sender.map(|name| Signer::new(name.as_bytes()));
    let admission = Admission { priority, gas: 1, sender, sequence: None };
    Entry::new(Transaction::new(number.to_be_bytes().to_vec()), admission, Time::ZERO, 0)
}

#[test]
fn what_is_gone_does_not_pile_up_where_nobody_asks_for_the_order() {
    for sender in [None, Some("alice")] {
        let mut store = Store::new(Order::SignerSets, 1);
        for number in 0..10_000 {
            store.insert(entry(number, 0, sender));
            let slot = store.find(&TxKey::of(&number.to_be_bytes())).unwrap();
            store.remove(&[slot], |_| ());
            assert!(store.unranked.len() <= UNRANKED_SPARE);
        }
        assert!(store.groups.is_empty() && store.entries.is_empty());
    }
}

#[test]
fn a_slot_that_is_used_again_does_not_stand_in_the_order_twice() {
    let mut store = Store::new(Order::SignerSets, 1);
    store.insert(entry(0, 0, None));
    let slot = store.find(&TxKey::of(&0u64.to_be_bytes())).unwrap();
    store.remove(&[slot], |_| ());
    store.insert(entry(1, 5, Some("alice")));
    store.insert(entry(2, 1, Some("alice")));
    assert_eq!(store.find(&TxKey::of(&1u64.to_be_bytes())), Some(slot), "the case that is meant");
    store.rank_all();
    assert_eq!(store.iter().count(), 2);
}
