"""Certificates: what the reactor shows clients that speak TLS, and replicas each other."""

from __future__ import annotations

from cext.net.tls import TlsContext
from cext.net.tls_stream import TlsClientContext
from rmq.broker.core_seam import AuthCalls
from rmq.config import Settings
from rmq.serving.certificate_watch import CertificateWatch
from rmq.serving.tls import TlsFiles, client_tls


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


def certificate_watch(settings: Settings, core: AuthCalls) -> CertificateWatch:
    """Of a core that was made with server_context(settings)."""
    return CertificateWatch(
        TlsFiles.of(settings), lambda files: core.set_tls(context_of(files), files.is_permissive)
    )
