"""ProducerBase: what every part of a producer may know of it.

The parts (targets.py, attempts.py, hooked_sends.py, ..) are made with a ProducerBase and with the
other parts that they need; ProducerImpl (producer.py) puts them together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cext.client.sender import Sender
from cext.client.target import Target
from rmq.client.connection.instance import ClientInstance, not_open
from rmq.client.connection.namespaces import wrap_group
from rmq.client.parameters import ProducerParameters
from rmq.client.producer.compression import Compressor

Completion = Any  # a callback(result, error), a Future, a SendWaiter, or None
NO_MORE = 255  # the number of tries of a send that is not tried again


class Chosen(NamedTuple):
    """Where an asynchronous send goes."""

    target: Target
    attempts: int  # how many tries count as made: 0 or NO_MORE


class ProducerBase(Sender):
    """A sender of one group with its parameters, and with a client instance while it is open."""

    def __init__(self, parameters: ProducerParameters) -> None:
        self.parameters = parameters
        self.group = wrap_group(parameters.namespace, parameters.producer_group)
        self.compressor = Compressor(parameters)
        self._instance: ClientInstance | None = None
        self._started_with: ClientInstance | None = None  # kept after close
        self._closed = False

    @property
    def instance(self) -> ClientInstance:
        """The client instance; ClosedError before start and after close."""
        if self._instance is None:
            raise not_open("producer", is_closed=self._closed)
        return self._instance

    def must_dial(self, address: str) -> bool:
        """Whether a send to this address must first make a connection and wait for it (use_tls)."""
        return self.parameters.use_tls and not self.instance.is_linked(address)

    @property
    def is_open(self) -> bool:
        return self._instance is not None

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that started the producer; known after close,
        too."""
        return self._started_with is not None and self._started_with.is_forked

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def client_id(self) -> str:
        return self.instance.client_id
