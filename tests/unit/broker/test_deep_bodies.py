"""Bodies that no client sends in earnest, for every request code that the control side knows:
nested 100,000 deep, with numbers of 100,000 digits, with other types where a member is looked for.
Each gets one answer that says what is wrong, nothing is logged with a traceback, and the broker
serves on."""

import asyncio
import logging
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop
from support.waiting import HANG_S

from rmq.broker.requests import consumer_diagnosis
from rmq.broker.requests.handlers import HANDLERS
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format.remoting import Command, encode

FIRST = 100_000
MEMBERS = """
    clientID consumerDataSet producerDataSet groupName consumerGroup subscriptionDataSet topic
    mqSet topicConfigList groupConfigList attributes topicName subscriptionData brokerName
    groupRetryPolicy strategyName mode offsetTable table
""".split()
FIELDS = {
    "topic": "t", "consumerGroup": "g", "group": "g", "queueId": "0", "queueOffset": "0",
    "clientId": "c1", "clientID": "c1", "producerGroup": "p", "offset": "0", "timestamp": "5",
}  # fmt: skip
DEEP = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"{a:" * 100_000,
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"clientID":' + b"1" * 100_000 + b"}",
    b'{"clientID":1e400}',
    b'{"$ref":"$' + b"[0]" * 10_000 + b'"}',
    b'{"a":{"$ref":".."}}',
    b"\xff" * 1000,
    b'{"\\ud800":"\\udc00"}',
]
WITHIN = [b"[" * 400 + b"]" * 400, b"1" * 4000, b"NaN", b'"\\ud800"', b"true", b"{}", b"[[]]"]


def bodies() -> list[bytes]:
    return DEEP + [
        b'{"clientID":"c1","%s":%s}' % (member.encode(), value)
        for member in MEMBERS
        for value in WITHIN
    ]


async def ask_all(directory: Path, codes: list[int]) -> None:
    core = FakeCore()
    made = bodies()
    async with control(directory, core, messageDelayLevel="0s 1s") as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        client = core.client()
        for code in codes:
            for number, body in enumerate(made):
                command = Command(
                    code=code, opaque=FIRST + number, version=479, fields=FIELDS, body=body
                )
                core.report(0, client.number, encode(command)[4:])

            def answered() -> set[int]:
                replies = {c.opaque for _, c in core.sent if c.is_response and c.opaque >= FIRST}
                return replies | {c.opaque for _, c in core.resubmitted}

            await core.until(lambda: len(answered()) == len(made))
            for _, reply in core.sent:
                name = (reply.remark or "").partition(":")[0]
                assert not name.endswith(("Error", "Exception", "Interrupt")), (
                    code, made[reply.opaque - FIRST][:60], reply.remark,
                )  # fmt: skip
                assert len(reply.remark or "") < 1000
            core.sent.clear()
            core.resubmitted.clear()


@pytest.mark.parametrize("part", range(4))
def test_every_code_answers_bodies_no_client_means(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_diagnosis, "FORWARD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(consumer_diagnosis, "STATUS_TIMEOUT_S", 0.2)
    caplog.set_level(logging.WARNING)
    asyncio.run(asyncio.wait_for(ask_all(tmp_path, sorted(HANDLERS)[part::4]), HANG_S))
    assert not [record for record in caplog.records if record.exc_info]


@in_loop
async def test_what_takes_long_to_read_is_not_read(tmp_path: Path) -> None:
    """A body that takes long to read must be refused unread: loose JSON is read by Python, in the
    thread that serves everybody."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        plain = b'{"clientID":"c1","more":[%s[]]}' % (b"[]," * 100_000)
        loose = plain.replace(b'"more"', b"more")
        referring = plain.replace(b'"more"', b'"of":{"$ref":"$"},"more"')
        many_digits = plain.replace(b'"more"', b'"of":"%s","more"' % (b"1" * 100))
        assert (await client.call(34, plain)).code == 0
        assert (await client.call(34, b'{clientID:"c1"}')).code == 0
        for body in (loose, referring, many_digits):
            reply = await client.call(34, body)
            assert (reply.code, "that are not plain JSON" in (reply.remark or "")) == (1, True)
        header = b'{"code":34,"nobody":"%s"}' % (b"x" * (1 << 20))
        broker.core.report(0, client.number, len(header).to_bytes(4, "big") + header)
        await broker.core.until(lambda: client.number in broker.core.closed)
