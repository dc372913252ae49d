package main

import (
	"encoding/json"
	"fmt"
	"os"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

// instruction is an instruction of a script. Its fields depend on its type.
type instruction struct {
	Type             string           `json:"type"`
	NodeID           int              `json:"nodeID"`
	Instruction      *instruction     `json:"instruction"`
	ConnectTo        []int            `json:"connectTo"`
	ElapsedSeconds   int              `json:"elapsedSeconds"`
	MessageID        uint64           `json:"messageID"`
	MessageSizeBytes int              `json:"messageSizeBytes"`
	TopicID          string           `json:"topicID"`
	DelaySeconds     float64          `json:"delaySeconds"`
	Partial          bool             `json:"partial"`
	GroupID          uint64           `json:"groupID"`
	Parts            bitmap           `json:"parts"`
	PublishToNodeIDs []int            `json:"publishToNodeIDs"`
	GossipSubParams  *gossipSubParams `json:"gossipSubParams"`
}

// gossipSubParams are the router's parameters. Absent fields have the defaults of the library.
type gossipSubParams pubsub.GossipSubParams

func (p *gossipSubParams) UnmarshalJSON(text []byte) error {
	params := pubsub.DefaultGossipSubParams()
	if err := json.Unmarshal(text, &params); err != nil {
		return err
	}
	*p = gossipSubParams(params)
	return nil
}

func readScript(path string) ([]instruction, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var params struct {
		Script []instruction `json:"script"`
	}
	if err := json.Unmarshal(text, &params); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return params.Script, nil
}
