package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
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
func (t *token) key(host uint32) crypto.PrivKey {
	seed := sha256.New()
	seed.Write([]byte("the key of a host of a run"))
	seed.Write(t[:])
	seed.Write(binary.LittleEndian.AppendUint32(nil, host))
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed.Sum(nil)))
	if err != nil {
		panic(err)
	}
	return key
}

// hosts has the hosts of a run by number. As a gater of connections, it accepts no others.
type hosts struct {
	own uint32
	// Where this host listens.
	listening ma.Multiaddr
	names     []peer.ID
	// Where this host dials each.
	addresses []ma.Multiaddr
	numbers   map[peer.ID]uint32
	ctx       context.Context
	// Closed when the run begins. Connections of others wait until then.
	begun chan struct{}
}

func newHosts(ctx context.Context, l *listen) (*hosts, error) {
	h := &hosts{own: l.host, numbers: map[peer.ID]uint32{}, ctx: ctx, begun: make(chan struct{})}
	if int64(l.host) >= int64(len(l.peers)) {
		return nil, fmt.Errorf("host: found %d, expected a number below %d", l.host, len(l.peers))
	}
	var err error
	if h.listening, err = multiaddr(l.address, l.brief.transport); err != nil {
		return nil, err
	}
	for number, at := range l.peers {
		name, err := peer.IDFromPrivateKey(l.token.key(uint32(number)))
		if err != nil {
			return nil, err
		}
		address, err := multiaddr(at, l.brief.transport)
		if err != nil {
			return nil, err
		}
		h.names = append(h.names, name)
		h.addresses = append(h.addresses, address)
		h.numbers[name] = uint32(number)
	}
	return h, nil
}

// multiaddr returns the address of a socket, with the protocols above it.
func multiaddr(at netip.AddrPort, transport string) (ma.Multiaddr, error) {
	version := "ip4"
	if at.Addr().Is6() {
		version = "ip6"
	}
	switch transport {
	case "tcp":
		return ma.NewMultiaddr(fmt.Sprintf("/%s/%s/tcp/%d", version, at.Addr(), at.Port()))
	case "quic":
		return ma.NewMultiaddr(fmt.Sprintf("/%s/%s/udp/%d/quic-v1", version, at.Addr(), at.Port()))
	}
	return nil, fmt.Errorf("brief.transport: found %q, expected tcp or quic", transport)
}

// check returns an error if there is no such other host.
func (h *hosts) check(host uint32) error {
	if int64(host) >= int64(len(h.names)) || host == h.own {
		return fmt.Errorf("host: found %d, expected another number below %d", host, len(h.names))
	}
	return nil
}

func (h *hosts) isHost(name peer.ID) bool {
	_, isHost := h.numbers[name]
	return isHost
}

func (h *hosts) InterceptPeerDial(name peer.ID) bool { return h.isHost(name) }

// InterceptAddrDial allows the address in the emulated network. Hosts also announce those at which they
// listen, to which packets would go past the emulated links.
func (h *hosts) InterceptAddrDial(name peer.ID, address ma.Multiaddr) bool {
	number, isHost := h.numbers[name]
	return isHost && address.Equal(h.addresses[number])
}

func (h *hosts) InterceptAccept(network.ConnMultiaddrs) bool {
	select {
	case <-h.begun:
		return true
	case <-h.ctx.Done():
		return false
	}
}

func (h *hosts) InterceptSecured(_ network.Direction, name peer.ID, _ network.ConnMultiaddrs) bool {
	return h.isHost(name)
}

func (h *hosts) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
