//! Members that authenticate each other, and strangers among them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samara_net::ring::{Authentication, Certificates, Frames, Group, Identity, Options, Secret, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::ring::attacker::{Attacker, ENCRYPTED, FIELDS, Way, hung_up, proxy, wait_for_cause};
use crate::ring::common::{Node, PATIENCE, addresses, all, options, patient, send, start};

const SECRET: &[u8] = b"the secret of the tests, 32 B   ";

fn secret(frames: Frames) -> Authentication {
    Authentication::Secret(Secret::new(SECRET).unwrap(), frames)
}

/// A pool of certificates, one for each address.
fn certificates(addresses: &[SocketAddr]) -> Vec<Certificates> {
    let identities: Vec<Identity> = addresses.iter().map(|_| Identity::generate().unwrap()).collect();
    let members: BTreeMap<_, _> =
        addresses.iter().copied().zip(identities.iter().map(Identity::fingerprint)).collect();
    identities.into_iter().map(|identity| Certificates { identity, members: members.clone() }).collect()
}

/// Starts members with certificates at these addresses.
async fn start_certified(addresses: &[SocketAddr], certificates: &[Certificates]) -> Vec<Node> {
    start(certificates.len(), |index, options| {
        patient(Options {
            listen: addresses[index],
            authentication: Authentication::Certificates(certificates[index].clone()),
            ..options
        })
    })
    .await
}

/// Checks that messages of all lengths arrive at all members, and that no byte is counted twice.
async fn carries_everything(nodes: &mut [Node], framing: &str) {
    for (len, count) in [(1, 3_000), (8_192, 300), (300_000, 10), (3 << 20, 2)] {
        let sending: Vec<_> =
            (0..).zip(&*nodes).map(|(at, node)| send(&node.group, at, count, len)).collect();
        let total = nodes.len() * count;
        futures::future::join_all(nodes.iter_mut().map(|node| node.wait_for_messages(total))).await;
        for sending in sending {
            sending.await.unwrap();
        }
        let senders: Vec<_> = nodes.iter().map(|node| node.group.address()).collect();
        for node in &mut *nodes {
            for (at, sender) in senders.iter().enumerate() {
                assert_eq!(node.of(*sender), all(at, count, len), "{framing}: {len} bytes of {at}");
            }
        }
        nodes.iter_mut().for_each(|node| node.delivered.clear());
    }
    for node in nodes {
        let transport = node.group.status().await.unwrap().transport;
        assert!(transport.bytes_up >= transport.payload_bytes_up, "{framing}: {transport:?}");
        assert!(transport.bytes_down >= transport.payload_bytes_down, "{framing}: {transport:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_a_secret_carry_everything() {
    for frames in [Frames::Encrypted, Frames::Fields] {
        let change = |_, options| patient(Options { authentication: secret(frames), ..options });
        let mut nodes = start(3, change).await;
        carries_everything(&mut nodes, &format!("{frames:?}")).await;
        // They leave in order: everything that is owed has left.
        for node in nodes {
            timeout(PATIENCE, node.group.leave()).await.expect("leaves in time").unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_certificates_carry_everything() {
    let addresses = addresses(3);
    let mut nodes = start_certified(&addresses, &certificates(&addresses)).await;
    carries_everything(&mut nodes, "TLS").await;
    for node in nodes {
        timeout(PATIENCE, node.group.leave()).await.expect("leaves in time").unwrap();
    }
}

/// Outside of loopback a member needs authentication, or its owner's word that it needs none.
#[tokio::test]
async fn members_outside_of_loopback_must_authenticate() {
    let outside: SocketAddr = "192.0.2.1:7800".parse().unwrap();
    let on_loopback = options();
    for changed in [
        Options { listen: SocketAddr::from(([0, 0, 0, 0], 0)), advertise: Some(outside), ..options() },
        Options { advertise: Some(outside), ..options() },
        options().with_seeds([outside]),
    ] {
        let error = changed.check().unwrap_err();
        assert_eq!(error.field, "authentication");
        let text = error.to_string();
        for part in ["secret", "openssl rand -hex 32", "certificates", "Unauthenticated"] {
            assert!(text.contains(part), "{text}");
        }
        let accepted = Options { authentication: Authentication::Unauthenticated, ..changed.clone() };
        accepted.check().unwrap();
        changed.with_secret(Secret::new(SECRET).unwrap()).check().unwrap();
    }
    on_loopback.check().unwrap();
    let error = Secret::new("short").unwrap_err().to_string();
    assert!(error.contains("5 bytes") && error.contains("openssl"), "{error}");
    assert_eq!(format!("{:?}", Secret::new(SECRET).unwrap()), "Secret");

    let own = addresses(1);
    let certified = |certificates: Certificates, seeds: &[SocketAddr]| {
        let authentication = Authentication::Certificates(certificates);
        Options { listen: own[0], authentication, ..options() }.with_seeds(seeds.to_vec())
    };
    let mut pool = certificates(&own);
    let field = |options: Options| options.check().unwrap_err().field;
    assert_eq!(field(certified(pool[0].clone(), &[outside])), "authentication.members");
    pool[0].identity = Identity::generate().unwrap();
    assert_eq!(field(certified(pool[0].clone(), &[])), "authentication.identity");
}

/// Nodes that do not have the secret, or have it for another group, get no link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_without_the_secret_are_refused() {
    let change = |_, options| Options { authentication: secret(Frames::Encrypted), ..options };
    let mut nodes = start(2, change).await;
    let target = nodes[0].group.clone();
    let stranger = || Attacker::with_secret("127.0.0.9:1", SECRET);
    let cases = [
        ("unauthenticated", Attacker { secret: b"another secret, as long", ..stranger() }),
        ("unauthenticated", Attacker { secret: b"", ..stranger() }),
        ("unauthenticated", Attacker { group: "another", ..stranger() }),
        ("handshake", Attacker { protection: FIELDS, ..stranger() }),
        ("handshake", Attacker::new("127.0.0.9:1")),
        ("other_node", Attacker { meant: Some("127.0.0.9:2".to_owned()), ..stranger() }),
    ];
    let mut expected = BTreeMap::new();
    for (cause, attacker) in cases {
        let mut stream = TcpStream::connect(target.address()).await.unwrap();
        assert!(attacker.greet(&mut stream, target.address()).await.is_none(), "{cause}: got a link");
        *expected.entry(cause).or_insert(0) += 1;
        wait_for_cause(&target, cause, expected[cause]).await;
    }
    assert_eq!(target.status().await.unwrap().links, 1);

    // One that has it is a member of the group, but cannot speak without keys.
    let mut stream = TcpStream::connect(target.address()).await.unwrap();
    assert!(stranger().greet(&mut stream, target.address()).await.is_some());
    stream.write_all(&[&2u32.to_le_bytes()[..], b"\x01\x01", &[0; 16]].concat()).await.unwrap();
    hung_up(&mut stream).await;
    wait_for_cause(&target, "forged", 1).await;

    // A joiner with another secret learns that it was refused.
    let other = Secret::new("not the one of the others").unwrap();
    let joins = options().with_seeds([target.address()]).with_secret(other);
    let error = Group::join(joins.require_seed(Duration::from_secs(1))).await.map(drop).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("no seed admitted this node within 1s: "), "{error}");
    assert!(error.contains("the peer refused the link: it ended the connection; "), "{error}");
    assert!(error.contains("another secret, group name or kind of authentication"), "{error}");
    assert!(!error.contains("require_seed"), "founding another group is no remedy: {error}");
    nodes[0].group.broadcast("still").await.unwrap();
    nodes[1].wait_for_messages(1).await;
}

/// The recorded bytes of a member's handshake prove nothing in another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_handshakes_prove_nothing() {
    for frames in [Frames::Encrypted, Frames::Fields] {
        let (listener, recorded) = record(frames).await;
        let target = &listener.group;
        let mut stream = TcpStream::connect(listener.at).await.unwrap();
        // In the order of the handshake, and then all at once.
        stream.write_all(&recorded[..41]).await.unwrap();
        stream.read_exact(&mut [0; 32]).await.unwrap();
        stream.write_all(&recorded[41..]).await.unwrap();
        hung_up(&mut stream).await;
        wait_for_cause(target, "unauthenticated", 1).await;
        let mut stream = TcpStream::connect(listener.at).await.unwrap();
        stream.write_all(&recorded).await.unwrap();
        hung_up(&mut stream).await;
        wait_for_cause(target, "unauthenticated", 2).await;
    }
}

/// A member behind a proxy: others dial the proxy, whose address is the name of the member.
struct Listener {
    group: Group,
    at: SocketAddr,
    proxy: Option<TcpListener>,
}

async fn behind_a_proxy(authentication: Authentication) -> Listener {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = addresses(1)[0];
    let advertise = Some(proxy.local_addr().unwrap());
    let (group, mut events) =
        Group::join(Options { listen: at, advertise, authentication, ..options() }).await.unwrap();
    tokio::spawn(async move { while events.next().await.is_some() {} });
    Listener { group, at, proxy: Some(proxy) }
}

impl Listener {
    /// Starts the proxy.
    fn tamper(&mut self, tamper: impl FnMut(Way, &mut Vec<u8>) + Send + 'static) {
        tokio::spawn(proxy(self.proxy.take().unwrap(), self.at, Box::new(tamper)));
    }

    fn options(&self, authentication: Authentication) -> Options {
        Options { authentication, ..options() }.with_seeds([self.group.address()])
    }
}

/// Lets a member join another one. Returns that one, and the bytes of the joiner's handshake.
async fn record(frames: Frames) -> (Listener, Vec<u8>) {
    let mut listener = behind_a_proxy(secret(frames)).await;
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&recorded);
    listener.tamper(move |way, bytes| {
        if way == Way::ToListener {
            into.lock().unwrap().extend_from_slice(bytes);
        }
    });
    let (group, _events) = Group::join(listener.options(secret(frames))).await.unwrap();
    assert_eq!(group.view().unwrap().len(), 2);
    let handshake = 41
        + 16
        + 1
        + group.address().to_string().len()
        + 1
        + listener.group.address().to_string().len()
        + 32
        + 32;
    let recorded = recorded.lock().unwrap()[..handshake].to_vec();
    (listener, recorded)
}

/// A node that answers a member with the member's own proof is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflected_proof_is_refused() {
    let mirror = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let seed = mirror.local_addr().unwrap();
    let options = options().with_seeds([seed]).with_secret(Secret::new(SECRET).unwrap());
    let (group, _events) = Group::start(options).await.unwrap();
    let (mut stream, _) = mirror.accept().await.unwrap();
    let mut hello = [0; 41];
    stream.read_exact(&mut hello).await.unwrap();
    // The nonce is reflected as well.
    stream.write_all(&hello[9..]).await.unwrap();
    let mut rest = vec![0; 16 + 2 + group.address().to_string().len() + seed.to_string().len() + 32 + 32];
    stream.read_exact(&mut rest).await.unwrap();
    let proof = rest.split_off(rest.len() - 32);
    // An instance, and terms without a letter.
    stream.write_all(&[&rest[..16], &[0], &proof[..]].concat()).await.unwrap();
    hung_up(&mut stream).await;
    wait_for_cause(&group, "unauthenticated", 1).await;
    assert_eq!(group.status().await.unwrap().links, 0);
}

/// A node that a member dials cannot use its proof at another member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_for_one_member_is_refused_by_another() {
    let victim = options().with_secret(Secret::new(SECRET).unwrap());
    let (victim, _events) = Group::join(victim).await.unwrap();
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let seed = between.local_addr().unwrap();
    // It forwards all bytes to the victim.
    tokio::spawn(proxy(between, victim.address(), Box::new(|_, _| {})));
    let joiner = options().with_seeds([seed]).with_secret(Secret::new(SECRET).unwrap());
    let (_joiner, _events) = Group::start(joiner).await.unwrap();
    wait_for_cause(&victim, "other_node", 1).await;
    assert_eq!(victim.status().await.unwrap().links, 0);
}

/// An attack on the frames between two members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interference {
    Flip,
    Insert,
    Repeat,
    Omit,
}

/// An attacker between two members can break a link, and nothing else: changed, inserted, repeated
/// and omitted frames end it with a counted cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interference_with_frames_is_noticed() {
    use Interference::*;
    for (frames, what) in [Frames::Encrypted, Frames::Fields]
        .into_iter()
        .flat_map(|frames| [Flip, Insert, Repeat, Omit].map(|what| (frames, what)))
    {
        let mut listener = behind_a_proxy(secret(frames)).await;
        let is_active = Arc::new(Mutex::new(false));
        let active = Arc::clone(&is_active);
        listener.tamper(move |way, bytes| {
            // A whole frame by itself, between its length and its tag: most heartbeats are.
            let mut active = active.lock().unwrap();
            let announced = bytes.first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize);
            if way != Way::ToListener || bytes.len() != 4 + announced + 16 || !std::mem::take(&mut *active) {
                return;
            }
            match what {
                Flip => bytes[10] ^= 1,
                // The same frame without its tag: a receiver that does not check it takes it.
                Insert => {
                    let forged = [&bytes[..bytes.len() - 16], &[0; 16]].concat();
                    bytes.splice(0..0, forged);
                }
                Repeat => bytes.extend_from_within(..),
                Omit => bytes.clear(),
            }
        });
        // The listener cannot dial the joiner: a link of its own would not go through the proxy.
        let advertise = Some(addresses(1)[0]);
        let joins = Options { advertise, ..listener.options(secret(frames)) };
        let (group, _events) = Group::join(joins).await.unwrap();
        assert_eq!(group.view().unwrap().len(), 2);
        *is_active.lock().unwrap() = true;
        wait_for_cause(&listener.group, "forged", 1).await;
    }
}

/// A peer whose link ends dials again at once. The cause of the end is counted nevertheless.
///
/// On one thread the member learns of both at the same moment, most of the time.
#[tokio::test]
async fn a_new_connection_hides_no_cause() {
    let joined = Group::join(Options { authentication: secret(Frames::Encrypted), ..options() }).await;
    let (target, _events) = joined.unwrap();
    let peer = Attacker::with_secret("127.0.0.9:1", SECRET);
    let mut link = TcpStream::connect(target.address()).await.unwrap();
    assert!(peer.greet(&mut link, target.address()).await.is_some());
    for count in 1..=20 {
        let mut next = TcpStream::connect(target.address()).await.unwrap();
        next.write_all(&peer.hello()).await.unwrap();
        let mut nonce = [0; 32];
        next.read_exact(&mut nonce).await.unwrap();
        link.write_all(&[&2u32.to_le_bytes()[..], b"\x01\x01", &[0; 16]].concat()).await.unwrap();
        next.write_all(&peer.rest(&nonce, target.address())).await.unwrap();
        wait_for_cause(&target, "forged", count).await;
        // It answers once it has accepted the proof, and the link may come up a moment later.
        next.read_exact(&mut [0]).await.unwrap();
        while target.status().await.unwrap().transport.links_up <= count {
            tokio::task::yield_now().await;
        }
        link = next;
    }
}

/// Returns true if contents pass a proxy as they are.
async fn contents_are_visible(listener: &mut Listener, joins: Authentication) -> bool {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    listener.tamper(move |_, bytes| into.lock().unwrap().extend_from_slice(bytes));
    let mut joiner = listener.options(joins);
    if let Authentication::Certificates(certificates) = &joiner.authentication {
        let own = certificates.identity.fingerprint();
        joiner.listen = *certificates.members.iter().find(|(_, other)| **other == own).unwrap().0;
    }
    let (group, events) = Group::join(joiner).await.unwrap();
    assert_eq!(group.view().unwrap().len(), 2);
    let content = b"a content that nobody else must see ".repeat(100);
    listener.group.broadcast(content.clone()).await.unwrap();
    Node::new(group, events).wait_for_messages(1).await;
    let seen = seen.lock().unwrap();
    seen.windows(content.len()).any(|window| window == content)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_are_encrypted_where_that_is_promised() {
    for (frames, expected) in [(Frames::Encrypted, false), (Frames::Fields, true)] {
        let mut listener = behind_a_proxy(secret(frames)).await;
        assert_eq!(contents_are_visible(&mut listener, secret(frames)).await, expected, "{frames:?}");
    }
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let named = vec![proxy.local_addr().unwrap(), addresses(1)[0]];
    let pool = certificates(&named);
    let options = Options {
        listen: addresses(1)[0],
        advertise: Some(named[0]),
        authentication: Authentication::Certificates(pool[0].clone()),
        ..options()
    };
    let at = options.listen;
    let (group, mut events) = Group::join(options).await.unwrap();
    tokio::spawn(async move { while events.next().await.is_some() {} });
    let mut listener = Listener { group, at, proxy: Some(proxy) };
    let joins = Authentication::Certificates(pool[1].clone());
    assert!(!contents_are_visible(&mut listener, joins).await);
}

/// Certificates that are not those of members, or not that of the member whose name is claimed, get
/// no link. Plain connections get none either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_without_a_members_certificate_are_refused() {
    // An address for each node: a listener closes a moment after its member is dropped.
    let named = addresses(6);
    let pool = certificates(&named);
    let mut nodes = start_certified(&named, &pool[..2]).await;
    let target = nodes[0].group.clone();
    let attempt = async |listen, certificates: Certificates| {
        let authentication = Authentication::Certificates(certificates);
        let options = Options { listen, authentication, ..options() }.with_seeds([target.address()]);
        let joined = Group::join(options.require_seed(Duration::from_secs(1))).await;
        matches!(joined, Err(StartError::NoSeed { .. }))
    };
    // Not pinned by others.
    let mut own = pool[2].clone();
    own.identity = Identity::generate().unwrap();
    own.members.insert(named[2], own.identity.fingerprint());
    assert!(attempt(named[2], own).await);
    wait_for_cause(&target, "unauthenticated", 1).await;
    // The certificate of one member, the name of another.
    let mut own = pool[2].clone();
    own.members.insert(named[3], own.identity.fingerprint());
    let before = crate::ring::attacker::closed(&target, "unauthenticated").await;
    assert!(attempt(named[3], own).await);
    wait_for_cause(&target, "unauthenticated", before + 1).await;
    // A listener with another certificate than that of its name.
    let impostor = Options {
        listen: named[4],
        authentication: Authentication::Certificates({
            let mut own = pool[4].clone();
            own.identity = Identity::generate().unwrap();
            own.members.insert(named[4], own.identity.fingerprint());
            own
        }),
        ..options()
    };
    let (_impostor, _events) = Group::start(impostor).await.unwrap();
    let deceived = Options {
        listen: named[5],
        authentication: Authentication::Certificates(pool[5].clone()),
        ..options()
    };
    let (deceived, _events) = Group::start(deceived.with_seeds([named[4]])).await.unwrap();
    wait_for_cause(&deceived, "unauthenticated", 1).await;
    // No TLS at all.
    let before = crate::ring::attacker::closed(&target, "handshake").await;
    for protection in [0, ENCRYPTED] {
        let plain = Attacker { protection, ..Attacker::new("127.0.0.9:1") };
        let mut stream = TcpStream::connect(target.address()).await.unwrap();
        assert!(plain.greet(&mut stream, target.address()).await.is_none());
    }
    wait_for_cause(&target, "handshake", before + 2).await;
    assert_eq!(target.status().await.unwrap().links, 1);
    nodes[0].group.broadcast("still").await.unwrap();
    nodes[1].wait_for_messages(1).await;
}
