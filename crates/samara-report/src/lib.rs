//! samara-report
