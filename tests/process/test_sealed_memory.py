"""Goal: a running broker under load takes no memory: not from the arena, which is sealed, and not
from malloc or mmap.

Method: a library in front of malloc counts what the reactor thread allocates while messages of
several sizes go in and out. A few calls are allowed, because what the control thread asks for now
and then (a copy of the offsets every five seconds) is malloc'd; one call for each request would be
thousands. Cannot prove: that no code allocates on a path that this load does not take.
"""

import asyncio
import os
import struct
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.faults import compile_shim
from support.sanitized import SANITIZED

SOURCE = Path(__file__).parent.parent / "support" / "mallocs" / "mallocs.c"
SMALL = ("--set", "mappedFileSizeCommitLog=67108864", "--set", "metricsExporterType=DISABLE")
EVERYTHING = {"subscription": "*", "expressionType": "TAG", "sysFlag": 4}
ROUNDS = 60


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("mallocs"), SOURCE)


async def load(broker: BrokerProcess, rounds: int) -> None:
    """Per round 40 small messages, a large one, and pulls that are answered."""
    async with BrokerClient(broker.port) as client:
        for _ in range(rounds):
            opaques = [client.post_send("t", b"x" * 900, n % 4) for n in range(40)]
            opaques.append(client.post_send("t", b"y" * 100_000, 0))
            for opaque in opaques:
                assert (await client.reply(opaque)).code == 0
            for queue in range(4):
                reply = await client.pull("g", "t", queue=queue, maxMsgNums=32, **EVERYTHING)
                assert reply.code == 0, reply.remark


@pytest.mark.skipif(SANITIZED, reason="the sanitizer has a malloc of its own")
def test_the_reactor_allocates_nothing_while_messages_go_in_and_out(
    shim: Path, tmp_path: Path
) -> None:
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(24))
    environment = {**os.environ, "LD_PRELOAD": str(shim), "RMQ_MALLOCS": str(counts)}

    def seen() -> tuple[int, int, int]:
        calls, size, maps = struct.unpack("<QQQ", counts.read_bytes())
        return calls, size, maps

    with broker_process(tmp_path, SMALL, environment) as broker:
        asyncio.run(load(broker, 2))  # makes topic, queues, group and subscription
        before = seen()
        assert before[0] > 0, "nothing is counted"
        asyncio.run(load(broker, ROUNDS))
        calls, _, maps = (now - then for now, then in zip(seen(), before, strict=True))
    assert maps <= 4  # segments of the log, mapped to be read
    assert calls <= 100, f"{calls} allocations for {ROUNDS * 45} requests"
