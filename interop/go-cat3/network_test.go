package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/libs/trace"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/mempool/cat"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/p2p/conn"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	"github.com/cometbft/cometbft/proxy"
	"github.com/cosmos/gogoproto/proto"
)

// A network of the real reactors, with their real MConnections and SecretConnections, over
// connections in memory that delay. By default in virtual time (testing/synctest), so that the load
// of the machine has no effect:
//
//	go test -run Network -v . -args -latency 25ms -flush 10ms
var (
	nodes    = flag.Int("nodes", 20, "number of nodes")
	degree   = flag.Int("degree", 10, "number of links of a node (a random regular graph)")
	latency  = flag.Duration("latency", 25*time.Millisecond, "one-way latency")
	jitter   = flag.Duration("jitter", 0, "largest random addition to the latency of a write")
	flush    = flag.Duration("flush", 10*time.Millisecond, "flush_throttle_timeout")
	timeout  = flag.Duration("timeout", 0, "max_gossip_delay; 0 for that of the reactor")
	txs      = flag.Int("txs", 600, "number of transactions")
	signers  = flag.Int("signers", 10, "number of signers, each at a node")
	rate     = flag.Float64("rate", 30, "transactions per second")
	size     = flag.Int("size", 4096, "bytes of a transaction")
	cool     = flag.Duration("cool", 5*time.Second, "time after the last transaction")
	seed     = flag.Int64("seed", 1, "seed of the graph and of the places of submission")
	realTime = flag.Bool("real-time", false, "run in real time")
)

func TestNetwork(t *testing.T) {
	if *realTime {
		run(t)
		return
	}
	synctest.Test(t, run)
}

// end is one end of a connection that delivers writes after a delay, in order.
type end struct {
	in, out chan chunk
	closed  chan struct{}
	once    *sync.Once
	rest    []byte
	last    time.Time
	random  *rand.Rand
}

type chunk struct {
	at   time.Time
	data []byte
}

func pair(seed int64) (*end, *end) {
	there, back := make(chan chunk, 1<<12), make(chan chunk, 1<<12)
	closed, once := make(chan struct{}), &sync.Once{}
	a := &end{in: back, out: there, closed: closed, once: once, random: rand.New(rand.NewSource(seed))}
	b := &end{in: there, out: back, closed: closed, once: once, random: rand.New(rand.NewSource(-seed))}
	return a, b
}

func (e *end) Write(data []byte) (int, error) {
	at := time.Now().Add(*latency)
	if *jitter > 0 {
		at = at.Add(time.Duration(e.random.Int63n(int64(*jitter))))
	}
	if at.Before(e.last) {
		at = e.last
	}
	e.last = at
	select {
	case e.out <- chunk{at, append([]byte(nil), data...)}:
		return len(data), nil
	case <-e.closed:
		return 0, io.ErrClosedPipe
	}
}

func (e *end) Read(data []byte) (int, error) {
	for len(e.rest) == 0 {
		select {
		case next := <-e.in:
			if wait := time.Until(next.at); wait > 0 {
				select {
				case <-time.After(wait):
				case <-e.closed:
					return 0, io.EOF
				}
			}
			e.rest = next.data
		case <-e.closed:
			return 0, io.EOF
		}
	}
	n := copy(data, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *end) Close() error                     { e.once.Do(func() { close(e.closed) }); return nil }
func (e *end) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (e *end) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (e *end) SetDeadline(time.Time) error      { return nil }
func (e *end) SetReadDeadline(time.Time) error  { return nil }
func (e *end) SetWriteDeadline(time.Time) error { return nil }

// link is a peer of a reactor. The methods that the reactor does not call are missing.
type link struct {
	p2p.Peer
	id    p2p.ID
	mconn *conn.MConnection
}

func (l *link) ID() p2p.ID                    { return l.id }
func (l *link) Get(string) interface{}        { return nil }
func (l *link) Metrics() *p2p.Metrics         { return p2p.NopMetrics() }
func (l *link) ValueToMetricLabel(any) string { return "" }
func (l *link) TraceClient() trace.Tracer     { return trace.NoOpTracer() }
func (l *link) Send(e p2p.Envelope) bool      { return l.mconn.Send(e.ChannelID, encoded(e.Message)) }
func (l *link) TrySend(e p2p.Envelope) bool   { return l.mconn.TrySend(e.ChannelID, encoded(e.Message)) }

// encoded returns the bytes of a message, which some callers have wrapped.
func encoded(message proto.Message) []byte {
	if inner, is := message.(p2p.Wrapper); is {
		message = inner.Wrap()
	}
	bytes, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	return bytes
}

type member struct {
	number  int
	key     ed25519.PrivKey
	ledger  *ledger
	pool    *cat.TxPool
	reactor *cat.Reactor
	links   []*link
	// Messages received.
	bodies, seen, wants atomic.Int64
	bytes               atomic.Int64
	lock                sync.Mutex
	copies              map[string]int
	arrived             map[string]time.Duration
}

var began time.Time

func newMember(t *testing.T, number int) *member {
	m := &member{
		number: number, key: ed25519.GenPrivKeyFromSecret(fmt.Appendf(nil, "%d/%d", *seed, number)),
		ledger: &ledger{next: map[uint32]uint32{}}, copies: map[string]int{}, arrived: map[string]time.Duration{},
	}
	client, err := proxy.NewLocalClientCreator(m.ledger).NewABCIClient()
	check(t, err)
	check(t, client.Start())
	poolConfig := config.DefaultMempoolConfig()
	poolConfig.Size = 100_000
	m.pool = cat.NewTxPool(log.NewNopLogger(), poolConfig, proxy.NewAppConnMempool(client, proxy.NopMetrics()), 1)
	options := &cat.ReactorOptions{MaxGossipDelay: *timeout, StickyPeerSalt: []byte(p2p.PubKeyToID(m.key.PubKey()))}
	m.reactor, err = cat.NewReactor(m.pool, options)
	check(t, err)
	m.reactor.SetLogger(log.NewNopLogger())
	check(t, m.reactor.Start())
	return m
}

// receive counts a message and hands it to the reactor.
func (m *member) receive(from *link, channel byte, bytes []byte) {
	message := &protomem.Message{}
	if err := proto.Unmarshal(bytes, message); err != nil {
		panic(err)
	}
	m.bytes.Add(int64(len(bytes)))
	switch sum := message.Sum.(type) {
	case *protomem.Message_Txs:
		m.bodies.Add(1)
		tx := string(sum.Txs.Txs[0][:headerBytes])
		m.lock.Lock()
		m.copies[tx]++
		if m.copies[tx] == 1 {
			m.arrived[tx] = time.Since(began)
		}
		m.lock.Unlock()
	case *protomem.Message_SeenTx:
		m.seen.Add(1)
	case *protomem.Message_WantTx:
		m.wants.Add(1)
	}
	m.reactor.TryQueueUnprocessedEnvelope(p2p.UnprocessedEnvelope{Src: from, ChannelID: channel, Message: bytes})
}

func connect(t *testing.T, a, b *member, seed int64) {
	x, y := pair(seed)
	var both sync.WaitGroup
	one := func(m, other *member, raw net.Conn) {
		defer both.Done()
		secret, err := conn.MakeSecretConnection(raw, m.key)
		check(t, err)
		l := &link{id: p2p.PubKeyToID(other.key.PubKey())}
		settings := conn.DefaultMConnConfig()
		settings.FlushThrottle = *flush
		settings.SendRate, settings.RecvRate = 5_120_000, 5_120_000
		receive := func(channel byte, bytes []byte) { m.receive(l, channel, bytes) }
		l.mconn = conn.NewMConnectionWithConfig(secret, m.reactor.GetChannels(), receive, func(interface{}) {}, settings)
		l.mconn.SetLogger(log.NewNopLogger())
		m.lock.Lock()
		m.links = append(m.links, l)
		m.lock.Unlock()
	}
	both.Add(2)
	go one(a, b, x)
	go one(b, a, y)
	both.Wait()
}

// regular draws a random regular graph by the pairing model.
func regular(random *rand.Rand, n, d int) [][2]int {
	for {
		stubs := make([]int, 0, n*d)
		for node := range n {
			for range d {
				stubs = append(stubs, node)
			}
		}
		random.Shuffle(len(stubs), func(i, j int) { stubs[i], stubs[j] = stubs[j], stubs[i] })
		edges, used := [][2]int{}, map[[2]int]bool{}
		for len(stubs) > 0 {
			placed := false
			for range 200 {
				j := 1 + random.Intn(len(stubs)-1)
				a, b := min(stubs[0], stubs[j]), max(stubs[0], stubs[j])
				if a != b && !used[[2]int{a, b}] {
					used[[2]int{a, b}] = true
					edges = append(edges, [2]int{a, b})
					stubs[j] = stubs[len(stubs)-1]
					stubs = stubs[1 : len(stubs)-1]
					placed = true
					break
				}
			}
			if !placed {
				break
			}
		}
		if len(stubs) == 0 {
			return edges
		}
	}
}

func run(t *testing.T) {
	random := rand.New(rand.NewSource(*seed))
	members := make([]*member, *nodes)
	for number := range members {
		members[number] = newMember(t, number)
	}
	for number, edge := range regular(random, *nodes, *degree) {
		connect(t, members[edge[0]], members[edge[1]], *seed*100_000+int64(number)+1)
	}
	for _, m := range members {
		for _, l := range m.links {
			m.reactor.InitPeer(l)
		}
	}
	for _, m := range members {
		for _, l := range m.links {
			check(t, l.mconn.Start())
			m.reactor.AddPeer(l)
		}
	}
	time.Sleep(time.Second)
	began = time.Now()
	interval := time.Duration(float64(time.Second) / *rate)
	submitted := map[string]time.Duration{}
	next := make([]uint32, *signers)
	for number := range *txs {
		time.Sleep(time.Until(began.Add(time.Duration(number) * interval)))
		signer := random.Intn(*signers)
		tx := []byte("tx+\x00")
		for _, word := range []uint32{uint32(number), uint32(signer), next[signer], 0, 1} {
			tx = binary.LittleEndian.AppendUint32(tx, word)
		}
		next[signer]++
		submitted[string(tx)] = time.Since(began)
		tx = append(tx, make([]byte, *size-len(tx))...)
		check(t, members[signer%len(members)].pool.CheckTx(tx, nil, mempool.TxInfo{}))
	}
	time.Sleep(*cool)
	report(members, submitted)
	for _, m := range members {
		for _, l := range m.links {
			_ = l.mconn.Stop()
		}
		_ = m.reactor.Stop()
		// Stop leaves the goroutine behind that takes messages from the queue.
		m.reactor.BaseReactor.OnStop()
	}
	time.Sleep(time.Second)
}

func report(members []*member, submitted map[string]time.Duration) {
	var bodies, seen, wants, bytes int64
	most, complete, refused := 0, 0, 0
	var delays []float64
	for _, m := range members {
		bodies += m.bodies.Load()
		seen += m.seen.Load()
		wants += m.wants.Load()
		bytes += m.bytes.Load()
		complete += m.pool.Size()
		refused += m.ledger.refused
		m.lock.Lock()
		for tx, count := range m.copies {
			most = max(most, count)
			delays = append(delays, float64((m.arrived[tx]-submitted[tx]).Microseconds())/1e3)
		}
		m.lock.Unlock()
	}
	slices.Sort(delays)
	pairs := float64(len(members) * *txs)
	line, _ := json.Marshal(map[string]any{
		"nodes": *nodes, "degree": *degree, "latency": latency.String(), "jitter": jitter.String(),
		"flush": flush.String(), "rate": *rate, "txs": *txs, "seed": *seed,
		"delivered":     float64(complete) / pairs,
		"copies":        float64(bodies) / pairs,
		"seen_tx":       float64(seen) / pairs,
		"want_tx":       float64(wants) / pairs,
		"message_bytes": float64(bytes) / pairs, "copies_max": most, "refused": refused,
		"p50_ms": delays[len(delays)/2], "p99_ms": delays[len(delays)*99/100],
	})
	fmt.Println(string(line))
}

func check(t *testing.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
