"""RocketMQ peers: our broker and Apache's, under the same load, that of `rmq bench`.

    peer = Apache(bench, sync=False); peer.start()
    peer.load(Shape(name="single", title="", window=64)).turn(2.0, 0.0)

Requests are byte for byte the same for both (rmq/load/frames.py), as the official Java client
sends them. For both peers the broker and the name server are counted; ours are one process.
"""

from __future__ import annotations

from pathlib import Path

from follow_load import Follow
from peer import JVM_WARM_S, Foreign, Load, Peer, Shape
from rocketmq_loads import LOADS
from servers import Ours

import rmq
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.demo.ports import free_port
from rmq.format import fastjson
from rmq.load import control
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.run import open_producer
from tools.peers.apache import DIRECT_MEMORY, SCRIPT_JVM, ApacheStandalone
from tools.peers.cache import APACHE_VERSION
from tools.peers.probe import wait_until

LIST_TOPICS = 200  # of a request that creates them
FILL_BATCH = 32
ROUTE_PATIENCE_S = 180.0


class RocketmqPeer(Peer):
    """A broker of RocketMQ's protocol."""

    client = "rmq bench: a C loop, requests as of the Java client 5.5"

    @property
    def address(self) -> str:
        raise NotImplementedError

    @property
    def name_server(self) -> str:
        raise NotImplementedError

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def check_alive(self) -> None:
        """Raises RuntimeError when the broker has ended."""
        raise NotImplementedError

    def load(self, shape: Shape) -> Load:
        names = [shape.name if n == 0 else f"{shape.name}-{n}" for n in range(shape.topics)]
        self.create_topics(names, shape.queues)
        self.await_route(names[-1])
        queues = [target.queue for target in
                  control.find_queues(self.name_server, names, shape.queues)]  # fmt: skip
        if shape.filled and not shape.once:
            self.fill(queues, shape)
        return (LOADS | {"follow": Follow})[shape.kind](self, shape, queues)

    def create_topics(self, names: list[str], queues: int) -> None:
        """Creates many topics with each request, because Apache's broker writes all its topics
        anew for every request."""
        with Connection(self.address) as broker:
            for first in range(0, len(names), LIST_TOPICS):
                items = [
                    {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues,
                     "perm": 6}
                    for name in names[first : first + LIST_TOPICS]
                ]  # fmt: skip
                body = fastjson.dumps({"topicConfigList": items})
                broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body, timeout=60)

    def await_route(self, topic: str) -> None:
        """Waits until the name server knows the topic. Apache's name server reads whole tables of
        10,000 topics one after the other, and meanwhile may answer nobody for longer than a client
        would wait."""
        fields = {"topic": topic}
        with Connection(self.name_server) as name_server:

            def is_routed() -> bool:
                code = RequestCode.GET_ROUTEINFO_BY_TOPIC
                reply = name_server.ask(code, fields, timeout=ROUTE_PATIENCE_S)
                return reply.code == ResponseCode.SUCCESS

            wait_until(is_routed, ROUTE_PATIENCE_S, f"a route to {topic}")

    def fill(self, queues: list[Queue], shape: Shape) -> None:
        frames = send_frames(queues, SendShape(shape.body_bytes, batch=FILL_BATCH))
        requests = -(-shape.filled // FILL_BATCH)
        loop = open_producer(frames, [self.address], 4, limit=requests)
        while loop.run(200_000):
            pass
        if (stats := loop.stats())["acked"] != requests:
            raise RuntimeError(f"{self.title} did not take all: {stats}")


class Rmq(RocketmqPeer):
    key, title, version = "rmq", "rmq", rmq.__version__

    program: Ours

    def start(self) -> None:
        flush = "sync" if self.sync else "async"
        self.program = Ours(self.folder, flush, self.bench.places(self.sync))
        self.program.await_ack()

    @property
    def address(self) -> str:
        return self.program.address

    @property
    def name_server(self) -> str:
        return self.program.name_server

    def check_alive(self) -> None:
        self.program.check_alive()

    def settings(self) -> dict[str, str]:
        return {"flushDiskType": "SYNC_FLUSH" if self.sync else "ASYNC_FLUSH"}

    def promise(self) -> str:
        if self.sync:
            return "on the disk; messages that come meanwhile share the next fdatasync"
        return "written to the file: the end of the process loses nothing"


class Apache(RocketmqPeer, Foreign):
    key, title, version = "apache", "RocketMQ", APACHE_VERSION
    heap = "3g"
    name_server_heap_max = "1g"  # in 64 MiB it has no room for the tables of 10,000 topics
    warm_s = JVM_WARM_S
    program: ApacheStandalone

    def made(self) -> ApacheStandalone:
        given = {
            "flushDiskType": "SYNC_FLUSH" if self.sync else "ASYNC_FLUSH",
            "mappedFileSizeCommitLog": str(1 << 30),  # its default
        }
        return ApacheStandalone(
            self.folder, free_port(), free_port(2, 1), given, heap=self.heap, jvm=SCRIPT_JVM,
            name_server_heap_max=self.name_server_heap_max,
        )  # fmt: skip

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.program.broker_port}"

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self.program.name_server_port}"

    def check_alive(self) -> None:
        if not self.program.broker.running:
            raise RuntimeError(f"the broker has ended\n{self.program.broker.log_tail()}")

    def settings(self) -> dict[str, str]:
        jvm = " ".join(self.program.jvm)
        return {
            "JVM": f"-Xms{self.heap} -Xmx{self.heap} {DIRECT_MEMORY} {jvm}",
            "name server's JVM": f"-Xmx{self.name_server_heap_max}, else the same",
            **self.program.settings,
        }

    def promise(self) -> str:
        if self.sync:
            return "on the disk; messages that come meanwhile share the next sync"
        return "in the mapped file: the end of the process loses nothing"
