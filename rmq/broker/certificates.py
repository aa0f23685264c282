"""Certificates: what the reactor shows clients that speak TLS, and replicas each other.

    certificates = Certificates(settings, core)         of a core made with server_context(settings)
    await certificates.run()                            files are read anew when they change
    certificates.share_tickets(secret)                  sessions go on at every shard that has it

A session's ticket is made by keys that follow from the secret, the certificate and whom the server
believes. So it goes on at another shard, and nowhere once one of the files is another one: a client
whose authority is no longer trusted is not let in by what was proved before.
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
        """Until it is cancelled."""
        await self._watch.run()

    def share_tickets(self, secret: bytes) -> None:
        """From the next look on; sessions of the secret before begin anew. Where no other one
        comes, as there is no supervisor, it is given up in a day at most."""
        self._secret = secret
        self._secret_until = clock.monotonic() + 2 * TICKETS_S
        self._watch.look_anew()

    def _renew(self, files: TlsFiles) -> None:
        if clock.monotonic() >= self._secret_until:
            self._secret = b""
        # Read before the context reads the same files: what changes between is seen by the next
        # look, and until then tickets are those of the files before.
        keys = ticket_keys(self._secret, files) if self._secret else b""
        context = context_of(files)
        if keys:
            context.set_ticket_keys(keys)
        self._core.set_tls(context, files.is_permissive)


def ticket_keys(secret: bytes, files: TlsFiles) -> bytes:
    """ConfigError: a file cannot be read."""
    bound = hashlib.sha256(files.asks.encode())
    try:
        for path in (files.certificate, files.trusted):
            bound.update(hashlib.sha256(Path(path).read_bytes() if path else b"").digest())
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    return hashlib.shake_256(secret + bound.digest()).digest(TICKET_KEY_BYTES)


def context_of(files: TlsFiles) -> TlsContext:
    """ConfigError, which names the file, for what cannot be used."""
    return TlsContext(
        files.certificate, files.key, files.password or None, files.trusted or None, files.asks
    )


def server_context(settings: Settings) -> tuple[TlsContext, bool] | None:
    """For the core; with whether plain clients are served, too. None: no TLS."""
    files = TlsFiles.of(settings)
    return (context_of(files), files.is_permissive) if files is not None else None


def replica_context(settings: Settings) -> TlsContext:
    """What slaves are shown at the HA port, as the files are now. ConfigError: there is none."""
    return context_of(TlsFiles.needed(settings, f"rmqReplicaTls={settings.rmqReplicaTls}"))


def master_context(settings: Settings) -> TlsClientContext:
    """What is shown the master, and whether its certificate is looked at."""
    said = client_tls(settings)
    return TlsClientContext(
        said.ca_file, said.verify, said.cert_file, said.key_file, said.key_password
    )
