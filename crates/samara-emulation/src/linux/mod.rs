//! The part that needs Linux: device, routes, the relay's thread, namespaces.

mod namespace;
mod netlink;
mod priority;
mod relay;
mod tun;

pub use namespace::enter_private_network;
pub use relay::{Lateness, Relay, RelayConfig, RelayError, RelayReport, Unrouted};
pub use tun::availability;
