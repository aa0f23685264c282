"""Sends at full speed to a topic that the first one makes: none is refused or overtaken."""

import itertools
import threading
from pathlib import Path

from support.broker_process import broker_process
from support.shard import Client, messages, pull, send

COUNT = 20_000


def test_a_flood_of_sends_to_a_new_topic_is_stored_whole_and_in_order(tmp_path: Path) -> None:
    with broker_process(tmp_path, ["--set", "mappedFileSizeCommitLog=67108864"]) as broker:
        clients = [Client(broker.port) for _ in range(2)]
        try:
            for number, client in enumerate(clients):
                flood(client, number)
            check(clients[0], "flood-0", COUNT)
            check(clients[1], "flood-1", COUNT)
        finally:
            for client in clients:
                client.close()


def flood(client: Client, number: int) -> None:
    frames = [send(f"flood-{number}", b"%d" % n, n) for n in range(COUNT)]
    pump = threading.Thread(target=client.put, args=frames)
    pump.start()
    refused = []
    offsets = []
    for _ in range(COUNT):
        reply = client.reply()
        if reply.code != 0:
            refused.append((reply.opaque, reply.code, reply.remark))
        else:
            offsets.append((reply.opaque, int(reply.fields["queueOffset"])))
    pump.join()
    assert refused == []
    assert sorted(offsets) == [(n, n) for n in range(COUNT)]


def check(client: Client, topic: str, count: int) -> None:
    at = 0
    for opaque in itertools.count(1):
        if at >= count:
            break
        reply = client.ask(
            pull("g", topic, at, opaque, sysFlag=4, subscription="*", expressionType="TAG")
        )
        for message in messages(reply):
            assert message.body == b"%d" % at
            at += 1
