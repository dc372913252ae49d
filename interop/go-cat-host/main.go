// A host with the transaction pool of celestia-core for `samara testbed --host`: it takes orders on its
// standard input, and says what happens on its standard output. docs/guides/implementations.md describes
// both. lines.go and course.go are those of go-host.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) != 1 {
		fmt.Fprintln(os.Stderr, "go-cat-host: expected no arguments, but orders on standard input")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "go-cat-host:", err)
		os.Exit(1)
	}
}

// run carries out orders until one says stop, or the input ends.
func run(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{ctx: ctx, lines: newLines(out), failed: make(chan error, 1)}
	defer s.end(cancel)
	next := orders(in)
	for {
		select {
		case err := <-s.failed:
			return err
		case read, isOpen := <-next:
			if !isOpen {
				return nil
			}
			order, err := read()
			if err != nil {
				return err
			}
			if err := s.act(order); err != nil {
				return fmt.Errorf("%s: %w", order.name, err)
			}
			if order.name == "stop" {
				return nil
			}
		}
	}
}

// session is a host between its first and its last order.
type session struct {
	ctx   context.Context
	lines *lines
	// Errors that are no answers to orders.
	failed chan error

	// Nil before the first order.
	hosts *hosts
	links *links
	pool  *pool
	dials []dial
	// Nil before the second order, as is the start of the run.
	course *course
	start  atomic.Pointer[time.Time]
}

func (s *session) act(o order) error {
	hasListened, hasBegun := s.hosts != nil, s.course != nil
	switch {
	case !hasListened && o.name != "listen":
		return errors.New("found as the first order, expected listen")
	case hasListened && o.name == "listen", hasBegun && o.name == "begin":
		return errors.New("found twice, expected once")
	case hasListened && !hasBegun && o.name != "begin" && o.name != "stop":
		return errors.New("found as the second order, expected begin")
	}
	switch o.name {
	case "listen":
		return s.listen(o.value)
	case "begin":
		return s.begin(o.value)
	case "command":
		return s.command(o.value)
	case "sync":
		return s.sync(o.value)
	case "reconnect":
		return s.reconnect(o.value)
	case "look":
		if o.value == nil {
			s.lines.say("looked", s.look())
			return nil
		}
	case "stop":
		if o.value == nil {
			s.links.flush()
			return nil
		}
	}
	return errors.New("unknown to go-cat-host, or with a value that it does not have")
}

func (s *session) listen(value json.RawMessage) error {
	var l listen
	if err := json.Unmarshal(value, &l); err != nil {
		return err
	}
	if l.brief.transport != "tcp" {
		return fmt.Errorf("brief.transport: found %q, expected tcp: celestia-core has nothing else", l.brief.transport)
	}
	hosts, err := newHosts(&l)
	if err != nil {
		return err
	}
	for _, dial := range l.brief.dials {
		if err := hosts.check(dial.host); err != nil {
			return fmt.Errorf("brief.dials.%w", err)
		}
	}
	s.hosts, s.dials = hosts, l.brief.dials
	if s.pool, err = newPool(&l.brief.pool, s.tell); err != nil {
		return err
	}
	if s.links, err = newLinks(s.ctx, hosts, s.pool, l.brief.pool.connection()); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	s.lines.say("ready", map[string]uint32{"host": l.host})
	return nil
}

func (s *session) begin(value json.RawMessage) error {
	var atUnixNs int64
	if err := object(value, keys{"at_unix_ns": &atUnixNs}, nil); err != nil {
		return err
	}
	now := time.Now()
	start := now.Add(time.Duration(atUnixNs - now.UnixNano()))
	s.start.Store(&start)
	s.course = newCourse(s.ctx, start, s.fail)
	s.links.begin()
	for _, dial := range s.dials {
		time.AfterFunc(time.Until(start.Add(time.Duration(dial.atNs))), func() { s.links.dial(dial.host) })
	}
	return nil
}

func (s *session) command(value json.RawMessage) error {
	var atNs int64
	var command json.RawMessage
	if err := object(value, keys{"at_ns": &atNs, "command": &command}, nil); err != nil {
		return err
	}
	act, err := s.pool.command(command)
	if err == nil {
		s.course.add(time.Duration(atNs), func() func() error { return act })
	}
	return err
}

// sync answers behind all events: those that wait were said before.
func (s *session) sync(value json.RawMessage) error {
	var number *uint64
	if err := json.Unmarshal(value, &number); err != nil || number == nil {
		return fmt.Errorf("found %s, expected a number", value)
	}
	s.lines.say("synced", *number)
	return nil
}

func (s *session) reconnect(value json.RawMessage) error {
	var host uint32
	if err := object(value, keys{"host": &host}, nil); err != nil {
		return err
	}
	if err := s.hosts.check(host); err != nil {
		return err
	}
	s.links.reconnect(host)
	return nil
}

// tell says an event. None happens before the run begins: there are neither commands nor links.
func (s *session) tell(event any) {
	atNs := max(0, time.Since(*s.start.Load()).Nanoseconds())
	s.lines.say("event", happened{atNs, event})
}

// looked are the counters of a host since its start. celestia-core withdraws nothing, and tells nothing of
// what waits.
type looked struct {
	Counters             counters `json:"counters"`
	FramesSent           uint64   `json:"frames_sent"`
	PayloadBytesSent     uint64   `json:"payload_bytes_sent"`
	ControlBytesSent     uint64   `json:"control_bytes_sent"`
	FramesReceived       uint64   `json:"frames_received"`
	PayloadBytesReceived uint64   `json:"payload_bytes_received"`
	ControlBytesReceived uint64   `json:"control_bytes_received"`
	BytesSent            uint64   `json:"bytes_sent"`
	BytesReceived        uint64   `json:"bytes_received"`
	Withdrawn            uint64   `json:"withdrawn"`
	Owed                 uint64   `json:"owed"`
	LateNs               []int64  `json:"late_ns"`
}

func (s *session) look() looked {
	counters, up, down := s.pool.look()
	return looked{
		Counters:   counters,
		FramesSent: up.frames(), PayloadBytesSent: up.payload, ControlBytesSent: up.control(),
		FramesReceived: down.frames(), PayloadBytesReceived: down.payload, ControlBytesReceived: down.control(),
		BytesSent: s.links.sent.Load(), BytesReceived: s.links.received.Load(),
		LateNs: s.course.late(),
	}
}

func (s *session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// end ends everything that the host has started, and waits until its lines are written.
func (s *session) end(cancel context.CancelFunc) {
	cancel()
	if s.links != nil {
		s.links.end()
	}
	if s.pool != nil {
		s.pool.end()
	}
	s.lines.end()
}
