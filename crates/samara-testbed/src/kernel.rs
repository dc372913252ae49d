//! The kernel's TCP as the simulator has it, as far as it can be had.

use std::fs;

use samara_lab::scenario::{TransportKind, TransportSpec};

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// How many bytes may wait in a socket that have not been sent for the first time; beyond, it is not writable.
const NOTSENT_LOWAT: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";
/// Whether the congestion window shrinks while nothing is sent.
const IDLE_RESTART: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
/// One column of Ethereum, and the least send buffer of the simulator's TCP.
const NOTSENT_LOWAT_BYTES: &str = "16384";

/// The simulator's TCP is NewReno (RFC 6582); some systems come with CUBIC or BBR. And the order of copies is the outbox's only
/// as far as sockets do not take them ahead of time. In a network namespace of one's own both can be chosen without touching
/// the machine's. Returns what could not be had.
pub(crate) fn prepare(transport: TransportKind, private_network: bool) -> Vec<String> {
    if transport == TransportKind::Quic {
        return Vec::new();
    }
    if private_network {
        // Where it cannot be written, what is found there is what counts.
        let _ = fs::write(CONGESTION_CONTROL, "reno");
        let _ = fs::write(NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES);
    }
    let found = fs::read_to_string(CONGESTION_CONTROL).unwrap_or_default();
    match found.trim() {
        "reno" => Vec::new(),
        "" => vec!["the congestion control of TCP is not known; the simulator's is NewReno".to_owned()],
        other => vec![format!("the congestion control of TCP is {other}; the simulator's is NewReno")],
    }
}

/// The same for gRPC, whose sockets have a bound of their own for what was not sent; idle restart is as the scenario has it.
pub(crate) fn prepare_grpc(transport: &TransportSpec, private_network: bool) -> Vec<String> {
    if private_network {
        // As above.
        let _ = fs::write(CONGESTION_CONTROL, "reno");
        let idle_restart = transport.idle_restart.unwrap_or(true);
        let _ = fs::write(IDLE_RESTART, if idle_restart { "1" } else { "0" });
    }
    let wanted = if transport.idle_restart.unwrap_or(true) { "1" } else { "0" };
    match fs::read_to_string(IDLE_RESTART).unwrap_or_default().trim() {
        found if found == wanted => Vec::new(),
        found => vec![format!("tcp_slow_start_after_idle is {found:?}, the scenario has {wanted}")],
    }
}
