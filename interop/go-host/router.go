package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"
)

const (
	mebibyte = 1 << 20
	// MAX_PAYLOAD_SIZE of Ethereum's consensus-specs, and the maximum size of its compressed form with
	// the frame around it (max_message_size).
	ethereumPayload = 10 * mebibyte
	ethereumRPC     = 32 + ethereumPayload + ethereumPayload/6 + 1024
	// Capacity of a peer's queue in RPCs, for presets other than go's own. It equals the number of
	// copies that Samara queues.
	roomyQueue = 5000
)

// presetOrDefault returns the preset: Ethereum's if there is none.
func (p *protocolKeys) presetOrDefault() string {
	if p.preset == "" {
		return "ethereum"
	}
	return p.preset
}

// params returns the parameters of Samara's presets (crates/protocols/samara-gossipsub/src/config/presets.rs)
// with the changes of the scenario.
func (p *protocolKeys) params() pubsub.GossipSubParams {
	params := pubsub.DefaultGossipSubParams()
	switch p.presetOrDefault() {
	case "ethereum":
		params.D, params.Dlo, params.HistoryLength, params.HeartbeatInterval = 8, 6, 6, 700*time.Millisecond
	case "spec":
		params.Dlo = 4
	}
	set(&params.D, p.degree)
	set(&params.Dlo, p.degreeLow)
	set(&params.Dhi, p.degreeHigh)
	set(&params.Dlazy, p.degreeLazy)
	set(&params.Dscore, p.degreeScore)
	set(&params.Dout, p.degreeOut)
	set(&params.HistoryLength, p.historyLength)
	set(&params.HistoryGossip, p.historyGossip)
	set(&params.GossipFactor, p.gossipFactor)
	set(&params.IDontWantMessageTTL, p.idontwantTTL)
	if p.heartbeat != nil {
		params.HeartbeatInterval = time.Duration(*p.heartbeat)
	}
	if p.idontwant != nil && !*p.idontwant {
		params.IDontWantMessageThreshold = math.MaxInt
	}
	return params
}

func set[T any](target *T, value *T) {
	if value != nil {
		*target = *value
	}
}

func newRouter(ctx context.Context, h host.Host, p *protocolKeys, tracer *tracer, cells *cells) (*pubsub.PubSub, error) {
	versions := []protocol.ID{
		pubsub.GossipSubID_v13, pubsub.GossipSubID_v12, pubsub.GossipSubID_v11, pubsub.GossipSubID_v10,
	}
	switch p.version {
	case "", "1.2":
		versions = versions[1:]
	case "1.1":
		versions = versions[2:]
	}
	flood, queue := false, roomyQueue
	options := []pubsub.Option{
		pubsub.WithGossipSubParams(p.params()),
		pubsub.WithGossipSubProtocols(versions, pubsub.GossipSubDefaultFeatures),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(ethereumID),
		pubsub.WithRawTracer(tracer),
	}
	switch p.presetOrDefault() {
	case "ethereum":
		options = append(options, pubsub.WithMaxMessageSize(ethereumRPC), pubsub.WithSeenMessagesTTL(768*time.Second))
	case "spec":
		flood = true
	case "go-libp2p-pubsub":
		queue = 32
	}
	set(&flood, p.floodPublish)
	set(&queue, p.queue)
	options = append(options,
		pubsub.WithFloodPublish(flood),
		pubsub.WithPeerOutboundQueueSize(queue),
		pubsub.WithValidateQueueSize(queue),
	)
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
