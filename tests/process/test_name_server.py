"""Goal: a name server in its own process starts small, stops on SIGTERM, and loses no value.

Method: `rmq namesrv`; signals by process id. Cannot prove: its start time, as the machine may be
busy; the bounds here only catch an import of too much.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.calm_clock import calm_seconds
from support.name_server import Client
from support.sanitized import SANITIZED, SLOWNESS
from support.waiting import HANG_S, until_is

from rmq.demo.ports import free_port

PORT = free_port()
MEMORY_KIB_MAX = 48 * 1024
if SANITIZED:
    MEMORY_KIB_MAX *= 4  # the sanitizer's shadow memory


def start(tmp_path: Path) -> "subprocess.Popen[bytes]":
    kept = ["--set", f"kvConfigPath={tmp_path / 'kv.json'}",
            "--set", f"configStorePath={tmp_path / 'c.properties'}"]  # fmt: skip
    return subprocess.Popen([sys.executable, "-m", "rmq", "namesrv", "--port", str(PORT), *kept])


async def ask(code: int, **fields: object) -> dict[str, str]:
    async def answer() -> dict[str, str] | None:
        try:
            async with Client(PORT) as client:
                return (await client.call(code, **fields)).fields
        except (ConnectionError, asyncio.IncompleteReadError):
            return None

    return await until_is(answer, lambda found: found is not None)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_values_answered_for_survive_the_process(tmp_path: Path, end: signal.Signals) -> None:
    process = start(tmp_path)
    try:
        asyncio.run(ask(100, namespace="N", key="k", value=end.name))
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident_kib = int(status.split("VmRSS:")[1].split()[0])
        assert resident_kib < MEMORY_KIB_MAX
        begun = calm_seconds()
        os.kill(process.pid, end)
        assert process.wait(HANG_S) == (0 if end != signal.SIGKILL else -end)
        assert calm_seconds() - begun < 15 * SLOWNESS
        process = start(tmp_path)
        assert asyncio.run(ask(101, namespace="N", key="k")) == {"value": end.name}
    finally:
        process.kill()
        process.wait(HANG_S)


def test_importing_the_name_server_pulls_in_no_more_than_it_needs() -> None:
    code = "import sys, rmq.namesrv.server; print(*sorted(sys.modules))"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    loaded = set(listed.stdout.split())
    assert not loaded & {"click", "zmq", "rich", "numpy", "pyspark", "hypothesis"}
    assert not any(name.startswith("cext") for name in loaded)
