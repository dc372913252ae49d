//! `samara dashboard`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use samara_dashboard::{Dashboard, TOKEN_MIN, read_nodes};

use crate::args::{DashboardOptions, OpenBrowser};

/// Environment variable with the token, which lists of processes do not show.
const TOKEN_VARIABLE: &str = "SAMARA_DASHBOARD_TOKEN";

pub(crate) fn run(options: &DashboardOptions) -> Result<ExitCode, String> {
    let directory = match &options.directory {
        None => PathBuf::from("results"),
        Some(directory) => {
            // A misspelt name would otherwise show an empty page for ever.
            let found = std::fs::read_dir(directory).map(drop);
            found.map_err(|error| {
                format!(
                    "{}: {error}; expected a results directory of samara run, or a directory of several",
                    directory.display()
                )
            })?;
            directory.clone()
        }
    };
    let token = match (&options.token, std::env::var_os(TOKEN_VARIABLE)) {
        (Some(token), _) => Some(token.clone()),
        (None, None) => None,
        // Without it, the page would be open to everybody on this machine.
        (None, Some(token)) => Some(token.into_string().map_err(|_| {
            format!("{TOKEN_VARIABLE}: the value is not UTF-8; expected at least {TOKEN_MIN} characters")
        })?),
    };
    let mut nodes = options.nodes.clone();
    if let Some(list) = &options.node_list {
        nodes.extend(read_nodes(list)?);
    }
    let dashboard = Dashboard::start(&directory, &nodes, options.listen, token.as_deref());
    let dashboard = dashboard.map_err(|error| error.to_string())?;
    let url = format!("http://{}/", dashboard.address());
    let shown = match nodes.len() {
        0 => directory.display().to_string(),
        1 => format!("1 node, and of {},", directory.display()),
        count => format!("{count} nodes, and of {},", directory.display()),
    };
    crate::print(&format!("dashboard of {shown} at {url} (Ctrl-C ends it)\n"))?;
    if !dashboard.has_runs() {
        crate::print(&format!(
            "{shown} has no run with live files yet; start one, for example \
             samara run peerdas-small --out {shown}/first, and it appears on the page\n"
        ))?;
    }
    let is_wanted = match options.open {
        OpenBrowser::Yes => true,
        OpenBrowser::No => false,
        OpenBrowser::Auto => std::io::stdout().is_terminal(),
    };
    if is_wanted {
        open(&url);
    }
    dashboard.wait();
    Ok(ExitCode::SUCCESS)
}

/// Opens a browser if the system has one. Errors are ignored, since the address was printed.
fn open(url: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}
