"""rmq.aio has all that rmq has, except for what is named here and in its docs pages."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from support.consuming import create
from support.scripted_cluster import Cluster, silent, stored

import rmq
from rmq import Message, RequestTimeoutError, aio
from rmq.pytest_plugin import RunningBroker

LEFT_OUT = {
    "Producer": {"send_async"},
    "TransactionProducer": {
        "flush", "queues", "recall", "reply", "request", "send", "send_async", "send_batch",
        "send_oneway",
    },
    "PopConsumer": {"ack_async"},
}  # fmt: skip
PARAMETERS_LEFT_OUT = {("PushConsumer", "commit"): {"wait"}}


def methods(client: type) -> set[str]:
    return {name for name in dir(client) if name[0] != "_" and callable(getattr(client, name))}


@pytest.mark.parametrize("name", aio.__all__)
def test_each_client_has_the_methods_of_its_twin(name: str) -> None:
    twin, own = getattr(rmq, name), getattr(aio, name)
    assert methods(twin) - methods(own) == LEFT_OUT.get(name, set())
    for method in sorted(methods(twin) & methods(own)):
        wanted = inspect.signature(getattr(twin, method)).parameters.keys()
        found = inspect.signature(getattr(own, method)).parameters.keys()
        assert wanted - found == PARAMETERS_LEFT_OUT.get((name, method), set()), method


def test_a_batch_and_a_send_without_an_answer_go_where_they_are_told() -> None:
    async def main() -> list[str]:
        with Cluster(stored, stored) as cluster:
            async with aio.Producer("g", namesrv_addr=cluster.name_server.address) as producer:
                _, last = sorted(await producer.queues("t"), key=lambda each: each.broker_name)
                await producer.send_batch([Message("t", b"1")], queue=last)
                await producer.send_oneway(Message("t", b"2"), queue=last)
                await producer.send_oneway(
                    Message("t", b"3"), selector=lambda queues, message, arg: arg, arg=last
                )
                await producer.send(Message("t", b"4"), queue=last)  # after the two sends before
            assert not cluster.sends(0)
            return [each.body[-1:] for each in cluster.sends(1)]

    assert asyncio.run(main())[1:] == [b"2", b"3", b"4"]


def test_a_message_is_taken_back(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "aio-recalled")

    async def main() -> None:
        async with aio.Producer("aio-recalls", namesrv_addr=broker.namesrv_addr) as producer:
            later = await producer.send(Message("aio-recalled", b"x", delay_seconds=60))
            assert later.recall_handle is not None
            assert await producer.recall("aio-recalled", later.recall_handle) == later.message_id

    asyncio.run(main())


def test_a_question_is_answered(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "aio-asked")

    async def main() -> None:
        async with aio.Producer("aio-asks", namesrv_addr=broker.namesrv_addr) as producer:

            async def answer(messages: list[rmq.MessageExt], context: object) -> None:
                for message in messages:
                    await producer.reply(message, message.body + b" and back")

            async with aio.PushConsumer(
                "aio-answers", answer, namesrv_addr=broker.namesrv_addr,
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            ) as consumer:  # fmt: skip
                await consumer.subscribe("aio-asked")
                answered = await producer.request(Message("aio-asked", b"there"), 60_000)
            assert answered.body == b"there and back"

    asyncio.run(main())


def test_a_transaction_has_the_time_it_is_given() -> None:
    class Payments:
        def execute_local_transaction(self, message: Message, arg: object) -> None:
            raise AssertionError

        check_local_transaction = execute_local_transaction

    async def main() -> None:
        with Cluster(silent) as cluster:
            async with aio.TransactionProducer(
                "g", Payments(), namesrv_addr=cluster.name_server.address
            ) as producer:
                with pytest.raises(RequestTimeoutError):
                    await producer.send_in_transaction(Message("t", b"x"), timeout_ms=20)

    asyncio.run(main())
