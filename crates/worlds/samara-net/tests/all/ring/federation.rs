//! Federations: sites of members on loopback, and leaders that fail.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use samara_net::ring::{
    BroadcastError, Event, Events, FederationEvent, Group, Options, Preset, Secret, Site, StartError,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::common::{PATIENCE, addresses, all, message, options, patient};

const NAMES: [&str; 3] = ["Paris", "London", "Zurich"];
/// Numbers follow the order of names.
const NUMBERS: [u16; 3] = [1, 0, 2];

/// A member of a site, whose messages a task takes.
struct Member {
    group: Group,
    address: SocketAddr,
    taking: JoinHandle<Delivered>,
}

/// Changes the options of a member.
type Change = fn(Options) -> Options;

/// Messages by site and sender, in order of delivery.
type Delivered = BTreeMap<(u16, SocketAddr), Vec<Vec<u8>>>;

/// Returns the options of each member of sites of this size, by site.
fn sites(count: usize, size: usize) -> Vec<Vec<Options>> {
    let at: Vec<Vec<SocketAddr>> = (0..count).map(|_| addresses(size)).collect();
    let options = |site: usize, address: &SocketAddr| {
        let others = (0..count).filter(|other| *other != site);
        let place = others.fold(Site::new(NAMES[site]), |place, other| {
            place.with_other(NAMES[other], at[other].iter().copied())
        });
        let secret = Secret::new(b"a secret of a federation of tests").unwrap();
        let options = Options { listen: *address, ..options() };
        patient(options).with_seeds(at[site].clone()).with_secret(secret).with_site(place)
    };
    let site = |site: usize| at[site].iter().map(|address| options(site, address)).collect();
    (0..count).map(site).collect()
}

async fn join(options: Options) -> (Group, Events<FederationEvent>) {
    timeout(PATIENCE, Group::join_site(options)).await.expect("joins in time").expect("joins")
}

/// Takes messages until there are `count` of each of these senders.
async fn take(mut events: Events<FederationEvent>, of: Vec<(u16, SocketAddr)>, count: usize) -> Delivered {
    let mut delivered = Delivered::new();
    let has_all =
        |delivered: &Delivered| of.iter().all(|sender| delivered.get(sender).map_or(0, Vec::len) >= count);
    while !has_all(&delivered) {
        let event = timeout(PATIENCE, events.next()).await;
        let event = event.unwrap_or_else(|_| {
            let counts: Vec<_> = delivered.iter().map(|(sender, all)| (sender, all.len())).collect();
            panic!("no event in time, after {counts:?} of {count} each")
        });
        if let FederationEvent::Delivered { site, origin, content, .. } = event.expect("the member runs") {
            let sender = (site, origin.to_string().parse().unwrap());
            delivered.entry(sender).or_default().push(content.to_vec());
        }
    }
    // The member stays, and delivers nothing twice.
    while let Ok(Some(event)) = timeout(Duration::from_millis(200), events.next()).await {
        if let FederationEvent::Delivered { site, origin, content, .. } = event {
            let sender = (site, origin.to_string().parse().unwrap());
            delivered.entry(sender).or_default().push(content.to_vec());
        }
    }
    delivered
}

async fn leads(group: &Group) -> Option<usize> {
    let status = group.status().await.expect("the member runs");
    status.federation.expect("a federation").bridge.map(|(leaders, _)| leaders)
}

/// Waits until as many leaders are connected as there are sites, and returns a leader's index.
async fn wait_for_bridge(members: &[Vec<(Group, Events<FederationEvent>)>]) -> Vec<usize> {
    let connected = async {
        loop {
            let mut leaders = Vec::new();
            for site in members {
                for (at, (group, _)) in site.iter().enumerate() {
                    if leads(group).await == Some(members.len()) {
                        leaders.push(at);
                    }
                }
            }
            if leaders.len() == members.len() {
                return leaders;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, connected).await.expect("leaders connect in time")
}

/// Three sites of three members. The leader of one fails in the middle of the streams of all.
#[tokio::test(flavor = "multi_thread")]
async fn members_deliver_everything_once_and_in_order_past_the_crash_of_a_leader() {
    const COUNT: usize = 200;
    let mut members = Vec::new();
    for site in sites(3, 3) {
        members.push(futures::future::join_all(site.into_iter().map(join)).await);
    }
    let leaders = wait_for_bridge(&members).await;
    let (victim, mut victims_events) = members[0].remove(leaders[0]);
    let victims_name = (NUMBERS[0], victim.address());
    let mut senders: Vec<(u16, SocketAddr)> = Vec::new();
    for (site, members) in members.iter().enumerate() {
        senders.extend(members.iter().map(|(group, _)| (NUMBERS[site], group.address())));
    }
    let mut all_members: Vec<Member> = Vec::new();
    for (group, events) in members.into_iter().flatten() {
        let address = group.address();
        let taking = tokio::spawn(take(events, senders.clone(), COUNT));
        all_members.push(Member { group, address, taking });
    }
    let send = |sender: usize, group: Group| async move {
        for number in 0..COUNT {
            group.broadcast(message(sender, number, 1_000)).await.expect("is taken");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let sending: Vec<_> = all_members
        .iter()
        .enumerate()
        .map(|(sender, member)| tokio::spawn(send(sender, member.group.clone())))
        .collect();
    // The leader sends and takes messages like all others, and fails with some of them under way.
    let failing = async {
        for number in 0..COUNT / 2 {
            victim.broadcast(message(99, number, 1_000)).await.expect("is taken");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = failing => {}
        () = async { while victims_events.next().await.is_some() {} } => panic!("the leader runs"),
    }
    drop((victim, victims_events));
    for sending in sending {
        sending.await.expect("sends");
    }
    let mut delivered = Vec::new();
    for member in &mut all_members {
        delivered.push((&mut member.taking).await.expect("takes"));
    }
    for (member, delivered) in all_members.iter().zip(&delivered) {
        for (sender, name) in senders.iter().enumerate() {
            assert_eq!(delivered[name], all(sender, COUNT, 1_000), "{name:?} at {}", member.address);
        }
    }
    // All have the same messages of the leader that failed.
    let of_victim = |delivered: &Delivered| delivered.get(&victims_name).cloned().unwrap_or_default();
    let first = of_victim(&delivered[0]);
    assert!(!first.is_empty() && all(99, COUNT, 1_000).starts_with(&first), "{} messages", first.len());
    assert!(delivered.iter().all(|other| of_victim(other) == first));
    // Another member leads the site.
    let mut leading = 0;
    for member in &all_members[..2] {
        leading += usize::from(leads(&member.group).await == Some(3));
    }
    assert_eq!(leading, 1);
}

/// The member that leaves is the leader of its site.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaver_waits_until_all_sites_have_its_messages() {
    let mut members = Vec::new();
    for site in sites(2, 2) {
        members.push(futures::future::join_all(site.into_iter().map(join)).await);
    }
    let leaders = wait_for_bridge(&members).await;
    let (leaver, mut events) = members[0].remove(leaders[0]);
    let name = (NUMBERS[0], leaver.address());
    let (far, far_events) = members[1].remove(0);
    let taking = tokio::spawn(take(far_events, vec![name], 100));
    let draining = tokio::spawn(async move { while events.next().await.is_some() {} });
    for number in 0..100 {
        leaver.broadcast(message(0, number, 1_000)).await.expect("is taken");
    }
    timeout(PATIENCE, leaver.leave()).await.expect("leaves in time").expect("leaves");
    assert_eq!(leaver.broadcast("late").await, Err(BroadcastError::Leaving));
    draining.await.expect("events end");
    assert_eq!(taking.await.expect("takes")[&name], all(0, 100, 1_000));
    drop(far);
}

/// A sender waits at the bound of what its site keeps for another one, and continues when that comes.
#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_within_bounds_for_a_site_that_comes_later() {
    const LEN: usize = 256 << 10;
    let mut all_options = sites(2, 1);
    let (later, first) = (all_options.remove(1).remove(0), all_options.remove(0).remove(0));
    let (group, mut events) = join(first).await;
    let name = (NUMBERS[0], group.address());
    let draining = tokio::spawn(async move { while events.next().await.is_some() {} });
    let mut sent = 0;
    // Each message has some time to leave the queue.
    while let Ok(()) = group.try_broadcast(message(0, sent, LEN)) {
        sent += 1;
        assert!(sent < 100, "nothing bounds the messages for the other site");
        let left = async {
            while group.status().await.expect("runs").queued_bytes > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if timeout(Duration::from_secs(1), left).await.is_err() {
            break;
        }
    }
    let kept = group.status().await.expect("runs").kept_bytes;
    // `FederationConfig::window_bytes` is 16 MiB.
    assert!(((15 << 20)..=(16 << 20)).contains(&kept), "{kept} bytes of {sent} messages");
    let (far, far_events) = join(later).await;
    let delivered = take(far_events, vec![name], sent).await;
    assert!(delivered[&name] == all(0, sent, LEN), "{} messages", delivered[&name].len());
    group.broadcast(message(0, sent, LEN)).await.expect("there is room again");
    timeout(PATIENCE, group.leave()).await.expect("leaves in time").expect("leaves");
    drop(far);
    draining.await.expect("events end");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_other_federations_and_of_plain_groups_are_refused() {
    let own = sites(2, 1).remove(0).remove(0);
    let (group, mut events) = join(own.clone()).await;
    let _draining = tokio::spawn(async move { while events.next().await.is_some() {} });
    let stranger = |change: Change| {
        let options = Options { listen: addresses(1)[0], ..own.clone() };
        change(options).with_seeds([group.address()]).require_seed(Duration::from_secs(3))
    };
    let other = stranger(|options| options.with_site(Site::new("Paris").with_other("Berlin", [])));
    let error = Group::join_site(other).await.expect_err("other names").to_string();
    assert!(error.contains("a federation of 2 sites with names"), "{error}");
    let plain = stranger(|options| Options { site: None, ..options });
    let error = Group::join(plain).await.expect_err("a plain group").to_string();
    assert!(error.contains("the peer has other options") && error.contains("federation"), "{error}");
}

#[tokio::test]
async fn options_that_cannot_be_those_of_a_federation_are_named() {
    let site = || Site::new("Paris").with_other("London", []);
    let cases: [(&str, Change); 5] = [
        ("site: found none, expected the site of the member", |options| Options { site: None, ..options }),
        ("site: found 1 sites, expected 2 to 256 sites", |options| options.with_site(Site::new("Paris"))),
        ("a name for each site", |options| options.with_site(Site::new("Paris").with_other("", []))),
        ("a name that no other site has", |options| {
            options.with_site(Site::new("Paris").with_other("Paris", []).with_other("London", []))
        }),
        ("a federation orders by sender, not totally", |options| Options {
            config: Preset::RingTotal.config().expect("a preset"),
            ..options
        }),
    ];
    for (expected, change) in cases {
        let joined = Group::join_site(change(options().with_site(site()))).await;
        let error = joined.map(drop).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let far = options().with_site(Site::new("Paris").with_other("London", ["192.0.2.1:1".parse().unwrap()]));
    let error = Group::join_site(far).await.map(drop).expect_err("no authentication").to_string();
    assert!(error.contains("none for 192.0.2.1:1"), "{error}");
    let plain: Result<(Group, Events<Event>), StartError> = Group::join(options().with_site(site())).await;
    let error = plain.map(drop).expect_err("a plain group has no sites").to_string();
    assert!(error.contains("none in a plain group: use `join_site`"), "{error}");
}
