"""Goal: an acknowledged message is found by key, tag and unique key, whatever ended the broker.

Method: a broker as a process, sends and queries (12) over a socket as a Java client makes them.
"""

import asyncio
import json
import signal
from pathlib import Path
from subprocess import CompletedProcess

from support import command_line
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process, start_broker

from rmq.format.index_file import read_header
from rmq.format.message import Host, decode_messages, encode_message_id

SMALL = ["--set", "mappedFileSizeCommitLog=4194304", "--set", "maxMessageSize=262144"]
FOREVER = 2**63 - 1


async def send(broker: BrokerProcess, first: int, count: int, pipelined: int = 200) -> None:
    async with BrokerClient(int(broker.address.rpartition(":")[2])) as client:
        for start in range(first, first + count, pipelined):
            opaques = [
                client.post_send(
                    "orders", b"body %d" % n, n % 4,
                    i=f"UNIQ_KEY\1U{n:08X}\2KEYS\1order-{n} hundred-{n // 100}\2TAGS\1t{n % 3}\2",
                )
                for n in range(start, min(start + pipelined, first + count))
            ]  # fmt: skip
            for opaque in opaques:
                reply = await client.reply(opaque)
                assert reply.code == 0, reply.remark


async def ask(client: BrokerClient, key: str, count: int = 64, **fields: object) -> list[bytes]:
    question = {"topic": "orders", "beginTimestamp": 0, "endTimestamp": FOREVER, **fields}
    reply = await client.call(12, key=key, maxNum=count, **question)
    assert reply.code == (0 if reply.body else 22)
    return [message.body for message in decode_messages(reply.body)] if reply.body else []


async def check(broker: BrokerProcess, count: int) -> None:
    async with BrokerClient(int(broker.address.rpartition(":")[2])) as client:
        for n in {*range(0, count, max(1, count // 50)), count - 1}:
            assert await ask(client, f"order-{n}") == [b"body %d" % n]
            unique = await ask(client, f"U{n:08X}", _UNIQUE_KEY_QUERY="true")
            assert unique == [b"body %d" % n]
        hundred = [b"body %d" % n for n in range(100, 200)]
        assert await ask(client, "hundred-1") == hundred[-64:]
        assert await ask(client, "hundred-1", 5) == hundred[-5:]
        tagged = [b"body %d" % n for n in range(count) if n % 3 == 1]
        assert await ask(client, "t1", indexType="T") == tagged[-64:]
        for key in ("order", f"order-{count}", "", "t1"):
            assert await ask(client, key) == []


def test_every_acked_message_is_found_by_its_keys(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        for first in (0, 300):
            asyncio.run(send(broker, first, 300))
            asyncio.run(check(broker, first + 300))
        assert broker.stop() == 0
        assert "Traceback" not in broker.log()
    (path,) = sorted((tmp_path / "store" / "index").iterdir())
    header = read_header(path.read_bytes())
    assert header.next_entry == 600 * 4 + 1
    assert header.begin_offset == 0 < header.end_offset
    checkpoint = (tmp_path / "store" / "checkpoint").read_bytes()
    assert int.from_bytes(checkpoint[16:24], "big") == header.end_ms > 0


def test_keys_survive_kills(tmp_path: Path) -> None:
    for number in range(4):
        broker = start_broker(tmp_path, SMALL)
        asyncio.run(send(broker, number * 2500, 2500))
        if number % 2:
            asyncio.run(check(broker, number * 2500 + 2500))
        broker.stop(signal.SIGKILL)
        assert broker.process.stdout is not None
        broker.process.stdout.close()
    with broker_process(tmp_path, SMALL) as broker:
        asyncio.run(check(broker, 10_000))


def test_an_index_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        asyncio.run(send(broker, 0, 500))
    for path in (tmp_path / "store" / "index").iterdir():
        path.unlink()
    with broker_process(tmp_path, SMALL) as broker:
        asyncio.run(check(broker, 500))


def test_without_an_index_queries_say_so(tmp_path: Path) -> None:
    with broker_process(tmp_path, [*SMALL, "--set", "messageIndexEnable=false"]) as broker:
        asyncio.run(send(broker, 0, 10))

        async def refused() -> None:
            async with BrokerClient(int(broker.address.rpartition(":")[2])) as client:
                fields = {"topic": "orders", "beginTimestamp": 0, "endTimestamp": FOREVER}
                reply = await client.call(12, key="order-1", maxNum=1, **fields)
                assert reply.code == 22
                assert "messageIndexEnable" in (reply.remark or "")

        asyncio.run(refused())
        assert not (broker.store / "index").exists()


def rmq(broker: BrokerProcess, *words: str) -> CompletedProcess[str]:
    return command_line.rmq(*words, "-n", broker.namesrv)


def test_the_command_line_finds_messages(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        asyncio.run(send(broker, 0, 12))

        def found(*words: str) -> list[str]:
            done = rmq(broker, "message", "query", *words, "--json")
            assert done.returncode == (0 if done.stdout != "[]\n" else 1), done.stderr
            return [row["body"] for row in json.loads(done.stdout)]

        assert found("orders", "--key", "order-7") == ["body 7"]
        assert found("orders", "--unique-key", "order-7") == []
        assert found("orders", "--unique-key", "U00000003") == ["body 3"]
        assert found("orders", "--tag", "t2") == ["body 2", "body 5", "body 8", "body 11"]
        assert found("orders", "--key", "hundred-0", "--count", "2") == ["body 10", "body 11"]
        assert found("orders", "--key", "order-7", "--to", "2020-01-01") == []
        assert found("orders", "--key", "order-7", "--from", "2020-01-01") == ["body 7"]
        host, _, port = broker.address.rpartition(":")
        first = encode_message_id(Host(host, int(port)), 0)
        assert found("--id", first) == ["body 0"]

        table = rmq(broker, "message", "query", "orders", "--key", "order-7").stdout.splitlines()
        assert table[0].split() == "BROKER QUEUE OFFSET STORED ID TAG KEYS BODY".split()
        assert table[1].split()[-2:] == ["body", "7"]
        for words, code, text in (
            (["orders"], 2, "give one of"),
            (["orders", "--key", "a", "--tag", "b"], 2, "give one of"),
            (["--key", "a"], 2, "give a TOPIC with"),
            (["orders", "--id", first], 2, "give a TOPIC with"),
            (["--id", "nonsense"], 1, "not an offset message id"),
            (["--id", encode_message_id(Host("127.0.0.1", 1), 0)], 1, "no broker at"),
            (["orders", "--key", "nowhere"], 1, "no message was found"),
            (["nowhere", "--key", "a"], 1, "code 17"),
            (["orders", "--key", "a", "--from", "first"], 2, "local time"),
        ):
            done = rmq(broker, "message", "query", *words)
            assert (done.returncode, text in done.stderr) == (code, True), (words, done.stderr)
