//! The library's knowledge of a column: the cells of this host, and those of each peer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use libp2p::PeerId;
use libp2p::gossipsub::partial_messages::{self, Partial, PartialAction, PartialError};
use samara_gossipsub::partial::ethereum::{PART_BYTES, PartialColumns};
use samara_gossipsub::partial::{Bits, Format, Metadata};

const FORMAT: PartialColumns = PartialColumns::FULU;
/// A cell with its proof. All parts of all cells are zero.
pub(crate) static CELL: [u8; PART_BYTES] = [0; PART_BYTES];

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

    /// The sender of cells knows that this host has them.
    fn update_from_data(&mut self, body: &[u8]) -> Result<(), PartialError> {
        let body = FORMAT.read_body(&[], &Bytes::copy_from_slice(body));
        let body = body.map_err(|_| PartialError::InvalidFormat)?;
        let requests = self.metadata.requests.clone();
        self.set(&body.parts.iter().map(|(part, _)| *part).collect(), &requests);
        Ok(())
    }
}

/// State that all columns of a block share with the objects of the library.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The peers that have the header, since they have said something about the block, or received it.
    holders: Mutex<HashSet<PeerId>>,
    /// Whether the host publishes the block at this moment.
    is_publishing: AtomicBool,
}

impl Shared {
    /// Notes that a peer has the header. Returns false if that was known.
    pub(crate) fn note(&self, peer: PeerId) -> bool {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).insert(peer)
    }

    pub(crate) fn is_holder(&self, peer: &PeerId) -> bool {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).contains(peer)
    }

    pub(crate) fn set_publishing(&self, is_publishing: bool) {
        self.is_publishing.store(is_publishing, Ordering::Relaxed);
    }
}

/// The known cells of a column, as the library keeps and sends them.
pub(crate) struct Snapshot {
    pub(crate) group: Bytes,
    /// The verified header, without which nothing is published.
    pub(crate) header: Bytes,
    /// Bits of all blobs of the block.
    pub(crate) available: Bits,
    /// The cells that this host requests.
    pub(crate) requests: Bits,
    /// The cells that leave unasked when the host publishes the block. Those who hear of the column later
    /// ask.
    pub(crate) push: Bits,
    pub(crate) shared: Arc<Shared>,
}

impl Partial for Snapshot {
    fn group_id(&self) -> Vec<u8> {
        self.group.to_vec()
    }

    fn metadata(&self) -> Box<dyn partial_messages::Metadata> {
        Box::new(Known::new(self.available.clone(), self.requests.clone()))
    }

    fn partial_action_from_metadata(
        &self,
        peer: PeerId,
        metadata: Option<&[u8]>,
    ) -> Result<PartialAction, PartialError> {
        let is_new = self.shared.note(peer);
        let blobs = self.available.len();
        let theirs = match metadata {
            Some(bytes) => Known::read(bytes, blobs)?,
            None => Metadata { available: Bits::new(blobs), requests: Bits::new(blobs) },
        };
        let mut wanted = theirs.requests.clone();
        if self.shared.is_publishing.load(Ordering::Relaxed) {
            wanted.add(&self.push);
        }
        let send = wanted.and(&self.available).without(&theirs.available);
        let header = Some(&self.header).filter(|_| is_new && metadata.is_none());
        // The library would drop bodies whose sender has announced no other cells: the event must come.
        let need = true;
        if send.is_empty() && header.is_none() {
            return Ok(PartialAction { need, send: None });
        }
        let cell = Bytes::from_static(&CELL);
        let parts: Vec<(u32, &Bytes)> = send.iter().map(|part| (part, &cell)).collect();
        let body = FORMAT.write_body(&self.group, blobs, header, &parts).to_vec();
        let mut then = Known::new(theirs.available, theirs.requests.clone());
        then.set(&send, &theirs.requests);
        Ok(PartialAction { need, send: Some((body, Box::new(then))) })
    }
}
