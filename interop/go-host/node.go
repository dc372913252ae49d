package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

// deliveredMax is the maximum number of messages that wait for the goroutine that discards them.
const deliveredMax = 1024

// family is what a host does on behalf of a family of experiments.
type family interface {
	// start joins the topics.
	start() error
	// command reads a command. The first function prepares it, the second carries it out.
	command(data json.RawMessage) (func() func() error, error)
	// arrived and lost run in the event loop of the router, which they must not wait for.
	arrived(topic string, data []byte, from uint32, isFirst bool)
	lost(to uint32)
	counters() any
}

// node has the topics that the host has joined.
type node struct {
	ctx    context.Context
	pubsub *pubsub.PubSub
	tracer *tracer
	// Says an event.
	tell func(event any)
	// Whether the host exchanges cells.
	hasCells bool

	lock   sync.Mutex
	topics map[string]*pubsub.Topic
}

// message is a message to publish.
type message struct {
	topic string
	data  []byte
}

// join returns a topic. Publishing needs no subscription, but being in the mesh does. The first call
// decides whether the host requests the cells of a column, or only sends them.
func (n *node) join(name string, cells pubsub.TopicOpt) (*pubsub.Topic, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if topic := n.topics[name]; topic != nil {
		return topic, nil
	}
	var options []pubsub.TopicOpt
	if n.hasCells {
		options = append(options, cells)
	}
	topic, err := n.pubsub.Join(name, options...)
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", name, err)
	}
	n.topics[name] = topic
	return topic, nil
}

func (n *node) subscribe(name string) error {
	topic, err := n.join(name, pubsub.RequestPartialMessages())
	if err != nil {
		return err
	}
	subscription, err := topic.Subscribe(pubsub.WithBufferSize(deliveredMax))
	if err != nil {
		return fmt.Errorf("topic %q: %w", name, err)
	}
	go func() {
		for {
			if _, err := subscription.Next(n.ctx); err != nil {
				return
			}
		}
	}()
	return nil
}

// publish publishes messages one by one, or as a batch in the order of go's scheduler.
func (n *node) publish(messages []message, isBatch bool) error {
	batch := &pubsub.MessageBatch{}
	for _, message := range messages {
		topic, err := n.join(message.topic, pubsub.SupportsPartialMessages())
		if err != nil {
			return err
		}
		if isBatch {
			err = topic.AddToBatch(n.ctx, batch, message.data)
		} else {
			err = topic.Publish(n.ctx, message.data)
		}
		if err != nil {
			return fmt.Errorf("topic %q: %w", message.topic, err)
		}
	}
	if !isBatch {
		return nil
	}
	return n.pubsub.PublishBatch(batch)
}
