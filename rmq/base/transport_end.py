"""Transport end: asyncio's transports, ended at once.

abort(transport)        also of one that is closed, by whoever
"""

from __future__ import annotations

import asyncio


def abort(transport: asyncio.WriteTransport) -> None:
    """What is not sent or not read yet is gone. A second close() of TLS has the transport forget
    its connection, for which abort() of Python before 3.11.5 asks (Debian 12 has 3.11.2): the
    farewell that the first close() began ends that one."""
    try:
        transport.abort()
    except AttributeError:
        if not transport.is_closing():
            raise
