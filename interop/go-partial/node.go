package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	idBytes  = 8
	rpcBytes = 10 << 20
	// queue is the number of RPCs that may wait for a peer, as in the runner of test-plans.
	queue = 600
)

type node struct {
	ctx      context.Context
	number   int
	started  time.Time
	host     host.Host
	pubsub   *pubsub.PubSub
	topics   map[string]*pubsub.Topic
	partials *partials
}

func newNode(ctx context.Context, number int, started time.Time) (*node, error) {
	secret, err := key(number)
	if err != nil {
		return nil, err
	}
	h, err := libp2p.New(
		libp2p.Identity(secret),
		libp2p.ListenAddrStrings("/ip4/0.0.0.0/tcp/9000"),
		// Shadow does not let two sockets share a port.
		libp2p.Transport(tcp.NewTCPTransport, tcp.DisableReuseport()),
		libp2p.ResourceManager(&network.NullResourceManager{}),
		libp2p.DisableRelay(),
	)
	if err != nil {
		return nil, err
	}
	events.Info("PeerID", "id", h.ID().String(), "node_id", number)
	return &node{ctx: ctx, number: number, started: started, host: h, topics: map[string]*pubsub.Topic{}}, nil
}

// run executes an instruction.
func (n *node) run(step *instruction) error {
	if n.pubsub == nil {
		switch step.Type {
		case "ifNodeIDEquals", "initGossipSub", "waitUntil", "connect":
		default:
			return errors.New("found no initGossipSub before it")
		}
	}
	switch step.Type {
	case "ifNodeIDEquals":
		if step.NodeID != n.number {
			return nil
		}
		return n.run(step.Instruction)
	case "initGossipSub":
		return n.init(step.GossipSubParams)
	case "connect":
		return n.connect(step.ConnectTo)
	case "waitUntil":
		time.Sleep(time.Until(n.started.Add(time.Duration(step.ElapsedSeconds) * time.Second)))
		return nil
	case "subscribeToTopic":
		return n.subscribe(step.TopicID, step.Partial)
	case "publish":
		return n.publish(step)
	case "setTopicValidationDelay":
		return n.delay(step.TopicID, time.Duration(step.DelaySeconds*float64(time.Second)))
	case "addPartialMessage":
		n.partials.add(messageKey{step.TopicID, step.GroupID}, step.Parts)
		return nil
	case "publishPartial":
		return n.publishPartial(step)
	default:
		return errors.New("unknown instruction")
	}
}

func (n *node) init(params *gossipSubParams) error {
	if n.pubsub != nil {
		return errors.New("found a second initGossipSub")
	}
	if params == nil {
		return errors.New("found no gossipSubParams")
	}
	p := &partials{messages: map[messageKey]*message{}}
	ps, err := pubsub.NewGossipSub(n.ctx, n.host,
		pubsub.WithGossipSubParams(pubsub.GossipSubParams(*params)),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { return string(m.Data[:min(idBytes, len(m.Data))]) }),
		pubsub.WithMaxMessageSize(rpcBytes),
		pubsub.WithPeerOutboundQueueSize(queue),
		pubsub.WithValidateQueueSize(queue),
		pubsub.WithAppSpecificRpcInspector(reportMessages),
		pubsub.WithPartialMessagesExtension(p.extension()),
	)
	if err != nil {
		return err
	}
	p.pubsub = ps
	n.pubsub, n.partials = ps, p
	return nil
}

// reportMessages writes a line for every copy of a message.
func reportMessages(from peer.ID, rpc *pubsub.RPC) error {
	for _, m := range rpc.GetPublish() {
		if len(m.Data) >= idBytes {
			id := strconv.FormatUint(binary.BigEndian.Uint64(m.Data), 10)
			events.Info("Received Message", "service", "gossipsub", "from", from.String(), "topic", m.GetTopic(), "id", id)
		}
	}
	return nil
}

func (n *node) connect(to []int) error {
	for _, number := range to {
		id, err := peerID(number)
		if err != nil {
			return err
		}
		address, err := ma.NewMultiaddr(fmt.Sprintf("/dns4/node%d/tcp/9000", number))
		if err != nil {
			return err
		}
		if err := n.host.Connect(n.ctx, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{address}}); err != nil {
			return err
		}
	}
	return nil
}

// join returns a topic, and joins it with the options at the first call.
func (n *node) join(name string, options ...pubsub.TopicOpt) (*pubsub.Topic, error) {
	if topic := n.topics[name]; topic != nil {
		return topic, nil
	}
	topic, err := n.pubsub.Join(name, options...)
	if err == nil {
		n.topics[name] = topic
	}
	return topic, err
}

func (n *node) subscribe(name string, partial bool) error {
	var options []pubsub.TopicOpt
	if partial {
		options = append(options, pubsub.RequestPartialMessages())
	}
	topic, err := n.join(name, options...)
	if err != nil {
		return err
	}
	subscription, err := topic.Subscribe(pubsub.WithBufferSize(queue))
	if err != nil {
		return err
	}
	go func() {
		// Messages are reported on arrival; an unread subscription would fill up.
		for {
			if _, err := subscription.Next(n.ctx); err != nil {
				log.Printf("the subscription to %s ended: %v", name, err)
				return
			}
		}
	}()
	return nil
}

func (n *node) publish(step *instruction) error {
	if step.MessageSizeBytes < idBytes {
		return fmt.Errorf("messageSizeBytes: found %d, expected at least %d", step.MessageSizeBytes, idBytes)
	}
	topic, err := n.join(step.TopicID)
	if err != nil {
		return err
	}
	data := make([]byte, step.MessageSizeBytes)
	binary.BigEndian.PutUint64(data, step.MessageID)
	return topic.Publish(n.ctx, data)
}

func (n *node) delay(topic string, delay time.Duration) error {
	return n.pubsub.RegisterTopicValidator(topic, func(context.Context, peer.ID, *pubsub.Message) bool {
		time.Sleep(delay)
		return true
	})
}

func (n *node) publishPartial(step *instruction) error {
	// Since v0.19, a node refuses partial messages on topics that it did not join with an option.
	// A publisher that does not subscribe needs the answers of its consumers.
	if _, err := n.join(step.TopicID, pubsub.SupportsPartialMessages()); err != nil {
		return err
	}
	var targets []peer.ID
	for _, number := range step.PublishToNodeIDs {
		id, err := peerID(number)
		if err != nil {
			return err
		}
		targets = append(targets, id)
	}
	return n.partials.publish(messageKey{step.TopicID, step.GroupID}, targets)
}
