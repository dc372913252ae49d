package main

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// queued is the capacity of all queues, above the number of messages in flight, so that none is
// dropped.
const queued = 100_000

// router has the same configuration as examples/throughput/implementation.rs in samara-net, line by
// line.
func router(ctx context.Context, h host.Host, tracer pubsub.RawTracer) (*pubsub.PubSub, error) {
	params := pubsub.DefaultGossipSubParams()
	params.D, params.Dlo, params.Dhi, params.Dscore, params.Dout = 64, 4, 128, 0, 0
	params.HeartbeatInterval = time.Second
	params.HistoryLength, params.HistoryGossip = 5, 3
	params.IDontWantMessageThreshold = 1024
	return pubsub.NewGossipSub(ctx, h,
		pubsub.WithGossipSubParams(params),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(contentID),
		pubsub.WithFloodPublish(false),
		pubsub.WithPeerExchange(false),
		pubsub.WithMaxMessageSize(1<<20),
		pubsub.WithSeenMessagesTTL(2*time.Minute),
		pubsub.WithPeerOutboundQueueSize(queued),
		pubsub.WithValidateQueueSize(queued),
		pubsub.WithValidateThrottle(queued),
		pubsub.WithRawTracer(tracer),
	)
}

// contentID returns the id of a message without an author: the first 20 bytes of SHA-256 of the
// payload.
func contentID(message *pb.Message) string {
	hash := sha256.Sum256(message.Data)
	return string(hash[:20])
}

// mesh counts the members of the only topic's mesh. No member leaves while the count is read.
type mesh struct {
	members atomic.Int64
}

func (m *mesh) Graft(peer.ID, string) { m.members.Add(1) }
func (m *mesh) Prune(peer.ID, string) { m.members.Add(-1) }

func (m *mesh) OnNewOutboundStream(peer.ID, protocol.ID) {}
func (m *mesh) OnClosedOutboundStream(peer.ID)           {}
func (m *mesh) Join(string)                              {}
func (m *mesh) Leave(string)                             {}
func (m *mesh) ValidateMessage(*pubsub.Message)          {}
func (m *mesh) DeliverMessage(*pubsub.Message)           {}
func (m *mesh) RejectMessage(*pubsub.Message, string)    {}
func (m *mesh) DuplicateMessage(*pubsub.Message)         {}
func (m *mesh) ThrottlePeer(peer.ID)                     {}
func (m *mesh) RecvRPC(*pubsub.RPC)                      {}
func (m *mesh) SendRPC(*pubsub.RPC, peer.ID)             {}
func (m *mesh) DropRPC(*pubsub.RPC, peer.ID)             {}
func (m *mesh) UndeliverableMessage(*pubsub.Message)     {}

// SendRPCCompleted is part of the interface since v0.19.
func (m *mesh) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}
