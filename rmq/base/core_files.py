"""Core files: a process that has passwords in its memory leaves none when it crashes.

Linux asks the process itself (prctl PR_SET_DUMPABLE): limits of core files do not hold where they
are given to a program, as systemd's. Nobody but root can attach a debugger then.

Example: leave_none(); os.abort() ends the process without a core file, whatever `ulimit -c` says.
"""

from __future__ import annotations

import logging
import os

PR_SET_DUMPABLE = 4

log = logging.getLogger("rmq.core_files")


def leave_none() -> None:
    import ctypes  # where it is needed

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        log.warning("a crash may leave passwords in a core file: %s", reason)
