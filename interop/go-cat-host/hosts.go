package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"

	stded25519 "crypto/ed25519"

	"github.com/tendermint/tendermint/crypto/ed25519"
	"github.com/tendermint/tendermint/p2p"
)

// token is a secret of a run, from which the names of its hosts follow.
type token [16]byte

func (t *token) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(t)) {
		return fmt.Errorf("found %d characters, expected %d", len(text), hex.EncodedLen(len(t)))
	}
	_, err := hex.Decode(t[:], text)
	return err
}

// key returns the key of a host.
func (t *token) key(host uint32) ed25519.PrivKey {
	seed := sha256.New()
	seed.Write([]byte("the key of a host of a run"))
	seed.Write(t[:])
	seed.Write(binary.LittleEndian.AppendUint32(nil, host))
	return ed25519.PrivKey(stded25519.NewKeyFromSeed(seed.Sum(nil)))
}

// hosts has the hosts of a run by number.
type hosts struct {
	own uint32
	key ed25519.PrivKey
	// Where this host listens.
	listening netip.AddrPort
	ids       []p2p.ID
	// Where this host dials each.
	addresses []netip.AddrPort
	numbers   map[p2p.ID]uint32
}

func newHosts(l *listen) (*hosts, error) {
	if int64(l.host) >= int64(len(l.peers)) {
		return nil, fmt.Errorf("host: found %d, expected a number below %d", l.host, len(l.peers))
	}
	h := &hosts{
		own: l.host, key: l.token.key(l.host), listening: l.address, addresses: l.peers,
		numbers: map[p2p.ID]uint32{},
	}
	for number := range uint32(len(l.peers)) {
		id := p2p.PubKeyToID(l.token.key(number).PubKey())
		h.ids = append(h.ids, id)
		h.numbers[id] = number
	}
	return h, nil
}

// check returns an error if there is no such other host.
func (h *hosts) check(host uint32) error {
	if int64(host) >= int64(len(h.ids)) || host == h.own {
		return fmt.Errorf("host: found %d, expected another number below %d", host, len(h.ids))
	}
	return nil
}
