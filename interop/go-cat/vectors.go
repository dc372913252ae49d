package main

import (
	"fmt"

	"github.com/gogo/protobuf/proto"
	protomem "github.com/tendermint/tendermint/proto/tendermint/mempool"
)

func marshal(message *protomem.Message) []byte {
	bytes, err := message.Marshal()
	if err != nil {
		panic(err)
	}
	return bytes
}

// encode returns the bytes of a message as celestia-core writes them.
func encode(command line, answer *line) error {
	message := &protomem.Message{}
	switch command.Kind {
	case "txs":
		message.Sum = &protomem.Message_Txs{Txs: &protomem.Txs{Txs: command.Txs}}
	case "seen_tx":
		message.Sum = &protomem.Message_SeenTx{SeenTx: &protomem.SeenTx{TxKey: command.Data}}
	case "want_tx":
		message.Sum = &protomem.Message_WantTx{WantTx: &protomem.WantTx{TxKey: command.Data}}
	default:
		return fmt.Errorf("unknown kind %q", command.Kind)
	}
	answer.Kind, answer.Data = command.Kind, marshal(message)
	return nil
}

// decode returns the message that celestia-core reads from bytes.
func decode(command line, answer *line) error {
	message := &protomem.Message{}
	if err := proto.Unmarshal(command.Data, message); err != nil {
		return err
	}
	switch sum := message.Sum.(type) {
	case *protomem.Message_Txs:
		answer.Kind, answer.Txs = "txs", sum.Txs.Txs
	case *protomem.Message_SeenTx:
		answer.Kind, answer.Data = "seen_tx", sum.SeenTx.TxKey
	case *protomem.Message_WantTx:
		answer.Kind, answer.Data = "want_tx", sum.WantTx.TxKey
	default:
		return fmt.Errorf("found no known message")
	}
	return nil
}
