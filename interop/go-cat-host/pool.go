package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/go-kit/kit/metrics"
	"github.com/go-kit/kit/metrics/discard"
	"github.com/go-kit/kit/metrics/generic"
	abci "github.com/tendermint/tendermint/abci/types"
	"github.com/tendermint/tendermint/libs/log"
	"github.com/tendermint/tendermint/mempool"
	"github.com/tendermint/tendermint/mempool/cat"
	"github.com/tendermint/tendermint/p2p"
	protomem "github.com/tendermint/tendermint/proto/tendermint/mempool"
	"github.com/tendermint/tendermint/proxy"
	"github.com/tendermint/tendermint/types"
)

// pool is the pool of celestia-core with its reactor and the application behind it.
type pool struct {
	ledger  *ledger
	pool    *cat.TxPool
	reactor *cat.Reactor
	// Says an event.
	tell func(event any)

	// Held while a transaction enters the pool, which waits for nothing. So the pool's call when it has
	// entered tells whose transaction it was.
	adding sync.Mutex
	// The transaction that enters the pool.
	entering *entry

	// Counters of the pool.
	failed, evicted, rechecked, rerequested *generic.Counter

	lock     sync.Mutex
	counters counters
	up, down traffic
	// Requests without an answer.
	requested map[request]bool
	// The number of requests that were sent.
	requests uint64
	// Transactions of blocks that the pool did not have: it counts those as evicted.
	removed uint64
}

// entry is a transaction that is about to enter the pool. Its host is nil for a client.
type entry struct {
	key        types.TxKey
	bytes      int
	from       *uint32
	hasEntered bool
}

type request struct {
	host uint32
	key  types.TxKey
}

// entered is called by the pool when a transaction has entered it.
type entered struct{ *pool }

func (e entered) With(...string) metrics.Histogram { return e }

func (e entered) Observe(float64) {
	entry := e.entering
	entry.hasEntered = true
	e.tell(map[string]any{"added": added{hexKey(entry.key), entry.from}})
	e.lock.Lock()
	e.counters.Pool.AddedTxs++
	e.counters.Pool.AddedBytes += uint64(entry.bytes)
	e.lock.Unlock()
	e.entering = nil
	e.adding.Unlock()
}

type added struct {
	Key  string  `json:"key"`
	From *uint32 `json:"from"`
}

// hexKey is a key of a transaction as lines have it.
func hexKey(key types.TxKey) string { return hex.EncodeToString(key[:]) }

func newPool(brief *poolBrief, tell func(event any)) (*pool, error) {
	if err := brief.protocol.check(); err != nil {
		return nil, err
	}
	p := &pool{
		ledger: newLedger(brief.signers), tell: tell, requested: map[request]bool{},
		failed: generic.NewCounter(""), evicted: generic.NewCounter(""), rechecked: generic.NewCounter(""),
		rerequested: generic.NewCounter(""),
	}
	p.counters.Engine.Sent, p.counters.Engine.Received = map[string]tally{}, map[string]tally{}
	client, err := proxy.NewLocalClientCreator(p.ledger).NewABCIClient()
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	c := brief.protocol.pool()
	if brief.bytes > c.MaxTxBytes {
		return nil, fmt.Errorf("bytes: found %d, expected at most %d", brief.bytes, c.MaxTxBytes)
	}
	metrics := mempool.NopMetrics()
	metrics.TxSizeBytes = entered{p}
	metrics.FailedTxs, metrics.EvictedTxs, metrics.RecheckTimes = p.failed, p.evicted, p.rechecked
	metrics.RerequestedTxs, metrics.Size = p.rerequested, discard.NewGauge()
	p.pool = cat.NewTxPool(log.NewNopLogger(), c, client, 0, cat.WithMetrics(metrics))
	options := &cat.ReactorOptions{}
	if timeout := brief.protocol.timeout; timeout != nil {
		options.MaxGossipDelay = time.Duration(*timeout)
	}
	if p.reactor, err = cat.NewReactor(p.pool, options); err != nil {
		return nil, err
	}
	p.reactor.SetLogger(log.NewNopLogger())
	return p, p.reactor.Start()
}

func (p *pool) end() { _ = p.reactor.Stop() }

// enter lets a transaction enter the pool by calling add, unless the pool has it. It returns whether it has
// entered.
func (p *pool) enter(tx types.Tx, from *uint32, add func()) bool {
	p.adding.Lock()
	key := tx.Key()
	isThere, isSettled := p.pool.Has(key), p.pool.IsRejectedTx(key)
	if isThere || isSettled {
		p.adding.Unlock()
		p.count(func(c *counters) {
			switch {
			case from == nil:
			case isThere:
				c.Engine.AlreadySeenTxs++
			default:
				c.Engine.SettledDuplicates++
			}
		})
		add()
		return false
	}
	entry := &entry{key: key, bytes: len(tx), from: from}
	p.entering = entry
	add()
	if !entry.hasEntered {
		p.entering = nil
		p.adding.Unlock()
	}
	return entry.hasEntered
}

func (p *pool) count(change func(*counters)) {
	p.lock.Lock()
	defer p.lock.Unlock()
	change(&p.counters)
}

// ---- commands ----

// block is a block of transactions.
type block struct {
	Height uint64   `json:"height"`
	Keys   []string `json:"keys"`
	// The signers and sequence numbers that the block uses.
	Accounts [][2]uint32 `json:"accounts"`
	Bytes    uint64      `json:"bytes"`
}

// command reads a command. The function carries it out.
func (p *pool) command(data json.RawMessage) (func() error, error) {
	command, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	switch command.name {
	case "submit":
		var text string
		if err := json.Unmarshal(command.value, &text); err != nil {
			return nil, below("submit", err)
		}
		tx, err := hex.DecodeString(text)
		if err != nil {
			return nil, below("submit", err)
		}
		return func() error { p.submit(tx); return nil }, nil
	case "propose":
		var height, maxBytes uint64
		var isCompact bool
		maxGas := uint64(math.MaxUint64)
		required := keys{"height": &height, "max_bytes": &maxBytes, "compact": &isCompact}
		if err := object(command.value, required, keys{"max_gas": &maxGas}); err != nil {
			return nil, below("propose", err)
		}
		// celestia-core sends no compact blocks, and its briefing has refused them.
		return func() error { p.propose(height, limit(maxBytes), limit(maxGas)); return nil }, nil
	case "commit":
		var b block
		required := keys{"height": &b.Height, "keys": &b.Keys, "accounts": &b.Accounts, "bytes": &b.Bytes}
		if err := object(command.value, required, nil); err != nil {
			return nil, below("commit", err)
		}
		found := make([]types.TxKey, len(b.Keys))
		for i, text := range b.Keys {
			key, err := hex.DecodeString(text)
			if err == nil {
				found[i], err = types.TxKeyFromBytes(key)
			}
			if err != nil {
				return nil, below("commit", below("keys", err))
			}
		}
		return func() error { return p.commit(int64(b.Height), found, b.Accounts) }, nil
	}
	return nil, fmt.Errorf("command %s: unknown to go-cat-host", command.name)
}

// limit returns a limit as celestia-core has it.
func limit(most uint64) int64 {
	if most > math.MaxInt64 {
		return -1
	}
	return int64(most)
}

// submit takes a transaction of a client.
func (p *pool) submit(tx types.Tx) {
	var err error
	p.enter(tx, nil, func() { err = p.pool.CheckTx(tx, nil, mempool.TxInfo{}) })
	if err != nil {
		p.tell(map[string]any{"refused": hexKey(tx.Key())})
	}
}

func (p *pool) propose(height uint64, maxBytes, maxGas int64) {
	b := block{Height: height, Keys: []string{}, Accounts: [][2]uint32{}}
	for _, tx := range p.pool.ReapMaxBytesMaxGas(maxBytes, maxGas) {
		b.Keys = append(b.Keys, hexKey(tx.Key()))
		b.Bytes += uint64(len(tx))
		if account, isKnown := p.ledger.account(tx); isKnown {
			b.Accounts = append(b.Accounts, account)
		}
	}
	p.tell(map[string]any{"proposed": b})
}

// commit takes the transactions of a block out of the pool. A real node has the transactions of a block;
// here a command names them, so those that the pool lacks are removed by their keys.
func (p *pool) commit(height int64, keys []types.TxKey, accounts [][2]uint32) error {
	p.ledger.commit(accounts)
	p.adding.Lock()
	defer p.adding.Unlock()
	txs, results, removed := types.Txs{}, []*abci.ResponseDeliverTx{}, uint64(0)
	for _, key := range keys {
		if tx, has := p.pool.Get(key); has {
			txs = append(txs, tx)
			results = append(results, &abci.ResponseDeliverTx{Code: abci.CodeTypeOK})
		} else if err := p.pool.RemoveTxByKey(key); err != nil {
			return err
		} else {
			removed++
		}
	}
	p.count(func(c *counters) {
		c.Pool.SuccessfulTxs += uint64(len(keys))
		p.removed += removed
	})
	return p.pool.Update(height, txs, results, nil, nil)
}

// ---- messages ----

var errMessage = errors.New("found no message of the pool")

// receive hands a message of a host to the reactor, which may sleep. An error ends the connection.
func (p *pool) receive(from *link, channel byte, message *protomem.Message, bytes int) error {
	switch sum := message.Sum.(type) {
	case *protomem.Message_Txs:
		p.count(func(c *counters) { p.down.add(c.Engine.Received, "txs", bytes, payload(sum.Txs)) })
		for _, data := range sum.Txs.Txs {
			if !p.body(from, channel, data) {
				// The reactor ignores the rest of a message with a transaction that it cannot add.
				break
			}
		}
		return nil
	case *protomem.Message_SeenTx:
		p.count(func(c *counters) {
			c.Engine.HeardKeys++
			p.down.add(c.Engine.Received, "seen_tx", bytes, 0)
		})
		return p.pass(from, channel, sum.SeenTx, sum.SeenTx.TxKey)
	case *protomem.Message_WantTx:
		key, _ := types.TxKeyFromBytes(sum.WantTx.TxKey)
		has := p.pool.Has(key)
		p.count(func(c *counters) {
			if !has {
				c.Engine.FailedResponses++
			}
			p.down.add(c.Engine.Received, "want_tx", bytes, 0)
		})
		return p.pass(from, channel, sum.WantTx, sum.WantTx.TxKey)
	}
	return errMessage
}

// pass hands an announcement or a request to the reactor. For a wrong key it would need the switch of
// celestia-core, which ends the connection.
func (p *pool) pass(from *link, channel byte, message p2p.Wrapper, key []byte) error {
	if _, err := types.TxKeyFromBytes(key); err != nil {
		return err
	}
	p.reactor.ReceiveEnvelope(p2p.Envelope{ChannelID: channel, Src: from, Message: message})
	return nil
}

// body hands a transaction to the reactor. It returns false if the reactor could not add it.
func (p *pool) body(from *link, channel byte, tx types.Tx) bool {
	asked := request{from.number, tx.Key()}
	isDuplicate := p.pool.Has(asked.key)
	p.count(func(c *counters) {
		c.Engine.BodiesReceived++
		if !p.requested[asked] {
			c.Engine.UnrequestedBodies++
		}
		delete(p.requested, asked)
	})
	envelope := p2p.Envelope{ChannelID: channel, Src: from, Message: &protomem.Txs{Txs: [][]byte{tx}}}
	hasEntered := p.enter(tx, &from.number, func() { p.reactor.ReceiveEnvelope(envelope) })
	return hasEntered || isDuplicate
}

// send counts a message that the reactor sends, and sends it.
func (p *pool) send(to *link, message []byte, send func() bool) bool {
	var sum protomem.Message
	if err := sum.Unmarshal(message); err != nil {
		panic(err)
	}
	wanted := sum.GetWantTx()
	if wanted != nil {
		// The answer may arrive before the call returns.
		p.setRequested(to, wanted, true)
	}
	isSent := send()
	if wanted != nil && !isSent {
		p.setRequested(to, wanted, false)
	}
	p.count(func(c *counters) {
		switch {
		case !isSent && sum.GetTxs() != nil:
			c.Engine.RefusedBodies++
		case !isSent:
			c.Engine.RefusedFrames++
		case wanted != nil:
			p.requests++
			p.up.add(c.Engine.Sent, "want_tx", len(message), 0)
		case sum.GetSeenTx() != nil:
			c.Engine.AnnouncedKeys++
			p.up.add(c.Engine.Sent, "seen_tx", len(message), 0)
		default:
			p.up.add(c.Engine.Sent, "txs", len(message), payload(sum.GetTxs()))
		}
	})
	return isSent
}

func (p *pool) setRequested(to *link, wanted *protomem.WantTx, isRequested bool) {
	key, err := types.TxKeyFromBytes(wanted.TxKey)
	if err != nil {
		panic(err)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if asked := (request{to.number, key}); isRequested {
		p.requested[asked] = true
	} else {
		delete(p.requested, asked)
	}
}

// payload returns the bytes of transactions.
func payload(txs *protomem.Txs) int {
	bytes := 0
	for _, tx := range txs.GetTxs() {
		bytes += len(tx)
	}
	return bytes
}

// ---- counters ----

// counters are those of the family that celestia-core has.
type counters struct {
	Engine engineCounters `json:"engine"`
	Pool   poolCounters   `json:"pool"`
	PoolTx int            `json:"pool_txs"`
}

type engineCounters struct {
	BodiesReceived    uint64           `json:"bodies_received"`
	UnrequestedBodies uint64           `json:"unrequested_bodies"`
	AlreadySeenTxs    uint64           `json:"already_seen_txs"`
	SettledDuplicates uint64           `json:"settled_duplicates"`
	RequestedTxs      uint64           `json:"requested_txs"`
	RerequestedTxs    uint64           `json:"rerequested_txs"`
	FailedResponses   uint64           `json:"failed_responses"`
	AnnouncedKeys     uint64           `json:"announced_keys"`
	HeardKeys         uint64           `json:"heard_keys"`
	RefusedBodies     uint64           `json:"refused_bodies"`
	RefusedFrames     uint64           `json:"refused_frames"`
	Sent              map[string]tally `json:"sent"`
	Received          map[string]tally `json:"received"`
}

type poolCounters struct {
	AddedTxs      uint64 `json:"added_txs"`
	AddedBytes    uint64 `json:"added_bytes"`
	SuccessfulTxs uint64 `json:"successful_txs"`
	FailedTxs     uint64 `json:"failed_txs"`
	EvictedTxs    uint64 `json:"evicted_txs"`
	RecheckTimes  uint64 `json:"recheck_times"`
}

// tally is a number of messages, and their bytes.
type tally struct {
	Copies uint64 `json:"copies"`
	Bytes  uint64 `json:"bytes"`
}

// traffic has the messages of one direction, and the bytes of transactions among theirs.
type traffic struct {
	all     tally
	payload uint64
}

// add counts a message, by its kind, too.
func (t *traffic) add(kinds map[string]tally, kind string, bytes, payload int) {
	of := kinds[kind]
	kinds[kind] = tally{of.Copies + 1, of.Bytes + uint64(bytes)}
	t.all = tally{t.all.Copies + 1, t.all.Bytes + uint64(bytes)}
	t.payload += uint64(payload)
}

func (t traffic) frames() uint64  { return t.all.Copies }
func (t traffic) control() uint64 { return t.all.Bytes - t.payload }

// look returns the counters, and the messages sent and received.
func (p *pool) look() (counters, traffic, traffic) {
	p.lock.Lock()
	defer p.lock.Unlock()
	found := p.counters
	found.Engine.Sent, found.Engine.Received = maps.Clone(found.Engine.Sent), maps.Clone(found.Engine.Received)
	// celestia-core also counts further requests that it could not send.
	found.Engine.RerequestedTxs = min(uint64(p.rerequested.Value()), p.requests)
	found.Engine.RequestedTxs = p.requests - found.Engine.RerequestedTxs
	found.Pool.FailedTxs = uint64(p.failed.Value())
	found.Pool.EvictedTxs = uint64(p.evicted.Value()) - p.removed
	found.Pool.RecheckTimes = uint64(p.rechecked.Value())
	found.PoolTx = p.pool.Size()
	return found, p.up, p.down
}
