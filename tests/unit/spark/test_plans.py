"""Options, offsets and plans without Spark: ranges are cut without a gap and shared out fairly."""

import base64
import hashlib
import hmac

import pytest

pytest.importorskip("pyspark", reason="needs the extra: pip install -e .[spark]")

from hypothesis import given
from hypothesis import strategies as st

from rmq.arrow.access import Access
from rmq.arrow.offsets import (
    QueueKey,
    end_of,
    from_json,
    parse_assign,
    parse_json,
    start_of,
    to_json,
)
from rmq.arrow.options import TABLE, OptionError, read_options, write_options
from rmq.arrow.queue_ranges import cut, gather
from rmq.arrow.queues import partition_numbers
from rmq.spark.stream import deal_out


def options(streaming: bool = False, **given: object):
    texts = {key: str(value) for key, value in given.items()}
    return read_options({"nameserver": "h:1", "topic": "t", **texts}, streaming)


RANGES = st.dictionaries(
    st.builds(QueueKey, st.just("t"), st.sampled_from("ab"), st.integers(0, 9)),
    st.tuples(st.integers(0, 1000), st.integers(0, 3000)).map(lambda x: (x[0], x[0] + x[1])),
    max_size=8,
)


@given(RANGES, st.integers(1, 40), st.none() | st.integers(1, 500), st.none() | st.integers(1, 9))
def test_pieces_cover_every_range_once(ranges, least, records, most) -> None:
    extra = {"maxRecordsPerPartition": records, "maxPartitions": most, "minPartitions": least}
    chosen = options(**{key: value for key, value in extra.items() if value is not None})
    pieces = cut(ranges, partition_numbers(ranges), chosen)
    tasks = gather(pieces, chosen)
    assert sorted(piece for task in tasks for piece in task) == sorted(pieces)
    assert all(tasks)
    if most is not None:
        assert len(tasks) <= most
    for key, (start, end) in ranges.items():
        mine = sorted((piece.start, piece.end) for piece in pieces if piece.key == key)
        assert [at for pair in mine for at in range(*pair)] == list(range(start, end))
        assert records is None or all(last - first <= records for first, last in mine)


@given(st.dictionaries(st.integers(0, 20).map(lambda n: QueueKey("t", "b", n)),
                       st.integers(1, 10_000), min_size=1), st.integers(1, 5000))  # fmt: skip
def test_a_limit_is_shared_by_what_waits_and_starves_nobody(waiting, most) -> None:
    shares = deal_out(waiting, most)
    assert shares.keys() == waiting.keys()
    assert all(1 <= shares[key] <= waiting[key] for key in waiting)
    assert sum(shares.values()) <= most + len(waiting)
    if sum(waiting.values()) <= most:
        assert shares == waiting


@given(st.dictionaries(st.builds(QueueKey, st.text(), st.text(), st.integers(0, 65535)),
                       st.integers(0, 1 << 60)))  # fmt: skip
def test_offsets_of_a_checkpoint_come_back(offsets) -> None:
    assert from_json(to_json(offsets)) == offsets


def test_starts_and_ends_are_read_in_kafkas_order_of_precedence() -> None:
    chosen = options(startingOffsets="latest", startingTimestamp=5, streaming=True)
    assert (start_of(chosen).kind, start_of(chosen).time_ms) == ("time", 5)
    chosen = options(startingOffsetsByTimestamp='{"t":{"0":7}}', startingOffsets='{"t":{"0":1}}')
    assert start_of(chosen).value(QueueKey("t", "any", 0)) == 7
    assert start_of(options()).kind == "earliest"
    assert start_of(options(streaming=True)).kind == "latest"
    assert end_of(options()).kind == "latest"
    with pytest.raises(OptionError, match="cannot be an end"):
        end_of(options(endingOffsets='{"t":{"0":-2}}'))


@pytest.mark.parametrize(
    "text", ["[]", '{"t":5}', '{"t":{"b":{"x":1}}}', '{"t":{"0":-3}}', '{"t":{"0":"1"}}', "{",
             '{"t":{"0":true}}', '{"t":{"0":4611686018427387904}}'],
)  # fmt: skip
def test_offsets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_json(text, "startingOffsets", -2)


def test_assigned_queues_are_read() -> None:
    assert parse_assign('{"t":{"a":[0,1]},"u":[3]}') == {"t": {"a": {0, 1}}, "u": {"": {3}}}
    for text in ("{}", '{"t":[]}', '{"t":{"a":["x"]}}', '{"t":7}', "nothing"):
        with pytest.raises(OptionError, match="assign"):
            parse_assign(text)


def test_every_option_has_a_default_that_its_own_parser_takes() -> None:
    for option in TABLE:
        if option.default is not None and option.default != ():
            shown = str(option.default).lower() if isinstance(option.default, bool) else str(
                option.default)  # fmt: skip
            assert option.parse(shown) == option.default
    assert len({option.attribute for option in TABLE}) == len(TABLE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 2}, "more than maxOffsetsPerTrigger"),
        ({"commitOffsets": "true"}, "needs option group"),
        ({"accessKey": "k"}, "accessKey and secretKey"),
        ({"tags": "a", "sql": "a = 1"}, "sql and tags"),
        ({"subscribePattern": "("}, "give only one of them"),
        ({"endingOffsets": "latest"}, "does not count for stream"),
        ({"batchBytes": "1t"}, "batchBytes='1t': give bytes"),
        ({"maxTriggerDelay": "soon"}, "a time such as"),
        ({"planTimeoutMs": "25h"}, "a time from 0 to 86400000 ms"),
        ({"pollTimeoutMs": "0s"}, "a time from 1 to 86400000 ms"),
        ({"option.nameserver": "h:1", "provider": "rmq"}, "CREATE TEMPORARY VIEW"),
        ({"failOnDataLoss": "perhaps"}, "true or false"),
        ({"startingOffsets": "group"}, "needs option group"),
    ],
)
def test_options_that_contradict_each_other_are_named(given, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        options(streaming=True, **given)


def test_times_have_units_wherever_they_are_taken() -> None:
    given = {"nameserver": "h:1", "topic": "t", "planTimeoutMs": "2s", "pollTimeoutMs": "3 m",
             "fetchOffset.retryIntervalMs": "40ms"}  # fmt: skip
    found = read_options(given, streaming=False)
    assert (found.plan_timeout_ms, found.poll_timeout_ms) == (2000, 180_000)
    assert found.fetch_offset_retry_interval_ms == 40
    given = {"nameserver": "h:1", "sendTimeoutMs": "1h"}
    assert write_options(given).send_timeout_ms == 3_600_000


def test_a_secret_is_not_shown() -> None:
    chosen = write_options(
        {
            "nameserver": "h:1",
            "topic": "t",
            "accessKey": "key",
            "secretKey": "hush",
            "tlsKeyPassword": "hush",
            "securityToken": "hush",
        }
    )
    assert "hush" not in repr(chosen)
    assert "hush" not in repr(Access.of(chosen))


def test_requests_are_signed_over_values_in_the_order_of_names() -> None:
    access = Access("h:1", "mykey", "mysecret")
    signed = access.sign({"topic": "t", "queueId": 3, "bname": "b"}, b"body")
    # The values of AccessKey, bname, queueId, topic.
    content = b"mykey" + b"b" + b"3" + b"t" + b"body"
    wanted = base64.b64encode(hmac.new(b"mysecret", content, hashlib.sha1).digest()).decode()
    assert (signed["AccessKey"], signed["Signature"]) == ("mykey", wanted)
    assert "Signature" not in Access("h:1").sign({"topic": "t"})
