"""What the kernel says about a thread: real threads of this process, and of another one."""

import os
import threading
from pathlib import Path

from support.disk_wait import disk_wait
from support.waiting import wait_until

from rmq.system.threads import Thread, named_thread, numbered_thread


def name_thread(name: str) -> None:
    """Names the calling thread. The other threads of this process all have one name, and their
    numbers are in no order, because the kernel begins again when it has given out its last
    number."""
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)


def test_a_thread_is_found_by_its_name_and_sleeps_where_it_does() -> None:
    ended = threading.Event()

    def run() -> None:
        name_thread("a (b) c")
        ended.wait()

    thread = threading.Thread(target=run)
    thread.start()
    assert thread.native_id is not None

    seen: list[Thread] = []

    def rests() -> bool:
        """Whether it was seen asleep twice in the same state: a thread that waits for the
        interpreter runs for a moment now and then."""
        found = named_thread(os.getpid(), "a (b) c")
        if found is None or found.state != "S":
            return False
        seen.append(found)
        return found == numbered_thread(os.getpid(), thread.native_id or 0)

    try:
        wait_until(rests)
        found = seen[-1]
        assert not found.waits_for_disk and str(found).startswith("sleeps")
        assert named_thread(os.getpid(), "nobody") is None
    finally:
        ended.set()
        thread.join()
    wait_until(lambda: numbered_thread(os.getpid(), thread.native_id or 0) is None)


def test_one_that_no_signal_ends_waits_for_a_disk(tmp_path: Path) -> None:
    with disk_wait(tmp_path, "rmq-reactor") as pid:
        found = named_thread(pid, "rmq-reactor")
        assert found is not None and found.waits_for_disk
        assert str(found).startswith("waits for a disk")
    assert named_thread(pid, "rmq-reactor") is None


def test_one_that_loops_has_run_and_one_that_waits_for_a_disk_has_not(tmp_path: Path) -> None:
    with disk_wait(tmp_path, "rmq-reactor") as pid:
        found = named_thread(pid, "rmq-reactor")
        again = named_thread(pid, "rmq-reactor")
        assert found is not None and again is not None and not again.has_run_since(found)
    ended = threading.Event()

    def loop() -> None:
        name_thread("a loop")
        while not ended.is_set():
            pass

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        wait_until(lambda: named_thread(os.getpid(), "a loop"))
        before = named_thread(os.getpid(), "a loop")
        assert before is not None
        wait_until(lambda: (t := named_thread(os.getpid(), "a loop")) and t.has_run_since(before))
    finally:
        ended.set()
        thread.join()


def test_a_file_system_of_a_process_is_a_disk_that_its_callers_sleep_for() -> None:
    assert Thread("S", "request_wait_answer").waits_for_disk
    assert str(Thread("S", "fuse_wait")) == "waits for a disk (fuse_wait)"
    assert not Thread("S", "futex_do_wait").waits_for_disk
    assert not Thread("R", "fuse_wait").waits_for_disk


def test_a_state_that_nobody_knows_is_said_as_it_is() -> None:
    assert str(Thread("X")) == "is in state X"
    assert str(Thread("R", "somewhere")) == "runs (somewhere)"
