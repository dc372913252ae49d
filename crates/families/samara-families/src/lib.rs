//! The families that come with Samara. A program registers them before it loads a scenario.

use samara_lab::family::{Family, set_base};

/// The families, in the order of the documentation.
pub static FAMILIES: &[&Family] = &[
    &samara_family_columns::FAMILY,
    &samara_family_messages::FAMILY,
    &samara_family_pool::FAMILY,
    &samara_family_group::FAMILY,
    &samara_family_mix::FAMILY,
];

/// Registers the families. Further calls have no effect.
pub fn register() {
    set_base(FAMILIES);
}
