//! The servers of a node.

use futures::stream::unfold;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::server::NamedService;

use crate::relay::method::Answer;
use crate::relay::server::Listening;

/// Servers; they end when this is dropped.
#[derive(Default)]
pub(in crate::relay) struct Served {
    tasks: JoinSet<()>,
    /// Dropped with this: connections are told to end.
    ends: Vec<watch::Sender<()>>,
}

/// Serves a service on a socket until `served` is dropped.
pub(in crate::relay) fn serve<S>(served: &mut Served, listener: TcpListener, listening: Listening, service: S)
where
    S: tower_service::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = std::convert::Infallible,
            Future = Answer,
        > + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
{
    let (secured, queue) = mpsc::channel(1);
    let (end, mut ended) = watch::channel(());
    let mut server = listening.server();
    served.tasks.spawn(listening.accept(listener, secured));
    let incoming = unfold(queue, |mut queue| async move { Some((queue.recv().await?, queue)) });
    // Not one of the tasks: it ends in an orderly way, once it is told to, and hangs up on everybody.
    tokio::spawn(async move {
        let end = async move {
            // Only ever ends by the other half being dropped.
            while ended.changed().await.is_ok() {}
        };
        if let Err(error) = server.add_service(service).serve_with_incoming_shutdown(incoming, end).await {
            tracing::error!(%error, "a server has failed");
        }
    });
    served.ends.push(end);
}
