"""What clients are told by a broker that cannot write for a while, and that nothing else is lost.

The broker is rmq behind the fault shim (tests/support/faultio): a write of its log stands still.
Apache's broker cannot be held up in this way, and the Go client does not show the text. Operators
and clients look for these texts; the right ones are read from the classes of Apache RocketMQ 5.5.0.
"""

from __future__ import annotations

import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.python_scenarios import topic_of
from compat.runner import NEW_CLIENT, ScenarioRunner
from compat.targets import RmqTarget
from support.faults import Faults, fault_shim, faults
from support.reading import read_all

from rmq import Admin, Message, Producer, RemoteError
from tools.peers.cache import apache_jars

__all__ = ["fault_shim", "faults"]

SOURCES = Path(__file__).resolve().parents[2]
CLASSES = {
    "broker": ["latency/BrokerFastFailure", "processor/SendMessageProcessor"],
    "remoting": ["netty/NettyRemotingAbstract"],
}
STALLS_MS = {"TIMEOUT_CLEAN_QUEUE": 500, "PCBUSY_CLEAN_QUEUE": 1300}
# Shorter than the stalls, because the machine may stall, too.
LEAST_MS = {"TIMEOUT_CLEAN_QUEUE": 200, "PCBUSY_CLEAN_QUEUE": 1000}
SENDING_MS = 20_000
TIMES = 2  # if the machine stands still meanwhile, one kind of stall looks like the other


@pytest.fixture
def slow_target(kind: str, tmp_path: Path, faults: Faults) -> Iterator[RmqTarget]:
    if kind != "rmq":
        pytest.skip("only rmq can be held up")
    limits = {"waitTimeMillsInSendQueue": str(LEAST_MS["TIMEOUT_CLEAN_QUEUE"]),
              "osPageCacheBusyTimeOutMills": str(LEAST_MS["PCBUSY_CLEAN_QUEUE"])}  # fmt: skip
    broker = RmqTarget(tmp_path / "slow", limits)
    shim = faults.environment()
    broker.server.environment |= {name: shim[name] for name in ("LD_PRELOAD", "RMQ_FAULTIO")}
    broker.start()
    yield broker
    broker.stop()


def hold_up(faults: Faults) -> None:
    """Makes both kinds of stall, again and again, while clients send."""
    for ms in [*STALLS_MS.values()] * TIMES:
        time.sleep(1)
        faults.clear()
        faults.sleep("pwrite", ms * 1000, path="commitlog/", count=1)
        end = time.monotonic() + 20
        while faults.seen(0) == 0:
            assert time.monotonic() < end, "nothing was written"
            time.sleep(0.01)
        time.sleep(ms / 1000)
    faults.clear()


def apaches_words() -> set[str]:
    """The constants in Apache's classes that say that a broker is busy."""
    found: set[str] = set()
    for name, classes in CLASSES.items():
        with zipfile.ZipFile(apache_jars() / f"rocketmq-{name}-{NEW_CLIENT}.jar") as jar:
            for each in classes:
                code = jar.read(f"org/apache/rocketmq/{name}/{each}.class")
                texts = re.findall(rb"\[[A-Z_]+\](?:broker|system) busy[ -~]*", code)
                found |= {text.decode() for text in texts}
    return found


def our_words() -> set[str]:
    """The texts in rmq's sources, which the broker extends."""
    found: set[str] = set()
    for file in [*SOURCES.glob("cext/flow/**/*.pyx"), *SOURCES.glob("rmq/broker/**/*.py")]:
        # Joins texts that are written in several pieces.
        joined = re.sub(r'"\s*\\?\s*[bf]?"', "", file.read_text())
        found |= set(re.findall(r'"(\[[A-Z_]{5,}\][^"\n]*)"', joined))
    return found


def test_what_a_busy_broker_says_begins_with_apaches_words() -> None:
    theirs, ours = apaches_words(), our_words()
    assert len(theirs) == 5 and len(ours) >= 10
    assert {text for text in ours if not text.startswith(tuple(theirs))} == set()


def check_texts(refused: list[str]) -> None:
    patterns = [
        re.compile(r"2 " + re.sub("%[ds]", r"(\\d+)", re.escape(text)))
        for text in apaches_words()
        if text[1:].startswith(tuple(STALLS_MS))
    ]
    assert len(patterns) == len(STALLS_MS)
    longest = dict.fromkeys(STALLS_MS, 0)
    for text in refused:
        matches = [match for each in patterns if (match := each.fullmatch(text))]
        assert matches, text
        kind, waited = text[3 : text.index("]")], int(matches[0][1])
        assert waited >= LEAST_MS[kind], text
        longest[kind] = max(longest[kind], waited)
    assert all(longest[kind] >= ms for kind, ms in STALLS_MS.items()), refused


@pytest.mark.parametrize("client", ["java-5.5.0-json", "java-4.9.8-json"])
def test_a_java_client_is_told_why_it_has_to_wait(
    client: str,
    slow_target: RmqTarget,
    faults: Faults,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> None:
    sending = java(client).submit("error_busy", nameServer=slow_target.name_server,
                                  run=session_id, ms=SENDING_MS)  # fmt: skip
    hold_up(faults)
    answer = java(client).result(sending)
    check_texts(str(answer["refused"]).split("\n"))
    assert int(answer["stored"]) > 100


def test_a_python_client_is_told_why_it_has_to_wait(
    slow_target: RmqTarget, faults: Faults, session_id: str
) -> None:
    address = slow_target.name_server
    refused: list[str] = []
    stored: list[bytes] = []
    stop = threading.Event()
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "busy", session_id, 4)
    settings: dict[str, Any] = {"namesrv_addr": address, "retry_times_when_send_failed": 0}
    with Producer(f"busy-{session_id}", **settings) as producer:

        def send(name: int) -> None:
            number = 0
            while not stop.is_set():
                body = b"%d %d" % (name, number)
                number += 1
                time.sleep(name * 0.001)  # so that not all wait for the same write
                try:
                    producer.send(Message(topic, body))
                    stored.append(body)
                except RemoteError as error:
                    refused.append(f"{error.code} {error.remark}")

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        try:
            hold_up(faults)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    check_texts(refused)
    assert sorted(each.body for each in read_all(address, topic)) == sorted(stored)
