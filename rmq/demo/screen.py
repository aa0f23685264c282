"""Screen: what the demo shows: a table that stays in place on a terminal, else plain lines.

    with Screen(every_s=5) as screen:
        screen.tell("broker 1 (master of epoch 3) died; ..")    stays
        screen.show(found, pids, "498/s sent, 498/s received")  the latest counts

Example of a plain line: "   12.0 s  broker 2 is back, and in sync 1.4 s after its start".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rmq.client.blocking.replicas import Replica, ReplicaSet


class Screen:
    """Used by the main thread."""

    def __init__(self, every_s: float) -> None:
        """every_s: between two plain lines of rates."""
        self._every_s = every_s
        self._began_s = time.monotonic()
        self._shown_s = self._began_s
        self._live: Any = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._live is not None:
            self._live.stop()

    def go_live(self) -> None:
        """Shows a table from now on, if this is a terminal and rich is installed."""
        if not sys.stdout.isatty():
            return
        try:
            from rich.live import Live
        except ImportError:
            return
        self._live = Live(auto_refresh=False, redirect_stderr=False)
        self._live.start()

    def tell(self, text: str) -> None:
        line = f"{time.monotonic() - self._began_s:7.1f} s  {text}"
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, flush=True)

    def show(self, found: ReplicaSet | None, pids: Mapping[int, int | None], rates: str) -> None:
        if self._live is not None:
            self._live.update(_drawn(found, pids, rates), refresh=True)
            return
        now_s = time.monotonic()
        if now_s - self._shown_s >= self._every_s:
            self._shown_s = now_s
            self.tell(rates)


def _drawn(found: ReplicaSet | None, pids: Mapping[int, int | None], rates: str) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for name in ("BROKER", "PID", "ROLE", "EPOCH", "IN SYNC", "LOG END", "LAG"):
        table.add_column(name, justify="left" if name in ("BROKER", "ROLE") else "right")
    for number, pid in pids.items():
        each = found.replica(number) if found is not None else None
        style = "bold red" if pid is None else "bold" if each and each.role == "master" else None
        table.add_row(f"broker {number}", str(pid or "dead"), *_cells(each), style=style)
    return Group(table, Text(rates))


def _cells(each: Replica | None) -> list[str]:
    if each is None:
        return ["-"] * 5
    values = (each.role, each.epoch, each.in_sync, each.log_end, each.lag_bytes)
    words = {True: "yes", False: "no", None: "-"}
    return [words[v] if v is None or isinstance(v, bool) else str(v) for v in values]
