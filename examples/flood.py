#!/usr/bin/env python3
"""The smallest host of `samara testbed`: every message goes to all neighbours, over TCP.

docs/guides/implementations.md describes what a host reads and says. Between its hosts, this program
has a protocol of its own: the dialler says the token of the run and its number, and then both send
messages, each as its number and its length.
"""

import asyncio
import json
import struct
import sys
import time


class Host:
    def __init__(self, listen):
        brief = listen["brief"]
        self.own, self.token = listen["host"], bytes.fromhex(listen["token"])
        self.address, self.peers = listen["address"].split(":"), [peer.split(":") for peer in listen["peers"]]
        if brief["transport"] != "tcp" or "messages" not in brief["application"]:
            raise ValueError("expected a scenario of messages over TCP")
        self.dials, self.sizes = brief["dials"], brief["application"]["messages"]["bytes"]
        self.links, self.seen, self.tasks, self.begin_ns = {}, set(), set(), None
        self.counts = dict.fromkeys(("frames_sent", "frames_received", "bytes_sent", "bytes_received"), 0)
        self.duplicates, self.late = 0, []

    def now(self):
        return time.time_ns() - self.begin_ns

    def spawn(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # ---- links ----

    async def listen(self):
        await asyncio.start_server(self.greet, self.address[0], int(self.address[1]))
        say({"ready": {"host": self.own}})

    async def greet(self, reader, writer):
        said = await reader.readexactly(len(self.token) + 4)
        if said[: len(self.token)] == self.token:
            await self.link(struct.unpack("<I", said[-4:])[0], reader, writer)
        writer.close()

    async def dial(self, host, at_ns=0):
        await asyncio.sleep((at_ns - self.now()) / 1e9)
        ip, port = self.peers[host]
        # The emulated network knows hosts by their addresses.
        reader, writer = await asyncio.open_connection(ip, int(port), local_addr=(self.address[0], 0))
        writer.write(self.token + struct.pack("<I", self.own))
        await self.link(host, reader, writer)

    async def link(self, host, reader, writer):
        self.links[host] = writer
        try:
            while True:
                number, length = struct.unpack("<II", await reader.readexactly(8))
                await reader.readexactly(length)
                self.counts["frames_received"] += 1
                self.counts["bytes_received"] += 8 + length
                self.take(number, host)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            print(f"the link to host {host} is down: {error}", file=sys.stderr)
        finally:
            if self.links.get(host) is writer:
                del self.links[host]

    # ---- messages ----

    def take(self, number, sender):
        if number in self.seen:
            self.duplicates += 1
            return
        say({"event": {"at_ns": self.now(), "event": {"delivered": {"message": number, "from": sender}}}})
        self.publish(number, sender)

    def publish(self, number, sender=None):
        self.seen.add(number)
        length = self.sizes[number]
        payload = (struct.pack("<I", number) * (length // 4 + 1))[:length]
        for host, writer in self.links.items():
            if host != sender:
                writer.write(struct.pack("<II", number, length) + payload)
                self.counts["frames_sent"] += 1
                self.counts["bytes_sent"] += 8 + length

    async def command(self, at_ns, command):
        await asyncio.sleep((at_ns - self.now()) / 1e9)
        self.late.append(max(0, self.now() - at_ns))
        self.publish(command)

    def looked(self):
        late, self.late = self.late, []
        counters = {"duplicates_received": self.duplicates, "answered_copies": 0, "kept_unwanted_copies": 0}
        counters.update(misbehaviours=0, mesh=0)
        payload = {"payload_bytes_" + way: self.counts["bytes_" + way] for way in ("sent", "received")}
        control = {"control_bytes_sent": 0, "control_bytes_received": 0, "withdrawn": 0, "owed": 0}
        return {"counters": counters, "late_ns": late, **self.counts, **payload, **control}

    # ---- orders ----

    async def obey(self, order):
        name, value = (order, None) if isinstance(order, str) else next(iter(order.items()))
        if name == "begin":
            self.begin_ns = value["at_unix_ns"]
            for dial in self.dials:
                self.spawn(self.dial(**dial))
        elif name == "command":
            self.spawn(self.command(**value))
        elif name == "sync":
            say({"synced": value})
        elif name == "look":
            say({"looked": self.looked()})
        elif name == "reconnect":
            if value["host"] in self.links:
                self.links[value["host"]].close()
            self.spawn(self.dial(**value))
        else:
            raise ValueError(f"found the order {name}")


def say(what):
    print(json.dumps(what), flush=True)


async def main():
    orders = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    line = await orders.readline()
    if not line:
        return
    host = Host(json.loads(line)["listen"])
    await host.listen()
    while line := await orders.readline():
        order = json.loads(line)
        if order == "stop":
            return
        await host.obey(order)


asyncio.run(main())
