//! A receiver at one node: it lists the rounds whose results the node keeps, and fetches them whole. It
//! shares no secret with the node.

use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::client::{ClientError, ClientOptions, Partial, dial};
use super::gateway::{Ended, KEPT, RESULT};
use super::grpc::{Dial, Driven, Wire};
use super::proto::{KeptRequest, KeptRounds, ResultPart, ResultRequest};

/// Time for a part of a result: a node may limit the rate to an address.
const PART_TIMEOUT: Duration = Duration::from_secs(30);

/// Rounds whose results a node keeps: the next part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Rounds in the order of their ends, each with the number of its payloads. It is 0 if the round
    /// failed.
    pub rounds: Vec<(u64, u32)>,
    /// The highest round whose result the node had and has no more.
    pub gone: Option<u64>,
    /// The node has all results of this last time.
    pub reach: Duration,
}

/// A connection of a receiver to a node, which is made when it is needed.
#[derive(Debug)]
pub struct Reader {
    node: u32,
    dial: Dial,
    options: ClientOptions,
    wire: Option<(Wire, Driven)>,
    after: u64,
}

impl Reader {
    /// Creates a receiver at a node, which begins with the oldest round. Of the options, those of teams
    /// and announcements have no meaning.
    ///
    /// # Errors
    /// The certificate is invalid, or the pool has no such node.
    pub fn new(options: &ClientOptions, node: u32) -> Result<Self, ClientError> {
        if node as usize >= options.nodes.len() {
            return Err(ClientError::NotConnected { node });
        }
        Ok(Self { node, dial: dial(options, node)?, options: options.clone(), wire: None, after: 0 })
    }

    /// Lists the rounds from a number on that have ended since the last call. After the last one, the
    /// list is empty.
    ///
    /// # Errors
    /// The node cannot be reached, or refuses.
    pub async fn kept(&mut self, from: u64) -> Result<Kept, ClientError> {
        let listed = self.list(from).await;
        self.noted(listed).map(|KeptRounds { rounds, after, gone, reach_s }| {
            self.after = after;
            Kept {
                rounds: rounds.iter().map(|kept| (kept.round, kept.slots)).collect(),
                gone: gone.checked_sub(1),
                reach: Duration::from_secs(reach_s),
            }
        })
    }

    async fn list(&mut self, from: u64) -> Result<KeptRounds, ClientError> {
        let (node, limit) = (self.node, self.options.timeout);
        let wire = self.wire().await?;
        let call = async {
            let mut grpc = wire.ready().await?;
            let codec = ProstCodec::<KeptRequest, KeptRounds>::default();
            let call = Request::new(KeptRequest { from, after: self.after });
            grpc.unary(call, PathAndQuery::from_static(KEPT), codec).await
        };
        let answer = timeout(limit, call).await.unwrap_or_else(|_| Err(too_slow()));
        answer.map(tonic::Response::into_inner).map_err(|status| of_node(node, status))
    }

    /// Fetches the result of a listed round.
    ///
    /// # Errors
    /// The node cannot be reached, has the result no more, or sends another number of payloads than
    /// listed.
    pub async fn result(&mut self, round: u64, slots: u32) -> Result<Ended, ClientError> {
        let fetched = self.fetch(round, slots).await;
        self.noted(fetched)
    }

    async fn fetch(&mut self, round: u64, slots: u32) -> Result<Ended, ClientError> {
        let (node, group, max) = (self.node, self.options.group, self.options.batch_max);
        if slots > max {
            let status = format!("round {round} has {slots} payloads; expected at most {max}");
            return Err(of_node(node, Status::internal(status)));
        }
        let wire = self.wire().await?;
        let call = async {
            let mut grpc = wire.ready().await?;
            let codec = ProstCodec::<ResultRequest, ResultPart>::default();
            let call = Request::new(ResultRequest { round });
            let parts = grpc.server_streaming(call, PathAndQuery::from_static(RESULT), codec);
            let mut parts = timeout(PART_TIMEOUT, parts).await.map_err(|_| too_slow())??.into_inner();
            let mut result = Partial::new(group, slots);
            while let Some(part) = timeout(PART_TIMEOUT, parts.message()).await.map_err(|_| too_slow())?? {
                if let Some(failed) = result.add(part)? {
                    return Ok(failed);
                }
            }
            result.end()
        };
        call.await.map_err(|status| of_node(node, status))
    }

    async fn wire(&mut self) -> Result<Wire, ClientError> {
        if let Some((wire, _)) = &self.wire {
            return Ok(wire.clone());
        }
        let (node, address) = (self.node, self.dial.address);
        let connected = self.dial.connect().await;
        let (wire, driven) =
            connected.map_err(|why| ClientError::Unreachable { node, address, why: why.to_string() })?;
        Ok(self.wire.insert((wire, driven)).0.clone())
    }

    /// Gives the connection up after an error, so that the next call makes another one.
    fn noted<T>(&mut self, answer: Result<T, ClientError>) -> Result<T, ClientError> {
        if answer.is_err() {
            self.wire = None;
        }
        answer
    }
}

fn of_node(node: u32, status: Status) -> ClientError {
    ClientError::Node { node, status: Box::new(status) }
}

fn too_slow() -> Status {
    Status::deadline_exceeded("the node does not answer in time")
}
