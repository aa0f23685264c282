"""Certificates: what the reactor shows clients that speak TLS, and replicas each other."""

from __future__ import annotations

from cext.net.tls import TlsContext
from cext.net.tls_stream import TlsClientContext
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


def replica_context(settings: Settings) -> TlsContext | None:
    """What slaves are shown at the HA port, as the files are now. None: there is no certificate."""
    files = TlsFiles.of(settings)
    return context_of(files) if files is not None else None


def master_context(settings: Settings) -> TlsClientContext:
    """What is shown the master, and whether its certificate is looked at."""
    def of(key: str) -> str | None:
        return getattr(settings, f"tls.client.{key}") or None

    return TlsClientContext(
        of("trustCertPath"), of("authServer") == "true", of("certPath"), of("keyPath"),
        of("keyPassword"),
    )  # fmt: skip


def certificate_watch(settings: Settings, core: AuthCalls) -> CertificateWatch:
    """Of a core that was made with server_context(settings)."""
    return CertificateWatch(
        TlsFiles.of(settings), lambda files: core.set_tls(context_of(files), files.is_permissive)
    )
