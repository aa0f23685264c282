"""transientStorePoolEnable over a socket: a message is acknowledged in the pool, visible once it is
written, and refused when the pool is full.

NEVER keeps the committer from writing until it must, so that a test sees the time in between.
"""

from pathlib import Path

import pytest
from support.shard import HELD_MS, MIB, Shard, bodies, pull, send, send_batch

from rmq.broker.core_options import core_options, make_core, pool_bytes
from rmq.config import load_properties
from rmq.errors import ConfigError

NEVER = {"commit_least_pages": 1 << 20, "commit_interval_ms": 60_000, "commit_thorough_ms": 60_000}
POOL = {"pool_bytes": 16 * MIB}
NOT_FOUND = 19


def pooled(directory: Path, **options: object) -> Shard:
    return Shard(directory, **{**POOL, **options})


def prepared(shard: Shard) -> Shard:
    shard.topic("t")
    shard.group("g", "t")
    return shard


def test_a_send_is_acked_in_the_pool_and_seen_once_it_is_written(tmp_path: Path) -> None:
    with pooled(tmp_path, **NEVER) as shard:
        client = prepared(shard).connect()
        reply = client.ask(send("t", b"early", 1))
        assert (reply.code, reply.fields["queueOffset"]) == (0, "0")
        stats = shard.core.stats()
        assert stats["log_written"] == 0 < stats["log_appended"]
        assert client.ask(pull("g", "t")).code == NOT_FOUND
        assert shard.core.queue_range(b"t", 0) == (0, 0)
        client.put(send("t", b"x" * 1_000_000, 2), send("t", b"y" * 3_200_000, 3))
        assert set(client.replies(2)) == {2, 3}
        shard.until(lambda stats: stats["log_written"] == stats["log_appended"])
        assert bodies(client.ask(pull("g", "t")))[0] == b"early"
        assert shard.core.queue_range(b"t", 0) == (0, 3)


def test_a_held_pull_is_answered_when_the_committer_has_written(tmp_path: Path) -> None:
    with pooled(tmp_path, commit_thorough_ms=100, commit_interval_ms=20) as shard:
        puller = prepared(shard).connect()
        puller.put(pull("g", "t", hold_ms=HELD_MS))
        shard.until(lambda stats: stats["pulls_waiting"] == 1)
        shard.connect().ask(send("t", b"news"))
        assert bodies(puller.reply()) == [b"news"]


def test_a_clean_stop_loses_nothing_that_was_acked(tmp_path: Path) -> None:
    with pooled(tmp_path, **NEVER) as shard:
        client = prepared(shard).connect()
        client.put(*(send("t", b"%d" % number, number) for number in range(500)))
        assert len(client.replies(500)) == 500
        assert client.ask(send_batch("t", [b"a", b"b"], 900)).code == 0
        assert shard.core.stats()["log_written"] == 0
    with Shard(tmp_path) as shard:  # without a pool
        assert prepared(shard).core.queue_range(b"t", 0) == (0, 502)
        first = bodies(shard.connect().ask(pull("g", "t", 0)))
        assert first == [b"%d" % number for number in range(32)]


def test_what_has_to_be_on_the_disk_does_not_wait_for_the_committers_time(tmp_path: Path) -> None:
    """A stop needs this each time."""
    hour = dict.fromkeys(("commit_interval_ms", "commit_thorough_ms"), 3_600_000)
    with pooled(tmp_path, **{**NEVER, **hour}) as shard:
        assert prepared(shard).connect().ask(send("t", b"x", 1)).code == 0
        stats = shard.core.stats()
        assert stats["log_written"] < stats["log_appended"]
        shard.core.sync_log(stats["log_appended"])
        assert shard.core.log_range()[2] == stats["log_appended"]


def test_a_topic_removed_while_its_messages_are_in_the_pool_stays_away(tmp_path: Path) -> None:
    with pooled(tmp_path, **NEVER) as shard:
        client = prepared(shard).connect()
        shard.topic("gone")
        assert client.ask(send("gone", b"x", 1)).code == 0
        assert client.ask(send("t", b"y", 2)).code == 0
        shard.core.remove_topic(b"gone")
        shard.topic("gone")
        client.ask(send("t", b"z" * 4_100_000, 3))
        client.ask(send("t", b"z" * 100_000, 4))
        shard.until(lambda stats: stats["log_written"] == stats["log_appended"])
        assert shard.core.queue_range(b"t", 0) == (0, 3)
        assert shard.core.queue_range(b"gone", 0) == (0, 0)


def test_records_in_the_pool_fill_many_log_files_in_order(tmp_path: Path) -> None:
    small = {"segment_bytes": MIB, "record_max_bytes": 256 << 10, "pool_bytes": 2 * MIB}
    with pooled(tmp_path, **small) as shard:
        client = prepared(shard).connect()
        sent = []
        for number in range(600):
            body = b"%06d" % number * 2000
            while True:
                reply = client.ask(send("t", body, number))
                if reply.code == 0:
                    break
                assert reply.code == 2, reply.remark
            sent.append(body)
        shard.until(lambda stats: stats["log_written"] == stats["log_appended"])
        assert shard.core.stats()["log_rolls"] >= 6
        got: list[bytes] = []
        while len(got) < len(sent):
            got += bodies(client.ask(pull("g", "t", len(got))))
        assert got == sent


def test_the_latency_of_commits_is_counted(tmp_path: Path) -> None:
    with pooled(tmp_path) as shard:
        prepared(shard).connect().ask(send("t"))
        shard.until(lambda stats: stats["log_written"] == stats["log_appended"])
        counts, _ = shard.core.latencies()["commit"]
        assert sum(counts) == shard.core.stats()["log_commits"] == 1
        assert sum(shard.core.latencies()["append"][0]) == 1


def test_the_pools_size_is_that_of_so_many_log_files() -> None:
    def size(**settings: str) -> int:
        return pool_bytes(
            load_properties(None, {"mappedFileSizeCommitLog": "16777216", **settings})
        )

    assert size() == 0
    assert size(transientStorePoolEnable="true") == 64 * MIB
    assert size(transientStorePoolEnable="true", transientStorePoolSize="4") == 64 * MIB
    assert size(transientStorePoolEnable="true", transientStorePoolSize="1") == 16 * MIB
    assert size(transientStorePoolEnable="true", flushDiskType="SYNC_FLUSH") == 0
    assert size(transientStorePoolEnable="true", brokerRole="SYNC_MASTER") == 64 * MIB
    with pytest.raises(ConfigError, match="more than half of this machine"):
        size(transientStorePoolEnable="true", transientStorePoolSize="1024",
             mappedFileSizeCommitLog="1073741824")  # fmt: skip


@pytest.mark.parametrize(
    "replica",
    [{"brokerRole": "SLAVE", "brokerId": "1"},
     {"enableControllerMode": "true", "controllerAddr": "127.0.0.1:1"}],
)  # fmt: skip
def test_who_may_be_a_slave_has_no_pool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, replica: dict[str, str]
) -> None:
    """A slave tells its master where its files end; bytes in a pool would be behind that end, and
    nobody would cut them."""
    settings = {
        "storePathRootDir": str(tmp_path), "transientStorePoolEnable": "true",
        "transientStorePoolSize": "1", "mappedFileSizeCommitLog": "16777216",
        "rmqRingBytes": str(8 * MIB), "maxMessageSize": str(MIB), **replica,
    }  # fmt: skip
    make_core(load_properties(None, settings))
    assert "transientStorePoolEnable has no effect at a broker that is a slave" in caplog.text
    assert "store pool of" not in caplog.text


def test_settings_reach_the_core_by_rocketmqs_names() -> None:
    options = core_options(load_properties(None, {
        "transientStorePoolEnable": "true", "transientStorePoolSize": "1",
        "mappedFileSizeCommitLog": "16777216", "fastFailIfNoBufferInStorePool": "true",
        "commitIntervalCommitLog": "50", "commitCommitLogLeastPages": "8",
        "commitCommitLogThoroughInterval": "70",
    }))  # fmt: skip
    assert (options["pool_bytes"], options["pool_fail_fast"]) == (16 * MIB, True)
    assert options["commit_interval_ms"] == 50
    assert options["commit_least_pages"] == 8
    assert options["commit_thorough_ms"] == 70
