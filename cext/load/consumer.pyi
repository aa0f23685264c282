import socket
from typing import Any, final

from cext.load.event_loop import EventLoop
from cext.load.histogram import Histogram
from cext.load.template import FrameSet

@final
class Consumer(EventLoop):
    def __new__(
        cls,
        frames: FrameSet,
        sockets: list[socket.socket],
        offsets: list[tuple[int, int | None]],
        rewind: bool = False,
        stop_at_tail: bool = False,
        limit: int = 0,
        check_crc: bool = False,
        end_to_end: bool = False,
    ) -> Consumer: ...
    @property
    def end_to_end(self) -> Histogram: ...
    def reset_stats(self) -> None: ...
    def next_offsets(self) -> list[int]: ...
    def stats(self) -> dict[str, Any]: ...
