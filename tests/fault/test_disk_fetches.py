"""Goal: reads of the disk for requests are bounded, are answered whatever happens to them, and
leave no buffer behind; no other request waits for them.

Method: a shard process behind the fault shim, whose log is not in memory; pread is held, fails or
is slow. Cannot prove: how long a real disk takes.
"""

import errno
from pathlib import Path
from typing import Any

import pytest
from support.faults import Faults
from support.faulty_shard import Start, Worker
from support.page_cache import drop_page_cache, is_cached
from support.shard import MIB, Client, bodies, pull, send
from support.waiting import wait_until

from rmq.format.remoting import Command

MESSAGES, BYTES = 40, 100_000
BUFFERS = 8  # jumbo buffers, and so the number of fetches for pulls
READER_JOBS = 256  # READ_JOBS_MAX of cext/store/log/disk_reader.pxd
SUCCESS, SYSTEM_ERROR, SYSTEM_BUSY, TOPIC_NOT_EXIST, RETRY = 0, 1, 2, 17, 20


def body(number: int) -> bytes:
    return b"%06d" % number + bytes(BYTES)


def forgotten(start: Start, directory: Path, **options: Any) -> Worker:
    """A shard whose first messages of topic t are only on the disk. It has no key index, because
    one that is behind would bring pages of the log back into memory."""
    small = {"ring_bytes": MIB, "record_max_bytes": MIB // 2, "jumbo_buffers": BUFFERS,
             "index_dir": ""}  # fmt: skip
    worker = start(**{**small, **options})
    client = worker.connect()
    for number in range(MESSAGES):
        assert client.ask(send("t", body(number), number)).code == SUCCESS
    worker.until(lambda stats: stats["log_written"] == stats["log_appended"])
    wait_until(lambda: is_on_disk_alone(directory / "store" / "commitlog"))
    return worker


def is_on_disk_alone(log: Path) -> bool:
    """Whether the messages that are pulled are only on the disk. A page that is being written stays
    in memory for a moment."""
    drop_page_cache(log)
    return not is_cached(min(log.iterdir()), 4 * BYTES)


def in_flight(worker: Worker, count: int) -> None:
    worker.until(lambda stats: stats["fetches_in_flight"] == count)


def all_given_back(worker: Worker) -> None:
    worker.until(lambda pools: pools["fetch"][2] == pools["pull"][2] == 0, "pools")


def first_of(reply: Command) -> bytes:
    assert reply.code == SUCCESS, reply.remark
    return bodies(reply)[0]


def ask_many(client: Client, count: int) -> None:
    client.put(*[pull("g", "t", 0, opaque=opaque) for opaque in range(count)])


def test_as_many_read_as_there_are_buffers_and_the_next_are_refused(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    worker = forgotten(start, tmp_path)
    client = worker.connect()
    faults.hold("pread", path="commitlog/")
    ask_many(client, BUFFERS + 3)
    refused = client.replies(3)
    assert {reply.code for reply in refused.values()} == {SYSTEM_BUSY}
    assert all("too many pulls read from disk" in reply.remark for reply in refused.values())
    in_flight(worker, BUFFERS)
    assert worker.ask("pools")["fetch"][2] == BUFFERS
    # A client that needs no disk is served meanwhile.
    assert worker.connect().ask(send("u", b"beside it")).code == SUCCESS
    faults.clear()
    assert {first_of(reply) for reply in client.replies(BUFFERS).values()} == {body(0)}
    all_given_back(worker)


def test_a_reader_takes_256_and_the_next_are_refused(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    # There are reply buffers for all answers, so that a client may be slow: without free buffers a
    # client that does not take its answers at once is closed.
    worker = forgotten(start, tmp_path, jumbo_buffers=READER_JOBS + 4, pulls_max=2 * READER_JOBS,
                       reply_buffers=4 * READER_JOBS, frame_max_bytes=MIB)  # fmt: skip
    client = worker.connect()
    faults.hold("pread", path="commitlog/")
    ask_many(client, READER_JOBS + 2)
    refused = client.replies(2)
    assert {reply.code for reply in refused.values()} == {SYSTEM_BUSY}
    assert all("disk readers are behind" in reply.remark for reply in refused.values())
    in_flight(worker, READER_JOBS)
    faults.clear()
    for reply in client.replies(READER_JOBS).values():
        assert first_of(reply) == body(0)
    all_given_back(worker)


def test_who_leaves_while_its_read_is_under_way_leaves_nothing_behind(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    worker = forgotten(start, tmp_path)
    connections = worker.ask("stats")["connections"]
    faults.hold("pread", path="commitlog/")
    gone = worker.connect()
    ask_many(gone, 3)
    in_flight(worker, 3)
    gone.reset()
    worker.clients.remove(gone)
    worker.until(lambda stats: stats["connections"] == connections)
    newer = worker.connect()  # it gets the slot of the client that left
    faults.clear()
    all_given_back(worker)
    assert newer.is_silent()
    assert first_of(newer.ask(pull("g", "t", 0))) == body(0)


def test_a_topic_that_goes_while_it_is_read_is_kept_until_then(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    worker = forgotten(start, tmp_path)
    client = worker.connect()
    faults.hold("pread", path="commitlog/")
    ask_many(client, 3)
    in_flight(worker, 3)
    worker.ask("renew")
    worker.until(lambda stats: stats["removed_freed"] == 1)  # the other topic is freed
    assert worker.ask("stats")["removed_waiting"] == 2, "the topic and the group's counter"
    faults.clear()
    assert {reply.code for reply in client.replies(3).values()} <= {SUCCESS, TOPIC_NOT_EXIST}
    all_given_back(worker)
    worker.until(lambda stats: stats["removed_freed"] == 3)
    assert client.ask(send("t", b"newer")).fields["queueOffset"] == "0"
    assert first_of(client.ask(pull("g", "t", 0))) == b"newer"


def test_a_disk_that_cannot_be_read_is_told_and_served_when_it_is_well(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    worker = forgotten(start, tmp_path)
    client = worker.connect()
    faults.fail("pread", errno.EIO, path="commitlog/")
    reply = client.ask(pull("g", "t", 3))
    while reply.code == RETRY:  # its entry is in a file already, and was compared with the log
        reply = client.ask(pull("g", "t", 3))
    assert reply.code == SYSTEM_ERROR
    assert "queue 0 offset 3" in reply.remark
    assert faults.hits(0) > 0
    all_given_back(worker)
    faults.clear()
    assert first_of(client.ask(pull("g", "t", 3))) == body(3)


def test_a_read_that_fails_once_gives_an_error_or_the_message(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    """The message comes if its entry is in a file, because that entry is then compared with the
    log, which reads it again."""
    worker = forgotten(start, tmp_path)
    client = worker.connect()
    faults.fail("pread", errno.EIO, path="commitlog/", count=1)
    reply = client.ask(pull("g", "t", 3))
    assert faults.hits(0) == 1
    assert reply.code == SYSTEM_ERROR or first_of(reply) == body(3)
    assert first_of(client.ask(pull("g", "t", 3))) == body(3)
    all_given_back(worker)


@pytest.mark.parametrize("pulls", [1, BUFFERS])
def test_a_stop_waits_for_the_reads_that_are_under_way(
    start: Start, faults: Faults, tmp_path: Path, pulls: int
) -> None:
    worker = forgotten(start, tmp_path)
    client = worker.connect()
    faults.sleep("pread", 300_000, path="commitlog/", count=1)
    ask_many(client, pulls)
    wait_until(lambda: faults.hits(0) == 1)
    worker.ask("stop")
    assert {first_of(reply) for reply in client.replies(pulls).values()} == {body(0)}
