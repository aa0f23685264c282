"""Readers go on at the slave when the master is killed, and go back when it is there again.

Method: a name server, a master that waits for its slave, and the slave, each a process of its own;
SIGKILL. Every reader must see each acknowledged message, and none twice while it runs. The brokers'
counts of pulls show from which broker it reads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.replica_set import Sent, Servers
from support.waiting import wait_until

from rmq import ConsumeConcurrentlyStatus, PullConsumer, PushConsumer, aio
from rmq.broker.replication.ha_client import BLOCKED_RETRY_S
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.client.blocking.tail import Start, tail
from rmq.codes import RequestCode
from rmq.errors import RmqError


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    try:
        yield made
    finally:
        made.end()


@contextmanager
def pushed(servers: Servers, into: list[bytes]) -> Iterator[Any]:
    def listen(messages: list[Any], context: object) -> ConsumeConcurrentlyStatus:
        into.extend(each.body for each in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with PushConsumer(
        "g", listen, namesrv_addr=servers.namesrv, persist_consumer_offset_interval=500,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET", consume_thread_max=1, consume_thread_min=1,
    ) as consumer:  # fmt: skip
        consumer.subscribe("t")
        yield consumer


@contextmanager
def pulled(servers: Servers, into: list[bytes]) -> Iterator[Any]:
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            into.extend(each.body for each in consumer.poll(100))

    with PullConsumer(
        "g", namesrv_addr=servers.namesrv, auto_commit_interval_millis=1_000,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:  # fmt: skip
        consumer.subscribe("t")
        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield consumer
        finally:
            ended.set()
            thread.join()


@contextmanager
def looped(servers: Servers, into: list[bytes]) -> Iterator[Any]:
    """The consumer of rmq.aio, in an event loop of its own."""
    ended = threading.Event()

    async def read() -> None:
        async with aio.PullConsumer(
            "g", namesrv_addr=servers.namesrv, auto_commit_interval_millis=1_000,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        ) as consumer:  # fmt: skip
            await consumer.subscribe("t")
            while not ended.is_set():
                into.extend(each.body for each in await consumer.poll(100))

    thread = threading.Thread(target=lambda: asyncio.run(read()))
    thread.start()
    try:
        yield None
    finally:
        ended.set()
        thread.join()


def committed(address: str) -> int:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": 0}
    try:
        with Connection(address) as connection:
            return connection.call(RequestCode.QUERY_CONSUMER_OFFSET, fields).int_field("offset")
    except RmqError:
        return -1


@pytest.mark.parametrize("reader", [pushed, pulled, looped])
def test_a_consumer_goes_on_at_the_slave_and_goes_back(
    servers: Servers, reader: Callable[[Servers, list[bytes]], Any]
) -> None:
    sent, got = Sent(servers), list[bytes]()
    sent.more()
    with ExitStack() as stack:
        stack.enter_context(reader(servers, got))
        wait_until(lambda: got == sent.bodies)
        sent.more()  # some of them may be read from the slave only
        servers.master.kill()
        wait_until(lambda: got == sent.bodies)
        wait_until(lambda: committed(servers.slave.address) == sent.count)
        # It reads from the slave now, and no message has come twice.
        wait_until(lambda: servers.addresses() == {1: servers.slave.address})
        servers.master.start()
        servers.slave_clock.advance(BLOCKED_RETRY_S)  # the slave's pause after a short connection
        wait_until(servers.are_whole)

        def went_back() -> bool:
            sent.more(1)
            return servers.master.counted("msgGetTotalTodayNow") > 0

        wait_until(went_back)
        wait_until(lambda: got == sent.bodies)
        # The master, too, gets the offsets that were committed at the slave.
        wait_until(lambda: committed(servers.master.address) == sent.count)
    # The next consumer begins at these offsets.
    sent.more(10)
    with reader(servers, got):
        wait_until(lambda: got == sent.bodies)


@pytest.mark.parametrize("reader", [pushed, pulled, looped])
def test_a_consumer_goes_where_the_broker_sends_it(
    servers: Servers, reader: Callable[[Servers, list[bytes]], Any]
) -> None:
    """The master sends readers to the slave, which sends them back because its master lives."""
    servers.send_readers_away()
    sent, got = Sent(servers), list[bytes]()
    with reader(servers, got):

        def were_both_read() -> bool:
            sent.more(5)
            return all(
                each.counted("msgGetTotalTodayNow") > 10 for each in (servers.master, servers.slave)
            )

        wait_until(were_both_read)
        wait_until(lambda: len(got) >= sent.count)
    assert got == sent.bodies


def test_a_consumer_that_starts_while_the_master_is_gone_reads_from_the_slave(
    servers: Servers,
) -> None:
    sent, got = Sent(servers), list[bytes]()
    sent.more()
    with pulled(servers, got):
        wait_until(lambda: got == sent.bodies)
    sent.more()
    wait_until(lambda: committed(servers.slave.address) == 50)
    servers.master.kill()
    wait_until(lambda: servers.addresses() == {1: servers.slave.address})
    with pulled(servers, got):
        wait_until(lambda: got == sent.bodies)


def test_the_command_line_reads_on_at_the_slave(servers: Servers) -> None:
    sent = Sent(servers)
    sent.more(500)
    with Cluster(servers.namesrv) as cluster:
        found = tail(cluster, "t", start=Start("first"))
        got = [next(found).body]
        servers.master.kill()
        got += [each.body for each in found]
        assert got == sent.bodies
        again = [each.body for each in tail(cluster, "t", start=Start("first"))]
        assert again == sent.bodies
