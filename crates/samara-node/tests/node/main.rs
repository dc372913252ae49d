//! Whole nodes with sockets, driven through their control API.

mod api;
mod common;
mod publishing;
mod stopping;
mod traces;
