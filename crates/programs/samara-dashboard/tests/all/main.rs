//! Tests of the dashboard: the reducer of live files, the server, and the page in a browser.

mod browser;
mod common;
mod http;
mod nodes;
mod reducer;
mod remote;
