package main

import (
	"fmt"
	"net"

	"github.com/go-kit/kit/metrics/discard"
	"github.com/go-kit/kit/metrics/generic"
	"github.com/tendermint/tendermint/abci/example/kvstore"
	abci "github.com/tendermint/tendermint/abci/types"
	"github.com/tendermint/tendermint/config"
	"github.com/tendermint/tendermint/crypto/ed25519"
	"github.com/tendermint/tendermint/libs/log"
	"github.com/tendermint/tendermint/mempool"
	"github.com/tendermint/tendermint/mempool/cat"
	"github.com/tendermint/tendermint/p2p"
	"github.com/tendermint/tendermint/proxy"
	"github.com/tendermint/tendermint/types"
	"github.com/tendermint/tendermint/version"
)

type node struct {
	id       p2p.ID
	address  string
	pool     *cat.TxPool
	sw       *p2p.Switch
	counters map[string]*generic.Counter
}

func start(c choices) (*node, error) {
	n := &node{counters: map[string]*generic.Counter{}}
	counter := func(name string) *generic.Counter {
		n.counters[name] = generic.NewCounter(name)
		return n.counters[name]
	}
	metrics := &mempool.Metrics{
		Size:           discard.NewGauge(),
		TxSizeBytes:    discard.NewHistogram(),
		FailedTxs:      counter("failed_txs"),
		EvictedTxs:     counter("evicted_txs"),
		SuccessfulTxs:  counter("successful_txs"),
		RecheckTimes:   counter("recheck_times"),
		AlreadySeenTxs: counter("already_seen_txs"),
		RequestedTxs:   counter("requested_txs"),
		RerequestedTxs: counter("rerequested_txs"),
	}
	client, err := proxy.NewLocalClientCreator(kvstore.NewApplication()).NewABCIClient()
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	poolConfig := config.DefaultMempoolConfig()
	poolConfig.Size = c.pool
	n.pool = cat.NewTxPool(log.NewNopLogger(), poolConfig, client, 1, cat.WithMetrics(metrics))
	real, err := cat.NewReactor(n.pool, &cat.ReactorOptions{MaxGossipDelay: c.timeout})
	if err != nil {
		return nil, err
	}
	return n, n.connect(c, &observed{Reactor: real, swallow: c.swallow})
}

// connect starts the real transport and the real switch, with the channels of the reactor in the
// node info.
func (n *node) connect(c choices, reactor *observed) error {
	key := p2p.NodeKey{PrivKey: ed25519.GenPrivKey()}
	port, err := freePort()
	if err != nil {
		return err
	}
	n.id = key.ID()
	n.address = p2p.IDAddressString(n.id, fmt.Sprintf("127.0.0.1:%d", port))
	info := p2p.DefaultNodeInfo{
		ProtocolVersion: p2p.NewProtocolVersion(version.P2PProtocol, version.BlockProtocol, 0),
		DefaultNodeID:   n.id,
		ListenAddr:      fmt.Sprintf("127.0.0.1:%d", port),
		Network:         c.network,
		Version:         "1.16.0",
		Moniker:         "celestia-core",
	}
	for _, channel := range reactor.GetChannels() {
		info.Channels = append(info.Channels, channel.ID)
	}
	p2pConfig := config.DefaultP2PConfig()
	p2pConfig.FlushThrottleTimeout = c.flush
	p2pConfig.AllowDuplicateIP = true
	connection := p2p.MConnConfig(p2pConfig)
	connection.PingInterval, connection.PongTimeout = c.ping, c.ping/2
	transport := p2p.NewMultiplexTransport(info, key, connection)
	n.sw = p2p.NewSwitch(p2pConfig, transport)
	n.sw.SetLogger(log.NewNopLogger())
	n.sw.SetNodeInfo(info)
	n.sw.SetNodeKey(&key)
	n.sw.AddReactor("MEMPOOL", reactor)
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
	case "disconnect":
		if peer := n.sw.Peers().Get(p2p.ID(command.Peer)); peer != nil {
			n.sw.StopPeerGracefully(peer)
		}
		return nil
	case "submit":
		for _, tx := range command.Txs {
			if err := n.pool.CheckTx(tx, nil, mempool.TxInfo{}); err != nil {
				return err
			}
		}
		return nil
	case "commit":
		return n.commit(command)
	case "announce":
		for _, peer := range n.sw.Peers().List() {
			peer.Send(cat.MempoolStateChannel, command.Data)
		}
		return nil
	case "look":
		n.look(answer)
		return nil
	case "encode":
		return encode(command, answer)
	case "decode":
		return decode(command, answer)
	default:
		return fmt.Errorf("unknown command %q", command.Is)
	}
}

func (n *node) commit(command line) error {
	txs, results := types.Txs{}, []*abci.ResponseDeliverTx{}
	for _, tx := range command.Txs {
		txs = append(txs, tx)
		results = append(results, &abci.ResponseDeliverTx{Code: abci.CodeTypeOK})
	}
	return n.pool.Update(command.Height, txs, results, nil, nil)
}

func (n *node) look(answer *line) {
	for _, tx := range n.pool.ReapMaxTxs(-1) {
		key := tx.Key()
		answer.Keys = append(answer.Keys, hexOf(key[:]))
	}
	for _, peer := range n.sw.Peers().List() {
		answer.Peers = append(answer.Peers, string(peer.ID()))
	}
	answer.Metrics = map[string]float64{}
	for name, counter := range n.counters {
		answer.Metrics[name] = counter.Value()
	}
}
