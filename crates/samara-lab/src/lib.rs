//! samara-lab
