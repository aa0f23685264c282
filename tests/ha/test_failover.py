"""Goal: each consequence of a change of masters: a log that differs from the new master's is cut,
and gets the master's records; timed messages go on where the old master was; groups, topics and the
batches of ordered pops that are not acknowledged are there.

Method: three brokers and a controller as processes (tests/ha/cluster.py), SIGSTOP and SIGKILL. Not
shown here: what clients of every kind see meanwhile (test_rounds.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import STEP_S
from support.fed_slaves import log_of
from support.other_boot import other_boot
from support.popping import Popped, ack, change, pop, pop_all
from support.topics import until_routed
from support.waiting import HANG_S, wait_until

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster as View
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, RmqError
from rmq.format import fastjson
from rmq.format.message import decode_messages
from rmq.format.store_files import Record, Segment, scan_segment
from rmq.names import TIMER_TOPIC
from tests.ha.cluster import Broker
from tests.ha.setting import BROKER_NAME
from tests.ha.trios import Controller, Trio

FIELDS = {"a": "P", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": "",
          "j": 0, "k": False}  # fmt: skip
PATIENT = ("slaveTimeout=60000",)  # a slave that is slow on a busy machine has not gone away
LATE_S = 5.0  # the delay of level 2
COPY_S = 2.5  # until slaves have looked at the master's tables twice
FED_AT = 48  # in rmqTimers/position: cext/store/timers/timer_position.pxd

PROGRESS = {"consumerGroup": "g", "topic": "t", "queueId": 0}
IN_ORDER = {"order": "true", "maxMsgNums": 4, "queueId": 0, "invisibleTime": 3_600_000}


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    with Trio(tmp_path, settings=PATIENT) as cluster:
        make(cluster, "t")
        yield cluster


def make(trio: Trio, topic: str, queues: int = 1) -> None:
    """Makes the topic, and returns when clients find it."""
    with View(trio.namesrv) as view:
        wait_until(lambda: is_made(view, topic, queues))
        until_routed(view, topic, {BROKER_NAME: queues})


def is_made(view: View, topic: str, queues: int) -> bool:
    """Whether the topic was made; on a busy machine slaves may be too slow for an answer."""
    with contextlib.suppress(RmqError):
        admin.create_topic(view, topic, queues)
        return True
    return False


def send(node: Broker, body: bytes, properties: str = "", timeout: float = HANG_S) -> int:
    """Sends a message, and returns the code of the answer; -1: there was none."""
    try:
        with Connection(node.address) as connection:
            fields = {**FIELDS, "i": properties, "g": int(time.time() * 1000)}
            connection.call(RequestCode.SEND_MESSAGE_V2, fields, body, timeout=timeout)
    except RemoteError as error:
        return error.code
    except RmqError:
        return -1
    return 0


def until_acked(trio: Trio, body: bytes, properties: str = "") -> int:
    """Sends a message until it is acknowledged. Returns how often it was sent, and so how often it
    may be stored."""
    codes: list[int] = []

    def is_acked() -> bool:
        codes.append(send(trio.nodes["master"], body, properties))
        return codes[-1] == 0

    wait_until(is_acked)
    return len(codes)


def once(found: list[bytes]) -> list[bytes]:
    """The bodies without repeats right behind each other: a body is stored twice if its answer came
    too late."""
    return [body for body, _ in itertools.groupby(found)]


def bodies(node: Broker) -> list[bytes]:
    """The bodies that queue 0 of topic t shows."""
    found: list[bytes] = []
    with Connection(node.address) as connection:
        while True:
            pull = {"consumerGroup": "CID_RMQ_SYS_TRANS", "topic": "t", "queueId": 0,
                    "queueOffset": len(found), "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
                    "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}  # fmt: skip
            try:
                reply = connection.call(RequestCode.PULL_MESSAGE, pull)
            except RemoteError:
                return found
            found += [each.body for each in decode_messages(reply.body)]


def others(trio: Trio, master: Broker) -> list[Broker]:
    return [node for node in trio.nodes.values() if node is not master]


def test_what_only_the_old_master_has_is_cut_when_it_comes_back(trio: Trio) -> None:
    old = trio.nodes["master"]
    until_acked(trio, b"acked")
    slaves = others(trio, old)
    for node in slaves:
        node.pause()

    def is_written() -> bool:
        """The message is in the master's log alone. As no slave acknowledges it, the master does
        not either. It is sent again, as on a busy machine the lease may be over for a moment."""
        assert send(old, b"alone", timeout=0.5) != 0
        return b"alone" in log_of(old.store, 1 << 40)

    wait_until(is_written)
    trio.controller.pause()  # so it does not learn that the two are not in sync any more
    for node in (*slaves, old):
        node.kill()
    trio.controller.signal(signal.SIGCONT)
    wait_until(lambda: has_no_master(trio.controller))
    for node in slaves:
        node.start()
    until_acked(trio, b"later")
    old.start()
    trio.settle()
    assert "the log is cut at" in old.log()
    master = trio.nodes["master"]
    assert once(bodies(master)) == [b"acked", b"later"]
    wait_until(lambda: bodies(old) == bodies(master))
    assert set(trio.stop().values()) == {0}
    with master.store.joinpath("epochFileCheckpoint").open() as file:
        assert int(file.readline()) >= 2
    logs = [log_of(node.store, 1 << 40).rstrip(b"\0") for node in trio.nodes.values()]
    least = min(map(len, logs))
    assert least > 0 and len({log[:least] for log in logs}) == 1


def test_a_replica_that_a_power_cut_left_with_a_hole_has_it_filled_by_its_master(
    trio: Trio,
) -> None:
    """One page, which begins within a record, was not written; the pages behind it were."""
    torn = others(trio, trio.nodes["master"])[0]
    torn.disk.hold("fdatasync", path="commitlog/")
    sent = [b"%d" % number for number in range(20)]
    for body in sent:
        until_acked(trio, body)
    trio.settle()
    torn.kill()
    torn.disk.clear()
    file = torn.store / "commitlog" / f"{0:020}"
    content = bytearray(file.read_bytes())
    record = [each for each in records(file) if each.topic == b"t"][10]
    content[record.offset + 8 : record.offset + record.size] = bytes(record.size - 8)
    file.write_bytes(content)
    other_boot(torn.store)
    torn.start()
    trio.settle()
    assert f"damaged at log offset {record.offset}" in torn.log()
    assert f"the log is cut at {record.offset}," in torn.log()  # what is whole before it stays
    wait_until(lambda: {*bodies(torn)} == {*sent})
    assert set(trio.stop().values()) == {0}
    logs = [log_of(node.store, 1 << 40).rstrip(b"\0") for node in trio.nodes.values()]
    least = min(map(len, logs))
    assert least > record.offset + record.size and len({log[:least] for log in logs}) == 1


def records(file: Path) -> list[Record]:
    segment = Segment(file)
    try:
        return [each for each in scan_segment(segment) if isinstance(each, Record)]
    finally:
        segment.close()


@pytest.mark.parametrize("was_master", [True, False])
def test_a_new_disk_under_an_old_name_does_not_lead_before_the_others(
    trio: Trio, was_master: bool
) -> None:
    """All brokers were stopped, and the one that has only its identity left in its store is back
    first."""
    until_acked(trio, b"acked")
    trio.settle()
    old = trio.nodes["master"]
    wiped = old if was_master else others(trio, old)[0]
    trio.controller.kill()
    for node in trio.nodes.values():
        node.kill()
    wipe(wiped)
    waits_for_the_others(trio, wiped, "(its log is empty) lacks what was acknowledged")
    assert "master of epoch" not in wiped.log().rpartition("lacks what was acknowledged")[2]
    wait_until(lambda: once(bodies(wiped)) == [b"acked"])


@pytest.mark.parametrize("is_whole_store", [True, False])
def test_a_new_disk_takes_a_log_whose_oldest_segments_are_gone(
    trio: Trio, is_whole_store: bool
) -> None:
    """The broker with the new disk was back before another one was master, and began a log at 0."""
    for _ in range(20):  # more than a segment, which has 16 MiB
        until_acked(trio, bytes(900_000))
    until_acked(trio, b"acked")
    trio.settle()
    wiped = others(trio, trio.nodes["master"])[0]
    trio.controller.kill()
    for node in trio.nodes.values():
        node.stop()
    for node in others(trio, wiped):
        (node.store / "commitlog" / f"{0:020}").unlink()
    if is_whole_store:
        wipe(wiped)
    else:
        shutil.rmtree(wiped.store / "commitlog")
    why = "is empty" if is_whole_store else "has lost the end of its log"
    waits_for_the_others(trio, wiped, f"(its log {why}) lacks what was acknowledged")
    assert f"it begins at {16 << 20} from now on" in wiped.log()
    assert set(trio.stop().values()) == {0}
    logs = [log_of(node.store, 1 << 40).rstrip(b"\0") for node in trio.nodes.values()]
    least = min(map(len, logs))
    assert b"acked" in logs[0][:least] and len({log[:least] for log in logs}) == 1


def wipe(node: Broker) -> None:
    """Removes all of the store but the broker's identity."""
    identity = (node.store / "brokerIdentity").read_bytes()
    shutil.rmtree(node.store)
    node.store.mkdir()
    (node.store / "brokerIdentity").write_bytes(identity)


def waits_for_the_others(trio: Trio, first: Broker, why: str) -> None:
    """All were stopped, and `first` is back first: another one leads, and `first` gets its log."""
    trio.controller.start()
    wait_until(lambda: has_no_master(trio.controller))
    first.launch()  # not ready before it has waited for a role
    wait_until(lambda: why in first.log())
    assert not first.is_master()
    for node in others(trio, first):
        node.start()
    first.until_ready()
    trio.settle()
    assert trio.nodes["master"] is not first


def has_no_master(controller: Controller) -> bool:
    """Whether the controller has seen that the old master does not live. It looks every 5 s by its
    clock, which is advanced here."""
    controller.clock.advance(STEP_S)
    return "none of [1, 2, 3], who are in sync, lives" in controller.log()


def test_a_new_disk_under_the_log_does_not_lead_before_the_others(trio: Trio) -> None:
    """All of its store but the log is there, and its epoch file says that it has the newest
    epoch."""
    until_acked(trio, b"acked")
    trio.settle()
    old = trio.nodes["master"]
    trio.controller.kill()
    for node in trio.nodes.values():
        node.stop()
    shutil.rmtree(old.store / "commitlog")
    waits_for_the_others(trio, old, "has lost the end of its log) lacks what was ack")
    wait_until(lambda: once(bodies(old)) == [b"acked"])
    wait_until(lambda: not (old.store / "rmqLostEnd").exists())


def test_sends_wait_for_a_new_master_that_has_no_slave_yet(trio: Trio) -> None:
    """A new master is alone in sync for 0.1 s to 0.3 s. Sends must wait so long, and not be refused
    with 1."""
    until_acked(trio, b"first")
    trio.settle()
    old = trio.nodes["master"]
    old.kill()
    codes: list[int] = []
    while 0 not in codes:
        codes += [send(node, b"%d" % len(codes)) for node in others(trio, old)]
    logged = "".join(node.log() for node in others(trio, old))
    waited_ms = [int(ms) for ms in re.findall(r"waited for a new master, up to (\d+) ms", logged)]
    assert 1 not in codes or max(waited_ms, default=0) >= 1000, (codes, waited_ms)


def test_timed_messages_go_on_where_the_old_master_was(trio: Trio) -> None:
    old = trio.nodes["master"]
    soon = int(time.time() * 1000) + 300
    sent = {
        name: until_acked(trio, name, f"TIMER_DELIVER_MS\x01{soon}\x02")
        for name in (b"timed %d" % number for number in range(20))
    }
    wait_until(lambda: sent.keys() <= set(bodies(old)))
    for node in others(trio, old):
        wait_until(lambda node=node: fed(node) >= timed(old))
    old.kill()
    until_acked(trio, b"after", f"TIMER_DELIVER_MS\x01{int(time.time() * 1000) + 300}\x02")
    # "after" is due later than all that could come twice, so repeats would be there before it.
    wait_until(lambda: b"after" in bodies(trio.nodes["master"]))
    shown = bodies(trio.nodes["master"])
    assert all(1 <= shown.count(name) <= attempts for name, attempts in sent.items())


def test_a_delayed_message_whose_delivery_was_not_written_is_delivered_by_the_next(
    trio: Trio,
) -> None:
    old = trio.nodes["master"]
    until_acked(trio, b"late", "DELAY\x012\x02")  # the disk is full before it is due
    for operation in ("pwrite", "fallocate"):
        old.disk.fail(operation, errno.ENOSPC, path="commitlog/")
    old.clock.advance(LATE_S)
    wait_until(lambda: old.disk.hits(0))
    # The level's offset has moved on at the master; slaves ask for it every second.
    ends = time.monotonic() + COPY_S
    while time.monotonic() < ends:
        assert send(old, b"refused") != 0
        time.sleep(0.05)
    assert bodies(old) == []
    old.kill()
    for node in others(trio, old):
        node.clock.advance(LATE_S)
    wait_until(lambda: once(bodies(trio.nodes["master"])) == [b"late"])


def timed(node: Broker) -> int:
    """How many messages have waited for their time: one that comes after its time does not wait."""
    with Connection(node.address) as connection:
        asked = {"topic": TIMER_TOPIC, "queueId": 0}
        return int(connection.call(RequestCode.GET_MAX_OFFSET, asked).fields["offset"])


def fed(node: Broker) -> int:
    """How much of the queue of timed messages this broker takes for delivered."""
    content = (node.store / "rmqTimers" / "position").read_bytes()
    return int.from_bytes(content[FED_AT : FED_AT + 8], "big")


def test_offsets_and_topics_are_at_the_next_master(trio: Trio) -> None:
    old = trio.nodes["master"]
    for number in range(3):
        until_acked(trio, b"%d" % number)
    make(trio, "another", 3)
    with Connection(old.address) as connection:
        body = b'{"groupName":"g","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16}'
        connection.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, {**PROGRESS, "commitOffset": 2})
    for node in others(trio, old):
        wait_until(lambda node=node: offset(node, PROGRESS) == 2)
    old.kill()
    until_acked(trio, b"3")
    master = trio.nodes["master"]
    assert offset(master, PROGRESS) == 2
    with Connection(master.address) as connection:
        table = connection.call(RequestCode.GET_ALL_TOPIC_CONFIG).body
    assert b'"another"' in table


def test_a_batch_popped_in_order_stays_in_the_same_hands(trio: Trio) -> None:
    """Acknowledged messages do not come again. The others go to no other consumer before their time
    is over, and then come in their order."""
    old = trio.nodes["master"]
    for number in range(6):
        until_acked(trio, b"%d" % number)
    some = asyncio.run(pop_in_order(old))
    assert offsets(some) == [0, 1, 2, 3]
    asyncio.run(acked_at(old, some[0], some[2]))
    for node in others(trio, old):
        wait_until(lambda node=node: batch(node).get("cm") == 0b101)
        wait_until(lambda node=node: offset(node, PROGRESS) == 1)
    old.kill()
    until_acked(trio, b"6")
    master = trio.nodes["master"]
    assert asyncio.run(pop_in_order(master)) == []
    asyncio.run(acked_at(master, some[1]))
    assert offset(master, PROGRESS) == 3
    again = asyncio.run(given_back(master, some[3]))
    assert offsets(again) == [3, 4, 5, 6]
    wait_until(lambda: batch(master).get("oc") == {"3": 1})  # only message 3 came before


def client_of(node: Broker) -> BrokerClient:
    return BrokerClient(int(node.address.rpartition(":")[2]))


async def pop_in_order(node: Broker) -> list[Popped]:
    async with client_of(node) as client:
        return await pop(client, "g", "t", **IN_ORDER)


async def acked_at(node: Broker, *some: Popped) -> None:
    async with client_of(node) as client:
        await ack(client, "g", *some)


async def given_back(node: Broker, one: Popped) -> list[Popped]:
    """Makes the message come again at once, and returns what comes then."""
    async with client_of(node) as client:
        await change(client, "g", one, 1)
        return await pop_all(client, "g", "t", 1, **IN_ORDER)


def offsets(some: list[Popped]) -> list[int]:
    return [each.message.queue_offset for each in some]


def batch(node: Broker) -> dict[str, Any]:
    """The popped batch of group g in queue 0, once the broker's file has one."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        with contextlib.suppress(OSError, ProtocolError):  # the broker replaces the file at times
            content = (node.store / "config" / "consumerOrderInfo.json").read_bytes()
            found.append(fastjson.loads_object(content)["table"].get("t@g", {}).get("0", {}))
        return bool(found)

    wait_until(look)
    return found[0]


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_master_whose_log_takes_nothing_is_replaced(trio: Trio, operation: str) -> None:
    """The master resigns, without being restarted. When it is started again, it is a slave."""
    until_acked(trio, b"first")
    trio.settle()
    old = trio.nodes["master"]
    old.disk.fail(operation, errno.EIO, path="commitlog/", count=1)
    wait_until(lambda: send(old, b"lost") and old.disk.hits(0))
    wait_until(lambda: any(send(node, b"second") == 0 for node in others(trio, old)))
    assert send(old, b"refused") != 0
    wait_until(lambda: trio.nodes["master"] is not old)
    assert "this replica leads and follows no more" in old.log()
    old.kill()
    old.start()
    trio.settle()
    until_acked(trio, b"third")
    wait_until(lambda: bodies(old) == bodies(trio.nodes["master"]))
    assert {b"first", b"second", b"third"} <= set(bodies(old))


def test_a_master_that_is_alone_promises_no_change_of_its_tables(trio: Trio) -> None:
    """As with sends, what only one disk has is lost with this disk."""
    until_acked(trio, b"first")
    trio.settle()
    master = trio.nodes["master"]
    for node in others(trio, master):
        node.kill()
    asked = {"topic": "alone", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
             "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}  # fmt: skip

    def change() -> int:
        with Connection(master.address) as connection:
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            return connection.ask(code, asked, timeout=HANG_S).code

    codes: list[int] = []
    wait_until(lambda: codes.append(change()) or codes[-1] == ResponseCode.SLAVE_NOT_AVAILABLE)
    assert set(codes) <= {ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
    for node in others(trio, master):
        node.start()
    trio.settle()
    assert change() == ResponseCode.SUCCESS


def offset(node: Broker, progress: dict[str, object]) -> int:
    try:
        with Connection(node.address) as connection:
            reply = connection.call(RequestCode.QUERY_CONSUMER_OFFSET, progress)
    except RmqError:
        return -1
    return int(reply.fields["offset"])


def test_a_new_master_is_followed_by_tls(tmp_path: Path) -> None:
    with Trio(tmp_path, settings=("rmqReplicaTls=enforcing", *PATIENT)) as trio:
        make(trio, "t")
        sent = [b"first", b"second", b"third"]
        for body in sent:
            until_acked(trio, body)
            trio.settle()
            old = trio.nodes["master"]
            old.kill()
            until_acked(trio, body + b" again")
            old.start()
        trio.settle()
        master = trio.nodes["master"]
        assert once(bodies(master)) == [each for body in sent for each in (body, body + b" again")]
        for node in others(trio, master):
            wait_until(lambda node=node: bodies(node) == bodies(master))
            assert "the log comes from the master" in node.log()
        host, _, port = master.address.rpartition(":")
        with socket.create_connection((host, int(port) + 1), 60) as plain:
            plain.sendall(bytes(8))
            with contextlib.suppress(ConnectionResetError):
                assert plain.recv(1) == b"", "who speaks no TLS gets nothing"
