"""Certificate watch: reads certificates anew when one of their files changes, and every 12 h.

Connections keep the certificate with which they began. A certificate that cannot be used, or does
not belong to its key, is logged, and the one before stays in use: so it does not matter in which
order the files are replaced.

A context made of the same files after 12 h has other ticket keys, because OpenSSL makes these at
random for each context: somebody who gets the present keys cannot read the sessions of last week.

Example: server.pem is renewed for the same key. A second later `renew` has been called, and clients
that connect from then on see the new certificate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rmq.base import clock
from rmq.errors import ConfigError
from rmq.serving.tls import Stamp, TlsFiles

POLL_S = 1.0
TICKETS_S = 12 * 3600.0  # how long ticket keys are used; a ticket is valid for two hours

log = logging.getLogger("rmq.serving.certificates")


class CertificateWatch:
    """Owned by the event loop."""

    def __init__(self, files: TlsFiles | None, renew: Callable[[TlsFiles], None]) -> None:
        """renew: reads the files; ConfigError if they cannot be used. files None: the server does
        not use TLS, and there is nothing to watch."""
        self._files = files
        self._renew = renew
        self._stamp: Stamp = ()  # so that the first look always reads the files
        self._read_at = clock.monotonic()
        if files is not None and files.is_own and not files.trusted:
            self._stamp = files.stamp()  # the server's own is in memory and never changes

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while self._files is not None:
            await asyncio.sleep(POLL_S)
            self.look()

    def look_anew(self) -> None:
        """Lets the next look read the files even if they have not changed."""
        self._stamp = ()

    def look(self) -> None:
        if self._files is None:
            return
        stamp, now = self._files.stamp(), clock.monotonic()
        if stamp == self._stamp and now - self._read_at < TICKETS_S:
            return
        self._stamp, self._read_at = stamp, now
        try:
            self._renew(self._files)
            log.info("certificates were read")
        except ConfigError as error:
            log.error("the certificates before are shown on: %s", error)
        except Exception as error:  # the next look tries again
            self._stamp = ()
            log.error("the certificates cannot be renewed now: %r", error)
