package main

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// config is the part of a node.toml that this node supports. samara's docs/node.toml explains the
// keys.
type config struct {
	Topics   []string
	Identity struct {
		Seed *uint64
		// Ignored: this node is for testbeds only.
		AllowSeed bool `toml:"allow_seed"`
	}
	Network   networkConfig
	Gossipsub gossipsubConfig
	Messages  messagesConfig
	Cells     *cellsConfig
	Control   struct{ Listen string }
	Trace     traceConfig
	Log       struct{ Filter string }
}

type networkConfig struct {
	Listen []string
	// Ignored: this node never closes connections, and does not limit their number.
	IdleTimeout    string `toml:"idle_timeout"`
	MaxConnections int    `toml:"max_connections"`
	// Ignored: go's queues and writers determine how much is in flight.
	InFlight string `toml:"in_flight"`
	// Ignored: without one order over all links it has no effect.
	Limit bool `toml:"limit"`
}

type messagesConfig struct {
	Authenticity string
	ID           string
}

type traceConfig struct {
	File   string
	Format string
	// Ignored: PBTracer keeps all waiting events.
	Queue    int
	WhenFull string `toml:"when_full"`
}

// gossipsubConfig has the keys of a scenario's [gossipsub]. Nil stands for the value of the preset.
type gossipsubConfig struct {
	Preset             string
	Version            string
	Degree             *int
	DegreeLow          *int `toml:"degree_low"`
	DegreeHigh         *int `toml:"degree_high"`
	DegreeLazy         *int `toml:"degree_lazy"`
	DegreeScore        *int `toml:"degree_score"`
	DegreeOut          *int `toml:"degree_out"`
	Heartbeat          *span
	HistoryLength      *int     `toml:"history_length"`
	HistoryGossip      *int     `toml:"history_gossip"`
	GossipFactor       *float64 `toml:"gossip_factor"`
	GossipToTurnedAway *bool    `toml:"gossip_to_turned_away"`
	FloodPublish       *bool    `toml:"flood_publish"`
	Idontwant          *bool
	IdontwantOnPublish *bool `toml:"idontwant_on_publish"`
	IdontwantTTL       *int  `toml:"idontwant_ttl"`
	Withdraw           *bool
	Dispatch           *string
	Queue              *int
	Overflow           *string
	SchedulePublish    *schedule `toml:"schedule_publish"`
	ScheduleForward    *schedule `toml:"schedule_forward"`
	Parts              struct{ Asking *string }
}

// schedule is the order in which the copies of several messages leave.
type schedule struct {
	Kind    string
	Shuffle bool
	Peers   string
	Timeout string
	Source  string
	Cap     int
}

// span is a time with its unit, such as "700 ms".
type span time.Duration

func (s *span) UnmarshalText(text []byte) error {
	units := map[string]float64{
		"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9,
	}
	end := strings.IndexFunc(string(text), func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE_", r) })
	if end < 0 {
		return fmt.Errorf("found %q, expected a time with its unit such as \"700 ms\"", text)
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(string(text[:end]), "_", ""), 64)
	factor, known := units[strings.TrimSpace(string(text[end:]))]
	if err != nil || !known || number < 0 || number*factor > math.MaxInt64/2 {
		return fmt.Errorf("found %q, expected a time with its unit such as \"700 ms\"", text)
	}
	*s = span(number * factor)
	return nil
}

// readConfig reads a node.toml. Unknown keys are errors, since they would have no effect.
func readConfig(path string) (*config, error) {
	var c config
	meta, err := toml.DecodeFile(path, &c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		names := make([]string, len(unknown))
		for i, key := range unknown {
			names[i] = key.String()
		}
		sort.Strings(names)
		return nil, fmt.Errorf("%s: %s: unknown to go-node; remove it, or use samara's own node", path, strings.Join(names, ", "))
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &c, nil
}

func (c *config) check() error {
	switch {
	case c.Identity.Seed == nil:
		return fmt.Errorf("identity.seed: found none, expected a number; go-node supports no key files")
	case len(c.Network.Listen) == 0:
		return fmt.Errorf("network.listen: found none, expected at least one address")
	case c.Control.Listen == "":
		return fmt.Errorf("control.listen: found none, expected one such as \"127.0.0.1:0\"")
	case c.Trace.File == "":
		return fmt.Errorf("trace.file: found none, expected the path of a file")
	case c.Trace.Format != "" && c.Trace.Format != "protobuf":
		return fmt.Errorf("trace.format: found %q, expected \"protobuf\"", c.Trace.Format)
	}
	if c.Messages.Authenticity == "" {
		c.Messages.Authenticity = "signed"
		if c.Gossipsub.preset() == "ethereum" {
			c.Messages.Authenticity = "anonymous"
		}
	}
	if c.Messages.ID == "" {
		c.Messages.ID = "from-seqno"
		if c.Gossipsub.preset() == "ethereum" {
			c.Messages.ID = "ethereum"
		}
	}
	kind := c.Messages.Authenticity + " with " + c.Messages.ID
	if kind != "anonymous with ethereum" && kind != "signed with from-seqno" && kind != "signed with ethereum" {
		return fmt.Errorf("messages.authenticity and messages.id: found %s, expected anonymous with ethereum, or signed with from-seqno or ethereum", kind)
	}
	if c.Cells != nil && c.Gossipsub.Version != "1.3" {
		return fmt.Errorf("gossipsub.version: found %q, expected \"1.3\" for the section [cells]", c.Gossipsub.Version)
	}
	return c.Gossipsub.check()
}

func (g *gossipsubConfig) preset() string {
	if g.Preset == "" {
		return "ethereum"
	}
	return g.Preset
}

// check rejects values that go-libp2p-pubsub does not support.
func (g *gossipsubConfig) check() error {
	refuse := func(key string, found any, expected string) error {
		return fmt.Errorf("gossipsub.%s: found %v, expected %s: go-libp2p-pubsub supports nothing else; remove the key, or use samara's own node", key, found, expected)
	}
	switch g.preset() {
	case "ethereum", "spec", "go-libp2p-pubsub":
	default:
		return fmt.Errorf("gossipsub.preset: found %q, expected ethereum, spec or go-libp2p-pubsub", g.Preset)
	}
	switch {
	case g.Version != "" && g.Version != "1.3" && g.Version != "1.2" && g.Version != "1.1":
		return refuse("version", g.Version, "\"1.1\", \"1.2\" or \"1.3\"")
	case g.Parts.Asking != nil && *g.Parts.Asking != "everyone":
		return refuse("parts.asking", *g.Parts.Asking, "everyone")
	case g.GossipToTurnedAway != nil && *g.GossipToTurnedAway:
		return refuse("gossip_to_turned_away", true, "false")
	case g.IdontwantOnPublish != nil && *g.IdontwantOnPublish:
		return refuse("idontwant_on_publish", true, "false")
	case g.Withdraw != nil && *g.Withdraw:
		return refuse("withdraw", true, "false")
	case g.Dispatch != nil && *g.Dispatch != "per-link":
		return refuse("dispatch", *g.Dispatch, "per-link")
	case g.Overflow != nil && *g.Overflow != "drop-newest":
		return refuse("overflow", *g.Overflow, "drop-newest")
	case g.Queue != nil && *g.Queue < 1:
		return fmt.Errorf("gossipsub.queue: found %d, expected at least 1", *g.Queue)
	case g.ScheduleForward != nil && g.ScheduleForward.Kind != "sequential":
		return refuse("schedule_forward.kind", g.ScheduleForward.Kind, "sequential")
	}
	if s := g.SchedulePublish; s != nil {
		if s.Kind != "sequential" && s.Kind != "interleaved" {
			return refuse("schedule_publish.kind", s.Kind, "sequential or interleaved")
		}
		if s.Peers != "" && s.Peers != "as-given" && s.Peers != "random" {
			return refuse("schedule_publish.peers", s.Peers, "as-given or random")
		}
	}
	return nil
}

// sequential returns whether the messages of a batch leave one after the other.
func (g *gossipsubConfig) sequential() bool {
	return g.SchedulePublish != nil && g.SchedulePublish.Kind == "sequential"
}
