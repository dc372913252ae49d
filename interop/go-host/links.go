package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	// Maximum number of attempts to dial a host, and timeout of an attempt, since packets may be lost.
	dialTries   = 3
	dialTimeout = 15 * time.Second
	// Maximum time until the router has seen that a connection is gone.
	goneTime = time.Second
)

// links are the connections of a host.
type links struct {
	ctx   context.Context
	hosts *hosts
	host  host.Host
	// Returns whether the router has a stream to a peer.
	hasStream func(peer.ID) bool
}

// newLinks creates a host that does not listen yet.
func newLinks(ctx context.Context, l *listen, hosts *hosts) (*links, error) {
	transport := libp2p.Transport(tcp.NewTCPTransport, tcp.WithDialerForAddr(
		func(ma.Multiaddr) (tcp.ContextDialer, error) {
			// The emulated network knows the host by its address. With port 0 a link can be dialled
			// again at once, and from both of its ends.
			return &net.Dialer{LocalAddr: &net.TCPAddr{IP: l.address.Addr().AsSlice()}}, nil
		},
	))
	options := []libp2p.Option{transport}
	if l.brief.transport == "quic" {
		options = []libp2p.Option{
			libp2p.Transport(quic.NewTransport),
			libp2p.QUICReuse(quicreuse.NewConnManager, quicreuse.OverrideSourceIPSelector(
				func() (quicreuse.SourceIPSelector, error) {
					return source(l.address.Addr().AsSlice()), nil
				},
			)),
		}
	}
	h, err := libp2p.New(append(options,
		libp2p.Identity(l.token.key(l.host)),
		libp2p.NoListenAddrs,
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		libp2p.ConnectionGater(hosts),
		libp2p.DisableRelay(),
		libp2p.DisableMetrics(),
		// The default limits per address and subnet are for unknown peers, but all peers here are known.
		libp2p.ResourceManager(&network.NullResourceManager{}),
	)...)
	if err != nil {
		return nil, err
	}
	links := &links{ctx: ctx, hosts: hosts, host: h}
	if err := links.introduce(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return links, nil
}

// listen begins to listen. libp2p shares an address with other sockets: those of Samara's hosts dial from
// the port of all hosts, and could not if this one kept it for itself. So another listener is no error
// there.
func (l *links) listen(at netip.AddrPort) error {
	address := l.hosts.listening
	if _, err := address.ValueForProtocol(ma.P_TCP); err == nil {
		other, err := net.Listen("tcp", at.String())
		if err != nil {
			return err
		}
		if err := other.Close(); err != nil {
			return err
		}
	}
	return l.host.Network().Listen(address)
}

// source is the address from which a host dials with QUIC.
type source net.IP

func (s source) PreferredSourceIPForDestination(*net.UDPAddr) (net.IP, error) {
	return net.IP(s), nil
}

// introduce tells the router of peers without the protocol identify, which Samara's hosts lack. The
// router would not speak with them otherwise.
func (l *links) introduce() error {
	failed, err := l.host.EventBus().Subscribe(new(event.EvtPeerIdentificationFailed))
	if err != nil {
		return err
	}
	updated, err := l.host.EventBus().Emitter(new(event.EvtPeerProtocolsUpdated))
	if err != nil {
		return err
	}
	go func() {
		defer failed.Close()
		defer updated.Close()
		for {
			select {
			case <-l.ctx.Done():
				return
			case found := <-failed.Out():
				name := found.(event.EvtPeerIdentificationFailed).Peer
				// The stream negotiates the version.
				update := event.EvtPeerProtocolsUpdated{Peer: name, Added: pubsub.GossipSubDefaultProtocols}
				if err := updated.Emit(update); err != nil {
					log.Printf("cannot introduce %s: %v", name, err)
				}
			}
		}
	}()
	return nil
}

// dial connects to a host in the background.
func (l *links) dial(number uint32) {
	name, address := l.hosts.names[number], l.hosts.addresses[number]
	l.host.Peerstore().AddAddr(name, address, peerstore.PermanentAddrTTL)
	go func() {
		for try := 1; try <= dialTries; try++ {
			if swarm, isSwarm := l.host.Network().(*swarm.Swarm); isSwarm {
				swarm.Backoff().Clear(name)
			}
			ctx, cancel := context.WithTimeout(l.ctx, dialTimeout)
			err := l.host.Connect(ctx, peer.AddrInfo{ID: name})
			cancel()
			if err == nil || l.ctx.Err() != nil {
				return
			}
			log.Printf("dialling host %d, attempt %d of %d: %v", number, try, dialTries, err)
			if errors.Is(err, syscall.ECONNREFUSED) {
				// The host is down. It dials when it starts again.
				return
			}
		}
	}()
}

// reconnect closes the connections to a host, and dials it when they are gone.
func (l *links) reconnect(number uint32) {
	name := l.hosts.names[number]
	if err := l.host.Network().ClosePeer(name); err != nil {
		log.Printf("closing the connection to host %d: %v", number, err)
	}
	go func() {
		for end := time.Now().Add(goneTime); l.hasStream(name) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		l.dial(number)
	}()
}
