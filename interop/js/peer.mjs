// A node of js-libp2p's gossipsub for the interoperability tests. It reads commands as JSON lines
// from standard input, and writes events as JSON lines to standard output. It stops when its input
// ends.

import './node20.mjs'

import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

import { noise } from '@chainsafe/libp2p-noise'
import { yamux } from '@chainsafe/libp2p-yamux'
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
    unsigned: { type: 'boolean', default: false }
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

const node = await createLibp2p({
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
      maxInboundDataLength: 5 << 20
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
