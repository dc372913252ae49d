//! The origin of results: the command, the build, the time and the machine.

use std::path::Path;

use samara_lab::results::Origin;

use crate::args::quoted;

/// Returns the origin of the results of this process, which ends now.
pub(crate) fn origin() -> Origin {
    let mut words: Vec<String> = crate::words().collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(&*program).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(crate::program);
    }
    let command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    Origin::now(command, env!("SAMARA_COMMIT"))
}
