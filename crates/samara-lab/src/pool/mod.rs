//! Transaction pools: clients submit transactions, pools spread them, and blocks take them out.

pub mod app;
pub(crate) mod cat;
pub(crate) mod check;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;
