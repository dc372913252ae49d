//! From a configuration to a running node, and to its end.

use std::io::{ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures::future::OptionFuture;
use libp2p::multiaddr::Protocol;
use samara_document::line_of;
use samara_net::mix::IdentityError;
use samara_trace::TraceWriter;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tracing_subscriber::EnvFilter;

use crate::config::{Checked, CheckedGroup, Log, LogFormat, NodeConfig, Server};
use crate::control::{self, Api, Token};
use crate::group::Group;
use crate::identity::{self, Key};
use crate::live::Live;
use crate::mix::{Met, Mix};
use crate::model::{Ready, Stopped};
use crate::node::{Node, Tracer};
use crate::part::{Stopping, requests};
use crate::pool::Pool;

/// A node that runs in its own task, with its servers. Dropping it stops the node without draining.
#[derive(Debug)]
pub struct Running {
    ready: Ready,
    stop: mpsc::Sender<()>,
    node: JoinHandle<Stopped>,
    /// Dropping the set aborts the servers.
    _servers: JoinSet<()>,
}

impl Running {
    /// Starts a node: opens its sockets and its trace, joins its topics and begins to dial.
    ///
    /// # Errors
    /// A text that names the key and the remedy.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with timers and sockets.
    pub async fn start(mut config: Checked) -> Result<Self, String> {
        // Check everything in the configuration before anything is written.
        let mix = config.mix.as_ref();
        let mix = mix.map(|mix| Ok::<_, String>((mix.written.clone(), mix.options()?))).transpose()?;
        let group = config.group.as_ref().map(CheckedGroup::options).transpose()?;
        let identity = config.written.identity.clone();
        let key = Key::of(&identity)?;
        let tokens = [token("control", &config.written.control)?, token("metrics", &config.written.metrics)?];
        let stopping = Stopping::default();
        config.engine.validator = Some(stopping.validator());
        let secret = config.pool.is_some().then(|| identity::secret(&key.pair)).transpose()?;
        let (requests, inbox) = requests();
        let mut node = Node::new(key.pair.clone(), config.clone(), inbox, stopping)?;
        // Sockets before the trace: a node that cannot start must not empty the trace of a running
        // one.
        let control = bind("control", &config.written.control).await?;
        let metrics = bind("metrics", &config.written.metrics).await?;
        let peer_id = node.peer_id();
        let listen = node.listen().await?;
        let pool = secret.zip(config.pool.clone()).map(|(secret, pool)| Pool::start(secret, pool));
        let pool = OptionFuture::from(pool).await.transpose()?;
        let group = OptionFuture::from(group.map(Group::start)).await.transpose()?;
        let mix = mix.as_ref().map(|(mix, options)| Mix::start(mix, options.clone()));
        let mix = OptionFuture::from(mix).await.transpose()?;
        node.join(tracer(&config, &peer_id)?);
        key.save()?;
        let listen = listen.into_iter().map(|address| match address.iter().last() {
            Some(Protocol::P2p(_)) => address.to_string(),
            _ => address.with(Protocol::P2p(peer_id)).to_string(),
        });
        let mut ready = Ready {
            ready: true,
            peer_id: peer_id.to_string(),
            listen: listen.collect(),
            control: None,
            metrics: None,
            pool: pool.as_ref().map(Pool::ready),
            group: group.as_ref().map(Group::ready),
            mix: mix.as_ref().map(Mix::ready),
        };
        let mut tasks = JoinSet::new();
        let api = Api {
            node: requests.clone(),
            pool: pool.clone(),
            group: group.clone(),
            mix: mix.clone(),
            live: mix.as_ref().map_or_else(|| Live::start(None, "node", Met::default()), Mix::live),
            topic_bytes: config.options.limits_with(&config.engine).topic_bytes,
            allow_remote: false,
            token: None,
            counts: Arc::default(),
            room: Arc::new(Semaphore::new(control::LONG_MAX)),
        };
        let [control_token, metrics_token] = tokens;
        if let Some((listener, address, allow_remote)) = control {
            ready.control = Some(address);
            let api = Api { allow_remote, token: control_token, ..api.clone() };
            tasks.spawn(control::serve_control(listener, api));
        }
        if let Some((listener, address, allow_remote)) = metrics {
            ready.metrics = Some(address);
            let api = Api { allow_remote, token: metrics_token, ..api.clone() };
            tasks.spawn(control::serve_metrics(listener, api));
        }
        let drain = config.written.stop.drain.duration();
        let (stop, mut stopped) = mpsc::channel(2);
        let node = tokio::spawn(async move {
            // Without a server, no other handle keeps the channel open.
            let _requests = requests;
            node.run(&mut stopped).await;
            end(node, (pool, group, mix), drain, stopped).await
        });
        Ok(Self { ready, stop, node, _servers: tasks })
    }

    /// Returns the content of the first line on standard output.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Lets owed copies leave, and stops the node.
    ///
    /// # Errors
    /// The node's task has panicked.
    pub async fn stop(self) -> Result<Stopped, String> {
        // Fails only if it has stopped already.
        let _ = self.stop.send(()).await;
        self.stopped().await
    }

    /// Waits until a request to its control API stops the node.
    ///
    /// # Errors
    /// The node's task has panicked.
    pub async fn stopped(mut self) -> Result<Stopped, String> {
        (&mut self.node).await.map_err(|error| format!("the node failed: {error}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.node.abort();
    }
}

/// Stops the node and its parts concurrently.
async fn end(
    mut node: Node,
    (pool, group, mix): (Option<Pool>, Option<Group>, Option<Mix>),
    drain: std::time::Duration,
    mut stop: mpsc::Receiver<()>,
) -> Stopped {
    let (hurry, mut hurried) = watch::channel(false);
    let in_hurry = || {
        let mut hurried = hurried.clone();
        // The sender exists until all have ended.
        async move { drop(hurried.wait_for(|is_hurried| *is_hurried).await) }
    };
    let pool = OptionFuture::from(pool.map(|pool| pool.stop(drain, in_hurry())));
    let group = OptionFuture::from(group.map(|group| group.stop(drain, in_hurry())));
    let mix = OptionFuture::from(mix.map(Mix::stop));
    let all = async { tokio::join!(node.drain(&mut hurried), pool, group, mix) };
    tokio::pin!(all);
    let (mut stopped, pool, group, mix) = loop {
        tokio::select! {
            ended = &mut all => break ended,
            Some(()) = stop.recv() => drop(hurry.send_replace(true)),
        }
    };
    stopped.drained &= pool.as_ref().is_none_or(|pool| pool.left_copies == 0);
    stopped.drained &= group.as_ref().is_none_or(|group| group.left);
    (stopped.pool, stopped.group, stopped.mix) = (pool, group, mix);
    stopped
}

/// Binds the socket of a server. Returns it with its address, and whether other machines may reach
/// it.
async fn bind(
    section: &str,
    server: &Option<Server>,
) -> Result<Option<(TcpListener, SocketAddr, bool)>, String> {
    let Some(Server { listen: address, allow_remote, .. }) = server else { return Ok(None) };
    let wrong = |error: std::io::Error| {
        format!(
            "{section}.listen: cannot listen on {address}: {error}; expected a free port at an address of this machine"
        )
    };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    Ok(Some((listener, address, *allow_remote)))
}

/// Reads the token of a server, if it has one.
fn token(section: &str, server: &Option<Server>) -> Result<Option<Token>, String> {
    let path = server.as_ref().and_then(|server| server.token_file.as_ref());
    let token = path.map(|path| Token::read(path)).transpose();
    token.map_err(|message| format!("{section}.token_file: {message}"))
}

fn tracer(config: &Checked, me: &libp2p::PeerId) -> Result<Option<Tracer>, String> {
    let Some(trace) = &config.written.trace else { return Ok(None) };
    keep_previous(&trace.file).map_err(|error| {
        let file = trace.file.display();
        format!("trace.file: {file}: cannot rename the trace of the previous start to {file}.1: {error}")
    })?;
    let writer = TraceWriter::create(&trace.file, trace.options())
        .map_err(|error| format!("trace.file: {}: cannot create the file: {error}", trace.file.display()))?;
    Ok(Some(Tracer::new(writer, me, config.engine.clone())))
}

/// Renames the trace of the previous start, in place of that of the start before: what an operator
/// looks for is what happened before a crash.
fn keep_previous(file: &Path) -> std::io::Result<()> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() && found.len() > 0 => {
            let mut previous = file.as_os_str().to_owned();
            previous.push(".1");
            std::fs::rename(file, previous)
        }
        _ => Ok(()),
    }
}

/// Writes a new certificate with its key to a file that only the owner can read, and returns its
/// fingerprint: the file for `mix.identity` of a node of a mix pool, or of its scheduler.
///
/// # Errors
/// A text that names the file, which exists already or cannot be written.
pub fn new_certificate(path: &Path) -> Result<String, String> {
    let identity = samara_net::mix::Identity::generate().map_err(|error| error.to_string())?;
    identity.save(path).map_err(|error| match error {
        IdentityError::Io(error) if error.kind() == ErrorKind::AlreadyExists => format!(
            "{}: the file exists, and is not replaced; expected a new name, or remove the file first if no node needs \
             its certificate any more",
            path.display()
        ),
        error => format!("{}: cannot create the file: {error}", path.display()),
    })?;
    Ok(identity.fingerprint().to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All owed copies have left.
    Drained,
    CopiesLeft,
}

/// Runs the node of a configuration file until a signal (SIGTERM, SIGINT) or its control API stops
/// it: the verb `samara node`. Prints one line of JSON on standard output when it is ready, and one
/// at its end.
///
/// # Errors
/// A text that names the file and the key, and the remedy.
pub fn run(path: &Path) -> Result<Outcome, String> {
    let config = NodeConfig::load(path).map_err(|error| error.to_string())?;
    let in_file = |message: String| in_file(path, &message);
    start_log(&config.written.log).map_err(in_file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(async {
        // A signal during the start ends the process at once: there is nothing to drain.
        let mut running = Running::start(config).await.map_err(in_file)?;
        let listen = |kind| signal(kind).map_err(|error| format!("cannot handle signals: {error}"));
        let (mut terminated, mut interrupted) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        print_line(running.ready())?;
        let stopped = loop {
            tokio::select! {
                // A second signal ends the draining. If the channel is full, there is no one to
                // receive more.
                _ = terminated.recv() => drop(running.stop.try_send(())),
                _ = interrupted.recv() => drop(running.stop.try_send(())),
                stopped = &mut running.node => {
                    break stopped.map_err(|error| format!("the node failed: {error}"))?;
                }
            }
        };
        print_line(&stopped)?;
        Ok(if stopped.drained { Outcome::Drained } else { Outcome::CopiesLeft })
    })
}

/// Adds the file to an error of the start, and the line of the key with which the error begins.
fn in_file(path: &Path, message: &str) -> String {
    // Only a start that failed needs the text again.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let key = message.split(": ").next().unwrap_or_default();
    let line = line_of(&text, key).map_or_else(String::new, |line| format!(":{line}"));
    format!("{}{line}: {message}", path.display())
}

/// Starts logging on standard error, once in a process: standard output is for lines that programs
/// read.
fn start_log(log: &Log) -> Result<(), String> {
    let filter =
        EnvFilter::try_new(&log.filter).map_err(|error| format!("log.filter: {:?}: {error}", log.filter))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| format!("cannot start logging: {error}"))
}

fn print_line(line: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(line).map_err(|error| error.to_string())? + "\n";
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has gone away is no reason to stop a node.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_start_have_the_line_of_their_key() {
        let path = std::env::temp_dir().join(format!("samara-lines-{}.toml", std::process::id()));
        let text = "[identity]\nkey_file = \"a.key\"\n[network]\nlisten = [\n  \"x\",\n  \"y\",\n]\n[group]\nmembers = [\n  \
                    { fingerprint = \"1\" },\n]\n";
        std::fs::write(&path, text).unwrap();
        for (message, line) in [
            ("identity.key_file: a.key: found no key", ":2"),
            ("network.listen.1: cannot listen on y: in use", ":6"),
            ("group.members.0.fingerprint: found \"1\"", ":10"),
            ("group.identity: found no file", ":8"),
            ("cannot start logging: twice", ""),
        ] {
            assert_eq!(in_file(&path, message), format!("{}{line}: {message}", path.display()));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_certificate_is_not_replaced() {
        let path = std::env::temp_dir().join(format!("samara-twice-{}.pem", std::process::id()));
        let _ = std::fs::remove_file(&path);
        new_certificate(&path).unwrap();
        let pem = std::fs::read(&path).unwrap();
        let error = new_certificate(&path).unwrap_err();
        assert!(error.contains("the file exists, and is not replaced; expected a new name"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), pem);
        std::fs::remove_file(&path).unwrap();
    }
}
