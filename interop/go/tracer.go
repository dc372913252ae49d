package main

import (
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// meshes tracks the meshes of the router.
type meshes struct {
	lock    sync.Mutex
	members map[string]map[peer.ID]bool
	// The latest scores of peers.
	scores map[peer.ID]float64
}

func (m *meshes) Graft(p peer.ID, topic string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.members[topic] == nil {
		m.members[topic] = map[peer.ID]bool{}
	}
	m.members[topic][p] = true
}

func (m *meshes) Prune(p peer.ID, topic string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.members[topic], p)
}

func (m *meshes) OnClosedOutboundStream(p peer.ID) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, members := range m.members {
		delete(members, p)
	}
}

func (m *meshes) size(topic string) int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.members[topic])
}

func (m *meshes) OnNewOutboundStream(peer.ID, protocol.ID) {}
func (m *meshes) Join(string)                              {}
func (m *meshes) Leave(string)                             {}
func (m *meshes) ValidateMessage(*pubsub.Message)          {}
func (m *meshes) DeliverMessage(*pubsub.Message)           {}
func (m *meshes) RejectMessage(*pubsub.Message, string)    {}
func (m *meshes) DuplicateMessage(message *pubsub.Message) {
	writeLine(line{Is: "duplicate", Topic: message.GetTopic(), Peer: message.ReceivedFrom.String()})
}
func (m *meshes) ThrottlePeer(peer.ID)                 {}
func (m *meshes) RecvRPC(*pubsub.RPC)                  {}
func (m *meshes) SendRPC(*pubsub.RPC, peer.ID)         {}
func (m *meshes) DropRPC(*pubsub.RPC, peer.ID)         {}
func (m *meshes) UndeliverableMessage(*pubsub.Message) {}

// SendRPCCompleted is part of the interface since v0.19.
func (m *meshes) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}
