//! Closed forms for the duration of a broadcast and the rate of many.
//!
//! A *round* is the time to send one unit over one link ("Daisychaining in the clouds", 2010). In a
//! round, a node sends one unit and receives one unit. With a link rate of `B` bytes/s, units of
//! `u` bytes and an overhead of `a` seconds for each unit and hop, a round takes `a + u/B`. `X` is
//! the number of units, `N` of members, `S` of senders.

/// Returns the rounds until everybody has all `units` units of one origin that sends each to
/// everybody: X(N-1).
pub fn direct_rounds(units: u64, members: u64) -> u64 {
    units * members.saturating_sub(1)
}

/// Returns the rounds until everybody has all `units` units of one origin that travel along a
/// chain: X + N - 2.
pub fn chain_rounds(units: u64, members: u64) -> u64 {
    if units == 0 || members < 2 { 0 } else { units + members - 2 }
}

/// Returns the bytes/s that each of `senders` can broadcast directly, however many send: B/(N-1).
pub fn direct_rate(members: u64, bytes_per_s: f64) -> f64 {
    bytes_per_s / members.saturating_sub(1).max(1) as f64
}

/// Returns the maximum bytes/s that each of `senders` can broadcast in any shape, with the bytes/s
/// of a member's uplink and downlink: a sender sends at most as its uplink does, all together send
/// at most what all uplinks do, and nobody receives more than its downlink does.
pub fn rate_max(members: u64, senders: u64, uplink: f64, downlink: f64) -> f64 {
    // A sender receives S-1 streams; a member that does not send receives S.
    let received = if senders < members { senders } else { senders.saturating_sub(1) };
    let sent = senders as f64 * members.saturating_sub(1) as f64 / members as f64;
    (uplink / sent.max(1.0)).min(downlink / received.max(1) as f64)
}

/// Returns the bytes/s that each member delivers, including its own, if each of `senders`
/// broadcasts `rate` bytes/s. This is the measure of the post. If all send at the bound, it is
/// N/(N-1) B.
pub fn delivered_rate(senders: u64, rate: f64) -> f64 {
    senders as f64 * rate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate of members behind faster downlinks is that of their uplinks.
    #[test]
    fn faster_downlinks_leave_the_uplinks_as_the_bound() {
        for (members, senders) in [(3, 2), (3, 3), (8, 1), (8, 8), (2, 1)] {
            let equal = rate_max(members, senders, 5.0, 5.0);
            assert_eq!(rate_max(members, senders, 20.0, 5.0), equal, "{members} {senders}");
        }
        assert_eq!(rate_max(3, 3, 6.0, 6.0), 3.0, "each receives two streams");
        // Two of three send: each copy of 2 S T leaves one of three uplinks.
        assert_eq!(rate_max(3, 2, 5.0, 20.0), 5.0 * 3.0 / 4.0);
        assert_eq!(rate_max(3, 2, 5.0, 6.0), 3.0, "the downlink of the member that does not send");
        assert_eq!(rate_max(8, 1, 5.0, 20.0), 5.0, "the uplink of the sender");
    }
}
