package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tendermint/tendermint/crypto/ed25519"
	"github.com/tendermint/tendermint/p2p/conn"
	"github.com/tendermint/tendermint/types"
)

const (
	secret = "000102030405060708090a0b0c0d0e0f"
	// Time for something to happen on a busy machine.
	patience = 20 * time.Second
	// Time from the start until links are up.
	linked = 500 * time.Millisecond
)

// process is a host in this process.
type process struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan map[string]json.RawMessage
	ended chan error
	// Events without their times.
	events []string
	syncs  int
}

func start(t *testing.T) *process {
	ordersOut, ordersIn := io.Pipe()
	linesOut, linesIn := io.Pipe()
	p := &process{t: t, in: ordersIn, lines: make(chan map[string]json.RawMessage, 1<<12), ended: make(chan error, 1)}
	go func() {
		p.ended <- run(ordersOut, linesIn)
		linesIn.Close()
		ordersOut.Close()
	}()
	go func() {
		for scanner := bufio.NewScanner(linesOut); scanner.Scan(); {
			var line map[string]json.RawMessage
			if err := json.Unmarshal(scanner.Bytes(), &line); err != nil || len(line) != 1 {
				t.Errorf("found the line %s: %v", scanner.Text(), err)
			}
			p.lines <- line
		}
	}()
	t.Cleanup(func() { p.in.Close() })
	return p
}

func (p *process) order(format string, values ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", values...); err != nil {
		p.t.Fatalf("the host has ended: %v", <-p.ended)
	}
}

func (p *process) command(at time.Duration, command string) {
	p.t.Helper()
	p.order(`{"command":{"at_ns":%d,"command":%s}}`, at.Nanoseconds(), command)
}

// answer returns the value of the next line that is no event.
func (p *process) answer(key string) json.RawMessage {
	p.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line := <-p.lines:
			if event := line["event"]; event != nil {
				var found struct {
					AtNs  int64           `json:"at_ns"`
					Event json.RawMessage `json:"event"`
				}
				if err := json.Unmarshal(event, &found); err != nil || found.AtNs < 0 {
					p.t.Fatalf("found the event %s", event)
				}
				p.events = append(p.events, string(found.Event))
			} else if line[key] == nil {
				p.t.Fatalf("found %v, expected %s", line, key)
			} else {
				return line[key]
			}
		case err := <-p.ended:
			p.t.Fatalf("the host has ended: %v", err)
		case <-timeout:
			p.t.Fatalf("no answer: %s; events: %v", key, p.events)
		}
	}
}

// until syncs with the host until it has said all of these events, and returns all events.
func (p *process) until(expected ...string) []string {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		p.syncs++
		p.order(`{"sync":%d}`, p.syncs)
		if found := string(p.answer("synced")); found != fmt.Sprint(p.syncs) {
			p.t.Fatalf("found synced %s, expected %d", found, p.syncs)
		}
		isSaid := func(event string) bool { return slices.Contains(p.events, event) }
		if len(slices.DeleteFunc(slices.Clone(expected), isSaid)) == 0 {
			return p.events
		}
		if time.Now().After(end) {
			p.t.Fatalf("found the events %v, expected %v", p.events, expected)
		}
	}
}

func (p *process) look() looked {
	p.t.Helper()
	p.order(`"look"`)
	var found looked
	decoder := json.NewDecoder(strings.NewReader(string(p.answer("looked"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&found); err != nil {
		p.t.Fatal(err)
	}
	return found
}

const pools = `{"pool":{"bytes":100,"signers":2,"flush":"10 ms","ping":"60 s","protocol":{"kind":"cat","preset":"cat-merged"}}}`

// listenOrder returns the first order for a host that dials the one before it.
func listenOrder(addresses []string, host int, application string) string {
	peers, _ := json.Marshal(addresses)
	dials := "[]"
	if host > 0 {
		dials = fmt.Sprintf(`[{"at_ns":1000000,"host":%d}]`, host-1)
	}
	return fmt.Sprintf(
		`{"listen":{"host":%d,"address":%q,"peers":%s,"token":%q,"restart":false,"brief":{"transport":"tcp","dials":%s,"application":%s}}}`,
		host, addresses[host], peers, secret, dials, application,
	)
}

// addresses returns free addresses, one for each host.
func addresses(t *testing.T, count int) []string {
	t.Helper()
	found := make([]string, count)
	for i := range found {
		socket, err := net.Listen("tcp", fmt.Sprintf("127.77.1.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		found[i] = socket.Addr().String()
	}
	return found
}

// inLine starts hosts in a line.
func inLine(t *testing.T, at []string) []*process {
	t.Helper()
	hosts := make([]*process, len(at))
	for i := range at {
		hosts[i] = start(t)
		hosts[i].order("%s", listenOrder(at, i, pools))
		if found := string(hosts[i].answer("ready")); found != fmt.Sprintf(`{"host":%d}`, i) {
			t.Fatalf("found ready %s", found)
		}
	}
	begin := time.Now().Add(10 * time.Millisecond).UnixNano()
	for _, host := range hosts {
		host.order(`{"begin":{"at_unix_ns":%d}}`, begin)
	}
	return hosts
}

// transaction returns a transaction and its key, both in hexadecimal.
func transaction(mark string, number, signer, sequence, priority, gas uint32) (tx, key string) {
	data := []byte(mark)
	for _, word := range []uint32{number, signer, sequence, priority, gas} {
		data = binary.LittleEndian.AppendUint32(data, word)
	}
	data = append(data, make([]byte, 76)...)
	sum := types.Tx(data).Key()
	return hex.EncodeToString(data), hex.EncodeToString(sum[:])
}

func TestPools(t *testing.T) {
	hosts := inLine(t, addresses(t, 3))
	low, lowKey := transaction(valid, 0, 0, 0, 1, 10)
	high, highKey := transaction(valid, 1, 1, 4, 7, 10)
	wrong, wrongKey := transaction(invalid, 2, 0, 1, 0, 1)
	addedFrom := func(key, from string) string { return fmt.Sprintf(`{"added":{"key":%q,"from":%s}}`, key, from) }
	for _, tx := range []string{low, high, wrong} {
		hosts[0].command(linked, fmt.Sprintf(`{"submit":%q}`, tx))
	}
	hosts[0].until(addedFrom(lowKey, "null"), addedFrom(highKey, "null"), fmt.Sprintf(`{"refused":%q}`, wrongKey))
	// The submission is pushed; further hosts ask for it.
	hosts[1].until(addedFrom(lowKey, "0"), addedFrom(highKey, "0"))
	hosts[2].until(addedFrom(lowKey, "1"), addedFrom(highKey, "1"))

	// The block takes the transaction of the higher priority only.
	hosts[2].command(0, `{"propose":{"height":1,"max_bytes":150,"max_gas":null,"compact":false}}`)
	block := fmt.Sprintf(`{"height":1,"keys":[%q],"accounts":[[1,4]],"bytes":100}`, highKey)
	hosts[2].until(fmt.Sprintf(`{"proposed":%s}`, block))
	for _, host := range hosts {
		host.command(0, fmt.Sprintf(`{"commit":%s}`, block))
		host.until()
	}
	rest := fmt.Sprintf(`{"proposed":{"height":2,"keys":[%q],"accounts":[[0,0]],"bytes":100}}`, lowKey)
	hosts[0].command(0, `{"propose":{"height":2,"max_bytes":1000,"max_gas":15,"compact":false}}`)
	hosts[0].until(rest)
	// Its sequence number is used now.
	again, againKey := transaction(valid, 3, 1, 4, 0, 1)
	hosts[0].command(0, fmt.Sprintf(`{"submit":%q}`, again))
	hosts[0].until(fmt.Sprintf(`{"refused":%q}`, againKey))

	pushed, pulled := hosts[1].look(), hosts[2].look()
	engine, pool := pulled.Counters.Engine, pulled.Counters.Pool
	if engine.BodiesReceived != 2 || engine.UnrequestedBodies != 0 || engine.RequestedTxs != 2 || engine.HeardKeys != 2 {
		t.Errorf("found %+v, expected two requests and their answers", engine)
	}
	if engine.Sent["want_tx"].Copies != 2 || engine.Received["txs"].Copies != 2 || pulled.FramesReceived != 4 {
		t.Errorf("found %+v %+v, expected four messages", engine, pulled)
	}
	if pool.AddedTxs != 2 || pool.AddedBytes != 200 || pool.SuccessfulTxs != 1 || pool.EvictedTxs != 0 || pulled.Counters.PoolTx != 1 {
		t.Errorf("found %+v, expected two transactions, and one in a block", pool)
	}
	if pushed.Counters.Engine.UnrequestedBodies != 2 || pushed.PayloadBytesReceived != 200 || pushed.PayloadBytesSent != 200 {
		t.Errorf("found %+v, expected two pushes", pushed)
	}
	if pushed.BytesSent <= pushed.PayloadBytesSent+pushed.ControlBytesSent || len(pushed.LateNs) != 1 {
		t.Errorf("found %+v, expected sealed frames and one command", pushed)
	}

	// Transactions pass again once the link is back.
	hosts[1].order(`{"reconnect":{"host":0}}`)
	hosts[1].until()
	late, lateKey := transaction(valid, 4, 0, 5, 0, 1)
	time.Sleep(linked)
	hosts[0].command(0, fmt.Sprintf(`{"submit":%q}`, late))
	hosts[2].until(addedFrom(lateKey, "1"))
	for _, host := range hosts {
		host.order(`"stop"`)
		if err := <-host.ended; err != nil {
			t.Error(err)
		}
	}
}

// A node with another key proves that it is a stranger.
func TestStrangers(t *testing.T) {
	at := addresses(t, 1)
	inLine(t, at)
	raw, err := net.Dial("tcp", at[0])
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	secret, err := conn.MakeSecretConnection(raw, ed25519.GenPrivKey())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Read(make([]byte, 1)); err == nil {
		t.Error("the host talks to a stranger")
	}
}

func TestRefusals(t *testing.T) {
	at := addresses(t, 1)
	for _, test := range []struct{ from, to, expected string }{
		{"", "", ""},
		{`"cat-merged"`, `"cat"`, ""},
		{`"cat-merged"`, `"cat-merged","timeout":"1 s","capacity":"1 MiB","ttl_blocks":3`, ""},
		{`"cat-merged"`, `"cat-2026"`, `protocol.preset: found "cat-2026", expected cat-merged`},
		{`"cat-merged"`, `"cat-merged","compact_blocks":true`, "protocol.compact_blocks: unknown to go-cat-host"},
		{`"cat-merged"`, `"cat-merged","timeout":"adaptive"`, `protocol.timeout: found "adaptive", expected a time`},
		{`"10 ms"`, `"when-idle"`, "flush: found when-idle, expected a time"},
		{`"bytes":100`, `"bytes":2000000`, "bytes: found 2000000, expected at most 1048576"},
		{`"tcp"`, `"quic"`, "brief.transport: found \"quic\", expected tcp"},
		{`"pool":`, `"messages":`, "application.messages: unknown to go-cat-host"},
	} {
		p := start(t)
		p.order("%s", strings.Replace(listenOrder(at, 0, pools), test.from, test.to, 1))
		if test.expected == "" {
			p.answer("ready")
			p.in.Close()
			if err := <-p.ended; err != nil {
				t.Error(err)
			}
		} else if err := <-p.ended; err == nil || !strings.Contains(err.Error(), test.expected) {
			t.Errorf("found %v, expected %s", err, test.expected)
		}
	}
	host := inLine(t, at)[0]
	host.command(0, `{"dance":{}}`)
	if err := <-host.ended; err == nil || !strings.Contains(err.Error(), "command dance: unknown") {
		t.Errorf("found %v", err)
	}
}
