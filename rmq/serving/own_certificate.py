"""A server's own certificate, used while none is named: in memory, a different one in each process.

Example: own_certificate() is "/proc/self/fd/7", which holds key and certificate as PEM.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def own_certificate() -> str:
    """A path that only this process can read; OSError or RuntimeError where that is impossible: no
    /proc, no memory file."""
    from cext.net.self_signed import self_signed_pem

    fd = os.memfd_create("rmq-certificate")
    with open(fd, "wb", closefd=False) as file:
        file.write(self_signed_pem())
    path = f"/proc/self/fd/{fd}"
    try:
        Path(path).stat()
    except OSError:
        os.close(fd)
        raise
    return path
