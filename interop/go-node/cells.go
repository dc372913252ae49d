package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p-pubsub/partialmessages"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// Maximum number of blocks, as in samara's own node.
	blocksMax = 10_000
	// The id of a group is a version byte, which is 0 in Fulu, and the root of the block.
	groupBytes = 33
	// Number of heartbeats for which the router keeps the views of a group after the node has last sent
	// something about it, as in samara's own node.
	groupHeartbeats = 12
	// Maximum number of bodies that await their verification, as in samara's own node.
	arrivedMax = 4096
	// Maximum number of times that the node sends the cells of a column to one peer.
	answersMax = 3
	// The part of a topic's name before the number of the column.
	columnInfix = "/data_column_sidecar_"
)

// cellsConfig is the section [cells] of a node.toml.
type cellsConfig struct {
	LookupTime span `toml:"lookup_time"`
	CellTime   span `toml:"cell_time"`
	Blocks     []struct {
		Group   string
		Blobs   int
		Mempool []int
	}
}

// blocks checks the section and returns its blocks by the ids of their groups.
func (c *cellsConfig) blocks() (map[string]*block, error) {
	if found := len(c.Blocks); found > blocksMax {
		return nil, fmt.Errorf("cells.blocks: found %d blocks, expected at most %d", found, blocksMax)
	}
	blocks := map[string]*block{}
	for i, configured := range c.Blocks {
		wrong := func(key string, found any, expected string) error {
			return fmt.Errorf("cells.blocks.%d.%s: found %v, expected %s", i, key, found, expected)
		}
		id, err := base64.StdEncoding.DecodeString(configured.Group)
		if err != nil || len(id) != groupBytes || id[0] != 0 || blocks[string(id)] != nil {
			return nil, wrong("group", configured.Group, "the byte 0 and a root in base64, each once")
		}
		if configured.Blobs < 1 || configured.Blobs > blobsMax {
			return nil, wrong("blobs", configured.Blobs, fmt.Sprintf("1 to %d", blobsMax))
		}
		b := &block{
			id: string(id), blobs: configured.Blobs, mempool: newBits(configured.Blobs),
			header: encodeHeader(configured.Blobs), holders: map[peer.ID]bool{}, columns: map[string]*column{},
		}
		for _, blob := range configured.Mempool {
			if blob < 0 || blob >= b.blobs {
				return nil, wrong("mempool", blob, fmt.Sprintf("numbers below %d", b.blobs))
			}
			b.mempool.add(blob)
		}
		blocks[b.id] = b
	}
	return blocks, nil
}

// cells exchanges the cells of columns as deployed clients do: it asks all mesh peers for all cells that
// its mempool lacks.
//
// Only the event loop of the router reads and changes blocks and columns: in the callbacks of the
// extension, and in the functions that update passes to it. The event loop cannot wait for itself, so its
// callbacks call update in goroutines.
type cells struct {
	node                 *node
	counts               *counters
	lookupTime, cellTime time.Duration
	blocks               map[string]*block
	// The subscribed topics of columns.
	topics  []string
	arrived chan arrival
}

// block has what a node knows about a block, in all columns.
type block struct {
	id      string
	blobs   int
	mempool bits
	header  []byte
	// Whether the header awaits its verification or has passed it.
	hasHeader bool
	// Whether it has passed it.
	isKnown bool
	// The peers that have the header, since they have said something about the block, or received it.
	holders map[peer.ID]bool
	columns map[string]*column
}

// column has the cells of a block on a topic. Their contents follow from the block.
type column struct {
	have bits
	// Cells that await their verification.
	checking bits
	// Cells that leave unasked, at their publisher.
	push bits
	// Whether the mempool was looked up, after which the node wants all other cells.
	isWanted bool
	// Whether the whole column was published.
	isPublished bool
	// Whether an update is on its way to the event loop.
	isDue bool
}

// view is what the node knows about a peer in a column.
type view struct {
	// What the peer has announced or sent, and what it requests.
	available, requests bits
	// What the node has announced and requested last, if it has.
	told, asked bits
	isTold      bool
	// The cells that the node has sent to the peer, and those that it has received from it.
	sent, received bits
	// Number of cells sent, with repeated ones.
	answered int
}

// arrival is a body that awaits its verification.
type arrival struct {
	at     time.Time
	topic  string
	block  *block
	header bool
	cells  bits
}

// newCells returns nil if the node has no section [cells].
func newCells(c *config, counts *counters) (*cells, error) {
	if c.Cells == nil {
		return nil, nil
	}
	blocks, err := c.Cells.blocks()
	if err != nil {
		return nil, err
	}
	topics := slices.DeleteFunc(slices.Clone(c.Topics), func(topic string) bool {
		_, isColumn := columnOf(topic)
		return !isColumn
	})
	return &cells{
		counts: counts, lookupTime: time.Duration(c.Cells.LookupTime), cellTime: time.Duration(c.Cells.CellTime),
		blocks: blocks, topics: topics, arrived: make(chan arrival, arrivedMax),
	}, nil
}

func (c *cells) extension() *partialmessages.PartialMessagesExtension[*view] {
	return &partialmessages.PartialMessagesExtension[*view]{
		Logger:             slog.New(slog.DiscardHandler),
		GroupTTLByHeatbeat: groupHeartbeats,
		OnIncomingRPC:      c.receive,
		OnEmitGossip: func(topic string, group []byte, _ []peer.ID, _ map[peer.ID]*view) {
			if b := c.blocks[string(group)]; b != nil {
				c.updateLater(topic, b)
			}
		},
	}
}

// columnOf returns the number at the end of the name of a column's topic.
func columnOf(topic string) (uint64, bool) {
	_, rest, found := strings.Cut(topic, columnInfix)
	digits, _, _ := strings.Cut(rest, "/")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, found && err == nil
}

// receive takes a frame of a peer, in the event loop.
func (c *cells) receive(from peer.ID, views map[peer.ID]*view, rpc *pb.PartialMessagesExtension) error {
	topic, b := rpc.GetTopicID(), c.blocks[string(rpc.GroupID)]
	// A publisher need not subscribe.
	if b == nil || b.columns[topic] == nil && !slices.Contains(c.topics, topic) {
		c.counts.count(&c.counts.unknownGroups)
		return nil
	}
	v := views[from]
	if v == nil {
		v = &view{}
		views[from] = v
	}
	b.holders[from] = true
	if len(rpc.PartialMessage) > 0 {
		body, err := decodeBody(rpc.PartialMessage, b.blobs)
		if err != nil {
			return err
		}
		if err := c.receiveBody(topic, b, v, body); err != nil {
			return err
		}
	}
	if len(rpc.PartsMetadata) > 0 {
		available, requests, err := decodeMetadata(rpc.PartsMetadata, b.blobs)
		if err != nil {
			return err
		}
		c.counts.count(&c.counts.partsMetadata)
		// A cell that is requested again was lost.
		v.sent = v.sent.without(requests.without(v.requests))
		v.available, v.requests = v.available.or(available), requests
		c.updateLater(topic, b)
	}
	return nil
}

// receiveBody hands new cells, and a new header, to the verification.
func (c *cells) receiveBody(topic string, b *block, v *view, body *body) error {
	c.counts.addCells(body)
	if body.header != nil && !bytes.Equal(body.header, b.header) {
		return errors.New("found another header, expected that of the block")
	}
	cells, proofs := b.parts(body.present)
	if !bytes.Equal(body.cells, cells) || !bytes.Equal(body.proofs, proofs) {
		return errors.New("found cells with other contents, expected those of the block")
	}
	v.available, v.received = v.available.or(body.present), v.received.or(body.present)
	isFirst := body.header != nil && !b.hasHeader
	if !b.hasHeader && !isFirst {
		// Deployed clients drop them: without the commitments nobody can verify cells.
		c.counts.count(&c.counts.earlyBodies)
		return nil
	}
	column := b.column(topic)
	fresh := body.present.without(column.have).without(column.checking)
	if !isFirst && fresh.count() == 0 {
		return nil
	}
	select {
	case c.arrived <- arrival{time.Now(), topic, b, isFirst, fresh}:
		b.hasHeader = true
		column.checking = column.checking.or(fresh)
	default:
		c.counts.count(&c.counts.droppedBodies)
	}
	return nil
}

// verify verifies one cell after the other.
func (c *cells) verify() {
	var end time.Time
	for {
		var next arrival
		select {
		case next = <-c.arrived:
		case <-c.node.ctx.Done():
			return
		}
		if end.Before(next.at) {
			end = next.at
		}
		end = end.Add(time.Duration(next.cells.count()) * c.cellTime)
		time.Sleep(time.Until(end))
		if next.header {
			time.AfterFunc(c.lookupTime, func() { c.lookUp(next.block) })
		}
		c.update(next.topic, next.block, func(column *column) {
			next.block.isKnown = true
			column.have = column.have.or(next.cells)
			column.checking = column.checking.without(next.cells)
		})
		if next.header {
			// The first topic of each peer carries the header.
			for _, topic := range c.topics {
				c.update(topic, next.block, func(*column) {})
			}
		}
	}
}

// lookUp adds the cells of the mempool to all columns.
func (c *cells) lookUp(b *block) {
	for _, topic := range c.topics {
		c.update(topic, b, func(column *column) {
			if column.isWanted || column.isPublished {
				return
			}
			had := column.have.count()
			column.have, column.isWanted = column.have.or(b.mempool), true
			c.counts.lookedUp(had, b.blobs-column.have.count())
		})
	}
}

// publish publishes a block: its columns for peers that want whole ones, and its cells. The columns are
// first in the trace, where those of other nodes, which complete them from cells, follow.
func (c *cells) publish(spec *blockSpec) error {
	b := c.block(spec)
	push := newBits(b.blobs)
	for _, blob := range spec.Push {
		push.add(blob)
	}
	messages, columns := make([]payload, len(spec.Topics)), make([][]byte, len(spec.Topics))
	for i, topic := range spec.Topics {
		messages[i], columns[i] = payload{Topic: topic}, b.wholeColumn(topic)
	}
	if err := c.node.publish(messages, columns); err != nil {
		return err
	}
	for _, topic := range spec.Topics {
		c.update(topic, b, func(column *column) {
			b.hasHeader, b.isKnown = true, true
			column.have, column.push = allBits(b.blobs), push
			column.isWanted, column.isPublished = true, true
		})
	}
	return nil
}

// block returns the block of a publication, or nil if it is unknown.
func (c *cells) block(spec *blockSpec) *block {
	id, err := base64.StdEncoding.DecodeString(spec.Group)
	if c == nil || err != nil {
		return nil
	}
	return c.blocks[string(id)]
}

// check returns an error for a publication that the node cannot make.
func (c *cells) check(spec *blockSpec) error {
	b := c.block(spec)
	if b == nil {
		return fmt.Errorf("group: found %q, expected a block of cells.blocks", spec.Group)
	}
	for _, blob := range spec.Push {
		if blob < 0 || blob >= b.blobs {
			return fmt.Errorf("push: found blob %d, expected numbers below %d", blob, b.blobs)
		}
	}
	for _, topic := range spec.Topics {
		if _, isColumn := columnOf(topic); !isColumn {
			return fmt.Errorf("topics: found %q, expected the topic of a column", topic)
		}
	}
	return nil
}

// updateLater calls update in a goroutine, of which each column has at most one.
func (c *cells) updateLater(topic string, b *block) {
	if state := b.column(topic); !state.isDue {
		state.isDue = true
		go c.update(topic, b, func(*column) {})
	}
}

// update changes a column, sends peers what follows, and publishes the column if that completes it.
func (c *cells) update(topic string, b *block, change func(*column)) {
	isComplete := false
	actions := func(views map[peer.ID]*view, requests func(peer.ID) bool) iter.Seq2[peer.ID, partialmessages.PublishAction] {
		column := b.column(topic)
		column.isDue = false
		change(column)
		if !column.isPublished && column.have.count() == b.blobs {
			column.isPublished, isComplete = true, true
		}
		return c.actions(b, column, views, requests)
	}
	if err := pubsub.PublishPartial(c.node.pubsub, topic, []byte(b.id), actions); err != nil {
		// Only at the end of the node.
		log.Printf("cannot update %s: %v", topic, err)
		return
	}
	if isComplete {
		if err := c.node.publish([]payload{{Topic: topic}}, [][]byte{b.wholeColumn(topic)}); err != nil {
			log.Printf("cannot publish a column: %v", err)
		}
	}
}

// actions sends each peer the cells that it requests, the header if it may lack it, and news of what the
// node has and wants.
func (c *cells) actions(b *block, column *column, views map[peer.ID]*view, requests func(peer.ID) bool) iter.Seq2[peer.ID, partialmessages.PublishAction] {
	return func(yield func(peer.ID, partialmessages.PublishAction) bool) {
		for id, v := range views {
			if v == nil {
				v = &view{}
				views[id] = v
			}
			action := partialmessages.PublishAction{}
			if requests(id) {
				action.EncodedPartialMessage = c.answer(b, column, v, id)
			}
			if missing := allBits(b.blobs).without(column.have); column.isWanted && v.lacksNews(column.have, missing) {
				action.EncodedPartsMetadata = encodeMetadata(column.have, missing, b.blobs)
				v.told, v.asked, v.isTold = column.have, missing, true
			}
			if (len(action.EncodedPartialMessage) > 0 || len(action.EncodedPartsMetadata) > 0) && !yield(id, action) {
				return
			}
		}
	}
}

// answer returns a body for a peer, or nil if the peer needs none.
func (c *cells) answer(b *block, column *column, v *view, id peer.ID) []byte {
	send := v.requests.or(column.push.without(v.available)).and(column.have).without(v.sent)
	count := send.count()
	if v.answered+count > answersMax*b.blobs {
		c.counts.count(&c.counts.refusedAnswers)
		send, count = nil, 0
	}
	var header []byte
	if b.isKnown && !b.holders[id] {
		header = b.header
		b.holders[id] = true
	}
	if count == 0 && header == nil {
		return nil
	}
	v.sent, v.answered = v.sent.or(send), v.answered+count
	answer := body{present: send, header: header}
	answer.cells, answer.proofs = b.parts(send)
	return answer.encode(b.blobs)
}

// lacksNews returns whether a peer has not been told what the node has and requests.
func (v *view) lacksNews(have, missing bits) bool {
	fresh := have.without(v.told).without(v.available)
	ended := v.asked.without(missing).without(v.received)
	return !v.isTold || fresh.count() > 0 || ended.count() > 0
}

func (b *block) column(topic string) *column {
	if b.columns[topic] == nil {
		b.columns[topic] = &column{}
	}
	return b.columns[topic]
}

// parts returns cells and proofs. Their contents are those of no real blob: the id of the group and the
// number of the blob, repeated, as in samara's own node.
func (b *block) parts(blobs bits) (cells, proofs []byte) {
	part := make([]byte, 0, partBytes+groupBytes+4)
	for blob := range b.blobs {
		if !blobs.has(blob) {
			continue
		}
		unit := binary.LittleEndian.AppendUint32([]byte(b.id), uint32(blob))
		for part = part[:0]; len(part) < partBytes; {
			part = append(part, unit...)
		}
		cells = append(cells, part[:cellBytes]...)
		proofs = append(proofs, part[cellBytes:partBytes]...)
	}
	return cells, proofs
}

func (b *block) wholeColumn(topic string) []byte {
	number, _ := columnOf(topic)
	cells, proofs := b.parts(allBits(b.blobs))
	return encodeColumn(number, b.header, cells, proofs)
}
