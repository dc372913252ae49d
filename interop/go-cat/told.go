package main

import (
	"github.com/gogo/protobuf/proto"
	"github.com/tendermint/tendermint/mempool/cat"
	"github.com/tendermint/tendermint/p2p"
	protomem "github.com/tendermint/tendermint/proto/tendermint/mempool"
)

// The real reactor, with a look at everything that it is about to receive.
type told struct {
	*cat.Reactor
	swallow bool
}

func (t *told) ReceiveEnvelope(e p2p.Envelope) {
	what := line{Is: "received", Peer: string(e.Src.ID())}
	switch message := e.Message.(type) {
	case *protomem.Txs:
		what.Kind = "txs"
		what.Data = marshal(&protomem.Message{Sum: &protomem.Message_Txs{Txs: message}})
	case *protomem.SeenTx:
		what.Kind = "seen_tx"
		what.Data = marshal(&protomem.Message{Sum: &protomem.Message_SeenTx{SeenTx: message}})
	case *protomem.WantTx:
		what.Kind = "want_tx"
		what.Data = marshal(&protomem.Message{Sum: &protomem.Message_WantTx{WantTx: message}})
	}
	tell(what)
	if t.swallow && what.Kind == "want_tx" {
		return
	}
	t.Reactor.ReceiveEnvelope(e)
}

func (t *told) AddPeer(peer p2p.Peer) {
	tell(line{Is: "up", Peer: string(peer.ID())})
	t.Reactor.AddPeer(peer)
}

func (t *told) RemovePeer(peer p2p.Peer, reason interface{}) {
	why := ""
	if err, is := reason.(error); is {
		why = err.Error()
	}
	tell(line{Is: "down", Peer: string(peer.ID()), Error: why})
	t.Reactor.RemovePeer(peer, reason)
}

// The switch asks for this one where it calls the old interface.
func (t *told) Receive(channel byte, peer p2p.Peer, bytes []byte) {
	message := &protomem.Message{}
	if err := proto.Unmarshal(bytes, message); err != nil {
		panic(err)
	}
	inner, err := message.Unwrap()
	if err != nil {
		panic(err)
	}
	t.ReceiveEnvelope(p2p.Envelope{ChannelID: channel, Src: peer, Message: inner})
}
