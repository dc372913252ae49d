package main

import (
	"context"
	"encoding/binary"
	"log"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

// headerBytes is the size of a payload's header: publisher (1 byte), number of the load (1), number
// of the message in it (8), and time of publication in nanoseconds since 1970 (8).
const headerBytes = 18

// load publishes messages and counts received ones.
type load struct {
	ctx   context.Context
	topic *pubsub.Topic
	index int

	lock sync.Mutex
	// current is the number of the current load. Messages of other loads are not counted, since a node
	// that joins late gets some of them by IHAVE and IWANT.
	current   byte
	published uint64
	// received has the numbers of received messages, by publisher.
	received  []map[uint64]struct{}
	latencies histogram
	// arrived has an element if a message has arrived since it was last read.
	arrived chan struct{}
}

func newLoad(ctx context.Context, topic *pubsub.Topic, index, of int) *load {
	l := &load{ctx: ctx, topic: topic, index: index, received: make([]map[uint64]struct{}, of),
		arrived: make(chan struct{}, 1)}
	l.begin(0)
	return l
}

// begin starts counting another load.
func (l *load) begin(number byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.current, l.published, l.latencies = number, 0, histogram{}
	for from := range l.received {
		l.received[from] = map[uint64]struct{}{}
	}
}

func (l *load) receive(subscription *pubsub.Subscription) {
	for {
		message, err := subscription.Next(l.ctx)
		if err != nil {
			return
		}
		if int(message.Data[0]) == l.index {
			continue
		}
		l.count(message.Data)
		select {
		case l.arrived <- struct{}{}:
		default:
		}
	}
}

func (l *load) count(data []byte) {
	from, number := data[0], binary.BigEndian.Uint64(data[2:])
	took := max(time.Now().UnixNano()-int64(binary.BigEndian.Uint64(data[10:])), 0)
	l.lock.Lock()
	defer l.lock.Unlock()
	if data[1] != l.current {
		return
	}
	if _, twice := l.received[from][number]; twice {
		log.Fatalf("message %d of node %d was delivered twice", number, from)
	}
	l.received[from][number] = struct{}{}
	l.latencies.add(uint64(took / 1000))
}

func (l *load) publish(bytes int) {
	data := make([]byte, bytes)
	data[0], data[1] = byte(l.index), l.current
	binary.BigEndian.PutUint64(data[2:], l.published)
	binary.BigEndian.PutUint64(data[10:], uint64(time.Now().UnixNano()))
	if err := l.topic.Publish(l.ctx, data); err != nil {
		log.Fatalf("cannot publish message %d: %v", l.published, err)
	}
	l.lock.Lock()
	l.published++
	l.lock.Unlock()
}

// ahead returns the number of published messages beyond those received from the slowest other node.
func (l *load) ahead() uint64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	slowest := ^uint64(0)
	for from, numbers := range l.received {
		if from != l.index {
			slowest = min(slowest, uint64(len(numbers)))
		}
	}
	return max(l.published, slowest) - slowest
}

// fill publishes while it is less than a window ahead of the slowest other node.
func (l *load) fill(bytes int, window uint64, seconds float64) {
	end := time.After(time.Duration(seconds * float64(time.Second)))
	for {
		select {
		case <-end:
			return
		default:
		}
		if l.ahead() < window {
			l.publish(bytes)
			continue
		}
		select {
		case <-l.arrived:
		case <-end:
			return
		}
	}
}

// pace publishes at a fixed rate.
func (l *load) pace(bytes int, perSecond, seconds float64) {
	gap := time.Duration(float64(time.Second) / perSecond)
	start := time.Now()
	for due := gap; due.Seconds() <= seconds; due += gap {
		time.Sleep(time.Until(start.Add(due)))
		l.publish(bytes)
	}
}

// counts returns the numbers of published and received messages.
func (l *load) counts() (published, received uint64) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, numbers := range l.received {
		received += uint64(len(numbers))
	}
	return l.published, received
}

// took returns the latencies of messages as text.
func (l *load) took() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.latencies.String()
}
