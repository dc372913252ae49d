package main

import (
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"
)

// tracer counts what the router reports, and passes copies of messages on to the family.
type tracer struct {
	hosts  *hosts
	family family

	lock    sync.Mutex
	streams map[peer.ID]bool
	meshes  map[string]map[peer.ID]bool
	// Copies of messages that the host had, and copies that peers requested.
	duplicates, answers uint64
	up, down            traffic
	// The ids that the last RPC requested. The router answers before it reads the next RPC.
	requester peer.ID
	requested map[string]bool
}

// traffic counts RPCs and their bytes, without lengths, Noise, Yamux, QUIC and TCP.
type traffic struct{ frames, payload, control uint64 }

func (t *traffic) add(rpc *pubsub.RPC) {
	payload := 0
	for _, message := range rpc.Publish {
		payload += len(message.Data)
	}
	payload += len(rpc.GetPartial().GetPartialMessage())
	t.frames++
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

func newTracer(hosts *hosts) *tracer {
	return &tracer{hosts: hosts, streams: map[peer.ID]bool{}, meshes: map[string]map[peer.ID]bool{}}
}

func (t *tracer) OnNewOutboundStream(p peer.ID, _ protocol.ID) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.streams[p] = true
}

func (t *tracer) OnClosedOutboundStream(p peer.ID) {
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.streams, p)
	for _, mesh := range t.meshes {
		delete(mesh, p)
	}
}

func (t *tracer) Graft(p peer.ID, topic string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.meshes[topic] == nil {
		t.meshes[topic] = map[peer.ID]bool{}
	}
	t.meshes[topic][p] = true
}

func (t *tracer) Prune(p peer.ID, topic string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.meshes[topic], p)
}

// DeliverMessage tells of a first copy: the router does not report own messages here.
func (t *tracer) DeliverMessage(m *pubsub.Message) {
	t.family.arrived(m.GetTopic(), m.Data, t.hosts.numbers[m.ReceivedFrom], true)
}

func (t *tracer) DuplicateMessage(m *pubsub.Message) {
	t.lock.Lock()
	t.duplicates++
	t.lock.Unlock()
	t.family.arrived(m.GetTopic(), m.Data, t.hosts.numbers[m.ReceivedFrom], false)
}

func (t *tracer) DropRPC(rpc *pubsub.RPC, to peer.ID) {
	for range rpc.Publish {
		t.family.lost(t.hosts.numbers[to])
	}
}

func (t *tracer) RejectMessage(*pubsub.Message, string) {}
func (t *tracer) UndeliverableMessage(*pubsub.Message)  {}
func (t *tracer) Join(string)                           {}
func (t *tracer) Leave(string)                          {}
func (t *tracer) ValidateMessage(*pubsub.Message)       {}
func (t *tracer) ThrottlePeer(peer.ID)                  {}

// SendRPCCompleted is part of the interface since v0.19.
func (t *tracer) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}

func (t *tracer) RecvRPC(rpc *pubsub.RPC) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.down.add(rpc)
	t.requester, t.requested = rpc.From(), nil
	for _, iwant := range rpc.GetControl().GetIwant() {
		for _, id := range iwant.GetMessageIDs() {
			if t.requested == nil {
				t.requested = map[string]bool{}
			}
			t.requested[id] = true
		}
	}
}

// SendRPC counts an RPC. The router calls it when the RPC is queued.
func (t *tracer) SendRPC(rpc *pubsub.RPC, to peer.ID) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.up.add(rpc)
	if len(t.requested) == 0 || to != t.requester {
		return
	}
	for _, message := range rpc.Publish {
		if t.requested[ethereumID(message)] {
			t.answers++
		}
	}
}

func (t *tracer) hasStream(p peer.ID) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.streams[p]
}

// meshSize returns the number of peers in the mesh of a topic.
func (t *tracer) meshSize(topic string) int {
	t.lock.Lock()
	defer t.lock.Unlock()
	return len(t.meshes[topic])
}

// looked are the counters of a host since its start.
type looked struct {
	Counters             any     `json:"counters"`
	FramesSent           uint64  `json:"frames_sent"`
	PayloadBytesSent     uint64  `json:"payload_bytes_sent"`
	ControlBytesSent     uint64  `json:"control_bytes_sent"`
	FramesReceived       uint64  `json:"frames_received"`
	PayloadBytesReceived uint64  `json:"payload_bytes_received"`
	ControlBytesReceived uint64  `json:"control_bytes_received"`
	BytesSent            uint64  `json:"bytes_sent"`
	BytesReceived        uint64  `json:"bytes_received"`
	Withdrawn            uint64  `json:"withdrawn"`
	Owed                 uint64  `json:"owed"`
	LateNs               []int64 `json:"late_ns"`
}

// look returns the counters. The router reports no bytes of sockets: those of RPCs stand for them.
func (t *tracer) look(lateNs []int64) looked {
	counters := t.family.counters()
	t.lock.Lock()
	defer t.lock.Unlock()
	return looked{
		Counters:   counters,
		FramesSent: t.up.frames, PayloadBytesSent: t.up.payload, ControlBytesSent: t.up.control,
		FramesReceived: t.down.frames, PayloadBytesReceived: t.down.payload, ControlBytesReceived: t.down.control,
		BytesSent: t.up.payload + t.up.control, BytesReceived: t.down.payload + t.down.control,
		LateNs: lateNs,
	}
}
