"""The link between reactor and control thread: what must not be lost is not lost, the rest is
refused."""

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.shard import (
    CLOSED,
    HELD_MS,
    MIB,
    OPENED,
    REQUEST,
    Shard,
    bodies,
    pull,
    request,
    send,
)
from support.waiting import HANG_S

from rmq.format.remoting import ROCKETMQ, Command, decode, encode

pytestmark = pytest.mark.still_clock

WAITING_MAX = 65_536  # messages that may wait for the control thread
HELD_BACK = WAITING_MAX // 256  # of one connection: with more than this it is not read


def test_more_requests_than_may_wait_are_refused_and_the_close_is_still_told(
    shard: Shard,
) -> None:
    crowd, client = [shard.connect() for _ in range(62)], shard.connect()
    one_way = request(999, 1, one_way=True, kind=ROCKETMQ)
    for each in crowd:
        each.put(one_way * 2000)
    shard.until(
        lambda counters: counters["control_waiting"] == WAITING_MAX and counters["busy_replies"] > 0
    )
    reply = client.ask(request(999, 7))
    assert (reply.opaque, reply.code) == (7, 2)
    assert "start flow control for a while" in (reply.remark or "")
    assert client.ask(send("t", b"served all the same", 8)).code == 0
    asked, taken = 2_000 * len(crowd) + 1, 0

    def all_are_through(counters: dict[str, int]) -> bool:
        nonlocal taken
        taken += len(shard.taken(REQUEST))
        return counters["control_requests"] + counters["busy_replies"] == asked and (
            taken == counters["control_requests"]
        )

    shard.until(all_are_through)
    assert taken >= WAITING_MAX - len(crowd)
    for each in crowd:
        each.close()

    def all_have_gone(counters: dict[str, int]) -> bool:
        """A connection that is not read because it has too much with control is closed once the
        control thread has taken what waits."""
        assert not shard.taken(REQUEST)
        return counters["connections"] == 1

    shard.until(all_have_gone)
    # Connections that came when there was no room at all are not known to control.
    told = shard.kept(OPENED)
    assert len(shard.reports(CLOSED, len(told))) == len(told) > 0
    client.put(request(999, 9))
    assert decode(shard.reports(REQUEST)[0][1]).opaque == 9


def test_one_greedy_connection_waits_and_leaves_room_for_others(shard: Shard) -> None:
    """The greedy client is not read for a while, and all that it asked for is done in the end."""
    greedy, client = shard.connect(), shard.connect()
    one_way = request(999, 1, one_way=True, kind=ROCKETMQ)
    for _ in range(40):
        greedy.put(one_way * 1000)
    shard.until(lambda counters: counters["control_requests"] > HELD_BACK)
    client.put(request(999, 7))
    assert client.ask(send("t", b"x", 1)).code == 0  # so control has the request before it, too
    waiting = shard.until(lambda _: True)
    assert HELD_BACK < waiting["control_requests"] - 1 <= WAITING_MAX // 4
    found: list[tuple[int, bytes]] = []

    def all_came(_: dict[str, int]) -> bool:
        found.extend(shard.taken(REQUEST))
        return len(found) >= 40_001

    assert shard.until(all_came)["busy_replies"] == 0
    numbers = [decode(frame).opaque for _, frame in found]
    assert len(numbers) == 40_001 and HELD_BACK < numbers.index(7) <= WAITING_MAX // 4


def test_who_waits_for_control_and_goes_away_is_forgotten(shard: Shard) -> None:
    greedy = shard.connect()
    one_way = request(999, 1, one_way=True, kind=ROCKETMQ)
    for _ in range(20):
        greedy.put(one_way * 1000)
    shard.until(lambda counters: counters["control_requests"] > HELD_BACK)
    greedy.reset()
    shard.until(lambda counters: counters["connections"] == 0)
    assert len(shard.reports(CLOSED)) == 1
    shard.taken(REQUEST)
    client = shard.connect()
    client.put(request(999, 8))
    assert decode(shard.reports(REQUEST)[0][1]).opaque == 8


def test_more_bytes_than_may_wait_are_refused(shard: Shard) -> None:
    client = shard.connect()
    large = request(999, 5, bytes(15 * MIB))
    for _ in range(4):
        other = shard.connect()
        other.put(large)
    shard.until(lambda counters: counters["control_requests"] == 4)
    reply = client.ask(large)
    assert (reply.opaque, reply.code) == (5, 2)
    for _, frame in shard.reports(REQUEST, 4):
        assert len(frame) == len(large) - 4
    client.put(large)
    assert decode(shard.reports(REQUEST)[0][1]).opaque == 5


def test_requests_of_one_connection_keep_their_order(shard: Shard) -> None:
    clients = [shard.connect() for _ in range(4)]
    for n in range(200):
        for client in clients:
            client.put(request(900, n), send("t", b"x", n))
    for client in clients:
        client.replies(200)
    seen: dict[int, list[int]] = {}
    for number, frame in shard.reports(REQUEST, 800):
        seen.setdefault(number, []).append(decode(frame).opaque)
    assert list(seen.values()) == [list(range(200))] * 4
    assert len(shard.kept(OPENED)) == 4


def test_answers_of_a_client_to_the_broker_reach_control_and_are_not_answered(
    shard: Shard,
) -> None:
    client = shard.connect()
    client.put(request(999, 1))
    ((number, _),) = shard.reports(REQUEST)
    shard.core.send(number, encode(Command(code=307, opaque=70)))
    asked = client.reply()
    assert (asked.code, asked.opaque, asked.is_response) == (307, 70, False)
    answer = asked.reply(0, body=b"{}")
    answer.code = 310  # a response code may look like the code of a request
    client.put(encode(answer))
    assert decode(shard.reports(REQUEST)[0][1]) == answer
    assert client.is_silent()


def test_calls_are_not_held_up_by_traffic_nor_the_other_way_round(shard: Shard) -> None:
    """Calls and sends both make progress until the other side is done. How many of one go beside
    the other depends on the machine."""
    client, calls = shard.connect(), list[int]()

    def call() -> None:
        for _ in range(100):
            shard.core.put_topic(b"other", 3, 3, 6, 0)
            calls.append(shard.core.queue_range(b"t", 0)[1])

    thread = threading.Thread(target=call)
    thread.start()
    sent = 0
    while sent < 3000 or thread.is_alive():
        client.put(*(send("t", b"x", sent + m) for m in range(100)))
        assert len(client.replies(100)) == 100
        sent += 100
        assert sent < 1_000_000, f"{len(calls)} calls were answered beside a million sends"
    thread.join()
    assert len(calls) == 100 and calls == sorted(calls) and calls[-1] <= sent


def test_the_ends_of_all_queues_of_a_topic_come_together(tmp_path: Path) -> None:
    """With 3000 queues the call needs several turns of the reactor; after a restart no queue has
    been asked for yet."""
    full = {0: 2, 5: 1, 1023: 1, 1024: 3, 2999: 1}
    wanted = [(0, full.get(queue_id, 0)) for queue_id in range(3000)]
    with Shard(tmp_path) as shard:
        shard.topic("t", 3000, 3000)
        client = shard.connect()
        for queue_id, count in full.items():
            for _ in range(count):
                assert client.ask(send("t", b"x", queue=queue_id)).code == 0
        assert shard.core.queue_ranges(b"t", 3000) == wanted
        assert shard.core.queue_ranges(b"t", 7) == wanted[:7]
        assert shard.core.queue_ranges(b"t", 0) == []
        assert shard.core.queue_ranges(b"unknown", 1025) == [(0, 0)] * 1025
    with Shard(tmp_path) as shard:
        shard.topic("t", 3000, 3000)
        assert shard.core.queue_ranges(b"t", 3001) == [*wanted, (0, 0)]
        assert [shard.core.queue_range(b"t", each) for each in (5, 1024)] == [(0, 1), (0, 3)]


def test_a_stop_answers_what_is_under_way_and_the_next_start_finds_it(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_flush=True) as shard:
        shard.topic("t")
        shard.group("g", "t")
        client = shard.connect()
        client.put(*(send("t", b"%d" % n, n) for n in range(500)))
        client.put(pull("g", "t", 500, 900, HELD_MS))
        shard.until(lambda counters: counters["messages_in"] == 500)
        shard.stop()
        # The answer to the pull may come before those that wait for the sync.
        answers: dict[int, int] = {}
        while len(answers.keys() - {900}) < 500:
            reply = client.reply()
            answers[reply.opaque] = reply.code
        assert [answers[n] for n in range(500)] == [0] * 500
    with Shard(tmp_path) as shard:
        shard.topic("t")
        assert shard.core.queue_range(b"t", 0) == (0, 500)


def test_a_stop_waits_for_a_client_that_is_taking_its_answer(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("g", "t")
        body = bytes(4 * MIB - 100_000)
        assert shard.connect().ask(send("t", body)).code == 0
        slow = shard.connect(receive_buffer=4096)
        slow.put(pull("g", "t", 0, 7))
        shard.until(lambda counters: counters["pulls_found"] == 1)
        with ThreadPoolExecutor(1) as threads:
            ended = threads.submit(shard.stop)
            # What comes too fast for 4 KiB is thrown away, and sent again after longer and longer.
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
            assert bodies(slow.reply()) == [body]
            ended.result(HANG_S)


def test_a_client_is_read_again_when_no_reason_against_it_is_left(shard: Shard) -> None:
    """A client has a send with control and more than its share of requests there, in either order:
    it is read again only when both reasons are gone.

    If the client sent all of these itself, it would depend on how much one receive brings whether
    it gets both reasons. So the test gives back requests for it that the reactor hands to control
    each time: commits for a topic that nobody knows.
    """
    again = request(
        15, 1, one_way=True, kind=ROCKETMQ, consumerGroup="g", topic="unknown", queueId=0,
        commitOffset=1,
    )[4:]  # fmt: skip

    def reasons(counters: dict[str, int]) -> tuple[int, int]:
        return counters["unread_pending"], counters["unread_share"]

    for left in ((0, 1), (1, 0)):
        client = shard.connect()
        client.put(send("new", b"x", 1))
        ((number, _),) = shard.reports(REQUEST)
        shard.until(lambda counters: reasons(counters) == (1, 0))
        for _ in range(HELD_BACK + 1):
            shard.core.resubmit(number, again)
        shard.until(lambda counters: reasons(counters) == (1, 1))
        client.put(send("t", b"behind", 2))
        ends = [
            lambda number=number: shard.core.send_done(number),
            lambda: shard.reports(REQUEST, HELD_BACK + 1),
        ]
        if left == (1, 0):
            ends.reverse()
        ends[0]()
        shard.until(lambda counters, left=left: reasons(counters) == left)
        assert client.is_silent()
        ends[1]()
        assert client.reply().opaque == 2
        assert reasons(shard.core.stats()) == (0, 0)


ABANDON = """
import gc, sys
from pathlib import Path
from support.shard import Shard, send

shard = Shard(Path(sys.argv[1])).__enter__()
shard.topic("t")
client, circle = shard.connect(), [shard]
circle.append(circle)
del shard, circle
gc.collect()
print(client.ask(send("t")).code)
"""


def test_a_shard_that_is_forgotten_serves_on_and_is_not_freed(tmp_path: Path) -> None:
    """Its threads still use its memory. The test runs in a process of its own, which would crash if
    the memory were freed."""
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", ABANDON, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
