package main

import (
	"encoding/binary"
	"fmt"
)

const (
	partCount  = 8
	partBytes  = 1024
	groupBytes = 8
	allParts   = bitmap(1<<partCount - 1)
)

// bitmap is a set of parts: bit i is part i. As one byte, it is the metadata of a message.
type bitmap byte

// message holds the known parts of a group. Absent parts are nil.
type message struct {
	group uint64
	parts [partCount][]byte
}

// fill creates the content of parts. The whole message consists of big-endian counters of 64 bits,
// which start at the group's number.
func (m *message) fill(parts bitmap) {
	for i := range m.parts {
		if parts&(1<<i) == 0 || m.parts[i] != nil {
			continue
		}
		first := m.group + uint64(i)*partBytes/8
		for counter := range uint64(partBytes / 8) {
			m.parts[i] = binary.BigEndian.AppendUint64(m.parts[i], first+counter)
		}
	}
}

func (m *message) has() (has bitmap) {
	for i, part := range m.parts {
		if part != nil {
			has |= 1 << i
		}
	}
	return has
}

// encode returns the known parts among wanted, or nil if there are none: their bitmap, the parts in
// ascending order, and the group.
func (m *message) encode(wanted bitmap) []byte {
	send := m.has() & wanted
	if send == 0 {
		return nil
	}
	body := []byte{byte(send)}
	for i, part := range m.parts {
		if send&(1<<i) != 0 {
			body = append(body, part...)
		}
	}
	return binary.BigEndian.AppendUint64(body, m.group)
}

// extend adds the parts of an encoded message, and returns their bitmap.
func (m *message) extend(body []byte) (bitmap, error) {
	if len(body) < 1+groupBytes || (len(body)-1-groupBytes)%partBytes != 0 {
		return 0, fmt.Errorf("found %d bytes, expected whole parts", len(body))
	}
	brings, parts := bitmap(body[0]), body[1:len(body)-groupBytes]
	if group := binary.BigEndian.Uint64(body[1+len(parts):]); group != m.group {
		return 0, fmt.Errorf("found parts of group %d, expected group %d", group, m.group)
	}
	for i := range m.parts {
		if brings&(1<<i) == 0 {
			continue
		}
		if len(parts) == 0 {
			return 0, fmt.Errorf("found fewer parts than the bitmap %08b announces", brings)
		}
		if m.parts[i] == nil {
			m.parts[i] = parts[:partBytes]
		}
		// A part that is known already is also in the body.
		parts = parts[partBytes:]
	}
	return brings, nil
}
