"""What a plan asks the brokers: the same for any number of empty queues, and all brokers at once.

Method: the plan is made in this process, as Spark's worker makes it, and the requests that its
connections send are written down. Cannot prove: what Spark itself does for each partition; an empty
queue has no partition, which is shown, too.
"""

import datetime
from collections import Counter

import pytest
from pyspark.sql.datasource import Filter, GreaterThanOrEqual, LessThan
from support.broker_process import BrokerProcess
from support.spark_topics import fill, make
from support.waiting import next_ms

from rmq import Admin
from rmq.arrow.access import Access
from rmq.arrow.offsets import Bound, QueueKey
from rmq.arrow.options import read_options
from rmq.arrow.queues import Queues
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.errors import RemoteError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command
from rmq.spark.input_partitions import QueueRanges
from rmq.spark.offset_commits import commit_offsets
from rmq.spark.source import PushdownReader, RmqDataSource, RmqReader
from rmq.spark.stream import RmqStreamReader

FULL = {0: [b"a", b"b", b"c"], 1: [b"d"]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes of all requests that this process sends."""
    codes: list[int] = []
    submit = Connection.submit

    def noted(self: Connection, code: int, fields: object = None, body: bytes = b"") -> int:
        codes.append(int(code))
        return submit(self, code, fields, body)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "submit", noted)
    return codes


def topics(broker: BrokerProcess, topic: str) -> tuple[str, str]:
    """Two topics with the same messages; the second one has 60 empty queues more."""
    for name in (few := f"{topic}-few"), (many := f"{topic}-many"):
        fill(broker, name, FULL)
    make(broker, many, 62)
    return few, many


def plan(
    broker: BrokerProcess, topic: str, *filters: Filter, **options: object
) -> list[tuple[int, int, int]]:
    """(queue, start, end) of every piece; each task has at least one."""
    given = {"nameserver": broker.namesrv, "topic": topic}
    source = RmqDataSource({**given, **{name: str(value) for name, value in options.items()}})
    reader = source.reader(source.schema())
    assert isinstance(reader, RmqReader)
    if filters:
        assert isinstance(reader, PushdownReader)
        assert list(reader.pushFilters(list(filters))) == list(filters)
    tasks = reader.partitions()
    assert all(isinstance(task, QueueRanges) and task.ranges for task in tasks)
    return [(piece.key.queue_id, piece.start, piece.end) for task in tasks
            for piece in task.ranges]  # type: ignore[attr-defined]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(0, 0, 3), (1, 0, 1)]),
        ({"startingTimestamp": 1}, [(0, 0, 3), (1, 0, 1)]),
        ({"endingTimestamp": 1 << 42}, [(0, 0, 3), (1, 0, 1)]),
        ({"startingOffsets": "group", "group": "g-of-nobody"}, [(0, 0, 3), (1, 0, 1)]),
        ({"maxBytesPerPartition": "1m"}, [(0, 0, 3), (1, 0, 1)]),
        ({"startingOffsets": '{"T":{"broker-a":{"0":2}}}'}, [(0, 2, 3), (1, 0, 1)]),
    ],
    ids=["plain", "start-time", "end-time", "group", "bytes", "offsets"],
)
def test_empty_queues_make_neither_questions_nor_tasks(
    broker: BrokerProcess, topic: str, asked: list[int], options: dict[str, object], expected
) -> None:
    questions = {}
    for name in topics(broker, topic):
        asked.clear()
        given = {key: value.replace("T", name) if isinstance(value, str) else value
                 for key, value in options.items()}  # fmt: skip
        assert plan(broker, name, **given) == expected
        questions[name] = Counter(asked)
    few, many = questions.values()
    assert few == many
    assert few[RequestCode.GET_TOPIC_STATS_INFO] == 1


def test_a_stream_asks_nothing_about_queues_without_news(
    broker: BrokerProcess, topic: str, asked: list[int]
) -> None:
    questions = {}
    for name in topics(broker, topic):
        options = read_options(
            {"nameserver": broker.namesrv, "topic": name, "startingOffsets": "earliest",
             "maxBytesPerTrigger": "1m", "maxBytesPerPartition": "1m"}, streaming=True,
        )  # fmt: skip
        reader = RmqStreamReader(options, RmqDataSource({}).schema())
        asked.clear()
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        tasks = reader.partitions(start, end)
        assert sum(piece.end - piece.start for task in tasks for piece in task.ranges) == 4
        assert len(tasks) == 2
        assert len(end[name]["broker-a"]) == (2 if name.endswith("few") else 62)
        questions[name] = Counter(asked)
        reader.stop()
    few, many = questions.values()
    assert few == many


def test_offsets_of_many_queues_are_told_and_found_again(
    broker: BrokerProcess, topic: str, asked: list[int]
) -> None:
    """There are more queues than requests may be under way at a time, and each has another
    offset."""
    fill(broker, topic, {queue: [b"x"] * 3 for queue in range(0, 150, 2)})
    offsets = {QueueKey(topic, "broker-a", queue): queue // 2 % 4 for queue in range(0, 150, 2)}
    group = f"{topic}-group"
    with Admin(namesrv_addr=broker.namesrv, mq_client_api_timeout=60_000) as admin:
        admin.create_group(group)
    asked.clear()
    commit_offsets(Access(broker.namesrv), group, offsets)
    assert Counter(asked)[RequestCode.UPDATE_CONSUMER_OFFSET] == 75
    found = plan(broker, topic, startingOffsets="group", group=group)
    wanted = [(key.queue_id, told, 3) for key, told in offsets.items() if told < 3]
    assert sorted(found) == wanted


def test_offsets_are_committed_though_one_broker_is_gone_for_good(
    broker: BrokerProcess, topic: str
) -> None:
    """A checkpoint still names brokers that were taken out of the cluster, and topics that were
    deleted."""
    fill(broker, topic, FULL)
    group = f"{topic}-group"
    here = QueueKey(topic, "broker-a", 0)
    gone = [QueueKey(topic, "a-gone", 0), QueueKey(f"{topic}-deleted", "broker-a", 0)]
    with Admin(namesrv_addr=broker.namesrv, mq_client_api_timeout=60_000) as admin:
        admin.create_group(group)
        with pytest.raises(RemoteError, match="a-gone"):
            commit_offsets(Access(broker.namesrv), group, {**dict.fromkeys(gone, 1), here: 2})
        assert admin.committed_offset(group, MessageQueue(*here)) == 2


def test_times_are_found_in_every_queue(broker: BrokerProcess, topic: str) -> None:
    fill(broker, topic, {queue: [b"old"] * (1 + queue % 3) for queue in range(0, 80, 2)})
    middle = next_ms()
    fill(broker, topic, {queue: [b"new"] for queue in range(0, 80, 4)})
    make(broker, topic, 80)  # fill() has made it with fewer queues
    found = plan(broker, topic, startingTimestamp=middle,
                 startingOffsetsByTimestampStrategy="latest")  # fmt: skip
    assert sorted(found) == [(queue, 1 + queue % 3, 2 + queue % 3) for queue in range(0, 80, 4)]
    found = plan(broker, topic, endingTimestamp=middle)
    assert sorted(found) == [(queue, 0, 1 + queue % 3) for queue in range(0, 80, 2)]
    moment = datetime.datetime.fromtimestamp(middle / 1000, datetime.timezone.utc)
    later = GreaterThanOrEqual(("storeTimestamp",), moment)
    assert sorted(plan(broker, topic, later, pushdown="true")) == [
        (queue, 1 + queue % 3, 2 + queue % 3) for queue in range(0, 80, 4)
    ]
    earlier = LessThan(("storeTimestamp",), moment)
    assert sorted(plan(broker, topic, earlier, pushdown="true")) == sorted(found)


def test_what_a_busy_broker_answers_is_not_asked_again(
    broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fifth question is refused once, and in the middle a connection is lost once."""
    fill(broker, topic, {queue: [b"x"] * 3 for queue in range(150)})
    asked: Counter[int] = Counter()
    ask_all = Connection.ask_all

    def busy(self: Connection, code: int, rows: list[dict[str, int]]) -> list[Command]:
        assert len(rows) <= (16 if code == RequestCode.PULL_MESSAGE else 64)
        asked.update(row["queueId"] for row in rows)
        if asked[96] == 1 and any(row["queueId"] == 96 for row in rows):
            self.close()
            raise UnreachableError("lost")
        replies = ask_all(self, code, rows)
        return [reply if row["queueId"] % 5 or asked[row["queueId"]] > 1 else reply.reply(2)
                for row, reply in zip(rows, replies, strict=True)]  # fmt: skip

    monkeypatch.setattr(Connection, "ask_all", busy)
    options = read_options({"nameserver": broker.namesrv, "topic": topic}, streaming=False)
    queues = Queues(options)
    ends = queues.find()
    for question in (
        lambda: queues.row_bytes({key: tuple(each) for key, each in ends.items()}),
        lambda: queues.resolve(Bound("time", time_ms=1, option="startingTimestamp"), ends),
    ):
        asked.clear()
        assert len(question()) == 150
        again = {queue for queue, times in asked.items() if times > 1}
        assert set(range(0, 150, 5)) | {96} <= again
        assert len(again - set(range(0, 150, 5))) < 64  # those that were lost with the connection
        assert max(asked.values()) == 2
    queues.close()
