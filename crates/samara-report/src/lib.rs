//! Turns results into one self-contained HTML file, SVG and PNG figures, and tables for terminals.
//!
//! A [`Report`](model::Report) says what is to be told: plain data, made by whoever knows what was measured. Everything else
//! here shows it.
//!
//! ```
//! use samara_report::model::{Cell, Column, Report, Row, Table};
//!
//! let table = Table {
//!     caption: "Time to custody".to_owned(),
//!     columns: vec![Column::text("run"), Column::number("mean", "ms", 0)],
//!     rows: vec![Row { cells: vec!["batch".into(), 2171.0.into()], ..Row::default() }],
//! };
//! println!("{}", samara_report::terminal::draw(&table, samara_report::terminal::Terminal::PLAIN));
//! let page = samara_report::html::page(&Report { title: "One run".to_owned(), ..Report::default() });
//! assert!(page.starts_with("<!doctype html>"));
//! ```
//!
//! | module | concern |
//! |---|---|
//! | [`model`], [`style`] | what a report says; how things are told apart |
//! | [`html`] | the page: tables, interactive figures, everything in one file |
//! | [`svg`], [`png`], [`export`] | figures as files |
//! | [`terminal`] | tables on the command line |
//! | [`encode`] | many curves in few characters |
//! | [`number`] | numbers for people |
//!
//! All outputs depend on the report alone: the same report gives the same bytes.

mod bundle;
pub mod encode;
mod escape;
pub mod export;
pub mod html;
pub mod model;
pub mod number;
pub mod png;
mod scale;
pub mod style;
pub mod svg;
pub mod terminal;
