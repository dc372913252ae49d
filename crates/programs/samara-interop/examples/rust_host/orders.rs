//! Orders, and what they say about a host.

use std::net::SocketAddr;

use samara_engine::units::Span;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, channel};

use crate::contents::Family;

/// Orders that may wait for the host.
const ORDERS_MAX: usize = 1 << 12;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Order {
    Listen(Box<Listen>),
    Begin {
        at_unix_ns: u64,
    },
    /// The family knows its commands.
    Command {
        at_ns: u64,
        command: Value,
    },
    Sync(u64),
    Look,
    Reconnect {
        host: u32,
    },
    Stop,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listen {
    pub(crate) host: u32,
    pub(crate) address: SocketAddr,
    pub(crate) peers: Vec<SocketAddr>,
    pub(crate) token: String,
    /// A process that starts again does the same as the first: its briefing has the dials that are due.
    #[serde(rename = "restart")]
    _restart: bool,
    pub(crate) brief: Brief,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Brief {
    pub(crate) transport: Transport,
    pub(crate) dials: Vec<Dial>,
    pub(crate) application: Application,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    Tcp,
    Quic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dial {
    pub(crate) at_ns: u64,
    pub(crate) host: u32,
}

/// The brief of a family: a stream of messages is one slot, whose segments share a topic.
#[derive(Deserialize)]
#[serde(from = "Said")]
pub(crate) struct Application {
    pub(crate) family: Family,
    pub(crate) columns: Columns,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Messages(Messages),
    Columns(Columns),
}

impl From<Said> for Application {
    fn from(said: Said) -> Self {
        match said {
            Said::Columns(columns) => Self { family: Family::Columns, columns },
            Said::Messages(Messages { topic, bytes, protocol }) => {
                let topics = vec![topic; bytes.len()];
                let columns = Columns { topics, bytes, joins: vec![0], slots: 1, protocol, cells: None };
                Self { family: Family::Messages, columns }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages {
    topic: String,
    bytes: Vec<usize>,
    protocol: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Columns {
    pub(crate) topics: Vec<String>,
    pub(crate) bytes: Vec<usize>,
    pub(crate) joins: Vec<u32>,
    pub(crate) slots: u32,
    pub(crate) protocol: Map<String, Value>,
    pub(crate) cells: Option<CellsBrief>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellsBrief {
    pub(crate) blobs: u32,
    pub(crate) lookup_time: Span,
    pub(crate) cell_time: Span,
    /// The block of each slot.
    pub(crate) blocks: Vec<BlockBrief>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockBrief {
    pub(crate) group: String,
    pub(crate) mempool: Vec<u32>,
    pub(crate) push: Vec<u32>,
}

/// Reads orders, up to the first that is not valid. A thread of the runtime would keep the process from
/// ending.
pub(crate) fn read() -> Receiver<Result<Order, String>> {
    let (sender, receiver) = channel(ORDERS_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let order =
                line.map_err(|error| format!("standard input: {error}")).and_then(|line| parse(&line));
            let is_last = order.is_err();
            if sender.blocking_send(order).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

fn parse(line: &str) -> Result<Order, String> {
    let mut json = serde_json::Deserializer::from_str(line);
    let order = serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string());
    let whole = order.and_then(|order| json.end().map(|()| order).map_err(|error| error.to_string()));
    whole.map_err(|error| format!("an order: {error}"))
}
