//! Everything that commands print. Text of others reaches no terminal raw: a file could set titles,
//! hide lines or reorder text.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use samara_document::text::{bounded, printable};
use samara_report::terminal::{WIDTH, wrapped};
use serde::Serialize;

/// Least width that output is fitted into.
const WIDTH_MIN: usize = 40;

/// Returns the width of output: `COLUMNS` or, without it, the width of the window; 80 columns if
/// standard output is no terminal.
pub(crate) fn width() -> usize {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let window = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    set.filter(|columns| *columns > 0).or_else(window).unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// Fits lines into the window. The parts of a line that is too long start `hang` columns later.
pub(crate) fn fitted(text: &str, hang: usize) -> String {
    text.lines().map(|line| wrapped(line, width(), hang) + "\n").collect()
}

/// Fits lines into the window. The parts of a line start two columns right of the line's own start.
pub(crate) fn fitted_inside(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    text.lines().map(|line| wrapped(line, width(), indent(line) + 2) + "\n").collect()
}

/// Prints a help text. The second column of a list is indented as a whole.
pub(crate) fn print_help(help: &str) {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let hang = line[indent..].find("  ").map_or(indent, |at| {
            let rest = &line[indent + at..];
            let gap = rest.len() - rest.trim_start_matches(' ').len();
            console::measure_text_width(&line[..indent + at + gap])
        });
        wrapped(line, width(), hang) + "\n"
    };
    let _ = std::io::stdout().write_all(help.lines().map(line).collect::<String>().as_bytes());
}

/// Prints a text to standard output. A reader that has closed the pipe is no error.
pub(crate) fn print(text: &str) -> Result<ExitCode, String> {
    match std::io::stdout().write_all(printable(text).as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a message of somebody else: as it is into a file or a pipe, and without control characters on
/// a terminal.
#[cfg(feature = "net")]
pub(crate) fn print_raw(contents: &[u8]) -> Result<(), String> {
    if console::Term::stdout().is_term() {
        return print(&(String::from_utf8_lossy(contents) + "\n")).map(drop);
    }
    let mut output = std::io::stdout();
    match output.write_all(contents).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn print_json(document: &impl Serialize) -> Result<ExitCode, String> {
    print(&(serde_json::to_string(document).map_err(|error| error.to_string())? + "\n"))
}

/// Prints lines to standard error. Long quotes in them are cut.
pub(crate) fn complain(message: impl Display) {
    let message = bounded(&message.to_string());
    let _ = writeln!(std::io::stderr(), "{}", printable(&message));
}

/// Prints a message with the name of this program.
pub(crate) fn complain_as_program(message: impl Display) {
    complain(format_args!("{}: {message}", crate::program()));
}

#[cfg(test)]
mod tests {
    /// No other file of the crate prints.
    #[test]
    fn only_this_file_prints() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut directories = vec![directory];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else if !path.ends_with("terminal.rs") && path.extension().is_some_and(|end| end == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for call in ["println!", "print!", "stdout().write", "stderr().write", "stdout().lock"] {
                        let found = text.lines().find(|line| line.contains(call));
                        // A line of progress has a name and numbers.
                        let is_progress = path.ends_with("torture.rs") && call.ends_with("print!");
                        assert!(found.is_none() || is_progress, "{}: {found:?}", path.display());
                    }
                }
            }
        }
    }
}
