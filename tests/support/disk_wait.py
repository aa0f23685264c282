"""Disk wait: a process whose thread `name` waits as if for a disk (state D), without a disk.

    with disk_wait(tmp_path, "rmq-reactor") as pid: ...

The process starts a child as vfork(2) does, and waits until the child has opened a FIFO to which
nobody writes. Only SIGKILL ends such a wait, and the state is that of a thread in a disk call.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.waiting import wait_until

from rmq.system.threads import named_thread

SCRIPT = """
import os, sys
open("/proc/self/comm", "w").write(sys.argv[2])
os.posix_spawn("/bin/true", ["true"], {},
               file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
"""


@contextmanager
def disk_wait(directory: Path, name: str) -> Iterator[int]:
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(fifo), name])
    try:
        wait_until(lambda: (t := named_thread(process.pid, name)) and t.waits_for_disk)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))  # so that the child can open it and end
