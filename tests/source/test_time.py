"""The client takes its times from rmq/base/clock.py, which tests drive, and its waits from
rmq/base/waits.py. (The event loop of rmq.aio is the user's, and so is the loop's clock.)
"""

import re

from support.source_tree import ROOT

# Files that take the machine's time, but not to measure or to wait.
OTHERWISE = {"rmq/client/connection/instance.py": 1}  # for a number to begin with

OF_THE_MACHINE = re.compile(
    r"\btime\.(?:time|monotonic|perf_counter|sleep)(?:_ns)?\(|threading\.Timer\(|datetime\.now\("
)
ASLEEP = re.compile(
    r"(?<!waits)\.(?:acquire|get|join|result|wait_for)\([^)\n]*(?:timeout|until)"
    r"|news\.wait\((?!\)|.*sleep_s)"
)


def test_the_client_takes_no_time_from_elsewhere() -> None:
    found = {}
    for folder in ("rmq/client", "rmq/aio"):
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
