//! Writing frames, and knowing how long they are without writing them: one walk over the fields does both.

use bytes::Bytes;
use samara_engine::PeerIdentity;

use super::frame::{Ack, Cut, Data, Heartbeat, Hello, Prepare, Resume, RingFrame, State, Unit};
use super::{VERSION, flag, kind};
use crate::{Member, ViewId};

/// Appends a frame.
pub fn encode(frame: &RingFrame, into: &mut Vec<u8>) {
    write(frame, into);
}

/// Writes a frame piece by piece, so that contents need not be copied.
pub fn encode_to(frame: &RingFrame, sink: &mut impl Sink) {
    write(frame, sink);
}

pub(super) fn encoded_len(frame: &RingFrame) -> usize {
    let mut count = Count(0);
    write(frame, &mut count);
    count.0
}

/// Bytes of a frame of data.
pub(super) fn data_len(data: &Data) -> usize {
    let mut count = Count(0);
    count.byte(VERSION);
    write_data(data, &mut count);
    count.0
}

/// Where fields go. All that an implementation has to know is [`slice`](Self::slice).
pub trait Sink {
    /// Appends bytes.
    fn slice(&mut self, bytes: &[u8]);

    /// Appends the content of a message, which can be kept instead of copied.
    fn content(&mut self, bytes: &Bytes) {
        self.slice(bytes);
    }

    /// Appends one byte.
    fn byte(&mut self, byte: u8) {
        self.slice(&[byte]);
    }

    /// Appends 8 bytes, little endian.
    fn fixed(&mut self, value: u64) {
        self.slice(&value.to_le_bytes());
    }

    /// Appends a varint (LEB128).
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Appends bytes with their length in front.
    fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.slice(bytes);
    }

    /// Appends the epoch of a view.
    fn view(&mut self, id: ViewId) {
        self.varint(id.counter);
        self.fixed(id.proposer);
    }

    /// Appends one that may not be there.
    fn optional(&mut self, id: Option<ViewId>) {
        self.byte(u8::from(id.is_some()));
        if let Some(id) = id {
            self.view(id);
        }
    }

    /// Appends a list of numbers.
    fn numbers(&mut self, numbers: &[u64]) {
        self.varint(numbers.len() as u64);
        numbers.iter().for_each(|number| self.varint(*number));
    }
}

impl Sink for Vec<u8> {
    fn slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Count(usize);

impl Sink for Count {
    fn slice(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn varint(&mut self, value: u64) {
        self.0 += (64 - (value | 1).leading_zeros() as usize).div_ceil(7);
    }
}

fn write<S: Sink>(frame: &RingFrame, sink: &mut S) {
    sink.byte(VERSION);
    match frame {
        RingFrame::Heartbeat(heartbeat) => write_heartbeat(heartbeat, sink),
        RingFrame::Data(data) => write_data(data, sink),
        RingFrame::Credit { view, bytes } => {
            sink.byte(kind::CREDIT);
            sink.view(*view);
            sink.varint(*bytes);
        }
        RingFrame::Prepare(prepare) => write_prepare(prepare, sink),
        RingFrame::State(state) => write_state(state, sink),
        RingFrame::Nack { proposal, promised } => {
            sink.byte(kind::NACK);
            sink.view(*proposal);
            sink.view(*promised);
        }
        RingFrame::Resume(resume) => write_resume(resume, sink),
        RingFrame::Cut(cut) => write_cut(cut, sink),
        RingFrame::Ready { proposal } => {
            sink.byte(kind::READY);
            sink.view(*proposal);
        }
        RingFrame::Install { proposal } => {
            sink.byte(kind::INSTALL);
            sink.view(*proposal);
        }
        RingFrame::Early(bytes) => {
            sink.byte(kind::EARLY);
            sink.varint(bytes.len() as u64);
            sink.content(bytes);
        }
        RingFrame::Hello(hello) => write_hello(hello, sink),
        RingFrame::Bridge(inner) => {
            sink.byte(kind::BRIDGE);
            write(inner, sink);
        }
    }
}

fn write_hello<S: Sink>(hello: &Hello, sink: &mut S) {
    sink.byte(kind::HELLO);
    sink.fixed(hello.group);
    sink.varint(hello.site.into());
    sink.byte(u8::from(hello.leads));
    sink.byte(u8::from(hello.leader.is_some()));
    if let Some(leader) = &hello.leader {
        sink.bytes(leader.as_bytes());
    }
}

fn write_heartbeat<S: Sink>(heartbeat: &Heartbeat, sink: &mut S) {
    sink.byte(kind::HEARTBEAT);
    sink.fixed(heartbeat.group);
    sink.fixed(heartbeat.incarnation);
    sink.bytes(heartbeat.leader.as_ref().map_or(&[], PeerIdentity::as_bytes));
    sink.optional(heartbeat.view);
    sink.varint(heartbeat.members.into());
    sink.optional(heartbeat.promised);
    sink.byte(u8::from(heartbeat.leaving));
    sink.varint(heartbeat.suspects.len() as u64);
    heartbeat.suspects.iter().for_each(|rank| sink.varint((*rank).into()));
    sink.varint(heartbeat.progress);
    sink.varint(heartbeat.sent);
    sink.varint(heartbeat.echo);
    sink.varint(heartbeat.held);
}

fn write_data<S: Sink>(data: &Data, sink: &mut S) {
    sink.byte(kind::DATA);
    sink.view(data.view());
    sink.varint(data.units().len() as u64);
    data.units().iter().for_each(|unit| write_unit(unit, sink));
    sink.varint(data.acks().len() as u64);
    data.acks().iter().for_each(|Ack { origin, reached, stable }| {
        sink.varint((*origin).into());
        sink.varint(*reached);
        sink.varint(*stable);
    });
}

fn write_unit<S: Sink>(unit: &Unit, sink: &mut S) {
    let mut flags = 0;
    for (set, bit) in [(unit.first, flag::FIRST), (unit.last, flag::LAST), (unit.stamp > 0, flag::STAMP)] {
        flags |= if set { bit } else { 0 };
    }
    sink.varint(unit.origin.into());
    sink.varint(unit.hops.into());
    sink.byte(flags);
    sink.varint(unit.sequence);
    if unit.stamp > 0 {
        sink.varint(unit.stamp);
    }
    sink.varint(unit.bytes.len() as u64);
    sink.content(&unit.bytes);
}

fn write_members<S: Sink>(members: &[Member], sink: &mut S) {
    sink.varint(members.len() as u64);
    for member in members {
        sink.bytes(member.identity.as_bytes());
        sink.fixed(member.incarnation);
    }
}

fn write_prepare<S: Sink>(prepare: &Prepare, sink: &mut S) {
    sink.byte(kind::PREPARE);
    sink.view(prepare.proposal);
    write_members(&prepare.members, sink);
    write_members(&prepare.departing, sink);
    sink.byte(prepare.shape.number());
}

fn write_state<S: Sink>(state: &State, sink: &mut S) {
    sink.byte(kind::STATE);
    sink.view(state.proposal);
    sink.optional(state.view);
    sink.optional(state.ready);
    sink.numbers(&state.have);
}

fn write_resume<S: Sink>(resume: &Resume, sink: &mut S) {
    sink.byte(kind::RESUME);
    sink.view(resume.view);
    sink.optional(resume.proposal);
    sink.numbers(&resume.have);
}

fn write_cut<S: Sink>(cut: &Cut, sink: &mut S) {
    sink.byte(kind::CUT);
    sink.view(cut.proposal);
    sink.varint(cut.views.len() as u64);
    for old in &cut.views {
        sink.view(old.view);
        sink.numbers(&old.last);
        sink.varint(old.staying.len() as u64);
        old.staying.iter().for_each(|index| sink.varint((*index).into()));
    }
}
