package main

import (
	"crypto/rand"
	"fmt"
	"log"
	"runtime"
	"sort"
	"sync"
	"time"
)

const (
	// Time before a publication at which its payloads are generated.
	prepareAhead = 50 * time.Millisecond
	// Time before a publication from which the node polls the clock instead of sleeping, since threads
	// wake up late.
	spinAhead = 500 * time.Microsecond
	// Maximum number of publications, and of messages in one, as in samara's own node.
	plannedMax = 10_000
	batchMax   = 4096
	// Maximum size of a message in bytes.
	payloadMax = ethereumPayload
)

type payload struct {
	Topic       string `json:"topic"`
	RandomBytes int    `json:"random_bytes"`
}

// blockSpec is a block of cells.blocks, whose columns the node publishes in cells.
type blockSpec struct {
	Group  string   `json:"group"`
	Topics []string `json:"topics"`
	Push   []int    `json:"push"`
}

// publication is a requested publication: a message, a batch of several, or a block.
type publication struct {
	AtUnixNs int64      `json:"at_unix_ns"`
	Batch    []payload  `json:"batch"`
	Block    *blockSpec `json:"block"`
	payload
}

// planned is a publication with its state.
type planned struct {
	Number       int    `json:"number"`
	AtUnixNs     int64  `json:"at_unix_ns"`
	State        string `json:"state"`
	Messages     int    `json:"messages"`
	ActualUnixNs *int64 `json:"actual_unix_ns"`
	LateNs       *int64 `json:"late_ns"`
	TookNs       *int64 `json:"took_ns"`

	messages []payload
	block    *blockSpec
}

// plan has the planned publications, which one goroutine executes in the order of time.
type plan struct {
	publish func([]payload, [][]byte) error
	cells   *cells

	lock    sync.Mutex
	all     []*planned
	waiting []*planned
	stopped bool
	// Signals that an earlier publication may have been added.
	changed chan struct{}
}

func newPlan(n *node) *plan {
	p := &plan{publish: n.publish, cells: n.cells, changed: make(chan struct{}, 1)}
	go p.run()
	return p
}

// add accepts either all publications or none.
func (p *plan) add(publications []publication) ([]int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.stopped {
		return nil, fmt.Errorf("the node is about to stop")
	}
	if found := len(p.all) + len(publications); found > plannedMax {
		return nil, fmt.Errorf("found %d publications in total, expected at most %d", found, plannedMax)
	}
	now := time.Now().UnixNano()
	added, numbers := []*planned{}, []int{}
	for i, publication := range publications {
		if publication.AtUnixNs <= now {
			return nil, fmt.Errorf("publications[%d].at_unix_ns: found %d, expected a time after %d", i, publication.AtUnixNs, now)
		}
		number := len(p.all) + len(added)
		next := &planned{Number: number, AtUnixNs: publication.AtUnixNs, State: "waiting"}
		added, numbers = append(added, next), append(numbers, number)
		if block := publication.Block; block != nil {
			if err := p.cells.check(block); err != nil {
				return nil, fmt.Errorf("publications[%d].block.%w", i, err)
			}
			next.block, next.Messages = block, len(block.Topics)
			continue
		}
		messages := publication.Batch
		if messages == nil {
			messages = []payload{publication.payload}
		}
		if len(messages) == 0 || len(messages) > batchMax {
			return nil, fmt.Errorf("publications[%d].batch: found %d messages, expected 1 to %d", i, len(messages), batchMax)
		}
		for _, message := range messages {
			if message.Topic == "" || message.RandomBytes < 0 || message.RandomBytes > payloadMax {
				return nil, fmt.Errorf("publications[%d]: found topic %q and random_bytes %d, expected a name and 0 to %d", i, message.Topic, message.RandomBytes, payloadMax)
			}
		}
		next.messages, next.Messages = messages, len(messages)
	}
	p.all = append(p.all, added...)
	p.waiting = append(p.waiting, added...)
	sort.SliceStable(p.waiting, func(i, j int) bool { return p.waiting[i].AtUnixNs < p.waiting[j].AtUnixNs })
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return numbers, nil
}

// cancel cancels the remaining publications and returns their number.
func (p *plan) cancel() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.stopped = true
	cancelled := len(p.waiting)
	for _, waiting := range p.waiting {
		waiting.State = "cancelled"
	}
	p.waiting = nil
	return cancelled
}

func (p *plan) report() []planned {
	p.lock.Lock()
	defer p.lock.Unlock()
	report := make([]planned, len(p.all))
	for i, planned := range p.all {
		report[i] = *planned
	}
	return report
}

// take returns the first publication if its payloads must be generated now, or the time until then.
func (p *plan) take() (*planned, time.Duration) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if len(p.waiting) == 0 {
		return nil, time.Hour
	}
	first := p.waiting[0]
	if wait := time.Duration(first.AtUnixNs-time.Now().UnixNano()) - prepareAhead; wait > 0 {
		return nil, wait
	}
	p.waiting = p.waiting[1:]
	return first, 0
}

func (p *plan) run() {
	runtime.LockOSThread()
	for {
		next, wait := p.take()
		if next == nil {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-p.changed:
			}
			timer.Stop()
			continue
		}
		data := make([][]byte, len(next.messages))
		for i, message := range next.messages {
			data[i] = make([]byte, message.RandomBytes)
			rand.Read(data[i])
		}
		time.Sleep(time.Duration(next.AtUnixNs-time.Now().UnixNano()) - spinAhead)
		for time.Now().UnixNano() < next.AtUnixNs {
		}
		p.make(next, data)
	}
}

func (p *plan) make(next *planned, data [][]byte) {
	actual := time.Now().UnixNano()
	var err error
	if next.block != nil {
		err = p.cells.publish(next.block)
	} else {
		err = p.publish(next.messages, data)
	}
	if err != nil {
		// The run would lack a message, so it fails.
		log.Fatalf("publication %d: %v", next.Number, err)
	}
	took, late := time.Now().UnixNano()-actual, actual-next.AtUnixNs
	p.lock.Lock()
	defer p.lock.Unlock()
	next.State, next.ActualUnixNs, next.LateNs, next.TookNs = "published", &actual, &late, &took
}
