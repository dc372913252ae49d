//! Keys of senders and nodes.

use samara_mix::{
    BadElement, Batch, BatchError, Group, KeyPair, Keyring, RegisterError, SealError, Secret, Sender,
    SenderId,
};

const GROUPS: [Group; 3] = [Group::Small256, Group::Modp2048, Group::Model];

#[test]
fn only_sender_and_node_agree_on_a_secret() {
    for group in GROUPS {
        let [sender, node, other] = [1, 2, 3].map(|byte| KeyPair::new(group, Secret::new([byte; 32])));
        let seal = |secret: Secret| {
            let mut sealer = Sender::new(group, SenderId([1; 32]));
            sealer.register(0, secret);
            sealer.seal(1, &[0], [0; 32], &vec![5; group.content_bytes()]).unwrap()
        };
        let ours = seal(sender.agree(node.public()).unwrap());
        assert_eq!(ours, seal(node.agree(sender.public()).unwrap()), "{}", group.name());
        assert_ne!(ours, seal(other.agree(node.public()).unwrap()));
        assert_ne!(ours, seal(sender.agree(other.public()).unwrap()));
    }
}

#[test]
fn rejects_keys_that_are_one_or_not_elements() {
    let pair = KeyPair::new(Group::Small256, Secret::new([1; 32]));
    let mut one = [0; 32];
    one[31] = 1;
    for key in [&[0; 32][..], &[0xff; 32], &one, &[1; 31], &[]] {
        assert_eq!(pair.agree(key).err(), Some(BadElement));
    }
}

#[test]
fn keyring_is_bounded_and_rejects_nobody() {
    let mut keyring = Keyring::new(2);
    assert_eq!(keyring.register(SenderId::NOBODY, Secret::new([0; 32])), Err(RegisterError::Nobody));
    let has = |keyring: &Keyring| [1, 2, 3].map(|sender| keyring.contains(SenderId([sender; 32])));
    // The second registration of sender 1 is a use of it.
    for sender in [1, 2, 1, 3] {
        keyring.register(SenderId([sender; 32]), Secret::new([0; 32])).unwrap();
    }
    assert_eq!((has(&keyring), keyring.len(), keyring.evicted()), ([true, false, true], 2, 1));
    assert!(keyring.remove(SenderId([1; 32])) && !keyring.remove(SenderId([1; 32])));
    for sender in 4..=255 {
        keyring.register(SenderId([sender; 32]), Secret::new([0; 32])).unwrap();
        assert_eq!(keyring.len(), 2);
    }
    assert_eq!((has(&keyring), keyring.evicted()), ([false; 3], 252));
}

#[test]
fn content_has_a_fixed_length_and_seals_differ() {
    let mut sender = Sender::new(Group::Small256, SenderId([1; 32]));
    sender.register(0, Secret::new([4; 32]));
    let seal = |round, salt| sender.seal(round, &[0], [salt; 32], &[9; 60]).unwrap();
    assert_eq!(seal(1, 1), seal(1, 1));
    assert_ne!(seal(1, 1), seal(1, 2));
    assert_ne!(seal(1, 1), seal(2, 1));
    let long = sender.seal(1, &[0], [0; 32], &[9; 61]);
    assert_eq!(long, Err(SealError::Length { found: 61, expected: 60 }));
    assert_eq!(sender.seal(1, &[0, 1], [0; 32], &[9; 60]), Err(SealError::Stranger { node: 1 }));
    assert_eq!(Group::Modp2048.slot_bytes(), 512);
    assert_eq!(Group::Modp2048.content_bytes(), 508);
}

#[test]
fn batch_rejects_payloads_of_different_teams() {
    let mut sender = Sender::new(Group::Small256, SenderId([1; 32]));
    (0..3).for_each(|node| sender.register(node, Secret::new([4; 32])));
    let two = sender.seal(1, &[0, 1], [1; 32], &[0; 60]).unwrap();
    let three = sender.seal(1, &[0, 1, 2], [1; 32], &[0; 60]).unwrap();
    assert_eq!(Batch::new(&[]), Err(BatchError::Empty));
    assert_eq!(Batch::new(&[two.clone(), three]), Err(BatchError::Mixed { index: 1 }));
    assert_eq!(Batch::new(&[two.clone(), two]).unwrap().len(), 2);
}
