package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
)

// lineMax is the maximum length of a line of orders in bytes, with its end.
const lineMax = 16<<20 + 2

// listen is where a host is in the network of a run.
type listen struct {
	host    uint32
	address netip.AddrPort
	// The address of each host, by number.
	peers []netip.AddrPort
	token token
	brief brief
}

// brief is what a host must know from the scenario.
type brief struct {
	transport string
	dials     []dial
	pool      poolBrief
}

// dial is a host to dial, and when.
type dial struct {
	atNs int64
	host uint32
}

// application is what the families say. This host knows pools only.
type application struct{ pool *poolBrief }

// poolBrief is what a host must know of a pool and its connections.
type poolBrief struct {
	// The bytes of a transaction.
	bytes int
	// The number of signers that the application knows.
	signers  uint32
	flush    flush
	ping     span
	protocol protocolKeys
}

func (l *listen) UnmarshalJSON(data []byte) error {
	// A process that starts again behaves like the first: its briefing has the dials that are due.
	var restart bool
	return object(data, keys{
		"host": &l.host, "address": &l.address, "peers": &l.peers, "token": &l.token,
		"restart": &restart, "brief": &l.brief,
	}, nil)
}

func (b *brief) UnmarshalJSON(data []byte) error {
	application := application{&b.pool}
	required := keys{"transport": &b.transport, "dials": &b.dials, "application": &application}
	return object(data, required, nil)
}

func (d *dial) UnmarshalJSON(data []byte) error {
	return object(data, keys{"at_ns": &d.atNs, "host": &d.host}, nil)
}

func (a *application) UnmarshalJSON(data []byte) error {
	return object(data, keys{"pool": a.pool}, nil)
}

func (p *poolBrief) UnmarshalJSON(data []byte) error {
	return object(data, keys{
		"bytes": &p.bytes, "signers": &p.signers, "flush": &p.flush, "ping": &p.ping, "protocol": &p.protocol,
	}, nil)
}

// keys has the keys of an object, and where their values go.
type keys map[string]any

// object reads an object that has all required keys and, beside the optional ones, no others. An
// optional key may be null.
func object(data []byte, required, optional keys) error {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(data, &found); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		value, isNull := found[key], string(found[key]) == "null"
		target := required[key]
		switch {
		case target == nil && optional[key] == nil:
			return below(key, errors.New("unknown to go-cat-host; remove it, or use Samara's own hosts"))
		case target == nil && isNull:
			continue
		case target == nil:
			target = optional[key]
		case isNull:
			return below(key, errors.New("found null, expected a value"))
		}
		if err := json.Unmarshal(value, target); err != nil {
			return below(key, err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(required)) {
		if found[key] == nil {
			return below(key, errors.New("found none, expected a value"))
		}
	}
	return nil
}

// keyError is an error in the value of a key, which may have several parts.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return e.key + ": " + e.err.Error() }

// below returns the error in the value of a key.
func below(key string, err error) error {
	if inner := (*keyError)(nil); errors.As(err, &inner) {
		return &keyError{key + "." + inner.key, inner.err}
	}
	return &keyError{key, err}
}

// order is a line: its only key with the value, or a key that has none.
type order struct {
	name  string
	value json.RawMessage
}

// orders reads lines until the input ends. An error is the last value.
func orders(in io.Reader) <-chan func() (order, error) {
	out := make(chan func() (order, error))
	go func() {
		defer close(out)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, lineMax)
		for lines.Scan() {
			found, err := parse(lines.Bytes())
			if err != nil {
				err = fmt.Errorf("an order: %w", err)
			}
			out <- func() (order, error) { return found, err }
			if err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			out <- func() (order, error) { return order{}, fmt.Errorf("standard input: %w", err) }
		}
	}()
	return out
}

// parse reads an order or a command. It does not refer to the text.
func parse(text []byte) (order, error) {
	var name string
	if json.Unmarshal(text, &name) == nil {
		return order{name: name}, nil
	}
	var found map[string]json.RawMessage
	if err := json.Unmarshal(text, &found); err != nil {
		return order{}, err
	}
	if len(found) != 1 {
		return order{}, fmt.Errorf("found %d keys, expected one", len(found))
	}
	for key, value := range found {
		name = key
		return order{name, value}, nil
	}
	panic("unreachable")
}
