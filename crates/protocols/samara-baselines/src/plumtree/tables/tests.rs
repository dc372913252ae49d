use super::*;

fn id(number: u64) -> MessageId {
    MessageId::from_bytes(u128::from(number).to_be_bytes())
}

fn table() -> Missing {
    let config = PlumtreeConfig { missing_max: 100, missing_per_peer_max: 10, ..PlumtreeConfig::default() };
    let mut table = Missing::new(&config);
    table.entries = HashMap::with_hasher(PeerKeyed::from_key([0, 1]));
    table
}

#[test]
fn deadlines_expire_in_order() {
    let mut missing = table();
    let ms = Time::from_millis;
    missing.announce(ms(0), id(1), PeerId(0), 1).unwrap();
    missing.announce(ms(10), id(2), PeerId(0), 1).unwrap();
    assert_eq!(missing.wake_at(), Some(ms(80)));
    assert_eq!(missing.next_due(ms(79)), None);
    assert_eq!(missing.next_due(ms(80)), Some(id(1)));
    missing.wait_for_retry(ms(80), id(1));
    missing.announce(ms(85), id(3), PeerId(0), 1).unwrap();
    let due = |missing: &mut Missing| missing.next_due(ms(200));
    assert_eq!([due(&mut missing), due(&mut missing), due(&mut missing)], [2, 1, 3].map(id).map(Some));
    assert_eq!(due(&mut missing), None);
}

#[test]
fn received_message_has_no_deadline() {
    let mut missing = table();
    missing.announce(Time::ZERO, id(1), PeerId(0), 3).unwrap();
    missing.announce(Time::ZERO, id(1), PeerId(1), 4).unwrap();
    assert_eq!(missing.remove(id(1)).as_slice(), [(PeerId(0), 3), (PeerId(1), 4)]);
    // After another announcement, only the new deadline is valid.
    missing.announce(Time::from_millis(50), id(1), PeerId(0), 3).unwrap();
    assert_eq!(missing.next_due(Time::from_millis(80)), None);
    assert_eq!(missing.next_due(Time::from_millis(130)), Some(id(1)));
}

#[test]
fn table_is_bounded_per_peer_and_in_total() {
    let mut missing = table();
    for number in 0..10 {
        missing.announce(Time::ZERO, id(number), PeerId(0), 0).unwrap();
    }
    assert_eq!(missing.announce(Time::ZERO, id(10), PeerId(0), 0), Err(Ignored::IHavePeerFull));
    assert_eq!(missing.announce(Time::ZERO, id(0), PeerId(1), 0), Ok(()));
    assert_eq!(missing.announce(Time::ZERO, id(0), PeerId(1), 0), Err(Ignored::IHaveRepeated));
    for number in 10..100 {
        missing.announce(Time::ZERO, id(number), PeerId(number as u32), 0).unwrap();
    }
    assert_eq!(missing.announce(Time::ZERO, id(100), PeerId(200), 0), Err(Ignored::IHaveTableFull));
    missing.forget_peer(PeerId(0));
    assert_eq!(missing.take_announcer(id(0)), Some((PeerId(1), 0)));
    assert_eq!(missing.take_announcer(id(1)), None);
    missing.remove(id(50));
    assert_eq!(missing.announce(Time::ZERO, id(100), PeerId(0), 0), Ok(()));
}

#[test]
fn deadlines_of_received_messages_do_not_accumulate() {
    let mut missing = table();
    for number in 0..100_000 {
        missing.announce(Time::ZERO, id(number), PeerId(0), 0).unwrap();
        missing.remove(id(number));
        assert!(missing.deadlines() <= 70);
    }
}
