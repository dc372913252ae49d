use super::*;

#[test]
fn only_the_signature_of_the_author_verifies() {
    let (key, other) = (Keypair::generate_ed25519(), Keypair::generate_ed25519());
    let signer = KeySigner::new(&key);
    let signature = signer.sign(b"payload");
    let author = key.public().to_peer_id().to_bytes();
    assert_eq!(signer.attached_key(), None, "an Ed25519 key is within the identity");
    assert!(KeyVerifier.verify(&author, None, b"payload", &signature));
    assert!(!KeyVerifier.verify(&author, None, b"other", &signature));
    assert!(!KeyVerifier.verify(&author, None, b"payload", &signature[1..]));
    let foreign = other.public().encode_protobuf();
    assert!(!KeyVerifier.verify(&author, Some(&foreign), b"payload", &other.sign(b"payload").unwrap()));
    assert!(!KeyVerifier.verify(b"nobody", None, b"payload", &signature));
}

#[test]
fn identities_convert_back_to_peer_ids() {
    let peer = PeerId::random();
    assert_eq!(peer_id_of(&identity_of(&peer)), Some(peer));
    assert_eq!(peer_id_of(&PeerIdentity::new(b"x")), None);
}
