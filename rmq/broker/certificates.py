"""Certificates: what the reactor shows clients that speak TLS, read anew when a file changes.

Connections keep what they began with. A certificate that cannot be used, or whose key is another
one's, is logged, and the one before goes on: so it does not matter in which order the files are
replaced.
"""

from __future__ import annotations

import asyncio
import logging

from cext.net.tls import TlsContext
from rmq.broker.core_seam import AuthCalls
from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.serving.tls import LOOK_S, Stamp, TlsFiles

log = logging.getLogger("rmq.broker.certificates")


def context_of(files: TlsFiles) -> TlsContext:
    """ConfigError, which names the file, for what cannot be used."""
    return TlsContext(
        files.certificate, files.key, files.password or None, files.trusted or None, files.asks
    )


def server_context(settings: Settings) -> tuple[TlsContext, bool] | None:
    """For the core; with whether plain clients are served, too. None: no TLS."""
    files = TlsFiles.of(settings)
    return (context_of(files), files.is_permissive) if files is not None else None


class Certificates:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, core: AuthCalls) -> None:
        self._files = TlsFiles.of(settings)
        self._core = core
        self._stamp: Stamp = ()  # whatever the core was made with, the first look renews

    async def run(self) -> None:
        """Until it is cancelled."""
        while self._files is not None:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        files = self._files
        if files is None or (stamp := files.stamp()) == self._stamp:
            return
        self._stamp = stamp
        try:
            self._core.set_tls(context_of(files), files.is_permissive)
            log.info("certificates were read")
        except ConfigError as error:
            log.error("the certificates before are shown on: %s", error)
        except Exception as error:  # the next look tries again
            self._stamp = ()
            log.error("the certificates cannot be renewed now: %r", error)
