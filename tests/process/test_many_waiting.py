"""A million messages that wait disturb other clients as little as possible.

Delay levels and timed messages: a million that are due in the same second come, while another
client's sends go on as before. Transactions: a million open ones, which the check goes through,
slow no client down. Latencies are counted from the moment a send is due, not from when the
generator sends it.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process, start_broker

from cext.load.histogram import Histogram
from rmq.client.blocking.connection import Connection
from rmq.load import control
from rmq.load.cpu import CpuMeter
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.latency import percentiles_ns
from rmq.load.run import measure, open_producer

MILLION = 1_000_000
OPTIONS = ["--set", "mappedFileSizeCommitLog=268435456"]
RATE = 500.0  # sends a second of the client that must not notice
P99_MS, WORST_MS = 25.0, 1000.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def queues_of(broker: BrokerProcess, topic: str, count: int) -> list[Queue]:
    return [target.queue for target in control.find_queues(broker.namesrv, [topic], count)]


def fill(broker: BrokerProcess, queues: list[Queue], more: str, sys_flag: int = 0) -> None:
    frames = send_frames(queues, SendShape(100, more=more, sys_flag=sys_flag))
    loop = open_producer(frames, [broker.address] * 4, 64, limit=MILLION)
    while loop.run(200_000):
        pass
    stats = loop.stats()
    assert (stats["acked"], stats["failures"]) == (MILLION, {})


def held(broker: BrokerProcess, queues: list[Queue]) -> int:
    with Connection(broker.address) as connection:
        ranges = [control.queue_range(connection, queue) for queue in queues]
    return sum(most - least for least, most in ranges)


def latencies(
    broker: BrokerProcess, queues: list[Queue], until: Callable[[], bool], limit_s: float
) -> Histogram:
    """Latencies of plain sends at RATE. They go on until the condition is true, for at least a
    second and at most limit_s. Another thread looks at the condition, because that takes time and
    no send must wait for it."""
    producer = open_producer(send_frames(queues, SendShape(100)), [broker.address], 16, RATE)
    over = threading.Event()

    def ask() -> None:
        begin = time.monotonic()
        while time.monotonic() - begin < limit_s and not over.wait(0.5):
            if time.monotonic() - begin > 1 and until():
                over.set()

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        producer.run(100_000)
    assert over.is_set(), "waited in vain"
    assert producer.finish(5_000_000) == 0
    assert producer.stats()["failures"] == {}
    return producer.latency


def check_unnoticed(times: Histogram) -> None:
    p50, p99, worst = percentiles_ns(times, (50, 99, 100)) / 1e6
    print(f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, worst {worst:.1f} ms")
    assert p99 < P99_MS
    assert worst < WORST_MS


def test_a_million_timed_messages_due_at_once_stall_no_sends(tmp_path: Path) -> None:
    with broker_process(tmp_path, OPTIONS) as broker:
        queues, others = queues_of(broker, "t", 4), queues_of(broker, "o", 4)
        due = time.time_ns() // 1_000_000 + 25_000
        fill(broker, queues, f"TIMER_DELIVER_MS\x01{due}\x02")
        left = due / 1000 - time.time()
        assert left > 0, "the machine is too slow to send a million in time"
        time.sleep(left)
        assert held(broker, queues) < MILLION
        times = latencies(broker, others, lambda: held(broker, queues) == MILLION, 60)
        check_unnoticed(times)
        assert held(broker, queues) == MILLION


def test_a_million_messages_of_a_level_due_at_once_stall_no_sends(tmp_path: Path) -> None:
    """The messages become due while the broker is down."""
    level = [*OPTIONS, "--set", "messageDelayLevel=20s"]
    broker = start_broker(tmp_path, level)
    queues = queues_of(broker, "t", 4)
    began = time.monotonic()
    fill(broker, queues, "DELAY\x011\x02")
    took = time.monotonic() - began
    assert took < 20, "the machine is too slow to send a million in time"
    assert held(broker, queues) == 0
    assert broker.stop() == 0
    broker.close()
    time.sleep(20)
    with broker_process(tmp_path, level) as broker:
        others = queues_of(broker, "o", 4)
        times = latencies(broker, others, lambda: held(broker, queues) == MILLION, 60)
        check_unnoticed(times)
        assert held(broker, queues) == MILLION


def test_a_million_open_transactions_slow_nobody(tmp_path: Path) -> None:
    """Open transactions slow no other client, neither while they wait nor while the broker's check
    goes through them."""
    options = [*OPTIONS, "--set", "transactionCheckInterval=2000"]

    def cpu_per_million() -> float:
        producer = open_producer(send_frames(others, SendShape(100)), [broker.address], 64)
        result = measure(producer, 2.0, 0.3, [broker.pid])
        assert result.failures == {}
        assert result.cpu_per_million is not None
        return result.cpu_per_million

    with broker_process(tmp_path, options) as broker:
        queues, others = queues_of(broker, "t", 4), queues_of(broker, "o", 4)
        before = min(cpu_per_million() for _ in range(3))
        marks = "TRAN_MSG\x01true\x02PGROUP\x01bench-producer\x02"
        shape = SendShape(100, more=marks, sys_flag=4)
        fill(broker, queues, shape.more, shape.sys_flag)
        meter = CpuMeter([broker.pid])
        end = time.monotonic() + 10
        times = latencies(broker, others, lambda: time.monotonic() > end, 60)
        print(f"broker's CPU while the check looks: {meter.seconds() / 10:.2f} cores")
        check_unnoticed(times)
        assert held(broker, queues) == 0
        with Connection(broker.address) as connection:
            least, most = control.queue_range(connection, Queue("RMQ_SYS_TRANS_HALF_TOPIC", 0))
        assert most - least >= MILLION
        after = min(cpu_per_million() for _ in range(3))
        print(f"plain sends: {before:.2f} CPU-s/M before, {after:.2f} with a million open")
