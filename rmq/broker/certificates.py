"""Certificates: what the reactor shows clients that speak TLS."""

from __future__ import annotations

from cext.net.tls import TlsContext
from rmq.broker.core_seam import AuthCalls
from rmq.config import Settings
from rmq.serving.certificate_watch import CertificateWatch
from rmq.serving.tls import TlsFiles


def context_of(files: TlsFiles) -> TlsContext:
    """ConfigError, which names the file, for what cannot be used."""
    return TlsContext(
        files.certificate, files.key, files.password or None, files.trusted or None, files.asks
    )


def server_context(settings: Settings) -> tuple[TlsContext, bool] | None:
    """For the core; with whether plain clients are served, too. None: no TLS."""
    files = TlsFiles.of(settings)
    return (context_of(files), files.is_permissive) if files is not None else None


def certificate_watch(settings: Settings, core: AuthCalls) -> CertificateWatch:
    """Of a core that was made with server_context(settings)."""
    return CertificateWatch(
        TlsFiles.of(settings), lambda files: core.set_tls(context_of(files), files.is_permissive)
    )
