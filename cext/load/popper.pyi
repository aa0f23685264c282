import socket
from typing import Any, final

from cext.load.event_loop import EventLoop
from cext.load.template import FrameSet

@final
class Popper(EventLoop):
    def __new__(
        cls,
        frames: FrameSet,
        names: list[bytes],
        broker_name: bytes,
        sockets: list[socket.socket],
        window: int = 1,
        limit: int = 0,
    ) -> Popper: ...
    def reset_stats(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
