// A host of go-libp2p-pubsub for `samara testbed --host`: it takes orders on its standard input, and says
// what happens on its standard output. docs/guides/implementations.md describes both.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

// drainTime is the time for queues to drain before connections are closed. go-libp2p-pubsub does not report
// when they are empty.
const drainTime = 500 * time.Millisecond

func main() {
	if len(os.Args) != 1 {
		fmt.Fprintln(os.Stderr, "go-host: expected no arguments, but orders on standard input")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "go-host:", err)
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
				time.Sleep(drainTime)
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
	hosts  *hosts
	links  *links
	tracer *tracer
	family family
	dials  []dial
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
			s.lines.say("looked", s.tracer.look(s.course.late()))
			return nil
		}
	case "stop":
		if o.value == nil {
			return nil
		}
	}
	return errors.New("unknown to go-host, or with a value that it does not have")
}

func (s *session) listen(value json.RawMessage) error {
	var l listen
	if err := json.Unmarshal(value, &l); err != nil {
		return err
	}
	var err error
	if s.hosts, err = newHosts(s.ctx, &l); err != nil {
		return err
	}
	for _, dial := range l.brief.dials {
		if err := s.hosts.check(dial.host); err != nil {
			return fmt.Errorf("brief.dials.%w", err)
		}
	}
	s.dials = l.brief.dials
	s.tracer = newTracer(s.hosts)
	if s.links, err = newLinks(s.ctx, &l, s.hosts); err != nil {
		return err
	}
	s.links.hasStream = s.tracer.hasStream
	if err := s.join(&l.brief.application); err != nil {
		return err
	}
	// Peers may dial as soon as the host listens, so its protocols come first.
	if err := s.links.listen(l.address); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	s.lines.say("ready", map[string]uint32{"host": l.host})
	return nil
}

// join creates the router, and joins the topics of the family.
func (s *session) join(a *application) error {
	node := &node{ctx: s.ctx, tracer: s.tracer, tell: s.tell, topics: map[string]*pubsub.Topic{}}
	var protocol *protocolKeys
	var cells *cells
	if a.messages != nil {
		messages, err := newMessages(a.messages, node)
		if err != nil {
			return err
		}
		s.family, protocol = messages, &a.messages.protocol
	} else {
		columns, err := newColumns(a.columns, node)
		if err != nil {
			return err
		}
		s.family, protocol, cells = columns, &a.columns.protocol, columns.cells
	}
	if err := protocol.check(cells != nil); err != nil {
		return err
	}
	s.tracer.family, node.hasCells = s.family, cells != nil
	var err error
	if node.pubsub, err = newRouter(s.ctx, s.links.host, protocol, s.tracer, cells); err != nil {
		return fmt.Errorf("protocol: %w", err)
	}
	return s.family.start()
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
	close(s.hosts.begun)
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
	prepare, err := s.family.command(command)
	if err == nil {
		s.course.add(time.Duration(atNs), prepare)
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

// tell says an event. None happens before the run begins, since no peer is connected.
func (s *session) tell(event any) {
	atNs := max(0, time.Since(*s.start.Load()).Nanoseconds())
	s.lines.say("event", happened{atNs, event})
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
		if err := s.links.host.Close(); err != nil {
			log.Printf("closing: %v", err)
		}
	}
	s.lines.end()
}
