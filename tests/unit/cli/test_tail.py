"""Reading a topic without a group: it ends where the queue ended, filters tags exactly, and does
not read in circles. Method: a scripted broker that is its own name server."""

import zlib
from collections.abc import Sequence

import pytest
from support.scripted_peer import ScriptedPeer

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start, tail
from rmq.codes import RequestCode as Code
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.message import StoredMessage, encode_message, encode_properties
from rmq.format.packed_body import UNPACKED_BYTES_MAX
from rmq.format.remoting import Command


class OneQueue:
    """A broker with one queue of one topic, full of the given messages."""

    def __init__(self, messages: Sequence[StoredMessage]) -> None:
        self.messages = list(messages)
        self.peer = ScriptedPeer(
            {
                Code.GET_ROUTEINFO_BY_TOPIC: self.route,
                Code.GET_MAX_OFFSET: lambda r: r.reply(0, None, {"offset": len(self.messages)}),
                Code.GET_MIN_OFFSET: lambda r: r.reply(0, None, {"offset": 0}),
                Code.SEARCH_OFFSET_BY_TIMESTAMP: lambda r: r.reply(0, None, {"offset": 1}),
                Code.PULL_MESSAGE: self.pull,
            }
        )

    def route(self, request: Command) -> Command:
        broker = {"brokerName": "b", "cluster": "c", "brokerAddrs": {0: self.peer.address}}
        body = {
            "brokerDatas": [broker],
            "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}],
        }  # fmt: skip
        return request.reply(0, None, None, fastjson.dumps(body))

    def pull(self, request: Command) -> Command:
        offset = request.int_field("queueOffset")
        found = self.messages[offset : offset + 2]
        fields = {
            "suggestWhichBrokerId": 0, "nextBeginOffset": offset + len(found),
            "minOffset": 0, "maxOffset": len(self.messages),
        }  # fmt: skip
        if not found:
            return request.reply(19, "NO_NEW_MSG", fields)
        return request.reply(0, "FOUND", fields, b"".join(map(encode_message, found)))

    def read(self, *tags: str, start: str = "first") -> list[ReceivedMessage]:
        with self.peer, Cluster(self.peer.address) as cluster:
            return list(tail(cluster, "t", tags=tags, start=Start(start)))


def test_a_read_that_is_followed_to_an_offset_waits_until_that_is_there() -> None:
    """A read that follows up to an offset must wait for it, although the broker answers held pulls
    with nothing after 15 s."""
    queue = OneQueue([message(0)])
    answers = queue.pull

    def pull(request: Command) -> Command:
        found = answers(request)
        if found.code == 19:
            queue.messages.append(message(len(queue.messages)))
        return found

    queue.peer.answers[Code.PULL_MESSAGE] = pull
    with queue.peer, Cluster(queue.peer.address) as cluster:
        found = tail(cluster, "t", start=Start("offset", 0, 3), follow=True)
        assert [each.stored.queue_offset for each in found] == [0, 1, 2]


@pytest.mark.parametrize("follow", [False, True])
def test_behind_a_hole_in_a_queue_it_is_read_on(follow: bool) -> None:
    """Reading must go on behind a hole in a queue. The answers are those of Apache's brokers when a
    file of a consume queue is lost."""
    queue = OneQueue([message(each) for each in range(5)])
    answers = queue.pull

    def pull(request: Command) -> Command:
        offset = request.int_field("queueOffset")
        if offset in (1, 2):
            fields = {"suggestWhichBrokerId": 0, "nextBeginOffset": 3, "minOffset": 0,
                      "maxOffset": 5}  # fmt: skip
            return request.reply(19, "OFFSET_FOUND_NULL", fields)
        found = answers(request)
        if offset == 0:  # only the first message
            found.body = encode_message(queue.messages[0])
            found.fields["nextBeginOffset"] = "1"
        return found

    queue.peer.answers[Code.PULL_MESSAGE] = pull
    with queue.peer, Cluster(queue.peer.address) as cluster:
        found = tail(cluster, "t", start=Start("first", end=5), follow=follow)
        assert [each.stored.queue_offset for each in found] == [0, 3, 4]


def message(offset: int, tag: str = "a", **more: object) -> StoredMessage:
    return StoredMessage(
        topic="t", queue_offset=offset, physical_offset=offset * 1000,
        properties_bytes=encode_properties({"TAGS": tag}),
        **({"body": b"%d" % offset} | more),  # type: ignore[arg-type]
    )  # fmt: skip


def test_reads_every_message_up_to_where_the_queue_ended() -> None:
    broker = OneQueue([message(offset) for offset in range(5)])
    assert [each.body for each in broker.read()] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(("start", "first"), [("first", 0), ("last", 3), ("time", 1)])
def test_begins_where_asked(start: str, first: int) -> None:
    broker = OneQueue([message(offset) for offset in range(3)])
    assert [each.stored.queue_offset for each in broker.read(start=start)] == list(range(first, 3))


def test_tags_that_share_a_hash_are_told_apart_here() -> None:
    broker = OneQueue([message(0, "Aa"), message(1, "BB")])  # Java hashes both to 2112
    assert [each.body for each in broker.read("Aa")] == [b"0"]
    assert broker.peer.requests[-1].fields["subscription"] == "Aa"


def test_an_expression_is_sent_as_it_is_and_never_together_with_tags() -> None:
    broker = OneQueue([message(0)])
    with broker.peer, Cluster(broker.peer.address) as cluster:
        assert len(list(tail(cluster, "t", sql="a > 1", start=Start("first")))) == 1
        with pytest.raises(ValueError, match="not by both"):
            next(tail(cluster, "t", sql="a > 1", tags=("x",), start=Start("first")))
    fields = broker.peer.requests[-1].fields
    assert (fields["subscription"], fields["expressionType"]) == ("a > 1", "SQL92")


def test_zlib_bodies_are_unpacked_and_others_named() -> None:
    broker = OneQueue(
        [
            message(0, body=zlib.compress(b"text"), sys_flag=0x1),
            message(1, body=b"junk", sys_flag=0x101),
            message(2, body=b"junk", sys_flag=0x301),
        ]
    )
    assert [(each.body, each.packing) for each in broker.read()] == [
        (b"text", None), (b"junk", "lz4"), (b"junk", "zlib, damaged"),
    ]  # fmt: skip


def test_a_body_that_unpacks_to_more_than_allowed_stays_packed() -> None:
    packed = zlib.compress(bytes(UNPACKED_BYTES_MAX + 1))
    (found,) = OneQueue([message(0, body=packed, sys_flag=0x1)]).read()
    assert (found.body, found.packing) == (packed, f"zlib, larger than {UNPACKED_BYTES_MAX} bytes")


def test_refusals_are_raised_and_a_stuck_queue_ends() -> None:
    broker = OneQueue([message(0)])
    broker.peer.answers[Code.PULL_MESSAGE] = lambda request: request.reply(16, "no")
    with pytest.raises(RemoteError, match="code 16"):
        broker.read()
    broker = OneQueue([message(0)])
    broker.peer.answers[Code.PULL_MESSAGE] = lambda request: request.reply(
        21, "OFFSET_MOVED", {"nextBeginOffset": 0}
    )
    assert broker.read() == []


@pytest.mark.parametrize("code", [19, 20])
def test_what_brings_nothing_before_the_end_is_asked_again_and_not_for_ever(code: int) -> None:
    """A pull without messages before the end must be repeated, but not without limit: a pull is
    answered so when an account changes at that moment, and a copy would lack messages unnoticed."""

    def nothing_first(times: int) -> OneQueue:
        queue = OneQueue([message(offset) for offset in range(4)])
        queue.peer.answers[Code.PULL_MESSAGE] = NothingFirst(queue, code, times).pull
        return queue

    found = nothing_first(9).read()
    assert [each.stored.queue_offset for each in found] == [0, 1, 2, 3]
    with pytest.raises(RemoteError, match=r"messages up to 4, .* from 0 on"):
        nothing_first(10**9).read()


class NothingFirst:
    """Answers the first pulls of each offset with nothing."""

    def __init__(self, queue: OneQueue, code: int, times: int) -> None:
        self.queue, self.code, self.times = queue, code, times
        self.seen: dict[int, int] = {}

    def pull(self, request: Command) -> Command:
        offset = request.int_field("queueOffset")
        self.seen[offset] = self.seen.get(offset, 0) + 1
        if self.seen[offset] > self.times:
            return OneQueue.pull(self.queue, request)
        fields = {"nextBeginOffset": offset, "minOffset": 0, "maxOffset": 4}
        return request.reply(self.code, "NO_NEW_MESSAGE", fields)
