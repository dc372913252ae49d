//! Configurations, and whole nodes with sockets, driven through their control API.

mod api;
mod common;
mod config;
mod group;
mod live;
mod mix;
mod pool;
mod publishing;
mod stopping;
mod traces;
