// A node of go-libp2p-pubsub for `samara testbed --node`: it reads the node.toml of samara's own
// nodes and serves the same control API. docs/guides/testbed.md lists the requirements of a testbed
// for nodes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

const (
	// Time for queues to drain before connections are closed. go-libp2p-pubsub does not report when
	// they are empty.
	drainTime = 500 * time.Millisecond
	// Maximum time for writing the rest of the trace.
	traceTime = 20 * time.Second
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "go-node: expected the path of a node.toml as the only argument")
		os.Exit(2)
	}
	c, err := readConfig(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-node:", err)
		os.Exit(2)
	}
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "go-node:", err)
		os.Exit(1)
	}
}

func run(c *config) error {
	stop := stopRequested()
	h, err := newHost(c)
	if err != nil {
		return fmt.Errorf("network.listen: %v: %w", c.Network.Listen, err)
	}
	tracer, err := pubsub.NewPBTracer(c.Trace.File)
	if err != nil {
		return fmt.Errorf("trace.file: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	counts := newCounters()
	cells, err := newCells(c, counts)
	if err != nil {
		return err
	}
	ps, err := newRouter(ctx, h, c, tracer, counts, cells)
	if err != nil {
		return fmt.Errorf("gossipsub: %w", err)
	}
	n := &node{
		ctx: ctx, host: h, pubsub: ps, counts: counts, cells: cells,
		sequential: c.Gossipsub.sequential(), topics: map[string]*pubsub.Topic{},
	}
	if cells != nil {
		cells.node = n
		go cells.verify()
	}
	if err := n.subscribe(c.Topics); err != nil {
		return err
	}
	control, err := net.Listen("tcp", c.Control.Listen)
	if err != nil {
		return fmt.Errorf("control.listen: %w", err)
	}
	p := newPlan(n)
	go func() { log.Fatal(http.Serve(control, n.handlers(p))) }()
	writeLine(map[string]any{
		"ready": true, "peer_id": h.ID().String(), "listen": n.listen(), "control": control.Addr().String(), "metrics": nil,
	})
	<-stop
	cancelled := p.cancel()
	time.Sleep(drainTime)
	cancel()
	if err := h.Close(); err != nil {
		log.Printf("closing: %v", err)
	}
	tracer.Close()
	if err := written(c.Trace.File); err != nil {
		return err
	}
	writeLine(map[string]any{
		"stopped": true, "left_copies": 0, "cancelled_publications": cancelled, "trace": nil,
	})
	return nil
}

// stopRequested returns a channel that SIGTERM, SIGINT or the end of standard input closes. The
// input ends when the parent process is gone.
func stopRequested() <-chan struct{} {
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	go func() {
		select {
		case <-signals:
		case <-ended:
		}
		close(stop)
	}()
	return stop
}

func writeLine(line any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		log.Fatalf("cannot write to standard output: %v", err)
	}
}

// written waits until the tracer has closed its file, which it does not report.
func written(file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	for end := time.Now().Add(traceTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		open, err := isOpen(path)
		if err != nil {
			return fmt.Errorf("trace.file: cannot determine whether %s is complete: %w", path, err)
		}
		if !open {
			return nil
		}
	}
	return fmt.Errorf("trace.file: %s was not complete after %s", path, traceTime)
}

// isOpen returns whether this process has a file open (Linux).
func isOpen(path string) (bool, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		// A file that was closed meanwhile has no name any more.
		if name, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && name == path {
			return true, nil
		}
	}
	return false, nil
}
