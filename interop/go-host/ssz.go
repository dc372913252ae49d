package main

import (
	"encoding/binary"
	"fmt"
	mathbits "math/bits"
)

// Containers of Ethereum's partial columns of Fulu (consensus-specs
// fulu/partial-columns/p2p-interface.md), in SSZ without compression.
const (
	cellBytes = 2048
	// proofBytes is the length of a KZG proof, and of a KZG commitment.
	proofBytes = 48
	// blobsMax is MAX_BLOB_COMMITMENTS_PER_BLOCK.
	blobsMax    = 4096
	offsetBytes = 4
	// headerFixedBytes is the length of a header without commitments: an offset, the signed header of the
	// block, and four hashes.
	headerFixedBytes = offsetBytes + 208 + 4*32
)

// bits is a set of blobs. Blob i is bit i%8 of byte i/8.
type bits []byte

func newBits(blobs int) bits { return make(bits, blobs/8+1) }

// allBits returns the set of all blobs of a block.
func allBits(blobs int) bits {
	all := newBits(blobs)
	for i := range blobs {
		all.add(i)
	}
	return all
}

func (b bits) add(i int)      { b[i/8] |= 1 << (i % 8) }
func (b bits) has(i int) bool { return i/8 < len(b) && b[i/8]&(1<<(i%8)) != 0 }

func (b bits) count() (count int) {
	for _, set := range b {
		count += mathbits.OnesCount8(set)
	}
	return count
}

// and, or and without return new sets. The zero value is an empty set of any length.
func (b bits) and(other bits) bits {
	return combine(b, other, func(x, y byte) byte { return x & y })
}

func (b bits) or(other bits) bits {
	return combine(b, other, func(x, y byte) byte { return x | y })
}

func (b bits) without(other bits) bits {
	return combine(b, other, func(x, y byte) byte { return x &^ y })
}

func combine(a, b bits, of func(x, y byte) byte) bits {
	out := make(bits, max(len(a), len(b)))
	for i := range out {
		var x, y byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		out[i] = of(x, y)
	}
	return out
}

// appendBits appends a bit list: the bits, and a one behind the last.
func appendBits(out []byte, b bits, blobs int) []byte {
	list := newBits(blobs)
	copy(list, b)
	list.add(blobs)
	return append(out, list...)
}

func readBits(list []byte, blobs int) (bits, error) {
	if len(list) != blobs/8+1 || list[blobs/8]>>(blobs%8) != 1 {
		return nil, fmt.Errorf("found a bit list of %d bytes, expected one of %d bits", len(list), blobs)
	}
	b := newBits(blobs)
	copy(b, list)
	b[blobs/8] &^= 1 << (blobs % 8)
	return b, nil
}

func appendOffsets(out []byte, offsets ...int) []byte {
	for _, offset := range offsets {
		out = binary.LittleEndian.AppendUint32(out, uint32(offset))
	}
	return out
}

// fields splits a container that has only variable fields.
func fields(data []byte, count int) ([][]byte, error) {
	fixed := count * offsetBytes
	if len(data) < fixed {
		return nil, fmt.Errorf("found %d bytes, expected %d offsets", len(data), count)
	}
	ends, found := make([]int, count), make([][]byte, count)
	for i := range count - 1 {
		ends[i] = int(binary.LittleEndian.Uint32(data[(i+1)*offsetBytes:]))
	}
	ends[count-1] = len(data)
	start := int(binary.LittleEndian.Uint32(data))
	if start != fixed {
		return nil, fmt.Errorf("found the first offset %d, expected %d", start, fixed)
	}
	for i, end := range ends {
		if end < start || end > len(data) {
			return nil, fmt.Errorf("found the offset %d, expected %d to %d", end, start, len(data))
		}
		found[i], start = data[start:end], end
	}
	return found, nil
}

// encodeMetadata returns a PartialDataColumnPartsMetadata.
func encodeMetadata(available, requests bits, blobs int) []byte {
	out := appendOffsets(nil, 2*offsetBytes, 2*offsetBytes+blobs/8+1)
	return appendBits(appendBits(out, available, blobs), requests, blobs)
}

func decodeMetadata(data []byte, blobs int) (available, requests bits, err error) {
	found, err := fields(data, 2)
	if err != nil {
		return nil, nil, err
	}
	if available, err = readBits(found[0], blobs); err != nil {
		return nil, nil, err
	}
	requests, err = readBits(found[1], blobs)
	return available, requests, err
}

// body is a PartialDataColumnSidecar: some cells of a column with their proofs, in ascending order.
type body struct {
	present bits
	// Nil without a header.
	header        []byte
	cells, proofs []byte
}

func (b *body) encode(blobs int) []byte {
	cells := 4*offsetBytes + blobs/8 + 1
	proofs := cells + len(b.cells)
	out := appendOffsets(nil, 4*offsetBytes, cells, proofs, proofs+len(b.proofs))
	out = append(append(appendBits(out, b.present, blobs), b.cells...), b.proofs...)
	if b.header != nil {
		// A list of containers of variable length starts with their offsets.
		out = append(appendOffsets(out, offsetBytes), b.header...)
	}
	return out
}

func decodeBody(data []byte, blobs int) (*body, error) {
	found, err := fields(data, 4)
	if err != nil {
		return nil, err
	}
	b := &body{cells: found[1], proofs: found[2]}
	if b.present, err = readBits(found[0], blobs); err != nil {
		return nil, err
	}
	if count := b.present.count(); len(b.cells) != count*cellBytes || len(b.proofs) != count*proofBytes {
		return nil, fmt.Errorf("found %d bytes of cells and %d of proofs, expected %d of each", len(b.cells), len(b.proofs), count)
	}
	if header := found[3]; len(header) > 0 {
		if len(header) < offsetBytes || binary.LittleEndian.Uint32(header) != offsetBytes {
			return nil, fmt.Errorf("found %d bytes of headers, expected one header", len(header))
		}
		b.header = header[offsetBytes:]
	}
	return b, nil
}

// encodeHeader returns a PartialDataColumnHeader with commitments to the blobs. The rest is zero, as in
// Samara's hosts.
func encodeHeader(blobs int) []byte {
	header := make([]byte, headerFixedBytes+blobs*proofBytes)
	binary.LittleEndian.PutUint32(header, headerFixedBytes)
	return header
}
