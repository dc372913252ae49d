//! samara-sim
