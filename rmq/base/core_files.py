"""Core files: prevents them, for processes that have passwords in their memory.

The process tells Linux so itself (prctl PR_SET_DUMPABLE), because limits of core files do not apply
where core files are piped to a program such as systemd's. After that only root can attach a
debugger.

Example: leave_none(); os.abort() ends the process without a core file, whatever `ulimit -c` says.
"""

from __future__ import annotations

import logging
import os

PR_SET_DUMPABLE = 4

log = logging.getLogger("rmq.core_files")


def leave_none() -> None:
    import ctypes  # here, because other processes do not need it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        log.warning("a crash may leave passwords in a core file: %s", reason)
