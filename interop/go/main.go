// A node of go-libp2p-pubsub for the interoperability tests. It reads commands as JSON lines from
// standard input, and writes events as JSON lines to standard output. It stops when its input ends.
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
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// line is a line in either direction. Its fields depend on its kind.
type line struct {
	Is      string `json:"is"`
	Topic   string `json:"topic,omitempty"`
	Data    []byte `json:"data,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Address string `json:"address,omitempty"`
	Count   int    `json:"count,omitempty"`
	// Peers, addresses and scores of the commands "reset", "connect" and "state".
	Peers       []string           `json:"peers,omitempty"`
	Addresses   []string           `json:"addresses,omitempty"`
	Connected   []string           `json:"connected,omitempty"`
	Subscribers []string           `json:"subscribers,omitempty"`
	Scores      map[string]float64 `json:"scores,omitempty"`
}

var (
	output = json.NewEncoder(os.Stdout)
	lock   sync.Mutex
)

func writeLine(what line) {
	lock.Lock()
	defer lock.Unlock()
	if err := output.Encode(what); err != nil {
		log.Fatalf("cannot write to standard output: %v", err)
	}
}

// choices are the options of the command line.
type choices struct {
	listen             string
	version            string
	narrow             bool
	unsigned           bool
	hold               bool
	testExtension      bool
	pruneBackoff       time.Duration
	unsubscribeBackoff time.Duration
	seed               uint64
	score              bool
}

func parseFlags() choices {
	var c choices
	flag.StringVar(&c.listen, "listen", "/ip4/127.0.0.1/tcp/0", "the address to listen on; the node always dials TCP and QUIC")
	flag.StringVar(&c.version, "protocol", "", "the only protocol to speak; default: all")
	flag.BoolVar(&c.narrow, "narrow", false, "limit meshes to two peers")
	flag.BoolVar(&c.unsigned, "unsigned", false, "messages without author and signature")
	flag.BoolVar(&c.hold, "hold", false, "messages wait for the command \"release\" before they are valid")
	flag.BoolVar(&c.testExtension, "test-extension", false, "announce the test extension of v1.3")
	flag.DurationVar(&c.pruneBackoff, "prune-backoff", pubsub.GossipSubPruneBackoff, "minimum time between a PRUNE and the next GRAFT")
	flag.DurationVar(&c.unsubscribeBackoff, "unsubscribe-backoff", pubsub.GossipSubUnsubscribeBackoff, "minimum time between leaving a topic and the next GRAFT")
	flag.Uint64Var(&c.seed, "seed", 0, "the secret key, in little endian; default: a random key")
	flag.BoolVar(&c.score, "score", false, "score peers, and take part in the soak (heartbeats of a second)")
	flag.Parse()
	return c
}

func router(ctx context.Context, h host.Host, c choices, m *meshes, released <-chan struct{}) (*pubsub.PubSub, error) {
	policy := pubsub.StrictSign
	if c.unsigned {
		policy = pubsub.StrictNoSign
	}
	options := []pubsub.Option{
		pubsub.WithMessageSignaturePolicy(policy),
		pubsub.WithMaxMessageSize(4<<20 + 4096),
		pubsub.WithPeerOutboundQueueSize(5000),
		pubsub.WithValidateQueueSize(5000),
		pubsub.WithRawTracer(m),
	}
	if c.unsigned {
		options = append(options, pubsub.WithNoAuthor(), pubsub.WithMessageIdFn(contentID))
	}
	if c.hold {
		wait := func(ctx context.Context, from peer.ID, message *pubsub.Message) bool {
			if from == h.ID() {
				return true
			}
			writeLine(line{Is: "held", Topic: message.GetTopic(), Data: message.Data})
			select {
			case <-released:
			case <-ctx.Done():
			}
			return true
		}
		options = append(options, pubsub.WithDefaultValidator(wait))
	}
	if c.version == "/floodsub/1.0.0" {
		return pubsub.NewFloodSub(ctx, h, options...)
	}
	params := pubsub.DefaultGossipSubParams()
	params.HeartbeatInterval = 200 * time.Millisecond
	params.PruneBackoff = c.pruneBackoff
	params.UnsubscribeBackoff = c.unsubscribeBackoff
	if c.score {
		params.HeartbeatInterval = time.Second
		options = append(options, scores(m)...)
	}
	if c.narrow {
		params.D, params.Dlo, params.Dhi, params.Dscore, params.Dout = 2, 1, 2, 0, 0
	}
	options = append(options, pubsub.WithGossipSubParams(params))
	if c.version != "" {
		versions := []protocol.ID{protocol.ID(c.version)}
		options = append(options, pubsub.WithGossipSubProtocols(versions, pubsub.GossipSubDefaultFeatures))
	}
	if c.testExtension {
		received := func(from peer.ID) { log.Fatalf("%s sent a test extension that it never announced", from) }
		options = append(options, pubsub.WithTestExtension(pubsub.TestExtensionConfig{OnReceiveTestExtension: received}))
	}
	return pubsub.NewGossipSub(ctx, h, options...)
}

func main() {
	c := parseFlags()
	ctx := context.Background()
	hostOptions := []libp2p.Option{libp2p.ListenAddrStrings(c.listen), libp2p.DisableRelay()}
	if c.seed != 0 {
		hostOptions = append(hostOptions, identity(c.seed))
	}
	if c.score {
		// All nodes of the soak have one address, which the default limits are not for.
		hostOptions = append(hostOptions, libp2p.ResourceManager(&network.NullResourceManager{}))
	}
	h, err := libp2p.New(hostOptions...)
	if err != nil {
		log.Fatalf("cannot start a host that listens on %s: %v", c.listen, err)
	}
	m := &meshes{members: map[string]map[peer.ID]bool{}}
	released := make(chan struct{})
	ps, err := router(ctx, h, c, m, released)
	if err != nil {
		log.Fatalf("cannot start the router: %v", err)
	}
	n := node{ctx, h, ps, map[string]*pubsub.Topic{}, map[string]*pubsub.Subscription{}}
	writeLine(line{Is: "listening", Peer: h.ID().String(), Address: h.Addrs()[0].String()})
	commands := bufio.NewReaderSize(os.Stdin, 1<<20)
	for decoder := json.NewDecoder(commands); ; {
		var command line
		if decoder.Decode(&command) != nil {
			return
		}
		switch command.Is {
		case "dial":
			err = n.dial(command.Address)
		case "disconnect":
			err = n.disconnect(command.Peer)
		case "subscribe":
			err = n.subscribe(command.Topic)
		case "unsubscribe":
			err = n.unsubscribe(command.Topic)
		case "publish":
			err = n.publish(command.Topic, command.Data)
		case "release":
			close(released)
		case "connect":
			n.connect(command.Addresses)
		case "reset":
			n.reset(command.Peers)
		case "move":
			err = n.move(c.listen)
		case "state":
			writeLine(n.state(command.Topic, m))
		case "mesh":
			writeLine(line{Is: "mesh", Topic: command.Topic, Count: m.size(command.Topic)})
		default:
			log.Fatalf("unknown command %q", command.Is)
		}
		if err != nil {
			log.Fatalf("cannot %s %s%s%s: %v", command.Is, command.Topic, command.Peer, command.Address, err)
		}
	}
}
