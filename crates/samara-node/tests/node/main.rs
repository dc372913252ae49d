//! Whole nodes with sockets, driven through their control API.

mod api;
mod common;
mod group;
mod pool;
mod publishing;
mod relay;
mod stopping;
mod traces;
