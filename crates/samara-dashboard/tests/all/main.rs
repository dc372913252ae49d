//! From live files to a page: the reducer, the server, and what a browser makes of both.

mod browser;
mod common;
mod http;
mod reducer;
