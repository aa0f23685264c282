"""Goal: a shard on a failing disk acknowledges nothing that is not so, answers everything once, and
heals.

Method: support/shard_worker.py in its own process behind the fault shim; plain sockets of this
process are its clients.
Cannot prove: what a real disk does after a power cut.
"""

import errno
import shutil
import threading
import time
from pathlib import Path

import pytest
from support.faults import Faults
from support.faulty_shard import Start
from support.shard import HELD_MS, Client, Shard, bodies, pull, request, send, send_batch
from support.waiting import HANG_S, wait_until_is
from support.wire_frames import batch_body

TRIES = 4
HALF_MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02"


def everything(client: Client, topic: str = "t") -> list[bytes]:
    """All messages that consumers are given."""
    found: list[bytes] = []
    while (reply := client.ask(pull("g", topic, len(found)))).code == 0:
        found += bodies(reply)
    assert reply.code in (19, 21), (reply.code, reply.remark)
    return found


@pytest.mark.parametrize("sync_flush", [False, True])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_sends_of_a_failed_write_are_each_refused_once_and_none_is_served(
    start: Start, faults: Faults, tmp_path: Path, sync_flush: bool, error: int
) -> None:
    worker = start(sync_flush=sync_flush)
    client, other = worker.connect(), worker.connect()
    assert client.ask(send("t", b"good", 1)).code == 0
    faults.fail("pwrite", error, path="commitlog/")
    client.put(*(send("t", b"bad", n) for n in range(100, 200)), send_batch("t", [b"bad"] * 3, 300))
    other.put(send("u", b"bad", 5))
    found = client.replies(101)
    assert sorted(found) == [*range(100, 200), 300]
    assert {reply.code for reply in found.values()} == {14}
    assert other.reply().code == 14
    faults.clear()
    for topic in ("t", "u"):
        # The log is poisoned until it is opened again.
        assert other.ask(send(topic, b"later", 6)).code == 14
    assert everything(other) == [b"good"]
    assert everything(other, "u") == []
    assert client.is_silent()
    assert worker.ask("stats")["poisoned"] == 1
    assert worker.stop() == 0
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("g", "t")
        again = shard.connect()
        assert everything(again) == [b"good"]
        assert again.ask(send("t", b"new")).fields["queueOffset"] == "1"


def test_a_sync_that_fails_while_a_batch_is_stored_ends_no_process(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    """The flusher's thread finds the failed sync while the reactor is in the middle of a batch.
    That does not happen in each try, but where it ended the process two of three runs failed."""
    # Without POP_CK and with checksums, which makes it slow.
    few = batch_body([(0, bytes(200), b"POP_CK\x01x\x02")] * 4_000)
    batch = send("t", few, code=320, m="true", one_way=True)

    def send_on(client: Client, ended: threading.Event) -> None:
        while not ended.is_set():
            client.put(batch)

    for number in range(TRIES):
        faults.sleep("fdatasync", 5_000, path="commitlog/")  # so that a sync is always under way
        worker = start(sync_flush=True, record_crc=True, folder=str(number))
        client, other, ended = worker.connect(), worker.connect(), threading.Event()
        sender = threading.Thread(target=send_on, args=(client, ended))
        sender.start()
        try:
            worker.until(lambda stats: stats["messages_in"] > 0)
            faults.clear()
            faults.fail("fdatasync", errno.EIO, path="commitlog/")
            worker.until(lambda stats: bool(stats["poisoned"]))
        finally:
            ended.set()
            sender.join()
        assert other.ask(send_batch("t", [b"later"] * 3)).code == 14
        faults.clear()
        assert worker.stop() == 0
        shutil.rmtree(tmp_path / str(number))


def hold_syncs(client: Client, faults: Faults) -> None:
    """From now on no sync ends. A slow one comes first, so that the flusher does the others."""
    faults.sleep("fdatasync", 100_000, path="commitlog/", count=1)
    assert client.ask(send("t", b"slow", 1)).code in (0, 10)
    faults.clear()
    faults.hold("fdatasync", path="commitlog/")


def test_a_late_sync_ack_never_reaches_another_client(start: Start, faults: Faults) -> None:
    worker = start(sync_flush=True, sync_flush_timeout_ms=60_000)
    first = worker.connect()
    hold_syncs(first, faults)
    first.put(send("t", b"late", 2), send_batch("t", [b"late"] * 2, 3))
    worker.until(lambda stats: stats["messages_in"] == 4)
    first.reset()
    worker.until(lambda stats: stats["connections"] == 0)
    second = worker.connect()
    second.put(send("t", b"own", 4))
    worker.until(lambda stats: stats["messages_in"] == 5)
    assert second.is_silent()
    faults.clear()
    assert second.reply().opaque == 4
    assert second.is_silent(0.2)
    assert everything(second) == [b"slow", b"late", b"late", b"late", b"own"]
    assert worker.stop() == 0


def test_sends_that_wait_too_long_for_the_disk_get_flush_disk_timeout_once(
    start: Start, faults: Faults
) -> None:
    worker = start(sync_flush=True, sync_flush_timeout_ms=200)
    client = worker.connect()
    hold_syncs(client, faults)
    client.put(
        *(send("t", b"x", n) for n in range(10, 20)), send_batch("t", [b"x"] * 2, 20),
        send("t", b"x", 21, i="WAIT\x01false\x02"),
    )  # fmt: skip
    found = client.replies(12)
    # Code 10 says: stored, not synced yet. Sends that do not wait for the disk are not held up.
    assert {n: reply.code for n, reply in found.items()} == {**dict.fromkeys(range(10, 21), 10),
                                                             21: 0}  # fmt: skip
    faults.clear()
    worker.until(lambda stats: stats["log_durable"] == stats["log_written"])
    assert client.is_silent(0.2)
    assert len(everything(client)) == 14


def test_queue_files_that_cannot_be_written_refuse_sends_until_they_can(
    start: Start, faults: Faults
) -> None:
    worker = start(queue_chunks=32)
    client = worker.connect()
    faults.fail("pwrite", errno.EIO, path="consumequeue/")
    acked = refused = opaque = 0
    while refused < 50:
        opaque += 1
        reply = client.ask(send_batch("t", [b"%d" % opaque] * 50, opaque))
        assert reply.opaque == opaque and reply.code in (0, 2, 14), reply.remark
        acked += reply.code == 0
        refused += reply.code != 0
        assert opaque < 5000, "never refused"
    assert acked > 0
    assert worker.ask("ranges")["t"] == [0, acked * 50]
    faults.clear()
    reply = wait_until_is(lambda: client.ask(send("t", b"again")), lambda reply: reply.code == 0)
    assert reply.fields["queueOffset"] == str(acked * 50)
    assert len(everything(client)) == acked * 50 + 1
    assert worker.stop() == 0


def commit(half: dict[str, str], opaque: int) -> bytes:
    """The end of a transaction. `half`: fields of the answer to its half message."""
    return request(
        37, opaque, producerGroup="P", tranStateTableOffset=half["queueOffset"],
        commitLogOffset=int(half["msgId"][-16:], 16), commitOrRollback=8,
        fromTransactionCheck=False, msgId="U",
    )  # fmt: skip


def test_what_one_turn_takes_beyond_the_room_of_queues_comes_when_their_files_can_be_written(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    """There is room for 59 entries, and a batch of 60 comes with a commit behind it in the same
    turn."""
    # Chunks of 50 entries: 30 for t, 2 for the half and op topics.
    worker = start(queue_chunks=32, transactions=True)
    client = worker.connect()
    faults.fail("pwrite", errno.EIO, path="consumequeue/")
    halves = [client.ask(send("t", b"half %d" % n, n, i=HALF_MARKS, f=4)) for n in (1, 2)]
    assert [half.code for half in halves] == [0, 0]
    assert client.ask(commit(halves[0].fields, 3)).code == 0
    batches = [[b"%d of %d" % (n, number) for n in range(60)] for number in range(25)]
    for batch in batches[:24]:
        assert client.ask(send_batch("t", batch)).code == 0
    client.put(send_batch("t", batches[24], 4) + commit(halves[1].fields, 5))
    assert [client.reply().code for _ in range(2)] == [0, 0]
    stats = worker.ask("stats")
    assert stats["log_dispatched"] < stats["log_written"]
    assert worker.ask("ranges")["t"] == [0, 1500]
    for topic in ("t", "u"):
        assert client.ask(send(topic, b"later")).code == 14
    assert worker.ask("stats")["poisoned"] == 0
    faults.clear()
    worker.until(lambda stats: stats["log_dispatched"] == stats["log_written"])
    expected = [b"half 1", *(body for batch in batches for body in batch), b"half 2"]
    assert everything(client) == expected
    assert client.ask(send("t", b"again")).code == 0
    assert worker.stop() == 0
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("g", "t")
        assert everything(shard.connect()) == [*expected, b"again"]


def test_each_of_many_sends_at_once_comes_or_is_refused_while_queue_files_cannot_be_written(
    start: Start, faults: Faults
) -> None:
    worker = start(queue_chunks=32)
    client = worker.connect()
    faults.fail("pwrite", errno.EIO, path="consumequeue/")
    acked: list[bytes] = []
    sent = 0
    while sent - len(acked) < 200:
        client.put(*(send("t", b"%d" % n, n) for n in range(sent, sent + 70)))
        sent += 70
        for number, reply in client.replies(70).items():
            assert reply.code in (0, 2, 14), reply.remark
            if reply.code == 0:
                acked.append(b"%d" % number)
        assert sent < 5000, "never refused"
    assert len(acked) >= 1600  # as many entries as there is memory for
    assert worker.ask("stats")["poisoned"] == 0
    faults.clear()
    worker.until(lambda stats: stats["log_dispatched"] == stats["log_written"])
    assert sorted(everything(client)) == sorted(acked)
    assert client.ask(send("t", b"again")).code == 0
    assert worker.stop() == 0


def test_a_full_disk_refuses_sends_and_serves_pulls_and_resumes_by_itself(
    start: Start, faults: Faults
) -> None:
    worker = start(segment_bytes=1 << 20)
    client, held = worker.connect(), worker.connect()
    faults.fail("fallocate", errno.ENOSPC, path="commitlog")
    acked = 0
    while (reply := client.ask(send("t", bytes(100_000), 1))).code == 0:
        acked += 1
        assert acked < 1000, "never full"
    end = time.monotonic() + HANG_S
    while reply.code == 2 and time.monotonic() < end:  # until the preparer has tried
        reply = client.ask(send("t", bytes(100_000), 1))
    assert reply.code == 14 and "disk is full" in (reply.remark or "")
    assert len(everything(client)) == acked
    held.put(pull("g", "t", acked, 9, HELD_MS))
    faults.clear()
    reply = wait_until_is(lambda: client.ask(send("t", b"again")), lambda reply: reply.code == 0)
    assert bodies(held.reply()) == [b"again"]
    assert worker.stop() == 0
