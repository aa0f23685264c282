"""Goal: a topic that was deleted and made again has, after a crash, none of the older topic's
messages, and begins at offset 0.

Method: a broker process fills a topic, deletes it, and makes it again before or after it is killed.
The queue files are there, or gone; nothing says what they hold, so the whole log is dispatched
again.
"""

import shutil
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.name_server import in_loop
from support.power_cuts.promise import bodies, change_topic
from support.stored_table import stored

DELETE_TOPIC = 215

FILE = "rmqDeletedTopics.json"


async def fill(client: BrokerClient) -> None:
    for number in range(30):
        assert (await client.send("again", b"older %d" % number)).code == 0
        assert (await client.send("others", b"%d" % number)).code == 0


def crash(broker: BrokerProcess) -> None:
    broker.process.kill()
    broker.process.wait()


@pytest.mark.parametrize("queues", ["there", "gone"])
@pytest.mark.parametrize("made", ["before", "after"])
@in_loop
async def test_older_messages_stay_away(tmp_path: Path, made: str, queues: str) -> None:
    with broker_process(tmp_path) as broker:
        async with BrokerClient(broker.port) as client:
            await fill(client)
            assert (await client.call(DELETE_TOPIC, topic="again")).code == 0
            kept = stored(tmp_path / "store", "rmqDeletedTopics.json")["deletedTopics"]
            assert list(kept) == ["again"] and kept["again"][0] > 0
            if made == "before":
                assert (await change_topic(client, "again", 1)).code == 0
            crash(broker)
    for name in ("queueEnds", "queueEnds.synced", "checkpoint"):
        (tmp_path / "store" / name).unlink(missing_ok=True)
    if queues == "gone":
        shutil.rmtree(tmp_path / "store" / "consumequeue")
    for newer in range(2):  # the log is replayed without a message of the newer topic, and with one
        with broker_process(tmp_path) as broker:
            async with BrokerClient(broker.port) as client:
                if newer == 0 and made == "after":
                    assert (await change_topic(client, "again", 1)).code == 0
                assert len(await bodies(client, "again")) == newer
                assert len(await bodies(client, "others")) == 30
                sent = await client.send("again", b"newer")
                assert (sent.code, sent.fields["queueOffset"]) == (0, str(newer))
                crash(broker)
