"""Bus client: a shard's end of the bus, a DEALER for requests both ways, a SUB for news.

    join: Hello -> Welcome; wait for the first Pulse (the subscription works); Sync
    News   seq is the next: taken over; repeated: dropped; later than the next: something was lost
    Pulse  another epoch: a new supervisor, Hello again; a larger seq: something was lost
    something was lost: Sync, which compares the stamps of all items, both ways. A Sync also follows
           a Change that the supervisor refuses, or may not have received

So whatever is lost is found again within a second. The shard never waits for the bus to serve its
clients: without a supervisor it goes on alone, keeps trying to join, and gets everything it missed
when a supervisor is back.

Only the owner of this client (bus_siblings.py) knows what the items mean; the client reaches it
through four calls: known(), items(), take() and registered().
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from typing import Protocol

import zmq

from rmq.base.background_tasks import BackgroundTasks
from rmq.base.deadline import within
from shards.bus_files import BusDirectory
from shards.bus_socket import BusSocket
from shards.messages import (
    Applied,
    Beat,
    BusError,
    Change,
    Changed,
    Failed,
    Hello,
    Item,
    Known,
    Message,
    News,
    Pulse,
    Sync,
    SyncReply,
    Welcome,
    decode,
    encode,
    expect,
)

log = logging.getLogger("rmq.bus")

BEAT_S = 1.0
REQUEST_S = 2.0
RETRY_S = 0.25
RECONNECT_MS = 50
SYNC_ITEMS_MAX = 20_000  # of one Change after a Sync


class Owner(Protocol):
    """The object that knows what the items mean. All calls are made on this client's loop."""

    def hello(self) -> Hello: ...
    def welcome(self, counter: int) -> None: ...
    def known(self) -> list[Known]: ...
    def items(self, wanted: list[Known]) -> list[Item]: ...
    def take(self, items: list[Item]) -> None: ...
    async def registered(self) -> None: ...
    async def answer(self, message: Message) -> Message: ...


class BusClient:
    """Owned by the control thread's loop."""

    def __init__(self, directory: BusDirectory, owner: Owner, index: int) -> None:
        self._directory = directory
        self._owner = owner
        self._index = index
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._dealer = BusSocket(self._context, zmq.DEALER, self._on_frames)
        self._news = BusSocket(self._context, zmq.SUB, self._on_news)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._tasks = BackgroundTasks()
        self.epoch = 0  # of the supervisor that welcomed us; 0: none
        self.seq = 0  # the last publication taken over
        self.syncs = 0
        self.refusal = ""  # why the supervisor refuses this shard; empty: it does not, or is away
        self._behind = asyncio.Event()  # something was missed: a Sync is due
        self._pulsed = asyncio.Event()
        self._pulse_epoch = 0  # of the last Pulse: this supervisor's news reach us
        self._joined = asyncio.Event()
        self._applied_goal = 0

    @property
    def joined(self) -> bool:
        return self.epoch != 0

    @property
    def traffic(self) -> dict[str, int]:
        """Messages and bytes over this shard's end of the bus, both ways, both sockets."""
        ends = (self._dealer.traffic, self._news.traffic)
        return {
            "bus_messages_sent": sum(end.sent for end in ends),
            "bus_messages_received": sum(end.received for end in ends),
            "bus_bytes_sent": sum(end.bytes_sent for end in ends),
            "bus_bytes_received": sum(end.bytes_received for end in ends),
        }

    def start(self) -> None:
        token = self._owner.hello().token
        for socket, name in ((self._dealer, "requests"), (self._news, "news")):
            socket.raw.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
            socket.raw.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
            if socket is self._news:
                socket.raw.setsockopt(zmq.SUBSCRIBE, token.encode())
            socket.raw.connect(self._directory.address(name))
            socket.open()
        self._tasks.start(self._keep_up())
        self._tasks.start(self._beat())

    async def wait_joined(self, timeout_s: float) -> bool:
        """Waits until this shard's tables have all shared items; False: not in time."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._joined.wait(), timeout_s)
        return self._joined.is_set()

    async def stop(self) -> None:
        await self._tasks.stop()
        self._dealer.close()
        self._news.close()
        self._context.term()

    def notice(self, message: Message) -> None:
        """Sends a message that needs no answer, and does not see whether it arrives."""
        self._send(b"N", message)

    async def request(self, message: Message, timeout_s: float = REQUEST_S) -> Message:
        """BusError when the supervisor does not answer; a Failed from it is returned as it is."""
        number = next(self._numbers)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            if not self._send(b"Q" + number.to_bytes(8, "big"), message):
                raise BusError("the bus is full")
            return await within(future, timeout_s)
        except asyncio.TimeoutError:
            raise BusError("the supervisor does not answer") from None
        finally:
            self._waiting.pop(number, None)

    async def change(self, items: list[Item]) -> None:
        """Tells the other shards. BusError: the change may not have reached them; a Sync follows,
        which brings it to them."""
        try:
            expect(await self.request(Change(items)), Changed)
        except BusError:
            self.catch_up()
            raise

    def catch_up(self) -> None:
        """Asks for a Sync, because this shard or the supervisor has missed something."""
        self._behind.set()

    # ---- joining and keeping up

    async def _keep_up(self) -> None:
        """Joins, then waits until something was missed and syncs; tries again until it works."""
        self._behind.set()
        while True:
            await self._behind.wait()
            try:
                if not self.joined:
                    await self._join()
                self._behind.clear()
                await self._sync()
                self._joined.set()
            except BusError as error:
                log.debug("bus: %s", error)
                self._behind.set()
                await asyncio.sleep(RETRY_S)

    async def _join(self) -> None:
        reply = await self.request(self._owner.hello())
        self.refusal = reply.reason if isinstance(reply, Failed) else ""
        welcome = expect(reply, Welcome)
        self._owner.welcome(welcome.counter)
        self.epoch, self.seq = welcome.epoch, welcome.seq
        if self._pulse_epoch != self.epoch:
            # Before the first Pulse news may be missed; later a gap in their numbers shows it.
            self._pulsed.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._pulsed.wait(), REQUEST_S)
        log.debug("on the bus of supervisor %d", self.epoch)

    async def _sync(self) -> None:
        self.syncs += 1
        reply = expect(await self._checked(Sync(self._owner.known())), SyncReply)
        self._owner.take(reply.newer)
        self.seq = max(self.seq, reply.seq)
        for first in range(0, len(reply.wanted), SYNC_ITEMS_MAX):
            items = self._owner.items(reply.wanted[first : first + SYNC_ITEMS_MAX])
            await self._checked(Change(items))
        self._report_applied()

    async def _checked(self, message: Message) -> Message:
        """Sends a request. When it fails, the supervisor does not know this shard (any more) or is
        away: the next attempt then begins with a Hello, a small message, so that little piles up
        in front of a supervisor that is stopped."""
        try:
            reply = await self.request(message)
            if isinstance(reply, Failed):
                raise BusError(reply.reason)
        except BusError:
            self.epoch = 0
            raise
        return reply

    async def _beat(self) -> None:
        while True:
            self._send(b"N", Beat(self._index))
            await asyncio.sleep(BEAT_S)

    # ---- what arrives

    def _on_news(self, frames: list[bytes]) -> None:
        if len(frames) != 2:
            return
        try:
            message = decode(frames[1])
        except BusError as error:
            log.warning("bus: news are dropped: %s", error)
            return
        if isinstance(message, Pulse):
            self._pulse_epoch = message.epoch
            self._pulsed.set()
        if isinstance(message, (News, Pulse)) and message.epoch != self.epoch:
            if self.joined:
                log.info("another supervisor: joining it")
                self.epoch = 0
                self._behind.set()
        elif isinstance(message, News):
            if message.seq == self.seq + 1:
                self.seq = message.seq
                self._owner.take(message.items)
                self._report_applied()
            elif message.seq > self.seq:
                self._behind.set()
        elif isinstance(message, Pulse) and message.seq > self.seq:
            self._behind.set()

    def _on_frames(self, frames: list[bytes]) -> None:
        if len(frames) != 2 or len(frames[0]) != 9:
            return
        head, body = frames
        try:
            message = decode(body)
        except BusError as error:
            log.warning("bus: a frame is dropped: %s", error)
            return
        if head[:1] == b"A":
            waiting = self._waiting.get(int.from_bytes(head[1:], "big"))
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif head[:1] == b"Q":
            self._tasks.start(self._serve(b"A" + head[1:], message))

    async def _serve(self, head: bytes, message: Message) -> None:
        try:
            answer = await self._owner.answer(message)
        except BusError as error:
            answer = Failed(str(error))
        except Exception as error:
            log.exception("bus: %s failed", type(message).__name__)
            answer = Failed(f"{type(error).__name__}: {error}")
        self._send(head, answer)

    # ---- sending

    def _report_applied(self) -> None:
        """Sends Applied once the name servers know of the news too; one notice for many news."""
        if self._applied_goal:
            self._applied_goal = self.seq
            return
        self._applied_goal = self.seq
        self._tasks.start(self._applied())

    async def _applied(self) -> None:
        reported = -1
        while reported < self._applied_goal:
            reported = self._applied_goal
            await self._owner.registered()
            self._send(b"N", Applied(reported))
        self._applied_goal = 0

    def _send(self, head: bytes, message: Message) -> bool:
        return self._dealer.send([head, encode(message)])
