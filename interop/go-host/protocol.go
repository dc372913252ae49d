package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// protocolKeys has the keys of a scenario's [protocol]. Nil stands for the value of the preset.
type protocolKeys struct {
	kind               string
	preset             string
	version            string
	degree             *int
	degreeLow          *int
	degreeHigh         *int
	degreeLazy         *int
	degreeScore        *int
	degreeOut          *int
	heartbeat          *span
	historyLength      *int
	historyGossip      *int
	gossipFactor       *float64
	gossipToTurnedAway *bool
	floodPublish       *bool
	idontwant          *bool
	idontwantOnPublish *bool
	idontwantTTL       *int
	withdraw           *bool
	dispatch           *string
	queue              *int
	overflow           *string
	schedulePublish    *schedule
	scheduleForward    *schedule
	parts              partsKeys
}

func (p *protocolKeys) UnmarshalJSON(data []byte) error {
	return object(data, keys{"kind": &p.kind}, keys{
		"preset": &p.preset, "version": &p.version,
		"degree": &p.degree, "degree_low": &p.degreeLow, "degree_high": &p.degreeHigh,
		"degree_lazy": &p.degreeLazy, "degree_score": &p.degreeScore, "degree_out": &p.degreeOut,
		"heartbeat": &p.heartbeat, "history_length": &p.historyLength, "history_gossip": &p.historyGossip,
		"gossip_factor": &p.gossipFactor, "gossip_to_pruned": &p.gossipToTurnedAway,
		"flood_publish": &p.floodPublish, "idontwant": &p.idontwant,
		"idontwant_on_publish": &p.idontwantOnPublish, "idontwant_ttl": &p.idontwantTTL,
		"withdraw": &p.withdraw, "dispatch": &p.dispatch, "queue": &p.queue, "overflow": &p.overflow,
		"schedule_publish": &p.schedulePublish, "schedule_forward": &p.scheduleForward, "parts": &p.parts,
	})
}

// partsKeys has how hosts exchange parts of messages.
type partsKeys struct{ asking *string }

func (p *partsKeys) UnmarshalJSON(data []byte) error {
	return object(data, nil, keys{"asking": &p.asking})
}

// schedule is the order in which the copies of several messages leave.
type schedule struct {
	kind, peers string
}

func (s *schedule) UnmarshalJSON(data []byte) error {
	// Those that are ignored belong to kinds that check refuses.
	var shuffle, timeout, source, most any
	return object(data, keys{"kind": &s.kind}, keys{
		"peers": &s.peers, "shuffle": &shuffle, "timeout": &timeout, "source": &source, "cap": &most,
	})
}

// span is a time with its unit, such as "700 ms".
type span time.Duration

func (s *span) UnmarshalText(text []byte) error {
	units := map[string]float64{
		"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9,
	}
	wrong := fmt.Errorf("found %q, expected a time with its unit such as \"700 ms\"", text)
	end := strings.IndexFunc(string(text), func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE_", r) })
	if end < 0 {
		return wrong
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(string(text[:end]), "_", ""), 64)
	factor, known := units[strings.TrimSpace(string(text[end:]))]
	if err != nil || !known || number < 0 || number*factor > math.MaxInt64/2 {
		return wrong
	}
	*s = span(number * factor)
	return nil
}

// check rejects values that go-libp2p-pubsub does not support.
func (p *protocolKeys) check(hasCells bool) error {
	refuse := func(key string, found any, expected string) error {
		return fmt.Errorf("protocol.%s: found %v, expected %s: go-libp2p-pubsub supports nothing else; remove the key, or use Samara's own hosts", key, found, expected)
	}
	switch {
	case p.kind != "gossipsub":
		return refuse("kind", p.kind, "gossipsub")
	case p.preset != "" && p.preset != "ethereum" && p.preset != "spec" && p.preset != "go-libp2p-pubsub":
		return refuse("preset", p.preset, "ethereum, spec or go-libp2p-pubsub")
	case p.version != "" && p.version != "1.3" && p.version != "1.2" && p.version != "1.1":
		return refuse("version", p.version, "1.1, 1.2 or 1.3")
	case hasCells && p.version != "1.3":
		return fmt.Errorf("protocol.version: found %q, expected 1.3 for cells", p.version)
	case p.parts.asking != nil && *p.parts.asking != "everyone":
		return refuse("parts.asking", *p.parts.asking, "everyone")
	case p.gossipToTurnedAway != nil && *p.gossipToTurnedAway:
		return refuse("gossip_to_pruned", true, "false")
	case p.idontwantOnPublish != nil && *p.idontwantOnPublish:
		return refuse("idontwant_on_publish", true, "false")
	case p.withdraw != nil && *p.withdraw:
		return refuse("withdraw", true, "false")
	case p.dispatch != nil && *p.dispatch != "per-link":
		return refuse("dispatch", *p.dispatch, "per-link")
	case p.overflow != nil && *p.overflow != "drop-newest":
		return refuse("overflow", *p.overflow, "drop-newest")
	case p.queue != nil && *p.queue < 1:
		return fmt.Errorf("protocol.queue: found %d, expected at least 1", *p.queue)
	case p.scheduleForward != nil && p.scheduleForward.kind != "sequential":
		return refuse("schedule_forward.kind", p.scheduleForward.kind, "sequential")
	}
	if s := p.schedulePublish; s != nil {
		if s.kind != "sequential" && s.kind != "interleaved" {
			return refuse("schedule_publish.kind", s.kind, "sequential or interleaved")
		}
		if s.peers != "" && s.peers != "as-given" && s.peers != "random" {
			return refuse("schedule_publish.peers", s.peers, "as-given or random")
		}
	}
	return nil
}

// isSequential returns whether the messages of a batch leave one after the other.
func (p *protocolKeys) isSequential() bool {
	return p.schedulePublish != nil && p.schedulePublish.kind == "sequential"
}
