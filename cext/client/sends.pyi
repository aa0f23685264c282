from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias, final

from cext.client.engine import Engine
from cext.client.mailbox import Mailbox
from cext.client.result import SendResult

_SendCallback: TypeAlias = Callable[[SendResult | None, Exception | None], object]
_BatchCallback: TypeAlias = Callable[[list[SendResult] | None, Exception | None], object]
_Completion: TypeAlias = _SendCallback | _BatchCallback | Future[SendResult] | SendWaiter | None

@final
class SendWaiter:
    result: Any
    error: Exception | None
    done: bool

class SendCompletion:
    sender: Sends
    shown: str
    broker_name: str

class Sends:
    engine: Engine
    mailbox: Mailbox
    batch_bytes: int
    linger_us: int
    timeout_ms: int
    tracks_latency: bool
    retries_not_stored: bool
    messages_max: int
    bytes_max: int
    messages_in_flight: int
    bytes_in_flight: int
    def connect_sender(self, engine: Engine, mailbox: Mailbox) -> None: ...
    def has_room(self, size: int) -> bool: ...
    def enter_gate(self, size: int) -> None: ...
    def leave_gate(self, size: int) -> None: ...
    def await_send(self, waiter: SendWaiter, mailbox: Mailbox) -> Any: ...
    def tell_callback(
        self, callback: _Completion, result: Any, error: Exception | None
    ) -> None: ...
