//! The connection to one node, which is made again and again.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::{ClientOptions, Shared};
use crate::relay::gateway::{REGISTER, WATCH};
use crate::relay::proto::{OpenRounds, RegisterReply, RegisterRequest, WatchRequest};
use crate::relay::tls;
use crate::relay::wire::{Dial, Wire};

/// How to dial a node.
///
/// # Errors
/// The key is none that TLS can use.
pub(super) fn dial(options: &ClientOptions, node: u32) -> Result<Dial, tokio_rustls::rustls::Error> {
    let contact = options.nodes[node as usize];
    Ok(Dial {
        address: contact.address,
        tls: tls::client(&options.identity, contact.fingerprint)?,
        sockets: options.sockets,
        windows: options.windows,
        timeout: options.timeout,
    })
}

/// Stays connected, until it is aborted.
pub(super) async fn keep(shared: Arc<Shared>, node: u32, dial: Dial) {
    loop {
        match dial.connect().await {
            Err(why) => tracing::debug!(node, %why, "a node is not connected"),
            Ok((wire, mut driven)) => {
                tokio::select! {
                    Err(status) = stay(&shared, node, &wire) => tracing::debug!(node, %status, "a node refuses"),
                    why = driven.ended() => tracing::debug!(node, %why, "a connection has ended"),
                }
            }
        }
        // It may come back in another life, with another key.
        shared.registered.send_modify(|registered| {
            registered.remove(&node);
        });
        if let Some(known) = shared.wires.get(node as usize) {
            known.send_replace(None);
        }
        shared.open.send_modify(|open| open.replace(&shared.rules, node, Vec::new()));
        tokio::time::sleep(shared.options.retry).await;
    }
}

/// Registers, and listens which rounds take payloads.
async fn stay(shared: &Shared, node: u32, wire: &Wire) -> Result<Infallible, Status> {
    let unavailable = |error: hyper::Error| Status::unavailable(error.to_string());
    let mut grpc = wire.grpc();
    grpc.ready().await.map_err(unavailable)?;
    let public = Bytes::copy_from_slice(shared.keys.public());
    let codec = ProstCodec::<RegisterRequest, RegisterReply>::default();
    let call = Request::new(RegisterRequest { public });
    let reply = grpc.unary(call, PathAndQuery::from_static(REGISTER), codec).await?.into_inner();
    if reply.group != shared.options.group.name() || reply.node != node {
        return Err(Status::failed_precondition(format!("it is node {} with {}", reply.node, reply.group)));
    }
    // As long as the node lives this is the same secret, however often it is agreed upon.
    let secret = shared.keys.agree(&reply.public).map_err(|error| Status::internal(error.to_string()))?;
    shared.sender().register(node, secret);
    if let Some(known) = shared.wires.get(node as usize) {
        known.send_replace(Some(wire.clone()));
    }
    shared.registered.send_modify(|registered| {
        registered.insert(node);
    });
    grpc.ready().await.map_err(unavailable)?;
    watch(shared, node, grpc).await
}

/// Listens to the rounds that a node announces.
async fn watch(shared: &Shared, node: u32, grpc: Grpc<Wire>) -> Result<Infallible, Status> {
    let mut grpc = grpc.max_decoding_message_size(shared.rules.message_bytes_max());
    let codec = ProstCodec::<WatchRequest, OpenRounds>::default();
    let call = Request::new(WatchRequest {});
    let states = grpc.server_streaming(call, PathAndQuery::from_static(WATCH), codec).await?;
    let mut states = states.into_inner();
    loop {
        match states.message().await {
            Ok(Some(OpenRounds { rounds })) => {
                shared.open.send_modify(|open| open.replace(&shared.rules, node, rounds));
            }
            Ok(None) => return Err(Status::unavailable("it announces no more rounds")),
            Err(status) => {
                if status.code() == Code::OutOfRange {
                    shared.open.send_modify(|open| open.ignore(node, "message_too_long"));
                }
                return Err(status);
            }
        }
    }
}
