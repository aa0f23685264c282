"""Flow control on a disk that stands still, and who is served first after that. A real process is
behind the fault shim: a write of the log is held, clients go on asking, and time passes by the
clock that the test drives.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.broker_process import READY, words
from support.driven_clock import DrivenClock, process_clock
from support.rmq_process import start_rmq
from support.shard import TIMEOUT_S, Client, request, send
from support.waiting import wait_until

LOG = "commitlog/"
TOPIC = "TBW102"
MAX_OFFSET = 30
REFUSAL = re.compile(
    r"\[(\w+)\]broker busy, start flow control for a while, period in queue: (\d+)ms, "
    r"size of queue: (\d+)"
)


@contextmanager
def broker(directory: Path, faults, clock, *options: str) -> Iterator[int]:
    with (directory / "broker.txt").open("a") as log:
        process = start_rmq(
            words(directory / "store", "--set", "mappedFileSizeCommitLog=16777216", *options),
            stderr=log, environment={**clock.environment, **faults.environment()},
        )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = READY.search(line)
        assert found is not None, line + (directory / "broker.txt").read_text()
        clock.advance(0)  # however long the start took: from here on time stands still
        yield int(found["address"].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[DrivenClock]:
    """The clock of the brokers. It stands still, so that no request has waited for 200 ms on a busy
    machine."""
    with process_clock(tmp_path) as clock, clock.standing_still():
        yield clock


def standing_still(faults, port: int) -> Client:
    """Holds a write of the broker, and returns the client whose send is in this write."""
    client = Client(port)
    assert client.ask(send(TOPIC, b"first")).code == 0
    faults.clear()
    faults.hold("pwrite", path=LOG)
    client.put(send(TOPIC, b"slow", 7))
    wait_until(lambda: faults.seen(0) > 0)
    return client


def goes_on(faults, clock: DrivenClock, ms: int) -> None:
    """Lets the write end after it has taken so long."""
    clock.advance(ms / 1000)
    faults.clear()


def test_what_waited_longer_than_200_ms_is_refused_and_the_rest_is_not(
    tmp_path: Path, faults, clock: DrivenClock
) -> None:
    with broker(tmp_path, faults, clock) as port:
        other = Client(port)
        assert other.ask(send(TOPIC, b"warm")).code == 0
        client = standing_still(faults, port)
        other.put(send(TOPIC, b"late", 8))
        goes_on(faults, clock, 400)
        reply = other.reply()
        assert (reply.code, reply.opaque) == (2, 8)
        found = REFUSAL.fullmatch(reply.remark or "")
        assert found is not None, reply.remark
        waited_ms = int(found[2])
        assert waited_ms >= 400
        assert found[1] == ("TIMEOUT_CLEAN_QUEUE" if waited_ms < 1000 else "PCBUSY_CLEAN_QUEUE")
        assert int(found[3]) >= 1
        assert (client.reply().code, other.ask(send(TOPIC, b"again")).code) == (0, 0)


def test_what_comes_after_a_slow_write_is_not_refused_for_it(tmp_path: Path, faults, clock) -> None:
    with broker(tmp_path, faults, clock) as port:
        for number in range(5):
            client = standing_still(faults, port)
            goes_on(faults, clock, 400)
            assert client.reply().code == 0
            # Answered a turn later, so what comes from here on has not waited for the write.
            assert client.ask(request(MAX_OFFSET, topic=TOPIC, queueId=0)).code == 0
            assert client.ask(send(TOPIC, b"after")).code == 0, number


def test_a_page_cache_that_is_busy_for_a_second_is_named(tmp_path: Path, faults, clock) -> None:
    with broker(tmp_path, faults, clock) as port:
        other = Client(port)
        assert other.ask(send(TOPIC, b"warm")).code == 0
        standing_still(faults, port)
        other.put(send(TOPIC, b"late", 8))
        goes_on(faults, clock, 1200)
        reply = other.reply()
        found = REFUSAL.fullmatch(reply.remark or "")
        assert found is not None, reply.remark
        assert (reply.code, found[1]) == (2, "PCBUSY_CLEAN_QUEUE")
        assert other.ask(send(TOPIC, b"again")).code == 0


def test_the_limits_are_settings_and_may_be_switched_off(tmp_path: Path, faults, clock) -> None:
    patient = ("--set", "waitTimeMillsInSendQueue=600000")
    off = ("--set", "brokerFastFailureEnable=false")
    for number, options in enumerate((patient, off)):
        (tmp_path / str(number)).mkdir()
        faults.clear()
        with broker(tmp_path / str(number), faults, clock, *options) as port:
            other = Client(port)
            assert other.ask(send(TOPIC, b"warm")).code == 0
            standing_still(faults, port)
            other.put(send(TOPIC, b"late", 8))
            goes_on(faults, clock, 400)
            assert other.reply().code == 0


def test_a_greedy_connection_is_read_in_portions(tmp_path: Path, faults, clock) -> None:
    """While the broker stands still, one client sends megabytes, then another one a single message.
    This message is stored behind what the greedy client gets into one or two turns, not behind all
    of it."""
    with broker(tmp_path, faults, clock, "--set", "brokerFastFailureEnable=false") as port:
        greedy, polite = Client(port), Client(port)
        assert polite.ask(send(TOPIC, b"warm")).code == 0
        one = send(TOPIC, b"x" * 100, 1, one_way=True)
        count = 3_000_000 // len(one)
        standing_still(faults, port)
        rest = memoryview(one * count)
        greedy.socket.setblocking(False)
        with suppress(BlockingIOError):  # what the kernel takes is in the broker's socket then
            while rest:
                rest = rest[greedy.socket.send(rest) :]
        greedy.socket.settimeout(TIMEOUT_S)
        polite.put(send(TOPIC, b"one", 9))
        pushing = threading.Thread(target=greedy.put, args=(bytes(rest),))
        pushing.start()
        goes_on(faults, clock, 5000)
        reply = polite.reply()
        pushing.join(TIMEOUT_S)
        assert reply.code == 0
        assert int(reply.fields["queueOffset"]) < 3 * 262_144 // len(one)
        wait_until(lambda: int(polite.ask(send(TOPIC, b"end", 10)).fields["queueOffset"]) >= count)
