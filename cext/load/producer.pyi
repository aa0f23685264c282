import socket
from typing import Any, final

from cext.load.histogram import Histogram
from cext.load.template import FrameSet

@final
class Producer:
    latency: Histogram
    def __new__(
        cls,
        frames: FrameSet,
        sockets: list[socket.socket],
        window: int = 1,
        rate: float = 0.0,
        limit: int = 0,
        in_order: bool = False,
        first_unique: int = 0,
    ) -> Producer: ...
    def run(self, microseconds: int) -> bool: ...
    def finish(self, microseconds: int) -> int: ...
    def reset_stats(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
