// A node with the transaction pool of celestia-core (CAT as merged, v1.16.0-tm-v0.34.27) for the interoperability tests: the real
// reactor behind the real switch, over TCP with secret connections, without consensus. Commands come as JSON lines on
// standard input, what happens goes as JSON lines to standard output. It ends with its input.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"flag"
	"log"
	"os"
	"sync"
	"time"
)

// A line in either direction; what it has depends on what it is.
type line struct {
	Is      string             `json:"is"`
	Peer    string             `json:"peer,omitempty"`
	Address string             `json:"address,omitempty"`
	Kind    string             `json:"kind,omitempty"`
	Data    []byte             `json:"data,omitempty"`
	Txs     [][]byte           `json:"txs,omitempty"`
	Keys    []string           `json:"keys,omitempty"`
	Peers   []string           `json:"peers,omitempty"`
	Height  int64              `json:"height,omitempty"`
	Error   string             `json:"error,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
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

// What the command line chooses.
type choices struct {
	network string
	flush   time.Duration
	timeout time.Duration
	pool    int
	swallow bool
	ping    time.Duration
}

func main() {
	log.SetFlags(0)
	var c choices
	flag.StringVar(&c.network, "network", "samara-test", "the chain that the node says it belongs to")
	flag.DurationVar(&c.flush, "flush", 10*time.Millisecond, "how long small writes wait (flush_throttle_timeout)")
	flag.DurationVar(&c.timeout, "timeout", 0, "how long an answer is waited for (max_gossip_delay); that of the reactor, if not given")
	flag.IntVar(&c.pool, "pool", 5000, "transactions that the pool holds")
	flag.DurationVar(&c.ping, "ping", 60*time.Second, "how often peers are pinged; an answer is waited for half as long")
	flag.BoolVar(&c.swallow, "swallow", false, "requests are told, and never answered")
	flag.Parse()
	n, err := start(c)
	if err != nil {
		log.Fatal(err)
	}
	tell(line{Is: "ready", Peer: string(n.id), Address: n.address})
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	for input.Scan() {
		var command line
		if err := json.Unmarshal(input.Bytes(), &command); err != nil {
			log.Fatalf("cannot read %q: %v", input.Text(), err)
		}
		answer := line{Is: command.Is}
		if err := n.obey(command, &answer); err != nil {
			answer.Error = err.Error()
		}
		tell(answer)
	}
}

func hexOf(bytes []byte) string {
	return hex.EncodeToString(bytes)
}
