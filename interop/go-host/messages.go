package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// numberBytes is the length of the number of a message, with which its payload begins.
const numberBytes = 4

// payload returns the payload of a message: its number, repeated.
func payload(number uint32, length int) []byte {
	data := make([]byte, 0, length+numberBytes)
	for len(data) < length {
		data = binary.LittleEndian.AppendUint32(data, number)
	}
	return data[:length]
}

// checkBytes returns an error for payloads that cannot tell their numbers, or that nobody accepts.
func checkBytes(bytes []int) error {
	for i, found := range bytes {
		if found < numberBytes || found > ethereumPayload {
			return fmt.Errorf("bytes.%d: found %d, expected %d to %d", i, found, numberBytes, ethereumPayload)
		}
	}
	return nil
}

// messages is a stream of messages on a topic that all hosts join.
type messages struct {
	*node
	brief *messagesBrief
}

func newMessages(brief *messagesBrief, node *node) (*messages, error) {
	if err := checkBytes(brief.bytes); err != nil {
		return nil, fmt.Errorf("brief.application.messages.%w", err)
	}
	return &messages{node, brief}, nil
}

func (m *messages) start() error { return m.subscribe(m.brief.topic) }

func (m *messages) command(data json.RawMessage) (func() func() error, error) {
	var number uint32
	if err := json.Unmarshal(data, &number); err != nil {
		return nil, err
	}
	if int64(number) >= int64(len(m.brief.bytes)) {
		return nil, fmt.Errorf("found message %d, expected a number below %d", number, len(m.brief.bytes))
	}
	return func() func() error {
		next := []message{{m.brief.topic, payload(number, m.brief.bytes[number])}}
		return func() error { return m.publish(next, false) }
	}, nil
}

type delivered struct {
	Message uint32 `json:"message"`
	From    uint32 `json:"from"`
}

func (m *messages) arrived(_ string, data []byte, from uint32, isFirst bool) {
	if isFirst && len(data) >= numberBytes {
		m.tell(map[string]any{"delivered": delivered{binary.LittleEndian.Uint32(data), from}})
	}
}

func (m *messages) lost(to uint32) {
	m.tell(map[string]any{"lost": map[string]any{"to": to}})
}

// messageCounters are the counters of the family. The router does not report the second pair.
type messageCounters struct {
	Duplicates    uint64 `json:"duplicates_received"`
	Answered      uint64 `json:"answered_copies"`
	KeptUnwanted  uint64 `json:"kept_unwanted_copies"`
	Misbehaviours uint64 `json:"misbehaviours"`
	Mesh          int    `json:"mesh"`
}

func (m *messages) counters() any {
	mesh := m.tracer.meshSize(m.brief.topic)
	m.tracer.lock.Lock()
	defer m.tracer.lock.Unlock()
	return messageCounters{Duplicates: m.tracer.duplicates, Answered: m.tracer.answers, Mesh: mesh}
}
