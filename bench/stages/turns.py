"""Whole turns of a core in this process, and the gather of a pull, as rows of the stages' table.

One thread writes to a client's socket, makes turns, and reads the answers, all in C
(cext/testing/driven_core.pyx). All of this is counted. The kernel's part is not among the
instructions, but is most of the nanoseconds.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cext.testing.driven_core import DrivenCore

from cext.flow.shard_core import ShardCore
from rmq.auth.packed_policies import packed
from rmq.auth.policy import Acl
from rmq.broker.core_options import core_options
from rmq.codes import RequestCode
from rmq.config import load_properties
from rmq.format.message import encode_properties
from rmq.format.remoting import Command, decode, encode, field_texts
from rmq.format.signature import Credentials
from rmq.names import AUTO_CREATE_TOPIC, TIMER_TOPIC

MIB = 1 << 20
SMALL = {
    "segment_bytes": 64 * MIB, "connections_max": 16, "reply_buffers": 256, "jumbo_buffers": 8,
    "pulls_max": 256, "queue_chunks": 16_384, "disk_readers": 1, "send_wait_ms": 60_000,
    "page_cache_busy_ms": 60_000, "index_dir": "",
}  # fmt: skip
TOPIC, GROUP = "orders", "readers"
AT_ONCE = 50  # requests in one write
MESSAGES = 32  # that a pull returns
SENDER = Credentials("sender", "its secret")

Run = Callable[[int], None]


class Rig:
    """A core with a topic, a group and one client."""

    def __init__(self, directory: Path) -> None:
        (directory / "store").mkdir()
        settings = {
            "storePathRootDir": str(directory / "store"), "listenPort": "0",
            "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
        }  # fmt: skip
        options = {**core_options(load_properties(None, settings)), **SMALL}
        Path(options["consumequeue_dir"]).mkdir()
        self.core = ShardCore(options)
        self.core.open()
        self.core.put_topic(TOPIC.encode(), 1, 1, 6, 0)
        for topic in (options["revive_topic"], TIMER_TOPIC.encode()):  # what pops write to
            self.core.put_topic(topic, 1, 1, 6, 0)
        self.core.set_delay_levels([1000], [0])  # pops are served from then on
        self.core.put_group(GROUP.encode(), 1, 1)
        self.core.put_subscription(GROUP.encode(), TOPIC.encode(), 1, None, 0)
        self.driven = DrivenCore(self.core)
        self.client = socket.create_connection(("127.0.0.1", self.core.port))
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.setblocking(False)

    def ask_who(self) -> None:
        """From now on each request is authenticated and authorized. It is the last of SENDER's ten
        entries that lets it send."""
        allow = {"actions": ["Pub"], "decision": "Allow"}
        entries = [{"resource": f"Topic:of-others-{n}*", **allow} for n in range(9)]
        entries.append({"resource": f"Topic:{TOPIC}*", **allow})
        acl = Acl.of([{"policyType": "Custom", "entries": entries}])
        name, password = SENDER.access_key.encode(), SENDER.secret_key.encode()
        self.core.put_user(name, password, False, True, packed(acl), b"")
        self.core.set_auth(True, True, [], [])

    def run(self, frame: bytes, at_once: int = AT_ONCE) -> Run:
        """Returns a function that sends the frame so often, `at_once` times in a write, and reads
        all answers. RuntimeError: the core refuses the frame, which is sent once beforehand."""
        frames = frame * at_once
        self.client.sendall(frame)
        while not (answer := self.answer()):
            self.driven.turn()
        if (code := decode(answer[4:]).code) != 0:
            raise RuntimeError(f"the core answers with code {code}: {answer!r}")

        def run(count: int) -> None:
            for _ in range(count // at_once):
                self.driven.exchange(self.client.fileno(), frames, at_once)

        return run

    def answer(self) -> bytes:
        """The bytes that have come; b"" if there are none yet."""
        try:
            return self.client.recv(MIB)
        except BlockingIOError:
            return b""

    def fill(self, count: int) -> None:
        self.run(send())(count)


def request(
    code: int, body: bytes = b"", signer: Credentials | None = None, **fields: Any
) -> bytes:
    texts = field_texts(fields)
    if signer is not None:
        texts = signer.sign(texts, body)
    return encode(
        Command(code=code, opaque=7, language="JAVA", version=477, fields=texts, body=body)
    )


def send(signer: Credentials | None = None, **more: str) -> bytes:
    properties = encode_properties(
        {"UNIQ_KEY": "7F0000010AAA18B4AAC2123456780000", "TAGS": "TagA", **more}
    ).decode()
    return request(
        RequestCode.SEND_MESSAGE_V2, bytes(128), signer, a="P", b=TOPIC, c=AUTO_CREATE_TOPIC, d=4,
        e=0, f=0, g=1_700_000_000_123, h=0, i=properties, j=0, k="false", m="false",
    )  # fmt: skip


def pull() -> bytes:
    return request(
        RequestCode.PULL_MESSAGE, consumerGroup=GROUP, topic=TOPIC, queueId=0, queueOffset=0,
        maxMsgNums=MESSAGES, sysFlag=0, commitOffset=0, suspendTimeoutMillis=0, subVersion=1,
    )  # fmt: skip


def pop() -> bytes:
    return request(
        RequestCode.POP_MESSAGE, consumerGroup=GROUP, topic=TOPIC, queueId=-1, maxMsgNums=1,
        invisibleTime=60_000, pollTime=0, bornTime=0, initMode=0,
    )  # fmt: skip


def gather(directory: Path) -> Run:
    rig = Rig(directory)
    rig.fill(100)
    return lambda count: rig.driven.gather(TOPIC.encode(), 0, MESSAGES, count)


def turn_send(directory: Path) -> Run:
    return Rig(directory).run(send())


def turn_signed(directory: Path) -> Run:
    rig = Rig(directory)
    rig.ask_who()
    return rig.run(send(SENDER))


def turn_pull(directory: Path) -> Run:
    rig = Rig(directory)
    rig.fill(100)
    return rig.run(pull(), 10)


def turn_pop(directory: Path) -> Run:
    rig = Rig(directory)
    rig.fill(2_600)
    return rig.run(pop(), 10)


def turn_timer(directory: Path) -> Run:
    return Rig(directory).run(send(TIMER_DELAY_MS="3600000"))


TURNS: dict[str, tuple[str, Callable[[Path], Run], int]] = {
    "gather": ("what a pull of 32 finds in its queue and the log", gather, 200),
    "turn_send": ("send of 128 B, 50 at once, to its answer", turn_send, 1000),
    "turn_signed": ("the same with accounts: signed, permitted", turn_signed, 1000),
    "turn_pull": ("pull of 32, 10 at once, to its answer", turn_pull, 200),
    "turn_pop": ("pop of 1, 10 at once, to its answer", turn_pop, 500),
    "turn_timer": ("timed send of 128 B, 50 at once", turn_timer, 1000),
}
