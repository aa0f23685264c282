"""The client for asyncio: the same engine, its callbacks in the event loop.

    from rmq.aio import Producer

    async with Producer("orders-service", namesrv_addr="127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"paid"))

Names, parameters, results and exceptions are those of `rmq`; what asks brokers is awaited, so that
there is one `send`. There is no Admin; TransactionProducer sends in transactions alone.
Answers reach the loop through one descriptor; no thread stands between the engine and a coroutine
that waits for a send.

    base                what all of them have in common
    producer            Producer, TransactionProducer
    push_consumer       PushConsumer, which calls a coroutine function
    pull_consumer       PullConsumer
    pop_consumer        PopConsumer

Each is the twin of a client with threads (rmq/client/threaded): the same work is behind both.
"""

from rmq.aio.pop_consumer import PopConsumer
from rmq.aio.producer import Producer, TransactionProducer
from rmq.aio.pull_consumer import PullConsumer
from rmq.aio.push_consumer import PushConsumer

__all__ = ["PopConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
