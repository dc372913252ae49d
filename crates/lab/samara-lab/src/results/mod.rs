//! Results: metrics, the machine-readable summary, and the tables of a results directory.

mod by_class;
pub mod columns;
pub mod deliveries;
mod directory;
mod opened;
mod origin;
mod outcome;
mod rivals;
mod saved;
mod summary;
pub mod tables;

pub use crate::files::{FileError, cannot_write, write_inside, write_named, write_named_by};
pub(crate) use by_class::scope;
pub use by_class::{BY_CLASS, ByClass, CLASS_NODES};
pub use columns::{Cell, Column, Rows, Stored, Values, column};
pub use deliveries::{DELIVERIES_MAX, Deliveries, DeliveryRow, NOBODY, Spread};
pub use directory::{DirectoryError, ResultsDirectory, point_name};
pub use opened::OpenedResult;
pub use origin::{Origin, machine, utc};
pub use outcome::{Data, Measured, Outcome, PacketDrops, packet_drops, ratio, relate};
pub use rivals::RivalFigures;
pub use saved::{Curve, Saved, SavedRun};
pub(crate) use saved::{read_json, run_directories, without_seed};
pub use summary::{
    Findings, Headline, ProcessUse, RealRun, Run, Summary, Used, combined_digest, counted, is_of_real,
};
pub use tables::{Table, tables};
