"""Signals: SIGTERM, and SIGHUP of a closed terminal, end a command as Ctrl-C does: it cleans up.

end_as_ctrl_c()             from now on these signals raise KeyboardInterrupt in the main thread
with ended_as_ctrl_c():     in the block alone, while there is something to clean up
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDS = (signal.SIGTERM, signal.SIGHUP)


def end_as_ctrl_c() -> None:
    """Handles SIGTERM and SIGHUP, even if Ctrl-C is ignored, as it is in commands that a shell's
    script starts in the background. A signal that is ignored (by nohup) stays ignored."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


@contextmanager
def ended_as_ctrl_c() -> Iterator[None]:
    """The same in the block alone. Threads other than the main one get no signals, and cannot say
    what these do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.getsignal(number) for number in ENDS]
    end_as_ctrl_c()
    try:
        yield
    finally:
        for number, handler in zip(ENDS, before, strict=True):
            if handler is not None:  # one that Python did not set
                signal.signal(number, handler)
