//! The results of a scenario: one JSON document, and a directory with everything that was measured.
//!
//! | file | concern |
//! |---|---|
//! | `document` | the machine-readable result |
//! | `directory` | the directory: written in parts, finished at once, never overwritten unasked |
//! | `tables` | Parquet tables of deliveries and traffic |

mod directory;
mod document;
mod tables;

pub use directory::{Directory, ResultsError, default_directory, read_summary};
pub use document::{Document, RunDocument, configuration, digest_of, to_toml};
pub use tables::{DeliveryRow, read_deliveries};
