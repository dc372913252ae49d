package main

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
)

// linksOf returns the links of a host that listens.
func linksOf(t *testing.T, transport, secret string, host int, at []string) *links {
	t.Helper()
	l := listen{host: uint32(host), address: netip.MustParseAddrPort(at[host]), brief: brief{transport: transport}}
	if err := l.token.UnmarshalText([]byte(secret)); err != nil {
		t.Fatal(err)
	}
	for _, peer := range at {
		l.peers = append(l.peers, netip.MustParseAddrPort(peer))
	}
	ctx, cancel := context.WithCancel(context.Background())
	hosts, err := newHosts(ctx, &l)
	if err != nil {
		t.Fatal(err)
	}
	close(hosts.begun)
	links, err := newLinks(ctx, &l, hosts)
	if err != nil {
		t.Fatal(err)
	}
	if err := links.listen(l.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		links.host.Close()
	})
	return links
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestHostsDialFromTheirOwnAddress(t *testing.T) {
	for _, transport := range []string{"tcp", "quic"} {
		at := addresses(t, transport, 3)
		dialler, listener := linksOf(t, transport, secret, 0, at), linksOf(t, transport, secret, 2, at)
		dialler.dial(2)
		conns := func() []network.Conn { return listener.host.Network().ConnsToPeer(dialler.host.ID()) }
		eventually(t, "no connection with "+transport, func() bool { return len(conns()) > 0 })
		found := conns()[0].RemoteMultiaddr()
		if ip, err := found.ValueForProtocol(4); err != nil || ip != "127.77.0.1" {
			t.Errorf("found a dial from %s, expected 127.77.0.1", found)
		}
	}
}

func TestHostsAcceptTheirRunOnly(t *testing.T) {
	for _, transport := range []string{"tcp", "quic"} {
		at := addresses(t, transport, 2)
		listener := linksOf(t, transport, secret, 0, at)
		stranger := linksOf(t, transport, "ff0102030405060708090a0b0c0d0e0f", 1, at)
		// The stranger knows the name of the host, but not the secret of its run.
		stranger.hosts.numbers[listener.host.ID()] = 0
		stranger.hosts.names[0] = listener.host.ID()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		info := stranger.host.Peerstore().PeerInfo(listener.host.ID())
		info.ID = listener.host.ID()
		info.Addrs = append(info.Addrs, listener.hosts.addresses[0])
		err := stranger.host.Connect(ctx, info)
		if err == nil {
			_, err = stranger.host.NewStream(ctx, info.ID, identify.ID)
		}
		if err == nil || len(listener.host.Network().Peers()) != 0 {
			t.Errorf("found a stranger among the peers with %s: %v", transport, err)
		}
	}
}

// Samara's hosts have no identify.
func TestHostsSpeakWithPeersWithoutIdentify(t *testing.T) {
	at := addresses(t, "tcp", 2)
	host := start(t)
	host.order("%s", listenOrder(at, 0, "tcp", stream))
	host.answer("ready")
	host.order(`{"begin":{"at_unix_ns":%d}}`, time.Now().UnixNano())
	peer := linksOf(t, "tcp", secret, 1, at)
	peer.host.RemoveStreamHandler(identify.ID)
	heard := make(chan string, 1)
	peer.host.SetStreamHandler(pubsub.GossipSubID_v12, func(stream network.Stream) {
		data := make([]byte, 64)
		n, _ := stream.Read(data)
		heard <- fmt.Sprintf("%q", data[:n])
	})
	peer.dial(0)
	select {
	case <-heard:
	case <-time.After(patience):
		t.Error("found no stream of the router")
	}
}

// The names of hosts are those of samara-hosts (src/swarm.rs).
func TestNamesFollowFromTheToken(t *testing.T) {
	l := listen{}
	if err := l.token.UnmarshalText([]byte("07070707070707070707070707070707")); err != nil {
		t.Fatal(err)
	}
	raw, err := l.token.key(2).GetPublic().Raw()
	if err != nil || len(raw) != 32 {
		t.Fatal(err)
	}
	// Computed with OpenSSL.
	expected := "ac31308838ba0e6f82e929857b0a4d8f422363d1d6cbd57e3bf91a2ccd60045b"
	if found := fmt.Sprintf("%x", raw); found != expected {
		t.Errorf("found %s, expected %s", found, expected)
	}
}
