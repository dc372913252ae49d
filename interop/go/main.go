// A node of go-libp2p-pubsub for the interoperability tests: commands come as JSON lines on standard input, what happens
// goes as JSON lines to standard output. It ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"
)

// A line in either direction; what it has depends on what it is.
type line struct {
	Is      string `json:"is"`
	Topic   string `json:"topic,omitempty"`
	Data    []byte `json:"data,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Address string `json:"address,omitempty"`
	Count   int    `json:"count,omitempty"`
}

var (
	output = json.NewEncoder(os.Stdout)
	lock   sync.Mutex
)

func tell(what line) {
	lock.Lock()
	defer lock.Unlock()
	if err := output.Encode(what); err != nil {
		log.Fatalf("cannot tell: %v", err)
	}
}

// Meshes as the router changes them.
type meshes struct {
	lock    sync.Mutex
	members map[string]map[peer.ID]bool
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

func (m *meshes) RemovePeer(p peer.ID) {
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

func (m *meshes) AddPeer(peer.ID, protocol.ID)          {}
func (m *meshes) Join(string)                           {}
func (m *meshes) Leave(string)                          {}
func (m *meshes) ValidateMessage(*pubsub.Message)       {}
func (m *meshes) DeliverMessage(*pubsub.Message)        {}
func (m *meshes) RejectMessage(*pubsub.Message, string) {}
func (m *meshes) DuplicateMessage(*pubsub.Message)      {}
func (m *meshes) ThrottlePeer(peer.ID)                  {}
func (m *meshes) RecvRPC(*pubsub.RPC)                   {}
func (m *meshes) SendRPC(*pubsub.RPC, peer.ID)          {}
func (m *meshes) DropRPC(*pubsub.RPC, peer.ID)          {}
func (m *meshes) UndeliverableMessage(*pubsub.Message)  {}

func router(ctx context.Context, h host.Host, version string, narrow, unsigned bool, m *meshes) (*pubsub.PubSub, error) {
	policy := pubsub.StrictSign
	if unsigned {
		policy = pubsub.StrictNoSign
	}
	options := []pubsub.Option{
		pubsub.WithMessageSignaturePolicy(policy),
		pubsub.WithMaxMessageSize(4<<20 + 4096),
		pubsub.WithPeerOutboundQueueSize(5000),
		pubsub.WithValidateQueueSize(5000),
		pubsub.WithRawTracer(m),
	}
	if unsigned {
		options = append(options, pubsub.WithNoAuthor(), pubsub.WithMessageIdFn(contentID))
	}
	if version == "/floodsub/1.0.0" {
		return pubsub.NewFloodSub(ctx, h, options...)
	}
	params := pubsub.DefaultGossipSubParams()
	params.HeartbeatInterval = 200 * time.Millisecond
	if narrow {
		params.D, params.Dlo, params.Dhi, params.Dscore, params.Dout = 2, 1, 2, 0, 0
	}
	options = append(options, pubsub.WithGossipSubParams(params))
	if version != "" {
		versions := []protocol.ID{protocol.ID(version)}
		options = append(options, pubsub.WithGossipSubProtocols(versions, pubsub.GossipSubDefaultFeatures))
	}
	return pubsub.NewGossipSub(ctx, h, options...)
}

func main() {
	version := flag.String("protocol", "", "the only protocol to speak; all, if not given")
	narrow := flag.Bool("narrow", false, "meshes of two peers at most")
	unsigned := flag.Bool("unsigned", false, "messages without author and signature")
	flag.Parse()
	ctx := context.Background()
	h, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableRelay())
	if err != nil {
		log.Fatalf("no host: %v", err)
	}
	m := &meshes{members: map[string]map[peer.ID]bool{}}
	ps, err := router(ctx, h, *version, *narrow, *unsigned, m)
	if err != nil {
		log.Fatalf("no router: %v", err)
	}
	tell(line{Is: "listening", Peer: h.ID().String(), Address: h.Addrs()[0].String()})

	topics := map[string]*pubsub.Topic{}
	join := func(name string) *pubsub.Topic {
		if topics[name] == nil {
			topic, err := ps.Join(name)
			if err != nil {
				log.Fatalf("cannot join %s: %v", name, err)
			}
			topics[name] = topic
		}
		return topics[name]
	}
	commands := bufio.NewReaderSize(os.Stdin, 1<<20)
	for decoder := json.NewDecoder(commands); ; {
		var command line
		if decoder.Decode(&command) != nil {
			return
		}
		switch command.Is {
		case "dial":
			address, err := multiaddr.NewMultiaddr(command.Address)
			if err != nil {
				log.Fatalf("%s is no address: %v", command.Address, err)
			}
			info, err := peer.AddrInfoFromP2pAddr(address)
			if err != nil {
				log.Fatalf("%s names no peer: %v", command.Address, err)
			}
			if err := h.Connect(ctx, *info); err != nil {
				log.Fatalf("cannot connect to %s: %v", command.Address, err)
			}
		case "subscribe":
			topic := join(command.Topic)
			events, err := topic.EventHandler()
			if err != nil {
				log.Fatalf("no events of %s: %v", command.Topic, err)
			}
			go func() {
				for {
					event, err := events.NextPeerEvent(ctx)
					if err != nil {
						return
					}
					if event.Type == pubsub.PeerJoin {
						tell(line{Is: "joined", Topic: command.Topic, Peer: event.Peer.String()})
					}
				}
			}()
			subscription, err := topic.Subscribe(pubsub.WithBufferSize(5000))
			if err != nil {
				log.Fatalf("cannot subscribe to %s: %v", command.Topic, err)
			}
			go func() {
				for {
					message, err := subscription.Next(ctx)
					if err != nil {
						return
					}
					if message.ReceivedFrom != h.ID() {
						tell(line{Is: "message", Topic: command.Topic, Data: message.Data})
					}
				}
			}()
		case "publish":
			if err := join(command.Topic).Publish(ctx, command.Data); err != nil {
				log.Fatalf("cannot publish: %v", err)
			}
		case "mesh":
			tell(line{Is: "mesh", Topic: command.Topic, Count: m.size(command.Topic)})
		default:
			log.Fatalf("%q is no command", command.Is)
		}
	}
}
