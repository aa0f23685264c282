"""Goal: `rmq store check --live` beside a broker that writes says that a sound store is sound, and
names a damaged record; without --live it is refused.

Method: a broker with small files, a producer that never stops, and checks of which each saw the log
grow. Cannot prove: every moment between two writes of a turn; that takes luck.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.broker_process import PATIENT, BrokerProcess, broker_process
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer

TOPIC = "written"
CHECKS = 5
LOG_FILE = 1 << 20
SETTINGS = {
    "mappedFileSizeCommitLog": LOG_FILE, "mappedFileSizeConsumeQueue": 20_000,
    "maxIndexNum": 2000, "maxHashSlotNum": 500,
}  # fmt: skip


class Writing:
    """A producer that sends keyed messages of many sizes, one by one, until the end of the
    block."""

    def __init__(self, namesrv: str) -> None:
        self.acks = 0
        self.error: BaseException | None = None
        self._namesrv, self._over = namesrv, threading.Event()

    def run(self) -> None:
        try:
            with Producer("writers", namesrv_addr=self._namesrv) as producer:
                while not self._over.is_set():
                    assert producer.send(self._message(self.acks)).is_ok
                    self.acks += 1
        except BaseException as error:
            self.error = error

    def _message(self, at: int) -> Message:
        return Message(TOPIC, b"x" * (at * 97 % 1000 + 1), keys=f"key-{at}", tags=f"tag-{at % 3}")

    def end(self) -> None:
        self._over.set()


@contextmanager
def writing(broker: BrokerProcess) -> Iterator[Writing]:
    made = Writing(broker.namesrv)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        wait_until(lambda: made.acks or made.error)
        yield made
    finally:
        made.end()
        thread.join(HANG_S)
    assert made.error is None


def check(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: this one has another thread."""
    command = [sys.executable, "-m", "rmq", "store", "check", str(store), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)


def test_a_store_that_is_written_is_found_sound_and_one_with_damage_is_not(tmp_path: Path) -> None:
    lines = [f"{name}={value}" for name, value in SETTINGS.items()]
    (tmp_path / "broker.conf").write_text("\n".join(lines) + "\n")
    shape = ("-c", str(tmp_path / "broker.conf"))
    options = [*PATIENT, *(word for line in lines for word in ("--set", line))]
    with broker_process(tmp_path, options) as broker, writing(broker) as load:
        refused = check(broker.store)
        assert refused.returncode == 4 and "--live" in refused.stderr
        records, beside = [], 0
        while beside < CHECKS:
            before = load.acks
            done = check(broker.store, "--live", "--json", *shape)
            assert done.returncode == 0, done.stdout + done.stderr
            ((_, report),) = json.loads(done.stdout).items()
            assert report["problems"] == []
            assert report["counts"]["records"] >= before
            assert "index_files_of_another_shape" not in report["counts"]
            records.append(report["counts"]["records"])
            beside += load.acks > before and report["counts"].get("index_entries", 0) > 0
        assert records == sorted(set(records)), "each has seen more than the one before"
        wait_until(lambda: len(list(broker.store.glob("commitlog/*"))) >= 3)

        log = min(broker.store.glob("commitlog/*"), key=lambda path: path.name)
        with log.open("r+b") as file:
            file.seek(LOG_FILE // 2)
            file.write(bytes(64))
        done = check(broker.store, "--live", "--json", *shape)
        assert done.returncode == 1
        ((_, report),) = json.loads(done.stdout).items()
        assert report["problems"][0]["file"] == str(log)
        assert "that are no record" in report["problems"][0]["what"]
        assert len(report["problems"]) < 10, "and what leads to it"
