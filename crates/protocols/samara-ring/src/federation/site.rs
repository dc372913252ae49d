//! The site: the assignment of links to rings, and the deliveries of the site's ring.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Engine, Input, PeerId, PeerIdentity, PeerInfo};

use super::letter::Letter;
use super::log::Accepted;
use super::{Federation, FederationCx, FederationEvent, Sender, Unused, owe_control};
use crate::wire::Hello;
use crate::{Event, Member, RingFrame, View};

#[derive(Debug)]
pub(super) struct Link {
    info: PeerInfo,
    hello: Option<Hello>,
    /// The link is part of the site's ring.
    is_local: bool,
    is_bridged: bool,
}

impl Federation {
    pub(super) fn link_up(&mut self, peer: PeerId, info: PeerInfo, cx: &mut FederationCx<'_>) {
        self.links.insert(peer, Link { info, hello: None, is_local: false, is_bridged: false });
        self.send_hello(peer, cx);
    }

    pub(super) fn link_down(&mut self, peer: PeerId, cx: &mut FederationCx<'_>) {
        let Some(link) = self.links.remove(&peer) else { return };
        if link.is_local {
            self.on_site(cx, |ring, cx| ring.handle(Input::LinkDown { peer }, cx));
        }
        if link.is_bridged {
            self.on_bridge(cx, |ring, cx| ring.handle(Input::LinkDown { peer }, cx));
        }
    }

    fn send_hello(&mut self, peer: PeerId, cx: &mut FederationCx<'_>) {
        let leader = self.view.as_ref().and_then(|view| view.coordinator());
        let hello = Hello {
            group: self.config.bridge.group,
            site: self.config.site,
            leads: self.leader.is_some(),
            leader: leader.map(|member| member.identity.clone()),
        };
        owe_control(peer, RingFrame::Hello(Arc::new(hello)), cx);
    }

    /// Announces this site's leader to nodes of other sites.
    pub(super) fn announce(&mut self, cx: &mut FederationCx<'_>) {
        let own = self.config.site;
        let is_foreign = |link: &Link| link.hello.as_ref().is_some_and(|hello| hello.site != own);
        let foreign: Vec<PeerId> =
            self.links.iter().filter(|(_, link)| is_foreign(link)).map(|(peer, _)| *peer).collect();
        for peer in foreign {
            self.send_hello(peer, cx);
            self.assign_link(peer, cx);
        }
    }

    /// Dials known leaders and contacts of sites that are not on the bridge, if this node leads.
    /// Repeated periodically, so that nothing is missed. A link to an announced leader is not
    /// enough, because it may be dead.
    pub(super) fn dial_leaders(&mut self, cx: &mut FederationCx<'_>) {
        if self.leader.is_none() {
            return;
        }
        self.announce(cx);
        let config = self.config.clone();
        for (site, contacts) in &config.sites {
            let hellos = || self.links.values().filter_map(|link| link.hello.as_ref());
            if self.has_on_bridge(*site) {
                continue;
            }
            let named = hellos().filter(|hello| hello.site == *site).filter_map(|hello| hello.leader.clone());
            let wanted: Vec<PeerIdentity> = named.chain(contacts.iter().cloned()).collect();
            wanted.into_iter().for_each(|identity| self.dial(identity, cx));
        }
    }

    fn dial(&mut self, identity: PeerIdentity, cx: &mut FederationCx<'_>) {
        if !self.links.values().any(|link| link.info.identity == identity) {
            cx.dial(identity);
        }
    }

    fn on_hello(&mut self, peer: PeerId, hello: &Hello, cx: &mut FederationCx<'_>) {
        let Some(link) = self.links.get_mut(&peer).filter(|_| hello.group == self.config.bridge.group) else {
            return self.metrics.ignore(Unused::NoBridge);
        };
        link.hello = Some(hello.clone());
        self.assign_link(peer, cx);
        let is_foreign = hello.site != self.config.site;
        if let Some(leader) =
            hello.leader.clone().filter(|_| is_foreign && !hello.leads && self.leader.is_some())
        {
            self.dial(leader, cx);
        }
    }

    /// Moves a link to the ring that it belongs to.
    fn assign_link(&mut self, peer: PeerId, cx: &mut FederationCx<'_>) {
        let leads = self.leader.is_some();
        let Some(link) = self.links.get_mut(&peer) else { return };
        let Some(hello) = &link.hello else { return };
        let is_local = hello.site == self.config.site;
        let is_bridged = !is_local && hello.leads && leads;
        let (was_local, was_bridged) = (link.is_local, link.is_bridged);
        (link.is_local, link.is_bridged) = (is_local, is_bridged);
        let info = link.info.clone();
        let input = |is, was| match (is, was) {
            (true, false) => Some(Input::LinkUp { peer, info: info.clone() }),
            (false, true) => Some(Input::LinkDown { peer }),
            _ => None,
        };
        if let Some(input) = input(is_local, was_local) {
            self.on_site(cx, |ring, cx| ring.handle(input, cx));
        }
        if let Some(input) = input(is_bridged, was_bridged) {
            self.on_bridge(cx, |ring, cx| ring.handle(input, cx));
        }
    }

    /// Removes all links from the bridge, because this node no longer leads.
    pub(super) fn unbridge(&mut self) {
        self.links.values_mut().for_each(|link| link.is_bridged = false);
    }

    pub(super) fn on_frame(&mut self, peer: PeerId, frame: RingFrame, cx: &mut FederationCx<'_>) {
        let link = self.links.get(&peer);
        let (is_local, is_bridged) = link.map_or((false, false), |link| (link.is_local, link.is_bridged));
        match frame {
            RingFrame::Hello(hello) => self.on_hello(peer, &hello, cx),
            RingFrame::Bridge(inner) if is_bridged => {
                let frame = Arc::unwrap_or_clone(inner);
                self.on_bridge(cx, |ring, cx| ring.handle(Input::Frame { peer, frame }, cx));
            }
            RingFrame::Bridge(_) => self.metrics.ignore(Unused::NoBridge),
            frame if is_local => {
                self.on_site(cx, |ring, cx| ring.handle(Input::Frame { peer, frame }, cx));
            }
            _ => self.metrics.ignore(Unused::NoBridge),
        }
    }
}

// ---- deliveries of the site's ring ----

/// The position of a message in the site's ring: the rank of its origin, and its number among the
/// origin's messages.
type Place = (u16, u64);

fn is_in(site: u16, view: Option<&View>, sender: &Sender) -> bool {
    sender.site == site && view.is_some_and(|view| view.rank_of(&sender.member).is_some())
}

impl Federation {
    pub(super) fn on_site_event(&mut self, event: Event, cx: &mut FederationCx<'_>) {
        match event {
            Event::Delivered { origin, rank, number, payload, .. } => {
                self.on_letter(&origin, (rank, number), &payload.to_bytes(), cx);
            }
            Event::View(view) => self.on_site_view(view, cx),
            Event::Suspected { member, cause } => cx.emit(FederationEvent::Suspected { member, cause }),
            Event::Slow { member } => cx.emit(FederationEvent::Slow { member }),
            Event::Left => {
                self.stop_leading(cx);
                self.has_left = true;
                cx.emit(FederationEvent::Left);
            }
            // `settle` checks for room after every input, and messages are passed in directly.
            Event::Room | Event::Refused(_) => {}
        }
    }

    fn on_site_view(&mut self, view: Arc<View>, cx: &mut FederationCx<'_>) {
        let leads = view.coordinator() == Some(self.local.member());
        self.view = Some(view.clone());
        cx.emit(FederationEvent::View(view.clone()));
        if !leads {
            self.stop_leading(cx);
        } else if self.leader.is_none() {
            self.begin_to_lead(cx);
        }
        if let Some(leader) = &mut self.leader {
            // Members that came from the previous view together have the same messages.
            self.logs.iter_mut().for_each(|(_, log)| log.secure_all());
            leader.pending = vec![VecDeque::new(); view.len()];
            // Newcomers do not receive the messages in the queue of the ring unless they know that
            // these follow what they have.
            leader.base =
                Some(self.logs.iter().map(|(sender, log)| (sender.clone(), log.coming())).collect());
            leader.wants_round = true;
            self.ready_all();
        }
        self.announce(cx);
    }

    fn on_letter(&mut self, origin: &Member, place: Place, message: &Bytes, cx: &mut FederationCx<'_>) {
        let Ok(letter) = Letter::decode(message, self.config.entries_max()) else {
            return self.metrics.ignore(Unused::Malformed);
        };
        let is_leader = place.0 == 0;
        match letter {
            Letter::Own { number, content } => {
                let sender = Sender { site: self.config.site, member: origin.clone() };
                // The ring loses nothing: earlier missing messages were broadcast in views without
                // this member.
                self.take(sender, number, content, true, place, cx);
            }
            Letter::Relay { start, sender, number, content } if is_leader => {
                let is_known = self.logs.get(&sender).is_some_and(|log| log.have() > 0);
                let follows = self
                    .led_by
                    .as_ref()
                    .is_some_and(|(member, number)| member == origin && start == Some(*number));
                self.take(sender, number, content, follows || !is_known, place, cx);
            }
            Letter::Base { leadership, last } if is_leader => {
                self.led_by = Some((origin.clone(), leadership));
                for (sender, number) in last {
                    if self.open(&sender) {
                        self.logs.change(&sender, |log| log.leap(number));
                    }
                }
            }
            Letter::Progress { last } if is_leader => {
                for (sender, number) in last {
                    self.logs.change(&sender, |log| log.release(number));
                }
            }
            Letter::State { .. } => self.metrics.ignore(Unused::Malformed),
            _ => self.metrics.ignore(Unused::NotLeader),
        }
    }

    /// Returns true if the sender is a member of this site now.
    pub(super) fn is_here(&self, sender: &Sender) -> bool {
        is_in(self.config.site, self.view.as_deref(), sender)
    }

    /// Returns true if there is a log of this sender, or room for one: always for a member of this
    /// site, which the view bounds. Each site has an equal share of the other logs, and so do former
    /// members of this site, and all sites that are not configured. A leader that invents senders
    /// then affects those of one site.
    pub(super) fn open(&mut self, sender: &Sender) -> bool {
        let (config, view) = (&self.config, self.view.as_deref());
        let is_here = |other: &Sender| is_in(config.site, view, other);
        let share = |other: &Sender| {
            let site = other.site;
            let is_configured = site == config.site || config.sites.iter().any(|(other, _)| *other == site);
            is_configured.then_some(site)
        };
        let max = if is_here(sender) { usize::MAX } else { config.share_of_senders() };
        let own = share(sender);
        let has_room = self.logs.open(sender, max, |other| !is_here(other) && share(other) == own);
        if !has_room {
            self.metrics.ignore(Unused::TooManySenders);
        }
        has_room
    }

    /// Takes a message that the ring of the site delivered.
    fn take(
        &mut self,
        sender: Sender,
        number: u64,
        content: Bytes,
        may_leap: bool,
        place: Place,
        cx: &mut FederationCx<'_>,
    ) {
        if !self.open(&sender) {
            return;
        }
        let kept = content.clone();
        let is_known = self.logs.get(&sender).is_some_and(|log| log.have() > 0);
        let accepted = self.logs.change(&sender, |log| log.accept(number, kept, may_leap));
        match accepted {
            Some(Accepted::New) => {}
            Some(Accepted::Skipped) => self.metrics.skipped += u64::from(is_known),
            Some(Accepted::Duplicate) => self.metrics.ignore(Unused::Duplicate),
            Some(Accepted::Gap) | None => {
                return self.metrics.ignore(Unused::Gap);
            }
        }
        self.note_delivered(&sender, number, place);
        if accepted == Some(Accepted::Duplicate) {
            return;
        }
        while self.logs.held > self.config.memory_bytes
            && self.logs.get(&sender).is_some_and(|log| log.held > 0)
        {
            self.metrics.overflowed += 1;
            self.logs.change(&sender, |log| log.release(log.base + 1));
        }
        self.metrics.delivered += 1;
        self.metrics.delivered_bytes += content.len() as u64;
        cx.emit(FederationEvent::Delivered { site: sender.site, origin: sender.member, number, content });
    }
}
