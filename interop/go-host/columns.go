package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
)

// columns are the segments of blocks, each on a topic of its own.
type columns struct {
	*node
	brief *columnsBrief
	// The segments by topic.
	segments map[string]uint32
	// Nil without cells.
	cells *cells

	lock sync.Mutex
	// The segments of which the host has had a copy, or all cells.
	known map[uint32]bool
}

func newColumns(brief *columnsBrief, node *node) (*columns, error) {
	wrong := func(key string, found any, expected string) error {
		return fmt.Errorf("brief.application.columns.%s: found %v, expected %s", key, found, expected)
	}
	if err := checkBytes(brief.bytes); err != nil {
		return nil, fmt.Errorf("brief.application.columns.%w", err)
	}
	if len(brief.bytes) != len(brief.topics) {
		return nil, wrong("bytes", len(brief.bytes), fmt.Sprintf("those of %d topics", len(brief.topics)))
	}
	c := &columns{node: node, brief: brief, segments: map[string]uint32{}, known: map[uint32]bool{}}
	for segment, topic := range brief.topics {
		if _, isKnown := c.segments[topic]; isKnown {
			return nil, wrong("topics", topic, "each once")
		}
		c.segments[topic] = uint32(segment)
	}
	for _, segment := range brief.joins {
		if int64(segment) >= int64(len(brief.topics)) {
			return nil, wrong("joins", segment, fmt.Sprintf("numbers below %d", len(brief.topics)))
		}
	}
	if brief.cells == nil {
		return c, nil
	}
	var err error
	c.cells, err = newCells(brief, c)
	return c, err
}

func (c *columns) start() error {
	for _, segment := range c.brief.joins {
		if err := c.subscribe(c.brief.topics[segment]); err != nil {
			return err
		}
	}
	if c.cells != nil {
		go c.cells.verify()
	}
	return nil
}

func (c *columns) command(data json.RawMessage) (func() func() error, error) {
	var batch, each *slotCommand
	if err := object(data, nil, keys{"publish_batch": &batch, "publish_each": &each}); err != nil {
		return nil, err
	}
	if (batch == nil) == (each == nil) {
		return nil, fmt.Errorf("expected either publish_batch or publish_each")
	}
	isBatch, command := batch != nil && !c.brief.protocol.isSequential(), batch
	if batch == nil {
		command = each
	}
	if command.slot >= c.brief.slots {
		return nil, fmt.Errorf("slot: found %d, expected a number below %d", command.slot, c.brief.slots)
	}
	return func() func() error {
		block := make([]message, len(c.brief.topics))
		for segment, topic := range c.brief.topics {
			block[segment] = c.message(c.number(command.slot, topic))
		}
		return func() error { return c.publishBlock(command.slot, block, isBatch) }
	}, nil
}

type slotCommand struct{ slot uint32 }

func (s *slotCommand) UnmarshalJSON(data []byte) error {
	return object(data, keys{"slot": &s.slot}, nil)
}

// publishBlock publishes a block. With cells, whole columns go to peers that request no cells.
func (c *columns) publishBlock(slot uint32, block []message, isBatch bool) error {
	if err := c.publish(block, isBatch); err != nil {
		return err
	}
	if c.cells != nil {
		c.cells.publish(slot)
	}
	return nil
}

// number returns the number of a segment of a slot.
func (c *columns) number(slot uint32, topic string) uint32 {
	return slot*uint32(len(c.brief.topics)) + c.segments[topic]
}

func (c *columns) message(number uint32) message {
	segment := int(number) % len(c.brief.topics)
	return message{c.brief.topics[segment], payload(number, c.brief.bytes[segment])}
}

type copied struct {
	Segment uint32 `json:"segment"`
	From    uint32 `json:"from"`
	First   bool   `json:"first"`
}

func (c *columns) arrived(topic string, data []byte, from uint32, isFirst bool) {
	if len(data) < numberBytes {
		return
	}
	number := binary.LittleEndian.Uint32(data)
	slot := number / uint32(len(c.brief.topics))
	if slot >= c.brief.slots || number != c.number(slot, topic) {
		return
	}
	// The cells of a column may be complete when its first copy arrives.
	isFirst = isFirst && c.isNew(number)
	c.tell(map[string]any{"copy": copied{number, from, isFirst}})
	if isFirst && c.cells != nil {
		go c.cells.whole(topic, c.cells.slots[slot], from)
	}
}

// completed tells that all cells of a column are there.
func (c *columns) completed(number, from uint32) {
	if c.isNew(number) {
		c.tell(map[string]any{"copy": copied{number, from, true}})
	}
}

func (c *columns) isNew(number uint32) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	isNew := !c.known[number]
	c.known[number] = true
	return isNew
}

func (c *columns) lost(uint32) { c.tell("lost") }

// columnCounters are the counters of the family. The router does not report the last two.
type columnCounters struct {
	Joined        int       `json:"joined"`
	Targets       int       `json:"targets"`
	Cells         [5]uint64 `json:"cells"`
	KeptUnwanted  uint64    `json:"kept_unwanted_copies"`
	Misbehaviours uint64    `json:"misbehaviours"`
}

func (c *columns) counters() any {
	counters := columnCounters{Joined: len(c.brief.joins)}
	for _, segment := range c.brief.joins {
		counters.Targets += c.tracer.meshSize(c.brief.topics[segment])
	}
	if c.cells != nil {
		counters.Cells = c.cells.counts.numbers()
	}
	return counters
}
