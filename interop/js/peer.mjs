// A node of js-libp2p's gossipsub for the interoperability tests: commands come as JSON lines on standard input, what happens
// goes as JSON lines to standard output. It ends with its input.

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

const { values: chosen } = parseArgs({
  options: {
    // The address to listen on.
    listen: { type: 'string', default: '/ip4/127.0.0.1/tcp/0' },
    // Messages without author and signature.
    unsigned: { type: 'boolean', default: false }
  }
})

const tell = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
// 20 bytes of SHA-256 where there is no author; else what go does: author and number.
const contentId = (message) => createHash('sha256').update(message.data).digest().subarray(0, 20)
const authorId = (message) => {
  const seqno = Buffer.alloc(8)
  seqno.writeBigUInt64BE(message.sequenceNumber)
  return Buffer.concat([message.from.toMultihash().bytes, seqno])
}

const node = await createLibp2p({
  addresses: { listen: [chosen.listen] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: {
    identify: identify(),
    pubsub: gossipsub({
      globalSignaturePolicy: chosen.unsigned ? StrictNoSign : StrictSign,
      msgIdFn: chosen.unsigned ? contentId : authorId,
      heartbeatInterval: 200,
      allowPublishToZeroTopicPeers: true,
      maxInboundDataLength: 5 << 20
    })
  }
})
const pubsub = node.services.pubsub
pubsub.addEventListener('subscription-change', ({ detail: { peerId, subscriptions } }) => {
  for (const { topic, subscribe } of subscriptions) {
    tell({ is: subscribe ? 'joined' : 'left', topic, peer: peerId.toString() })
  }
})
pubsub.addEventListener('gossipsub:message', ({ detail: { msg } }) => {
  tell({ is: 'message', topic: msg.topic, data: Buffer.from(msg.data).toString('base64') })
})

const obey = {
  dial: async ({ address }) => { await node.dial(multiaddr(address)) },
  subscribe: ({ topic }) => pubsub.subscribe(topic),
  unsubscribe: ({ topic }) => pubsub.unsubscribe(topic),
  publish: async ({ topic, data }) => { await pubsub.publish(topic, Buffer.from(data, 'base64')) },
  mesh: ({ topic }) => tell({ is: 'mesh', topic, count: pubsub.getMeshPeers(topic).length })
}

tell({ is: 'listening', peer: node.peerId.toString(), address: node.getMultiaddrs()[0].decapsulate('/p2p').toString() })
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (obey[command.is] === undefined) {
    throw new Error(`${command.is} is no command`)
  }
  await obey[command.is](command)
}
process.exit(0)
