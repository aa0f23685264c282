"""Message filters with all their processes: functions of the broker's owner, which may raise, hang
or die without a message being lost or wrongly skipped; and SQL92 from the command line.
"""

import asyncio
import contextlib
import math
import os
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import broker_process
from support.calm_clock import calm_seconds
from support.command_line import rmq
from support.live_broker import live_broker
from support.name_server import in_loop
from support.waiting import HANG_S, until, until_is

from rmq.broker.broker import Broker
from rmq.filters.functions import BODY_BYTES_MAX
from rmq.format import fastjson
from rmq.format.message import decode_messages
from rmq.format.remoting import Command

SOURCE = """
import os, pathlib, signal, time

STATE = pathlib.Path(__file__).parent

def even(message):
    return int(message.body) % 2 == 0

def short(message):
    return len(message.body) < 4

def slow(message):
    time.sleep(0.001)
    return True

def raises_at_three(message):
    if message.body == b"3":
        raise ValueError("no three")
    return message.body == b"5"

def moody(message):
    mood = (STATE / "mood").read_text()
    if mood == "hang":
        time.sleep(60)
    if mood == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return message.body in (b"2", b"7")
"""
SLOW = """
import pathlib, time

while not (pathlib.Path(__file__).parent / "go").exists():
    time.sleep(0.01)

def all(message):
    return True
"""
FILTERS = "even=ownfilters:even;three=ownfilters:raises_at_three;moody=ownfilters:moody"


@asynccontextmanager
async def filtering(
    directory: Path, **settings: object
) -> AsyncIterator[tuple[Broker, BrokerClient]]:
    """A broker with the functions above and ten messages, their bodies 0 to 9, in topic t."""
    (directory / "own").mkdir()
    (directory / "own" / "ownfilters.py").write_text(SOURCE)
    (directory / "own" / "slow.py").write_text(SLOW)
    given = {
        "rmqMessageFilters": FILTERS, "rmqMessageFilterPath": directory / "own",
        "autoCreateTopicEnable": True, "rmqMessageFilterTimeoutMillis": 30_000, **settings,
    }  # fmt: skip
    async with (
        live_broker(directory / "store", **given) as broker,
        BrokerClient(broker.core.port) as client,
    ):
        for n in range(10):
            assert (await client.send("t", b"%d" % n, i=f"n\x01{n}\x02")).code == 0
        yield broker, client


async def heartbeat(client: BrokerClient, group: str, expression: str, **more: object) -> Command:
    subscription = {
        "topic": "t", "subString": expression, "subVersion": 1, "expressionType": "SQL92", **more,
    }  # fmt: skip
    data = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
    }  # fmt: skip
    body = {"clientID": "c@1", "consumerDataSet": [data], "producerDataSet": []}
    return await client.call(34, fastjson.dumps(body))


async def until_answered(ask: Callable[[], Awaitable[Command]], seconds: float = HANG_S) -> Command:
    """Asks again while the filter is down."""
    end = time.monotonic() + seconds
    return await until_is(ask, lambda reply: reply.code != 1 or time.monotonic() > end, math.inf)


def numbers(reply: Command) -> list[int]:
    assert reply.code == 0, (reply.code, reply.remark)
    return [int(message.body) for message in decode_messages(reply.body)]


@in_loop
async def test_a_function_decides_which_messages_are_given(tmp_path: Path) -> None:
    async with filtering(tmp_path) as (_, client):
        await heartbeat(client, "g", "$filter = 'even'")
        reply = await until_answered(lambda: client.pull("g", "t"))
        assert numbers(reply) == [0, 2, 4, 6, 8]
        assert reply.fields == {
            "suggestWhichBrokerId": "0", "nextBeginOffset": "10", "minOffset": "0",
            "maxOffset": "10",
        }  # fmt: skip
        brought = {"sysFlag": 4, "expressionType": "SQL92"}
        reply = await client.pull("g", "t", subscription="$filter = 'even' AND n > 3", **brought)
        assert numbers(reply) == [4, 6, 8]
        reply = await client.pull("g", "t", subscription="$filter = 'even' AND n = 3", **brought)
        assert (reply.code, reply.fields["nextBeginOffset"]) == (20, "10")


@in_loop
async def test_a_held_pull_waits_for_the_function_too(tmp_path: Path) -> None:
    """A held pull waits on over messages that the SQL part refuses. A message for which the
    function must be asked ends it, even if the function then refuses the message."""
    async with filtering(tmp_path) as (_, client):
        await heartbeat(client, "other", "$filter = 'even'")
        await until_answered(lambda: client.pull("other", "t"))  # its process runs now
        await heartbeat(client, "g", "$filter = 'even' AND n > 20")
        opaque = client.post(11, **{
            "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 10, "maxMsgNums": 32,
            "sysFlag": 2, "commitOffset": 0, "suspendTimeoutMillis": 45_000, "subVersion": 1,
        })  # fmt: skip
        await client.until_held()
        await client.send("t", b"11", i="n\x0111\x02")
        for n in (21, 22):
            await client.send("t", b"%d" % n, i=f"n\x01{n}\x02")
        first = await client.reply(opaque)
        assert (first.code, first.fields["nextBeginOffset"]) == (20, "12")
        assert numbers(await client.pull("g", "t", offset=12)) == [22]


@in_loop
async def test_a_message_whose_function_raises_is_given(tmp_path: Path) -> None:
    async with filtering(tmp_path) as (_, client):
        await heartbeat(client, "g", "$filter = 'three'")
        assert numbers(await until_answered(lambda: client.pull("g", "t"))) == [3, 5]


@in_loop
async def test_a_message_that_unpacks_to_far_more_is_given_and_stops_nobody(tmp_path: Path) -> None:
    given = {"rmqMessageFilters": "short=ownfilters:short"}
    async with filtering(tmp_path, **given) as (broker, client):
        packed = zlib.compress(bytes(BODY_BYTES_MAX + 1))
        assert (await client.send("t", packed, f=1)).code == 0
        assert (await client.send("t", b"11")).code == 0
        await heartbeat(client, "g", "$filter = 'short'")
        reply = await until_answered(lambda: client.pull("g", "t", offset=10))
        assert reply.code == 0
        assert [message.body for message in decode_messages(reply.body)] == [packed, b"11"]
        assert broker.functions.filter("short").starts == 1


@in_loop
async def test_an_import_may_take_longer_than_an_answer(tmp_path: Path) -> None:
    """A pull does not kill the process of a filter that is still being imported."""
    given = {"rmqMessageFilters": "slow=slow:all", "rmqMessageFilterTimeoutMillis": 3000}
    async with filtering(tmp_path, **given) as (broker, client):
        await heartbeat(client, "g", "$filter = 'slow'")
        await until(lambda: broker.functions.filter("slow").starts == 1)
        for _ in range(3):
            reply = await client.pull("g", "t")
            assert reply.code == 1 and "is being started" in (reply.remark or "")
        (tmp_path / "own" / "go").touch()
        reply = await until_answered(lambda: client.pull("g", "t"))
        assert numbers(reply) == list(range(10))
        assert broker.functions.filter("slow").starts == 1


@in_loop
async def test_a_process_that_works_is_not_killed_however_many_wait(tmp_path: Path) -> None:
    given = {
        "rmqMessageFilters": "slow=ownfilters:slow", "rmqMessageFilterTimeoutMillis": 1000,
    }  # fmt: skip
    async with filtering(tmp_path, **given) as (broker, client):
        await heartbeat(client, "g", "$filter = 'slow'")
        ask = lambda: client.pull("g", "t")  # noqa: E731
        assert numbers(await until_answered(ask)) == list(range(10))
        # Two seconds of work: twice the time after which a process that hangs is killed.
        replies = await asyncio.gather(*(ask() for _ in range(200)))
        given_out = [reply for reply in replies if reply.code == 0]
        assert given_out and all(numbers(reply) == list(range(10)) for reply in given_out)
        refused = {reply.remark for reply in replies if reply.code != 0}
        assert refused == {"message filter 'slow' has more to do than it can; pull again"}
        assert numbers(await ask()) == list(range(10))
        assert broker.functions.filter("slow").starts == 1


@pytest.mark.parametrize("mood", ["hang", "die"])
@in_loop
async def test_while_a_filter_cannot_answer_pulls_fail_and_skip_nothing(
    tmp_path: Path, mood: str
) -> None:
    async with filtering(tmp_path, rmqMessageFilterTimeoutMillis=1000) as (broker, client):
        state = tmp_path / "own" / "mood"
        state.write_text("fine")
        await heartbeat(client, "g", "$filter = 'moody'")
        ask = lambda: client.pull("g", "t", commitOffset=0)  # noqa: E731
        assert numbers(await until_answered(ask)) == [2, 7]
        state.write_text(mood)
        began = calm_seconds()
        reply = await ask()
        assert (reply.code, "nextBeginOffset" in reply.fields) == (1, False)
        assert "moody" in (reply.remark or "") and "pull again" in (reply.remark or "")
        # Sends and other pulls are served meanwhile, by the same loop.
        assert (await client.send("t", b"10")).code == 0
        assert calm_seconds() - began < 15  # the function hangs for a minute
        await heartbeat(client, "other", "$filter = 'even'")
        assert numbers(await until_answered(lambda: client.pull("other", "t")))[:2] == [0, 2]
        state.write_text("fine")
        assert numbers(await until_answered(ask)) == [2, 7]
        assert broker.functions.filter("moody").starts >= 2


@in_loop
async def test_a_function_that_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    async with filtering(tmp_path) as (_, client):
        await heartbeat(client, "g", "$filter = 'absent'")
        reply = await client.pull("g", "t")
        assert reply.code == 27
        assert "'absent', but: even, three, moody" in (reply.remark or "")
        data = {"topic": "t", "subString": "$filter = 'absent'", "expressionType": "SQL92"}
        body = fastjson.dumps({"subscriptionData": data})
        assert (await client.call(46, body)).code == 23


@in_loop
async def test_the_broker_starts_and_stops_with_a_filter_that_cannot_be_imported(
    tmp_path: Path,
) -> None:
    async with filtering(tmp_path, rmqMessageFilters="bad=nowhere:f") as (broker, client):
        await heartbeat(client, "g", "$filter = 'bad'")
        bad = broker.functions.filter("bad")
        await until(lambda: bad.starts >= 2)
        reply = await client.pull("g", "t")
        assert reply.code == 1 and "bad" in (reply.remark or "")
        assert (await client.send("t", b"x")).code == 0


@in_loop
async def test_no_process_of_a_filter_outlives_the_broker(tmp_path: Path) -> None:
    async with filtering(tmp_path) as (_, client):
        await heartbeat(client, "g", "$filter = 'even'")
        await until_answered(lambda: client.pull("g", "t"))
        # One process has answered; the others may still be starting.
        await until(lambda: len(children("rmq.filters.worker")) == 3)
        running = children("rmq.filters.worker")
        assert len(running) == 3
    await until(lambda: not any(is_alive(pid) for pid in running))


def children(words: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if int(status[1]) == os.getpid() and words in command:
                found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_consume_takes_an_expression_and_says_what_is_wrong_with_one(tmp_path: Path) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        done = rmq(*arguments, "-n", broker.namesrv)
        return done.returncode, done.stdout + done.stderr

    with broker_process(tmp_path) as broker:
        for price, kind in (("5", "old"), ("15", "new"), ("25", "old"), ("35", "new")):
            sent = said("send", "goods", f"at {price}", "-p", f"price={price}", "--tag", kind)
            assert sent[0] == 0, sent
        found = said("consume", "goods", "--body", "--sql", "price > 10 AND TAGS = 'new'")
        assert (found[0], sorted(found[1].split("\n"))) == (0, ["", "at 15", "at 35"])
        code, output = said("consume", "goods", "--sql", "price LIKE '1%'")
        assert code != 0 and "character 7" in output and "CONTAINS" in output
        code, output = said("consume", "goods", "--sql", "price > 10", "--tag", "new")
        assert code == 2 and "cannot be combined" in output
