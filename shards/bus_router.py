"""Bus router: the supervisor's end of the bus, a ROUTER for requests, an XPUB for news.

    shard                      router                         the other shards
    Hello(token)      ->       token right? peer known
                      <-       Welcome(epoch, seq)
    Sync(have)        ->       compared with the registry
                      <-       SyncReply(newer, wanted)
    Change(items)     ->       merged, published as News  ->  taken over
                               waits for the prompt ones  <-  Applied(seq)
                      <-       Changed(applied, late)
    Beat              ->       (silent for SILENT_S: state `silent`, not asked to push a reply)
    Ready(not serving) ->      its log is opened anew, it sends no beats until the next Hello
                               Pulse(seq) each second     ->  behind? Sync

Requests also go the other way, ask(index, message), and commands use the same ROUTER. Every wait
has a limit: a shard that does not answer within CHANGE_WAIT_S is late, and changes do not wait for
it again until it has caught up. So a stopped shard delays one change by 0.1 s, and no sends at all.

A frame on the ROUTER is [sort + number, message]: sort Q (request), A (answer to that number), N
(notice, without a number). A peer that has not said Hello gets Failed as its only answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable

import msgspec
import zmq

from rmq.base import clock
from rmq.base.background_tasks import BackgroundTasks
from rmq.base.deadline import within
from shards.bus_files import BusDirectory
from shards.bus_socket import BusSocket
from shards.messages import (
    Answer,
    Answers,
    Applied,
    Ask,
    Beat,
    BusError,
    Change,
    Changed,
    Done,
    Failed,
    Hello,
    HelloCommand,
    Item,
    Message,
    News,
    Pulse,
    Ready,
    Sync,
    SyncReply,
    Welcome,
    decode,
    encode,
)
from shards.registry import Registry

log = logging.getLogger("rmq.bus")

CHANGE_WAIT_S = 0.1
PULSE_S = 1.0
SILENT_S = 3.0
REQUESTS_MAX = 1000  # of one peer, under way at once
NOT_KNOWN = "say Hello first"


class Peer(msgspec.Struct, eq=False):
    """A process that said Hello."""

    identity: bytes
    hello: Hello | HelloCommand
    beat_at: float  # monotonic
    applied: int = 0
    late: bool = True  # until its first Applied has come
    in_flight: int = 0
    pid: int = 0


class BusRouter:
    """Owned by the supervisor's loop."""

    def __init__(
        self,
        directory: BusDirectory,
        token: str,
        on_hello: Callable[[Hello], str],
        on_ready: Callable[[int, bool], None],  # shard, whether it serves from now on
        on_command: Callable[[Message], Awaitable[Message]],
    ) -> None:
        self._directory = directory
        self._token = token.encode()
        self._on_hello = on_hello  # returns why the shard is refused; empty: it is welcome
        self._on_ready = on_ready
        self._on_command = on_command
        self.registry = Registry()
        self.epoch = time.time_ns() // 1000
        self.seq = 0
        self.refused = 0  # frames of peers without a Hello
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = BusSocket(self._context, zmq.ROUTER, self._on_frames)
        self._news = BusSocket(self._context, zmq.XPUB, self._on_subscription)
        self._peers: dict[bytes, Peer] = {}
        self._shards: dict[int, Peer] = {}
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[bytes, asyncio.Future[Message]]] = {}
        self._tasks = BackgroundTasks()
        self._progress = asyncio.Event()  # set and replaced whenever a shard has applied more

    def start(self) -> None:
        raw = self._router.raw
        raw.setsockopt(zmq.IPC_FILTER_UID, os.getuid())
        raw.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to a peer that is gone is an error
        raw.bind(self._directory.address("requests"))
        self._news.raw.setsockopt(zmq.IPC_FILTER_UID, os.getuid())
        self._news.raw.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._news.raw.bind(self._directory.address("news"))
        self._router.open()
        self._news.open()
        self._tasks.start(self._pulse())

    async def stop(self) -> None:
        await self._tasks.stop()
        self._router.close()
        self._news.close()
        self._context.term()

    # ---- shards

    def silent_s(self, index: int) -> float | None:
        """Seconds since the shard's last message; None while it has not joined."""
        peer = self._shards.get(index)
        return clock.monotonic() - peer.beat_at if peer is not None else None

    def forgive(self) -> None:
        """Takes all shards as just heard: the supervisor itself stood still, not they."""
        for peer in self._peers.values():
            peer.beat_at = clock.monotonic()

    def joined(self, index: int) -> Hello | None:
        peer = self._shards.get(index)
        return peer.hello if peer is not None and isinstance(peer.hello, Hello) else None

    def forget(self, index: int) -> None:
        """Called when the shard's process has ended."""
        peer = self._shards.pop(index, None)
        if peer is not None:
            self._peers.pop(peer.identity, None)
            for number, (identity, future) in list(self._waiting.items()):
                if identity == peer.identity and not future.done():
                    self._waiting.pop(number)
                    future.set_exception(BusError(f"shard {index} ended"))
        gone = self.registry.without_members(index)
        if gone:
            self.publish(gone)
        self._progressed()

    async def ask(self, index: int, message: Message, timeout_s: float) -> Message:
        """The shard's answer to a request; BusError when there is none."""
        peer = self._shards.get(index)
        if peer is None:
            raise BusError(f"shard {index} is not on the bus")
        number = next(self._numbers)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (peer.identity, future)
        try:
            if not self._send(peer.identity, b"Q" + number.to_bytes(8, "big"), message):
                raise BusError(f"shard {index} cannot be reached")
            return await within(future, timeout_s)
        except asyncio.TimeoutError:
            raise BusError(f"shard {index} does not answer") from None
        finally:
            self._waiting.pop(number, None)

    def publish(self, items: list[Item]) -> int:
        self.seq += 1
        self._publish(News(self.epoch, self.seq, items))
        return self.seq

    # ---- what arrives

    def _on_frames(self, frames: list[bytes]) -> None:
        if len(frames) != 3 or len(frames[1]) not in (1, 9):
            self._refuse(frames[0], "frames of another form")
            return
        identity, head, body = frames
        sort, number = head[:1], head[1:]
        try:
            message = decode(body)
        except BusError as error:
            self._refuse(identity, str(error))
            return
        if sort == b"A" and number:
            self._answered(identity, int.from_bytes(number, "big"), message)
        elif sort == b"N":
            self._notice(identity, message)
        elif sort == b"Q" and number:
            self._request(identity, b"A" + number, message)
        else:
            self._refuse(identity, "frames of another form")

    def _refuse(self, identity: bytes, why: str) -> None:
        self.refused += 1
        log.warning("bus: a frame of %s is dropped: %s", identity.hex(), why[:300])

    def _answered(self, identity: bytes, number: int, message: Message) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and waiting[0] == identity and not waiting[1].done():
            waiting[1].set_result(message)

    def _notice(self, identity: bytes, message: Message) -> None:
        peer = self._peers.get(identity)
        if peer is None:
            return  # the peer will see the epoch in the next Pulse and say Hello
        peer.beat_at = clock.monotonic()
        if isinstance(message, Applied):
            self._applied(peer, message.seq)
        elif isinstance(message, Ready) and isinstance(peer.hello, Hello):
            self._on_ready(peer.hello.index, message.serving)
        elif not isinstance(message, Beat):
            self._refuse(identity, f"{type(message).__name__} is no notice")

    def _request(self, identity: bytes, head: bytes, message: Message) -> None:
        if isinstance(message, (Hello, HelloCommand)):
            self._send(identity, head, self._hello(identity, message))
            return
        peer = self._peers.get(identity)
        if peer is None:
            self.refused += 1
            self._send(identity, head, Failed(NOT_KNOWN))
        elif peer.in_flight >= REQUESTS_MAX:
            self._send(identity, head, Failed("too many requests under way"))
        else:
            peer.beat_at = clock.monotonic()
            self._tasks.start(self._serve(peer, head, message))

    async def _serve(self, peer: Peer, head: bytes, message: Message) -> None:
        peer.in_flight += 1
        try:
            answer = await self._answer(peer, message)
        except BusError as error:
            answer = Failed(str(error))
        except Exception as error:
            log.exception("bus: %s failed", type(message).__name__)
            answer = Failed(f"{type(error).__name__}: {error}")
        finally:
            peer.in_flight -= 1
        self._send(peer.identity, head, answer)

    async def _answer(self, peer: Peer, message: Message) -> Message:
        if isinstance(peer.hello, Hello):
            if isinstance(message, Sync):
                newer, wanted = self.registry.compare(message.have)
                return SyncReply(self.seq, newer, wanted)
            if isinstance(message, Change):
                return await self._change(peer, message.items)
            if isinstance(message, Ready):
                self._on_ready(peer.hello.index, message.serving)
                return Done()
        if isinstance(message, Ask):
            own = peer.hello.index if isinstance(peer.hello, Hello) else -1
            return await self.ask_all(message, without=own)
        if isinstance(peer.hello, HelloCommand):
            return await self._on_command(message)
        raise BusError(f"{type(message).__name__} is no request of a shard")

    def _hello(self, identity: bytes, hello: Hello | HelloCommand) -> Message:
        if not hmac.compare_digest(hello.token.encode(), self._token):
            self._refuse(identity, f"wrong token of process {hello.pid}")
            return Failed("wrong token: this is another start of the broker")
        if isinstance(hello, Hello):
            why = self._on_hello(hello)
            if why:
                return Failed(why)
            before = self._shards.get(hello.index)
            if before is not None:
                self._peers.pop(before.identity, None)
        else:
            commands = [p for p in self._peers.values() if isinstance(p.hello, HelloCommand)]
            if len(commands) > REQUESTS_MAX:  # commands do not say when they end
                self._peers.pop(commands[0].identity)
        peer = Peer(identity, hello, clock.monotonic(), pid=hello.pid)
        self._peers[identity] = peer
        if isinstance(hello, Hello):
            self._shards[hello.index] = peer
            log.debug("shard %d (%s, process %d) is on the bus", hello.index, hello.name, hello.pid)
            if hello.serving:
                self._on_ready(hello.index, True)
        return Welcome(self.epoch, self.seq, self.registry.counter)

    # ---- changes

    async def _change(self, origin: Peer, items: list[Item]) -> Changed:
        accepted = self.registry.merge(items)
        if accepted:
            self.publish(accepted)
        goal = self.seq
        others = {index: peer for index, peer in self._shards.items() if peer is not origin}
        end = clock.monotonic() + CHANGE_WAIT_S
        while True:
            missing = [
                peer
                for index, peer in others.items()
                if peer.applied < goal and not peer.late and self._shards.get(index) is peer
            ]
            left = end - clock.monotonic()
            if not missing or left <= 0:
                break
            progress = self._progress
            try:
                await within(progress.wait(), left)
            except asyncio.TimeoutError:
                continue
        for peer in missing:
            peer.late = True
        applied = [index for index, peer in others.items() if peer.applied >= goal]
        return Changed(applied, [index for index in others if index not in applied])

    def _applied(self, peer: Peer, seq: int) -> None:
        peer.applied = max(peer.applied, min(seq, self.seq))
        if peer.applied == self.seq:
            peer.late = False
        self._progressed()

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    # ---- questions to all

    async def ask_all(self, message: Ask, without: int = -1) -> Answers:
        targets = message.to or [index for index in sorted(self._shards) if index != without]
        timeout_s = max(1, min(message.timeout_ms, 60_000)) / 1000
        single = msgspec.structs.replace(message, to=[])
        if message.first:
            answers = await self._until_one_is_good(targets, single, timeout_s)
        else:
            results = await asyncio.gather(
                *(self.ask(index, single, timeout_s) for index in targets), return_exceptions=True
            )
            answers = [result for result in results if isinstance(result, Answer)]
        got = {answer.index for answer in answers}
        return Answers(answers, [index for index in targets if index not in got])

    async def _until_one_is_good(
        self, targets: list[int], question: Ask, timeout_s: float
    ) -> list[Answer]:
        """The answers up to the first of code 0. Silent shards are not asked: one that hangs would
        delay the whole answer."""
        answers: list[Answer] = []
        asked = [
            asyncio.ensure_future(self.ask(index, question, timeout_s))
            for index in targets
            if (self.silent_s(index) or 0.0) < SILENT_S
        ]
        try:
            for each in asyncio.as_completed(asked):
                with contextlib.suppress(BusError):
                    answer = await each
                    if isinstance(answer, Answer):
                        answers.append(answer)
                        if answer.code == 0:
                            break
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return answers

    # ---- sending

    def _send(self, identity: bytes, head: bytes, message: Message) -> bool:
        return self._router.send([identity, head, encode(message)])

    def _publish(self, message: Message) -> None:
        self._news.send([self._token, encode(message)])

    def _on_subscription(self, frames: list[bytes]) -> None:
        """Sends a new subscriber its first Pulse at once, so that it need not wait a second."""
        if frames and frames[0] == b"\x01" + self._token:
            self._publish(Pulse(self.epoch, self.seq))

    async def _pulse(self) -> None:
        while True:
            self._publish(Pulse(self.epoch, self.seq))
            await asyncio.sleep(PULSE_S)
            self.registry.forget_tombstones(clock.now_ms())
