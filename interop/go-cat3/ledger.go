package main

import (
	"context"
	"encoding/binary"
	"sync"

	abci "github.com/cometbft/cometbft/abci/types"
)

// headerBytes is the length of the fields at the start of a transaction.
const headerBytes = 24

// signerBytes is the length of a signer's name.
const signerBytes = 20

// ledger is the application of a node. It accepts the transactions of a signer in the order of their
// sequence numbers, as the Cosmos SDK does.
type ledger struct {
	abci.BaseApplication
	lock sync.Mutex
	// The next sequence number of each signer.
	next map[uint32]uint32
	// The signers and sequence numbers of accepted transactions, in the order of acceptance.
	accepted [][2]uint32
	refused  int
}

// accountOf returns the signer and the sequence number of a transaction, or false if it has none.
func accountOf(tx []byte) (signer, sequence uint32, isKnown bool) {
	if len(tx) < headerBytes || string(tx[:4]) != "tx+\x00" {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(tx[8:]), binary.LittleEndian.Uint32(tx[12:]), true
}

func nameOf(signer uint32) []byte {
	name := binary.LittleEndian.AppendUint32(nil, signer)
	return append(name, make([]byte, signerBytes-len(name))...)
}

func (l *ledger) CheckTx(_ context.Context, request *abci.RequestCheckTx) (*abci.ResponseCheckTx, error) {
	signer, sequence, isKnown := accountOf(request.Tx)
	l.lock.Lock()
	defer l.lock.Unlock()
	isNew := request.Type == abci.CheckTxType_New
	switch next := l.next[signer]; {
	case !isKnown:
		l.refused++
		return &abci.ResponseCheckTx{Code: 1, Log: "garbage"}, nil
	case isNew && sequence != next:
		l.refused++
		return &abci.ResponseCheckTx{Code: 32, Log: "account sequence mismatch"}, nil
	case isNew:
		l.next[signer]++
		l.accepted = append(l.accepted, [2]uint32{signer, sequence})
	}
	return &abci.ResponseCheckTx{GasWanted: 1, Address: nameOf(signer), Sequence: uint64(sequence)}, nil
}

func (l *ledger) QuerySequence(_ context.Context, request *abci.RequestQuerySequence) (*abci.ResponseQuerySequence, error) {
	if len(request.Signer) != signerBytes {
		return nil, nil
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	return &abci.ResponseQuerySequence{Sequence: uint64(l.next[binary.LittleEndian.Uint32(request.Signer)])}, nil
}

// commit records that a block has a transaction.
func (l *ledger) commit(tx []byte) {
	signer, sequence, isKnown := accountOf(tx)
	if !isKnown {
		return
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.next[signer] = max(l.next[signer], sequence+1)
}
