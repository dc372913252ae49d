package main

import (
	"github.com/gogo/protobuf/proto"
	"github.com/tendermint/tendermint/mempool/cat"
	"github.com/tendermint/tendermint/p2p"
	protomem "github.com/tendermint/tendermint/proto/tendermint/mempool"
)

// observed wraps the real reactor and reports everything that it is about to receive.
type observed struct {
	*cat.Reactor
	swallow bool
}

func (o *observed) ReceiveEnvelope(e p2p.Envelope) {
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
	writeLine(what)
	if o.swallow && what.Kind == "want_tx" {
		return
	}
	o.Reactor.ReceiveEnvelope(e)
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

// Receive is the old interface, through which the switch calls the reactor.
func (o *observed) Receive(channel byte, peer p2p.Peer, bytes []byte) {
	message := &protomem.Message{}
	if err := proto.Unmarshal(bytes, message); err != nil {
		panic(err)
	}
	inner, err := message.Unwrap()
	if err != nil {
		panic(err)
	}
	o.ReceiveEnvelope(p2p.Envelope{ChannelID: channel, Src: peer, Message: inner})
}
