"""Objects that are dropped while their threads run, in a cycle that the garbage collector breaks.

Each runs in a process of its own, which may hang or crash. A failed test drops such objects, too,
because its traceback keeps the test's variables.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import HANG_S

MAKE = {
    "flusher": "Flusher(log, interval_ms=1, least_pages=0)",
    "preparer": "Preparer(log)",
    "disk readers": "DiskReader(log, threads=2)",
    "committer": "Committer(pooled)",
    "indexer": "opened(Indexer(log, folder))",
    "timers": "opened_timers(TimerKeeper(log, folder, 100))",
    "consume queues": "QueueStore(folder, 100, 64)",
}
SCRIPT = """
import gc, sys
from cext.store.log.commit_log import CommitLog
from cext.store.log.committer import Committer
from cext.store.log.disk_reader import DiskReader
from cext.store.log.flusher import Flusher
from cext.store.index.indexer import Indexer
from cext.store.log.preparer import Preparer
from cext.store.queues.queue_store import QueueStore
from cext.store.timers.timer_keeper import TimerKeeper

folder = sys.argv[1]

def opened(indexer):
    indexer.open(True, 0)
    return indexer

def opened_timers(keeper):
    keeper.open(0, 0, 0)
    return keeper

def fails():
    log = CommitLog(folder + "/log", 1 << 20, 1 << 20, 1 << 16)
    log.load()
    log.set_end(0)
    pooled = CommitLog(folder + "/pooled", 1 << 20, 1 << 20, 1 << 16, pooled=True)
    pooled.load()
    pooled.set_end(0)
    thing = %s
    thing.start()
    del log, pooled
    try:
        raise ValueError
    except ValueError as error:
        kept = error        # its traceback has this frame, which has it

gc.disable()
for _ in range(5):
    fails()
    gc.collect()
print("collected")
"""


@pytest.mark.parametrize("made", MAKE.values(), ids=list(MAKE))
def test_it_ends_its_threads_first(made: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT % made, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("collected\n", 0), ended.stderr
