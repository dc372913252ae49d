//! The Linux part: device, routes, the relay's thread, namespaces.

mod interface;
mod netlink;
mod relay;
mod system;

pub use relay::{CounterReader, Lateness, Relay, RelayConfig, RelayError, RelayReport, Unrouted};
pub use system::{availability, enter_private_network};
