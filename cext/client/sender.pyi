from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, overload

from cext.client.mailbox import Mailbox
from cext.client.message import Message
from cext.client.result import SendResult
from cext.client.sends import Sends, _Completion, _SendCallback
from cext.client.target import Target, TopicQueues
from rmq.format.fastjson import MessageQueue

_Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]

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
def check_topic(topic: str) -> None: ...
