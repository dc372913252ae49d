//! `samara dashboard`.

use std::io::IsTerminal;
use std::process::{Command, ExitCode, Stdio};

use samara_dashboard::Dashboard;

use crate::args::{DashboardOptions, OpenBrowser};

/// Environment variable with the token, which lists of processes do not show.
const TOKEN_VARIABLE: &str = "SAMARA_DASHBOARD_TOKEN";

pub(crate) fn run(options: &DashboardOptions) -> Result<ExitCode, String> {
    let token = options.token.clone().or_else(|| std::env::var(TOKEN_VARIABLE).ok());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let failed = |error: samara_dashboard::ServeError| error.to_string();
        let bound = Dashboard::bind(&options.directory, options.listen, token.as_deref()).await;
        let dashboard = bound.map_err(failed)?;
        let url = format!("http://{}/", dashboard.address());
        crate::print(&format!("dashboard of {} at {url} (Ctrl-C ends it)\n", options.directory.display()))?;
        let is_wanted = match options.open {
            OpenBrowser::Yes => true,
            OpenBrowser::No => false,
            OpenBrowser::Auto => std::io::stdout().is_terminal(),
        };
        if is_wanted {
            open(&url);
        }
        dashboard.serve().await.map_err(failed)?;
        Ok(ExitCode::SUCCESS)
    })
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
