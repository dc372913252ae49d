package main

import (
	"context"
	"fmt"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

// node is a node with its topics and subscriptions. It joins each topic once, and subscriptions
// come and go.
type node struct {
	ctx           context.Context
	host          host.Host
	pubsub        *pubsub.PubSub
	topics        map[string]*pubsub.Topic
	subscriptions map[string]*pubsub.Subscription
}

func (n *node) dial(address string) error {
	info, err := peer.AddrInfoFromString(address)
	if err != nil {
		return err
	}
	return n.host.Connect(n.ctx, *info)
}

// disconnect closes the connections to a peer, or all connections without a name.
func (n *node) disconnect(name string) error {
	if name == "" {
		return n.disconnectAll()
	}
	id, err := peer.Decode(name)
	if err != nil {
		return err
	}
	return n.host.Network().ClosePeer(id)
}

// join returns a topic, and reports its peers from the first call on.
func (n *node) join(name string) (*pubsub.Topic, error) {
	if topic := n.topics[name]; topic != nil {
		return topic, nil
	}
	topic, err := n.pubsub.Join(name)
	if err != nil {
		return nil, err
	}
	events, err := topic.EventHandler()
	if err != nil {
		return nil, err
	}
	n.topics[name] = topic
	go func() {
		for {
			event, err := events.NextPeerEvent(n.ctx)
			if err != nil {
				return
			}
			is := "joined"
			if event.Type == pubsub.PeerLeave {
				is = "left"
			}
			writeLine(line{Is: is, Topic: name, Peer: event.Peer.String()})
		}
	}()
	return topic, nil
}

// subscribe subscribes to a topic unless it is subscribed already.
func (n *node) subscribe(name string) error {
	if n.subscriptions[name] != nil {
		return nil
	}
	topic, err := n.join(name)
	if err != nil {
		return err
	}
	subscription, err := topic.Subscribe(pubsub.WithBufferSize(5000))
	if err != nil {
		return err
	}
	n.subscriptions[name] = subscription
	go func() {
		for {
			message, err := subscription.Next(n.ctx)
			if err != nil {
				return
			}
			if message.ReceivedFrom != n.host.ID() {
				writeLine(line{Is: "message", Topic: name, Data: message.Data})
			}
		}
	}()
	return nil
}

func (n *node) unsubscribe(name string) error {
	subscription := n.subscriptions[name]
	if subscription == nil {
		return fmt.Errorf("the topic is not subscribed")
	}
	delete(n.subscriptions, name)
	subscription.Cancel()
	return nil
}

func (n *node) publish(name string, data []byte) error {
	topic, err := n.join(name)
	if err != nil {
		return err
	}
	return topic.Publish(n.ctx, data)
}
