"""Goal: a broken invariant ends the process and says which one, with its values.

Method: each kind is planted in a child process: a mark that moves back, a state that cannot follow,
an index of a ring, a sum, an order, the ends of a list, a thread. And the compiled modules are
searched: checks for debug builds are in those and in no others. Not shown here: that every
invariant is checked.
"""

import importlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.waiting import HANG_S

from cext._build import PROFILE

IS_DEBUG = PROFILE in ("debug", "asan")

TLS_IS_HERE = "TLS: the reactor uses what the handshake thread does not have"
CASES = [
    ("watermark", "a mark never moves back (12, 9)"),
    ("state", "to 2 from 0 alone (1, 2)"),
    ("thread", "its thread alone ("),
    # memory
    ("arena", "an arena: no more is taken than it has (5000, 4096)"),
    ("chain", "a chain: an entry that leaves is in it (0, 0)"),
    ("chain_end", "a chain: its last entry has none behind it (0, 0)"),
    ("list_ends", "a list: it has both ends or none (0, 1)"),
    ("pool_sum", "a buffer pool: what is free and what is in use are all (1, 0)"),
    ("release", "a buffer pool: no more buffers come back than were taken (0, 64)"),
    ("ring", "a ring of 8 (8, 8)"),
    ("ring_head", "a ring: no more is popped than was pushed (8, 20)"),
    ("ring_tail", "a ring: no more waits than it has slots (9, 0)"),
    # the log, and what threads share in it
    ("committable", "the store pool: `committable` never moves back (500, 400)"),
    ("log_committed", "the store pool: what is committed was offered (10, 0)"),
    ("log_drop_order", "the log: files are handed over in their order (1000, 1000)"),
    ("log_order", "the log: files are handed over in their order (1000, 3000)"),
    ("log_ring", "the log: no more files wait than were handed over (-3, 64)"),
    ("log_roll", "the log: its end lies in the active file, before its last 8 bytes "
                 "(1048569, 1048576)"),
    ("log_room", "the log: the room asked for never shrinks (500, 400)"),
    ("log_room_end", "the log: a file's room ends where it does (1048577, 1048576)"),
    ("log_segment", "the log: the segment asked for is the next one (2000, 1000)"),
    ("log_segment_start", "the log: a file begins where a segment does (2500, 1000)"),
    ("log_written", "the log: what is written was appended (97, 96)"),
    # queues, key index, disk readers, timers
    ("chunk_sum", "queue chunks: no more are free than were ever lent (2, 1)"),
    ("indexed", "the key index: `indexed` never moves back (5000, 0)"),
    ("queue_jobs", "a queue: no more jobs end than were begun (0, 1)"),
    ("queue_persisted", "a queue: what is in its files was handed to the writer (50, 40)"),
    ("queue_place", "the queue writer: a queue has its place among those with file ends (2, 0)"),
    ("queue_sync_back", "the queue writer: `sync_done` never moves back (5, 0)"),
    ("queue_synced", "the queue writer: no more syncs end than were asked for (5, 0)"),
    ("reads", "a disk reader: no more reads end than were asked for (0, 0)"),
    ("repair", "queue repair: looked at, written, over, free (0, 3)"),
    ("seal", "timers: a seal is free before it is filled (1, 1)"),
    ("seal_state", "timers: a seal is free or full (3, 0)"),
    ("timer_batch", "timers: a batch that is taken was made (0, 0)"),
    ("timer_batch_count", "timers: a batch holds what fits it (513, 512)"),
    ("timer_ring", "timers: no more batches wait than there are (0, -5)"),
    # the network, answers, dispatch, the role, the client
    ("ack_order", "answers that wait: they are in the order of the log (500, 400)"),
    ("ack_ring", "answers that wait: no more are given than wait (0, 0)"),
    ("connections", "the network: as many connections are open as are counted (0, 1)"),
    ("control_bytes", "to control: no more bytes are taken than were given (5, 0)"),
    ("control_room", "to control: the ring has room for what may wait in it (64, 64)"),
    ("dispatch_list", "dispatch: the list is done with from its first entry on (3, 0)"),
    ("dispatched", "dispatch: what has its queue entries is written (10, 0)"),
    ("dispatched_back", "dispatch: `dispatched` never moves back (96, 40)"),
    ("half_bytes", "the network: what a large frame holds is counted (9, 0)"),
    ("half_frames", "the network: no more large frames are kept than may be (4, 4)"),
    ("pull", "a pull: free, new, ready, held, reading or deferred, ready again, free (2, 4)"),
    ("link", "the client: a link is idle, connecting, open (2, 2)"),
    ("link_dropped", "the client: a link is idle, connecting, open (5, 0)"),
    ("replicated", "the log: what is replicated was appended (500, 400)"),
    ("replicated_back", "the log: `replicated` is set back at a slave alone (0, 400)"),
    ("visible_back", "the log: `visible` is set back at a slave alone (0, 800)"),
    ("visible_hidden", "the log: a limit of `visible` begins at what is dispatched (701, 700)"),
    ("visible_limit", "the log: `visible` has a limit from where it had none (700, 0)"),
    ("role", "a role: a master, or a slave: without its master or with, confirmed or not "
             "(0, 3)"),
    ("role_facts", "a role: what is known of it is what its state says (1, 0)"),
    ("role_moved", "a role: what is known of it is what its state says (0, 1)"),
    ("role_refuses", "a role: it says why it refuses while it does (192, 0)"),
    ("role_set", "a role: its state alone says what it is (2, 0)"),
    ("stream", "the master's stream: its core follows (0, 0)"),
    ("reply_buffer", "the network: a reply buffer that pieces point to (0, 120)"),
    ("slots", "the network: a slot is open, closed in this turn, or free (1, 0)"),
    ("tls_added", "TLS: a connection is added after it was offered (1048576, -1)"),
    ("tls_handshake", f"{TLS_IS_HERE} (0, 0)"),
    ("tls_offered", "TLS: one connection is offered at a time (1, 1)"),
    ("tls_receive", f"{TLS_IS_HERE} (0, 0)"),
    ("tls_send", f"{TLS_IS_HERE} (0, 0)"),
    ("tls_state", "TLS: a state is freed when its step is back (1048576, 0)"),
    ("unread", "the network: as many connections have a reason as are counted (0, 3)"),
    # what waits in the flow
    ("held_count", "pulls: no more are released than are held (0, 2)"),
    ("level_first", "delay levels: a turn begins with one that is configured (5, 2)"),
    ("level_jumps", "delay levels: no more jumps of the clock are kept than there are places "
                    "(-1, 8)"),
    ("parked_bytes", "parked requests: the bytes of one are counted (20, 10)"),
    ("parked_end", "parked requests: one that ends is parked (0, 0)"),
    ("parked_given", "parked requests: one after the other finds its record (4096, 1)"),
    ("parked_read", "parked requests: no more are read than are parked (1, 1)"),
    ("parked_sum", "parked requests: no bytes are counted when none is parked (0, 10)"),
    ("pops_asleep", "pops: no more fall asleep than were woken (0, 2)"),
    ("pops_special", "pops: no more are special than wait at their pair (-1, 1)"),
    ("pops_waiting", "pops: some wait at a pair while its list has some (1, 0)"),
    ("pushed_count", "pushed replies: as many are under way as are counted (2, 3)"),
    ("pushed_ends", "pushed replies: no more end than were pushed (0, 1)"),
    ("pushed_free", "pushed replies: a slot is under way or free (0, 1)"),
    ("pushed_freed", "pushed replies: a slot is freed once (1, 1)"),
    ("pushed_next", "pushed replies: a slot is taken from the free ones (0, 1)"),
    ("pushed_taken", "pushed replies: a slot that is taken is free (1, 8)"),
    ("revive_bucket", "revival: a check point that ends is in its bucket (0, -1)"),
    ("revive_kept", "revival: check points are kept while one waits for its time (0, 2)"),
    ("revive_number", "revival: a check point that ends is kept (7, 0)"),
    ("revive_once", "revival: a check point ends once (1, 0)"),
    ("revive_over", "revival: no more check points end than wait for their time (0, 2)"),
    ("revive_places", "revival: no more check points are kept than the ring has places (300, 256)"),
    ("revive_waiting", "revival: no more check points wait for their time than are kept (3, 2)"),
]  # fmt: skip
DEBUG_CASES = [
    ("chunk_order", "a queue: a chunk follows one that is full (0, 49)"),
    ("held_wheel", "pulls: none is held that is not counted (0, 90)"),
    ("log_claimed", "the log: a record ends before what the ring is claimed for does (192, 100)"),
    ("log_thread", "the log: it is appended to by the reactor ("),
    ("pool_in_use", "a buffer pool: no more buffers are in use than there are (3, 0)"),
    ("pool_thread", "a buffer pool: a buffer is taken by the pool's thread ("),
    ("queue_ends", "a list: it has both ends or none (0, 1)"),
    ("release_of_two", "a buffer pool: a buffer is released once (0, 1)"),
    ("revive_order", "revival: the check point that ends is due before all others (10, 2)"),
    ("ring_nothing", "a ring: what is pushed is something (0, 8)"),
    ("slot", "the client: a slot is freed once (5, 16384)"),
]


PLANTER = """
import json, os, sys, tempfile
from cext.testing.broken_invariant import plant

for line in sys.stdin:
    kind, tempfile.tempdir, said = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
    plant(kind)
    break
"""
Planted = Callable[[str, Path], tuple[int, str]]


@pytest.fixture(scope="module")
def planted() -> Iterator[Planted]:
    """Plants a kind of mistake in a process, and returns its exit code and what it printed. All
    these processes are forked from one that has already imported the modules, because most of the
    time of each would be its start."""
    with subprocess.Popen(
        [sys.executable, "-c", PLANTER],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as planter:  # fmt: skip
        assert planter.stdin and planter.stdout

        def plant(kind: str, folder: Path) -> tuple[int, str]:
            said = folder.parent / f"{folder.name}.said"
            print(json.dumps([kind, str(folder), str(said)]), file=planter.stdin, flush=True)
            code = int(planter.stdout.readline())
            return code, said.read_text()

        yield plant
        planter.stdin.close()
        assert planter.wait(HANG_S) == 0


@pytest.mark.parametrize(("kind", "text"), CASES, ids=[kind for kind, _ in CASES])
def test_a_broken_invariant_ends_the_process(
    kind: str, text: str, planted: Planted, tmp_path: Path
) -> None:
    code, said = planted(kind, tmp_path)
    assert code == -signal.SIGABRT, said
    line = next(line for line in said.splitlines() if line.startswith("rmq: "))
    assert line.startswith(f"rmq: broken invariant: {text}")
    assert line.endswith("; the process ends")


@pytest.mark.parametrize(("kind", "text"), DEBUG_CASES, ids=[kind for kind, _ in DEBUG_CASES])
def test_a_debug_build_sees_more(kind: str, text: str, planted: Planted, tmp_path: Path) -> None:
    code, said = planted(kind, tmp_path)
    if IS_DEBUG:
        assert code == -signal.SIGABRT, said
        assert f"rmq: broken invariant: {text}" in said
    else:
        assert (code, said) == (0, "")


def test_every_plant_is_in_a_table() -> None:
    plants = importlib.import_module("cext.testing.broken_invariant").PLANTS
    assert sorted(plants) == sorted(kind for kind, _ in CASES + DEBUG_CASES)


CALL = re.compile(r'\b(debug_check|check)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*?b"([^"]+)"')


def debug_texts() -> Iterator[tuple[Path, str]]:
    """Modules, and what only debug builds check in them."""
    for path in sorted((ROOT / "cext").rglob("*.pyx")):
        calls = CALL.findall(path.read_text())
        always = {text for name, text in calls if name == "check"}
        for text in sorted({text for name, text in calls if name == "debug_check"} - always):
            yield path, text


def test_debug_checks_are_compiled_into_debug_builds_alone() -> None:
    found = {}
    for path, text in debug_texts():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = Path(str(importlib.import_module(name).__file__))
        found[f"{name}: {text}"] = text.encode() in module.read_bytes()
    assert len(found) >= 10
    assert {where for where, is_there in found.items() if is_there is not IS_DEBUG} == set()
