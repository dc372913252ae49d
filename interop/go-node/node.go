package main

import (
	"context"
	"fmt"
	"log"
	"sort"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// Maximum number of attempts to dial an address, and timeout of an attempt, since packets may be
	// lost.
	dialTries   = 3
	dialTimeout = 15 * time.Second
	// Maximum number of messages that wait for the goroutine that discards them.
	deliveredMax = 1024
)

// node is a node with the topics that it has joined.
type node struct {
	ctx    context.Context
	host   host.Host
	pubsub *pubsub.PubSub
	counts *counters
	// Nil without cells.
	cells      *cells
	sequential bool

	lock   sync.Mutex
	topics map[string]*pubsub.Topic
	// The topics of the configuration.
	subscribed []string
}

// join returns a topic. Publishing needs no subscription, but being in the mesh does. The first call
// decides whether the node requests the cells of a column, or only sends them.
func (n *node) join(name string, cells pubsub.TopicOpt) (*pubsub.Topic, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if topic := n.topics[name]; topic != nil {
		return topic, nil
	}
	var options []pubsub.TopicOpt
	if _, isColumn := columnOf(name); isColumn && n.cells != nil {
		options = append(options, cells)
	}
	topic, err := n.pubsub.Join(name, options...)
	if err == nil {
		n.topics[name] = topic
	}
	return topic, err
}

func (n *node) subscribe(names []string) error {
	for _, name := range names {
		topic, err := n.join(name, pubsub.RequestPartialMessages())
		if err != nil {
			return fmt.Errorf("topics: %q: %w", name, err)
		}
		subscription, err := topic.Subscribe(pubsub.WithBufferSize(deliveredMax))
		if err != nil {
			return fmt.Errorf("topics: %q: %w", name, err)
		}
		n.subscribed = append(n.subscribed, name)
		go func() {
			for {
				if _, err := subscription.Next(n.ctx); err != nil {
					return
				}
			}
		}()
	}
	sort.Strings(n.subscribed)
	return nil
}

// dial connects to an address in the background.
func (n *node) dial(address string) error {
	info, err := peer.AddrInfoFromString(address)
	if err != nil {
		return fmt.Errorf("address: found %q: %w", address, err)
	}
	go func() {
		for try := 1; try <= dialTries; try++ {
			ctx, cancel := context.WithTimeout(n.ctx, dialTimeout)
			err := n.host.Connect(ctx, *info)
			cancel()
			if err == nil || n.ctx.Err() != nil {
				return
			}
			log.Printf("dialling %s, attempt %d of %d: %v", address, try, dialTries, err)
		}
	}()
	return nil
}

// publish publishes several messages as a batch in the order of go's scheduler, or one by one if
// configured.
func (n *node) publish(messages []payload, data [][]byte) error {
	topics := make([]*pubsub.Topic, len(messages))
	for i, message := range messages {
		topic, err := n.join(message.Topic, pubsub.SupportsPartialMessages())
		if err != nil {
			return fmt.Errorf("topic %q: %w", message.Topic, err)
		}
		topics[i] = topic
	}
	n.counts.add(&n.counts.published, len(messages))
	if len(messages) == 1 || n.sequential {
		for i, topic := range topics {
			if err := topic.Publish(n.ctx, data[i]); err != nil {
				return fmt.Errorf("topic %q: %w", topic, err)
			}
		}
		return nil
	}
	batch := &pubsub.MessageBatch{}
	for i, topic := range topics {
		if err := topic.AddToBatch(n.ctx, batch, data[i]); err != nil {
			return fmt.Errorf("topic %q: %w", topic, err)
		}
	}
	return n.pubsub.PublishBatch(batch)
}

// status is the answer to GET /v1/status.
type status struct {
	PeerID string        `json:"peer_id"`
	Listen []string      `json:"listen"`
	Peers  []peerStatus  `json:"peers"`
	Topics []topicStatus `json:"topics"`
}

type peerStatus struct {
	PeerID string `json:"peer_id"`
	// Null until a stream to the peer is open.
	Protocol *string `json:"protocol"`
}

type topicStatus struct {
	Topic       string   `json:"topic"`
	Subscribers []string `json:"subscribers"`
	Mesh        []string `json:"mesh"`
}

func (n *node) listen() []string {
	addresses := []string{}
	for _, address := range n.host.Addrs() {
		addresses = append(addresses, fmt.Sprintf("%s/p2p/%s", address, n.host.ID()))
	}
	return addresses
}

func (n *node) status() status {
	s := status{PeerID: n.host.ID().String(), Listen: n.listen(), Peers: []peerStatus{}, Topics: []topicStatus{}}
	for _, peer := range n.host.Network().Peers() {
		s.Peers = append(s.Peers, peerStatus{peer.String(), n.counts.protocol(peer)})
	}
	sort.Slice(s.Peers, func(i, j int) bool { return s.Peers[i].PeerID < s.Peers[j].PeerID })
	for _, name := range n.subscribed {
		subscribers := []string{}
		for _, peer := range n.pubsub.ListPeers(name) {
			subscribers = append(subscribers, peer.String())
		}
		sort.Strings(subscribers)
		s.Topics = append(s.Topics, topicStatus{name, subscribers, n.counts.mesh(name)})
	}
	return s
}
