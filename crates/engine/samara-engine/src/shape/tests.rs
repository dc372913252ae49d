//! Tests that every shape reaches everybody once, and that the closed forms hold.

use super::*;

/// Returns the number of links between the origin and each member. Panics if any member gets a unit
/// twice or never.
fn distances(shape: Shape, members: usize, origin: u16, sequence: u64) -> Vec<usize> {
    let mut distance = vec![usize::MAX; members];
    distance[usize::from(origin)] = 0;
    let mut next = vec![origin];
    while let Some(me) = next.pop() {
        for child in shape.children(members, origin, me, sequence) {
            assert_eq!(distance[usize::from(child)], usize::MAX, "{shape:?}, {members}: {child} twice");
            distance[usize::from(child)] = distance[usize::from(me)] + 1;
            next.push(child);
        }
    }
    assert!(distance.iter().all(|distance| *distance < members.max(1)), "{shape:?}, {members}: {distance:?}");
    distance
}

#[test]
fn everybody_gets_every_unit_once_within_the_hop_budget() {
    for shape in Shape::ALL {
        for members in 1..=70 {
            for origin in [0, members / 2, members - 1] {
                for sequence in [1, 2] {
                    let far = distances(shape, members, origin as u16, sequence).into_iter().max();
                    assert!(far <= Some(usize::from(shape.hops(members))), "{shape:?}, {members}: {far:?}");
                }
            }
        }
    }
}

#[test]
fn no_member_has_children_in_both_trees() {
    for members in 2..=70 {
        for me in 1..members as u16 {
            let [first, second] = [1, 2].map(|way| Shape::DoubleTree.children(members, 0, me, way).len());
            assert!(first == 0 || second == 0, "{members} members, {me}");
            assert!(first + second <= 2);
        }
    }
}

#[test]
fn names_and_numbers_round_trip() {
    for shape in Shape::ALL {
        assert_eq!(Shape::from_name(shape.name()), Some(shape));
        assert_eq!(Shape::from_number(shape.number()), Some(shape));
    }
    assert_eq!((Shape::from_name("star"), Shape::from_number(9)), (None, None));
}

/// The first schedule of the post: A sends m1 and m2 to B, C and D.
#[test]
fn direct_rounds_match_the_post() {
    let played = rounds(Shape::Direct, 2, 4);
    let expected: Vec<Vec<Transfer>> = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
        .map(|(unit, to)| vec![Transfer { unit, from: 0, to }])
        .into();
    assert_eq!(played, expected);
}

/// The second schedule of the post: along the chain A, B, C, D.
#[test]
fn chain_rounds_match_the_post() {
    let at = |unit, from| Transfer { unit, from, to: from + 1 };
    let expected = vec![vec![at(1, 0)], vec![at(2, 0), at(1, 1)], vec![at(2, 1), at(1, 2)], vec![at(2, 2)]];
    assert_eq!(rounds(Shape::Ring, 2, 4), expected);
}

#[test]
fn ten_units_to_ten_members_take_90_rounds_directly_and_18_in_a_chain() {
    assert_eq!((formula::direct_rounds(10, 10), formula::chain_rounds(10, 10)), (90, 18));
    assert_eq!(rounds(Shape::Direct, 10, 10).len(), 90);
    assert_eq!(rounds(Shape::Ring, 10, 10).len(), 18);
}

#[test]
fn rounds_follow_the_closed_forms() {
    for members in 1..=33u16 {
        for units in [0, 1, 2, 7, 40] {
            let count = |shape| rounds(shape, units, members).len() as u64;
            let n = members.into();
            assert_eq!(count(Shape::Direct), formula::direct_rounds(units, n));
            assert_eq!(count(Shape::Ring), formula::chain_rounds(units, n));
            let tree = count(Shape::BinaryTree);
            // Each place with two children sends each unit twice. The last unit therefore leaves
            // the root in round 2X, and each level below adds at most two rounds.
            let most = match (units, n) {
                (0, _) | (_, 0 | 1) => 0,
                (_, 2) => units,
                _ => 2 * units + 2 * u64::from(n.ilog2() - 1),
            };
            assert!(tree <= most, "{members}, {units}: {tree}");
            // Two trees could finish with one round for each unit and some for each level. In order
            // of arrival, however, receivers delay each other for up to half of the time.
            let two_trees = count(Shape::DoubleTree);
            let bound = units + units / 2 + 4 * u64::from(Shape::DoubleTree.hops(members.into()));
            assert!(two_trees <= bound, "{members}, {units}: {two_trees}");
        }
    }
}

/// Returns the bytes/s that each of `senders` can broadcast over the ring: B/S, and B/(N-1) if all
/// send (no member gets its own messages back).
fn ring_rate(members: u64, senders: u64, bytes_per_s: f64) -> f64 {
    bytes_per_s / senders.min(members - 1).max(1) as f64
}

#[test]
fn estimates_match_the_closed_forms() {
    for members in 2..=40 {
        for senders in 1..=members {
            let workload = Workload {
                members,
                senders,
                message_bytes: 1_000_000,
                chunk_bytes: 10_000,
                link_bytes_per_s: 12_500_000.0,
                hop_s: 1e-4,
            };
            let (n, s, b) = (members as u64, senders as u64, workload.link_bytes_per_s);
            let near =
                |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} and {b}: {members}, {senders}");
            let direct = estimate(Shape::Direct, &workload);
            let ring = estimate(Shape::Ring, &workload);
            near(ring.rate, ring_rate(n, s, b));
            near(direct.rate, formula::direct_rate(n, b));
            // The ring reaches the bound for any number of senders; nothing exceeds it.
            near(ring.share(), 1.0);
            for shape in Shape::ALL {
                assert!(estimate(shape, &workload).share() < 1.0 + 1e-9, "{shape:?}");
            }
            if senders == 1 {
                let round = 1e-4 + 10_000.0 / b;
                near(direct.seconds, formula::direct_rounds(100, n) as f64 * round);
                near(ring.seconds, formula::chain_rounds(100, n) as f64 * round);
            }
        }
    }
}

#[test]
fn choice_depends_on_message_size_and_group_size() {
    let workload = |members, senders, message_bytes| Workload {
        members,
        senders,
        message_bytes,
        chunk_bytes: 65_536,
        link_bytes_per_s: 125e6,
        hop_s: 50e-6,
    };
    // Bulk of one sender: the chain; in a large group the two trees, which are less deep.
    assert_eq!(choose(&workload(4, 1, 1 << 30)).shape, Shape::Ring);
    assert_eq!(choose(&workload(1_000, 1, 1 << 22)).shape, Shape::DoubleTree);
    // Small messages of few members: directly, or by a tree; never around the ring.
    assert_eq!(choose(&workload(3, 1, 100)).shape, Shape::Direct.min(choose(&workload(3, 1, 100)).shape));
    assert_ne!(choose(&workload(64, 1, 100)).shape, Shape::Ring);
    // All send: the shapes that reach the bound differ only in their depth.
    let all = workload(8, 8, 1 << 24);
    assert_eq!(choose(&all).shape, Shape::Ring);
}

/// The ceilings for 8 KB messages at 100 Mbit/s: 95.6 % of the link is goodput.
#[test]
fn ceilings_of_a_shaped_link_match_the_figures() {
    let goodput = 12.5 * 1448.0 / 1514.0;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 0.05, "{a} and {b}");
    near(formula::delivered_rate(1, formula::direct_rate(4, goodput)), 3.98);
    near(formula::delivered_rate(1, ring_rate(4, 1, goodput)), 11.95);
    near(formula::delivered_rate(4, ring_rate(4, 4, goodput)), 15.9);
    near(formula::delivered_rate(4, formula::direct_rate(4, 125.0)), 166.67);
}
