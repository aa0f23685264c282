from collections.abc import Callable
from typing import Any, final

from cext.client.message import Message
from cext.client.sends import SendCompletion, Sends

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

def batch_item_bytes(message: Message) -> int: ...
