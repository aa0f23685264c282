"""What a run measured is reported as it was: rates, failures by name, CPU per million.

Method: results and processes made by the test; a child that burns a known amount of CPU.
"""

import os
import subprocess
import sys

import pytest

from cext.load.histogram import Histogram
from rmq.load.cpu import CpuMeter, resident_bytes, thread_times, with_descendants
from rmq.load.report import as_text, code_name, members
from rmq.load.run import Result

BURN_IN_THREAD = """
import threading, time
def burn():
    while time.thread_time() < 0.3: pass
print("ready", flush=True)
input()
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print("done", flush=True)
input()
"""
BURN = """
import time
print("ready", flush=True)
input()
began = time.process_time()
while time.process_time() - began < 0.3: pass
print("done", flush=True)
input()
"""


def result(**changes):
    latency = Histogram()
    for microseconds in range(1, 1001):
        latency.add(microseconds * 1000)
    values = {
        "seconds": 2.0,
        "messages": 1000,
        "requests": 1010,
        "bytes": 600_000,
        "failures": {2: 7, -1: 3},
        "latency": latency,
        "cpu_seconds": 0.001,
    }
    return Result(**{**values, **changes})


def test_rates_are_per_second_and_per_million():
    report = members(result())
    assert report["messages_per_second"] == 500.0
    assert report["megabytes_per_second"] == 0.3
    assert report["cpu_seconds_per_million"] == pytest.approx(1.0)
    assert report["failures"] == {"-1": 3, "2": 7}
    assert report["latency_us"]["p50"] == pytest.approx(500, rel=0.01)


def test_the_text_names_codes_and_pids():
    text = as_text(result(unanswered=4, overdue=5), [11, 12])
    assert "2 (SYSTEM_BUSY): 7" in text and "-1 (connection broke): 3" in text
    assert "(pids 11 12)" in text
    assert "unanswered" in text and "overdue" in text


def test_without_messages_nothing_is_divided_by_zero():
    empty = result(seconds=0.0, messages=0, bytes=0, latency=Histogram())
    assert members(empty)["messages_per_second"] == 0.0
    assert members(empty)["cpu_seconds_per_million"] is None


def test_unknown_codes_have_a_word_too():
    assert code_name(987_654) == "unknown"


@pytest.mark.parametrize("program", [BURN, BURN_IN_THREAD])
def test_the_meter_sees_what_a_child_burns(program):
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"  # how much its start burns is not known
        meter = CpuMeter([child.pid])
        child.stdin.write("burn\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        assert 0.2 < meter.seconds() < 0.6
        assert child.pid in with_descendants(os.getpid())
        assert resident_bytes(child.pid) > 1 << 20
        child.communicate("\n")


def test_what_an_ended_process_has_spent_is_not_known():
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        child.stdin.write("burn\n")
        child.stdin.flush()
        # So it has burned more than 0 s when the meter begins.
        assert child.stdout.readline() == "done\n"
        meter = CpuMeter([child.pid, os.getpid()])
        assert meter.known_seconds() >= 0
        child.communicate("\n")
    assert meter.known_seconds() is None
    with pytest.raises(ProcessLookupError, match=f"{child.pid} has ended"):
        meter.seconds()
    assert CpuMeter([]).known_seconds() is None


def test_a_pid_that_does_not_exist_is_refused():
    with pytest.raises(ProcessLookupError):
        CpuMeter([2**22 + 1])
    assert thread_times(2**22 + 1) == {}
