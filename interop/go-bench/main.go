// A node of go-libp2p-pubsub for the comparison of throughput
// (crates/worlds/samara-net/examples/throughput). It reads commands as lines from standard input, and
// answers each with a line on standard output. It stops when its input ends.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
)

func main() {
	index := flag.Int("index", 0, "the number of this node")
	of := flag.Int("of", 1, "number of nodes")
	flag.Parse()
	ctx := context.Background()
	// The default limits would reject the measured load, since all connections come from one address.
	limits, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(rcmgr.InfiniteLimits))
	check(err)
	h, err := libp2p.New(
		libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"),
		libp2p.NoTransports, libp2p.Transport(tcp.NewTCPTransport),
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		libp2p.DisableRelay(), libp2p.DisableMetrics(),
		libp2p.ResourceManager(limits),
	)
	check(err)
	m := &mesh{}
	ps, err := router(ctx, h, m)
	check(err)
	topic, err := ps.Join("t")
	check(err)
	subscription, err := topic.Subscribe(pubsub.WithBufferSize(queued))
	check(err)
	l := newLoad(ctx, topic, *index, *of)
	go l.receive(subscription)
	fmt.Printf("listening %s/p2p/%s\n", h.Addrs()[0], h.ID())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		handleCommand(ctx, lines.Text(), h, m, l)
	}
}

func handleCommand(ctx context.Context, line string, h host.Host, m *mesh, l *load) {
	var command, address string
	var bytes int
	var window uint64
	var rate, seconds float64
	_, err := fmt.Sscan(line, &command)
	check(err)
	switch command {
	case "dial":
		_, err = fmt.Sscan(line, &command, &address)
		check(err)
		info, err := peer.AddrInfoFromString(address)
		check(err)
		check(h.Connect(ctx, *info))
		fmt.Println("dialled")
	case "mesh":
		fmt.Println("mesh", m.members.Load())
	case "begin":
		var number byte
		_, err = fmt.Sscan(line, &command, &number)
		check(err)
		l.begin(number)
		fmt.Println("begun")
	case "fill":
		_, err = fmt.Sscan(line, &command, &bytes, &window, &seconds)
		check(err)
		l.fill(max(bytes, headerBytes), window, seconds)
		fmt.Println("done")
	case "pace":
		_, err = fmt.Sscan(line, &command, &bytes, &rate, &seconds)
		check(err)
		l.pace(max(bytes, headerBytes), rate, seconds)
		fmt.Println("done")
	case "counts":
		published, received := l.counts()
		fmt.Println("counts", published, received)
	case "latencies":
		fmt.Println("latencies" + l.took())
	default:
		log.Fatalf("unknown command %q", line)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
