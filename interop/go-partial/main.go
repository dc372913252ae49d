// A node of go-libp2p-pubsub for the GossipSub interoperability tests of libp2p's test-plans, with
// partial messages. It is one source for two releases of the library:
//
//	go build                       # v0.16.0, the first release with partial messages
//	go build -modfile=newest.mod   # v0.19.0
//
// The host's name is node<N>, and the script in the parameters defines what the node does. It
// writes events as JSON lines to standard output, and diagnostics to standard error.
package main

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

var events = slog.New(slog.NewJSONHandler(os.Stdout, nil))

// ownNumber returns the number of this node. Text behind the digits, such as a domain, is ignored.
func ownNumber() (int, error) {
	name, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	var number int
	if _, err := fmt.Sscanf(name, "node%d", &number); err != nil {
		return 0, fmt.Errorf("the host's name: found %q, expected node<N>", name)
	}
	return number, nil
}

// key returns the key of a node: its secret is the node's number in little endian.
func key(number int) (crypto.PrivKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	binary.LittleEndian.PutUint64(seed, uint64(number))
	return crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed))
}

func peerID(number int) (peer.ID, error) {
	secret, err := key(number)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(secret)
}

func main() {
	started := time.Now()
	path := flag.String("params", "", "the parameters of the experiment: a JSON file with its script")
	flag.Parse()
	script, err := readScript(*path)
	if err != nil {
		log.Fatal(err)
	}
	number, err := ownNumber()
	if err != nil {
		log.Fatal(err)
	}
	n, err := newNode(context.Background(), number, started)
	if err != nil {
		log.Fatal(err)
	}
	for at, step := range script {
		if err := n.run(&step); err != nil {
			log.Fatalf("script[%d]: %s: %v", at, step.Type, err)
		}
	}
}
