"""Records into Arrow columns, compared field by field with the pure-Python twin of the format."""

import random
import zlib

import pytest
from support.stored_records import record

pa = pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

from cext.arrow.columns import Columns, Field  # noqa: E402
from cext.arrow.decoder import DamageMode, Decoder  # noqa: E402
from cext.base.status import Status  # noqa: E402
from cext.testing.arrow_probe import decode_bytes  # noqa: E402
from rmq.arrow.batches import BatchMaker, unpack_body  # noqa: E402
from rmq.arrow.options import lenient_options  # noqa: E402
from rmq.format.message import decode_message, decode_properties  # noqa: E402
from rmq.spark import columns as schemas  # noqa: E402


class Reading:
    """A decoder with all columns, and the batches that it made."""

    def __init__(self, mode: int = DamageMode.PERMISSIVE, rows_max: int = 8192, **settings) -> None:
        options = lenient_options({"mode": "permissive"})
        schema = schemas.default_schema(options)
        self.columns = Columns(
            [Field[name] for name in schemas.fields_of(schema, options)], rows_max
        )
        self.columns.place("T", "broker-a", 3, 3)
        self.decoder = Decoder(self.columns, unpack=unpack_body, mode=mode, **settings)
        self._maker = BatchMaker(schemas.arrow_schema(schema), self.columns)

    def rows(self) -> list[dict]:
        return self.batch().to_pylist()

    def batch(self):
        batch = self._maker.batch()
        batch.validate(full=True)
        return batch


def decoded(data: bytes, **settings) -> list[dict]:
    reading = Reading(**settings)
    status, used, _ = decode_bytes(reading.decoder, data, 0)
    assert (status, used) == (Status.OK, len(data))
    return reading.rows()


LAST_US = ((1 << 63) - 1) // 1000 * 1000


@pytest.mark.parametrize(
    ("born_ms", "us"),
    [(10**15, 10**18), (1 << 62, LAST_US), ((1 << 63) - 1, LAST_US), (-1 << 63, -LAST_US)],
)
def test_a_time_beyond_microseconds_is_the_last_that_they_have(born_ms: int, us: int) -> None:
    data = bytearray(record(0))
    data[40:48] = born_ms.to_bytes(8, "big", signed=True)
    reading = Reading()
    assert decode_bytes(reading.decoder, bytes(data), 0)[0] == Status.OK
    times = reading.batch().column("bornTimestamp").cast(pa.int64())
    assert times.to_pylist() == [us]


def test_every_field_is_what_the_twin_reads() -> None:
    chance = random.Random(7)
    data, pairs = b"", []
    for offset in range(200):
        pairs.append(
            "".join(
                f"{chance.choice(['KEYS', 'TAGS', 'UNIQ_KEY', 'a', 'größe'])}\1v{at}\2"
                for at in range(chance.randrange(6))
            ).encode()
        )
        data += record(
            offset, chance.randbytes(chance.randrange(300)), properties=pairs[-1],
            topic=b"t" * chance.choice([1, 100, 200]) if offset % 2 else b"bench",
            magic=0xDAA320AB if offset % 2 else 0xDAA320A7, flags=chance.choice([0, 0x10, 0x30]),
        )  # fmt: skip
    at = 0
    for row, text in zip(decoded(data), pairs, strict=True):
        message, at = decode_message(data, at)
        properties = decode_properties(text)
        assert dict(row["properties"]) == properties
        assert (row["tags"], row["keys"], row["uniqueKey"]) == tuple(
            properties.get(name) for name in ("TAGS", "KEYS", "UNIQ_KEY")
        )
        assert row["body"] == message.body
        assert (row["topic"], row["queueId"], row["queueOffset"], row["physicalOffset"]) == (
            message.topic, message.queue_id, message.queue_offset, message.physical_offset,
        )  # fmt: skip
        assert (row["bornHost"], row["storeHost"]) == (
            str(message.born_host), str(message.store_host),
        )  # fmt: skip
        assert row["msgId"] == message.message_id
        assert row["storeTimestamp"].timestamp() * 1000 == message.store_timestamp_ms
        assert (row["sysFlag"], row["_corrupt"]) == (message.sys_flag, None)


@pytest.mark.parametrize(
    ("flags", "pack"),
    [
        (0x001, zlib.compress),
        (0x301, zlib.compress),
        (0x101, lambda body: pa.compress(body, "lz4", asbytes=True)),
        (0x201, lambda body: pa.compress(body, "zstd", asbytes=True)),
    ],
)
def test_packed_bodies_come_out_as_they_were_sent(flags: int, pack) -> None:
    body = b"again and again " * 1000
    (row,) = decoded(record(0, pack(body), flags=flags))
    assert row["body"] == body
    (row,) = decoded(record(0, pack(body)[:-9], flags=flags))
    assert row["_corrupt"] == "the packed body cannot be unpacked"
    (row,) = decoded(record(0, pack(body), flags=flags), unpacked_max=1000)
    assert row["_corrupt"] is not None


def test_a_body_of_several_frames_is_read_whole() -> None:
    """A body of several compressed frames must be read whole, as Java's clients read it."""
    lz4, zstandard = pytest.importorskip("lz4.frame"), pytest.importorskip("zstandard")
    for flags, pack in ((0x101, lz4.compress), (0x201, zstandard.ZstdCompressor().compress)):
        packed = pack(b"") + pack(b"a" * 1000) + pack(b"b" * 1000)
        (row,) = decoded(record(0, packed, flags=flags), unpacked_max=2000)
        assert row["body"] == b"a" * 1000 + b"b" * 1000
        for bad, limit in ((packed, 1999), (packed[:-3], 2000), (packed + b"more", 2000)):
            (row,) = decoded(record(0, bad, flags=flags), unpacked_max=limit)
            assert row["_corrupt"] == "the packed body cannot be unpacked"


def test_a_body_counts_as_it_is_stored() -> None:
    """bodySize must be the size of the stored body, which need not be unpacked for it. For a
    damaged message nothing is known."""
    body, packed = b"again and again " * 1000, zlib.compress(b"again and again " * 1000)

    def unpack(sys_flag: int, packed: bytes, limit: int) -> bytes:
        raise AssertionError("nobody wants the body")

    columns = Columns([Field.BODY_SIZE, Field.QUEUE_OFFSET])
    columns.place("T", "broker-a", 3, 3)
    decoder = Decoder(columns, unpack=unpack, mode=DamageMode.PERMISSIVE)
    damaged = bytearray(record(2, b"other"))
    damaged[88] ^= 1
    data = record(0, body) + record(1, packed, flags=1) + bytes(damaged) + record(3, b"")
    assert decode_bytes(decoder, data, 0)[0] == Status.OK
    schema = pa.schema([("bodySize", pa.int32()), ("queueOffset", pa.int64())])
    found = BatchMaker(schema, columns).batch()
    assert found["bodySize"].to_pylist() == [len(body), len(packed), None, 0]
    assert found["queueOffset"].to_pylist() == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, TypeError, OSError])
@pytest.mark.parametrize("mode", [DamageMode.PERMISSIVE, DamageMode.DROP, DamageMode.FAIL_FAST])
def test_only_a_value_error_says_that_a_body_is_damaged(error: type, mode: int) -> None:
    wanted = [error]

    def unpack(sys_flag: int, packed: bytes, limit: int) -> bytes:
        if wanted:
            raise wanted.pop()("not about the body")
        return packed

    decoder = Decoder(Columns([Field.BODY]), unpack=unpack, mode=mode)
    data = record(0, b"packed", flags=0x001)
    with pytest.raises(error, match="not about the body"):
        decode_bytes(decoder, data, 0)
    assert (decoder.damaged, decoder.problem, decoder.columns.rows) == (0, None, 0)
    # nothing of the failed read may stay behind
    assert decode_bytes(decoder, data, 0)[0] == Status.OK
    assert (decoder.damaged, decoder.columns.rows) == (0, 1)


def inner(body: bytes, properties: bytes) -> bytes:
    rest = bytes(8) + (7).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
    rest += len(properties).to_bytes(2, "big") + properties
    return (len(rest) + 4).to_bytes(4, "big") + rest


def test_a_batch_stored_as_one_record_is_unfolded() -> None:
    batch = inner(b"one", b"TAGS\1a\2") + inner(b"", b"") + inner(b"three", b"TAGS\1b\2")
    data = record(5, batch, properties=b"INNER_NUM\x013\2INNER_BASE\x0140\2", flags=0xC0)
    rows = decoded(data)
    assert [(row["queueOffset"], row["body"], row["tags"], row["flag"]) for row in rows] == [
        (40, b"one", "a", 7), (41, b"", None, 7), (42, b"three", "b", 7),
    ]  # fmt: skip
    (row,) = decoded(record(5, batch[:-3], flags=0xC0))[2:]
    assert row["_corrupt"] == "a batch whose messages do not add up"


def test_a_batch_of_many_more_messages_than_rows_fit_is_unfolded_whole() -> None:
    batch = (inner(b"", b"TAGS\1a\2") + inner(b"", b"")) * 5000
    reading = Reading(rows_max=8)
    for _ in range(2):  # the second time the columns are used again
        for data in (record(5, batch, flags=0xC0), record(7)):
            assert decode_bytes(reading.decoder, data, 0)[0] == Status.OK
            rows = reading.rows()
            assert [row["tags"] for row in rows] == (
                ["a", None] * 5000 if len(rows) > 1 else [None]
            )


def test_damage_is_a_row_nothing_or_the_end() -> None:
    good, bad = record(0), bytearray(record(1))
    bad[90] ^= 0x10
    data = good + bytes(bad) + record(2)
    rows = decoded(data)
    assert [(row["queueOffset"], row["_corrupt"]) for row in rows] == [
        (0, None), (1, "the body does not match its checksum"), (2, None),
    ]  # fmt: skip
    assert rows[1]["topic"] == "T"
    assert rows[1]["body"] is None
    assert [row["queueOffset"] for row in decoded(data, mode=DamageMode.DROP)] == [0, 2]
    reading = Reading(mode=DamageMode.FAIL_FAST)
    assert decode_bytes(reading.decoder, data, 0)[0] == Status.CORRUPT
    assert reading.decoder.problem == (1, "the body does not match its checksum")
    assert [row["queueOffset"] for row in reading.rows()] == [0]


def test_no_bytes_at_all_harm_the_decoder() -> None:
    """After random changes of good bytes there must be rows or damage, and no more than the bytes
    hold."""
    chance = random.Random(11)
    whole = b"".join(record(at, b"x" * at, flags=0xC1 if at % 5 == 0 else 0) for at in range(30))
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.randrange(len(data) + 1)])
        reading = Reading()
        status, used, _ = decode_bytes(reading.decoder, cut, 0)
        # CLOSED: a changed queue offset lies beyond the range.
        assert status == Status.CLOSED or (status, used) == (Status.OK, len(cut))
        assert used <= len(cut)
        reading.batch()  # validates every buffer; times may be beyond Python's


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"a\xc0\x80b",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b"eight by\xe2\x82",
        "µ€😀".encode(),
    ],
)
def test_text_that_is_no_utf8_is_replaced_as_python_replaces_it(text: bytes) -> None:
    (row,) = decoded(record(0, properties=b"KEYS\1" + text + b"\2"))
    wanted = text.decode("utf-8", "replace")
    assert row["keys"].replace("\ufffd", "") == wanted.replace("\ufffd", "")
    assert ("\ufffd" in row["keys"]) == ("\ufffd" in wanted)


def test_full_columns_stop_at_a_record_and_go_on_there() -> None:
    data = b"".join(record(at) for at in range(25))
    reading = Reading(rows_max=10)
    seen, at = [], 0
    while at < len(data):
        status, used, _ = decode_bytes(reading.decoder, data[at:], len(seen))
        at += used
        seen += [row["queueOffset"] for row in reading.rows()]
        assert status == (Status.OK if at == len(data) else Status.NOT_READY)
    assert seen == list(range(25))


def test_only_wanted_tags_pass() -> None:
    data = record(0, properties=b"TAGS\1Aa\2") + record(1, properties=b"TAGS\1BB\2") + record(2)
    assert [row["tags"] for row in decoded(data, tags=["Aa"])] == ["Aa"]
    assert decoded(data, tags=["none"]) == []


def test_rows_without_bytes_fill_a_batch_by_their_numbers_and_are_no_nulls() -> None:
    """A row of queueOffset and an empty body counts 12 bytes, so that 84 rows reach 1000."""
    columns = Columns([Field.QUEUE_OFFSET, Field.BODY], 8192, 1000)
    decoder = Decoder(columns)
    records = b"".join(record(at, b"") for at in range(100))
    status, used, following = decode_bytes(decoder, records, 0)
    assert (status, following) == (Status.NOT_READY, 84)
    assert used == len(records) * 84 // 100
    schema = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
    assert BatchMaker(schema, columns).batch().to_pydict()["body"] == [b""] * 84


def test_a_batch_keeps_its_rows_while_later_ones_are_made_and_let_go() -> None:
    reading = Reading()
    kept = []
    for first in range(0, 300, 3):
        data = b"".join(
            record(at, b"%d" % at * 50, properties=b"a\1%d\2" % at)
            for at in range(first, first + 3)
        )
        assert decode_bytes(reading.decoder, data, 0)[0] == Status.OK
        if first % 2:
            reading.columns.hand_over()  # a batch that nobody takes
        else:
            kept.append(reading.batch())
    parts = [batch.column("body").slice(1) for batch in kept]
    keys = [batch.column("properties") for batch in kept]
    del kept, reading
    bodies = [body for part in parts for body in part.to_pylist()]
    assert bodies == [
        b"%d" % at * 50 for first in range(0, 300, 6) for at in (first + 1, first + 2)
    ]
    names = [dict(row)["a"] for column in keys for row in column.to_pylist()]
    assert names == [str(at) for first in range(0, 300, 6) for at in range(first, first + 3)]


def test_a_batch_of_other_columns_than_its_schema_is_refused() -> None:
    columns = Columns([Field.QUEUE_OFFSET])
    schema = pa.schema([("queueOffset", pa.int64()), ("body", pa.binary())])
    with pytest.raises(pa.ArrowInvalid):
        BatchMaker(schema, columns).batch()
    assert BatchMaker(pa.schema([("queueOffset", pa.int64())]), columns).batch().num_rows == 0
