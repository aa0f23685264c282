"""What clients may hold that never end their requests, or never say anything, and who gets it then.

Method: a real core with few buffers, real sockets, counters. Not shown here: a broker process with
thousands of such clients (tests/fault/test_deaf_clients.py).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.shard import MIB, Client, Shard, pull, request, send
from support.waiting import wait_until

pytestmark = pytest.mark.still_clock

LARGE = send("t", bytes(2 * MIB), 5)
HALF = LARGE[:MIB]


@contextmanager
def serving(directory: Path, **options: Any) -> Iterator[Shard]:
    """A shard with topic t."""
    with Shard(directory, **options) as shard:
        shard.topic("t")
        yield shard


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def stored(client: Client, frame: bytes = LARGE) -> None:
    """The large request is taken in the end. The client sends it again when it is refused."""

    def is_taken() -> bool:
        reply = client.ask(frame)
        assert reply.code in (0, 2), reply.remark
        return reply.code == 0

    wait_until(is_taken)


def halves(shard: Shard, count: int) -> list[Client]:
    """Clients that send half a frame and nothing else, one after the other; the core has received
    it all."""
    clients = []
    for _ in range(count):
        before = shard.core.stats()["received_bytes"]
        client = shard.connect()
        client.put(HALF)
        clients.append(client)
        shard.until(lambda now, before=before: now["received_bytes"] >= before + len(HALF))
    return clients


def test_half_frames_of_strangers_leave_buffers_to_who_has_been_served(tmp_path: Path) -> None:
    with serving(tmp_path, jumbo_buffers=16) as shard:
        known = shard.connect()
        assert known.ask(send("t", b"x", 1)).code == 0
        halves(shard, 30)
        assert shard.core.stats()["half_frames"] == 6
        assert known.ask(LARGE).code == 0  # at once, and no connection was closed for it
        stranger = shard.connect()
        stored(stranger)  # for a new connection one that makes no progress is closed
        assert shard.core.stats()["connections_closed_slow"] >= 1


def test_half_frames_of_one_address_leave_buffers_to_answers(tmp_path: Path) -> None:
    with serving(tmp_path, jumbo_buffers=16) as shard:
        clients = [shard.connect() for _ in range(20)]
        for client in clients:
            assert client.ask(send("t", b"x", 1)).code == 0
        for client in clients:
            client.put(HALF)
        shard.until(lambda now: now["received_bytes"] >= 20 * len(HALF))
        assert shard.core.stats()["half_frames"] <= 8
        known = shard.connect()
        assert known.ask(send("t", b"x", 1)).code == 0
        stored(known)


def test_what_has_come_of_half_frames_is_bounded_in_bytes(tmp_path: Path) -> None:
    limits = {"half_frame_bytes": 8 * MIB, "half_frame_bytes_of_address": 5 * MIB}
    with serving(tmp_path, jumbo_buffers=32, **limits) as shard:
        halves(shard, 20)
        assert shard.core.stats()["half_frame_bytes"] <= 5 * MIB
        known = shard.connect()
        assert known.ask(send("t", b"x", 1)).code == 0
        stored(known)
        stored(known)


def test_many_clients_of_one_host_send_large_messages_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small machine nearly all bytes of every request come before the first request is
    complete."""
    monkeypatch.setattr("rmq.broker.core_options.memory_bytes", lambda: 1024 * MIB)
    frame = send("t", bytes(8_000_000), 5)
    options = {"jumbo_buffers": 128, "segment_bytes": 256 * MIB, "message_max_bytes": 8_000_000}
    with serving(tmp_path, **options) as shard:
        shard.core.set_option("fast_failure", 0)  # a disk may need its time for 160 MB
        shard.core.set_option("page_cache_busy_ms", 3_600_000)  # and for their blocks
        clients = [shard.connect() for _ in range(20)]
        for client in clients:
            client.put(frame[: -64 * 1024])
        shard.until(lambda now: now["received_bytes"] >= 20 * (len(frame) - 64 * 1024))
        for client in clients:
            client.put(frame[-64 * 1024 :])
        assert [client.reply().code for client in clients] == [0] * 20
        counts = shard.core.stats()
        assert counts["busy_replies"] == counts["connections_closed_slow"] == 0


@pytest.mark.parametrize("fields", [0, 70], ids=["few fields", "too many"])
def test_a_large_frame_beyond_the_bytes_is_refused_as_a_whole(tmp_path: Path, fields: int) -> None:
    """The rest of the frame is thrown away, and the request behind it is served."""
    limits = {"half_frame_bytes": 8 * MIB, "half_frame_bytes_of_address": 1 * MIB}
    with serving(tmp_path, jumbo_buffers=8, **limits) as shard:
        client = shard.connect()
        more = {f"field{number}": number for number in range(fields)}
        client.put(send("t", bytes(3 * MIB), 5, **more), send("t", b"small", 6))
        refused, stored_one = client.reply(), client.reply()
        assert (refused.opaque, refused.code) == (5, 2)
        assert (stored_one.opaque, stored_one.code) == (6, 0)
        assert shard.core.stats()["half_frame_bytes"] == 0


def test_the_memory_of_half_frames_goes_back_to_the_system(tmp_path: Path) -> None:
    with serving(tmp_path, jumbo_buffers=64) as shard:
        clients = [shard.connect() for _ in range(30)]
        for client in clients:
            assert client.ask(send("t", b"x", 1)).code == 0
        before = resident()
        for client in clients:
            client.put(HALF)
        shard.until(lambda now: now["half_frame_bytes"] == 30 * len(HALF))
        assert resident() - before > 20 * MIB
        for client in clients:
            client.close()
        wait_until(lambda: resident() - before <= 10 * MIB)


def test_at_the_limit_who_never_asked_makes_room_for_who_comes(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with serving(tmp_path, connections_max=4) as shard:
        served = [shard.connect() for _ in range(2)]
        for client in served:
            assert client.ask(send("t", b"x", 1)).code == 0
        silent = [shard.connect() for _ in range(2)]
        assert shard.connect().is_closed()  # the silent ones have only just come
        clock.advance(1.1)
        shard.look_at_clock()
        late = shard.connect()
        assert late.ask(send("t", b"x", 2)).code == 0
        assert shard.core.stats()["connections_displaced"] == 1
        for client in (*served, late):
            assert client.ask(send("t", b"x", 3)).code == 0
        assert [client.is_silent(0) for client in silent].count(False) == 1


def test_clients_that_do_not_read_do_not_take_the_buffers_of_others(tmp_path: Path) -> None:
    """Their answers lie in the buffers for answers; when few buffers are left, these clients are
    closed."""
    with serving(tmp_path, reply_buffers=256, pulls_max=4096) as shard:
        shard.group("g", "t")
        good = shard.connect()
        for n in range(40):
            assert good.ask(send("t", bytes(100_000), n)).code == 0
        deaf = [shard.connect(receive_buffer=4096) for _ in range(100)]
        pulls = [pull("g", "t", n % 32, n) for n in range(40)]
        for client in deaf:
            client.put(*pulls)
        shard.until(lambda now: now["connections_closed_deaf"] > 0)
        for n in range(50):
            assert good.ask(send("t", b"x", n)).code == 0
            assert good.ask(pull("g", "t", n % 30, n)).code == 0
        pools = shard.core.pools()
        assert pools["reply"][4] == 0, "asked for one and there was none"


def test_pulls_of_clients_that_do_not_read_leave_places_to_others(tmp_path: Path) -> None:
    with serving(tmp_path, pulls_max=64, reply_buffers=1024) as shard:
        shard.group("g", "t")
        good = shard.connect()
        for n in range(6):
            assert good.ask(send("t", bytes(MIB), n)).code == 0
        # A socket takes some of the answers; more than a quarter of the pool waits.
        for deaf in range(1, 7):
            pulls = b"".join(pull("g", "t", n % 6, n) for n in range(60))
            shard.connect(receive_buffer=4096).put(pulls)
            shard.until(  # until no more of this client is read, nor of those before it
                lambda now, deaf=deaf: now["unread_unsent"] + now["connections_closed_deaf"] == deaf
            )
        shard.until(lambda now: shard.core.pools()["pull"][2] <= 48)
        for n in range(50):
            assert good.ask(pull("g", "t", n % 6, n)).code == 0
        assert shard.core.stats()["busy_replies"] > 0


def test_a_client_that_is_held_is_not_read_and_told_of_when_drained(shard: Shard) -> None:
    client = shard.connect(receive_buffer=4096)
    client.put(request(999, 1))
    ((number, _),) = shard.reports(0)
    shard.core.hold(number)
    shard.until(lambda now: now["unread_control"] == 1)
    client.put(send("t", b"x", 2))
    answer = request(0, 1, bytes(16 * MIB - 1000))
    shard.core.send(number, answer)
    shard.core.report_drained(number)
    shard.until(lambda now: now["unread_unsent"] == 1)
    assert not shard.kept(6)
    assert len(client.reply().body) == 16 * MIB - 1000
    assert shard.reports(6) == [(number, b"")]
    assert client.is_silent()
    shard.core.release(number)
    assert client.reply().opaque == 2
    assert shard.core.stats()["unread_control"] == 0


@pytest.mark.parametrize("silent", [True, False])
def test_who_is_held_and_goes_away_is_forgotten(shard: Shard, silent: bool) -> None:
    client = shard.connect(receive_buffer=4096)
    client.put(request(999, 1))
    ((number, _),) = shard.reports(0)
    shard.core.hold(number)
    if not silent:
        shard.core.send(number, request(0, 1, bytes(15 * MIB)))
        shard.core.report_drained(number)
    client.reset()
    shard.until(lambda now: now["connections"] == 0)
    assert shard.reports(1) == [(number, b"")]
    assert shard.core.stats()["unread_control"] == 0
