"""Console process: `rmq console` in a process of its own, and a browser without a screen.

    with console_process(tmp_path, broker.namesrv) as console:
        console.browser.get("/")
        console.process.pid, console.log()

environment: variables of the command, for example RMQ_ACCESS_KEY for its account.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.console import Browser
from support.rmq_process import AnyProcess, start_rmq
from support.waiting import HANG_S

READY = re.compile(r"console is ready: (https?://\S+),")


@dataclass
class ConsoleProcess:
    process: AnyProcess
    base: str
    ready_line: str
    browser: Browser
    log_path: Path

    def log(self) -> str:
        return self.log_path.read_text()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(HANG_S)

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def console_process(
    folder: Path, namesrv: str, *options: str, environment: Mapping[str, str] | None = None,
    is_fork: bool = True, **browser: Any,
) -> Iterator[ConsoleProcess]:  # fmt: skip
    """Starts a console on a free port, unless an option names another. browser: options of its
    httpx.Client. The memory that a fork shares counts as its own, too."""
    folder.mkdir(exist_ok=True)
    log_path = folder / "console.txt"
    listen = () if "--listen" in options else ("--listen", "127.0.0.1:0")
    words = ["console", "-n", namesrv, *listen, *options]
    given = {**os.environ, **(environment or {})}
    with log_path.open("a") as log:
        process = start_rmq(words, stderr=log, environment=given, is_fork=is_fork)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = READY.search(line)
        assert found is not None, f"not ready: {line!r}\n{log_path.read_text()}"
        client = Browser(found[1], **browser)
        try:
            yield ConsoleProcess(process, found[1], line, client, log_path)
        finally:
            client.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
