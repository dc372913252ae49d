//! Arguments of `samara group`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Subcommand;
use samara_engine::units::{Rate, Span};

/// Files to all members of a group.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// Send a file to all members of a group, and wait until they have it.
    ///
    /// The sender founds the group unless --seed names a member of one. It waits for --members
    /// receivers, without a limit, and gives those that come later what they have missed. A receiver
    /// that does not take the file counts as there, and holds up nobody; another sender counts for
    /// nothing. The same command resumes an interrupted transfer: receivers that have the file by then
    /// count, as the hidden file .NAME.receipts beside the file says.
    ///
    /// The exit status is 0 if as many receivers have the file, verified; 2 if the input is wrong; 3 if
    /// some receivers do not have it; 4 if no member of the group answers or admits this one, or the
    /// port is taken; 130 if the command was interrupted.
    Send(SendFile),
    /// Receive a file of a group into a directory.
    ///
    /// The receiver takes the file of the first sender, and refuses those of others. What has come
    /// stays in the directory under a hidden name until the whole file is verified. The same command
    /// resumes an interrupted transfer.
    ///
    /// The exit status is 0 if the file is there; 2 if the input is wrong; 3 if the file is not there;
    /// 4 if no member of the group answers or admits this one, or the port is taken; 130 if the command
    /// was interrupted.
    Receive(ReceiveFile),
}

/// A member of a group.
#[derive(Debug, clap::Args)]
pub(crate) struct MemberOptions {
    /// The address to listen on, for example 192.0.2.1:7800.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// The address at which others dial this member, if it is another one.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) advertise: Option<SocketAddr>,
    /// A file with at least 16 random bytes that all members have, for example of
    /// `openssl rand -hex 32`. Members prove that they have it, and encrypt what they send. Only
    /// groups on loopback do without.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret: Option<PathBuf>,
    /// The name of the group, which all members share.
    #[arg(long, value_name = "NAME", default_value = "files")]
    pub(crate) name: String,
    /// Time without any progress after which the command ends. A sender waits for the first --members
    /// receivers without a limit.
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = Span::parse)]
    pub(crate) patience: Span,
}

/// Options of `samara group send`.
#[derive(Debug, clap::Args)]
pub(crate) struct SendFile {
    /// The file.
    pub(crate) file: PathBuf,
    /// Number of receivers to wait for.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) members: u16,
    /// Maximum rate of the file, for example "200 Mbit/s". The wire carries 5 to 10 % more: headers,
    /// encryption and acknowledgements. Default: as fast as the group takes it.
    #[arg(long, value_parser = Rate::parse)]
    pub(crate) rate: Option<Rate>,
    /// Stay for later receivers until the command is interrupted. Receivers end once they have the
    /// file. The exit status is then 0 if at least --members have it, and 3 otherwise.
    #[arg(long)]
    pub(crate) keep_on: bool,
    /// The address of a member of the group, or its host name and port; can be repeated.
    #[arg(long = "seed", value_name = "ADDRESS")]
    pub(crate) seeds: Vec<String>,
    #[command(flatten)]
    pub(crate) member: MemberOptions,
}

/// Options of `samara group receive`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiveFile {
    /// The directory for the file. It is created, but none above it.
    pub(crate) directory: PathBuf,
    /// Replace another file of the same name.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Go on after the first file, and take those of all senders, until the command is interrupted. The
    /// exit status is then 0 if all files are there, and 3 otherwise.
    #[arg(long)]
    pub(crate) keep_on: bool,
    /// The address of the sender or of another member, for example 192.0.2.1:7800, or its host name and
    /// port; can be repeated.
    #[arg(long = "seed", value_name = "ADDRESS", required = true)]
    pub(crate) seeds: Vec<String>,
    #[command(flatten)]
    pub(crate) member: MemberOptions,
}

/// Reads an address of this machine.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, for example 192.0.2.1:7800".to_owned())
}
