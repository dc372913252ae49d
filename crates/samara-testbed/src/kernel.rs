//! The kernel's TCP as the simulator has it, as far as it can be had.

use std::fs;

use samara_lab::scenario::TransportKind;

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The simulator's TCP is NewReno (RFC 6582); some systems come with CUBIC or BBR. In a network namespace of one's own that
/// can be chosen without touching the machine's. Returns what could not be had.
pub(crate) fn prepare(transport: TransportKind, private_network: bool) -> Vec<String> {
    if transport == TransportKind::Quic {
        return Vec::new();
    }
    if private_network {
        // Where it cannot be written, what is found there is what counts.
        let _ = fs::write(CONGESTION_CONTROL, "reno");
    }
    let found = fs::read_to_string(CONGESTION_CONTROL).unwrap_or_default();
    match found.trim() {
        "reno" => Vec::new(),
        "" => vec!["the congestion control of TCP is not known; the simulator's is NewReno".to_owned()],
        other => vec![format!("the congestion control of TCP is {other}; the simulator's is NewReno")],
    }
}
