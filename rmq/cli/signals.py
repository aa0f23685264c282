"""Signals: a kill, or a terminal that is closed, ends a command as Ctrl-C does: it cleans up.

end_as_ctrl_c()         from here on; KeyboardInterrupt is raised in the main thread
"""

from __future__ import annotations

import signal


def end_as_ctrl_c() -> None:
    """SIGTERM and SIGHUP, also where Ctrl-C is ignored: a shell's script has that of what it starts
    in the background. What was to be ignored (nohup) stays so."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
