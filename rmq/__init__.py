"""rmq: a RocketMQ broker installed with pip, and a client for it.

    from rmq import Message, Producer

Importing this module imports nothing else, because Spark's executors have rmq without its compiled
modules, and because the command line must start quickly. A public name is imported from its module
on first use.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "Admin": "rmq.client.administration",
    "DbApiStore": "rmq.client.consumer.seen_stores",
    "LocalTransactionState": "rmq.client.producer.transaction",
    "Message": "cext.client.message",
    "MessageExt": "cext.client.message",
    "MessageQueue": "rmq.format.fastjson",
    "PopConsumer": "rmq.client.threaded.pop_consumer",
    "Producer": "rmq.client.threaded.producer",
    "PullConsumer": "rmq.client.threaded.pull_consumer",
    "PushConsumer": "rmq.client.threaded.push_consumer",
    "RedisStore": "rmq.client.consumer.seen_stores",
    "SendResult": "cext.client.result",
    "SqliteStore": "rmq.client.consumer.seen_stores",
    "TransactionListener": "rmq.client.producer.transaction",
    "TransactionProducer": "rmq.client.threaded.producer",
    "TransactionResult": "rmq.client.producer.transaction",
    "ConsumeConcurrentlyStatus": "rmq.client.consumer.listener",
    "ConsumeOrderlyStatus": "rmq.client.consumer.listener",
    "BadRowError": "rmq.arrow.rows",
    "BusyError": "rmq.errors",
    "ClosedError": "rmq.errors",
    "ConfigError": "rmq.errors",
    "DamagedMessageError": "rmq.arrow.read_plan",
    "DataLossError": "rmq.arrow.queues",
    "MessageError": "rmq.errors",
    "OptionError": "rmq.arrow.options",
    "ProtocolError": "rmq.errors",
    "RemoteError": "rmq.errors",
    "RequestTimeoutError": "rmq.errors",
    "RmqError": "rmq.errors",
    "RouteError": "rmq.errors",
    "UnreachableError": "rmq.errors",
    "read_batches": "rmq.arrow.tables",
    "read_table": "rmq.arrow.tables",
    "scan_store": "rmq.arrow.tables",
    "write_table": "rmq.arrow.table_writer",
    "deduplicate": "rmq.client.consumer.deduplication",
}

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    module = _NAMES.get(name)
    if module is None:
        raise AttributeError(f"module rmq has no attribute {name}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
