package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/libs/trace"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/mempool/cat"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/proxy"
	"github.com/cometbft/cometbft/types"
	"github.com/cometbft/cometbft/version"
	"github.com/go-kit/kit/metrics/generic"
)

type node struct {
	id       p2p.ID
	address  string
	ledger   *ledger
	pool     *cat.TxPool
	reactor  *observed
	sw       *p2p.Switch
	counters map[string]*generic.Counter
}

func start(c choices) (*node, error) {
	n := &node{ledger: &ledger{next: map[uint32]uint32{}}, counters: map[string]*generic.Counter{}}
	counter := func(name string) *generic.Counter {
		n.counters[name] = generic.NewCounter(name)
		return n.counters[name]
	}
	metrics := mempool.NopMetrics()
	metrics.FailedTxs, metrics.EvictedTxs = counter("failed_txs"), counter("evicted_txs")
	metrics.AlreadySeenTxs = counter("already_seen_txs")
	metrics.RequestedTxs, metrics.RerequestedTxs = counter("requested_txs"), counter("rerequested_txs")
	client, err := proxy.NewLocalClientCreator(n.ledger).NewABCIClient()
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	application := proxy.NewAppConnMempool(client, proxy.NopMetrics())
	n.pool = cat.NewTxPool(log.NewNopLogger(), config.DefaultMempoolConfig(), application, 1, cat.WithMetrics(metrics))
	key := p2p.NodeKey{PrivKey: ed25519.GenPrivKey()}
	if c.seed != "" {
		key.PrivKey = ed25519.GenPrivKeyFromSecret([]byte(c.seed))
	}
	// The salt is that of node.go in celestia-core.
	options := &cat.ReactorOptions{MaxGossipDelay: c.timeout, StickyPeerSalt: []byte(key.ID())}
	real, err := cat.NewReactor(n.pool, options)
	if err != nil {
		return nil, err
	}
	n.reactor = &observed{Reactor: real, kinds: map[string]int{}}
	return n, n.connect(c, &key)
}

// connect starts the real transport and the real switch, with the channels of the reactor in the
// node info.
func (n *node) connect(c choices, key *p2p.NodeKey) error {
	port := c.port
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}
	n.id = key.ID()
	n.address = p2p.IDAddressString(n.id, fmt.Sprintf("127.0.0.1:%d", port))
	info := p2p.DefaultNodeInfo{
		ProtocolVersion: p2p.NewProtocolVersion(version.P2PProtocol, version.BlockProtocol, 0),
		DefaultNodeID:   n.id,
		ListenAddr:      fmt.Sprintf("127.0.0.1:%d", port),
		Network:         c.network,
		Version:         version.TMCoreSemVer,
		Moniker:         "celestia-core",
	}
	for _, channel := range n.reactor.GetChannels() {
		info.Channels = append(info.Channels, channel.ID)
	}
	p2pConfig := config.DefaultP2PConfig()
	p2pConfig.FlushThrottleTimeout = c.flush
	p2pConfig.AllowDuplicateIP = true
	transport := p2p.NewMultiplexTransport(info, *key, p2p.MConnConfig(p2pConfig), trace.NoOpTracer())
	n.sw = p2p.NewSwitch(p2pConfig, transport)
	n.sw.SetLogger(log.NewNopLogger())
	n.reactor.SetLogger(log.NewNopLogger())
	n.sw.SetNodeInfo(info)
	n.sw.SetNodeKey(key)
	n.sw.AddReactor("MEMPOOL", n.reactor)
	address, err := p2p.NewNetAddressString(n.address)
	if err != nil {
		return err
	}
	if err := transport.Listen(*address); err != nil {
		return err
	}
	return n.sw.Start()
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (n *node) handleCommand(command line, answer *line) error {
	switch command.Is {
	case "dial":
		address, err := p2p.NewNetAddressString(command.Address)
		if err != nil {
			return err
		}
		return n.sw.DialPeerWithAddress(address)
	case "submit":
		for _, tx := range command.Txs {
			if err := n.submit(tx); err != nil {
				return err
			}
		}
		return nil
	case "commit":
		return n.commit(command)
	case "look":
		n.look(answer)
		return nil
	default:
		return fmt.Errorf("unknown command %q", command.Is)
	}
}

func (n *node) submit(tx types.Tx) error {
	var verdict *abci.ResponseCheckTx
	err := n.pool.CheckTx(tx, func(found *abci.ResponseCheckTx) { verdict = found }, mempool.TxInfo{})
	if err == nil && verdict.Code != abci.CodeTypeOK {
		err = errors.New(verdict.Log)
	}
	return err
}

func (n *node) commit(command line) error {
	txs, results := []*types.CachedTx{}, []*abci.ExecTxResult{}
	for _, tx := range command.Txs {
		n.ledger.commit(tx)
		txs = append(txs, types.Tx(tx).ToCachedTx())
		results = append(results, &abci.ExecTxResult{Code: abci.CodeTypeOK})
	}
	n.pool.Lock()
	defer n.pool.Unlock()
	return n.pool.Update(command.Height, txs, results, nil, nil)
}

func (n *node) look(answer *line) {
	for _, tx := range n.pool.ReapMaxTxs(-1) {
		key := tx.Key()
		answer.Keys = append(answer.Keys, hex.EncodeToString(key[:]))
	}
	n.ledger.lock.Lock()
	answer.Accepted, answer.Refused = append(answer.Accepted, n.ledger.accepted...), n.ledger.refused
	n.ledger.lock.Unlock()
	for _, peer := range n.sw.Peers().List() {
		answer.Peers = append(answer.Peers, string(peer.ID()))
	}
	answer.Received, answer.Metrics = n.reactor.received(), map[string]float64{}
	for name, counter := range n.counters {
		answer.Metrics[name] = counter.Value()
	}
}
