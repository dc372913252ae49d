//! Closed forms: how long a broadcast takes, and how fast many can be.
//!
//! A *round* is the time that it takes to send one unit over one link ("Daisychaining in the clouds", 2010); a node sends
//! one unit and receives one unit in a round. With a link rate of `B` bytes/s, units of `u` bytes and an overhead of `a`
//! seconds for each unit and hop, a round takes `a + u/B`. `X` is the number of units, `N` of members, `S` of senders.

/// Rounds until everybody has all of `units` units of one origin that sends each to everybody: X(N-1).
pub fn direct_rounds(units: u64, members: u64) -> u64 {
    units * members.saturating_sub(1)
}

/// Rounds until everybody has all of `units` units of one origin that travel along a chain: X + N - 2.
pub fn chain_rounds(units: u64, members: u64) -> u64 {
    if units == 0 || members < 2 { 0 } else { units + members - 2 }
}

/// Most rounds until everybody has all of `units` units of one origin that travel along a binary tree: each place with two
/// children sends each unit twice, so that the last one leaves the root in round 2X, and each level below adds at most two.
pub fn binary_tree_rounds_max(units: u64, members: u64) -> u64 {
    match (units, members) {
        (0, _) | (_, 0 | 1) => 0,
        (_, 2) => units,
        _ => 2 * units + 2 * u64::from(members.ilog2() - 1),
    }
}

/// Seconds along a chain in `units` equal units: (X+N-2)(a + M/(XB)).
pub fn chain_s(bytes: f64, units: f64, members: f64, bytes_per_s: f64, hop_s: f64) -> f64 {
    (units + members - 2.0) * (hop_s + bytes / (units * bytes_per_s))
}

/// The best number of units along a chain: sqrt((N-2)M/(aB)), at least 1.
pub fn chain_best_units(bytes: f64, members: f64, bytes_per_s: f64, hop_s: f64) -> f64 {
    ((members - 2.0).max(0.0) * bytes / (hop_s * bytes_per_s)).sqrt().max(1.0)
}

/// Seconds along a chain with the best number of units, if that is more than 1: (sqrt(M/B) + sqrt((N-2)a))².
pub fn chain_best_s(bytes: f64, members: f64, bytes_per_s: f64, hop_s: f64) -> f64 {
    ((bytes / bytes_per_s).sqrt() + ((members - 2.0).max(0.0) * hop_s).sqrt()).powi(2)
}

/// Bytes/s that each of `senders` can broadcast directly, whoever else sends: B/(N-1).
pub fn direct_rate(members: u64, bytes_per_s: f64) -> f64 {
    bytes_per_s / members.saturating_sub(1).max(1) as f64
}

/// Bytes/s that each of `senders` can broadcast over the ring: B/S, and B/(N-1) if all send (nobody gets its own back).
pub fn ring_rate(members: u64, senders: u64, bytes_per_s: f64) -> f64 {
    bytes_per_s / senders.min(members.saturating_sub(1)).max(1) as f64
}

/// What the ring gains over direct sending: (N-1)/S for S < N, nothing if all send.
pub fn ring_gain(members: u64, senders: u64) -> f64 {
    ring_rate(members, senders, 1.0) / direct_rate(members, 1.0)
}

/// The most bytes/s that each of `senders` can broadcast in any shape: everybody receives at most B, and all receive together
/// at most what all send together.
pub fn rate_max(members: u64, senders: u64, bytes_per_s: f64) -> f64 {
    // A member that sends receives S-1 streams, one that does not receives S.
    let received = if senders < members { senders } else { senders.saturating_sub(1) };
    let sent = senders as f64 * members.saturating_sub(1) as f64 / members as f64;
    bytes_per_s / (received.max(1) as f64).max(sent)
}

/// Bytes/s that each member delivers, its own included, if each of `senders` broadcasts `rate` bytes/s: the measure of the
/// post. With all sending at the bound it is N/(N-1) B.
pub fn delivered_rate(senders: u64, rate: f64) -> f64 {
    senders as f64 * rate
}
