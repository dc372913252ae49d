package main

import (
	"encoding/binary"
	"sync"

	abci "github.com/tendermint/tendermint/abci/types"
)

// headerBytes is the length of the fields at the start of a transaction.
const headerBytes = 24

// The first bytes of transactions that are valid, and of those that the application rejects.
const valid, invalid = "tx+\x00", "tx-\x00"

// header is the start of a transaction.
type header struct {
	isValid                                 bool
	number, signer, sequence, priority, gas uint32
}

// headerOf reads the header of a transaction. It returns false for garbage.
func headerOf(tx []byte) (header, bool) {
	if len(tx) < headerBytes {
		return header{}, false
	}
	mark := string(tx[:4])
	word := func(place int) uint32 { return binary.LittleEndian.Uint32(tx[4+4*place:]) }
	found := header{mark == valid, word(0), word(1), word(2), word(3), word(4)}
	return found, mark == valid || mark == invalid
}

// ledger is the application of a host. It accepts every well-formed transaction whose sequence number no
// block has used.
type ledger struct {
	abci.BaseApplication
	lock sync.Mutex
	// The sequence numbers that blocks have used, by signer.
	used []map[uint32]bool
}

func newLedger(signers uint32) *ledger {
	l := &ledger{used: make([]map[uint32]bool, signers)}
	for signer := range l.used {
		l.used[signer] = map[uint32]bool{}
	}
	return l
}

func (l *ledger) CheckTx(request abci.RequestCheckTx) abci.ResponseCheckTx {
	found, isKnown := headerOf(request.Tx)
	l.lock.Lock()
	defer l.lock.Unlock()
	switch {
	case !isKnown:
		return abci.ResponseCheckTx{Code: 1, Log: "garbage"}
	case !found.isValid:
		return abci.ResponseCheckTx{Code: 2, Log: "invalid"}
	case int64(found.signer) < int64(len(l.used)) && l.used[found.signer][found.sequence]:
		return abci.ResponseCheckTx{Code: 3, Log: "sequence number is used"}
	}
	return abci.ResponseCheckTx{Priority: int64(found.priority), GasWanted: int64(found.gas)}
}

// account returns the signer and the sequence number that a block with this transaction uses, if any.
func (l *ledger) account(tx []byte) ([2]uint32, bool) {
	found, isKnown := headerOf(tx)
	return [2]uint32{found.signer, found.sequence}, isKnown && int64(found.signer) < int64(len(l.used))
}

// commit records the signers and sequence numbers that a block has used.
func (l *ledger) commit(accounts [][2]uint32) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, account := range accounts {
		if int64(account[0]) < int64(len(l.used)) {
			l.used[account[0]][account[1]] = true
		}
	}
}
