"""Clients and servers take their times from one place, which tests drive: rmq/base/clock.py. The
waits of their threads come from rmq/base/waits.py. (The event loop of a server is made by
clock.run; that of rmq.aio is the user's, and so is its clock.)
"""

import re

from support.source_tree import ROOT

FOLDERS = (
    *("rmq/client", "rmq/aio"),
    *("rmq/broker", "rmq/serving", "rmq/namesrv", "rmq/controller", "rmq/observe", "rmq/node"),
    "shards",
)
# Where no time of a client or a server is measured or waited for.
OTHERWISE = {
    "rmq/client/connection/instance.py": 1,  # a number to begin with
    "shards/bus_router.py": 1,  # a number that grows with each start of a supervisor
    "shards/command_client.py": 2,  # a command, which waits by the clock of ZeroMQ's poll
}

OF_THE_MACHINE = re.compile(
    r"\btime\.(?:time|monotonic|perf_counter|sleep)(?:_ns)?\(|threading\.Timer\(|datetime\.now\("
)
ASLEEP = re.compile(
    r"(?<!waits)\.(?:acquire|get|join|result|wait_for)\([^)\n]*(?:timeout|until)"
    r"|news\.wait\((?!\)|.*sleep_s)"
)


def test_clients_and_servers_take_no_time_from_elsewhere() -> None:
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            count = len(OF_THE_MACHINE.findall(text)) + len(ASLEEP.findall(text))
            if count:
                found[str(path.relative_to(ROOT))] = count
    assert found == OTHERWISE


def test_the_check_sees_a_planted_breach() -> None:
    for text in ("began = time.monotonic()", "time.sleep(1)", "time.time_ns()"):
        assert OF_THE_MACHINE.search(text), text
    for text in ("left.acquire(timeout=1)", "told.get(timeout=1)",
                 "future.result(timeout_ms / 1000)", "news.wait(left)"):  # fmt: skip
        assert ASLEEP.search(text), text
    for text in ("waits.get(told, timeout_s)", "news.wait(clock.sleep_s(left))"):
        assert not ASLEEP.search(text), text
