//! Results: metrics, the machine-readable summary, and the tables of a results directory.

mod directory;
mod outcome;
mod saved;
mod summary;
pub(crate) mod tables;

pub use crate::columns::metrics::{ColumnMetrics, Slot, column_metrics};
pub use crate::columns::outcome::ColumnsData;
pub use crate::group::gateways::GatewayFigures;
pub use crate::group::metrics::{GroupBytes, GroupMetrics, group_metrics};
pub use crate::group::outcome::{GroupData, MemberRow};
pub use crate::messages::metrics::{MessageMetrics, message_metrics};
pub use crate::messages::outcome::MessagesData;
pub use crate::metric::{Better, better, is_first, rank};
pub use crate::mix::handover::metrics::{HandoverMetrics, HandoverParts, handover_metrics};
pub use crate::mix::handover::outcome::HandoverData;
pub use crate::mix::metrics::{MixMetrics, mix_metrics};
pub use crate::mix::outcome::MixData;
pub use crate::pool::metrics::{TransactionBytes, TransactionMetrics, transaction_metrics};
pub use crate::pool::outcome::PoolData;
pub(crate) use directory::flatten_toml;
pub use directory::{DirectoryError, ResultsDirectory, point_name};
pub use outcome::{Data, Measured, Outcome, PacketDrops, relate};
pub(crate) use outcome::{packet_drops, ratio, value};
pub use saved::{Curve, Saved, SavedRun};
pub use summary::{Findings, ProcessUse, RealRun, Run, Summary, Used, combined_digest};
pub(crate) use tables::write_table;
pub use tables::{Table, TableError, tables};
