"""Missing topic: the error of a command that looks for something in a topic that does not exist.

with in_words("nobody has traced anything"): ..      says this instead of the answer (17)
refuse(cluster, "orders")               raises: none of the brokers that were asked has the topic
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
    """There is no such topic; the text says what that means to the command."""


@contextmanager
def in_words(text: str) -> Iterator[None]:
    """In the block, the answer that there is no such topic becomes a MissingTopicError with this
    text."""
    try:
        yield
    except RemoteError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        raise MissingTopicError(text) from None


def refuse(cluster: Cluster, topic: str) -> NoReturn:
    """Raises the error for a topic that none of the brokers that were asked has."""
    cluster.route(topic)  # raises an error if the topic exists nowhere
    raise click.ClickException(f"topic {topic} is on none of these brokers")
