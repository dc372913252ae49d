//! The origin of results: the command, the build, the time and the machine.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use samara_lab::results::{Origin, machine};

use crate::args::quoted;

/// Returns the origin of the results of this process, which ends now.
pub(crate) fn origin() -> Origin {
    let mut words: Vec<String> = crate::words().collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(&*program).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(crate::program);
    }
    Origin {
        command: words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        commit: env!("SAMARA_COMMIT").to_owned(),
        finished_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        machine: machine(),
    }
}
