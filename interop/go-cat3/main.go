// A node with the transaction pool of celestia-core v0.39.10 for the interoperability tests: the real
// reactor behind the real switch, over TCP with secret connections, without consensus. Its application
// accepts the transactions of a signer in the order of their sequence numbers only. It reads commands as
// JSON lines from standard input, and writes events as JSON lines to standard output. It stops when its
// input ends.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"os"
	"sync"
	"time"
)

// line is a line in either direction. Its fields depend on its kind.
type line struct {
	Is      string   `json:"is"`
	Peer    string   `json:"peer,omitempty"`
	Address string   `json:"address,omitempty"`
	Txs     [][]byte `json:"txs,omitempty"`
	// The keys of the transactions in the pool.
	Keys []string `json:"keys,omitempty"`
	// The signer and sequence number of each accepted transaction, in the order of acceptance.
	Accepted [][2]uint32 `json:"accepted,omitempty"`
	// The number of transactions that the application has refused.
	Refused int      `json:"refused,omitempty"`
	Peers   []string `json:"peers,omitempty"`
	Height  int64    `json:"height,omitempty"`
	Error   string   `json:"error,omitempty"`
	// The messages received, by kind.
	Received map[string]int     `json:"received,omitempty"`
	Metrics  map[string]float64 `json:"metrics,omitempty"`
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
	network string
	flush   time.Duration
	timeout time.Duration
	seed    string
	port    int
}

func main() {
	log.SetFlags(0)
	var c choices
	flag.StringVar(&c.network, "network", "samara-test", "the chain id of the node")
	flag.DurationVar(&c.flush, "flush", 10*time.Millisecond, "delay of small writes (flush_throttle_timeout)")
	flag.DurationVar(&c.timeout, "timeout", 0, "maximum time to wait for an answer (max_gossip_delay); default: that of the reactor")
	flag.StringVar(&c.seed, "seed", "", "the secret of the node's key; default: a random one")
	flag.IntVar(&c.port, "port", 0, "the port to listen on; default: a free one")
	flag.Parse()
	n, err := start(c)
	if err != nil {
		log.Fatal(err)
	}
	writeLine(line{Is: "ready", Peer: string(n.id), Address: n.address})
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	for input.Scan() {
		var command line
		if err := json.Unmarshal(input.Bytes(), &command); err != nil {
			log.Fatalf("cannot read %q: %v", input.Text(), err)
		}
		answer := line{Is: command.Is}
		if err := n.handleCommand(command, &answer); err != nil {
			answer.Error = err.Error()
		}
		writeLine(answer)
	}
}
