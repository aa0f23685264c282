"""Certificates: those that the reactor shows to TLS clients, and replicas to each other.

    certificates = Certificates(settings, core)         the core is made with server_context()
    await certificates.run()                            reads files anew when they change
    certificates.share_tickets(secret)                  a session can be resumed at every shard that
                                                        has this secret

Tickets are made with keys that are derived from the secret, the certificate and the authorities
that the server trusts. So a session can be resumed at another shard, but nowhere once one of the
files has changed: a client whose authority is no longer trusted cannot come back with an old
session.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cext.net.tls import TICKET_KEY_BYTES, TlsContext
from cext.net.tls_stream import TlsClientContext
from rmq.base import clock
from rmq.broker.core_seam import AuthCalls
from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.serving.certificate_watch import TICKETS_S, CertificateWatch
from rmq.serving.tls import TlsFiles, client_tls


class Certificates:
    """Owned by the control thread's loop."""

    def __init__(self, settings: Settings, core: AuthCalls) -> None:
        self._core = core
        self._secret = b""
        self._secret_until = 0.0
        self._watch = CertificateWatch(TlsFiles.of(settings), self._renew)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        await self._watch.run()

    def share_tickets(self, secret: bytes) -> None:
        """Uses the secret from the next look at the files on; sessions under the secret before it
        are not resumed. When no other secret follows, because there is no supervisor, this one is
        given up after 2 * TICKETS_S."""
        self._secret = secret
        self._secret_until = clock.monotonic() + 2 * TICKETS_S
        self._watch.look_anew()

    def _renew(self, files: TlsFiles) -> None:
        if clock.monotonic() >= self._secret_until:
            self._secret = b""
        # The keys are made before the context reads the same files: a change in between is seen by
        # the next look, and until then tickets belong to the files as they were before.
        keys = ticket_keys(self._secret, files) if self._secret else b""
        context = context_of(files)
        if keys:
            context.set_ticket_keys(keys)
        self._core.set_tls(context, files.is_permissive)


def ticket_keys(secret: bytes, files: TlsFiles) -> bytes:
    """The keys of tickets under this secret and these files. ConfigError: a file cannot be read."""
    bound = hashlib.sha256(files.asks.encode())
    try:
        for path in (files.certificate, files.trusted):
            bound.update(hashlib.sha256(Path(path).read_bytes() if path else b"").digest())
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    return hashlib.shake_256(secret + bound.digest()).digest(TICKET_KEY_BYTES)


def context_of(files: TlsFiles) -> TlsContext:
    """The context made of these files. ConfigError, which names the file, if one is unusable."""
    return TlsContext(
        files.certificate, files.key, files.password or None, files.trusted or None, files.asks
    )


def server_context(settings: Settings) -> tuple[TlsContext, bool] | None:
    """(the context for the core, whether plain clients are served, too); None: no TLS."""
    files = TlsFiles.of(settings)
    return (context_of(files), files.is_permissive) if files is not None else None


def replica_context(settings: Settings) -> TlsContext:
    """The context for slaves at the HA port, from the files as they are now. ConfigError: there is
    no certificate."""
    return context_of(TlsFiles.needed(settings, f"rmqReplicaTls={settings.rmqReplicaTls}"))


def master_context(settings: Settings) -> TlsClientContext:
    """The context for the connection to the master: the certificate to show, and whether the
    master's is checked."""
    said = client_tls(settings)
    return TlsClientContext(
        said.ca_file, said.verify, said.cert_file, said.key_file, said.key_password
    )
