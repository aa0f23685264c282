"""Slave: a slave of the old master, a child process on the store of the future new master.

    slave = Slave("10.0.0.5:10911", Path("store"), ["--set", "brokerId=2"])
    slave.start()
    slave.log_range(), slave.sample()           how far its copy is, and what hinders it
    slave.stop()                                ends it; the store is closed then

It ends with this process. When it is started again, it goes on where it was.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rmq.base.durable_directory import make_directory
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.errors import ProtocolError, RmqError
from rmq.format import fastjson
from rmq.observe.sample import Sample, decode
from rmq.system.child import Child
from rmq.takeover.old_master import log_range

# How long messages are kept: everything that the old master's consumers can still read is copied.
KEEPS = ("fileReservedTime", "deleteWhen")
NAME = "takeover"
START_S = 600.0  # long, because a log that was not closed must be read
STOP_S = 120.0
TABLES_MS = 1000  # between two copies of an Apache master's tables
ADDRESS = re.compile(rb"broker \S+ at (\S+), store")


def keeping(theirs: Mapping[str, str]) -> list[str]:
    """Options with which a slave keeps the same messages as a master with these settings, however
    full its disk is. They come after the operator's options for the new master."""
    kept = [f"--set={key}={theirs[key]}" for key in KEEPS if theirs.get(key)]
    return [*kept, "--set=cleanFileForciblyEnable=false"]


class Slave:
    """Used by the main thread."""

    def __init__(self, master: str, store: Path, options: Sequence[str]) -> None:
        make_directory(store)
        command = [
            sys.executable, "-m", "rmq", "broker", "--replica-of", master, "--store", str(store),
            "--port", "0", "--set", f"syncControllerMetadataPeriod={TABLES_MS}", *options,
        ]  # fmt: skip
        self.address = ""
        self._child = Child(NAME, command, store)

    @property
    def log_path(self) -> Path:
        return self._child.log_path

    def start(self) -> None:
        """Starts the process. RmqError: it did not start."""
        self._child.start()
        self._child.wait_ready(START_S)
        found = ADDRESS.findall(self.log_path.read_bytes())
        if not found:
            raise RmqError(f"the slave does not say where it is: see {self.log_path}")
        self.address = found[-1].decode()

    def check(self) -> None:
        """RmqError if the process has ended."""
        if self._child.pid is None:
            raise RmqError(f"the slave has ended: {self._child.last_line()} (see {self.log_path})")

    def log_range(self) -> tuple[int, int]:
        return log_range(self.address)

    def sample(self) -> Sample:
        with Connection(self.address) as connection:
            body = connection.call(RequestCode.GET_BROKER_RUNTIME_INFO, {"rmqDetail": "brief"}).body
        table = fastjson.loads_object(body).get("table")
        text = table.get("rmqSample") if isinstance(table, dict) else None
        if not isinstance(text, str):
            raise ProtocolError(f"{self.address}: no sample in its runtime info")
        return decode(text)

    def problem(self) -> str:
        """What keeps it from having a complete copy; empty: nothing does."""
        return self.sample().replication_problem

    def stop(self) -> None:
        self._child.stop(STOP_S)
