"""What one connection may do to the reactor and to other connections, over real sockets.

Not shown here: connections with a faulty disk (tests/fault) and arbitrary bytes (test_frame_fuzz).
"""

import resource
import socket
import time
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.shard import (
    CLOSED,
    EVENT,
    HELD_MS,
    MIB,
    OPENED,
    REQUEST,
    TIMEOUT_S,
    Shard,
    bodies,
    pull,
    request,
    send,
)
from support.waiting import HANG_S

from rmq.format.remoting import JSON, ROCKETMQ, Command, decode, encode

pytestmark = pytest.mark.still_clock


def test_pipelined_requests_are_each_answered_once_in_order_of_arrival(shard: Shard) -> None:
    client = shard.connect()
    frames = [send("t", b"%d" % n, n, kind=ROCKETMQ if n % 3 == 0 else JSON) for n in range(1, 501)]
    client.put(*frames)
    found = [client.reply() for _ in frames]
    assert [reply.opaque for reply in found] == list(range(1, 501))
    assert [reply.fields["queueOffset"] for reply in found] == [str(n) for n in range(500)]
    assert {reply.serialize_type for reply in found if reply.opaque % 3 == 0} == {ROCKETMQ}
    assert {reply.serialize_type for reply in found if reply.opaque % 3 != 0} == {JSON}
    assert client.is_silent()


def test_a_frame_may_come_byte_by_byte(shard: Shard) -> None:
    client, other = shard.connect(), shard.connect()
    both = send("t", b"slow", 1) + send("t", b"too", 2, kind=ROCKETMQ)
    for place in range(len(both)):
        client.put(both[place : place + 1])
        if place % 16 == 0:
            assert other.ask(pull("g", "t", 0, place)).opaque == place
    assert sorted(client.replies(2)) == [1, 2]
    assert bodies(other.ask(pull("g", "t"))) == [b"slow", b"too"]


def test_a_large_frame_may_come_in_pieces_with_others_around_it(shard: Shard) -> None:
    client = shard.connect()
    body = bytes(range(256)) * 8192  # 2 MiB, which are received into a jumbo buffer
    stream = send("t", b"a", 1) + send("t", body, 2) + send("t", b"b", 3) + send("t", body, 4)
    for start in range(0, len(stream), 300_001):
        client.put(stream[start : start + 300_001])
        taken = min(start + 300_001, len(stream))
        shard.until(lambda counters, taken=taken: counters["received_bytes"] >= taken)
    assert sorted(client.replies(4)) == [1, 2, 3, 4]
    for offset, expected in enumerate((b"a", body, b"b", body)):
        found = client.ask(pull("g", "t", offset, maxMsgNums=1))
        assert bodies(found) == [expected]


def test_without_a_buffer_a_large_frame_is_refused_and_the_connection_goes_on(
    tmp_path: Path,
) -> None:
    with Shard(tmp_path, jumbo_buffers=1) as shard:
        shard.topic("t")
        hoarder, client = shard.connect(), shard.connect()
        large = send("t", bytes(MIB), 5)
        hoarder.put(large[: MIB // 2])
        shard.until(lambda counters: counters["received_bytes"] >= MIB // 2)
        client.put(large, send("t", b"small", 6))
        refused, stored = client.reply(), client.reply()
        assert (refused.opaque, refused.code) == (5, 2)
        assert "start flow control for a while" in (refused.remark or "")
        assert (stored.opaque, stored.code, stored.fields["queueOffset"]) == (6, 0, "0")
        hoarder.put(large[MIB // 2 :])
        assert hoarder.reply().code == 0
        assert client.ask(large).code == 0  # the buffer is given back


def test_large_request_that_does_not_get_on_gives_its_buffer_to_others(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Shard(tmp_path, jumbo_buffers=2) as shard:
        shard.topic("t")
        stuck, quick, client = shard.connect(), shard.connect(), shard.connect()
        large = send("t", bytes(2 * MIB), 5)
        stuck.put(large[:40_000])
        shard.until(lambda counters: counters["received_bytes"] >= 40_000)
        # Otherwise both may make progress in one turn, and it would be open which one came later.
        clock.advance(0.1)
        quick.put(large[:-1])
        shard.until(lambda counters: counters["received_bytes"] >= len(large) + 39_999)
        end = time.monotonic() + HANG_S
        while (reply := client.ask(large)).code != 0:
            assert reply.code == 2
            assert time.monotonic() < end
            stuck.put(b"\0")  # a byte now and then
            clock.advance(0.1)
        assert shard.core.stats()["connections_closed_slow"] == 1
        with pytest.raises((EOFError, ConnectionError)):
            stuck.reply()
        quick.put(large[-1:])
        assert quick.reply().code == 0


def test_of_two_large_requests_the_one_that_does_not_get_on_is_closed(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """The client that has had a buffer for longer, but sends one request after the other, stays
    open."""
    with Shard(tmp_path, jumbo_buffers=2) as shard:
        shard.topic("t")
        steady, stuck, client = shard.connect(), shard.connect(), shard.connect()
        large = send("t", bytes(2 * MIB), 5)
        steady.put(large[:40_000])
        shard.until(lambda counters: counters["received_bytes"] >= 40_000)
        stuck.put(large[:40_000])
        for _ in range(10):
            clock.advance(0.3)
            steady.put(large[40_000:] + large[:40_000])
            assert steady.reply().code == 0
        end = time.monotonic() + HANG_S
        while (reply := client.ask(large)).code != 0:
            assert reply.code == 2
            assert time.monotonic() < end
            clock.advance(0.1)
        with pytest.raises((EOFError, ConnectionError)):
            stuck.reply()
        steady.put(large[40_000:])
        assert steady.reply().code == 0
        assert shard.core.stats()["connections_closed_slow"] == 1


def test_a_client_that_does_not_read_is_not_read_and_harms_nobody(tmp_path: Path) -> None:
    with Shard(tmp_path, pull_max_bytes=4 * MIB) as shard:
        shard.topic("t")
        shard.group("g", "t")
        other, deaf = shard.connect(), shard.connect(receive_buffer=4096)
        for n in range(8):
            assert other.ask(send("t", bytes([n]) * 100_000, n)).code == 0
        count = 100  # their replies would have 80 MB
        deaf.put(*(pull("g", "t", 0, n) for n in range(count)))
        shard.until(lambda counters: counters["socket_stalls"] > 0)
        for n in range(50):
            assert other.ask(send("t", b"x", n)).code == 0
        assert shard.core.stats()["sent_bytes"] < 16 * MIB  # the kernel holds some MiB of them
        # The client reads again: every answer comes once, none cut or mixed up with others.
        found = deaf.replies(count)
        assert sorted(found) == list(range(count))
        for reply in found.values():
            assert bodies(reply)[:8] == [bytes([each]) * 100_000 for each in range(8)]


def test_idle_connections_are_closed_and_busy_ones_are_not(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Shard(tmp_path, idle_ms=60_000) as shard:
        shard.topic("t")
        idle, busy = shard.connect(), shard.connect()
        busy.put(send("t", b"x", 0))
        end = time.monotonic() + HANG_S
        while time.monotonic() < end and shard.core.stats()["connections_closed_idle"] == 0:
            assert busy.reply().code == 0
            clock.advance(1.0)
            busy.put(send("t", b"x", 1))
        assert idle.is_closed()
        assert busy.reply().code == 0
        assert shard.core.stats()["connections_closed_idle"] == 1


def test_beyond_the_limit_connections_are_closed_and_the_others_served(tmp_path: Path) -> None:
    with Shard(tmp_path, connections_max=4) as shard:
        shard.topic("t")
        clients = [shard.connect() for _ in range(4)]
        for n, client in enumerate(clients):
            assert client.ask(send("t", b"x", n)).opaque == n
        assert shard.connect().is_closed()
        for n, client in enumerate(clients):
            assert client.ask(send("t", b"x", n)).opaque == n
        clients[0].close()
        shard.until(lambda counters: counters["connections"] == 3)
        assert shard.connect().ask(send("t", b"x", 9)).opaque == 9
        assert shard.core.stats()["connections_refused"] == 1


def test_without_descriptors_clients_wait_and_the_reactor_does_not_spin(shard: Shard) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    client = shard.connect()
    assert client.ask(send("t")).code == 0
    with socket.socket() as waiting:  # its descriptor is taken before the limit is lowered
        waiting.settimeout(TIMEOUT_S)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            waiting.connect(("127.0.0.1", shard.core.port))
            waiting.sendall(send("t", opaque=2))
            time.sleep(0.1)
            turns = shard.core.stats()["turns"]
            time.sleep(0.3)
            assert shard.core.stats()["turns"] - turns < 50
            assert client.ask(send("t")).code == 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert b"no file descriptors: 1 clients" in shard.reports(EVENT)[0][1]
        assert shard.core.stats()["accept_failures"] > 0
        length = int.from_bytes(waiting.recv(4, socket.MSG_WAITALL), "big")
        assert decode(waiting.recv(length, socket.MSG_WAITALL)).opaque == 2


def test_a_malformed_frame_closes_its_connection_with_one_line(shard: Shard) -> None:
    other = shard.connect()
    for bad, says in (
        (b"\x00\x00\x00\x03\x00\x00\x00", b"malformed frame"),
        (b"\x7f\xff\xff\xff\x00\x00\x00\x00", b"longer than the limit"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"TLS"),
        (b"\x00\x00\x00\x08\x02\x00\x00\x04{}{}", b"malformed frame"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04{}{}", b"malformed command header"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x05{}{}", b"malformed frame"),
        (b"\x00\x00\x00\x08\x01\x00\x00\x04{}{}", b"malformed command header"),
    ):
        client = shard.connect()
        client.put(send("t", b"x", 7), bad, send("t", b"never", 8))
        assert client.reply().opaque == 7
        assert client.is_closed(), bad
        (_, line), *more = shard.reports(EVENT)
        assert says in line and client.address.encode() in line, (line, bad)
        assert not more and not shard.kept(EVENT)
        assert other.ask(send("t", b"x", 9)).opaque == 9
    assert shard.core.stats()["malformed_frames"] == 7


def test_a_late_answer_never_reaches_another_client(shard: Shard) -> None:
    first = shard.connect()
    first.put(request(999, 41))
    ((number, _),) = shard.reports(REQUEST)
    first.close()
    assert shard.reports(CLOSED) == [(number, b"")]
    second = shard.connect()  # in the slot that has become free
    second.put(request(999, 42))
    ((other_number, _),) = shard.reports(REQUEST)
    assert other_number & 0xFFFFF == number & 0xFFFFF and other_number != number
    shard.core.send(number, encode(Command(code=0, flag=1, opaque=41)))
    shard.core.close_connection(number)
    shard.core.resubmit(number, send("t", b"ghost")[4:])
    shard.core.send(other_number, encode(Command(code=0, flag=1, opaque=42)))
    assert second.reply().opaque == 42
    assert second.is_silent()
    assert second.ask(pull("g", "t")).code == 19  # the ghost's message was not stored


def test_a_held_pull_of_a_gone_client_is_not_answered_to_the_next(shard: Shard) -> None:
    for n in range(20):
        client = shard.connect()
        client.put(pull("g", "t", n, 100 + n, hold_ms=HELD_MS))
        shard.until(lambda counters: counters["pulls_waiting"] == 1)
        client.close() if n % 2 else client.reset()
        shard.until(lambda counters: counters["pulls_waiting"] == 0)
        successor = shard.connect()
        assert successor.ask(send("t", b"x", n)).opaque == n
        assert successor.is_silent(0.01)
        successor.close()
        shard.until(lambda counters: counters["connections"] == 0)


def test_what_control_sends_and_closes_arrives_in_this_order(shard: Shard) -> None:
    client = shard.connect()
    client.put(request(999, 5))
    ((opened, address),) = shard.reports(OPENED)
    ((number, frame),) = shard.reports(REQUEST)
    assert opened == number and address.decode() == client.address
    assert decode(frame).opaque == 5
    answer = encode(Command(code=0, flag=1, opaque=5, body=bytes(3 * MIB)))
    shard.core.send(number, answer)
    shard.core.close_connection(number)
    assert client.reply().body == bytes(3 * MIB)
    assert client.is_closed()
    assert shard.reports(CLOSED) == [(number, b"")]


def test_many_clients_that_come_and_go_leave_nothing_behind(shard: Shard) -> None:
    for _ in range(5):
        clients = [shard.connect() for _ in range(40)]
        for n, client in enumerate(clients):
            client.put(send("t", b"x" * n, n), pull("g", "t", 1 << 40, 1000, hold_ms=5))
            client.put(send("t", bytes(100_000), n)[: 50_000 + n])
        for n, client in enumerate(clients):
            if n % 3 == 0:
                assert client.reply().opaque == n
            client.reset() if n % 2 else client.close()
        counters = shard.until(lambda counters: counters["connections"] == 0)
        assert counters["pulls_waiting"] == 0
    assert shard.connect().ask(send("t", b"x", 1)).code == 0
