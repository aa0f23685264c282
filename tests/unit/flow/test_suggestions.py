"""Where a pull's answer sends the client next: suggestWhichBrokerId, as the reactor computes it.

The memory of this machine is said to be 10,000 bytes, so a reader that is 4,000 bytes behind the
log's end counts as slow.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.shard import Shard, pull, send

OFF, ON, UNSET = 0, 1, 2
BODY = 900  # with this body a record has about 1000 bytes


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path, slave_read=ON, memory_bytes=10_000, memory_percent=40) as made:
        made.topic("t")
        made.group("g", "t")
        client = made.connect()
        for number in range(10):
            client.ask(send("t", bytes(BODY), number))
        yield made


def suggested(shard: Shard, offset: int, group: str = "g", **fields: object) -> int:
    reply = shard.connect().ask(pull(group, "t", offset, **fields))
    return int(reply.fields["suggestWhichBrokerId"])


def test_who_reads_far_behind_the_end_is_sent_to_the_slave(shard: Shard) -> None:
    assert suggested(shard, 0, maxMsgNums=1) == 1
    assert suggested(shard, 9, maxMsgNums=1) == 0
    # The last message of the answer is the one that counts.
    assert suggested(shard, 0, maxMsgNums=10) == 0
    # A reader that finds nothing is not behind.
    assert suggested(shard, 10) == 0


def test_the_group_says_who_reads_where(shard: Shard) -> None:
    shard.core.put_group(b"g", 1, 1, 3, 2)
    assert suggested(shard, 0, maxMsgNums=1) == 2
    assert suggested(shard, 9, maxMsgNums=1) == 3
    assert suggested(shard, 10) == 3


def test_a_reader_whose_filter_passes_nothing_is_slow_as_well(shard: Shard) -> None:
    shard.group("filtered", "t", tags=["rare"])
    client = shard.connect()
    for number in range(20_000):
        client.put(send("t", b"x", number))
    client.replies(20_000)
    reply = client.ask(pull("filtered", "t", 0))
    assert reply.code == 20
    # So many entries are not looked at in one pull.
    assert int(reply.fields["nextBeginOffset"]) < 20_000
    assert reply.fields["suggestWhichBrokerId"] == "1"


def test_the_limit_and_the_setting_follow_at_run_time(shard: Shard) -> None:
    shard.core.set_option("memory_percent", 100)
    assert suggested(shard, 2, maxMsgNums=1) == 0
    shard.core.set_option("memory_percent", 40)
    assert suggested(shard, 2, maxMsgNums=1) == 1
    shard.core.set_option("slave_read", OFF)
    assert suggested(shard, 2, maxMsgNums=1) == 0


@pytest.mark.parametrize("setting", [OFF, UNSET])
def test_a_master_sends_nobody_away_unless_it_is_told_to(tmp_path: Path, setting: int) -> None:
    with Shard(tmp_path, slave_read=setting, memory_bytes=100) as shard:
        shard.topic("t")
        shard.group("g", "t")
        shard.core.put_group(b"g", 1, 1, 3, 2)
        client = shard.connect()
        client.ask(send("t", bytes(BODY), 1))
        assert suggested(shard, 0) == suggested(shard, 1) == 0
