//! What the library knows about a column: the cells of this node, and those of each peer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use libp2p::PeerId;
use libp2p::gossipsub::partial_messages::{self, Partial, PartialAction, PartialError};
use samara_gossipsub::partial::ethereum::PartialColumns;
use samara_gossipsub::partial::{Bits, Format, Metadata};

const FORMAT: PartialColumns = PartialColumns::FULU;

/// Available and requested cells of one side of a link, as the other side knows them.
#[derive(Debug)]
pub(crate) struct Known {
    metadata: Metadata,
    written: Bytes,
}

impl Known {
    pub(crate) fn new(available: Bits, requests: Bits) -> Self {
        let metadata = Metadata { available, requests };
        Self { written: FORMAT.write_metadata(&metadata), metadata }
    }

    fn read(bytes: &[u8], blobs: u32) -> Result<Metadata, PartialError> {
        let metadata = FORMAT.read_metadata(bytes).map_err(|_| PartialError::InvalidFormat)?;
        if metadata.available.len() == blobs { Ok(metadata) } else { Err(PartialError::OutOfRange) }
    }

    /// Adds available cells, and replaces the requests. Cells that were sent meanwhile count as available,
    /// so they are not requested any more.
    fn set(&mut self, available: &Bits, requests: &Bits) -> bool {
        let before = self.metadata.clone();
        self.metadata.available.add(available);
        self.metadata.requests = requests.without(&self.metadata.available);
        self.written = FORMAT.write_metadata(&self.metadata);
        self.metadata != before
    }
}

impl partial_messages::Metadata for Known {
    fn as_slice(&self) -> &[u8] {
        &self.written
    }

    fn update(&mut self, data: &[u8]) -> Result<bool, PartialError> {
        let new = Self::read(data, self.metadata.available.len())?;
        Ok(self.set(&new.available, &new.requests))
    }

    /// The sender of cells knows that this node has them.
    fn update_from_data(&mut self, body: &[u8]) -> Result<(), PartialError> {
        let body = FORMAT.read_body(&[], &Bytes::copy_from_slice(body));
        let body = body.map_err(|_| PartialError::InvalidFormat)?;
        let requests = self.metadata.requests.clone();
        self.set(&body.parts.iter().map(|(part, _)| *part).collect(), &requests);
        Ok(())
    }
}

/// What all columns of a block share with the objects that the library keeps.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The peers that have the header, since they have said something about the block, or received it.
    holders: Mutex<HashSet<PeerId>>,
    /// Bytes of all bodies that were sent.
    pub(crate) sent_bytes: AtomicU64,
}

impl Shared {
    /// Notes that a peer has the header. Returns false if that was known.
    pub(crate) fn note(&self, peer: PeerId) -> bool {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).insert(peer)
    }

    pub(crate) fn is_holder(&self, peer: &PeerId) -> bool {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).contains(peer)
    }
}

/// The known cells of a column, as the library keeps and sends them.
pub(crate) struct Snapshot {
    pub(crate) group: Bytes,
    pub(crate) blobs: u32,
    /// The verified header, without which nothing is published.
    pub(crate) header: Bytes,
    pub(crate) parts: Vec<(u32, Bytes)>,
    /// The cells that this node requests.
    pub(crate) requests: Bits,
    pub(crate) shared: Arc<Shared>,
}

impl Snapshot {
    fn available(&self) -> Bits {
        let mut available = Bits::new(self.blobs);
        self.parts.iter().for_each(|(part, _)| available.insert(*part));
        available
    }
}

impl Partial for Snapshot {
    fn group_id(&self) -> Vec<u8> {
        self.group.to_vec()
    }

    fn metadata(&self) -> Box<dyn partial_messages::Metadata> {
        Box::new(Known::new(self.available(), self.requests.clone()))
    }

    fn partial_action_from_metadata(
        &self,
        peer: PeerId,
        metadata: Option<&[u8]>,
    ) -> Result<PartialAction, PartialError> {
        let is_new = self.shared.note(peer);
        let theirs = match metadata {
            Some(bytes) => Known::read(bytes, self.blobs)?,
            None => Metadata { available: Bits::new(self.blobs), requests: Bits::new(self.blobs) },
        };
        let send = theirs.requests.and(&self.available()).without(&theirs.available);
        let header = Some(&self.header).filter(|_| is_new && metadata.is_none());
        // The library would drop bodies whose sender has announced no other cells: the event must come.
        let need = true;
        if send.is_empty() && header.is_none() {
            return Ok(PartialAction { need, send: None });
        }
        let parts: Vec<(u32, &Bytes)> = self
            .parts
            .iter()
            .filter(|(part, _)| send.contains(*part))
            .map(|(part, data)| (*part, data))
            .collect();
        let body = FORMAT.write_body(&self.group, self.blobs, header, &parts).to_vec();
        self.shared.sent_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        let mut then = Known::new(theirs.available, theirs.requests.clone());
        then.set(&send, &theirs.requests);
        Ok(PartialAction { need, send: Some((body, Box::new(then))) })
    }
}
