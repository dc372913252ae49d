package main

import (
	"encoding/binary"
	"errors"
	"iter"
	"log"
	"log/slog"
	"maps"
	"slices"
	"sync"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p-pubsub/partialmessages"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
)

// peerState is what the node knows about a peer in a group. The zero value is a peer from which
// nothing was received, and to which nothing was sent.
type peerState struct {
	// has are the parts that the peer announced, or exchanged with this node.
	has bitmap
	// known is true once the peer has sent metadata or parts.
	known bool
	// announced are the parts that this node announced last, valid if isAnnounced is true.
	announced   bitmap
	isAnnounced bool
}

type messageKey struct {
	topic string
	group uint64
}

// partials exchanges the parts of messages. The router calls its callbacks from its event loop,
// where publishing would wait for itself, so each publication has a separate goroutine.
type partials struct {
	pubsub   *pubsub.PubSub
	lock     sync.Mutex
	messages map[messageKey]*message
}

func (p *partials) extension() *partialmessages.PartialMessagesExtension[peerState] {
	return &partialmessages.PartialMessagesExtension[peerState]{
		Logger:        slog.New(slog.DiscardHandler),
		OnIncomingRPC: p.receive,
		OnEmitGossip: func(topic string, group []byte, _ []peer.ID, _ map[peer.ID]peerState) {
			p.republish(messageKey{topic, binary.BigEndian.Uint64(group)})
		},
	}
}

// add adds parts to those known of a message: peers may have sent some before the script adds any.
func (p *partials) add(key messageKey, parts bitmap) {
	p.lock.Lock()
	defer p.lock.Unlock()
	m := p.message(key)
	before := m.has()
	m.fill(parts)
	if has := m.has(); has == allParts && before != has {
		reportComplete(key)
	}
}

// message returns the message of a group, which has no parts if it is new. The caller holds the
// lock.
func (p *partials) message(key messageKey) *message {
	if p.messages[key] == nil {
		p.messages[key] = &message{group: key.group}
	}
	return p.messages[key]
}

func reportComplete(key messageKey) {
	events.Info("All parts received", "topic", key.topic, "group id", key.group)
}

func (p *partials) receive(from peer.ID, states map[peer.ID]peerState, rpc *pb.PartialMessagesExtension) error {
	if len(rpc.GroupID) != groupBytes {
		return errors.New("the group id has not 8 bytes")
	}
	key := messageKey{rpc.GetTopicID(), binary.BigEndian.Uint64(rpc.GroupID)}
	p.lock.Lock()
	defer p.lock.Unlock()
	m := p.message(key)
	before, state := m.has(), states[from]
	if len(rpc.PartialMessage) > 0 {
		brings, err := m.extend(rpc.PartialMessage)
		if err != nil {
			return err
		}
		state.has |= brings
		state.known = true
	}
	if len(rpc.PartsMetadata) == 1 {
		// Parts that this node sent meanwhile are not in the peer's metadata yet.
		state.has |= bitmap(rpc.PartsMetadata[0])
		state.known = true
	}
	states[from] = state
	if has := m.has(); has == allParts && before != has {
		reportComplete(key)
	}
	p.republish(key)
	return nil
}

func (p *partials) republish(key messageKey) {
	go func() {
		if err := p.publish(key, nil); err != nil {
			log.Printf("cannot publish group %d: %v", key.group, err)
		}
	}()
}

// publish sends each peer the parts that it lacks, and the metadata if it changed. The peers are
// the targets, or without targets those of the mesh and those that exchange parts of the group.
func (p *partials) publish(key messageKey, targets []peer.ID) error {
	publishActions := func(states map[peer.ID]peerState, requests func(peer.ID) bool) iter.Seq2[peer.ID, partialmessages.PublishAction] {
		to := targets
		if len(to) == 0 {
			to = slices.Collect(maps.Keys(states))
		}
		return p.actions(key, to, states, requests)
	}
	group := binary.BigEndian.AppendUint64(nil, key.group)
	return pubsub.PublishPartial(p.pubsub, key.topic, group, publishActions)
}

func (p *partials) actions(key messageKey, to []peer.ID, states map[peer.ID]peerState, requests func(peer.ID) bool) iter.Seq2[peer.ID, partialmessages.PublishAction] {
	return func(yield func(peer.ID, partialmessages.PublishAction) bool) {
		p.lock.Lock()
		defer p.lock.Unlock()
		m := p.messages[key]
		if m == nil {
			yield("", partialmessages.PublishAction{Err: errors.New("the group has no parts")})
			return
		}
		has := m.has()
		for _, id := range to {
			state := states[id]
			var action partialmessages.PublishAction
			// Nothing is sent eagerly: a peer first says what it has.
			if state.known && requests(id) {
				action.EncodedPartialMessage = m.encode(^state.has)
				state.has |= has
			}
			if !state.isAnnounced || state.announced != has {
				action.EncodedPartsMetadata = []byte{byte(has)}
				state.announced, state.isAnnounced = has, true
			}
			states[id] = state
			if !yield(id, action) {
				return
			}
		}
	}
}
