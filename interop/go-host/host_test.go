package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	secret = "000102030405060708090a0b0c0d0e0f"
	// Time for something to happen on a busy machine.
	patience = 20 * time.Second
	// Time from the start until meshes have formed, with a heartbeat of 100 ms.
	formed = 700 * time.Millisecond
)

// TestMain runs the host itself for tests that need a process.
func TestMain(m *testing.M) {
	if os.Getenv("GO_HOST") != "" {
		os.Args = os.Args[:1]
		main()
		return
	}
	os.Exit(m.Run())
}

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
		missing := slices.DeleteFunc(slices.Clone(expected), func(event string) bool {
			return slices.Contains(p.events, event)
		})
		if len(missing) == 0 {
			return p.events
		}
		if time.Now().After(end) {
			p.t.Fatalf("found the events %v, expected %v", p.events, expected)
		}
	}
}

// look returns counters of the family, and all others.
func (p *process) look(counters any) looked {
	p.t.Helper()
	p.order(`"look"`)
	found := looked{Counters: counters}
	decoder := json.NewDecoder(strings.NewReader(string(p.answer("looked"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&found); err != nil {
		p.t.Fatal(err)
	}
	return found
}

func (p *process) stop() {
	p.t.Helper()
	p.order(`"stop"`)
	if err := <-p.ended; err != nil {
		p.t.Fatal(err)
	}
}

// addresses returns free addresses, one for each host.
func addresses(t *testing.T, network string, count int) []string {
	t.Helper()
	found := make([]string, count)
	for i := range found {
		at := fmt.Sprintf("127.77.0.%d:0", i+1)
		if network == "quic" {
			socket, err := net.ListenPacket("udp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			found[i] = socket.LocalAddr().String()
			continue
		}
		socket, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		found[i] = socket.Addr().String()
	}
	return found
}

// listenOrder returns the first order for a host that dials the one before it.
func listenOrder(addresses []string, host int, transport, application string) string {
	peers, _ := json.Marshal(addresses)
	dials := "[]"
	if host > 0 {
		dials = fmt.Sprintf(`[{"at_ns":1000000,"host":%d}]`, host-1)
	}
	return fmt.Sprintf(
		`{"listen":{"host":%d,"address":%q,"peers":%s,"token":%q,"restart":false,"brief":{"transport":%q,"dials":%s,"application":%s}}}`,
		host, addresses[host], peers, secret, transport, dials, application,
	)
}

// inLine starts hosts in a line, each with its application.
func inLine(t *testing.T, transport string, applications ...string) []*process {
	t.Helper()
	at := addresses(t, transport, len(applications))
	hosts := make([]*process, len(applications))
	for i, application := range applications {
		hosts[i] = start(t)
		hosts[i].order("%s", listenOrder(at, i, transport, application))
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

func (p *process) command(at time.Duration, command string) {
	p.t.Helper()
	p.order(`{"command":{"at_ns":%d,"command":%s}}`, at.Nanoseconds(), command)
}

const stream = `{"messages":{"topic":"pubsub-benchmark","bytes":[1024,30001,4],"protocol":{"kind":"gossipsub","preset":"ethereum","version":"1.2","heartbeat":"100 ms"}}}`

func TestMessages(t *testing.T) {
	for _, transport := range []string{"tcp", "quic"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			hosts := inLine(t, transport, stream, stream, stream)
			hosts[0].command(formed, "1")
			hosts[2].command(formed, "0")
			hosts[0].until(`{"delivered":{"message":0,"from":1}}`)
			hosts[1].until(`{"delivered":{"message":1,"from":0}}`, `{"delivered":{"message":0,"from":2}}`)
			hosts[2].until(`{"delivered":{"message":1,"from":1}}`)

			var counters messageCounters
			first := hosts[0].look(&counters)
			if counters.Mesh != 1 || len(first.LateNs) != 1 || first.LateNs[0] < 0 {
				t.Errorf("found %+v %v, expected a mesh of one and one command", counters, first.LateNs)
			}
			if first.PayloadBytesSent != 30001 || first.PayloadBytesReceived != 1024 || first.FramesSent < 2 {
				t.Errorf("found %+v, expected one message sent and one received", first)
			}
			if first.BytesSent != first.PayloadBytesSent+first.ControlBytesSent {
				t.Errorf("found %+v, expected the bytes of payload and control", first)
			}
			if again := hosts[0].look(&counters); len(again.LateNs) != 0 {
				t.Errorf("found %v, expected no command since the last look", again.LateNs)
			}

			// Messages pass again once the link is back.
			hosts[1].order(`{"reconnect":{"host":0}}`)
			for end := time.Now().Add(patience); counters.Mesh != 0 && time.Now().Before(end); {
				hosts[0].look(&counters)
			}
			for end := time.Now().Add(patience); counters.Mesh != 1 && time.Now().Before(end); {
				hosts[0].look(&counters)
			}
			hosts[0].command(0, "2")
			events := hosts[2].until(`{"delivered":{"message":2,"from":1}}`)
			if len(events) != 2 {
				t.Errorf("found %v, expected each message once", events)
			}
			for _, host := range hosts {
				host.stop()
			}
		})
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	at := addresses(t, "tcp", 2)
	begun := time.Now().UnixNano()
	begin := func(host int) *process {
		p := start(t)
		p.order("%s", listenOrder(at, host, "tcp", stream))
		p.answer("ready")
		p.order(`{"begin":{"at_unix_ns":%d}}`, begun)
		return p
	}
	first, second := begin(0), begin(1)
	first.command(formed, "0")
	second.until(`{"delivered":{"message":0,"from":0}}`)
	second.in.Close()
	if err := <-second.ended; err != nil {
		t.Fatal(err)
	}
	second = begin(1)
	first.command(time.Since(time.Unix(0, begun))+formed, "1")
	second.until(`{"delivered":{"message":1,"from":0}}`)
}

// columnsOf returns an application with two slots of three columns.
func columnsOf(joins, version, schedule, cells string) string {
	return fmt.Sprintf(
		`{"columns":{"topics":["/a","/b","/c"],"bytes":[2048,5000,70001],"joins":%s,"slots":2,"protocol":{"kind":"gossipsub","version":%q,"heartbeat":"100 ms"%s},"cells":%s}}`,
		joins, version, schedule, cells,
	)
}

func TestColumns(t *testing.T) {
	for _, command := range []string{"publish_batch", "publish_each"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			// The publisher joins no topic.
			hosts := inLine(t, "tcp",
				columnsOf("[]", "1.2", `,"schedule_publish":{"kind":"interleaved","peers":"random"}`, "null"),
				columnsOf("[0,1,2]", "1.1", `,"withdraw":false`, "null"),
				columnsOf("[2]", "1.2", "", "null"))
			hosts[0].command(formed, fmt.Sprintf(`{%q:{"slot":1}}`, command))
			hosts[1].until(
				`{"copy":{"segment":3,"from":0,"first":true}}`, `{"copy":{"segment":4,"from":0,"first":true}}`,
				`{"copy":{"segment":5,"from":0,"first":true}}`)
			hosts[2].until(`{"copy":{"segment":5,"from":1,"first":true}}`)
			var counters columnCounters
			if hosts[1].look(&counters); counters != (columnCounters{Joined: 3, Targets: 1}) {
				t.Errorf("found %+v, expected three topics with one neighbour in a mesh", counters)
			}
		})
	}
}

// cellsOf returns the cells of two blocks of four blobs.
func cellsOf(mempool, push string) string {
	groups := [2]string{}
	for slot := range groups {
		id := make([]byte, groupBytes)
		id[1] = byte(slot)
		groups[slot] = base64.StdEncoding.EncodeToString(id)
	}
	block := `{"group":%q,"mempool":%s,"push":%s}`
	blocks := fmt.Sprintf(block+","+block, groups[0], mempool, push, groups[1], mempool, push)
	return fmt.Sprintf(`{"blobs":4,"lookup_time":"10 ms","cell_time":"0.12 ms","blocks":[%s]}`, blocks)
}

func TestCells(t *testing.T) {
	t.Run("from cells", func(t *testing.T) {
		t.Parallel()
		hosts := inLine(t, "tcp",
			columnsOf("[0,1,2]", "1.3", "", cellsOf("[]", "[3]")),
			columnsOf("[0,1,2]", "1.3", `,"parts":{"asking":"everyone"}`, cellsOf("[0,1,2]", "[]")),
			columnsOf("[0,1,2]", "1.3", "", cellsOf("[0,1]", "[]")))
		hosts[0].command(formed, `{"publish_batch":{"slot":1}}`)
		for from, host := range hosts[1:] {
			var expected []string
			for column := 3; column < 6; column++ {
				expected = append(expected, fmt.Sprintf(`{"copy":{"segment":%d,"from":%d,"first":true}}`, column, from))
			}
			if events := host.until(expected...); len(events) != 3 {
				t.Errorf("found %v, expected each column once", events)
			}
		}
		if events := hosts[0].until(); len(events) != 0 {
			t.Errorf("found %v, expected no event of the publisher", events)
		}
		var counters columnCounters
		for i, host := range hosts[1:] {
			// Of each column host 1 lacks a cell, and host 2 lacks two.
			host.look(&counters)
			lacked, found := uint64(3*(i+1)), counters.Cells
			if found[0] != lacked || found[2] < lacked || found[3] == 0 || found[4] == 0 {
				t.Errorf("found the cells %v at host %d", found, i+1)
			}
		}
	})
	t.Run("from a mempool that has all", func(t *testing.T) {
		t.Parallel()
		hosts := inLine(t, "tcp",
			columnsOf("[1]", "1.3", "", cellsOf("[]", "[]")), columnsOf("[1]", "1.3", "", cellsOf("[3,2,1,0]", "[]")))
		hosts[0].command(formed, `{"publish_each":{"slot":0}}`)
		hosts[1].until(`{"copy":{"segment":1,"from":0,"first":true}}`)
		var counters columnCounters
		if hosts[1].look(&counters); counters.Cells[0] != 0 || counters.Cells[1] != 1 {
			t.Errorf("found %+v, expected a column from the mempool alone", counters)
		}
	})
	t.Run("between hosts with whole columns", func(t *testing.T) {
		t.Parallel()
		whole := columnsOf("[0,1,2]", "1.3", "", "null")
		hosts := inLine(t, "tcp", whole,
			columnsOf("[0,1,2]", "1.3", "", cellsOf("[]", "[]")), columnsOf("[0,1,2]", "1.3", "", cellsOf("[]", "[]")), whole)
		hosts[0].command(formed, `{"publish_batch":{"slot":0}}`)
		for from, host := range hosts[1:] {
			var expected []string
			for column := range 3 {
				expected = append(expected, fmt.Sprintf(`{"copy":{"segment":%d,"from":%d,"first":true}}`, column, from))
			}
			host.until(expected...)
		}
	})
}

func TestOrdersThatAreWrong(t *testing.T) {
	at := addresses(t, "tcp", 1)
	listen := listenOrder(at, 0, "tcp", stream)
	changed := func(old, new string) string {
		if !strings.Contains(listen, old) {
			t.Fatalf("no %s in %s", old, listen)
		}
		return strings.Replace(listen, old, new, 1)
	}
	key := func(key string) string { return changed(`"version":"1.2"`, key) }
	columns := listenOrder(at, 0, "tcp", columnsOf("[0]", "1.2", "", cellsOf("[]", "[]")))
	taken, err := net.Listen("tcp", "127.77.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	begin := fmt.Sprintf(`{"begin":{"at_unix_ns":%d}}`, time.Now().UnixNano())
	for _, test := range []struct{ expected, lines string }{
		{"an order: invalid character", "garbage"},
		{"an order: unexpected end", ""},
		{"an order: found 2 keys", `{"sync":1,"look":2}`},
		{"listen: address: found none", `{"listen":{}}`},
		{"expected listen", `"look"`},
		{"expected listen", begin},
		{"expected begin", listen + "\n" + `{"sync":1}`},
		{"found twice", listen + "\n" + begin + "\n" + begin},
		{"found twice", listen + "\n" + listen},
		{"dance: unknown", listen + "\n" + begin + "\n" + `"dance"`},
		{"sync: found null", listen + "\n" + begin + "\n" + `{"sync":null}`},
		{"look: unknown", listen + "\n" + begin + "\n" + `{"look":1}`},
		{"command: at_ns: found none", listen + "\n" + begin + "\n" + `{"command":{"command":1}}`},
		{"command: found message 3, expected", listen + "\n" + begin + "\n" + `{"command":{"at_ns":1,"command":3}}`},
		{"reconnect: host: found 0", listen + "\n" + begin + "\n" + `{"reconnect":{"host":0}}`},
		{"more: unknown", changed(`"restart":false`, `"restart":false,"more":1`)},
		{"Restart: unknown", changed(`"restart":false`, `"Restart":false`)},
		{"token: found 2 characters", changed(secret, "00")},
		{"host: found 1", changed(`"host":0`, `"host":1`)},
		{"brief.dials.host: found 7", changed(`"dials":[]`, `"dials":[{"at_ns":1,"host":7}]`)},
		{"brief.transport: found \"udp\"", changed(`"transport":"tcp"`, `"transport":"udp"`)},
		{"address already in use", changed(`"address":"`+at[0], `"address":"`+taken.Addr().String())},
		{"bytes.2: found 3", changed("30001,4]", "30001,3]")},
		{"brief.application: expected either", changed(`"messages":`, `"columns":null,"messages":null}}}}`+"\n")},
		{"brief.application.group: unknown", changed(`"messages":`, `"group":`)},
		{"brief.application.messages.protocol.spread: unknown", key(`"spread":{}`)},
		{"protocol.parts.patience: unknown", key(`"parts":{"patience":"1 s"}`)},
		{"protocol.heartbeat: found \"700\"", changed(`"100 ms"`, `"700"`)},
		{"protocol.kind: found floodsub", changed(`"gossipsub"`, `"floodsub"`)},
		{"protocol.preset: found go-libp2p-pubsub-0.1", changed(`"ethereum"`, `"go-libp2p-pubsub-0.1"`)},
		{"protocol.version: found 1.0", key(`"version":"1.0"`)},
		{"protocol.version: found \"1.2\", expected 1.3", columns},
		{"protocol.withdraw: found true", key(`"withdraw":true`)},
		{"protocol.gossip_to_pruned", key(`"gossip_to_pruned":true`)},
		{"protocol.idontwant_on_publish", key(`"idontwant_on_publish":true`)},
		{"protocol.dispatch: found node", key(`"dispatch":"node"`)},
		{"protocol.overflow: found drop-oldest", key(`"overflow":"drop-oldest"`)},
		{"protocol.schedule_publish.kind: found staggered", key(`"schedule_publish":{"kind":"staggered"}`)},
		{"protocol.schedule_publish.peers: found balanced", key(`"schedule_publish":{"kind":"interleaved","peers":"balanced"}`)},
		{"protocol.schedule_forward.kind", key(`"schedule_forward":{"kind":"interleaved"}`)},
		{"protocol.parts.asking: found one", key(`"parts":{"asking":"one"}`)},
		{"protocol.queue: found 0", key(`"queue":0`)},
		{"columns.bytes: found 1", strings.Replace(columns, "2048,5000,", "", 1)},
		{"columns.joins: found 3", strings.Replace(columns, `"joins":[0]`, `"joins":[3]`, 1)},
		{"columns.topics: found /a", strings.Replace(columns, `"/b"`, `"/a"`, 1)},
		{"columns.cells.blocks: found 2", strings.Replace(columns, `"slots":2`, `"slots":1`, 1)},
		{"cells.blocks.0.push: found 4", strings.Replace(columns, `"push":[]`, `"push":[4]`, 1)},
		{"cells.blocks.1.group", strings.Replace(columns, `"group":"AAEA`, `"group":"AAAA`, 1)},
	} {
		err := run(strings.NewReader(test.lines+"\n"), io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.expected) {
			t.Errorf("found %v, expected %s after\n%s", err, test.expected, test.lines)
		}
	}
	long := strings.Replace(listen, `"peers":`, strings.Repeat(" ", lineMax-len(listen)-8)+`"peers":`, 1)
	if err := run(strings.NewReader(long+"\n"), io.Discard); err != nil {
		t.Errorf("found %.200s, expected a long line to be read", err)
	}
	if err := run(strings.NewReader(long+"         \n"), io.Discard); err == nil {
		t.Error("found no error, expected one for a line that is too long")
	}
}

func TestStatus(t *testing.T) {
	listen := listenOrder(addresses(t, "tcp", 1), 0, "tcp", stream)
	for _, test := range []struct {
		name, lines string
		status      int
		out, log    string
	}{
		{"the end of the input", listen + "\n", 0, `{"ready":{"host":0}}` + "\n", ""},
		{"no order", "", 0, "", ""},
		{"garbage", "garbage\n", 1, "", "go-host: an order: "},
		{"half an order", `{"listen":`, 1, "", "go-host: an order: "},
	} {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "GO_HOST=1")
		command.Stdin = strings.NewReader(test.lines)
		var log strings.Builder
		command.Stderr = &log
		out, _ := command.Output()
		status := command.ProcessState.ExitCode()
		if status != test.status || string(out) != test.out || !strings.HasPrefix(log.String(), test.log) {
			t.Errorf("%s: found status %d, output %q, log %q", test.name, status, out, log.String())
		}
	}
}

func TestPayloadsRepeatTheirNumbers(t *testing.T) {
	if found := payload(0x01020304, 7); !reflect.DeepEqual(found, []byte{4, 3, 2, 1, 4, 3, 2}) {
		t.Errorf("found %v", found)
	}
}
