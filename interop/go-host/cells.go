package main

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p-pubsub/partialmessages"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// The id of a group is a version byte, which is 0 in Fulu, and the root of the block.
	groupBytes = 33
	// Number of heartbeats for which the router keeps the views of a group after the host has last sent
	// something about it, as Samara's hosts do.
	groupHeartbeats = 12
	// Maximum number of bodies that await their verification, as in Samara's hosts.
	arrivedMax = 4096
	// Maximum number of times that the host sends the cells of a column to one peer.
	answersMax = 3
)

// cells exchanges the cells of columns as deployed clients do: it asks all mesh peers for all cells that
// its mempool lacks.
//
// Only the event loop of the router reads and changes blocks and columns: in the callbacks of the
// extension, and in the functions that update passes to it. The event loop cannot wait for itself, so its
// callbacks call update in goroutines.
type cells struct {
	columns              *columns
	lookupTime, cellTime time.Duration
	// The blocks by slot, and by the ids of their groups.
	slots  []*block
	blocks map[string]*block
	// The subscribed topics.
	topics  []string
	arrived chan arrival
	counts  cellCounts
}

// cellCounts has cells that the mempools lacked, columns that they completed, and received cells,
// headers and metadata.
type cellCounts struct {
	missing, local, cells, headers, metadata atomic.Uint64
}

func (c *cellCounts) numbers() [5]uint64 {
	return [5]uint64{c.missing.Load(), c.local.Load(), c.cells.Load(), c.headers.Load(), c.metadata.Load()}
}

// block has what a host knows about a block, in all columns.
type block struct {
	slot    uint32
	id      string
	blobs   int
	mempool bits
	// The blobs whose cells leave unasked, if the host publishes the block.
	push   bits
	header []byte
	// Whether the header awaits its verification or has passed it, and the host that sent it.
	hasHeader  bool
	headerFrom uint32
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
	// Whether the host announces what it has, and wants all other cells: once it has looked up the
	// mempool, or has the whole column.
	isWanted bool
	// Whether the whole column was published.
	isPublished bool
	// Whether an update is on its way to the event loop.
	isDue bool
}

// view is what the host knows about a peer in a column.
type view struct {
	// What the peer has announced or sent, and what it requests.
	available, requests bits
	// What the host has announced and requested last, if it has.
	announced, requested bits
	isAnnounced          bool
	// The cells that the host has sent to the peer, and those that it has received from it.
	sent, received bits
	// Number of cells sent, with repeated ones.
	answered int
}

// arrival is a body that awaits its verification.
type arrival struct {
	at     time.Time
	from   uint32
	topic  string
	block  *block
	header bool
	cells  bits
}

func newCells(brief *columnsBrief, columns *columns) (*cells, error) {
	b := brief.cells
	wrong := func(key string, found any, expected string) error {
		return fmt.Errorf("brief.application.columns.cells.%s: found %v, expected %s", key, found, expected)
	}
	if b.blobs < 1 || b.blobs > blobsMax {
		return nil, wrong("blobs", b.blobs, fmt.Sprintf("1 to %d", blobsMax))
	}
	if int64(len(b.blocks)) != int64(brief.slots) {
		return nil, wrong("blocks", len(b.blocks), fmt.Sprintf("those of %d slots", brief.slots))
	}
	c := &cells{
		columns: columns, lookupTime: time.Duration(b.lookupTime), cellTime: time.Duration(b.cellTime),
		blocks: map[string]*block{}, arrived: make(chan arrival, arrivedMax),
	}
	for _, segment := range brief.joins {
		c.topics = append(c.topics, brief.topics[segment])
	}
	for slot, found := range b.blocks {
		id := string(found.group)
		if len(id) != groupBytes || id[0] != 0 || c.blocks[id] != nil {
			key := fmt.Sprintf("blocks.%d.group", slot)
			return nil, wrong(key, found.group, "the byte 0 and a root of 32 bytes, each once")
		}
		next := &block{
			slot: uint32(slot), id: id, blobs: b.blobs, mempool: newBits(b.blobs), push: newBits(b.blobs),
			header: encodeHeader(b.blobs), holders: map[peer.ID]bool{}, columns: map[string]*column{},
		}
		for _, list := range []struct {
			key   string
			blobs []int
			set   bits
		}{{"mempool", found.mempool, next.mempool}, {"push", found.push, next.push}} {
			for _, blob := range list.blobs {
				if blob < 0 || blob >= b.blobs {
					key := fmt.Sprintf("blocks.%d.%s", slot, list.key)
					return nil, wrong(key, blob, fmt.Sprintf("numbers below %d", b.blobs))
				}
				list.set.add(blob)
			}
		}
		c.slots = append(c.slots, next)
		c.blocks[id] = next
	}
	return c, nil
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

// receive takes a frame of a peer, in the event loop.
func (c *cells) receive(from peer.ID, views map[peer.ID]*view, rpc *pb.PartialMessagesExtension) error {
	topic, b := rpc.GetTopicID(), c.blocks[string(rpc.GroupID)]
	// A publisher need not subscribe.
	if b == nil || b.columns[topic] == nil && !slices.Contains(c.topics, topic) {
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
		if err := c.receiveBody(topic, b, c.host(from), v, body); err != nil {
			return err
		}
	}
	if len(rpc.PartsMetadata) > 0 {
		available, requests, err := decodeMetadata(rpc.PartsMetadata, b.blobs)
		if err != nil {
			return err
		}
		c.counts.metadata.Add(1)
		// A cell that is requested again was lost.
		v.sent = v.sent.without(requests.without(v.requests))
		v.available, v.requests = v.available.or(available), requests
		c.updateLater(topic, b)
	}
	return nil
}

// host returns the number of a host of the run. No others are connected.
func (c *cells) host(name peer.ID) uint32 { return c.columns.tracer.hosts.numbers[name] }

// receiveBody hands new cells, and a new header, to the verification.
func (c *cells) receiveBody(topic string, b *block, from uint32, v *view, body *body) error {
	c.counts.cells.Add(uint64(body.present.count()))
	if body.header != nil {
		c.counts.headers.Add(1)
	}
	if body.header != nil && !bytes.Equal(body.header, b.header) {
		return errors.New("found another header, expected that of the block")
	}
	if cells, proofs := parts(body.present); !bytes.Equal(body.cells, cells) || !bytes.Equal(body.proofs, proofs) {
		return errors.New("found cells with other contents, expected those of the block")
	}
	v.available, v.received = v.available.or(body.present), v.received.or(body.present)
	isFirst := body.header != nil && !b.hasHeader
	if !b.hasHeader && !isFirst {
		// Deployed clients drop them: without the commitments nobody can verify cells.
		return nil
	}
	column := b.column(topic)
	fresh := body.present.without(column.have).without(column.checking)
	if !isFirst && fresh.count() == 0 {
		return nil
	}
	select {
	case c.arrived <- arrival{time.Now(), from, topic, b, isFirst, fresh}:
		if isFirst {
			b.hasHeader, b.headerFrom = true, from
		}
		column.checking = column.checking.or(fresh)
	default:
		log.Printf("dropped a body on %s: %d await their verification", topic, arrivedMax)
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
		case <-c.columns.ctx.Done():
			return
		}
		if end.Before(next.at) {
			end = next.at
		}
		end = end.Add(time.Duration(next.cells.count()) * c.cellTime)
		time.Sleep(time.Until(end))
		c.update(next.topic, next.block, next.from, func(column *column) {
			next.block.isKnown = true
			column.have = column.have.or(next.cells)
			column.checking = column.checking.without(next.cells)
		})
		if next.header {
			c.followHeader(next.block)
		}
	}
}

// followHeader does what a verified header causes.
func (c *cells) followHeader(b *block) {
	time.AfterFunc(c.lookupTime, func() { c.lookUp(b) })
	// The first topic of each peer carries the header.
	for _, topic := range c.topics {
		c.update(topic, b, 0, func(*column) {})
	}
}

// lookUp adds the cells of the mempool to all columns.
func (c *cells) lookUp(b *block) {
	for _, topic := range c.topics {
		c.update(topic, b, b.headerFrom, func(column *column) {
			if column.isWanted || column.isPublished {
				return
			}
			had := column.have.count()
			column.have, column.isWanted = column.have.or(b.mempool), true
			missing := b.blobs - column.have.count()
			c.counts.missing.Add(uint64(had + missing))
			if missing == 0 {
				c.counts.local.Add(1)
			}
		})
	}
}

// whole takes a column that has arrived as a message.
func (c *cells) whole(topic string, b *block, from uint32) {
	isFirst := false
	c.update(topic, b, from, func(column *column) {
		if isFirst = !b.hasHeader; isFirst {
			b.hasHeader, b.headerFrom = true, from
		}
		b.isKnown = true
		column.have, column.isWanted, column.isPublished = allBits(b.blobs), true, true
	})
	if isFirst {
		c.followHeader(b)
	}
}

// publish publishes the cells of a block.
func (c *cells) publish(slot uint32) {
	b := c.slots[slot]
	for _, topic := range c.columns.brief.topics {
		c.update(topic, b, 0, func(column *column) {
			b.hasHeader, b.isKnown = true, true
			column.have, column.push = allBits(b.blobs), b.push
			column.isWanted, column.isPublished = true, true
		})
	}
}

// updateLater calls update in a goroutine, of which each column has at most one.
func (c *cells) updateLater(topic string, b *block) {
	if state := b.column(topic); !state.isDue {
		state.isDue = true
		go c.update(topic, b, 0, func(*column) {})
	}
}

// update changes a column, sends peers what follows, and publishes the column if that completes it: to
// peers that request no cells. The host that it is from sent what completes it.
func (c *cells) update(topic string, b *block, from uint32, change func(*column)) {
	number, isComplete := c.columns.number(b.slot, topic), false
	actions := func(views map[peer.ID]*view, requests func(peer.ID) bool) iter.Seq2[peer.ID, partialmessages.PublishAction] {
		column := b.column(topic)
		column.isDue = false
		change(column)
		if !column.isPublished && column.have.count() == b.blobs {
			// Peers that ask one at a time must know who has all cells.
			column.isPublished, column.isWanted, isComplete = true, true, true
			c.columns.completed(number, from)
		}
		return c.actions(b, column, views, requests)
	}
	if err := pubsub.PublishPartial(c.columns.pubsub, topic, []byte(b.id), actions); err != nil {
		// Only at the end of the host.
		log.Printf("cannot update %s: %v", topic, err)
		return
	}
	if isComplete {
		if err := c.columns.publish([]message{c.columns.message(number)}, false); err != nil {
			// The column has arrived as a message meanwhile.
			log.Printf("cannot publish a column: %v", err)
		}
	}
}

// actions sends each peer the cells that it requests, the header if it may lack it, and news of what the
// host has and wants.
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
				v.announced, v.requested, v.isAnnounced = column.have, missing, true
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
	answer.cells, answer.proofs = parts(send)
	return answer.encode(b.blobs)
}

// lacksNews returns whether the host has announced to a peer neither its cells nor its requests.
func (v *view) lacksNews(have, missing bits) bool {
	fresh := have.without(v.announced).without(v.available)
	ended := v.requested.without(missing).without(v.received)
	return !v.isAnnounced || fresh.count() > 0 || ended.count() > 0
}

func (b *block) column(topic string) *column {
	if b.columns[topic] == nil {
		b.columns[topic] = &column{}
	}
	return b.columns[topic]
}

// parts returns cells and proofs. All of them are zero, as in Samara's hosts.
func parts(blobs bits) (cells, proofs []byte) {
	count := blobs.count()
	return make([]byte, count*cellBytes), make([]byte, count*proofBytes)
}
