"""Truncation worker: a slave in a process of its own that cuts its log, for kills at each step.

    echo '["STORE", 4711, {"maxIndexNum": 200}]' | python -m support.truncation_worker

Each line of its input is a job for a fork of this process, which has imported all modules and done
nothing else. The job prints "begins", cuts the log, prints "done" when the broker serves again, and
stops cleanly. With the offset -1 it cuts nothing and prints where the log ends. After each job a
line follows with what the job has printed and its exit code (negative: the signal that killed it).
"""

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from support.fed_slaves import fed_slave


async def work(said: int, store: Path, offset: int, settings: dict[str, Any]) -> None:
    one = await fed_slave(store, **settings)
    if offset < 0:
        os.write(said, b"%d" % one.core.log_range()[1])
    else:
        os.write(said, b"begins\n")
        await one.truncate(offset)
        os.write(said, b"done\n")
    await one.stop()


def in_a_fork(store: str, offset: int, settings: dict[str, Any]) -> tuple[str, int]:
    """Runs a job in a fork; returns what it has printed, and its exit code."""
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(work(there, Path(store), offset, settings))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(there)
    with open(here) as pipe:
        said = pipe.read()
    return said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(in_a_fork(*json.loads(line))) + "\n")
        sys.stdout.flush()
