package main

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// The commands and settings of the soak (crates/programs/samara-interop/tests/all/soak).

// dialTimeout is the maximum time for a dial.
const dialTimeout = 5 * time.Second

// identity returns the option for a key from a number in little endian.
func identity(number uint64) libp2p.Option {
	var seed [ed25519.SeedSize]byte
	binary.LittleEndian.PutUint64(seed[:], number)
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		log.Fatalf("cannot make a key: %v", err)
	}
	return libp2p.Identity(key)
}

// scores returns options for scores without rewards: the score of an honest peer is 0. Invalid
// messages (P4) do not count: the router takes messages of its own earlier process, which others pass
// on, for invalid ones (RejectSelfOrigin).
func scores(m *meshes) []pubsub.Option {
	params := &pubsub.PeerScoreParams{
		AppSpecificScore:       func(peer.ID) float64 { return 0 },
		BehaviourPenaltyWeight: -10,
		// go-libp2p-pubsub keeps the extensions of a peer, not of a stream, and may read the first RPC of
		// a new stream before it notices the end of the old one. The penalty for that is 10; a second one
		// counts.
		BehaviourPenaltyThreshold: 16,
		BehaviourPenaltyDecay:     0.9,
		DecayInterval:             time.Second,
		DecayToZero:               0.01,
		RetainScore:               10 * time.Minute,
	}
	thresholds := &pubsub.PeerScoreThresholds{GossipThreshold: -10, PublishThreshold: -50, GraylistThreshold: -80}
	inspect := func(scores map[peer.ID]float64) {
		m.lock.Lock()
		defer m.lock.Unlock()
		m.scores = scores
	}
	return []pubsub.Option{
		pubsub.WithPeerScore(params, thresholds),
		pubsub.WithPeerScoreInspect(inspect, time.Second),
	}
}

// connect dials addresses in the background, unless their peers are connected. Nodes that restart
// refuse some dials.
func (n *node) connect(addresses []string) {
	for _, address := range addresses {
		info, err := peer.AddrInfoFromString(address)
		if err != nil {
			log.Fatalf("%q is not an address: %v", address, err)
		}
		go func() {
			ctx, cancel := context.WithTimeout(n.ctx, dialTimeout)
			defer cancel()
			// Addresses that a peer has left do not count.
			if len(n.host.Network().ConnsToPeer(info.ID)) == 0 {
				n.host.Peerstore().ClearAddrs(info.ID)
			}
			_ = n.host.Connect(ctx, *info)
		}()
	}
}

// reset resets all streams of GossipSub, except those with some peers.
func (n *node) reset(except []string) {
	for _, connection := range n.host.Network().Conns() {
		if slices.Contains(except, connection.RemotePeer().String()) {
			continue
		}
		for _, stream := range connection.GetStreams() {
			if strings.HasPrefix(string(stream.Protocol()), "/meshsub/") {
				_ = stream.Reset()
			}
		}
	}
}

// disconnectAll closes all connections.
func (n *node) disconnectAll() error {
	var all error
	for _, id := range n.host.Network().Peers() {
		all = errors.Join(all, n.host.Network().ClosePeer(id))
	}
	return all
}

// move replaces the address that the node listens on, and reports it.
func (n *node) move(listen string) error {
	address, err := ma.NewMultiaddr(listen)
	if err != nil {
		return err
	}
	old := n.host.Network().ListenAddresses()
	if err := n.host.Network().Listen(address); err != nil {
		return err
	}
	fresh := slices.DeleteFunc(n.host.Network().ListenAddresses(), func(address ma.Multiaddr) bool {
		return ma.Contains(old, address)
	})
	n.host.Network().(interface{ ListenClose(...ma.Multiaddr) }).ListenClose(old...)
	writeLine(line{Is: "moved", Address: fresh[0].String()})
	return n.disconnectAll()
}

// state returns the connected peers, those that have subscribed to a topic, and all scores.
func (n *node) state(topic string, m *meshes) line {
	s := line{Is: "state", Topic: topic, Count: m.size(topic), Scores: map[string]float64{}}
	for _, id := range n.host.Network().Peers() {
		s.Connected = append(s.Connected, id.String())
	}
	for _, id := range n.pubsub.ListPeers(topic) {
		s.Subscribers = append(s.Subscribers, id.String())
	}
	// Peers with a stream to them, or with an attempt to open one.
	for _, id := range n.pubsub.ListPeers("") {
		s.Peers = append(s.Peers, id.String())
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	for id, score := range m.scores {
		s.Scores[id.String()] = score
	}
	return s
}
