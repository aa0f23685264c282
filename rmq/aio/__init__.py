"""The client for asyncio: the same engine as rmq's, with its callbacks in the event loop.

    from rmq.aio import Producer

    async with Producer("orders-service", namesrv_addr="127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"paid"))

Names, parameters, results and exceptions are those of `rmq`. Methods that ask brokers are
coroutines, so there is one `send` instead of a synchronous and an asynchronous one. There is no
Admin, and TransactionProducer can send in transactions only. Answers reach the loop through one
file descriptor: no thread stands between the engine and a coroutine that waits for a send.

    base                LoopClient, the methods that all of them share
    producer            Producer, TransactionProducer
    push_consumer       PushConsumer, which calls a coroutine function
    pull_consumer       PullConsumer
    pop_consumer        PopConsumer

Each corresponds to a client with threads (rmq/client/threaded): the same object does the work of
both.
"""

from rmq.aio.pop_consumer import PopConsumer
from rmq.aio.producer import Producer, TransactionProducer
from rmq.aio.pull_consumer import PullConsumer
from rmq.aio.push_consumer import PushConsumer

__all__ = ["PopConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
