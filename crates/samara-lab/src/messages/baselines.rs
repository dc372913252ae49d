//! Members of a stream of messages that speak a baseline protocol.

use std::sync::Arc;

use samara_baselines::{Baseline, Event, Message, Topic};
use samara_engine::{Context, Engine, Input, PeerIdentity};

use super::app::{AUTHOR_BYTES, Counts, Member, Neighbours, Publish, TOPIC, Told, number_of, payload};

/// The messages of a stream, in the form of the baselines.
#[derive(Debug)]
pub struct BaselineStream {
    /// The topic of all of them.
    pub topic: Topic,
    /// By number.
    pub messages: Vec<Arc<Message>>,
}

impl BaselineStream {
    /// Messages of so many random bytes each, by these authors.
    pub fn new(authors: &[u32], sizes: &[u64], seed: u64) -> Self {
        let topic = Topic::new(TOPIC);
        let messages = authors.iter().zip(sizes).zip(0..).map(|((author, bytes), number)| {
            let mut identity = [0; AUTHOR_BYTES];
            identity[..4].copy_from_slice(&author.to_le_bytes());
            let data = payload(number, *bytes, seed);
            Arc::new(Message::new(PeerIdentity::new(&identity), u64::from(number), topic.clone(), data))
        });
        Self { messages: messages.collect(), topic }
    }
}

/// A member that speaks a baseline protocol.
#[derive(Debug)]
pub struct BaselineMember<B> {
    engine: B,
    stream: Arc<BaselineStream>,
    neighbours: Neighbours,
    events: Vec<Event>,
}

impl<B: Baseline> BaselineMember<B> {
    /// A member.
    pub fn new(engine: B, stream: Arc<BaselineStream>) -> Self {
        Self { engine, stream, neighbours: Neighbours::default(), events: Vec::new() }
    }

    fn relay(&mut self, cx: &mut Context<'_, B::Frame, Told>) {
        for event in self.events.drain(..) {
            match event {
                Event::Message { message, from: Some(from), .. } => {
                    if let Some(number) = number_of(message.data()) {
                        cx.emit(Told::Delivered { message: number, from: self.neighbours.host(from) });
                    }
                }
                Event::Lost(lost) if lost.message.is_some() => {
                    cx.emit(Told::Lost { to: self.neighbours.host(lost.peer) });
                }
                _ => {}
            }
        }
    }
}

impl<B: Baseline> Member for BaselineMember<B> {
    fn counts(&self) -> Counts {
        let metrics = self.engine.metrics();
        Counts { duplicates: metrics.duplicates_received, answered: metrics.copies_answered, mesh: 0 }
    }
}

impl<B: Baseline> Engine for BaselineMember<B> {
    type Frame = B::Frame;
    type Command = Publish;
    type Event = Told;

    fn handle(&mut self, input: Input<B::Frame, Publish>, cx: &mut Context<'_, B::Frame, Told>) {
        let mut events = std::mem::take(&mut self.events);
        let mut inner = cx.nested(&mut events);
        match input {
            Input::Start => {
                self.engine.handle(Input::Start, &mut inner);
                if let Err(error) = self.engine.subscribe(&self.stream.topic, &mut inner) {
                    unreachable!("the engine was made for this topic: {error}");
                }
            }
            Input::Command(Publish(number)) => {
                let message = Arc::clone(&self.stream.messages[number as usize]);
                // That nobody was there to take it shows in the results.
                let _ = self.engine.publish_message(message, &mut inner);
            }
            Input::LinkUp { peer, info } => {
                self.neighbours.up(peer, &info);
                self.engine.handle(Input::LinkUp { peer, info }, &mut inner);
            }
            Input::LinkDown { peer } => self.engine.handle(Input::LinkDown { peer }, &mut inner),
            Input::DialFailed { identity } => self.engine.handle(Input::DialFailed { identity }, &mut inner),
            Input::Frame { peer, frame } => self.engine.handle(Input::Frame { peer, frame }, &mut inner),
            Input::Timer(token) => self.engine.handle(Input::Timer(token), &mut inner),
        }
        self.events = events;
        self.relay(cx);
    }
}
