"""Certificate watch: certificates are read anew when one of their files changes.

Connections keep what they began with. A certificate that cannot be used, or whose key is another
one's, is logged, and the one before goes on: so it does not matter in which order the files are
replaced.

Example: server.pem is renewed for the key that is there. A second later `renew` has been called,
and who connects from then on sees the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rmq.errors import ConfigError
from rmq.serving.tls import Stamp, TlsFiles

LOOK_S = 1.0

log = logging.getLogger("rmq.serving.certificates")


class CertificateWatch:
    """Owned by the event loop."""

    def __init__(self, files: TlsFiles | None, renew: Callable[[TlsFiles], None]) -> None:
        """renew reads them; ConfigError for what cannot be used. Nothing is looked at where a
        server speaks no TLS, or has a certificate of its own making and believes nobody's."""
        is_still = files is None or (files.is_own and not files.trusted)
        self._files = None if is_still else files
        self._renew = renew
        self._stamp: Stamp = ()  # whatever was read before, the first look reads anew

    async def run(self) -> None:
        """Until it is cancelled."""
        while self._files is not None:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look_anew(self) -> None:
        """The next look reads them, changed or not."""
        self._stamp = ()

    def look(self) -> None:
        files = self._files
        if files is None or (stamp := files.stamp()) == self._stamp:
            return
        self._stamp = stamp
        try:
            self._renew(files)
            log.info("certificates were read")
        except ConfigError as error:
            log.error("the certificates before are shown on: %s", error)
        except Exception as error:  # the next look tries again
            self._stamp = ()
            log.error("the certificates cannot be renewed now: %r", error)
