"""Flow control on a disk that stands still, and who is served first after it. A real process behind
the fault shim: a write of the log sleeps, and meanwhile clients go on asking.
"""

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.broker_process import READY, command
from support.shard import Client, send

LOG = "commitlog/"
TOPIC = "TBW102"
REFUSAL = re.compile(
    r"\[(\w+)\]broker busy, start flow control for a while, period in queue: (\d+)ms, "
    r"size of queue: (\d+)"
)


@contextmanager
def broker(directory: Path, faults, *options: str) -> Iterator[int]:
    with (directory / "broker.txt").open("a") as log:
        process = subprocess.Popen(
            command(directory / "store", "--set", "mappedFileSizeCommitLog=16777216", *options),
            stdout=subprocess.PIPE, stderr=log, text=True, env=faults.environment(),
        )  # fmt: skip
    try:
        line = process.stdout.readline()
        found = READY.search(line)
        assert found is not None, line + (directory / "broker.txt").read_text()
        yield int(found["address"].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def standing_still(faults, port: int, ms: int) -> Client:
    """A client whose send the broker is writing, for so long."""
    client = Client(port)
    assert client.ask(send(TOPIC, b"first")).code == 0
    faults.clear()
    faults.sleep("pwrite", ms * 1000, path=LOG, count=1)
    client.put(send(TOPIC, b"slow", 7))
    while faults.seen(0) == 0:
        time.sleep(0.005)
    return client


def test_what_waited_longer_than_200_ms_is_refused_and_the_rest_is_not(
    tmp_path: Path, faults
) -> None:
    with broker(tmp_path, faults) as port:
        other = Client(port)
        assert other.ask(send(TOPIC, b"warm")).code == 0
        client = standing_still(faults, port, 400)
        reply = other.ask(send(TOPIC, b"late", 8))
        assert (reply.code, reply.opaque) == (2, 8)
        found = REFUSAL.fullmatch(reply.remark or "")
        assert found is not None, reply.remark
        waited_ms = int(found[2])
        assert waited_ms >= 400
        assert found[1] == ("TIMEOUT_CLEAN_QUEUE" if waited_ms < 1000 else "PCBUSY_CLEAN_QUEUE")
        assert int(found[3]) >= 1
        assert (client.reply().code, other.ask(send(TOPIC, b"again")).code) == (0, 0)


def test_what_comes_after_a_slow_write_is_not_refused_for_it(tmp_path: Path, faults) -> None:
    with broker(tmp_path, faults) as port:
        for number in range(5):
            client = standing_still(faults, port, 400)
            assert client.reply().code == 0
            time.sleep(0.05)  # the broker has seen that nobody waits
            assert client.ask(send(TOPIC, b"after")).code == 0, number


def test_a_page_cache_that_is_busy_for_a_second_is_named(tmp_path: Path, faults) -> None:
    with broker(tmp_path, faults) as port:
        other = Client(port)
        assert other.ask(send(TOPIC, b"warm")).code == 0
        standing_still(faults, port, 1200)
        reply = other.ask(send(TOPIC, b"late", 8))
        found = REFUSAL.fullmatch(reply.remark or "")
        assert found is not None, reply.remark
        assert (reply.code, found[1]) == (2, "PCBUSY_CLEAN_QUEUE")
        assert other.ask(send(TOPIC, b"again")).code == 0


def test_the_limits_are_settings_and_may_be_switched_off(tmp_path: Path, faults) -> None:
    patient = ("--set", "waitTimeMillsInSendQueue=3000")
    off = ("--set", "brokerFastFailureEnable=false")
    for number, options in enumerate((patient, off)):
        (tmp_path / str(number)).mkdir()
        faults.clear()
        with broker(tmp_path / str(number), faults, *options) as port:
            other = Client(port)
            assert other.ask(send(TOPIC, b"warm")).code == 0
            standing_still(faults, port, 400)
            assert other.ask(send(TOPIC, b"late", 8)).code == 0


def test_a_greedy_connection_is_read_in_portions(tmp_path: Path, faults) -> None:
    """While the broker stands still one client sends megabytes, then another one message: that is
    stored behind what the greedy one gets into one turn or two, not behind all of it."""
    with broker(tmp_path, faults, "--set", "brokerFastFailureEnable=false") as port:
        greedy, polite = Client(port), Client(port)
        assert polite.ask(send(TOPIC, b"warm")).code == 0
        one = send(TOPIC, b"x" * 100, 1, one_way=True)
        count = 3_000_000 // len(one)
        standing_still(faults, port, 5000)
        pushing = threading.Thread(target=greedy.put, args=(one * count,))
        pushing.start()
        time.sleep(0.5)  # what the kernel takes is in the broker's socket now
        reply = polite.ask(send(TOPIC, b"one", 9))
        pushing.join(60)
        assert reply.code == 0
        assert int(reply.fields["queueOffset"]) < 3 * 262_144 // len(one)
        end = time.monotonic() + 60
        last = 0
        while last < count and time.monotonic() < end:
            last = int(polite.ask(send(TOPIC, b"end", 10)).fields["queueOffset"])
            time.sleep(0.05)
        assert last >= count, f"{last} of {count} stored"
