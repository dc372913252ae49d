//! The results of a scenario: one JSON document, and a directory with everything that was measured.
//!
//! | file | concern |
//! |---|---|
//! | `document` | the machine-readable result |
//! | `directory` | the directory: written in parts, finished at once, never overwritten unasked |
//! | `tables` | Parquet tables of deliveries and traffic |
//! | `reading` | all of it, read again |
//! | `reference` | figures of measured runs, to be shown beside |

mod directory;
mod document;
mod reading;
mod reference;
mod tables;

pub use directory::{Directory, ResultsError, default_directory};
pub use document::{Document, RunDocument, configuration, digest_of, to_toml};
pub use reading::{Results, read, read_summary};
pub use reference::{ReferenceFigures, reference_figures};
pub use tables::{RunDeliveries, read_deliveries};
