package main

import (
	"fmt"
	"math/bits"
	"sort"
	"strings"
)

// mantissaBits is the number of bits kept below the highest bit of a value: 64 buckets per octave,
// each 1.6 % wide.
const mantissaBits = 6

// histogram counts values in microseconds, in the same buckets as examples/throughput/histogram.rs
// in samara-net.
type histogram map[uint64]uint64

func bucket(value uint64) uint64 {
	if value < 2<<mantissaBits {
		return value
	}
	shift := uint64(bits.Len64(value) - 1 - mantissaBits)
	return shift<<mantissaBits + value>>shift
}

func (h histogram) add(value uint64) { h[bucket(value)]++ }

// String returns "bucket:count" for every bucket that is not empty.
func (h histogram) String() string {
	buckets := make([]uint64, 0, len(h))
	for b := range h {
		buckets = append(buckets, b)
	}
	sort.Slice(buckets, func(i, j int) bool { return buckets[i] < buckets[j] })
	var text strings.Builder
	for _, b := range buckets {
		fmt.Fprintf(&text, " %d:%d", b, h[b])
	}
	return text.String()
}
