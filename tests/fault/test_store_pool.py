"""The store pool on a slow disk, on a failing disk, and after kill -9.

It promises what RocketMQ's pool promises and no more: what consumers saw stays, a clean stop loses
nothing, a kill may lose what was acknowledged but not written. Real processes behind the fault
shim.
"""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.broker_process import PATIENT, READY, words
from support.rmq_process import AnyProcess, start_rmq
from support.shard import MIB, Client, bodies, pull, request, send
from support.waiting import wait_until, wait_until_is

POOL = (
    "--set", "transientStorePoolEnable=true", "--set", "transientStorePoolSize=1",
    "--set", "mappedFileSizeCommitLog=16777216", *PATIENT,
)  # fmt: skip
LOG = "commitlog/"


@contextmanager
def broker(directory: Path, faults=None, *options: str) -> Iterator[tuple[AnyProcess, int]]:
    environment = faults.environment() if faults is not None else None
    with (directory / "broker.txt").open("a") as log:
        process = start_rmq(
            words(directory / "store", *POOL, *options), stderr=log, environment=environment
        )
    try:
        line = process.stdout.readline()
        found = READY.search(line)
        assert found is not None, line + (directory / "broker.txt").read_text()
        yield process, int(found["address"].rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def send_until_refused(client: Client, most: int = 1000) -> tuple[int, int, str]:
    """Sends at most so many messages of 100 KiB; returns (acks, code of the refusal, its
    remark)."""
    acked = 0
    while acked < most:
        reply = client.ask(send("TBW102", b"x" * 100_000, 7))
        if reply.code != 0:
            return acked, reply.code, reply.remark or ""
        acked += 1
    return acked, 0, ""


def test_a_slow_disk_is_not_felt_while_the_pool_has_room(tmp_path: Path, faults) -> None:
    with broker(tmp_path, faults) as (_, port):
        client = Client(port)
        assert client.ask(send("TBW102", b"first")).code == 0
        faults.hold("pwrite", path=LOG)
        for number in range(100):  # they are answered although no write has ended
            assert client.ask(send("TBW102", b"x" * 10_000, number)).code == 0
        faults.clear()
        client.close()


def test_a_full_pool_refuses_at_once_when_it_is_told_to(tmp_path: Path, faults) -> None:
    with broker(tmp_path, faults, "--set", "fastFailIfNoBufferInStorePool=true") as (_, port):
        client = Client(port)
        assert client.ask(send("TBW102", b"first")).code == 0
        faults.hold("pwrite", path=LOG)
        acked, code, remark = send_until_refused(client)  # before any write has ended
        assert (code, remark.partition("]")[0]) == (2, "[REJECTREQUEST"), remark
        assert 100 < acked < 170  # the pool has 16 MiB
        faults.clear()
        wait_until_is(lambda: client.ask(send("TBW102", b"again")), lambda reply: reply.code == 0)
        client.close()


def test_a_full_pool_waits_for_the_disk_when_it_is_not(tmp_path: Path, faults) -> None:
    with broker(tmp_path, faults) as (_, port):
        client = Client(port)
        assert client.ask(send("TBW102", b"first")).code == 0
        faults.sleep("pwrite", 300_000, path=LOG)
        acked, code, remark = send_until_refused(client, 220)  # more than the pool holds
        assert (acked, code) == (220, 0), remark
        client.close()


def test_a_failed_write_poisons_the_log_and_what_comes_after_is_refused(
    tmp_path: Path, faults
) -> None:
    with broker(tmp_path, faults) as (_, port):
        client = Client(port)
        assert client.ask(send("TBW102", b"good")).code == 0
        file = tmp_path / "store" / "commitlog" / f"{0:020}"
        wait_until(lambda: b"good" in file.read_bytes())
        faults.clear()
        faults.fail("pwrite", errno.EIO, path=LOG)
        acked, code, remark = send_until_refused(client)
        assert acked >= 1  # the send got into the pool before the committer failed
        assert code == 14 and "poisoned" in remark
        client.close()


def finds(client: Client, key: str) -> bool:
    code = client.ask(request(
        12, topic="TBW102", key=key, maxNum=32, beginTimestamp=0, endTimestamp=2**63 - 1
    )).code  # fmt: skip
    assert code in (0, 22)  # QUERY_NOT_FOUND
    return code == 0


def test_a_record_that_is_half_written_when_the_indexer_comes_is_found(
    tmp_path: Path, faults
) -> None:
    """The committer writes 4 MiB at once, which end in the middle of the third record; the indexer
    must find that record later."""
    with broker(tmp_path, faults) as (_, port):
        client = Client(port)
        faults.hold("pwrite", path=LOG)
        for number in range(3):
            body = bytes(3 * MIB)
            assert client.ask(send("TBW102", body, i=f"KEYS\x01k{number}\x02")).code == 0
            wait_until(lambda: faults.hits(0) == 1)  # the write of the first record
        for _ in range(2):
            faults.let_go()
            wait_until(lambda: faults.hits(0) == 1)  # the next write
        wait_until(lambda: finds(client, "k1"))
        assert not finds(client, "k2")
        faults.clear()
        assert client.ask(send("TBW102", b"end", i="KEYS\x01end\x02")).code == 0
        wait_until(lambda: finds(client, "end"))
        assert finds(client, "k2")
        client.close()


def test_after_a_kill_the_log_is_a_prefix_and_what_was_seen_is_in_it(tmp_path: Path) -> None:
    seen: list[bytes] = []
    sent = 0
    for _ in range(4):
        with broker(tmp_path) as (process, port):
            client = Client(port)
            kept = len(seen)
            held = pull_all(client, 0)
            assert held[:kept] == seen, "a message that a consumer saw is gone"
            assert numbers(held) == sorted(set(numbers(held)))
            for _ in range(300):
                client.put(*(send("TBW102", b"%d" % n, n) for n in range(sent, sent + 10)))
                assert [reply.code for reply in client.replies(10).values()] == [0] * 10
                sent += 10
            seen = pull_more(client, kept)
            client.put(*(send("TBW102", b"%d" % n, n) for n in range(sent, sent + 10)))
            client.replies(10)
            sent += 10
            process.send_signal(signal.SIGKILL)
            process.wait()
            client.close()


def pull_more(client: Client, kept: int) -> list[bytes]:
    """What consumers see once the committer has written more than the first `kept` messages."""
    wait_until(lambda: len(pull_all(client, 0)) > kept)
    return pull_all(client, 0)


def numbers(held: list[bytes]) -> list[int]:
    return [int(body) for body in held]


def pull_all(client: Client, offset: int) -> list[bytes]:
    """Everything that queue 0 of the topic shows now. The broker's preset group may pull
    anything."""
    got: list[bytes] = []
    while True:
        reply = client.ask(
            pull("TOOLS_CONSUMER", "TBW102", offset + len(got), sysFlag=4, subscription="*")
        )
        if reply.code != 0:
            return got
        got += bodies(reply)
