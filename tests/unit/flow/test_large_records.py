"""Goal: a record larger than any buffer, which a store of another broker may have, is given to who
consumes it, or refused with the way on.

Method: one core wrote the store, and another with smaller buffers serves it. Cannot show: what
becomes of a machine that has no memory for the record.
"""

from pathlib import Path
from typing import Any

from support.page_cache import drop_from_page_cache
from support.popping import POP, REVIVE_LOG, pop_fields
from support.shard import MIB, Client, Shard, bodies, pull, request, send

from rmq.names import TIMER_TOPIC

LARGE = bytes(range(256)) * (3 * MIB // 256)
SMALL_BUFFERS = {"frame_max_bytes": MIB, "message_max_bytes": MIB // 2}
SYSTEM_ERROR, SYSTEM_BUSY = 1, 2


def written(directory: Path, large: bytes = LARGE, **options: Any) -> None:
    with Shard(directory, **options) as shard:
        shard.topic("t")
        client = shard.connect()
        for body in (b"before", large, b"behind"):
            assert client.ask(send("t", body)).code == 0


def serving(directory: Path, **options: Any) -> Shard:
    return Shard(directory, **{**SMALL_BUFFERS, **options})


def ready(shard: Shard) -> Client:
    shard.topic("t")
    shard.group("g", "t")
    return shard.connect()


def test_it_is_pulled_as_it_was_stored(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path) as shard:
        client = ready(shard)
        found, offset = [], 0
        for _ in range(3):
            reply = client.ask(pull("g", "t", offset))
            found += bodies(reply)
            offset = int(reply.fields["nextBeginOffset"])
        assert (found, offset) == ([b"before", LARGE, b"behind"], 3)
        assert shard.until(lambda stats: stats["large_bytes"] == 0)["pulls_from_disk"] > 0


def test_who_does_not_read_it_holds_what_may_be_out(tmp_path: Path) -> None:
    size = 7 * MIB
    written(tmp_path, bytes(size), message_max_bytes=size + 1000)
    with serving(tmp_path, large_bytes=8 * MIB) as shard:
        client = ready(shard)
        slow = shard.connect(4096)
        slow.put(pull("g", "t", 1))
        shard.until(lambda stats: stats["pulls_found"] == 1)
        assert shard.core.stats()["large_bytes"] > size
        assert client.ask(pull("g", "t", 1)).code == SYSTEM_BUSY
        assert bodies(slow.reply()) == [bytes(size)]
        shard.until(lambda stats: stats["large_bytes"] == 0)
        assert bodies(client.ask(pull("g", "t", 1))) == [bytes(size)]


def test_one_that_is_larger_than_may_be_read_says_how_to_go_on(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path, large_bytes=MIB) as shard:
        client = ready(shard)
        reply = client.ask(pull("g", "t", 1))
        assert reply.code == SYSTEM_ERROR
        assert "--queue 0 --to 2 goes on" in (reply.remark or "")
        assert bodies(client.ask(pull("g", "t", 2))) == [b"behind"]


def test_it_is_popped_from_the_disk(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path) as shard:
        client = ready(shard)
        for topic in (TIMER_TOPIC, REVIVE_LOG):
            shard.topic(topic)
        shard.core.set_delay_levels([1000], [0])
        drop_from_page_cache(tmp_path / "store" / "commitlog")
        found: list[bytes] = []
        while len(found) < 3:
            reply = client.ask(request(POP, **pop_fields("g", "t", maxMsgNums=1)))
            found += bodies(reply)
        assert found == [b"before", LARGE, b"behind"]
        shard.until(lambda stats: stats["large_bytes"] == 0)
