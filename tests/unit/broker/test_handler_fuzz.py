"""Any request gets one answer and breaks nothing: made-up fields and bodies for every handler.

Method: a seed gives codes, the names of fields that handlers ask for, and values that are right,
nearly right or hostile. Bodies are made-up JSON with the members that handlers look for. The
oracle: there is exactly one reply (or the frame is given back), and no handler failed unexpectedly;
such a failure would be answered with the name of a Python exception.

4,000 requests, 10,000 in `make test-slow`; RMQ_FUZZ_REQUESTS asks for more. The seed is in the name
of the test (support/volume.py).
"""

import asyncio
import os
import random
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.volume import seeds, volume
from support.waiting import HANG_S

from rmq.broker.requests import consumer_diagnosis
from rmq.broker.requests.handlers import HANDLERS
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson
from rmq.format.remoting import Command, encode

REQUESTS = int(os.environ.get("RMQ_FUZZ_REQUESTS", volume(4_000, 10_000)))
AT_ONCE = 500
FIRST = 100_000  # the opaque of the first made-up request

FIELDS = """
    topic consumerGroup producerGroup group groupName srcGroup destGroup compareGroup
    filterGroups clientId clientID clientAddr queueId queueOffset maxMsgNums sysFlag
    commitOffset suspendTimeoutMillis subVersion subscription expressionType defaultTopic
    defaultTopicQueueNums bornTimestamp flag properties reconsumeTimes maxReconsumeTimes batch
    offset timestamp boundaryType key maxNum beginTimestamp endTimestamp delayLevel
    originMsgId msgId readQueueNums writeQueueNums perm topicFilterType topicSysFlag order
    attributes force readable cleanOffset removeOffset isForce isOrder index count statsName
    statsKey topicList topicSeq maxTopicNum groupSeq maxGroupNum unitMode setZeroIfNotFound
    offline jstackEnable a b c d e f g h i j k l m
""".split()
MEMBERS = """
    clientID consumerDataSet producerDataSet heartbeatFingerprint withoutSub groupName
    consumeType messageModel consumeFromWhere subscriptionDataSet unitMode topic subString
    tagsSet codeSet subVersion expressionType classFilterMode clientId consumerGroup mqSet
    brokerName queueId subscriptionData topicConfigList groupConfigList topicName
    readQueueNums writeQueueNums perm order attributes retryQueueNums retryMaxTimes
    groupRetryPolicy strategyName mode onlyThisBroker $ref
""".split()
TEXTS = [
    "t", "g", "c1", "TBW102", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "0", "1", "-1", "6",
    "4", "100", "65535", "2147483647", "-2147483648", "9223372036854775807", str(1 << 70),
    "true", "false", "", " ", "*", "a || b", "||", "TAG", "SQL92", "../../etc/passwd", "a/b",
    "a\0b", "é中\U0001f600", "x" * 300, "DELAY\x012\x02", "DELAY\x01-1\x02TRAN_MSG\x01true\x02",
    "+message.type=FIFO", "+", "-x", "upper", "SINGLE_TAG", "TOPIC_PUT_NUMS", "BROKER_PUT_NUMS",
    "7F00000100006920" + "0" * 16, "zz", "1e5", "0x10", "１", "NaN",
]  # fmt: skip


class Maker:
    """Makes up requests from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        if self.random.random() < 0.9:
            return self.random.choice(TEXTS)
        return "".join(chr(self.random.choice((0, 2, 9, 65, 0x3A9, 0x1F600))) for _ in range(4))

    def json(self, depth: int = 0) -> object:
        kind = self.random.random()
        if kind < 0.15 or depth > 3:
            return self.random.choice([None, True, False, 0, -1, 5, 1 << 31, 1 << 63, 1 << 70])
        if kind < 0.45:
            return self.text()
        if kind < 0.65:
            return [self.json(depth + 1) for _ in range(self.random.randrange(4))]
        return self.members(depth + 1)

    def members(self, depth: int = 0) -> dict[str, object]:
        names = self.random.choices(MEMBERS, k=self.random.randrange(1, 9))
        return {name: self.json(depth + 1) for name in names}

    def body(self) -> bytes:
        kind = self.random.random()
        if kind < 0.15:
            return self.random.choice([b"", b"{", b"x", b'{"a":{"$ref":"$"}}', b"\xff\0", b"[]"])
        if kind < 0.25:
            return self.random.choice([b"fileReservedTime=5", b"namesrvAddr=x", b"a", b"=\\u1"])
        if kind < 0.4:
            return self.random.randbytes(self.random.randrange(40))
        return fastjson.dumps({**GOOD_BODY, **self.members()})

    def request(self) -> tuple[int, dict[str, str], bytes]:
        names = self.random.choices(FIELDS, k=self.random.randrange(6))
        fields = {**PLAUSIBLE, **{name: self.text() for name in names}}
        if self.random.random() < 0.1:
            del fields[self.random.choice(sorted(PLAUSIBLE))]
        return self.random.choice(CODES), fields, self.body()


# Values that handlers check before they look at the rest, so that most requests get further in.
PLAUSIBLE = {
    "topic": "t", "consumerGroup": "g", "group": "g", "queueId": "0", "queueOffset": "0",
    "maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0",
    "subVersion": "0", "offset": "0", "timestamp": "5", "producerGroup": "p", "flag": "0",
    "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "bornTimestamp": "1",
    "delayLevel": "0", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "index": "0",
    "count": "3", "isForce": "true", "isOrder": "false", "clientId": "c1", "clientID": "c1",
    "a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
}  # fmt: skip
# A body that has a meaning for each handler that reads one.
GOOD_BODY: dict[str, object] = {
    "clientID": "c1", "clientId": "c1", "consumerGroup": "g", "topic": "t", "groupName": "g",
    "topicName": "t",
}  # fmt: skip
CODES = sorted(HANDLERS)


async def put_all(seed: int, directory: Path) -> None:
    maker = Maker(seed)
    requests = [maker.request() for _ in range(AT_ONCE)]
    core = FakeCore()
    async with control(directory, core, messageDelayLevel="0s 1s") as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        for ms in (1, 5, 9):
            core.store("t", 0, store_timestamp_ms=ms)
        client = core.client()
        client.put(34, b'{"clientID":"c1","consumerDataSet":[{"groupName":"g",'
                       b'"subscriptionDataSet":[{"topic":"t","subString":"*"}]}]}')  # fmt: skip
        for number, (code, fields, body) in enumerate(requests):
            command = Command(
                code=code, opaque=FIRST + number, version=479, fields=fields, body=body,
                serialize_type=number % 2, language="JAVA",
            )  # fmt: skip
            core.report(0, client.number, encode(command)[4:])

        def answered() -> set[int]:
            replies = {c.opaque for _, c in core.sent if c.is_response and c.opaque >= FIRST}
            return replies | {c.opaque for _, c in core.resubmitted}

        await core.until(lambda: len(answered()) == AT_ONCE)
        replies = [c for _, c in core.sent if c.is_response and c.opaque >= FIRST]
        assert len(replies) == len({c.opaque for c in replies})
        for reply in replies:
            name = (reply.remark or "").partition(":")[0]
            assert reply.code != 1 or not name.endswith(("Error", "Exception", "Interrupt")), (
                seed, requests[reply.opaque - FIRST], reply.remark,
            )  # fmt: skip


@pytest.mark.parametrize("seed", seeds(max(1, REQUESTS // AT_ONCE)))
def test_any_request_gets_one_answer(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_diagnosis, "FORWARD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(consumer_diagnosis, "STATUS_TIMEOUT_S", 0.2)
    asyncio.run(asyncio.wait_for(put_all(seed, tmp_path), HANG_S))
