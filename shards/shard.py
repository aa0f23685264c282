"""Shard: one shard as its supervisor sees it: the process, its state, and the attempts so far.

    starting -> serving <-> silent          the process runs
    serving -> reopening -> serving         its log is cut or begins elsewhere, in the same process
    serving -> draining -> drained          it takes no sends; nothing unconsumed is left
    ended -> waiting -> starting            a pause, then another start
    ended too often -> given up             until `rmq broker restart`
    stopping                                on purpose

A run has failed when it ended before it served, or within STABLE_S after. Failed runs in a row are
followed by growing pauses (none after the first); rmqShardFailuresMax (10) of them end the
attempts. Runs that served for longer and then ended are crashes: each is followed by a start at
once, and rmqShardCrashesMax (15) of them within rmqShardCrashMinutes (10) end the attempts as well.
So a shard that is killed now and then is back at once. A shard that cannot start is given up after
about 20 seconds. A shard that dies of what it serves, say of one request that comes again and
again, is given up after ten minutes at the latest. `rmq broker shards` then shows the reason, and
the other shards serve on. A restart on request, by hand or by a new supervisor, resets the counts.

The process is watched through a pidfd, which works for processes of an earlier supervisor too. The
file <store>/bus/shard-1.pid says which process it is, as {"pid":..,"ticks":..,"digest":..}: ticks
is the start time that the kernel keeps, so that another process with the same pid is not taken for
it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

import msgspec

from rmq.base import clock
from rmq.system import affinity
from rmq.system.threads import REACTOR, Thread, named_thread
from shards.bus_files import BusDirectory
from shards.messages import ShardStatus
from shards.placement import Place
from shards.start_file import REFUSED, StartFile

STABLE_S = 1.0
PAUSES_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 5.0, 5.0)

STARTING, SERVING, SILENT, REOPENING = "starting", "serving", "silent", "reopening"
DRAINING, DRAINED = "draining", "drained"
WAITING, STOPPING, STOPPED, GIVEN_UP = "waiting", "stopping", "stopped", "given up"
RUNNING = frozenset({STARTING, SERVING, SILENT, REOPENING, DRAINING, DRAINED, STOPPING})


class PidFile(msgspec.Struct, frozen=True):
    pid: int
    ticks: int
    digest: str
    port: int = 0


class Shard(msgspec.Struct, eq=False):
    """Owned by the supervisor's loop."""

    place: Place
    values: dict[str, str]  # its settings
    digest: str
    state: str = STOPPED
    pid: int = 0
    pidfd: int = -1
    process: subprocess.Popen[bytes] | None = None  # None: started by an earlier supervisor
    address: str = ""
    reason: str = ""
    restarts: int = 0
    failures: int = 0  # failed runs in a row
    crashes: deque[float] = msgspec.field(default_factory=deque)  # times of crashes, monotonic
    started_at: float = 0.0  # monotonic
    serving_at: float | None = None
    reopening_at: float = 0.0  # since when, monotonic
    reactor: Thread | None = None  # as last seen while the shard was silent
    disk_at: float = -math.inf  # when the reactor was last seen waiting for a disk, monotonic
    drain: bool = False
    outdated: bool = False  # adopted, and started with other settings than the present ones
    refused: bool = False  # the last run ended because its settings cannot be used
    wanted: bool = True  # False: it will not be started again when it ends

    @property
    def index(self) -> int:
        return self.place.index

    @property
    def runs(self) -> bool:
        return self.pidfd >= 0

    def start(self, directory: BusDirectory, token: str) -> None:
        """Starts a new process. OSError when the system has no room for one."""
        index = self.index
        place = self.place
        start = StartFile(
            self.values, token, self.digest, list(place.cpus), list(place.node_cpus), place.node
        )
        directory.write(f"shard-{index}.json", msgspec.json.encode(start).decode())
        directory.remove(f"shard-{index}.why")
        root = str(directory.path.parent)
        command = [sys.executable, "-m", "shards.shard_process", root, str(index), self.place.name]
        with affinity.children_on(place.cpus):
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, start_new_session=True, env=_environment()
            )
        self._watch(self.process.pid)
        self.state = STARTING
        ticks = start_ticks(self.pid) or 0
        port = int(self.values["listenPort"])
        self._note(directory, PidFile(self.pid, ticks, self.digest, port))

    def adopt(self, directory: BusDirectory) -> bool:
        """Takes over the process that an earlier supervisor started, if it still runs."""
        text = directory.read(f"shard-{self.index}.pid")
        try:
            found = msgspec.json.decode((text or "").encode(), type=PidFile)
        except msgspec.DecodeError:
            return False
        if found.pid <= 0 or start_ticks(found.pid) != found.ticks:
            return False
        try:
            self._watch(found.pid)
        except ProcessLookupError:
            return False
        if start_ticks(found.pid) != found.ticks:  # it ended between the two looks
            self.unwatch()
            return False
        self.process, self.state = None, STARTING
        if self.values["listenPort"] == "0" and found.port:
            self.values["listenPort"] = str(found.port)
        self.outdated = found.digest != self.digest
        self.reason = "its settings have changed" if self.outdated else "adopted"
        return True

    def keeps_port(self, directory: BusDirectory, port: int) -> None:
        """Keeps the first port that the shard got when it was configured with port 0."""
        if self.values["listenPort"] == "0" and port:
            self.values["listenPort"] = str(port)
            ticks = start_ticks(self.pid) or 0
            self._note(directory, PidFile(self.pid, ticks, self.digest, port))

    def _note(self, directory: BusDirectory, content: PidFile) -> None:
        directory.write(f"shard-{self.index}.pid", msgspec.json.encode(content).decode())

    def _watch(self, pid: int) -> None:
        self.pidfd = os.pidfd_open(pid)
        self.pid = pid
        self.started_at, self.serving_at = clock.monotonic(), None
        self.reactor, self.disk_at = None, -math.inf

    def unwatch(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pid, self.pidfd = 0, -1

    def signal(self, number: int) -> None:
        """Signals the process through the pidfd, which cannot reach another process."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def ended(self, directory: BusDirectory) -> str:
        """Reaps the process, which has ended, and counts that; returns why it ended, in words."""
        code = self.process.wait() if self.process is not None else None
        why = directory.read(f"shard-{self.index}.why")
        if code is None:
            reason = "its process ended"
        elif code < 0:
            reason = f"killed by signal {-code} ({signal.Signals(-code).name})"
        elif why:
            reason = why
        else:
            reason = f"ended with code {code}"
        stable = self.serving_at is not None and clock.monotonic() - self.serving_at >= STABLE_S
        self.failures = 0 if stable else self.failures + 1
        self.unwatch()
        self.process = None
        self.refused = code == REFUSED
        return reason

    def waits_for_disk(self) -> bool:
        """Looks at the reactor thread: whether it has waited for a disk ever since the last look. A
        reactor that serves may be seen in a disk call too, but has used processor time between two
        looks."""
        before, self.reactor = self.reactor, named_thread(self.pid, REACTOR)
        now = self.reactor
        if now is None or before is None or now.has_run_since(before):
            return False
        if not (before.waits_for_disk and now.waits_for_disk):
            return False
        self.disk_at = clock.monotonic()
        return True

    def crashed(self, window_s: float) -> int:
        """Notes a crash; returns how many there were within the window."""
        now = clock.monotonic()
        self.crashes.append(now)
        while now - self.crashes[0] > window_s:
            self.crashes.popleft()
        return len(self.crashes)

    def pause_s(self) -> float:
        """Seconds to wait before the next start, which depend on the failed runs so far."""
        return PAUSES_S[min(max(self.failures - 1, 0), len(PAUSES_S) - 1)]

    def status(self) -> ShardStatus:
        now = clock.monotonic()
        up = now - self.serving_at if self.serving_at is not None else 0.0
        reason = self.reason
        if self.state == REOPENING:
            reason += f" for {int(now - self.reopening_at)} s"
        return ShardStatus(
            self.index, self.place.name, self.state, self.pid, self.address,
            str(self.place.store), list(self.place.cpus), self.place.node, self.restarts,
            round(up if self.runs else 0.0, 3), reason,
        )  # fmt: skip


def start_ticks(pid: int) -> int | None:
    """The kernel's start time of the process; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _environment() -> dict[str, str]:
    """This process's environment, so that the child finds the same modules anywhere."""
    here = str(Path(__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if here not in paths:
        paths.insert(0, here)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
