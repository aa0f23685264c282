"""Any bytes: the reactor survives, a bad frame closes only its own connection, a good frame gets
one answer.

Method: seeded frames from right to hostile (support/frame_maker.py) go through the compiled reactor
over many connections, cut anywhere. For each connection the test knows beforehand which answers
must come; a connection that must be closed may lose answers, but never gains or repeats one. Beside
them a well-behaved client checks all the time that it is served correctly. At the end every buffer
is back, the number of log lines is right, and the offline checker finds the store sound. The same
is done with accounts, with most frames signed: then the gate of the control side says which frames
must be refused.

20,000 frames, 100,000 in `make test-slow`; RMQ_FUZZ_FRAMES asks for more. What it cannot see:
memory errors that do not crash; `make debug` runs such frames under AddressSanitizer.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import re
import threading
from pathlib import Path

import pytest
from support.frame_maker import Due, FrameMaker, Made
from support.shard import EVENT, REQUEST, Client, Shard, bodies, pull, request, send
from support.volume import seeds, volume

from rmq.auth.accounts import Accounts
from rmq.auth.gate import Gate
from rmq.auth.packed_policies import packed
from rmq.broker.core_seam import REFUSED
from rmq.errors import ProtocolError
from rmq.format.remoting import Command, decode, encode
from rmq.format.signature import Credentials
from rmq.offline.checker import check_store

FRAMES = int(os.environ.get("RMQ_FUZZ_FRAMES", volume(20_000, 100_000)))
SEEDS = volume(2, 4)
CONNECTIONS = 24
FRAMES_EACH = 50
SENDS, PULL = (10, 310, 320), 11
# Control's answer in this test; the code for users without permission.
CONTROLS, NO_PERMISSION = 3, 16
ANYWHERE = "127.0.0.1:1"
ALICE = Credentials("alice", "secret")
# Those who sign frames. Bob has one permission.
SIGNERS = [ALICE, ALICE, ALICE, ALICE, Credentials("alice", "secret", "token"),
           Credentials("bob", "word"), Credentials("carol", "off"),
           Credentials("alice", "wrong")]  # fmt: skip
# NO_PERMISSION (16) has other reasons as well, such as messages of no transaction.
REFUSAL = re.compile("User:|username cannot be|check signature failed|parse authorization")
MORE_LINES = re.compile(rb"(\d+) more lines of this second were not logged")


class Control(threading.Thread):
    """The test's control thread: it answers every request that it is handed once."""

    def __init__(self, shard: Shard, gate: Gate | None = None) -> None:
        super().__init__()
        self.shard = shard
        self.gate = gate
        self.ended = threading.Event()
        self.lines = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.wait(0.001):
                self.take()
        except BaseException as error:
            self.failure = error

    def take(self) -> None:
        for kind, number, payload in self.shard.core.poll():
            if kind in (EVENT, REFUSED):
                more = MORE_LINES.search(payload)
                self.lines += int(more[1]) if more else 1
            elif kind == REQUEST:
                self.answer(number, payload)

    def answer(self, number: int, frame: bytes) -> None:
        core = self.shard.core
        try:
            command = decode(frame)
        except ProtocolError:
            core.close_connection(number)
            return
        topic = command.fields.get("b") or command.fields.get("topic") or ""
        if command.is_response:
            return
        refusal = self.gate.verdict(command, ANYWHERE).refusal if self.gate is not None else ""
        if refusal:
            if not command.is_oneway:
                core.send(number, encode(command.reply(NO_PERMISSION, f"User: {refusal}")))
        elif command.code in (*SENDS, PULL) and topic in ("auto0", "auto1", "auto2"):
            self.shard.topic(topic, 4, 4)
            core.put_subscription(b"g", topic.encode(), 1, None, 0)
            core.resubmit(number, frame)
        elif not command.is_oneway:
            core.send(number, encode(command.reply(CONTROLS)))
        if command.code in SENDS:
            core.send_done(number)


class Stream:
    """One fuzzing connection: what it sends, and which answers must come."""

    def __init__(
        self, client: Client, maker: FrameMaker, hostile: float, gate: Gate | None = None
    ) -> None:
        self.client = client
        self.gate = gate
        # Whether each request may be refused, by opaque.
        self.refused: dict[int, set[bool]] = collections.defaultdict(set)
        self.sure: collections.Counter[int] = collections.Counter()  # answers that must come
        self.possible: collections.Counter[int] = collections.Counter()
        self.closes = Due.NEVER
        out: list[bytes] = []
        for _ in range(FRAMES_EACH):
            made = maker.frame(hostile)
            out.append(made.bytes)
            self.expect(made)
            if self.closes is not Due.NEVER:
                break
        self.frames = len(out)
        self.cut = maker.random.random() < 0.1
        data = b"".join(out)
        self.data = data[: maker.random.randrange(len(data))] if self.cut else data

    def expect(self, made: Made) -> None:
        self.closes = made.closes
        if made.closes is not Due.ALWAYS and made.answer is not Due.NEVER:
            self.possible[made.opaque] += 1
            if made.answer is Due.ALWAYS:
                self.sure[made.opaque] += 1
            if made.command is not None and self.gate is not None:
                refusal = self.gate.verdict(made.command, ANYWHERE).refusal
                self.refused[made.opaque].add(bool(refusal))

    def write(self, size: int) -> bool:
        """Sends the next piece; False if nothing is left to send."""
        piece, self.data = self.data[:size], self.data[size:]
        if piece:
            try:
                self.client.put(piece)
            except ConnectionError:
                self.data = b""
        return bool(self.data)

    def check(self) -> None:
        if self.cut or self.closes is not Due.NEVER:
            if self.cut or self.closes is Due.MAYBE:
                with contextlib.suppress(OSError):  # the core may have closed it already
                    self.client.socket.shutdown(1)
            self.read_to_the_end()
            return
        replies = [self.client.reply() for _ in range(self.sure.total())]
        assert collections.Counter(reply.opaque for reply in replies) == self.sure
        if self.gate is not None:
            for reply in replies:
                told = reply.code == NO_PERMISSION and REFUSAL.match(reply.remark or "")
                assert bool(told) in self.refused[reply.opaque], reply
        self.client.put(send("t", b"probe", -7))
        assert self.client.reply().opaque == -7, "one answer too many"

    def read_to_the_end(self) -> None:
        found: collections.Counter[int] = collections.Counter()
        try:
            while True:
                found[self.client.reply().opaque] += 1
        except (EOFError, ConnectionError):
            pass
        if self.closes is not Due.MAYBE:
            assert found <= self.possible


def signed(frame: bytes) -> bytes:
    """The request, signed by Alice. A broker without accounts does not look at the signature."""
    given = decode(frame[4:])
    return request(given.code, given.opaque, given.body, **ALICE.sign(given.fields, given.body))


def use_accounts(shard: Shard) -> Gate:
    """Makes the accounts of SIGNERS in the core and in the gate."""
    accounts = Accounts()
    for name, password in (("alice", "secret"), ("bob", "word"), ("carol", "off")):
        kind = "Super" if name == "alice" else "Normal"
        status = "disable" if name == "carol" else "enable"
        accounts.create_user(
            name, {"password": password, "userType": kind, "userStatus": status}, by_super=True
        )
    accounts.put_acl("User:bob", [{"policyType": "Custom", "entries": [
        {"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}]}])  # fmt: skip
    for user in accounts.users():
        shard.core.put_user(user.name.encode(), user.password.encode(), user.is_super,
                            user.is_enabled, packed(accounts.acl(user.name)), b"")  # fmt: skip
    shard.core.set_auth(True, True, [], [])
    return Gate(accounts, "DefaultCluster", authenticates=True, authorizes=True)


class Witness:
    """A client that does everything right and expects correct answers."""

    def __init__(self, shard: Shard) -> None:
        self.client = shard.connect()
        self.count = 0

    def look(self) -> None:
        body = b"witness %d" % self.count
        reply = self.client.ask(signed(send("quiet", body, self.count)))
        assert (reply.code, reply.opaque) == (0, self.count)
        assert reply.fields["queueOffset"] == str(self.count)
        found = self.client.ask(signed(pull("g", "quiet", self.count, 5)))
        assert (found.opaque, bodies(found)) == (5, [body])
        self.count += 1


@pytest.mark.parametrize("by", ["nobody", "accounts"])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_any_frame_is_answered_once_or_closes_its_connection_alone(
    tmp_path: Path, seed: int, by: str
) -> None:
    maker = FrameMaker(seed, SIGNERS if by == "accounts" else ())
    frames = closed = answered = 0
    # In a fixed order, because in few rounds chance might choose only mild ones.
    shares = itertools.cycle([0.0, 0.02, 0.3])
    with Shard(tmp_path, suspend_max_ms=40, jumbo_buffers=16) as shard:
        shard.topic("t", 4, 4)
        shard.topic("quiet")
        shard.topic("empty", 4, 4)
        shard.group("g", "t", "quiet", "empty")
        shard.topic("SCHEDULE_TOPIC_XXXX", 2, 2)
        shard.topic("RMQ_SYS_TRANS_HALF_TOPIC")
        shard.core.set_delay_levels([10, 300], [0, 0])
        gate = use_accounts(shard) if by == "accounts" else None
        witness, control = Witness(shard), Control(shard, gate)
        control.start()
        try:
            while frames < FRAMES // SEEDS:
                hostile = next(shares)
                streams = [
                    Stream(shard.connect(), maker, hostile, gate) for _ in range(CONNECTIONS)
                ]
                open_streams = list(streams)
                while open_streams:
                    size = maker.random.choice([1, 7, 300, 5000, 1 << 20, 1 << 20])
                    open_streams = [each for each in open_streams if each.write(size)]
                for stream in streams:
                    stream.check()
                    stream.client.close()
                    shard.clients.remove(stream.client)
                    frames += stream.frames
                    closed += stream.closes is Due.ALWAYS and not stream.cut
                    answered += stream.sure.total()
                witness.look()
                assert control.failure is None
            counters = shard.until(lambda counters: counters["connections"] == 1)
            lines = counters["malformed_frames"] + counters["auth_refused"]
            shard.until(lambda _: control.lines >= lines)
        finally:
            control.ended.set()
            control.join()
        witness.look()
        counters = shard.core.stats()
        # Both kinds of frame must come often enough, good ones and bad ones.
        assert counters["malformed_frames"] >= closed > frames // 1000
        assert answered > frames // 3
        assert (
            min(counters[name] for name in ("pulls_found", "pulls_held", "messages_in"))
            > frames // 500
        )
        told = ("malformed_frames", "corrupt_records", "auth_refused")  # each of these logs a line
        assert control.lines == sum(counters[name] for name in told)
        if gate is not None:
            assert min(counters["auth_allowed"], counters["auth_refused"]) > frames // 10
    report = check_store(tmp_path / "store")
    assert not report.problems, report.problems[:5]


def is_refused(reply: Command) -> bool:
    """Whether the answer is a refusal: by control (3), for the account (16), or because the request
    has more fields than the reactor reads, so that control gave it back."""
    return reply.code in (3, 16) or (
        reply.code == 1 and (reply.remark or "").startswith("the request has more header fields")
    )


@pytest.mark.parametrize("seed", seeds(2))
def test_no_frame_of_a_stranger_is_served(tmp_path: Path, seed: int) -> None:
    """With accounts, the same frames without a signature: each is refused or closes its connection,
    and nothing is stored, read or moved."""
    maker = FrameMaker(seed)
    frames = 0
    with Shard(tmp_path, suspend_max_ms=40, jumbo_buffers=16) as shard:
        for name in ("t", "quiet", "empty"):
            shard.topic(name, 4, 4)
        shard.group("g", "t", "quiet", "empty")
        shard.topic("SCHEDULE_TOPIC_XXXX", 2, 2)
        shard.topic("RMQ_SYS_TRANS_HALF_TOPIC")
        shard.core.put_user(b"alice", b"secret", True, True, b"", b"")
        shard.core.set_auth(True, True, [], [])
        before = shard.core.stats()
        control = Control(shard)
        control.start()
        try:
            while frames < FRAMES // SEEDS // 4:
                client = shard.connect()
                data = b"".join(maker.frame(0.05).bytes for _ in range(FRAMES_EACH))
                with contextlib.suppress(OSError):
                    client.put(data)
                    client.socket.shutdown(1)
                with contextlib.suppress(EOFError, ConnectionError):
                    while is_refused(reply := client.reply()):
                        pass
                    pytest.fail(f"{reply.code}: {reply.remark}")
                client.close()
                shard.clients.remove(client)
                frames += FRAMES_EACH
                assert control.failure is None
        finally:
            control.ended.set()
            control.join()
        counters = shard.core.stats()
        served = ("auth_allowed", "messages_in", "pulls_found", "pulls_held")
        assert {name: counters[name] for name in served} == {name: before[name] for name in served}
        assert counters["auth_refused"] > frames // 10
    assert not check_store(tmp_path / "store").problems
