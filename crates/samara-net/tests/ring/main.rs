//! Members of groups on loopback.
