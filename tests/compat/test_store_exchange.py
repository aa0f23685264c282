"""A store directory goes from one broker to the other and back.

The first broker is filled (topics with 1, 3 and 8 queues, tags, keys, properties, batches, several
segments of 1 MiB, group offsets) and read completely. It ends, by SIGTERM or by SIGKILL, and the
other broker opens the same directory. It must show the same: every message with every field, the
bounds of every queue, every offset, search and view by id. Then it appends, ends, and the first one
must show all that. With --target=apache both are Apache's.

The second broker must also find every message by key and by unique id, from index files that the
first one wrote. The exception is Apache after a kill: it drops index files that are younger than
the checkpoint and fills them again only as far back as it recovers, so it may miss some.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.runner import ScenarioRunner
from compat.targets import Target, make_target

from rmq.demo.ports import free_port
from rmq.offline.checker import check_store

SETTINGS = {
    "mappedFileSizeCommitLog": str(1024 * 1024),
    # Records must fit a segment.
    "maxMessageSize": str(256 * 1024),
    "flushConsumerOffsetInterval": "1000",
    # Segments of the other broker must not be deleted because of their age or a full disk.
    "fileReservedTime": "720",
}
FIRST_COUNT = 600
MORE_COUNT = 200
# Apache writes offsets for the first time 10 s after its start, whatever the interval. rmq writes
# what it has indexed every 15 s: after a kill it indexes the rest again, and only then is that in
# the files.
FLUSH_SECONDS = 17.0


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert after["offsets"] == before["offsets"]
    differing = [
        pair
        for pair in zip(before["messages"], after["messages"], strict=False)
        if len({*pair}) > 1
    ]
    assert not differing, f"{len(differing)} differ, the first: {differing[0]}"
    assert len(after["messages"]) == len(before["messages"])


def check_files(store: Path) -> None:
    """`rmq store check` finds the files sound, whichever broker wrote them."""
    report = check_store(store)
    assert report.problems == [], report
    assert report.counts["index_entries"] > FIRST_COUNT


@pytest.mark.parametrize("manner", ["clean", "kill"])
@pytest.mark.parametrize("first", ["apache", "rmq"])
def test_a_store_is_read_and_continued_by_the_other_broker(
    kind: str,
    tmp_path: Path,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
    first: str,
    manner: str,
) -> None:
    if kind == "apache" and first == "rmq":
        pytest.skip("the target is Apache alone")
    kinds = [first, "apache" if first == "rmq" or kind == "apache" else "rmq"]
    port = free_port(2, 1)  # the same for both, because message ids contain the broker's address
    store = tmp_path / "store"
    name = f"exchange_{first}_{manner}"

    def ask(name_server: str, scenario: str, **arguments: object) -> dict[str, Any]:
        return java("java-5.5.0-json").run(
            scenario, nameServer=name_server, run=session_id, **{"as": name}, **arguments
        )

    one = make_target(kinds[0], tmp_path / "one", SETTINGS, store=store, port=port)
    other = make_target(kinds[1], tmp_path / "other", SETTINGS, store=store, port=port)

    def check_keys(target: Target) -> None:
        answer = ask(target.name_server, "exchange_query")
        assert answer["asked"] > 200
        assert answer["wrong"] == []
        if target.kind == "rmq" or manner == "clean":
            assert answer["missing"] == []

    try:
        one.start()
        ask(one.name_server, "exchange_fill", first=0, count=FIRST_COUNT)
        filled = ask(one.name_server, "exchange_read")
        # Every fiftieth send was a batch of five messages.
        assert len(filled["messages"]) == FIRST_COUNT + FIRST_COUNT // 50 * 4
        assert filled["viewed"] > 10
        assert len(list((store / "commitlog").iterdir())) >= 2
        time.sleep(FLUSH_SECONDS)
        one.end(manner)
        one.stop()
        check_files(store)
        other.start()
        compare(filled, ask(other.name_server, "exchange_read"))
        check_keys(other)
        ask(other.name_server, "exchange_fill", first=FIRST_COUNT, count=MORE_COUNT)
        continued = ask(other.name_server, "exchange_read")
        assert len(continued["messages"]) > len(filled["messages"]) + MORE_COUNT
        time.sleep(FLUSH_SECONDS)
        other.end(manner)
        other.stop()
        check_files(store)
        one.start()
        compare(continued, ask(one.name_server, "exchange_read"))
        check_keys(one)
    finally:
        one.stop()
        other.stop()
