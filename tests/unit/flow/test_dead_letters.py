"""Sends to retry topics that came too often: the reactor stores them among the dead letters.

The test acts as the control thread. It makes what is missing and gives the frame back. If it is
handed a frame although nothing is missing, that is a needless detour.
"""

from pathlib import Path
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.shard import (
    MIB,
    REQUEST,
    Client,
    Shard,
    bodies,
    messages,
    pull,
    request,
    send,
    send_batch,
)

from rmq.format.message import StoredMessage
from rmq.format.remoting import JSON, ROCKETMQ, decode, encode

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

RETRY, DEAD, HALF = "%RETRY%g", "%DLQ%g", "RMQ_SYS_TRANS_HALF_TOPIC"
OLD_CLIENT = 120  # version of a client whose maxReconsumeTimes does not count
MARKS = 'DELAY\x014\x02KEYS\x01ä "k"\x02TAGS\x01a\x02UNIQ_KEY\x01U\x02DELAY\x011\x02'


def known(shard: Shard, retry_queues: int = 1) -> Shard:
    """What control tells the core of group g, which tries 16 times, and of its topics."""
    shard.core.put_retries(b"g", retry_queues, 16, b"")
    shard.topic(RETRY, retry_queues, retry_queues)
    shard.topic(DEAD)
    shard.group("reader", RETRY, DEAD, HALF)
    return shard


@pytest.fixture(name="shard")
def _shard(shard: Shard) -> Shard:
    return known(shard)


def stored(client: Client, topic: str, offset: int = 0) -> list[StoredMessage]:
    """All messages of a topic's first queue."""
    found: list[StoredMessage] = []
    while (reply := client.ask(pull("reader", topic, offset + len(found)))).code == 0:
        found += messages(reply)
    return found


def of_version(frame: bytes, version: int) -> bytes:
    command = decode(frame[4:])
    command.version = version
    return encode(command)


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
@pytest.mark.parametrize("code", [10, 310])
def test_a_retry_that_came_too_often_is_a_dead_letter(shard: Shard, kind: int, code: int) -> None:
    long_names = {
        "producerGroup": "P", "topic": RETRY, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
        "queueId": 0, "sysFlag": 0, "bornTimestamp": 77, "flag": 5, "properties": MARKS,
        "reconsumeTimes": 17,
    }  # fmt: skip
    frame = (
        request(10, 3, b"tired", kind=kind, **long_names)
        if code == 10
        else send(RETRY, b"tired", 3, kind=kind, g=77, h=5, i=MARKS, j=17)
    )
    client = shard.connect()
    reply = client.ask(frame)
    assert (reply.code, reply.opaque, reply.serialize_type) == (0, 3, kind), reply.remark
    (dead,) = stored(client, DEAD)
    place = {"msgId": dead.message_id, "queueId": "0", "queueOffset": "0", "transactionId": "U"}
    assert place.items() <= reply.fields.items()
    assert (dead.body, dead.flag, dead.born_timestamp_ms, dead.reconsume_times) == (
        b"tired", 5, 77, 17,
    )  # fmt: skip
    assert dead.born_host.port == client.socket.getsockname()[1]
    assert {"KEYS": 'ä "k"', "TAGS": "a", "UNIQ_KEY": "U"}.items() <= dead.properties.items()
    assert not {"DELAY", "REAL_TOPIC", "RETRY_TOPIC"} & dead.properties.keys()
    assert stored(client, RETRY) == []
    counters = shard.core.stats()
    assert (counters["dead_letters"], counters["control_requests"]) == (1, 0)


@pytest.mark.parametrize(
    ("times", "most", "version", "dead"),
    [
        (16, None, 477, False),
        (17, None, 477, True),
        (3, 3, 477, False),
        (4, 3, 477, True),
        (17, 20, 477, False),
        (0, 0, 477, False),
        (0, -1, 477, True),  # the client's own -1 is a limit, and does not stand for the default
        (-5, None, 477, False),
        (-(2**31), -(2**31), 477, False),
        (2**31 - 1, 2**31 - 1, 477, False),
        (2**31 - 1, None, 477, True),
        (4, 3, OLD_CLIENT, False),
        (17, 99, OLD_CLIENT, True),
        (4, 3, OLD_CLIENT + 1, True),
    ],
)
def test_the_clients_limit_counts_more_than_the_groups(
    shard: Shard, times: int, most: int | None, version: int, dead: bool
) -> None:
    fields = {"j": times} if most is None else {"j": times, "l": most}
    client = shard.connect()
    assert client.ask(of_version(send(RETRY, b"x", 1, **fields), version)).code == 0
    came = [(len(stored(client, RETRY)), len(stored(client, DEAD)))]
    assert came == [(0, 1) if dead else (1, 0)]
    assert shard.core.stats()["control_requests"] == 0


def test_the_retry_queue_is_checked_and_the_dead_letters_have_one(shard: Shard) -> None:
    known(shard, 2)
    client = shard.connect()
    for queue, code in ((1, 0), (-1, 0), (-(2**31), 0), (2, 29), (2**31 - 1, 29)):
        reply = client.ask(send(RETRY, b"%d" % queue, 1, queue, j=17))
        assert reply.code == code, reply.remark
    assert [dead.body for dead in stored(client, DEAD)] == [b"1", b"-1", b"-2147483648"]


def test_what_a_group_in_order_cannot_consume_is_dead_at_once(shard: Shard) -> None:
    client = shard.connect()
    shard.core.lock_group(b"g", 60_000)
    assert client.ask(send(RETRY, b"in order", 1)).code == 0
    shard.core.lock_group(b"g", 0)
    assert client.ask(send(RETRY, b"again", 2, j=16)).code == 0
    assert [dead.body for dead in stored(client, DEAD)] == [b"in order"]
    assert [retry.body for retry in stored(client, RETRY)] == [b"again"]
    assert shard.core.stats()["control_requests"] == 0


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"j": "x"}, 1, "field j "),
        ({"j": "2147483648"}, 1, "field j "),
        ({"l": "1e1"}, 1, "field l "),
        ({"l": "-2147483649"}, 1, "field l "),
        ({"e": ""}, 1, "field e "),
        ({"e": "1"}, 29, "queueId[1]"),
        ({"f": "2048"}, 13, "unknown system flags 0x800"),
        ({"f": "4"}, 16, "TRAN_MSG or PGROUP is missing"),
        ({"i": "a\x01" + "b" * 32768 + "\x02"}, 13, "longer than 32767"),
        ({"i": "DELAY\x01" + "4" * 32768 + "\x02"}, 13, "longer than 32767"),
        # More than the scratch buffer holds.
        ({"i": "a\x01b\x02" * 70_000}, 13, "longer than 32767"),
        ({"i": "TIMER_DELAY_SEC\x01999999\x02"}, 13, "the max delay"),
    ],
)
def test_malformed_dead_letters_are_refused_and_leave_nothing(
    shard: Shard, fields: dict[str, str], code: int, says: str
) -> None:
    client = shard.connect()
    for kind in (JSON, ROCKETMQ):
        reply = client.ask(send(RETRY, b"x", 9, kind=kind, **{"j": 17, **fields}))
        assert (reply.code, reply.opaque) == (code, 9), reply.remark
        assert says in (reply.remark or "")
    assert client.ask(send(RETRY, b"", 10, j=17)).code == 13
    good = client.ask(
        send(RETRY, b"good", 11, j=17, i="no pair\x02\x02DELAY\x01\x02DELAY\x02k\x01v")
    )
    assert (good.code, good.fields["queueOffset"]) == (0, "0")
    (dead,) = stored(client, DEAD)
    assert dead.properties["k"] == "v"
    counters = shard.core.stats()
    assert (counters["dead_letters"], counters["control_requests"]) == (1, 0)


def test_properties_of_the_greatest_length_lose_their_delay(tmp_path: Path) -> None:
    with Shard(tmp_path, extra_properties=b"", auto_uniq_key=False) as shard:
        shard.group("g")
        known(shard)
        client = shard.connect()
        rest = "k\x01" + "\\" * (32767 - 4 - 8)  # JSON needs two characters for each
        for marks in (f"DELAY\x011\x02{rest}\x02", f"{rest}\x02DELAY\x011"):
            reply = client.ask(send(RETRY, b"x", 1, j=17, i=marks))
            assert reply.code == 0, reply.remark
        found = stored(client, DEAD)
        assert len(found) == 2
        for dead in found:
            assert dead.properties == {"k": rest[2:]}


@pytest.mark.parametrize("code", [10, 310, 320])
def test_batches_are_no_dead_letters(shard: Shard, code: int) -> None:
    client = shard.connect()
    shard.core.lock_group(b"g", 60_000)
    shard.core.remove_topic(DEAD.encode())
    if code == 10:
        frame = request(
            10, 1, b"x" * 22, producerGroup="P", topic=RETRY, defaultTopic="TBW102", queueId=0,
            defaultTopicQueueNums=4, sysFlag=0, bornTimestamp=1, flag=0, reconsumeTimes=17,
            batch=True,
        )  # fmt: skip
    else:
        frame = send_batch(RETRY, [b"a", b"b"], j=17, m=code == 310)
        command = decode(frame[4:])
        command.code = code
        frame = encode(command)
    reply = client.ask(frame)
    assert (reply.code, "batch" in (reply.remark or "")) == (13, True)
    assert shard.core.stats()["control_requests"] == 0


def test_a_dead_letter_of_a_transaction_is_half(shard: Shard) -> None:
    shard.topic(HALF)
    shard.core.start_transactions(0, 1)
    client = shard.connect()
    marks = "TRAN_MSG\x01true\x02PGROUP\x01P\x02DELAY\x013\x02KEYS\x01k\x02"
    assert client.ask(send(RETRY, b"half", 1, j=17, f=4, i=marks)).code == 0
    (half,) = stored(client, HALF)
    assert (half.body, half.reconsume_times) == (b"half", 17)
    target = {"REAL_TOPIC": DEAD, "REAL_QID": "0", "TRAN_MSG": "true", "KEYS": "k"}
    assert target.items() <= half.properties.items()
    assert "DELAY" not in half.properties
    assert stored(client, DEAD) == []


def test_dead_letters_without_answer_are_stored_as_well(shard: Shard) -> None:
    client = shard.connect()
    frames = [send(RETRY, b"%d" % n, 1, one_way=True, j=17, i=MARKS) for n in range(100)]
    client.put(*frames, send(RETRY, b"", 1, one_way=True, j=17))
    assert client.ask(pull("reader", DEAD, opaque=2)).opaque == 2
    dead = stored(client, DEAD)
    assert [each.body for each in dead] == [b"%d" % n for n in range(100)]
    assert shard.core.stats()["dead_letters"] == 100


def test_dead_letters_are_acked_when_they_are_durable(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_flush=True) as shard:
        shard.group("g")
        known(shard)
        client = shard.connect()
        for number in range(20):
            assert client.ask(send(RETRY, bytes(500), number, j=17)).code == 0
            _, written, durable = shard.core.log_range()
            assert durable == written
        assert client.ask(send(RETRY, b"x", 1, j=17, i="WAIT\x01false\x02")).code == 0


def test_more_dead_letters_in_a_turn_than_the_ring_holds_are_all_stored(tmp_path: Path) -> None:
    with Shard(tmp_path, ring_bytes=MIB, record_max_bytes=MIB // 2) as shard:
        shard.group("g")
        known(shard)
        client = shard.connect()
        client.put(*(send(RETRY, bytes(100_000), n, j=17, i=MARKS) for n in range(60)))
        replies = client.replies(60)
        assert {reply.code for reply in replies.values()} == {0}
        offsets = [int(replies[n].fields["queueOffset"]) for n in range(60)]
        assert offsets == list(range(60))
        assert shard.core.stats()["dead_letters"] == 60


def test_a_shard_that_may_not_write_takes_no_dead_letters_until_it_may(shard: Shard) -> None:
    client = shard.connect()
    shard.core.set_writable(0, b"the disk is full: 96 %")
    reply = client.ask(send(RETRY, b"x", 1, j=17))
    assert (reply.code, reply.remark) == (14, "the disk is full: 96 %")
    assert shard.core.stats()["dead_letters"] == 0
    shard.core.set_writable(1, b"")
    assert client.ask(send(RETRY, b"x", 2, j=17)).fields["queueOffset"] == "0"


def make_group(shard: Shard) -> None:
    shard.core.put_group(b"g", 1, 1)
    shard.core.put_retries(b"g", 1, 16, b"")


def make_retries_known(shard: Shard) -> None:
    shard.core.put_retries(b"g", 1, 16, b"")


@pytest.mark.parametrize("missing", ["dead letters", "retries", "group", "how often"])
def test_control_makes_what_is_missing_and_gives_the_frame_back(
    tmp_path: Path, missing: str
) -> None:
    with Shard(tmp_path) as shard:
        if missing != "group":
            shard.group("g")
        if missing not in ("group", "how often"):
            make_retries_known(shard)
        if missing != "retries":
            shard.topic(RETRY)
        if missing != "dead letters":
            shard.topic(DEAD)
        shard.group("reader", RETRY, DEAD)
        client = shard.connect()
        frame = send(RETRY, b"tired", 8, j=17)
        client.put(frame)
        ((number, handed),) = shard.reports(REQUEST)
        assert handed == frame[4:]
        # Too early: it is refused, and not handed to control again.
        shard.core.resubmit(number, handed)
        reply = client.reply()
        assert (reply.code, "send again" in (reply.remark or "")) == (1, True)
        assert shard.kept(REQUEST) == []
        make_group(shard)
        shard.topic(RETRY)
        shard.topic(DEAD)
        shard.core.resubmit(number, handed)
        assert client.reply().code == 0
        shard.core.send_done(number)
        assert client.ask(send(RETRY, b"and this", 9, j=17)).opaque == 9
        assert [dead.body for dead in stored(client, DEAD)] == [b"tired", b"and this"]
        counters = shard.core.stats()
        assert (counters["dead_letters"], counters["control_requests"]) == (2, 1)


def test_dead_letters_behind_one_that_is_away_wait_and_keep_their_order(shard: Shard) -> None:
    shard.core.remove_topic(DEAD.encode())
    client, other = shard.connect(), shard.connect()
    client.put(send(RETRY, b"a", 1, j=17), send(RETRY, b"b", 2, j=17))
    away = shard.reports(REQUEST, 2)
    client.put(send(RETRY, b"c", 3, j=17), send("t", b"d", 4))
    assert other.ask(send(RETRY, b"of another", 1, j=16)).code == 0  # nobody else is held back
    shard.topic(DEAD)
    for number, frame in away:
        assert client.is_silent()
        shard.core.resubmit(number, frame)
        assert client.reply().code == 0
        shard.core.send_done(number)
    assert [client.reply().opaque for _ in range(2)] == [3, 4]
    assert [dead.body for dead in stored(client, DEAD)] == [b"a", b"b", b"c"]


def test_a_group_that_changes_meanwhile_decides_anew(clock: DrivenClock, shard: Shard) -> None:
    """The group may have been given more tries while the topic of dead letters was made."""
    shard.core.remove_topic(DEAD.encode())
    client = shard.connect()
    client.put(send(RETRY, b"x", 1, j=17))
    ((number, frame),) = shard.reports(REQUEST)
    shard.core.put_retries(b"g", 1, 20, b"")
    shard.core.resubmit(number, frame)
    assert client.reply().code == 0
    # Control does not release the client: it is read again when control's time is over.
    clock.advance(4)
    assert [retry.body for retry in stored(client, RETRY)] == [b"x"]


def test_control_is_asked_about_dead_letters_that_nobody_may_read_or_write(shard: Shard) -> None:
    """Only the topic's own permission refuses dead letters. The reactor has it cut down to the
    broker's, so control must look at a topic that seems to have none."""
    client = shard.connect()
    for perm in (2, 4, 6):
        shard.topic(DEAD, perm=perm)
        assert client.ask(send(RETRY, b"x", 1, j=17)).code == 0
    assert shard.kept(REQUEST) == []
    shard.topic(DEAD, perm=0)
    client.put(send(RETRY, b"y", 2, j=17))
    ((number, frame),) = shard.reports(REQUEST)
    shard.core.resubmit(number, frame)
    assert (client.reply().code, shard.core.stats()["dead_letters"]) == (0, 4)


def test_dead_letters_without_a_queue_take_nothing(shard: Shard) -> None:
    shard.topic(DEAD, 0, 0)
    client = shard.connect()
    reply = client.ask(send(RETRY, b"x", 1, j=17))
    assert (reply.code, DEAD in (reply.remark or "")) == (29, True)
    assert client.ask(send(RETRY, b"x", 2, j=16)).code == 0


def test_retries_and_dead_letters_of_many_groups_go_their_own_ways(shard: Shard) -> None:
    names = [f"group-{n}-{'x' * (n * 20)}" for n in range(10)]
    for name in names:
        shard.group(name)
        shard.core.put_retries(name.encode(), 1, 2, b"")
        for prefix in ("%RETRY%", "%DLQ%"):
            shard.topic(prefix + name)
            shard.group("reader", prefix + name)
    client = shard.connect()
    fields: dict[str, Any] = {"code": 310}
    client.put(*(
        send(f"%RETRY%{name}", b"%d" % times, 10 * at + times, j=times, **fields)
        for at, name in enumerate(names) for times in range(5)
    ))  # fmt: skip
    assert {reply.code for reply in client.replies(50).values()} == {0}
    for name in names:
        assert bodies(client.ask(pull("reader", f"%RETRY%{name}"))) == [b"0", b"1", b"2"]
        assert bodies(client.ask(pull("reader", f"%DLQ%{name}"))) == [b"3", b"4"]
