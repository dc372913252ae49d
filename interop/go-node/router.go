package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

const (
	mebibyte = 1 << 20
	// MAX_PAYLOAD_SIZE of Ethereum's consensus-specs, and the maximum size of its compressed form with
	// the frame around it (max_message_size).
	ethereumPayload = 10 * mebibyte
	ethereumRPC     = 32 + ethereumPayload + ethereumPayload/6 + 1024
	// Capacity of a peer's queue in RPCs, for presets other than go's own. It equals the number of
	// copies that samara queues.
	roomyQueue = 5000
)

// newHost creates a host with a key from a number in little endian, as in libp2p's test-plans
// (gossipsub-interop/test-specs/implementation.md).
func newHost(c *config) (host.Host, error) {
	var seed [ed25519.SeedSize]byte
	binary.LittleEndian.PutUint64(seed[:], *c.Identity.Seed)
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		return nil, err
	}
	return libp2p.New(
		libp2p.Identity(key),
		libp2p.ListenAddrStrings(c.Network.Listen...),
		libp2p.DisableRelay(),
		// The default limits per address and subnet are for unknown peers, but all peers here are known.
		libp2p.ResourceManager(&network.NullResourceManager{}),
	)
}

// params returns the parameters of samara's presets (crates/samara-gossipsub/src/config/presets.rs)
// with the configured changes.
func (g *gossipsubConfig) params() pubsub.GossipSubParams {
	p := pubsub.DefaultGossipSubParams()
	switch g.preset() {
	case "ethereum":
		p.D, p.Dlo, p.HistoryLength, p.HeartbeatInterval = 8, 6, 6, 700*time.Millisecond
	case "spec":
		p.Dlo = 4
	}
	set(&p.D, g.Degree)
	set(&p.Dlo, g.DegreeLow)
	set(&p.Dhi, g.DegreeHigh)
	set(&p.Dlazy, g.DegreeLazy)
	set(&p.Dscore, g.DegreeScore)
	set(&p.Dout, g.DegreeOut)
	set(&p.HistoryLength, g.HistoryLength)
	set(&p.HistoryGossip, g.HistoryGossip)
	set(&p.GossipFactor, g.GossipFactor)
	set(&p.IDontWantMessageTTL, g.IdontwantTTL)
	if g.Heartbeat != nil {
		p.HeartbeatInterval = time.Duration(*g.Heartbeat)
	}
	if g.Idontwant != nil && !*g.Idontwant {
		p.IDontWantMessageThreshold = math.MaxInt
	}
	return p
}

func set[T any](target *T, value *T) {
	if value != nil {
		*target = *value
	}
}

func newRouter(ctx context.Context, h host.Host, c *config, tracer *pubsub.PBTracer, counts *counters, cells *cells) (*pubsub.PubSub, error) {
	g := &c.Gossipsub
	versions := []protocol.ID{pubsub.GossipSubID_v13, pubsub.GossipSubID_v12, pubsub.GossipSubID_v11, pubsub.GossipSubID_v10}
	switch g.Version {
	case "", "1.2":
		versions = versions[1:]
	case "1.1":
		versions = versions[2:]
	}
	options := []pubsub.Option{
		pubsub.WithGossipSubParams(g.params()),
		pubsub.WithGossipSubProtocols(versions, pubsub.GossipSubDefaultFeatures),
		pubsub.WithEventTracer(tracer),
		pubsub.WithRawTracer(counts),
	}
	flood, queue := false, roomyQueue
	switch g.preset() {
	case "ethereum":
		options = append(options, pubsub.WithMaxMessageSize(ethereumRPC), pubsub.WithSeenMessagesTTL(768*time.Second))
	case "spec":
		flood = true
	case "go-libp2p-pubsub":
		queue = 32
	}
	set(&flood, g.FloodPublish)
	set(&queue, g.Queue)
	options = append(options,
		pubsub.WithFloodPublish(flood),
		pubsub.WithPeerOutboundQueueSize(queue),
		pubsub.WithValidateQueueSize(queue),
	)
	if c.Messages.Authenticity == "anonymous" {
		options = append(options, pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor())
	}
	if c.Messages.ID == "ethereum" {
		counts.id = ethereumID
		options = append(options, pubsub.WithMessageIdFn(ethereumID))
	}
	if cells != nil {
		options = append(options, pubsub.WithPartialMessagesExtension(cells.extension()))
	}
	return pubsub.NewGossipSub(ctx, h, options...)
}

// ethereumID returns the id of a message in Ethereum's consensus-specs since Altair
// (altair/p2p-interface.md, "The derivation of the message-id"), for uncompressed payloads.
func ethereumID(message *pb.Message) string {
	hash := sha256.New()
	// MESSAGE_DOMAIN_VALID_SNAPPY.
	hash.Write([]byte{1, 0, 0, 0})
	topic := message.GetTopic()
	hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(topic))))
	hash.Write([]byte(topic))
	hash.Write(message.Data)
	return string(hash.Sum(nil)[:20])
}
