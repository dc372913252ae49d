package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tendermint/tendermint/config"
	"github.com/tendermint/tendermint/p2p"
	"github.com/tendermint/tendermint/p2p/conn"
)

const (
	// Interval of pings that are not to be sent: longer than any run.
	never = 1 << 24 * time.Second
	// Maximum wait for an answer to a ping.
	pongTimeout = 45 * time.Second
)

// protocolKeys has the keys of a scenario's [protocol]. Nil stands for the value of celestia-core.
type protocolKeys struct {
	kind, preset string
	capacityTxs  *int
	capacity     *size
	ttlBlocks    *int64
	ttl          *span
	cache        *int
	timeout      *span
}

func (p *protocolKeys) UnmarshalJSON(data []byte) error {
	return object(data, keys{"kind": &p.kind, "preset": &p.preset}, keys{
		"capacity_txs": &p.capacityTxs, "capacity": &p.capacity, "ttl_blocks": &p.ttlBlocks, "ttl": &p.ttl,
		"cache": &p.cache, "timeout": &p.timeout,
	})
}

// check rejects the generations of pools that this one is not.
func (p *protocolKeys) check() error {
	if p.kind != "cat" {
		return fmt.Errorf("protocol.kind: found %q, expected cat", p.kind)
	}
	// Those with the default of Samara's hosts speak with those of this one.
	if p.preset != "cat-merged" && p.preset != "cat" {
		return fmt.Errorf("protocol.preset: found %q, expected cat-merged, or cat for Samara's hosts beside this one: go-cat-host has the pool of celestia-core v1.16", p.preset)
	}
	return nil
}

// pool returns the configuration of the pool.
func (p *protocolKeys) pool() *config.MempoolConfig {
	c := config.DefaultMempoolConfig()
	set(&c.Size, p.capacityTxs)
	set(&c.CacheSize, p.cache)
	set(&c.TTLNumBlocks, p.ttlBlocks)
	if p.capacity != nil {
		c.MaxTxsBytes = int64(*p.capacity)
	}
	if p.ttl != nil {
		c.TTLDuration = time.Duration(*p.ttl)
	}
	return c
}

func set[T any](target, value *T) {
	if value != nil {
		*target = *value
	}
}

// connection returns the configuration of connections. Those of Samara's hosts have no limit of their rate.
func (p *poolBrief) connection() conn.MConnConfig {
	c := p2p.MConnConfig(config.DefaultP2PConfig())
	c.SendRate, c.RecvRate = 0, 0
	c.FlushThrottle = time.Duration(p.flush)
	c.PingInterval = never
	if p.ping > 0 {
		c.PingInterval = time.Duration(p.ping)
	}
	// celestia-core demands less than the interval.
	c.PongTimeout = min(pongTimeout, c.PingInterval/2)
	return c
}

// flush is the time for which writes are collected.
type flush time.Duration

func (f *flush) UnmarshalText(text []byte) error {
	if string(text) == "when-idle" {
		return errors.New("found when-idle, expected a time: celestia-core collects writes for one; set transport.connection.flush, for example to \"10 ms\"")
	}
	return (*span)(f).UnmarshalText(text)
}

// span is a time with its unit, such as "700 ms".
type span time.Duration

func (s *span) UnmarshalText(text []byte) error {
	value, err := quantity(string(text), "a time with its unit such as \"700 ms\"", map[string]float64{
		"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9,
	})
	*s = span(value)
	return err
}

// size is a number of bytes with its unit, such as "4 MB".
type size int64

func (s *size) UnmarshalText(text []byte) error {
	value, err := quantity(string(text), "a size with its unit such as \"4 MB\"", map[string]float64{
		"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	})
	*s = size(value)
	return err
}

// quantity reads a number and its unit.
func quantity(text, expected string, units map[string]float64) (int64, error) {
	wrong := fmt.Errorf("found %q, expected %s", text, expected)
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE_", r) })
	if end < 0 {
		return 0, wrong
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(text[:end], "_", ""), 64)
	factor, isKnown := units[strings.TrimSpace(text[end:])]
	if err != nil || !isKnown || number < 0 || number*factor > math.MaxInt64/2 {
		return 0, wrong
	}
	return int64(number * factor), nil
}
