package main

import (
	"fmt"
	"io"
	"sort"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"
)

// counters counts the events that the router reports.
type counters struct {
	id func(*pb.Message) string

	lock      sync.Mutex
	protocols map[peer.ID]protocol.ID
	meshes    map[string]map[peer.ID]bool
	published, delivered, duplicates,
	rejected, undeliverable, droppedRPCs,
	receivedRPCs, answers,
	// Of cells: received cells, headers and metadata, cells that the mempools lacked, and columns that
	// they completed.
	receivedCells, headers, partsMetadata,
	missingCells, localColumns,
	// Partial messages, bodies or answers without effect.
	unknownGroups, earlyBodies, droppedBodies, refusedAnswers uint64
	up, down traffic
	// The ids that the last RPC requested. The router answers before it reads the next RPC.
	requester peer.ID
	requested map[string]bool
}

// traffic counts bytes of RPCs, without lengths, Noise, Yamux, QUIC and TCP.
type traffic struct{ payload, control uint64 }

func (t *traffic) add(rpc *pubsub.RPC) {
	payload := 0
	for _, message := range rpc.Publish {
		payload += len(message.Data)
	}
	payload += len(rpc.GetPartial().GetPartialMessage())
	t.payload += uint64(payload)
	t.control += uint64(size(rpc) - payload)
}

// size returns the length of an RPC. Its type has a method for that up to v0.18, and is a message of
// google.golang.org/protobuf since.
func size(rpc *pubsub.RPC) int {
	switch message := any(&rpc.RPC).(type) {
	case interface{ Size() int }:
		return message.Size()
	case proto.Message:
		return proto.Size(message)
	}
	panic("RPCs of this release of go-libp2p-pubsub have no known type")
}

func newCounters() *counters {
	return &counters{
		id:        pubsub.DefaultMsgIdFn,
		protocols: map[peer.ID]protocol.ID{},
		meshes:    map[string]map[peer.ID]bool{},
	}
}

func (c *counters) OnNewOutboundStream(p peer.ID, proto protocol.ID) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.protocols[p] = proto
}

func (c *counters) OnClosedOutboundStream(p peer.ID) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.protocols, p)
	for _, mesh := range c.meshes {
		delete(mesh, p)
	}
}

func (c *counters) Graft(p peer.ID, topic string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.meshes[topic] == nil {
		c.meshes[topic] = map[peer.ID]bool{}
	}
	c.meshes[topic][p] = true
}

func (c *counters) Prune(p peer.ID, topic string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.meshes[topic], p)
}

func (c *counters) count(what *uint64) { c.add(what, 1) }

func (c *counters) add(what *uint64, count int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	*what += uint64(count)
}

// DeliverMessage counts messages of others: the router does not report own ones here.
func (c *counters) DeliverMessage(*pubsub.Message) { c.count(&c.delivered) }

// addCells counts the contents of a body.
func (c *counters) addCells(body *body) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.receivedCells += uint64(body.present.count())
	if body.header != nil {
		c.headers++
	}
}

// lookedUp counts a column after the look-up of the mempool, before which the node had some cells.
func (c *counters) lookedUp(had, missing int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.missingCells += uint64(had + missing)
	if missing == 0 {
		c.localColumns++
	}
}

func (c *counters) DuplicateMessage(*pubsub.Message)      { c.count(&c.duplicates) }
func (c *counters) RejectMessage(*pubsub.Message, string) { c.count(&c.rejected) }
func (c *counters) UndeliverableMessage(*pubsub.Message)  { c.count(&c.undeliverable) }
func (c *counters) DropRPC(*pubsub.RPC, peer.ID)          { c.count(&c.droppedRPCs) }
func (c *counters) Join(string)                           {}
func (c *counters) Leave(string)                          {}
func (c *counters) ValidateMessage(*pubsub.Message)       {}
func (c *counters) ThrottlePeer(peer.ID)                  {}

// SendRPCCompleted is part of the interface since v0.19. The event tracer records it.
func (c *counters) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}

func (c *counters) RecvRPC(rpc *pubsub.RPC) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.receivedRPCs++
	c.down.add(rpc)
	c.requester, c.requested = rpc.From(), nil
	for _, iwant := range rpc.GetControl().GetIwant() {
		for _, id := range iwant.GetMessageIDs() {
			if c.requested == nil {
				c.requested = map[string]bool{}
			}
			c.requested[id] = true
		}
	}
}

// SendRPC counts an RPC. The router calls it when the RPC is queued.
func (c *counters) SendRPC(rpc *pubsub.RPC, to peer.ID) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.up.add(rpc)
	if len(c.requested) == 0 || to != c.requester {
		return
	}
	for _, message := range rpc.Publish {
		if c.requested[c.id(message)] {
			c.answers++
		}
	}
}

// protocol returns the protocol of the stream to a peer, or nil without a stream.
func (c *counters) protocol(p peer.ID) *string {
	c.lock.Lock()
	defer c.lock.Unlock()
	proto, known := c.protocols[p]
	if !known {
		return nil
	}
	name := string(proto)
	return &name
}

func (c *counters) mesh(topic string) []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	members := []string{}
	for member := range c.meshes[topic] {
		members = append(members, member.String())
	}
	sort.Strings(members)
	return members
}

// write writes all counters under the names of samara's nodes, in the text format of Prometheus.
func (c *counters) write(w io.Writer, topics []string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, row := range []struct {
		name  string
		value uint64
	}{
		{"messages_published_total", c.published},
		{"messages_delivered_total", c.delivered},
		{"messages_duplicate_total", c.duplicates},
		{`ignored_total{cause="rejected"}`, c.rejected},
		{`ignored_total{cause="undeliverable"}`, c.undeliverable},
		{`ignored_total{cause="partial-topic"}`, c.unknownGroups},
		{`ignored_total{cause="partial-early"}`, c.earlyBodies},
		{`ignored_total{cause="partial-pending"}`, c.droppedBodies},
		{`ignored_total{cause="partial-answers"}`, c.refusedAnswers},
		{`partial_received_total{kind="parts"}`, c.receivedCells},
		{`partial_received_total{kind="headers"}`, c.headers},
		{`partial_received_total{kind="metadata"}`, c.partsMetadata},
		{"cells_missing_total", c.missingCells},
		{"columns_local_total", c.localColumns},
		{"rpcs_received_total", c.receivedRPCs},
		{`copies_owed_total{reason="answer"}`, c.answers},
		{`queue_drops_total{cause="newest"}`, c.droppedRPCs},
		{"withdrawn_copies_total", 0},
		{`bytes_up_total{kind="payload"}`, c.up.payload},
		{`bytes_up_total{kind="control"}`, c.up.control},
		{`bytes_down_total{kind="payload"}`, c.down.payload},
		{`bytes_down_total{kind="control"}`, c.down.control},
	} {
		fmt.Fprintf(w, "samara_%s %d\n", row.name, row.value)
	}
	for _, topic := range topics {
		fmt.Fprintf(w, "samara_mesh_size{topic=%q} %d\n", topic, len(c.meshes[topic]))
	}
	fmt.Fprintln(w, "# EOF")
}
