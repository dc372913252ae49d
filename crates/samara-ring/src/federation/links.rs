//! Who is where: a link belongs to the ring of the site, to the bridge, or to neither.

use std::sync::Arc;

use samara_engine::{Engine, Input, PeerId, PeerIdentity, PeerInfo};

use super::{Federation, FederationCx, Unused, owe_control};
use crate::RingFrame;
use crate::wire::Hello;

/// A connected node.
#[derive(Debug)]
pub(super) struct Link {
    info: PeerInfo,
    hello: Option<Hello>,
    /// The ring of the site has it.
    is_local: bool,
    /// The bridge has it.
    is_bridged: bool,
}

impl Federation {
    pub(super) fn link_up(&mut self, peer: PeerId, info: PeerInfo, cx: &mut FederationCx<'_>) {
        self.links.insert(peer, Link { info, hello: None, is_local: false, is_bridged: false });
        self.say_hello(peer, cx);
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

    fn say_hello(&mut self, peer: PeerId, cx: &mut FederationCx<'_>) {
        let leader = self.view.as_ref().and_then(|view| view.coordinator());
        let hello = Hello {
            group: self.config.bridge.group,
            site: self.config.site,
            leads: self.leader.is_some(),
            leader: leader.map(|member| member.identity.clone()),
        };
        owe_control(peer, RingFrame::Hello(Arc::new(hello)), cx);
    }

    /// Tells nodes of other sites who leads here.
    pub(super) fn announce(&mut self, cx: &mut FederationCx<'_>) {
        let own = self.config.site;
        let is_foreign = |link: &Link| link.hello.as_ref().is_some_and(|hello| hello.site != own);
        let foreign: Vec<PeerId> =
            self.links.iter().filter(|(_, link)| is_foreign(link)).map(|(peer, _)| *peer).collect();
        for peer in foreign {
            self.say_hello(peer, cx);
            self.sort_link(peer, cx);
        }
    }

    /// A leader dials the leaders that it heard of, and the contacts, of sites that are not on the bridge. All this is said again
    /// and again, so that nothing is missed; that a link says to lead to a leader is not enough, because it may be dead.
    pub(super) fn look_for_leaders(&mut self, cx: &mut FederationCx<'_>) {
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
            self.metrics.ignore(Unused::NoBridge);
            return;
        };
        link.hello = Some(hello.clone());
        self.sort_link(peer, cx);
        let is_foreign = hello.site != self.config.site;
        if let Some(leader) =
            hello.leader.clone().filter(|_| is_foreign && !hello.leads && self.leader.is_some())
        {
            self.dial(leader, cx);
        }
    }

    /// Gives a link to the ring that it belongs to, and takes it from the one it does not belong to any more.
    fn sort_link(&mut self, peer: PeerId, cx: &mut FederationCx<'_>) {
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

    /// This node leads no more: its bridge is gone.
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
