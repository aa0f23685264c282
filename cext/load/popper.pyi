import socket
from typing import Any, final

from cext.load.histogram import Histogram
from cext.load.template import FrameSet

@final
class Popper:
    latency: Histogram
    def __new__(
        cls,
        frames: FrameSet,
        names: list[bytes],
        broker_name: bytes,
        sockets: list[socket.socket],
        window: int = 1,
        limit: int = 0,
    ) -> Popper: ...
    def run(self, microseconds: int) -> bool: ...
    def reset_stats(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
