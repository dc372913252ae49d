use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().expect("an address"))
}

/// Takes places for holders of these addresses. Returns the number of those that got one.
fn take_all(places: &mut Places<String>, from: impl Iterator<Item = String>) -> usize {
    from.filter(|from| places.take(format!("{}-{from}", places.next), ip(from)).is_ok()).count()
}

#[test]
fn prefixes_have_their_shares() {
    for (addresses, expected) in [
        // One /64, one /56, one /48, and many of the latter.
        ((0..99).map(|n| format!("2001:db8:1:2::{n:x}")).collect::<Vec<_>>(), 4),
        ((0..99).map(|n| format!("2001:db8:1:2{n:02x}::1")).collect(), 8),
        ((0..99).map(|n| format!("2001:db8:1:{n:02x}00::1")).collect(), 16),
        ((0..99).map(|n| format!("2001:db8:{n:x}::1")).collect(), 64),
        // One address in two notations, one /24, one /16, and many of the latter.
        ((0..99).map(|_| "198.51.100.7".to_owned()).collect(), 4),
        ((0..99).map(|_| "::ffff:198.51.100.7".to_owned()).collect(), 4),
        ((0..99).map(|n| format!("198.51.100.{n}")).collect(), 8),
        ((0..99).map(|n| format!("198.51.{n}.1")).collect(), 16),
        ((0..99).map(|n| format!("198.{n}.1.1")).collect(), 64),
        // An organisation assigns its own addresses.
        ((0..99).map(|_| "10.79.1.1".to_owned()).collect(), 4),
        ((0..99).map(|n| format!("10.79.1.{n}")).collect(), 64),
        // Nodes of one machine.
        ((0..99).map(|_| "127.0.0.1".to_owned()).collect(), 64),
        ((0..99).map(|_| "::1".to_owned()).collect(), 64),
        ((0..99).map(|_| "::ffff:127.0.0.1".to_owned()).collect(), 64),
    ] {
        let mut places = Places::new(64, Shares::of(64));
        let example = addresses[0].clone();
        assert_eq!(take_all(&mut places, addresses.into_iter()), expected, "{example}");
        let counters = places.counters();
        assert_eq!(counters.refused_all + counters.refused_prefix + expected as u64, 99, "{example}");
    }
}

#[test]
fn small_numbers_of_places_leave_one_for_each_prefix() {
    assert_eq!(Shares::of(3), Shares { host: 1, site: 1, network: 1 });
    assert_eq!(Shares::of(64), Shares { host: 4, site: 8, network: 16 });
    assert_eq!(Shares::per_host(16), Shares { host: 16, site: 32, network: 64 });
}

#[test]
fn a_newcomer_takes_the_place_of_the_oldest_of_the_heaviest_prefix() {
    let mut places = Places::new(64, Shares::of(64));
    // An honest host in the network of an attacker, and one elsewhere, before the attacker.
    assert_eq!(places.take_or_evict("near".to_owned(), ip("2001:db8:0:ff00::1")), Ok(None));
    assert_eq!(places.take_or_evict("far".to_owned(), ip("2001:db8:ffff::1")), Ok(None));
    // Four networks of sites with two hosts.
    for (host, network) in (0..99).flat_map(|host| (0..4).map(move |network| (host, network))) {
        let from = format!("2001:db8:{network}:{:x}0{}::1", host / 2, host % 2);
        let _ = places.take(format!("{network}-{host}"), ip(&from));
    }
    assert_eq!(places.len(), 64);
    for newcomer in 0..8 {
        let key = format!("newcomer {newcomer}");
        let evicted = places.take_or_evict(key, ip(&format!("2001:db8:aaaa:{newcomer:x}00::1")));
        let evicted = evicted.expect("the network has room").expect("all places were taken");
        assert!(!["near", "far"].contains(&&*evicted) && !evicted.starts_with("new"), "{evicted}");
    }
    assert!(places.contains(&"near".to_owned()) && places.contains(&"far".to_owned()));
    assert_eq!((places.len(), places.counters().evicted), (64, 8));
}

#[test]
fn the_oldest_goes_first() {
    let mut places = Places::new(2, Shares::of(2));
    assert_eq!(places.take_or_evict(1, ip("127.0.0.1")), Ok(None));
    assert_eq!(places.take_or_evict(2, ip("127.0.0.1")), Ok(None));
    assert_eq!(places.take_or_evict(3, ip("198.51.100.7")), Ok(Some(1)));
    assert!(!places.free(&1), "it has lost its place");
    // Each of the two has one place; the longest holder loses it.
    assert_eq!(places.take_or_evict(4, ip("203.0.113.7")), Ok(Some(2)));
    assert_eq!(places.take_or_evict(5, ip("203.0.113.7")), Err(Refusal::Prefix));
    assert_eq!(Places::new(0, Shares::of(0)).take_or_evict(1, None), Err(Refusal::All));
}

#[test]
fn amounts_have_the_same_shares() {
    let mut bytes = Amounts::new(100, Shares { host: 10, site: 15, network: 30 });
    assert_eq!(bytes.take(ip("2001:db8:1:1::1"), 11), Err(Refusal::Prefix));
    assert_eq!(bytes.take(ip("2001:db8:1:1::1"), 10), Ok(()));
    assert_eq!(bytes.take(ip("2001:db8:1:2::1"), 10), Err(Refusal::Prefix), "the same site");
    assert_eq!(bytes.take(ip("2001:db8:1:2::1"), 5), Ok(()));
    assert_eq!(bytes.take(ip("127.0.0.1"), 85), Ok(()), "loopback has no share");
    assert_eq!((bytes.take(ip("198.51.100.7"), 1), bytes.taken()), (Err(Refusal::All), 100));
    bytes.free(ip("2001:db8:1:1::1"), 10);
    assert_eq!(bytes.take(ip("198.51.100.7"), 10), Ok(()));
    for (from, amount) in [("2001:db8:1:2::1", 5), ("127.0.0.1", 85), ("198.51.100.7", 10)] {
        bytes.free(ip(from), amount);
    }
    assert_eq!((bytes.taken(), bytes.prefixes()), (0, 0));
}

#[test]
fn rates_are_shared_by_prefix() {
    let start = Instant::now();
    let mut rates = Rates::new(Shares { host: 100, site: 200, network: 400 });
    let mut take = |from: &str, amount, at_ms| {
        rates.take(ip(from).unwrap(), amount, start + Duration::from_millis(at_ms)).as_millis()
    };
    assert_eq!(take("2001:db8:1:1::1", 100, 0), 0, "a second's amount at once");
    assert_eq!(take("2001:db8:1:1::2", 100, 0), 1_000, "of the same host");
    assert_eq!(take("2001:db8:1:2::1", 50, 0), 250, "of the same site: 250 at 200 a second");
    assert_eq!(take("2001:db8:2::1", 50, 0), 0, "elsewhere");
    assert_eq!(take("2001:db8:1:1::1", 50, 2_000), 0, "after a while");
    // Even entries are forgotten.
    for host in 0..2_000 {
        take(&format!("2001:db8:{host:x}::1"), 1, 100_000 + 100 * host);
    }
    assert!(rates.even_at.len() < EVEN_MAX + 3, "{}", rates.even_at.len());
}

/// Processes of this machine that are strangers to each other have the addresses of a host each.
#[test]
fn loopback_addresses_can_have_shares() {
    let mut places = Places::new(64, Shares::of(64)).with_loopback_shares();
    for (from, expected) in [("127.0.0.2", 4), ("127.0.0.3", 4), ("::1", 4)] {
        assert_eq!(take_all(&mut places, (0..9).map(|_| from.to_owned())), expected, "{from}");
    }
}

proptest! {
    /// No order of inputs exceeds a limit, refuses a host with room, or leaves anything behind.
    #[test]
    fn shares_hold_in_any_order(
        steps in prop::collection::vec((0..4_u8, 0..3_u8, 0..3_u8, 0..3_u8, 0..40_u32), 1..200),
    ) {
        let shares = Shares { host: 2, site: 3, network: 4 };
        let mut places = Places::new(10, shares);
        let mut held: BTreeMap<u32, [u8; 3]> = BTreeMap::new();
        for (action, network, site, host, key) in steps {
            let from = ip(&format!("2001:db8:{network}:{site}0{host}::1"));
            if action == 0 || held.contains_key(&key) {
                prop_assert_eq!(places.free(&key), held.remove(&key).is_some());
                continue;
            }
            let of = |depth: usize| {
                held.values().filter(|held| held[..depth] == [network, site, host][..depth]).count()
            };
            let has_room = of(1) < shares.network && of(2) < shares.site && of(3) < shares.host;
            let is_full = held.len() == 10;
            let taken = if action == 1 {
                places.take(key, from).map(|()| None)
            } else {
                places.take_or_evict(key, from)
            };
            match taken {
                Ok(evicted) => {
                    prop_assert!(has_room);
                    prop_assert_eq!(evicted.is_some(), is_full);
                    if let Some(evicted) = evicted {
                        let lost = held.remove(&evicted).expect("it had a place");
                        let networks = held.values().filter(|held| held[0] == lost[0]).count() + 1;
                        let most = (0..3).map(|n| held.values().filter(|held| held[0] == n).count()).max();
                        prop_assert!(Some(networks) >= most);
                    }
                    held.insert(key, [network, site, host]);
                }
                Err(Refusal::Prefix) => prop_assert!(!has_room),
                Err(Refusal::All) => prop_assert!(is_full && action == 1),
            }
            prop_assert_eq!(places.len(), held.len());
        }
        for key in held.keys() {
            prop_assert!(places.free(key));
        }
        prop_assert!(places.is_empty() && places.taken.prefixes() == 0 && places.by_key.is_empty());
    }
}
