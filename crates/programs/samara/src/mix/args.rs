//! Arguments of `samara mix`.

use std::path::PathBuf;

use clap::Subcommand;
use samara_engine::units::Span;

/// Messages to a recipient through a mix.
#[derive(Debug, Subcommand)]
pub(crate) enum MixVerb {
    /// Write a new key of a recipient, unless the file has one, and print its address.
    Key {
        /// The file, which only its owner can read.
        file: PathBuf,
    },
    /// Send a message to a recipient, and wait until it has come out of the mix; Ctrl-C withdraws it.
    ///
    /// The message is split into payloads of one size, each encrypted for the recipient. Payloads of a
    /// round that fails go into another one. The exit status is 0 if all came out; 3 if some did not,
    /// and none of these can come any more; 4 if some did not, but may still come; 2 if the input is
    /// wrong. Send the same message again after 3 or 4: the recipient takes it once.
    Send(SendMessage),
    /// Receive the messages for a key.
    ///
    /// Fetches every finished batch, whole, and reads what is for the key. Ends when there is a message
    /// and none lacks a part. The exit status is 0 then; 3 if there is none, or something is missing; 2
    /// if the input is wrong.
    Receive(ReceiveMessages),
}

/// Options that senders and receivers share.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolOptions {
    /// The file with the nodes of the pool: `[mix]` with `nodes`, each with its `gateway`, and `group`.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool: PathBuf,
}

/// Options of `samara mix send`.
#[derive(Debug, clap::Args)]
pub(crate) struct SendMessage {
    /// The file with the message; - for standard input.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// The address of the recipient, as `samara mix key` prints it.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Least number of nodes in the team of a round: as many would have to collude to learn who sent
    /// what.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) team_min: u16,
    /// Send it as another message, even if the recipient has one with the same contents.
    #[arg(long)]
    pub(crate) another: bool,
    /// Time without any payload that comes out, after which the command withdraws the others and ends.
    #[arg(long, value_name = "TIME", default_value = "5 min", value_parser = Span::parse)]
    pub(crate) patience: Span,
}

/// Options of `samara mix receive`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReceiveMessages {
    /// The key of the recipient.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// A directory for the messages, each in a file with the name of the message. Default: messages
    /// are printed.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The first round to fetch. Default: the oldest that the nodes have.
    #[arg(long, value_name = "ROUND", default_value_t = 0)]
    pub(crate) from: u64,
    /// Go on after the first messages, until the command is interrupted.
    #[arg(long)]
    pub(crate) keep_on: bool,
    /// Time without news after which the command ends.
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = Span::parse)]
    pub(crate) patience: Span,
}
