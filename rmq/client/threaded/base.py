"""ThreadedClient: the methods that all clients have for users: start, close, id and group.

The object that it holds does the work. The methods of that object are also called by its own
parts, by requests of brokers and by rmq.aio, so they are not an interface for users.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

from rmq.client.connection.instance import shown
from rmq.client.consumer.subscription import EVERYTHING
from rmq.errors import not_copied

if TYPE_CHECKING:
    from typing_extensions import Self


class ClientImpl(Protocol):
    """The object that does the work of a client."""

    @property
    def client_id(self) -> str: ...

    @property
    def group(self) -> str: ...  # its name on the wire

    @property
    def is_open(self) -> bool: ...

    @property
    def is_closed(self) -> bool: ...

    def start(self) -> object: ...

    def close(self) -> None: ...


class ConsumerImpl(ClientImpl, Protocol):
    """The object that does the work of a consumer."""

    def subscribe(
        self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None
    ) -> object: ...

    def unsubscribe(self, topic: str) -> None: ...


C = TypeVar("C", bound=ClientImpl)
M = TypeVar("M", bound=ConsumerImpl)


class ThreadedClient(Generic[C]):
    """A client that starts once and closes once; any thread may use it."""

    def __init__(self, client: C) -> None:
        self._client = client

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "start one in each process, from its parameters")

    def __repr__(self) -> str:
        client = self._client
        return shown(self, client.group, is_open=client.is_open, is_closed=client.is_closed)

    def start(self) -> Self:
        """Connects; a `with` block does this. A closed client does not start again."""
        self._client.start()
        return self

    def close(self) -> None:
        """Ends what is under way, and unregisters from the brokers."""
        self._client.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client; ClosedError before start and after close."""
        return self._client.client_id

    @property
    def group(self) -> str:
        """The client's group as brokers know it, with the namespace."""
        return self._client.group

    @property
    def is_open(self) -> bool:
        """Whether the client is started and not closed."""
        return self._client.is_open


class ThreadedConsumer(ThreadedClient[M]):
    """A consumer: a member of a group."""

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Subscribes to the topic's messages with one of the tags ("a || b"), or to those for
        which the SQL92 expression is true."""
        self._client.subscribe(topic, tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription of this topic."""
        self._client.unsubscribe(topic)
