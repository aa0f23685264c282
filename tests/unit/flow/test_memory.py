"""Goal: all memory of the data path is taken at the start, from one sealed arena, and whatever a
message needs later is in it.

Method: the counters of a real core. Cannot prove: that no page comes from another NUMA node,
because this machine has one (tests/unit/memory/test_region.py asks the kernel for the policy of a
range).
"""

import gc
import os
import re
from pathlib import Path

import pytest
from support.shard import Shard, pull, send


def arena(shard: Shard) -> dict[str, int]:
    return {
        name.removeprefix("memory_"): value
        for name, value in shard.core.stats().items()
        if name.startswith("memory_")
    }


def test_the_arena_is_as_large_as_its_users_said_and_sealed(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        memory = arena(shard)
        assert memory["used"] == memory["bytes"] > 100 << 20
        assert (memory["sealed"], memory["refusals"]) == (1, 0)
        for _, (size, count, in_use, high_water, refusals) in shard.core.pools().items():
            assert in_use <= high_water <= count
            assert size > 0
            assert refusals == 0


def test_a_core_that_was_never_opened_closes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    kept = os.dup(0)
    try:
        os.dup2(os.open(tmp_path, os.O_RDONLY), 0)
        before = os.fstat(0).st_ino
        del Shard(tmp_path).core
        gc.collect()
        assert os.fstat(0).st_ino == before
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize(
    "more", [{}, {"pool_bytes": 1 << 25}, {"connections_max": 5, "pulls_max": 3}]
)
def test_whatever_the_settings_the_sum_is_right(tmp_path: Path, more: dict[str, int]) -> None:
    with Shard(tmp_path, **more) as shard:
        memory = arena(shard)
        assert memory["used"] == memory["bytes"]


def test_traffic_takes_nothing_more(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("g", "t")
        client = shard.connect()
        before = arena(shard)
        for number in range(300):
            assert client.ask(send("t", b"x" * 50_000, opaque=number)).code == 0
        for offset in range(0, 300, 10):
            assert client.ask(pull("g", "t", offset=offset, opaque=1000 + offset)).code == 0
        assert arena(shard) == before
        pools = shard.core.pools()
        assert pools["reply"][3] > 0
        assert pools["pull"][3] > 0


def test_the_node_asked_for_is_that_of_the_arena_and_the_ring(tmp_path: Path) -> None:
    with Shard(tmp_path, node=0) as shard:
        assert (arena(shard)["node"], arena(shard)["node_error"]) == (0, 0)
        policies = Path("/proc/self/numa_maps")
        if not policies.exists():
            pytest.skip("a kernel without NUMA")
        text = policies.read_text()
        assert re.search(r"prefer(=|:|\S* )\S*.*rmq-ring", text), "the ring is not bound"
        bound = [line for line in text.splitlines() if " prefer" in line and "file=" not in line]
        assert bound, "the arena is not bound"


def test_a_node_that_is_not_there_is_told_and_no_reason_not_to_serve(tmp_path: Path) -> None:
    with Shard(tmp_path, node=1023) as shard:
        memory = arena(shard)
        assert (memory["node"], memory["node_error"]) == (-1, 22)
        shard.topic("t")
        assert shard.connect().ask(send("t", b"hello")).code == 0


def test_the_store_pool_is_a_pool_among_pools(tmp_path: Path) -> None:
    with Shard(tmp_path, pool_bytes=1 << 25) as shard:
        shard.topic("t")
        client = shard.connect()
        for number in range(20):
            assert client.ask(send("t", b"x" * 50_000, opaque=number)).code == 0
        size, count, in_use, high_water, refusals = shard.core.pools()["store"]
        assert size * count == 1 << 25
        assert in_use <= high_water <= count
        assert high_water * size >= 50_000
        assert refusals == 0
    with Shard(tmp_path) as shard:
        assert "store" not in shard.core.pools()
