//! Hosts of an experiment over gRPC.
//!
//! Their certificates follow from the secret of the run. So each host knows those of all others.

use samara_engine::{Driver, Engine};
use samara_mix::wire::Limits;
use samara_mix::{MixFrame, WithMix};
use tokio::net::{TcpListener, TcpStream};

use super::layer::{Contact, Grpc, MixEngine, Terms};
use super::node::Tally;
use super::options::{Sockets, Windows};
use crate::hosted::{self, Host, Hosting, Numbered, PENDING_SHARE, secret_of};
use crate::hub::{Attempted, Task};
use crate::identity::{Identity, IdentityError};
use crate::status::Closed;

/// KiB of frames of one link that may wait for the engine.
const WAITING_KIB: u32 = 1 << 10;

/// Begins to accept links over gRPC, with these windows of HTTP/2 for what the host receives. The
/// scheduler is the last host.
///
/// # Errors
/// A certificate cannot be made.
pub fn host<E: Engine<Frame = MixFrame> + WithMix + 'static>(
    options: &hosted::Options,
    windows: Windows,
    limits: Limits,
    listener: TcpListener,
    driver: Driver<E>,
) -> Result<impl Host<E> + use<E>, IdentityError> {
    let identity = |host| Identity::of_secret(secret_of(&options.token, host));
    let contact = |(host, address)| {
        let fingerprint = identity(host)?.fingerprint();
        Ok(Contact { fingerprint, identity: (options.names.identity)(host), address })
    };
    let peers = (0..).zip(options.peers.iter().copied());
    let contacts: Result<Vec<_>, IdentityError> = peers.map(contact).collect();
    let terms = Terms {
        sockets: Sockets { not_sent_bytes: options.not_sent_bytes, ..Sockets::default() },
        windows,
        timeout: options.dial_timeout,
        waiting_kib: WAITING_KIB,
        pending_max: PENDING_SHARE * options.peers.len() + PENDING_SHARE,
        in_flight_bytes: options.in_flight_bytes,
        limits,
    };
    let own = identity(options.own)?;
    let hub = Grpc::hub(driver, &own, contacts?, listener, &terms, Tally::default());
    let hub = hub.map_err(|error| IdentityError::Generate(error.to_string()))?;
    Ok(Hosting::around(hub))
}

impl<E: MixEngine> Numbered for Grpc<E> {
    /// Its own server accepts connections, so that the hub has no listener.
    fn greet(&self, _: TcpStream, from: std::net::SocketAddr) -> Task<Attempted<Self>> {
        let why = Closed::handshake(format!("{from} did not come to the server of gRPC"));
        Box::pin(std::future::ready(Err(why)))
    }
}
