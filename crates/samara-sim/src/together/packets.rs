//! Packets as bytes.

use smallvec::SmallVec;

use crate::packet::{Body, Heading, Packet, Sack};

/// How frames travel between processes.
pub trait FrameCodec<F> {
    /// Writes a frame.
    fn write(&self, frame: &F, out: &mut Vec<u8>);

    /// Reads what [`write`](Self::write) wrote; `None` if it is something else.
    fn read(&self, reader: &mut Reader<'_>) -> Option<F>;
}

/// Bytes that are read from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next so many bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next four bytes, little endian.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes, little endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Where a number of ranges would be.
const NO_SACK: u32 = u32::MAX;

/// Writes a packet of a link without layers of its own, as parts of networks have them.
pub(super) fn write_packet<F>(packet: &Packet<F>, codec: &dyn FrameCodec<F>, out: &mut Vec<u8>) {
    let Packet { arrive, src, heading, order, slot, epoch, len, ack, stamp, echo, window, sack, body } =
        packet;
    out.extend_from_slice(&arrive.to_le_bytes());
    let words = [*src, heading.host(), *order, *slot, *epoch, *len, *ack, *stamp, *echo, *window];
    words.into_iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.extend_from_slice(&sack.as_ref().map_or(NO_SACK, |sack| sack.ranges.len() as u32).to_le_bytes());
    for (from, to) in sack.iter().flat_map(|sack| sack.iter()) {
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&to.to_le_bytes());
    }
    let mut word = |kind: u8, words: &[u32]| {
        out.push(kind);
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    };
    match body {
        Body::Data { seq, frame: None } => word(0, &[*seq]),
        Body::Data { seq, frame: Some(frame) } => {
            word(1, &[*seq]);
            codec.write(frame, out);
        }
        Body::Ack => word(2, &[]),
        Body::Hello { step, slot } => word(3, &[*step, *slot]),
        Body::Close => word(4, &[]),
        Body::Refuse { epoch } => word(5, &[*epoch]),
        Body::Stream { .. } | Body::Http2 { .. } => {
            unreachable!("a part of a network has no connections with layers")
        }
    }
}

pub(super) fn read_packet<F>(reader: &mut Reader<'_>, codec: &dyn FrameCodec<F>) -> Option<Packet<F>> {
    let arrive = reader.u64()?;
    let mut words = [0; 10];
    for word in &mut words {
        *word = reader.u32()?;
    }
    let [src, host, order, slot, epoch, len, ack, stamp, echo, window] = words;
    let sack = match reader.u32()? {
        NO_SACK => None,
        count => {
            let mut ranges = SmallVec::new();
            for _ in 0..count {
                ranges.push((reader.u32()?, reader.u32()?));
            }
            Some(Box::new(Sack { ranges }))
        }
    };
    let body = match reader.u8()? {
        0 => Body::Data { seq: reader.u32()?, frame: None },
        1 => Body::Data { seq: reader.u32()?, frame: Some(codec.read(reader)?) },
        2 => Body::Ack,
        3 => Body::Hello { step: reader.u32()?, slot: reader.u32()? },
        4 => Body::Close,
        5 => Body::Refuse { epoch: reader.u32()? },
        _ => return None,
    };
    let heading = Heading::to(host);
    Some(Packet { arrive, src, heading, order, slot, epoch, len, ack, stamp, echo, window, sack, body })
}
