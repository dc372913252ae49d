package main

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// flushTime is the maximum time for the last lines to be read.
const flushTime = time.Second

// lines is what the host says on its standard output. A goroutine encodes and writes it: the router,
// which says events, must not wait for the reader of a pipe.
type lines struct {
	lock    sync.Mutex
	waiting []line
	isEnded bool
	// Signals that lines wait, or that the last ones were said.
	changed chan struct{}
	written chan struct{}
}

// line is an object with one key.
type line struct {
	key   string
	value any
}

type happened struct {
	AtNs  int64 `json:"at_ns"`
	Event any   `json:"event"`
}

func newLines(out io.Writer) *lines {
	l := &lines{changed: make(chan struct{}, 1), written: make(chan struct{})}
	go l.write(out)
	return l
}

func (l *lines) say(key string, value any) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.waiting = append(l.waiting, line{key, value})
	l.signal()
}

func (l *lines) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// end waits until all lines are written.
func (l *lines) end() {
	l.lock.Lock()
	l.isEnded = true
	l.signal()
	l.lock.Unlock()
	select {
	case <-l.written:
	case <-time.After(flushTime):
	}
}

func (l *lines) write(out io.Writer) {
	defer close(l.written)
	var buffer bytes.Buffer
	for range l.changed {
		l.lock.Lock()
		waiting, isEnded := l.waiting, l.isEnded
		l.waiting = nil
		l.lock.Unlock()
		buffer.Reset()
		encoder := json.NewEncoder(&buffer)
		for _, line := range waiting {
			if err := encoder.Encode(map[string]any{line.key: line.value}); err != nil {
				panic(err)
			}
		}
		if _, err := out.Write(buffer.Bytes()); err != nil || isEnded {
			// Without a reader the orders end, too.
			return
		}
	}
}
