from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, final, overload

from cext.client.engine import Engine
from cext.client.mailbox import Mailbox
from cext.client.message import Message
from cext.client.result import SendResult
from rmq.format.fastjson import MessageQueue

_SendCallback: TypeAlias = Callable[[SendResult | None, Exception | None], object]
_BatchCallback: TypeAlias = Callable[[list[SendResult] | None, Exception | None], object]
_Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
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

@final
class Target(SendCompletion):
    topic: str
    address: str
    queue_id: int
    link: int
    def __init__(
        self,
        sender: Sends,
        topic: str,
        shown: str,
        broker_name: str,
        address: str,
        queue_id: int,
        link: int,
        fields: dict[str, Any],
    ) -> None: ...

@final
class TopicQueues:
    targets: list[Target]
    route: Any
    def __init__(self, targets: list[Target], route: object, turn: int = 0) -> None: ...
    def choose(
        self, avoid: str | None = None, usable: Callable[[str], bool] | None = None
    ) -> Target: ...

class Sender(Sends):
    topics: dict[str, TopicQueues]
    direct: bool
    batching: bool
    retries: int
    compress_from: int
    body_max: int
    @overload
    def send_async(
        self,
        message: Message,
        callback: None = None,
        *,
        queue: MessageQueue | None = None,
        selector: _Selector | None = None,
        arg: Any = None,
        timeout_ms: float | None = None,
    ) -> Future[SendResult]: ...
    @overload
    def send_async(
        self,
        message: Message,
        callback: _SendCallback,
        *,
        queue: MessageQueue | None = None,
        selector: _Selector | None = None,
        arg: Any = None,
        timeout_ms: float | None = None,
    ) -> None: ...
    def submit_to(
        self,
        target: Target,
        message: Message,
        body: bytes,
        sys_flag: int,
        callback: _Completion,
        timeout_ms: float,
        attempts: int = 0,
        mailbox: Mailbox | None = None,
        gathered: bool = False,
    ) -> None: ...
    def submit_batch_to(
        self,
        target: Target,
        messages: list[Message],
        callbacks: list[Any] | None,
        callback: _Completion,
        timeout_ms: float,
        attempts: int = 0,
        mailbox: Mailbox | None = None,
    ) -> None: ...
    def seal_batches(self) -> None: ...

def may_gather(message: Message) -> bool: ...
def monotonic_ms() -> float: ...
def batch_item_bytes(message: Message) -> int: ...
def check_topic(topic: str) -> None: ...
