package main

import (
	"sync"

	"github.com/cometbft/cometbft/mempool/cat"
	"github.com/cometbft/cometbft/p2p"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
)

// observed wraps the real reactor, counts what it is about to receive, and reports its peers.
type observed struct {
	*cat.Reactor
	lock  sync.Mutex
	kinds map[string]int
}

// QueueUnprocessedEnvelope is how the switch hands a message to a reactor.
func (o *observed) QueueUnprocessedEnvelope(e p2p.UnprocessedEnvelope) {
	kind := kindOf(e.Message)
	o.lock.Lock()
	o.kinds[kind]++
	o.lock.Unlock()
	o.Reactor.TryQueueUnprocessedEnvelope(e)
}

func (o *observed) AddPeer(peer p2p.Peer) {
	writeLine(line{Is: "up", Peer: string(peer.ID())})
	o.Reactor.AddPeer(peer)
}

func (o *observed) RemovePeer(peer p2p.Peer, reason interface{}) {
	why := ""
	if err, is := reason.(error); is {
		why = err.Error()
	}
	writeLine(line{Is: "down", Peer: string(peer.ID()), Error: why})
	o.Reactor.RemovePeer(peer, reason)
}

func (o *observed) received() map[string]int {
	o.lock.Lock()
	defer o.lock.Unlock()
	kinds := map[string]int{}
	for kind, count := range o.kinds {
		kinds[kind] = count
	}
	return kinds
}

func kindOf(data []byte) string {
	message := &protomem.Message{}
	if err := message.Unmarshal(data); err != nil {
		return "garbage"
	}
	switch message.Sum.(type) {
	case *protomem.Message_Txs:
		return "txs"
	case *protomem.Message_SeenTx:
		return "seen_tx"
	case *protomem.Message_WantTx:
		return "want_tx"
	default:
		return "unknown"
	}
}
