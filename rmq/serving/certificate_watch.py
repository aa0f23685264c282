"""Certificate watch: certificates are read anew when one of their files changes, and each 12 h.

Connections keep what they began with. A certificate that cannot be used, or whose key is another
one's, is logged, and the one before goes on: so it does not matter in which order the files are
replaced.

What is made of the same files after 12 h has other keys of tickets, as OpenSSL makes them at random
for each context: whoever gets at those of now cannot read what sessions of last week have said.

Example: server.pem is renewed for the key that is there. A second later `renew` has been called,
and who connects from then on sees the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rmq.base import clock
from rmq.errors import ConfigError
from rmq.serving.tls import Stamp, TlsFiles

POLL_S = 1.0
TICKETS_S = 12 * 3600.0  # that keys of tickets last; a ticket does for two hours

log = logging.getLogger("rmq.serving.certificates")


class CertificateWatch:
    """Owned by the event loop."""

    def __init__(self, files: TlsFiles | None, renew: Callable[[TlsFiles], None]) -> None:
        """renew reads them; ConfigError for what cannot be used. None: a server speaks no TLS, and
        nothing is looked at."""
        self._files = files
        self._renew = renew
        self._stamp: Stamp = ()  # whatever was read before, the first look reads anew
        self._read_at = clock.monotonic()
        if files is not None and files.is_own and not files.trusted:
            self._stamp = files.stamp()  # it is in memory, and nobody changes it

    async def run(self) -> None:
        """Until it is cancelled."""
        while self._files is not None:
            await asyncio.sleep(POLL_S)
            self.look()

    def look_anew(self) -> None:
        """The next look reads them, changed or not."""
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
