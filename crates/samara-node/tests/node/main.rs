//! Whole nodes with sockets, driven through their control API.

mod api;
mod common;
mod group;
mod mix;
mod pool;
mod publishing;
mod stopping;
mod traces;
