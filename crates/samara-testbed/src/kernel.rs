//! The kernel's TCP as the simulator has it, as far as it can be had.

use std::fs;

use samara_lab::scenario::{TransportKind, TransportSpec};
use samara_sim::Congestion;

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// How many bytes may wait in a socket that have not been sent for the first time; beyond, it is not writable.
const NOTSENT_LOWAT: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";
/// Whether the congestion window shrinks while nothing is sent.
const IDLE_RESTART: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
/// One column of Ethereum, and the least send buffer of the simulator's TCP.
const NOTSENT_LOWAT_BYTES: &str = "16384";

/// The congestion control that the scenario has; some systems come with another one. And the order of copies is the outbox's only as far as
/// sockets do not take them ahead of time. In a network namespace of one's own both can be chosen without touching the machine's. Returns
/// what could not be had.
pub(crate) fn prepare(transport: &TransportSpec, private_network: bool) -> Vec<String> {
    if transport.kind == TransportKind::Quic {
        return Vec::new();
    }
    if private_network {
        // Where it cannot be written, what is found there is what counts.
        let _ = fs::write(NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES);
    }
    choose(CONGESTION_CONTROL, congestion(transport), private_network)
}

/// The same for gRPC, whose sockets have a bound of their own for what was not sent; idle restart is as the scenario has it.
pub(crate) fn prepare_grpc(transport: &TransportSpec, private_network: bool) -> Vec<String> {
    let idle_restart = if transport.idle_restart.unwrap_or(true) { "1" } else { "0" };
    let mut missing = choose(CONGESTION_CONTROL, congestion(transport), private_network);
    missing.extend(choose(IDLE_RESTART, idle_restart, private_network));
    missing
}

/// What the kernel calls it.
fn congestion(transport: &TransportSpec) -> &'static str {
    transport.congestion.unwrap_or(Congestion::Reno).name()
}

/// Sets a value where that touches nobody else. Says so if it is another one then.
fn choose(path: &str, wanted: &str, private_network: bool) -> Vec<String> {
    if private_network {
        // As above.
        let _ = fs::write(path, wanted);
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    if found.trim() == wanted {
        return Vec::new();
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    vec![format!("{name} is {:?}, the scenario has {wanted}", found.trim())]
}
