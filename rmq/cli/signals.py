"""Signals: SIGTERM, and SIGHUP of a closed terminal, end a command as Ctrl-C does: it cleans up.

end_as_ctrl_c()         from now on these signals raise KeyboardInterrupt in the main thread
"""

from __future__ import annotations

import signal


def end_as_ctrl_c() -> None:
    """Handles SIGTERM and SIGHUP, even if Ctrl-C is ignored, as it is in commands that a shell's
    script starts in the background. A signal that is ignored (by nohup) stays ignored."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
