import socket
from typing import Any, final

from cext.load.event_loop import EventLoop
from cext.load.histogram import Histogram
from cext.load.template import FrameSet

@final
class Producer(EventLoop):
    def __new__(
        cls,
        frames: FrameSet,
        sockets: list[socket.socket],
        window: int = 1,
        rate: float = 0.0,
        limit: int = 0,
        in_order: bool = False,
    ) -> Producer: ...
    @property
    def delay(self) -> Histogram: ...
    @property
    def service(self) -> Histogram: ...
    def pace(self, rate: float) -> None: ...
    def finish(self, microseconds: int) -> int: ...
    def give_up(self) -> None: ...
    def reset_stats(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
