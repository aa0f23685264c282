"""Parameters of the client by RocketMQ's names, in snake_case, with their defaults and meaning.

A client takes them as keywords, or a whole object: `Producer("g", send_msg_timeout=1000)`,
`Producer("g", parameters=ProducerParameters(send_msg_timeout=1000))`. They can be changed as
attributes of `client.parameters` until it is started. The reference page docs/client-parameters.md
is written from these classes by `python -m rmq.client.parameters`; a test compares the two.

Times are milliseconds, sizes bytes, unless the text says otherwise. The value of `rpc_hook`, which
sees every request and every answer, is described in hooks.py.
"""

from rmq.client.parameters.base import ClientParameters, java_name, parameter, public_values
from rmq.client.parameters.consumer import (
    BROADCASTING,
    CLUSTERING,
    PopConsumerParameters,
    PullConsumerParameters,
    PushConsumerParameters,
)
from rmq.client.parameters.producer import ProducerParameters, TransactionProducerParameters

__all__ = [
    "BROADCASTING",
    "CLUSTERING",
    "ClientParameters",
    "PopConsumerParameters",
    "ProducerParameters",
    "PullConsumerParameters",
    "PushConsumerParameters",
    "TransactionProducerParameters",
    "java_name",
    "parameter",
    "public_values",
]
