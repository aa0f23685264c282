"""Transport end: ends asyncio's transports at once.

abort(transport)        may also be called for a transport that is closed already
"""

from __future__ import annotations

import asyncio


def abort(transport: asyncio.WriteTransport) -> None:
    """Ends the transport; bytes that are not sent or not read yet are lost. After a second close()
    a TLS transport has forgotten its connection, and abort() before Python 3.11.5 (Debian 12 has
    3.11.2) raises AttributeError. That can be ignored: the first close() has begun the TLS
    farewell, which ends the connection."""
    try:
        transport.abort()
    except AttributeError:
        if not transport.is_closing():
            raise
