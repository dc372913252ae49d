package main

import (
	"context"
	"encoding/binary"
	"log"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

// A payload starts with its publisher (1 byte), its number (8) and when it was due, in nanoseconds since 1970 (8).
const headerBytes = 17

// load publishes, and counts what comes.
type load struct {
	ctx   context.Context
	topic *pubsub.Topic
	index int

	lock      sync.Mutex
	published uint64
	received  []uint64
	latencies histogram
	// arrived has an element if something has come since it was last emptied.
	arrived chan struct{}
}

func newLoad(ctx context.Context, topic *pubsub.Topic, index, of int) *load {
	return &load{ctx: ctx, topic: topic, index: index, received: make([]uint64, of),
		latencies: histogram{}, arrived: make(chan struct{}, 1)}
}

func (l *load) receive(subscription *pubsub.Subscription) {
	for {
		message, err := subscription.Next(l.ctx)
		if err != nil {
			return
		}
		if from := int(message.Data[0]); from != l.index {
			due := int64(binary.BigEndian.Uint64(message.Data[9:]))
			took := max(time.Now().UnixNano()-due, 0)
			l.lock.Lock()
			l.received[from]++
			l.latencies.add(uint64(took / 1000))
			l.lock.Unlock()
			select {
			case l.arrived <- struct{}{}:
			default:
			}
		}
	}
}

func (l *load) publish(bytes int) {
	data := make([]byte, bytes)
	data[0] = byte(l.index)
	binary.BigEndian.PutUint64(data[1:], l.published)
	binary.BigEndian.PutUint64(data[9:], uint64(time.Now().UnixNano()))
	if err := l.topic.Publish(l.ctx, data); err != nil {
		log.Fatalf("message %d was not published: %v", l.published, err)
	}
	l.lock.Lock()
	l.published++
	l.lock.Unlock()
}

// ahead is how many more messages went out than came from the slowest of the others.
func (l *load) ahead() uint64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	slowest := ^uint64(0)
	for from, count := range l.received {
		if from != l.index {
			slowest = min(slowest, count)
		}
	}
	return max(l.published, slowest) - slowest
}

// fill publishes whenever it is less than a window ahead of the slowest of the others.
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

// pace publishes at a rate, whatever comes.
func (l *load) pace(bytes int, perSecond, seconds float64) {
	gap := time.Duration(float64(time.Second) / perSecond)
	start := time.Now()
	for due := gap; due.Seconds() <= seconds; due += gap {
		time.Sleep(time.Until(start.Add(due)))
		l.publish(bytes)
	}
}

// counts returns how many messages went out, and how many came.
func (l *load) counts() (published, received uint64) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, count := range l.received {
		received += count
	}
	return l.published, received
}

// takeLatencies returns how long messages took since this was last asked.
func (l *load) takeLatencies() histogram {
	l.lock.Lock()
	defer l.lock.Unlock()
	taken := l.latencies
	l.latencies = histogram{}
	return taken
}
