package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	tmlog "github.com/tendermint/tendermint/libs/log"
	"github.com/tendermint/tendermint/libs/protoio"
	"github.com/tendermint/tendermint/p2p"
	"github.com/tendermint/tendermint/p2p/conn"
	protomem "github.com/tendermint/tendermint/proto/tendermint/mempool"
	tmp2p "github.com/tendermint/tendermint/proto/tendermint/p2p"
	"github.com/tendermint/tendermint/version"
)

const (
	// The network of all hosts. Other runs have other keys.
	network = "samara"
	// Maximum number of attempts to dial a host, and timeout of an attempt, since packets may be lost.
	dialTries   = 3
	dialTimeout = 15 * time.Second
	// Time for links to send what they have.
	drainTime = time.Second
)

// links are the connections of a host: secret connections and MConnections of celestia-core. Its transport
// dials from any address, and the emulated network knows hosts by theirs; so sockets are opened here, and
// links kept here in place of its switch.
type links struct {
	ctx      context.Context
	hosts    *hosts
	pool     *pool
	config   conn.MConnConfig
	channels []*conn.ChannelDescriptor
	info     p2p.DefaultNodeInfo
	listener net.Listener
	// Bytes on the sockets.
	sent, received atomic.Uint64
	// Closed when the run begins. Connections of others wait until then.
	begun chan struct{}

	lock    sync.Mutex
	isEnded bool
	up      map[uint32]*link
}

// link is a connection to a host. The reactor knows it as its peer; the methods that it does not call are
// missing.
type link struct {
	p2p.Peer
	number     uint32
	isOutbound bool
	info       p2p.DefaultNodeInfo
	mconn      *conn.MConnection
	pool       *pool
}

func (l *link) ID() p2p.ID             { return l.info.DefaultNodeID }
func (l *link) Get(string) interface{} { return nil }

// Send waits for room in the queue of the channel, for at most ten seconds.
func (l *link) Send(channel byte, message []byte) bool {
	if !l.info.HasChannel(channel) {
		return false
	}
	return l.pool.send(l, message, func() bool { return l.mconn.Send(channel, message) })
}

// socket counts bytes.
type socket struct {
	net.Conn
	links *links
}

func (s socket) Read(data []byte) (int, error) {
	n, err := s.Conn.Read(data)
	s.links.received.Add(uint64(n))
	return n, err
}

func (s socket) Write(data []byte) (int, error) {
	n, err := s.Conn.Write(data)
	s.links.sent.Add(uint64(n))
	return n, err
}

// newLinks begins to listen.
func newLinks(ctx context.Context, hosts *hosts, pool *pool, config conn.MConnConfig) (*links, error) {
	listener, err := net.Listen("tcp", hosts.listening.String())
	if err != nil {
		return nil, err
	}
	l := &links{
		ctx: ctx, hosts: hosts, pool: pool, config: config, channels: pool.reactor.GetChannels(),
		listener: listener, begun: make(chan struct{}), up: map[uint32]*link{},
	}
	l.info = p2p.DefaultNodeInfo{
		ProtocolVersion: p2p.NewProtocolVersion(version.P2PProtocol, version.BlockProtocol, 0),
		DefaultNodeID:   hosts.ids[hosts.own],
		ListenAddr:      hosts.listening.String(),
		Network:         network,
		Version:         "1.16.0",
		Moniker:         "celestia-core",
	}
	for _, channel := range l.channels {
		l.info.Channels = append(l.info.Channels, channel.ID)
	}
	go l.accept()
	return l, nil
}

func (l *links) begin() { close(l.begun) }

func (l *links) accept() {
	for {
		accepted, err := l.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			select {
			case <-l.begun:
			case <-l.ctx.Done():
				accepted.Close()
				return
			}
			if err := l.open(accepted, nil); err != nil {
				log.Printf("a connection from %s: %v", accepted.RemoteAddr(), err)
			}
		}()
	}
}

// dial connects to a host in the background.
func (l *links) dial(number uint32) {
	go func() {
		// The emulated network knows the host by its address. With port 0 a link can be dialled again at
		// once, and from both of its ends.
		own := &net.TCPAddr{IP: l.hosts.listening.Addr().AsSlice()}
		dialer := net.Dialer{LocalAddr: own, Timeout: dialTimeout}
		for try := 1; try <= dialTries; try++ {
			dialled, err := dialer.DialContext(l.ctx, "tcp", l.hosts.addresses[number].String())
			if err == nil {
				err = l.open(dialled, &number)
			}
			if err == nil || l.ctx.Err() != nil {
				return
			}
			log.Printf("dialling host %d, attempt %d of %d: %v", number, try, dialTries, err)
			if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errDuplicate) {
				// The host is down and dials when it starts again, or there is a link.
				return
			}
		}
	}()
}

// reconnect loses the link to a host, and dials it again.
func (l *links) reconnect(number uint32) {
	l.lock.Lock()
	if link := l.up[number]; link != nil {
		l.takeDown(link)
	}
	l.lock.Unlock()
	l.dial(number)
}

// open makes a link of a connection, which was either accepted or dialled to reach a host.
func (l *links) open(raw net.Conn, expected *uint32) error {
	err := l.greet(raw, expected)
	if err != nil {
		raw.Close()
	}
	return err
}

func (l *links) greet(raw net.Conn, expected *uint32) error {
	if err := raw.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	secret, err := conn.MakeSecretConnection(socket{raw, l}, l.hosts.key)
	if err != nil {
		return err
	}
	id := p2p.PubKeyToID(secret.RemotePubKey())
	number, isHost := l.hosts.numbers[id]
	if !isHost || number == l.hosts.own || expected != nil && number != *expected {
		return fmt.Errorf("%s is no host of this run, or another one", id)
	}
	info, err := l.exchange(secret)
	if err != nil {
		return err
	}
	if err := info.Validate(); err != nil {
		return err
	}
	if info.DefaultNodeID != id {
		return fmt.Errorf("host %d calls itself %s", number, info.DefaultNodeID)
	}
	if err := l.info.CompatibleWith(info); err != nil {
		return err
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return l.bringUp(&link{number: number, isOutbound: expected != nil, info: info, pool: l.pool}, secret)
}

// exchange sends the own node info, and returns that of the peer.
func (l *links) exchange(secret *conn.SecretConnection) (p2p.DefaultNodeInfo, error) {
	written := make(chan error, 1)
	go func() {
		_, err := protoio.NewDelimitedWriter(secret).WriteMsg(l.info.ToProto())
		written <- err
	}()
	var found tmp2p.DefaultNodeInfo
	_, err := protoio.NewDelimitedReader(secret, p2p.MaxNodeInfoSize()).ReadMsg(&found)
	if err = errors.Join(err, <-written); err != nil {
		return p2p.DefaultNodeInfo{}, err
	}
	return p2p.DefaultNodeInfoFromToProto(&found)
}

var errDuplicate = errors.New("there is another link to this host")

// bringUp adds a link. Of two links, both ends keep the one that the smaller number dialled. If the same
// host dialled again, it has lost the older one.
func (l *links) bringUp(new *link, secret *conn.SecretConnection) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.isEnded {
		return net.ErrClosed
	}
	dialler := func(link *link) uint32 {
		if link.isOutbound {
			return l.hosts.own
		}
		return link.number
	}
	if old := l.up[new.number]; old != nil {
		if dialler(new) > dialler(old) {
			return errDuplicate
		}
		l.takeDown(old)
	}
	receive := func(channel byte, bytes []byte) { l.receive(new, channel, bytes) }
	failed := func(why interface{}) { l.lose(new, why) }
	new.mconn = conn.NewMConnectionWithConfig(secret, l.channels, receive, failed, l.config)
	new.mconn.SetLogger(tmlog.NewNopLogger())
	l.pool.reactor.InitPeer(new)
	l.up[new.number] = new
	if err := new.mconn.Start(); err != nil {
		l.takeDown(new)
		return err
	}
	l.pool.reactor.AddPeer(new)
	return nil
}

func (l *links) receive(from *link, channel byte, bytes []byte) {
	message := &protomem.Message{}
	err := message.Unmarshal(bytes)
	if err == nil {
		err = l.pool.receive(from, channel, message, len(bytes))
	}
	if err != nil {
		l.lose(from, err)
	}
}

// lose ends a link that has failed.
func (l *links) lose(link *link, why interface{}) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.up[link.number] == link {
		log.Printf("the link to host %d: %v", link.number, why)
		l.takeDown(link)
	}
}

// takeDown ends a link. The caller holds the lock.
func (l *links) takeDown(link *link) {
	delete(l.up, link.number)
	// Fails only if it has stopped by itself.
	_ = link.mconn.Stop()
	l.pool.reactor.RemovePeer(link, nil)
}

// flush ends all links as soon as they have sent what they have.
func (l *links) flush() {
	var all sync.WaitGroup
	for _, link := range l.take() {
		all.Go(link.mconn.FlushStop)
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainTime):
	}
}

// end ends all links.
func (l *links) end() {
	for _, link := range l.take() {
		// Fails only if it has stopped by itself.
		_ = link.mconn.Stop()
	}
}

// take stops listening, and returns all links.
func (l *links) take() map[uint32]*link {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.isEnded = true
	// Fails only if it was closed before.
	_ = l.listener.Close()
	up := l.up
	l.up = map[uint32]*link{}
	return up
}
