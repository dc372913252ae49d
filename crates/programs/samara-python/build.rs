//! Passes the commit of the sources to the module, for the origin of results. Sources outside of their
//! Git repository have no commit.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    // The log of HEAD changes with each commit and each change of the branch.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
    // Unpacked sources can lie within a repository of something else.
    let own = git(&["ls-files", "--error-unmatch", "build.rs"]);
    let commit = own.and_then(|_| git(&["rev-parse", "--short=10", "HEAD"])).unwrap_or_default();
    println!("cargo:rustc-env=SAMARA_COMMIT={commit}");
}
