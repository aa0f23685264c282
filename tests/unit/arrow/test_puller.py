"""Answers to pulls as they come over a socket: in pieces, cut anywhere, with bytes that are no
answer."""

import json
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from support.stored_records import record
from support.waiting import HANG_S

pa = pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

from cext.arrow.columns import Columns, Field  # noqa: E402
from cext.arrow.decoder import DamageMode, Decoder  # noqa: E402
from cext.arrow.puller import Outcome, Puller  # noqa: E402
from rmq.arrow.batches import BatchMaker  # noqa: E402

PATIENCE_MS = 120_000
SCHEMA = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
REQUEST = (b'{"queueOffset":"', b'","opaque":', b"}")


def answer(body: bytes, following: int, opaque: int, code: int = 0) -> bytes:
    header = json.dumps(
        {"code": code, "extFields": {"nextBeginOffset": str(following), "minOffset": "0",
         "maxOffset": "9"}, "flag": 1, "language": "JAVA", "opaque": opaque, "version": 1},
        separators=(",", ":"),
    ).encode()  # fmt: skip
    return struct.pack(">II", len(header) + len(body) + 4, len(header)) + header + body


class Peer:
    """The puller's end of a connection; a function answers at the other end."""

    def __init__(self, reply: Callable[[socket.socket, int, int], None]) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._reply = reply
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while lengths := self._theirs.recv(8, socket.MSG_WAITALL):
                frame, text = struct.unpack(">II", lengths)
                assert frame == text + 4
                asked = json.loads(self._theirs.recv(text, socket.MSG_WAITALL))
                self._reply(self._theirs, int(asked["queueOffset"]), asked["opaque"])

    def close(self) -> None:
        self.ours.close()
        self._theirs.close()
        self._thread.join(60)


@contextmanager
def peer(reply: Callable[[socket.socket, int, int], None]) -> Iterator[Peer]:
    started = Peer(reply)
    try:
        yield started
    finally:
        started.close()


def decoder(mode: int = DamageMode.FAIL_FAST) -> Decoder:
    columns = Columns([Field.QUEUE_OFFSET, Field.BODY], 8192, 256 << 10)
    columns.place("T", "broker-a", 3, 3)
    return Decoder(columns, mode=mode)


def taken(columns: Columns) -> list[tuple[int, bytes]]:
    batch = BatchMaker(SCHEMA, columns).batch()
    return list(zip(*batch.to_pydict().values(), strict=True))


def everything(puller: Puller, columns: Columns) -> list[tuple[int, bytes]]:
    found = []
    while (outcome := puller.fill()) == Outcome.BATCH:
        found += taken(columns)
    assert outcome == Outcome.END
    return found + taken(columns)


@pytest.mark.parametrize("cut", [1, 700, 5000, 1 << 20])
def test_records_of_any_size_come_whole_however_the_answers_are_cut(cut: int) -> None:
    chance = random.Random(cut)
    sizes = [chance.choice([0, 1, 90, 1000, 5000]) for _ in range(20 if cut == 1 else 500)]
    if cut > 1000:
        sizes[7], sizes[300], sizes[301] = 400_000, 3_000_000, 200_000
    bodies = [chance.randbytes(size) for size in sizes]
    records = [record(at, body) for at, body in enumerate(bodies)]

    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        following = min(offset + 40, len(records))
        frame = answer(b"".join(records[offset:following]), following, opaque)
        at = 0
        while at < len(frame):
            step = chance.randrange(1, 2 * cut)
            to.sendall(frame[at : at + step])
            at += step

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, len(records), PATIENCE_MS)
        assert everything(puller, reading.columns) == list(enumerate(bodies))


def test_an_answer_that_breaks_off_leaves_the_messages_that_came_whole() -> None:
    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        body = b"".join(record(at, b"%d" % at * 1000) for at in range(offset, offset + 50))
        frame = answer(body, offset + 50, opaque)
        if offset == 0:
            to.sendall(frame)
        else:
            to.sendall(frame[:-5])
            to.shutdown(socket.SHUT_RDWR)

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 100, PATIENCE_MS)
        assert (puller.fill(), puller.next_offset, puller.error) == (Outcome.LOST, 99, 0)
        assert [offset for offset, _ in taken(reading.columns)] == list(range(99))


def test_messages_are_given_before_the_answer_is_here_to_its_end() -> None:
    half_is_read = threading.Event()

    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        frame = answer(b"".join(record(at, b"x" * 1000) for at in range(1000)), 1000, opaque)
        to.sendall(frame[: len(frame) // 2])
        assert half_is_read.wait(HANG_S)
        to.sendall(frame[len(frame) // 2 :])

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 1000, PATIENCE_MS)
        assert puller.fill() == Outcome.BATCH
        rows = taken(reading.columns)
        assert 200 < len(rows) < 500
        half_is_read.set()
        assert rows + everything(puller, reading.columns) == [
            (at, b"x" * 1000) for at in range(1000)
        ]


@pytest.mark.parametrize("end", [1, 499, 1000])
def test_after_a_range_that_ends_within_an_answer_the_connection_is_as_it_was(end: int) -> None:
    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        to.sendall(answer(b"".join(record(at, b"x" * 1000) for at in range(1000)), 1000, opaque))

    with peer(reply) as other:
        for _ in range(2):  # the second time on the same connection
            reading = decoder()
            puller = Puller(
                reading, other.ours.fileno(), REQUEST, 0, end, PATIENCE_MS, rest_ms=PATIENCE_MS
            )
            assert len(everything(puller, reading.columns)) == end
            assert puller.in_step
            with pytest.raises(BlockingIOError):
                other.ours.recv(1)


def test_a_connection_with_the_rest_of_an_answer_still_to_come_is_not_in_step() -> None:
    range_is_read = threading.Event()

    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        frame = answer(b"".join(record(at, b"x" * 1000) for at in range(10)), 10, opaque)
        to.sendall(frame[:-9])
        assert range_is_read.wait(HANG_S)

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 9, PATIENCE_MS, rest_ms=20)
        assert len(everything(puller, reading.columns)) == 9
        assert not puller.in_step
        range_is_read.set()


def test_damage_behind_the_end_of_a_range_is_told_by_another() -> None:
    records = [record(at, b"x" * 1000) for at in range(5, 9)]
    records[2] = records[2].replace(b"xxx", b"xyx", 1)

    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        following = [each for at, each in enumerate(records, 5) if at >= offset]
        to.sendall(answer(b"".join(following), 9, opaque))

    for start, end, expected in ((0, 7, 0), (5, 7, 0), (0, 8, 1), (7, 9, 1), (8, 9, 0)):
        with peer(reply) as other:
            reading = decoder(DamageMode.PERMISSIVE)
            puller = Puller(reading, other.ours.fileno(), REQUEST, start, end, PATIENCE_MS)
            rows = everything(puller, reading.columns)
            assert reading.damaged == expected, (start, end)
            assert [offset for offset, _ in rows] == list(range(max(start, 5), end))


def test_behind_a_length_that_cannot_be_the_next_answer_goes_on() -> None:
    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        body = b"".join(record(at, b"x" * 900) for at in range(offset, offset + 3))
        if offset == 0:  # with much behind it, which must not be looked at
            body += struct.pack(">II", 0x7FFFFFFF, 0xDAA320A7) + bytes(400_000)
        to.sendall(answer(body, offset + 5, opaque))

    with peer(reply) as other:
        reading = decoder(DamageMode.DROP)
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 8, PATIENCE_MS)
        rows = everything(puller, reading.columns)
        assert [offset for offset, _ in rows] == [0, 1, 2, 5, 6, 7]
        assert reading.damaged == 1


def test_a_batch_in_one_record_is_given_once_though_it_is_asked_for_again() -> None:
    """A batch in one record must be given once, although the record comes again: the connection
    breaks behind it, and the next broker sends it from its beginning."""

    def part(body: bytes) -> bytes:
        return struct.pack(">4I", 22 + len(body), 0, 0, 0) + struct.pack(
            ">I", len(body)
        ) + body + bytes(2)  # fmt: skip

    batch = b"".join(part(b"%d" % at) for at in range(4))
    one = record(0, batch, properties=b"INNER_NUM\x014\2INNER_BASE\x010\2", flags=0xC0)
    asked = []

    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        asked.append(offset)
        if offset == 0:
            to.sendall(answer(one + record(4, b"4"), 5, opaque)[:-5])
            to.shutdown(socket.SHUT_RDWR)
        else:
            to.sendall(answer(one + record(4, b"4"), 5, opaque))

    reading = decoder()
    with peer(reply) as other:
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 5, PATIENCE_MS)
        assert puller.fill() == Outcome.LOST
    with peer(reply) as other:
        again = Puller(reading, other.ours.fileno(), REQUEST, puller.next_offset, 5, PATIENCE_MS)
        assert everything(again, reading.columns) == [(at, b"%d" % at) for at in range(5)]
    assert asked == [0, 4]
    with peer(reply) as other:  # a broker that names the offset after the first message
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 2, 5, PATIENCE_MS)
        assert [at for at, _ in everything(puller, reading.columns)] == [2, 3, 4]


def test_an_answer_to_somebody_else_is_thrown_away() -> None:
    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        to.sendall(answer(bytes(700_000), 77, opaque + 5))
        to.sendall(answer(record(offset, b"mine"), offset + 1, opaque))

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 3, PATIENCE_MS)
        assert everything(puller, reading.columns) == [(0, b"mine"), (1, b"mine"), (2, b"mine")]


def test_the_body_of_a_refusal_is_not_the_start_of_the_next_answer() -> None:
    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        code = 2 if opaque == 1 else 0
        body = bytes(500_000) if code else record(offset, b"later")
        to.sendall(answer(body, offset + 1, opaque, code))

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 1, PATIENCE_MS)
        assert (puller.fill(), puller.code) == (Outcome.REFUSED, 2)
        puller.seek(0)
        assert everything(puller, reading.columns) == [(0, b"later")]


def test_a_broker_that_says_nothing_is_given_up() -> None:
    with peer(lambda to, offset, opaque: to.sendall(answer(b"", 1, opaque)[:20])) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 1, 50)
        assert puller.fill() == Outcome.LOST
        assert puller.error != 0


def test_what_is_signed_leaves_as_it_was_signed() -> None:
    def reply(to: socket.socket, offset: int, opaque: int) -> None:
        to.sendall(answer(record(offset - 1000, b"x"), offset - 999, opaque))

    def sign(offset: int, opaque: int) -> bytes:
        text = json.dumps({"queueOffset": str(offset + 1000), "opaque": opaque}).encode()
        return struct.pack(">II", len(text) + 4, len(text)) + text

    with peer(reply) as other:
        reading = decoder()
        puller = Puller(reading, other.ours.fileno(), REQUEST, 0, 3, PATIENCE_MS, sign=sign)
        assert everything(puller, reading.columns) == [(0, b"x"), (1, b"x"), (2, b"x")]
