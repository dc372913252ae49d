// Reads and writes traces with go-libp2p-pubsub's own types and tracers, for the tests of
// crates/lab/samara-trace:
//
//	go-trace count FILE protobuf|json         prints the number of events by type, as one line of JSON
//	go-trace copy FROM PROTOBUF JSON          rewrites the events of a protobuf file with PBTracer and JSONTracer
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"google.golang.org/protobuf/proto"
)

// eventBytesMax is above the size of all events in the tests.
const eventBytesMax = 1 << 20

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "go-trace:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "count":
		return count(args[1], args[2])
	case len(args) == 4 && args[0] == "copy":
		return rewrite(args[1], args[2], args[3])
	}
	return errors.New("expected: count FILE protobuf|json, or copy FROM PROTOBUF JSON")
}

func count(path, format string) error {
	events, err := read(path, format)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, event := range events {
		counts[event.GetType().String()]++
	}
	return json.NewEncoder(os.Stdout).Encode(counts)
}

func read(path, format string) ([]*pb.TraceEvent, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var next func(*pb.TraceEvent) error
	switch format {
	case "protobuf":
		reader := bufio.NewReader(file)
		next = func(event *pb.TraceEvent) error { return readDelimited(reader, event) }
	case "json":
		reader := json.NewDecoder(bufio.NewReader(file))
		reader.DisallowUnknownFields()
		next = func(event *pb.TraceEvent) error { return reader.Decode(event) }
	default:
		return nil, fmt.Errorf("%q is neither protobuf nor json", format)
	}
	var events []*pb.TraceEvent
	for {
		event := new(pb.TraceEvent)
		if err := next(event); errors.Is(err, io.EOF) {
			return events, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: event %d: %w", path, len(events), err)
		}
		events = append(events, event)
	}
}

// readDelimited reads an event behind its length. Events have a method for that up to v0.18, and are
// messages of google.golang.org/protobuf since.
func readDelimited(reader *bufio.Reader, event any) error {
	size, err := binary.ReadUvarint(reader)
	if err != nil {
		return err
	}
	if size > eventBytesMax {
		return fmt.Errorf("an event of %d bytes", size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(reader, data); err != nil {
		return err
	}
	switch event := event.(type) {
	case interface{ Unmarshal([]byte) error }:
		return event.Unmarshal(data)
	case proto.Message:
		return proto.Unmarshal(data, event)
	}
	return errors.New("events of this release of go-libp2p-pubsub have no known type")
}

func rewrite(from, protobuf, json string) error {
	events, err := read(from, "protobuf")
	if err != nil {
		return err
	}
	toProtobuf, err := pubsub.NewPBTracer(protobuf)
	if err != nil {
		return err
	}
	toJSON, err := pubsub.NewJSONTracer(json)
	if err != nil {
		return err
	}
	for _, event := range events {
		toProtobuf.Trace(event)
		toJSON.Trace(event)
	}
	toProtobuf.Close()
	toJSON.Close()
	if err := complete(protobuf, "protobuf", len(events)); err != nil {
		return err
	}
	return complete(json, "json", len(events))
}

// complete waits until a file has all events, since the tracers write in the background without
// reporting the end.
func complete(path, format string, count int) error {
	var err error
	var events []*pb.TraceEvent
	for range 600 {
		if events, err = read(path, format); err == nil && len(events) == count {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s: found %d of %d events; %v", path, len(events), count, err)
}
