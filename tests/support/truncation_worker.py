"""A slave in a process of its own that cuts its log: to be killed at each step of it.

    echo '["STORE", 4711, {"maxIndexNum": 200}]' | python -m support.truncation_worker

Each line of its input is a job, which a fork of this process does: all has been imported by then,
and nothing else. A job says "begins" before, "done" when the log is cut and the broker serves
again, then stops cleanly; with the offset -1 it cuts nothing and says where the log ends. A line
follows each job: what it said and its exit code (negative: the signal that killed it).
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
    """What the job said, and its exit code."""
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
