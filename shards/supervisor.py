"""Supervisor: starts the shards of a broker, watches, restarts and stops them.

    supervisor = Supervisor(settings, places)
    await supervisor.start()         returns when each shard serves or is given up; ConfigError with
                                     the reason when a shard refuses its settings, RmqError when
                                     none serves
    await supervisor.none_left()     RmqError when all shards are given up, whenever that happens
    await supervisor.stop()          all shards are stopped, at most STOP_S later

The end of a shard's process is seen at once (pidfd) and answered with a new start, after a pause
when the shard keeps failing (shard.py). A shard that is silent on the bus for SILENT_S is shown as
silent. After rmqShardSilentSeconds (30) of silence it is taken for hung and killed: a process that
is stopped, or swaps without end, does not recover by itself, and a new one helps. It is not killed
while its reactor waits for a disk, because a kill would not end that wait. Nor is it killed within
rmqShardSilentSeconds after such a wait: the shard stays silent until it has done what has piled up,
and a slow disk lets its reactor run for a moment between two calls. A shard that opens its log
anew, because the log is cut, has announced it: it is waited for as at a start, for REOPEN_S at
most.

When the supervisor itself dies the shards serve on, and the next supervisor on the same store
adopts them: it finds their processes by the pid files, takes over the token they know, and they say
Hello when they receive its first Pulse. The shards do not stop with their supervisor, because it
holds nothing a client needs: if they did, its bugs would become outages of the service. A shard
whose settings are not those of the new start is stopped and started anew.

No user message passes here except replies to a producer of another shard, and no change waits here
for longer than 0.1 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import signal
from pathlib import Path

import msgspec

from rmq import __version__
from rmq.base import clock
from rmq.base.background_tasks import BackgroundTasks
from rmq.base.deadline import within
from rmq.config import Settings
from rmq.errors import ConfigError, RmqError, StoreLockedError
from rmq.node.store_lock import StoreLock
from rmq.serving.certificate_watch import TICKETS_S
from shards import shard as states
from shards.bus_files import BusDirectory
from shards.bus_router import SILENT_S, BusRouter
from shards.commands import answer
from shards.initial_tables import copy_tables, has_tables
from shards.messages import (
    BusError,
    Done,
    Hello,
    Message,
    Permission,
    TicketSecret,
    Unconsumed,
    UnconsumedReply,
    expect,
)
from shards.placement import Place, shard_values
from shards.shard import Shard
from shards.shards_file import ShardsFile, ShardsState

log = logging.getLogger("rmq.supervisor")

WATCH_S = 0.5
STALL_S = 1.0  # when a sleep takes this much longer, this process was stopped or starved
DRAINED_CHECK_S = 5.0
TICKET_SECRET_BYTES = 32
STOP_S = 30.0
REOPEN_S = 600.0  # reading files and syncing takes seconds, with a slow disk minutes
READ_ONLY, READ_WRITE = 4, 6


class Supervisor:
    """Owned by one asyncio loop."""

    def __init__(self, settings: Settings, places: list[Place]) -> None:
        self.settings = settings
        self.store = Path(settings.storePathRootDir)
        self.started_ms = clock.now_ms()
        self.version = __version__
        self._file = ShardsFile(self.store)
        self._lock = _take_lock(self.store)
        self._directory = BusDirectory(self.store, make=True)
        before = self._file.load()
        self._present = before.shards  # shards from this index on are new, or come back
        self.shards: dict[int, Shard] = {}
        for place in places:
            shard = Shard(place, shard_values(settings, place), "")
            shard.digest = _digest(shard)
            shard.drain = place.index in before.drained
            self.shards[place.index] = shard
        adopted = [shard for shard in self.shards.values() if shard.adopt(self._directory)]
        self._refuse_strangers()
        self._token = self._directory.token() if adopted else self._directory.new_token()
        self.router = BusRouter(
            self._directory, self._token, self._on_hello, self._on_ready,
            lambda message: answer(self, message),
        )  # fmt: skip
        self._tickets = secrets.token_bytes(TICKET_SECRET_BYTES)
        self._tickets_at = clock.monotonic()
        self._tasks = BackgroundTasks()
        self._news = asyncio.Event()  # set and replaced when a shard changes its state
        self._started = self._stopping = False

    # ---- start and stop

    async def start(self) -> None:
        self.save()
        self.router.start()
        for shard in self.shards.values():
            if shard.runs:
                log.info("shard %d: process %d of an earlier supervisor goes on", shard.index,
                         shard.pid)  # fmt: skip
                self._listen(shard)
                if shard.outdated:
                    shard.signal(signal.SIGTERM)
            else:
                if shard.index >= self._present or not has_tables(shard.place.store):
                    copy_tables(self.store, self.settings.brokerName, shard.place.store)
                self._start(shard)
        self._tasks.start(self._watch())
        while True:
            shards = self.shards.values()
            for shard in shards:
                if shard.state == states.GIVEN_UP and shard.refused:
                    raise ConfigError(f"shard {shard.place.name}: {shard.reason}")
            self._refuse_none()
            if not any(shard.state in (states.STARTING, states.WAITING) for shard in shards):
                self._started = True
                return
            await self.changed()

    async def none_left(self) -> None:
        while True:
            self._refuse_none()
            await self.changed()

    def _refuse_none(self) -> None:
        shards = [shard for _, shard in sorted(self.shards.items())]
        if shards and all(shard.state == states.GIVEN_UP for shard in shards):
            reasons = "; ".join(f"{shard.place.name}: {shard.reason}" for shard in shards)
            raise RmqError(f"no shard of {self.settings.brokerName} is left: {reasons}")

    async def stop(self) -> None:
        """Stops all shards at the same time; those that do not end are killed."""
        self._stopping = True
        for shard in self.shards.values():
            shard.wanted = False
            shard.signal(signal.SIGTERM)
            if shard.runs:
                shard.state = states.STOPPING
        end = clock.monotonic() + STOP_S
        while (running := [s for s in self.shards.values() if s.runs]) and clock.monotonic() < end:
            await self.changed(end - clock.monotonic())
        for shard in running:
            log.error("shard %s does not stop and is killed", shard.place.name)
            shard.signal(signal.SIGKILL)
        await self.router.stop()
        await self._tasks.stop()
        for shard in self.shards.values():
            self._directory.remove(f"shard-{shard.index}.pid")
        self._directory.close()
        self._lock.release()

    def save(self) -> None:
        """Saves how many shards may have messages, and which of them take no sends."""
        drained = tuple(shard.index for shard in self.shards.values() if shard.drain)
        self._file.save(ShardsState(self._present, drained))

    def _count(self, index: int) -> str:
        """Notes on the disk that the shard exists, before it serves: from then on it may have
        messages, and no start may leave it out. Returns why this could not be noted, so that the
        shard must not serve; empty: it is noted."""
        if index < self._present:
            return ""
        before, self._present = self._present, index + 1
        try:
            self.save()
        except (OSError, RmqError) as error:
            self._present = before
            why = f"it cannot be noted that there are {index + 1} shards: {error}"
            log.error("shard %d does not serve: %s", index, why)
            return why
        return ""

    async def changed(self, timeout_s: float = 3600.0) -> None:
        """Waits until any shard changes its state."""
        news = self._news
        with contextlib.suppress(asyncio.TimeoutError):
            await within(news.wait(), timeout_s)

    # ---- one shard

    def _start(self, shard: Shard) -> None:
        try:
            shard.start(self._directory, self._token)
        except OSError as error:
            shard.failures += 1
            self._retry_or_give_up(shard, f"cannot be started: {error.strerror or error}")
            return
        log.info("shard %d (%s): process %d", shard.index, shard.place.name, shard.pid)
        self._listen(shard)
        self._progressed()

    def _listen(self, shard: Shard) -> None:
        asyncio.get_running_loop().add_reader(shard.pidfd, self._on_end, shard)

    def _on_end(self, shard: Shard) -> None:
        asyncio.get_running_loop().remove_reader(shard.pidfd)
        pid = shard.pid
        reason = shard.ended(self._directory)
        self.router.forget(shard.index)
        if not shard.wanted:
            shard.state, shard.reason = states.STOPPED, ""
            log.info("shard %d: process %d has stopped", shard.index, pid)
        elif shard.state == states.STOPPING or shard.outdated:
            shard.outdated, shard.failures = False, 0
            shard.reason = "restarted on request"
            self._start(shard)
        else:
            log.error("shard %d: process %d: %s", shard.index, pid, reason)
            self._retry_or_give_up(shard, reason)
        self._progressed()

    def _retry_or_give_up(self, shard: Shard, reason: str) -> None:
        """After a failed run or a crash, starts the shard anew after a pause, or gives it up."""
        shard.reason = reason
        if not self._started and shard.refused:
            shard.state = states.GIVEN_UP  # the start fails now, not after ten attempts
            return
        settings = self.settings
        if shard.failures >= settings.rmqShardFailuresMax:
            self._give_up(shard, f"{shard.failures} failed starts in a row; last: {reason}")
            return
        minutes = settings.rmqShardCrashMinutes
        if not shard.failures and shard.crashed(60.0 * minutes) >= settings.rmqShardCrashesMax:
            crashes = len(shard.crashes)
            self._give_up(shard, f"{crashes} crashes within {minutes} minutes; last: {reason}")
            return
        shard.state = states.WAITING
        shard.restarts += 1
        asyncio.get_running_loop().call_later(shard.pause_s(), self._again, shard)

    def _give_up(self, shard: Shard, why: str) -> None:
        shard.state = states.GIVEN_UP
        shard.reason = f"given up after {why}"
        log.error("shard %d: %s", shard.index, shard.reason)
        self._progressed()

    def _again(self, shard: Shard) -> None:
        if shard.state == states.WAITING and shard.wanted and not self._stopping:
            self._start(shard)

    def restart(self, shard: Shard) -> None:
        """Stops the shard cleanly, if its process still runs, and starts it anew."""
        shard.failures = 0
        shard.crashes.clear()
        if shard.runs:
            shard.state = states.STOPPING
            shard.signal(signal.SIGTERM)
        else:
            self._start(shard)

    async def remove(self, shard: Shard) -> None:
        """Stops the shard for good; its store stays where it is."""
        shard.wanted = False
        shard.signal(signal.SIGTERM)
        end = clock.monotonic() + STOP_S
        while shard.runs:
            if clock.monotonic() > end:
                shard.signal(signal.SIGKILL)
            await self.changed(1.0)
        del self.shards[shard.index]
        self._present = min(self._present, len(self.shards))
        self._directory.remove(f"shard-{shard.index}.pid")
        self.save()

    # ---- what the bus says

    def _on_hello(self, hello: Hello) -> str:
        shard = self.shards.get(hello.index)
        if shard is None or not shard.runs:
            return f"there is no shard {hello.index} here"
        if shard.pid != hello.pid:
            return f"shard {hello.index} is process {shard.pid}, not {hello.pid}"
        why = self._count(hello.index)  # its port is bound, its store open; no client knows it yet
        if why:
            return why
        shard.address = f"{self.settings.brokerIP1}:{hello.port}"
        shard.keeps_port(self._directory, hello.port)
        if shard.drain:
            self._tasks.start(self._tell(shard, Permission(READ_ONLY), "its permission is not set"))
        self._share_tickets(shard)
        return ""

    def _on_ready(self, index: int, serving: bool) -> None:
        shard = self.shards.get(index)
        if shard is None or not shard.runs or shard.state == states.STOPPING:
            return
        if not serving:
            shard.state, shard.reason = states.REOPENING, "its log is opened anew"
            shard.reopening_at = clock.monotonic()
            log.info("shard %d (%s) opens its log anew", index, shard.place.name)
            self._progressed()
        elif shard.state in (states.STARTING, states.REOPENING):
            if shard.state == states.REOPENING:
                shard.reason = ""
            shard.state = states.DRAINING if shard.drain else states.SERVING
            shard.serving_at = shard.serving_at or clock.monotonic()
            log.info("shard %d (%s) serves at %s", index, shard.place.name, shard.address)
            self._progressed()

    def _share_tickets(self, shard: Shard) -> None:
        """Tells the shard the secret of TLS tickets, if there is a certificate that all shards
        show. The secret is on no disk: without a supervisor the shards keep theirs, and the next
        supervisor gives them another one."""
        if getattr(self.settings, "tls.server.certPath"):
            secret = TicketSecret(self._tickets)
            self._tasks.start(self._tell(shard, secret, "its TLS sessions go on at no other shard"))

    def _renew_tickets(self) -> None:
        if clock.monotonic() - self._tickets_at < TICKETS_S:
            return
        self._tickets_at = clock.monotonic()
        self._tickets = secrets.token_bytes(TICKET_SECRET_BYTES)
        for shard in self.shards.values():
            if self.router.joined(shard.index) is not None:
                self._share_tickets(shard)

    async def _tell(self, shard: Shard, message: Message, otherwise: str) -> None:
        try:
            expect(await self.router.ask(shard.index, message, 5.0), Done)
        except BusError as error:
            log.warning("shard %d: %s: %s", shard.index, otherwise, error)

    async def drain(self, shard: Shard, on: bool, refuse: bool = False) -> None:
        """Takes the shard's permission to write, or gives it back; this holds over restarts. It is
        taken after that is noted on the disk, and given back before: so a full disk cannot keep a
        shard from taking sends."""
        if shard.state == states.REOPENING:
            raise BusError(f"shard {shard.index} opens its log anew: try again when it serves")
        was_on, shard.drain = shard.drain, on
        try:
            if on and not was_on:
                self.save()
        except (OSError, RmqError):
            shard.drain = False
            raise
        if shard.serving_at is not None and shard.state != states.STOPPING:
            shard.state = states.DRAINING if on else states.SERVING
        self._progressed()
        value = READ_ONLY if on else READ_WRITE
        try:
            if self.router.joined(shard.index) is not None:  # else _on_hello() does it
                expect(await self.router.ask(shard.index, Permission(value, refuse), 5.0), Done)
        finally:
            if was_on and not on:
                self.save()

    async def unconsumed(self, shard: Shard) -> dict[str, int]:
        reply = await self.router.ask(shard.index, Unconsumed(), 30.0)
        return expect(reply, UnconsumedReply).messages

    # ---- at intervals

    async def _watch(self) -> None:
        drained_check_at = 0.0
        while True:
            slept_at = clock.monotonic()
            await asyncio.sleep(WATCH_S)
            if clock.monotonic() - slept_at > WATCH_S + STALL_S:
                log.warning("the supervisor itself stood still for a while")
                self.router.forgive()
            for shard in list(self.shards.values()):
                self._check_silence(shard)
            self._renew_tickets()
            if clock.monotonic() >= drained_check_at:
                await self._check_drained()
                drained_check_at = clock.monotonic() + DRAINED_CHECK_S

    def _check_silence(self, shard: Shard) -> None:
        silent_s = self.router.silent_s(shard.index)
        if not shard.runs or silent_s is None or shard.serving_at is None:
            return
        now, limit_s = clock.monotonic(), self.settings.rmqShardSilentSeconds
        if silent_s >= SILENT_S:
            self._look_at_reactor(shard, now - silent_s)
        if shard.state == states.REOPENING and now - shard.reopening_at < REOPEN_S:
            return
        if silent_s >= limit_s and now - shard.disk_at >= limit_s:
            log.error("shard %d has said nothing for %.0f s and is killed", shard.index, silent_s)
            shard.signal(signal.SIGKILL)
        elif silent_s >= SILENT_S and shard.state not in (states.SILENT, states.STOPPING):
            shard.state = states.SILENT
            shard.reason = "says nothing on the bus"
            log.warning("shard %d says nothing on the bus", shard.index)
        elif silent_s < SILENT_S and shard.state == states.SILENT:
            shard.state = states.DRAINING if shard.drain else states.SERVING
            log.warning("shard %d is heard again", shard.index)

    def _look_at_reactor(self, shard: Shard, heard_at: float) -> None:
        """Notes that the reactor waits for a disk. A kill would take effect only when the disk
        answers, which is when the shard goes on by itself."""
        is_known = shard.disk_at > heard_at
        if shard.waits_for_disk() and shard.state == states.SILENT:
            shard.reason = f"says nothing on the bus: its reactor {shard.reactor}"
            if not is_known:
                log.warning("shard %d %s; it is left alone", shard.index, shard.reason)

    async def _check_drained(self) -> None:
        for shard in list(self.shards.values()):
            if shard.state in (states.DRAINING, states.DRAINED):
                with contextlib.suppress(BusError):
                    left = await self.unconsumed(shard)
                    if shard.state not in (states.DRAINING, states.DRAINED):
                        continue  # for example it was stopped meanwhile
                    shard.state = states.DRAINING if left else states.DRAINED
                    shard.reason = f"{sum(left.values())} messages are unconsumed" if left else ""

    def _refuse_strangers(self) -> None:
        """Ends the start when another process serves a shard's store; the error names it."""
        try:
            for shard in self.shards.values():
                if not shard.runs and shard.place.store.is_dir():
                    StoreLock(shard.place.store).release()
        except StoreLockedError:
            for shard in self.shards.values():
                shard.unwatch()
            self._directory.close()
            self._lock.release()
            raise

    def _progressed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _take_lock(store: Path) -> StoreLock:
    """The supervisor's lock, in STORE/bus; shard 0 holds the store's own."""
    directory = store / "bus"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return StoreLock(directory)
    except StoreLockedError as error:
        raise StoreLockedError(str(error).replace(str(directory), str(store), 1)) from None


def _digest(shard: Shard) -> str:
    place = shard.place
    content = [sorted(shard.values.items()), place.cpus, place.node_cpus, place.node, __version__]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:32]
