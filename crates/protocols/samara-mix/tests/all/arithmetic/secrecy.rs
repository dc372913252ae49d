//! Secrets are not printed.

use samara_mix::{Group, KeyPair, Keyring, Secret, Sender, SenderId};

/// Returns true if the text contains four bytes of the secret in any likely format.
fn shows(text: &str) -> bool {
    ["abababab", "ABABABAB", "171, 171", "0xab, 0xab"].iter().any(|form| text.contains(form))
}

#[test]
fn debug_output_contains_no_secrets() {
    let secret = Secret::new([0xab; 32]);
    let mut keyring = Keyring::new(1);
    keyring.register(SenderId([1; 32]), secret.clone()).unwrap();
    let mut sender = Sender::new(Group::Small256, SenderId([1; 32]));
    sender.register(0, secret.clone());
    let pair = KeyPair::new(Group::Small256, secret.clone());
    let command = samara_mix::Command::Register { sender: SenderId([1; 32]), secret: secret.clone() };
    let sealed = sender.seal(1, &[0], [0xab; 32], &[0xab; 60]).unwrap();
    for text in [
        format!("{secret:?} {secret:#?}"),
        format!("{keyring:?} {keyring:#?}"),
        format!("{sender:?} {sender:#?}"),
        format!("{pair:?} {command:?} {sealed:?}"),
    ] {
        assert!(!shows(&text), "{text}");
    }
    assert!(shows(&format!("{:?}", [0xabu8; 8])));
}
