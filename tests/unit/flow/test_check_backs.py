"""Check backs in the reactor: producers are asked about half messages that nobody ended.

The test is the control thread: it says what the rules are and which connections a group has.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.page_cache import drop_from_page_cache
from support.shard import MIB, OPENED, REQUEST, Client, Shard, bodies, pull, request, send
from support.waiting import HANG_S

from rmq.auth.accounts import Accounts
from rmq.auth.packed_policies import packed, packed_addresses
from rmq.auth.white_list import WhiteList
from rmq.config import load_properties
from rmq.format.message import StoredMessage, decode_message
from rmq.format.remoting import Command

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02TAGS\x01a\x02"
AFTER_ALL = 1 << 50  # ms: every half message is older than this time
RULES = {"began_ms": AFTER_ALL, "young_ms": 0, "times_max": 15, "age_max_ms": AFTER_ALL}
TIMES = "TRANSACTION_CHECK_TIMES"
RECORDS_ON_DISK = 3

Checked = tuple[int, int, int, int, list[int]]


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as shard:
        for topic in ("t", HALF, OP):
            shard.topic(topic)
        shard.group("g", "t")
        shard.core.start_transactions(0, 1)
        yield shard


def producer(shard: Shard, **options: int) -> tuple[Client, int]:
    """A client, and the number by which control knows it."""
    client = shard.connect(**options)
    client.put(request(999))
    ((number, _),) = shard.reports(OPENED)
    shard.taken(REQUEST)
    return client, number


def send_half(
    shard: Shard, body: bytes = b"order", more: str = "", born_ms: int = 1, count: int = 1
) -> None:
    client = shard.connect()
    half = {"i": MARKS + more, "f": 4, "g": born_ms, "h": 7}
    client.put(*(send("t", body, n, **half) for n in range(count)))
    assert {reply.code for reply in client.replies(count).values()} == {0}
    client.close()


def check(shard: Shard, after: int = 0, leave_full: bool = False, **changes: int) -> Checked:
    rules = {**RULES, **changes}
    end = (shard.core.queue_range(HALF.encode(), 0) or (0, 0))[1]
    return shard.core.check_halves(
        after, end, (rules["began_ms"], rules["young_ms"], rules["times_max"], rules["age_max_ms"],
                     leave_full),
    )  # fmt: skip


def open_ones(shard: Shard) -> list[int]:
    return shard.core.open_halves(0, 1000)[2]


def asked(client: Client) -> tuple[Command, StoredMessage]:
    command = client.reply()
    assert (command.code, command.is_oneway, command.is_response) == (39, True, False)
    message, used = decode_message(command.body)  # decode_message checks the checksum
    assert used == len(command.body)
    return command, message


@pytest.mark.parametrize("body", [b"order", bytes(range(256)) * 8192], ids=["small", "large"])
def test_a_producer_is_asked_about_the_new_place_of_a_half_message(
    shard: Shard, body: bytes
) -> None:
    client, number = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    for times in (1, 2, 3):
        if times == 1:
            send_half(shard, body)
        assert check(shard) == (times, 1, 0, 0, [])
        assert open_ones(shard) == [times]
        command, message = asked(client)
        (place,) = open_ones(shard)
        physical = message.physical_offset
        record = shard.core.read_record(physical)
        assert record is not None
        stored, _ = decode_message(record)
        assert command.fields == {
            "topic": HALF, "tranStateTableOffset": str(place), "commitLogOffset": str(physical),
            "msgId": "U", "transactionId": "U", "offsetMsgId": message.message_id,
            "bname": load_properties(None, {}).brokerName,
        }  # fmt: skip
        assert (stored.topic, stored.queue_offset, stored.body) == (HALF, place, body)
        assert (message.topic, message.queue_id, message.queue_offset) == ("t", 0, place)
        assert (message.body, message.flag, message.born_timestamp_ms) == (body, 7, 1)
        assert message.born_host == stored.born_host
        assert message.properties == stored.properties
        assert stored.properties[TIMES] == str(times)
        assert stored.properties_bytes.count(TIMES.encode()) == 1
        assert (stored.properties["REAL_TOPIC"], stored.properties["REAL_QID"]) == ("t", "0")
    end = request(
        37, 5, producerGroup="P", tranStateTableOffset=place, commitLogOffset=physical,
        commitOrRollback=8, fromTransactionCheck=True, msgId="U",
    )  # fmt: skip
    assert client.ask(end).code == 0
    assert client.ask(end).code == 0
    assert bodies(shard.connect().ask(pull("g", "t"))) == [body]
    counters = shard.core.stats()
    assert (counters["transactions_asked"], counters["transactions_repeated"]) == (3, 1)


def test_who_is_young_or_was_stored_meanwhile_is_left_alone(shard: Shard) -> None:
    client, number = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    immune = "CHECK_IMMUNITY_TIME_IN_SECONDS\x0110000\x02"
    send_half(shard, more=immune, born_ms=time.time_ns() // 1_000_000)
    send_half(shard, more=immune)
    send_half(shard)
    # The half message's own limit is what counts.
    assert check(shard, young_ms=AFTER_ALL) == (3, 1, 0, 0, [])
    assert check(shard, began_ms=0) == (4, 0, 0, 0, [])
    assert open_ones(shard) == [0, 2, 3]
    assert check(shard) == (4, 2, 0, 0, [])
    assert open_ones(shard) == [0, 4, 5]
    assert [asked(client)[0].fields["tranStateTableOffset"] for _ in range(3)] == ["3", "4", "5"]


def test_what_is_to_be_given_up_is_controls(shard: Shard) -> None:
    _, number = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    for seconds in ("x", "-1", "", "1"):  # a text that is no number counts as absent
        send_half(shard, more=f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{seconds}\x02")
    send_half(shard, more=f"{TIMES}\x01often\x02")
    assert check(shard, times_max=0) == (5, 0, 0, 0, [0, 1, 2, 3, 4])
    assert check(shard, times_max=1) == (5, 5, 0, 0, [])
    # They were checked often enough.
    assert check(shard, times_max=1) == (10, 0, 0, 0, [5, 6, 7, 8, 9])
    assert check(shard, age_max_ms=1) == (10, 0, 0, 0, [5, 6, 7, 8, 9])  # they are too old
    assert open_ones(shard) == [5, 6, 7, 8, 9]


def test_half_messages_on_the_disk_are_fetched_and_asked_about_like_others(tmp_path: Path) -> None:
    small = {"segment_bytes": 16 * MIB, "ring_bytes": 4 * MIB, "record_max_bytes": MIB}
    with Shard(tmp_path, **small) as first:
        for topic in ("t", HALF, OP):
            first.topic(topic)
        first.core.start_transactions(0, 1)
        send_half(first, bytes(300), count=200)
        client = first.connect()
        for _ in range(60):
            first.until(lambda _: client.ask(send("t", bytes(MIB // 2))).code == 0)
    drop_from_page_cache(tmp_path / "store" / "commitlog")
    with Shard(tmp_path, **small) as shard:
        for topic in ("t", HALF, OP):
            shard.topic(topic)
        shard.core.start_transactions(0, 1)
        shard.core.end_halves([3, 77], 1)
        client, number = producer(shard)
        shard.core.put_producers(b"P", {number: b""})
        at = done = fetched = 0
        end = time.monotonic() + HANG_S
        while at < 200:
            assert time.monotonic() < end
            at, asked_about, unasked, check_stop, left = shard.core.check_halves(
                at, 200, (AFTER_ALL, 0, 15, AFTER_ALL, False)
            )
            assert (unasked, left) == (0, [])
            assert check_stop in (0, RECORDS_ON_DISK)
            done += asked_about
            fetched += check_stop == RECORDS_ON_DISK
            time.sleep(0.001)
        assert fetched > 0
        assert done == 198
        assert open_ones(shard) == list(range(200, 398))
        places = {asked(client)[0].fields["tranStateTableOffset"] for _ in range(198)}
        assert places == {str(place) for place in range(200, 398)}


def test_the_connections_of_a_group_are_asked_in_turn_and_those_that_are_gone_not(
    shard: Shard,
) -> None:
    (first, one), (second, two), (gone, three) = (producer(shard) for _ in range(3))
    shard.core.put_producers(b"P", {one: b"", two: b"", three: b""})
    shard.core.put_producers(b"other", {three: b""})
    gone.close()
    shard.until(lambda counters: counters["connections"] == 2)
    send_half(shard, count=20)
    assert check(shard) == (20, 20, 0, 0, [])
    places = [asked(client)[1].queue_offset for client in (first, second) for _ in range(10)]
    assert sorted(places) == list(range(20, 40))


def test_without_a_producer_a_half_message_is_stored_anew_all_the_same(shard: Shard) -> None:
    _, number = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    shard.core.put_producers(b"P", {})
    send_half(shard)
    assert check(shard) == (1, 0, 1, 0, [])
    assert open_ones(shard) == [1]
    assert shard.core.stats()["transactions_unasked"] == 1


def test_a_call_is_bounded_and_goes_on_where_it_ended(shard: Shard) -> None:
    client, number = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    send_half(shard, count=300)
    following, count, *rest = check(shard)
    assert (following, count, rest) == (256, 256, [0, 0, []])
    assert shard.core.check_halves(256, 300, (AFTER_ALL, 0, 15, AFTER_ALL, False)) == (
        300, 44, 0, 0, [],
    )  # fmt: skip
    places = {asked(client)[0].fields["tranStateTableOffset"] for _ in range(300)}
    assert places == {str(n) for n in range(300, 600)}
    shard.core.put_producers(b"P", {})
    send_half(shard, bytes(200_000), count=12)
    # So many half messages are more than a MiB.
    assert check(shard, after=600) == (606, 0, 6, 0, [])


def test_a_producer_that_does_not_read_is_not_asked_more(shard: Shard) -> None:
    slow, number = producer(shard, receive_buffer=4096)
    ready, other = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    send_half(shard, bytes(100_000), count=120)
    at, count, check_stop = 0, 0, 0
    while not check_stop:
        at, done, lonely, check_stop, left = check(shard, at)
        assert (lonely, left) == (0, [])
        count += done
    assert (check_stop, at) == (1, count) and 0 < count < 120
    while at < 120:  # what the system's buffers take meanwhile is still asked; no more than that
        at, done, *rest = check(shard, at, leave_full=True)
        assert rest == [0, 0, []]
        count += done
    open_now = open_ones(shard)
    assert len(open_now) == 120
    assert len([offset for offset in open_now if offset < 120]) == 120 - count > 0
    assert ready.ask(send("t", b"served all the same", 9)).code == 0
    shard.core.put_producers(b"P", {number: b"", other: b""})
    assert check(shard)[1] > 0
    asked(ready)
    for _ in range(count):
        asked(slow)


def test_while_the_log_takes_nothing_nobody_is_asked(shard: Shard) -> None:
    client, number = producer(shard)
    shard.core.put_producers(b"P", {number: b""})
    send_half(shard)
    shard.core.set_writable(0, b"the disk is full")
    assert check(shard) == (0, 0, 0, 2, [])
    shard.core.set_writable(1, b"")
    assert check(shard) == (1, 1, 0, 0, [])
    asked(client)


def test_who_may_not_end_a_transaction_is_not_asked_about_it(shard: Shard) -> None:
    """A check back carries the message, and any client may claim to be of the producer group: a
    user who may not end the transaction must not be asked."""
    mallory, one = producer(shard)
    alice, two = producer(shard)
    accounts = Accounts()
    pub = {"resource": "Topic:t*", "actions": ["Pub"], "decision": "Allow", "sourceIps": []}
    accounts.create_user("alice", {"password": "x"}, by_super=True)
    accounts.put_acl("User:alice", [{"policyType": "Custom", "entries": [pub]}])
    allowed = packed(accounts.acl("alice"))

    def put(
        name: bytes, entries: bytes = b"", enabled: bool = True, super_: bool = False,
        white: bytes = b"",
    ) -> None:  # fmt: skip
        shard.core.put_user(name, b"x", super_, enabled, entries, white)

    def are_asked() -> tuple[int, int]:
        """How many of four questions each of the two clients gets."""
        for _ in range(4):
            check(shard, times_max=100)
        return questions(mallory), questions(alice)

    def questions(client: Client) -> int:
        """How many questions come before the answer to a send that follows them."""
        client.put(send("t"))
        codes = []
        while not (command := client.reply()).is_response:
            codes.append(command.code)
        assert set(codes) <= {39}
        return len(codes)

    send_half(shard)
    shard.core.put_producers(b"P", {one: b"mallory", two: b"alice"})
    assert are_asked() == (2, 2), "without accounts anybody is"
    put(b"mallory")
    put(b"alice", allowed)
    shard.core.set_auth(True, True, [], [])
    assert are_asked() == (0, 4)
    put(b"mallory", super_=True)
    assert are_asked() == (2, 2)
    put(b"mallory", super_=True, enabled=False)
    put(b"alice")
    assert are_asked() == (0, 0), "neither who is disabled nor whose entry was taken back"
    assert shard.core.stats()["transactions_unasked"] == 4
    put(b"alice", allowed)
    shard.core.remove_user(b"mallory")
    assert are_asked() == (0, 4)
    shard.core.put_producers(b"P", {one: b"", two: b"alice"})
    assert are_asked() == (0, 4), "who needed no name, for a heartbeat alone"
    shard.core.set_white_list(packed_addresses([WhiteList.of("127.0.0.1")]))
    assert are_asked() == (2, 2), "who is let in from there, whoever he is"
    shard.core.set_white_list(b"")
    shard.core.put_producers(b"P", {one: b"mallory", two: b"alice"})
    put(b"mallory", white=packed_addresses([WhiteList.of("127.0.0.1")]))
    assert are_asked() == (2, 2), "an account that needs no signature from there"
    shard.core.put_producers(b"P", {one: b"nobody", two: b"alice"})
    shard.core.set_auth(True, True, [], [37])
    put(b"alice")
    assert are_asked() == (0, 4), "where anybody may end transactions"
