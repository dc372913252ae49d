//! Hosts on TCP connections that carry frames behind their lengths, and what they have in common with
//! all hosts on links of `samara-net`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::FrameCodec;
use samara_net::hosted::{self, Host, Names, Options};
use samara_sim::{App, Work, host_of, identity_of};
use tokio::net::TcpListener;

use super::Looked;
use super::serve::{Begin, Links, Place, Waiting};

/// Bytes of a link between the outbox and the socket.
const IN_FLIGHT_BYTES: usize = 64 << 10;
/// Time until a link is up: six attempts of TCP (`tcp_syn_retries`) take longer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn open<A: App>(
    place: Place,
    codec: Arc<dyn FrameCodec<A::Frame>>,
) -> Waiting<'static, Result<Begin<A>, String>> {
    Box::pin(async move {
        let (options, listener) = listen(place).await?;
        let begin: Begin<A> = Box::new(move |driver| {
            let links: Box<dyn Links<A>> =
                Box::new(Linked(hosted::framed(&options, listener, codec, driver)));
            Ok(links)
        });
        Ok(begin)
    })
}

/// Listens at the address of a host.
pub(crate) async fn listen(place: Place) -> Result<(Options, TcpListener), String> {
    let Place { own, token, listen, peers, protocol, unsent_bytes, .. } = place;
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    let protocol = move |dialler, listener| {
        protocol.as_ref().map_or_else(Arc::default, |protocol| protocol(dialler, listener))
    };
    let options = Options {
        own,
        token,
        listen,
        peers,
        names: Names { identity: identity_of, host: host_of, protocol: Arc::new(protocol) },
        in_flight_bytes: IN_FLIGHT_BYTES,
        not_sent_bytes: unsent_bytes,
        dial_timeout: DIAL_TIMEOUT,
    };
    Ok((options, listener))
}

/// A host on links of `samara-net`.
pub(crate) struct Linked<H>(pub(crate) H);

impl<A: App, H: Host<A> + 'static> Links<A> for Linked<H> {
    fn dial(&mut self, host: u32) {
        self.0.dial(host);
    }

    fn reconnect(&mut self, host: u32) {
        self.0.disconnect(host, true);
    }

    fn command(&mut self, command: A::Command) {
        self.0.command(command);
    }

    fn settle(&mut self) -> Vec<(Instant, A::Event)> {
        let now = Instant::now();
        self.0.settle().into_iter().map(|event| (now, event)).collect()
    }

    fn take_work(&mut self) -> Vec<Work<A::Command>> {
        self.0.with(App::take_work)
    }

    fn next(&mut self, until: Option<Instant>) -> Waiting<'_, ()> {
        Box::pin(self.0.next(until))
    }

    fn look(&mut self) -> Looked<A::Counters> {
        let links = self.0.counters();
        Looked {
            counters: self.0.engine().counters(),
            frames_sent: links.frames_up,
            payload_bytes_sent: links.payload_bytes_up,
            control_bytes_sent: links.control_bytes_up,
            frames_received: links.frames_down,
            payload_bytes_received: links.payload_bytes_down,
            control_bytes_received: links.control_bytes_down,
            bytes_sent: links.bytes_up,
            bytes_received: links.bytes_down,
            withdrawn: self.0.lanes().total().withdrawn.copies,
            owed: self.0.owed() as u64,
            late_ns: Vec::new(),
        }
    }

    fn finish(self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(self.0.finish())
    }
}
