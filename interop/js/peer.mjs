// A node of js-libp2p's gossipsub for the interoperability tests. It reads commands as JSON lines
// from standard input, and writes events as JSON lines to standard output. It stops when its input
// ends.

import './node20.mjs'

import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

import { noise } from '@chainsafe/libp2p-noise'
import { yamux } from '@chainsafe/libp2p-yamux'
import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { gossipsub, StrictNoSign, StrictSign } from '@libp2p/gossipsub'
import { identify } from '@libp2p/identify'
import { tcp } from '@libp2p/tcp'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'

const { values: flags } = parseArgs({
  options: {
    // The address to listen on.
    listen: { type: 'string', default: '/ip4/127.0.0.1/tcp/0' },
    // Messages without author and signature.
    unsigned: { type: 'boolean', default: false },
    // The secret key, a number in little endian; default: a random key.
    seed: { type: 'string' },
    // Score peers, and take part in the soak (heartbeats of a second).
    score: { type: 'boolean', default: false }
  }
})

const writeLine = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
// The id is 20 bytes of SHA-256 for messages without an author, otherwise author and number, as in
// go.
const contentId = (message) => createHash('sha256').update(message.data).digest().subarray(0, 20)
const authorId = (message) => {
  const seqno = Buffer.alloc(8)
  seqno.writeBigUInt64BE(message.sequenceNumber)
  return Buffer.concat([message.from.toMultihash().bytes, seqno])
}

const privateKey = async () => {
  const secret = Buffer.alloc(32)
  secret.writeBigUInt64LE(BigInt(flags.seed))
  return generateKeyPairFromSeed('Ed25519', secret)
}
// Scores without rewards: the score of an honest peer is 0. Invalid messages (P4) do not count: the
// router takes messages of its own earlier process, which others pass on, for invalid ones.
const scored = {
  heartbeatInterval: 1000,
  scoreParams: {
    IPColocationFactorWeight: 0,
    behaviourPenaltyWeight: -10,
    behaviourPenaltyThreshold: 6,
    behaviourPenaltyDecay: 0.9,
    decayToZero: 0.01
  },
  scoreThresholds: { gossipThreshold: -10, publishThreshold: -50, graylistThreshold: -80 }
}

const node = await createLibp2p({
  ...(flags.seed === undefined ? {} : { privateKey: await privateKey() }),
  ...(flags.score
    ? {
        // All nodes of the soak have one address, which the default limits are not for.
        connectionManager: { inboundConnectionThreshold: Infinity, maxIncomingPendingConnections: Infinity, reconnectRetries: 0 }
      }
    : {}),
  addresses: { listen: [flags.listen] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: {
    identify: identify(),
    pubsub: gossipsub({
      globalSignaturePolicy: flags.unsigned ? StrictNoSign : StrictSign,
      msgIdFn: flags.unsigned ? contentId : authorId,
      heartbeatInterval: 200,
      allowPublishToZeroTopicPeers: true,
      maxInboundDataLength: 5 << 20,
      ...(flags.score ? scored : {})
    })
  }
})
const pubsub = node.services.pubsub
pubsub.addEventListener('subscription-change', ({ detail: { peerId, subscriptions } }) => {
  for (const { topic, subscribe } of subscriptions) {
    writeLine({ is: subscribe ? 'joined' : 'left', topic, peer: peerId.toString() })
  }
})
pubsub.addEventListener('gossipsub:message', ({ detail: { msg } }) => {
  writeLine({ is: 'message', topic: msg.topic, data: Buffer.from(msg.data).toString('base64') })
})

const commands = {
  dial: async ({ address }) => { await node.dial(multiaddr(address)) },
  subscribe: ({ topic }) => pubsub.subscribe(topic),
  unsubscribe: ({ topic }) => pubsub.unsubscribe(topic),
  publish: async ({ topic, data }) => { await pubsub.publish(topic, Buffer.from(data, 'base64')) },
  // Dials in the background. Nodes that restart refuse some dials.
  connect: ({ addresses }) => {
    const connected = new Set(node.getPeers().map(String))
    for (const address of addresses.map(multiaddr)) {
      if (!connected.has(address.getComponents().at(-1).value)) {
        node.dial(address, { signal: AbortSignal.timeout(5000) }).catch(() => {})
      }
    }
  },
  // Closes the connections to a peer, or all without one.
  disconnect: async ({ peer }) => {
    const connections = node.getConnections().filter((connection) => peer === undefined || connection.remotePeer.toString() === peer)
    await Promise.allSettled(connections.map((connection) => connection.close()))
  },
  reset: ({ peers }) => {
    for (const connection of node.getConnections()) {
      if (peers.includes(connection.remotePeer.toString())) {
        continue
      }
      for (const stream of connection.streams) {
        if (stream.protocol.startsWith('/meshsub/')) {
          stream.abort(new Error('the soak resets streams'))
        }
      }
    }
  },
  state: ({ topic }) => writeLine({
    is: 'state',
    topic,
    connected: node.getPeers().map(String),
    subscribers: pubsub.getSubscribers(topic).map(String),
    count: pubsub.getMeshPeers(topic).length,
    scores: Object.fromEntries(node.getPeers().map((peer) => [peer.toString(), pubsub.getScore(peer.toString())]))
  }),
  mesh: ({ topic }) => writeLine({ is: 'mesh', topic, count: pubsub.getMeshPeers(topic).length })
}

writeLine({ is: 'listening', peer: node.peerId.toString(), address: node.getMultiaddrs()[0].decapsulate('/p2p').toString() })
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (commands[command.is] === undefined) {
    throw new Error(`unknown command ${command.is}`)
  }
  await commands[command.is](command)
}
process.exit(0)
