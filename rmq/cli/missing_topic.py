"""Missing topic: what a command says where what it asks about is in a topic that does not exist.

with in_words("nobody has traced anything"): ..      in place of the server's answer (17)
refuse(cluster, "orders")               none of the brokers that were asked has it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from rmq.client.blocking.cluster import Cluster
from rmq.codes import ResponseCode
from rmq.errors import RemoteError, RmqError


class MissingTopicError(RmqError):
    """There is no such topic; the text says what that means here."""


@contextmanager
def in_words(text: str) -> Iterator[None]:
    """MissingTopicError with this text, for the answer that there is no such topic."""
    try:
        yield
    except RemoteError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        raise MissingTopicError(text) from None


def refuse(cluster: Cluster, topic: str) -> NoReturn:
    """None of the brokers that were asked has it."""
    cluster.route(topic)  # says that it does not exist
    raise click.ClickException(f"topic {topic} is on no such broker")
