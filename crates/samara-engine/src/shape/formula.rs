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

/// Bytes/s that each of `senders` can broadcast directly, whoever else sends: B/(N-1).
pub fn direct_rate(members: u64, bytes_per_s: f64) -> f64 {
    bytes_per_s / members.saturating_sub(1).max(1) as f64
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
