package main

import (
	"crypto/sha256"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
)

// contentID returns the id of a message without an author: the first 20 bytes of SHA-256 of the
// payload.
func contentID(message *pb.Message) string {
	hash := sha256.Sum256(message.Data)
	return string(hash[:20])
}
