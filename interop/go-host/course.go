package main

import (
	"context"
	"runtime"
	"sort"
	"sync"
	"time"
)

const (
	// Time before a command at which its payloads are generated.
	prepareAhead = 50 * time.Millisecond
	// Time before a command from which the host polls the clock instead of sleeping, since threads wake
	// up late.
	spinAhead = 500 * time.Microsecond
)

// course carries out commands in the order of their times.
type course struct {
	start time.Time
	fail  func(error)

	lock    sync.Mutex
	waiting []due
	lateNs  []int64
	// Signals that an earlier command may have been added.
	changed chan struct{}
}

// due is a command with its time since the start.
type due struct {
	at      time.Duration
	prepare func() func() error
}

func newCourse(ctx context.Context, start time.Time, fail func(error)) *course {
	c := &course{start: start, fail: fail, lateNs: []int64{}, changed: make(chan struct{}, 1)}
	go c.run(ctx)
	return c
}

func (c *course) add(at time.Duration, prepare func() func() error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.waiting = append(c.waiting, due{at, prepare})
	sort.SliceStable(c.waiting, func(i, j int) bool { return c.waiting[i].at < c.waiting[j].at })
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// late returns by how much commands were late since the last call.
func (c *course) late() []int64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	late := c.lateNs
	c.lateNs = []int64{}
	return late
}

// take returns the first command if it must be prepared now, or the time until then.
func (c *course) take() (*due, time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.waiting) == 0 {
		return nil, time.Hour
	}
	first := c.waiting[0]
	if wait := first.at - time.Since(c.start) - prepareAhead; wait > 0 {
		return nil, wait
	}
	c.waiting = c.waiting[1:]
	return &first, 0
}

func (c *course) run(ctx context.Context) {
	runtime.LockOSThread()
	for {
		next, wait := c.take()
		if next == nil {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-c.changed:
			case <-ctx.Done():
				return
			}
			timer.Stop()
			continue
		}
		act := next.prepare()
		time.Sleep(next.at - time.Since(c.start) - spinAhead)
		for time.Since(c.start) < next.at {
		}
		late := time.Since(c.start) - next.at
		if err := act(); err != nil {
			// The run would lack a message, so it fails.
			c.fail(err)
			return
		}
		c.lock.Lock()
		c.lateNs = append(c.lateNs, late.Nanoseconds())
		c.lock.Unlock()
	}
}
