"""Which marks of the log an answer waits for: its file, this disk, the slaves, or several."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shard import Client, Shard, send, send_batch

from rmq.errors import RmqError

OK, FLUSH_SLAVE_TIMEOUT = 0, 12
WAIT_FALSE = "WAIT\1false\2"


def end_of_log(shard: Shard) -> int:
    return shard.core.log_range()[1]


def asked(shard: Shard, client: Client, frame: bytes) -> int:
    """Sends a request and waits until its record is in the log's file. Returns where the record
    ends."""
    before = end_of_log(shard)
    client.put(frame)
    shard.until(lambda _: end_of_log(shard) > before)
    return end_of_log(shard)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_an_answer_waits_for_the_slaves(tmp_path: Path, sync_flush: bool) -> None:
    with Shard(tmp_path, sync_flush=sync_flush, sync_replicas=True, slave_timeout_ms=600_000) as s:
        s.topic("t")
        client = s.connect()
        ends = [asked(s, client, send("t", opaque=n)) for n in (1, 2, 3)]
        if sync_flush:
            s.until(lambda _: s.core.log_range()[2] == ends[-1])
        assert client.is_silent()
        s.core.set_replicated(ends[0] - 1)
        assert client.is_silent()
        s.core.set_replicated(ends[1])
        replies = client.replies(2)
        assert {n: r.code for n, r in replies.items()} == {1: OK, 2: OK}
        assert client.is_silent()
        s.core.set_replicated(ends[2])
        assert client.reply().opaque == 3


def test_who_does_not_wait_passes_those_that_do(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_flush=True, sync_replicas=True, slave_timeout_ms=600_000) as s:
        s.topic("t")
        client = s.connect()
        asked(s, client, send("t", opaque=1))
        assert client.ask(send("t", opaque=2, i=WAIT_FALSE)).opaque == 2
        assert client.ask(send_batch("t", [b"a", b"b"], opaque=3, i=WAIT_FALSE)).opaque == 3
        end = asked(s, client, send_batch("t", [b"c", b"d"], opaque=4))
        assert client.is_silent()
        s.core.set_replicated(end)
        assert sorted(client.replies(2)) == [1, 4]


def test_the_disk_alone_is_not_enough_nor_are_the_slaves(tmp_path: Path) -> None:
    """If the slave is ahead of this disk, the answer leaves with the sync and not before."""
    with Shard(tmp_path, sync_flush=True, sync_replicas=True, slave_timeout_ms=600_000) as s:
        s.topic("t")
        client = s.connect()
        end = asked(s, client, send("t"))
        s.core.set_replicated(end)
        assert client.reply().code == OK
        assert s.core.log_range()[2] >= end


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_slave_that_is_late_is_told_as_such(tmp_path: Path, sync_flush: bool) -> None:
    with Shard(tmp_path, sync_flush=sync_flush, sync_replicas=True, slave_timeout_ms=50) as s:
        s.topic("t")
        client = s.connect()
        reply = client.ask(send("t"))
        assert reply.code == FLUSH_SLAVE_TIMEOUT
        assert reply.remark is not None and "slaveTimeout" in reply.remark
        # The message is stored all the same, and the reply says where.
        assert reply.fields["queueOffset"] == "0"


def test_the_policy_can_change_while_answers_wait(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_flush=False, sync_replicas=True, slave_timeout_ms=600_000) as s:
        s.topic("t")
        client = s.connect()
        end = asked(s, client, send("t", opaque=1))
        s.core.set_option("sync_replicas", 0)
        assert client.ask(send("t", opaque=2)).opaque == 2
        assert client.is_silent()
        s.core.set_replicated(end)
        assert client.reply().opaque == 1


def test_a_slave_that_says_too_much_is_not_believed(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_replicas=True, slave_timeout_ms=600_000) as s:
        s.topic("t")
        client = s.connect()
        end = asked(s, client, send("t", opaque=1))
        for offset in (end + 1, 2**63 - 1, -1):
            with pytest.raises(RmqError, match="a slave says"):
                s.core.set_replicated(offset)
        assert client.is_silent()
        s.core.set_replicated(end)
        assert client.reply().opaque == 1
