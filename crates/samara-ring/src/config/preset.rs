//! Configurations with a name.

use std::time::Duration;

use super::{Config, Detection, Early, Membership, Order, ShapeChoice, Slow, Window};
use samara_engine::Shape;

const MIB: u64 = 1 << 20;

/// A configuration with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preset {
    /// The ring, FIFO for each sender: as fast as links are.
    Fifo,
    /// The ring in uniform total order.
    Total,
    /// FIFO, each message sent to everybody by its origin: what DAISYCHAIN replaces.
    Direct,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Total, Self::Direct];

    /// What options and reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "ring",
            Self::Total => "ring-total",
            Self::Direct => "direct",
        }
    }

    /// The preset with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its configuration.
    pub fn config(self) -> Config {
        let fifo = fifo();
        match self {
            Self::Fifo => fifo,
            // Nothing is delivered before it is acknowledged: acknowledgements wait for nothing.
            Self::Total => Config { order: Order::Total, ack_delay: Duration::ZERO, ..fifo },
            Self::Direct => Config { shape: ShapeChoice::Fixed(Shape::Direct), ..fifo },
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Preset::Fifo.config()
    }
}

fn fifo() -> Config {
    Config {
        group: 0,
        seeds: Vec::new(),
        order: Order::Fifo,
        shape: ShapeChoice::Fixed(Shape::Ring),
        early: Early::Hold,
        chunk_bytes: 64 << 10,
        batch_bytes: 64 << 10,
        message_bytes_max: 64 << 20,
        members_max: 256,
        // The bandwidth of 1 Gbit/s times 16 ms; more than a shaped link of 100 Mbit/s ever queues.
        hop_window_bytes: 2 * MIB,
        // At most twice what MFC of JGroups grants each sender (`max_credits` 2 MB in tcp.xml): a message is everywhere after one
        // lap, and known to be so after two.
        window: Window {
            min_bytes: 256 << 10,
            max_bytes: 4 * MIB,
            slack: Duration::from_millis(100),
            slack_per_member: Duration::from_millis(8),
        },
        memory_bytes: 128 * MIB,
        own_queue_bytes: 4 << 20,
        held_bytes: 4 * MIB,
        ack_delay: Duration::from_millis(1),
        slow: Slow::Wait,
        detection: Detection {
            heartbeat: Duration::from_millis(100),
            silent_beats: 3,
            timeout_min: Duration::from_millis(500),
            timeout_max: Duration::from_secs(4),
            link_grace: Duration::from_millis(200),
            verify: Duration::from_millis(300),
        },
        membership: Membership {
            form_after: Duration::from_millis(300),
            join_timeout: Duration::from_secs(1),
            merge_after: Duration::from_millis(200),
            flush_timeout: Duration::from_millis(600),
            repair_timeout: Duration::from_secs(5),
            redial: Duration::from_millis(500),
            forget_after: Duration::from_secs(600),
            ask_again_after: Duration::from_secs(1),
            unreachable_for: Duration::from_secs(3),
            ban: Duration::from_secs(30),
        },
    }
}
