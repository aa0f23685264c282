"""TLS: certificates as settings name them, for servers and for their requests to other servers.

    tls.server.mode          disabled, permissive (plain clients, too), enforcing
    tls.server.certPath ..   PEM files; checked every second, and read anew when they have changed;
                             where none is named the server makes one that nobody can check
    tls.enable               requests of this process to other servers use TLS, too; with enforcing
                             they always do

Names and meanings are RocketMQ's, with three differences: a certificate is read anew even if its
key stays, a certificate that does not belong to the key is refused, and named files are used
whatever tls.test.mode.enable says.

Example: TlsFiles.of(settings).context() is the context with which asyncio serves clients.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmq.base import clock
from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.format.client_tls import ClientTls
from rmq.serving.own_certificate import own_certificate
from rmq.serving.tls_alert import AlertingContext

log = logging.getLogger("rmq.serving.tls")

HELLO = 0x16  # the first byte of a TLS handshake
PROVED_BYTES_MAX = 255

Stamp = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(frozen=True)
class TlsFiles:
    """The files of a server that uses TLS."""

    certificate: str
    key: str
    password: str = field(repr=False)
    trusted: str
    asks: str  # whether clients' certificates are asked for: none, optional, require
    is_permissive: bool
    is_own: bool  # made by this process

    @classmethod
    def of(cls, settings: Settings) -> TlsFiles | None:
        """The files that the settings name; None: the server uses no TLS."""
        mode = getattr(settings, "tls.server.mode") or "permissive"
        certificate = getattr(settings, "tls.server.certPath")
        key = getattr(settings, "tls.server.keyPath")
        is_own = not certificate
        if mode == "disabled" or (is_own and getattr(settings, "tls.test.mode.enable") == "false"):
            return None
        if is_own:
            try:
                certificate = key = own_certificate()
            except (OSError, RuntimeError) as error:
                if mode == "enforcing":
                    raise ConfigError(
                        f"no certificate can be made here ({error}): give tls.server.certPath and "
                        "tls.server.keyPath"
                    ) from None
                log.warning("clients by TLS are not served: no certificate can be made: %s", error)
                return None
        trusted = getattr(settings, "tls.server.trustCertPath")
        asks = getattr(settings, "tls.server.need.client.auth") or "none"
        return cls(
            str(Path(certificate).expanduser()),
            str(Path(key).expanduser()),
            "" if is_own else getattr(settings, "tls.server.keyPassword"),
            str(Path(trusted).expanduser()) if trusted else "",
            asks if trusted else "none",
            mode == "permissive",
            is_own,
        )

    @classmethod
    def needed(cls, settings: Settings, what: str) -> TlsFiles:
        """The files for a setting, `what`, that needs TLS. ConfigError: there is no TLS."""
        found = cls.of(settings)
        if found is None:
            raise ConfigError(
                f"{what}: there is no certificate; give tls.server.certPath and "
                "tls.server.keyPath, and leave out tls.server.mode=disabled"
            )
        return found

    def stamp(self) -> Stamp:
        """A value that differs when one of the files has changed."""
        return tuple(_stamp(path) for path in (self.certificate, self.key, self.trusted) if path)

    def context(self) -> ssl.SSLContext:
        """The context made of the files; ConfigError, which names the file, if one is unusable."""
        context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A new handshake within a connection would not be counted.
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # A function, because otherwise OpenSSL asks at the terminal for a missing password.
            context.load_cert_chain(self.certificate, self.key, lambda: self.password)
            if self.trusted:
                context.load_verify_locations(self.trusted)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"tls.server.certPath={self.certificate}, tls.server.keyPath={self.key}: {error}"
            ) from None
        context.verify_mode = {
            "require": ssl.CERT_REQUIRED,
            "optional": ssl.CERT_OPTIONAL,
        }.get(self.asks, ssl.CERT_NONE)
        return context


def _stamp(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """The name in a certificate that was verified, as ssl gives it; empty if it has no name or
    several, or has expired (a resumed session was verified only when the first one began).
    cext/net/tls.pyx is the same for the reactor."""
    if not certificate or ssl.cert_time_to_seconds(certificate["notAfter"]) <= clock.wall():
        return ""
    subject = certificate.get("subject", ())
    found = [value for part in subject for key, value in part if key == "commonName"]
    name = str(found[0]) if len(found) == 1 else ""
    is_plain = not any(letter < " " or letter == "\x7f" for letter in name)
    return name if is_plain and len(name.encode()) <= PROVED_BYTES_MAX else ""


def client_tls(settings: Settings) -> ClientTls:
    """The client side of TLS, as tls.client.* says."""

    def of(key: str) -> str | None:
        return getattr(settings, f"tls.client.{key}") or None

    return ClientTls(
        of("trustCertPath"), of("authServer") == "true", of("certPath"), of("keyPath"),
        of("keyPassword"), verify_name=False,  # servers are known by address
    )  # fmt: skip


def client_context(settings: Settings) -> ssl.SSLContext | None:
    """The context for requests of this process to other servers; None: plain."""
    is_enforced = getattr(settings, "tls.server.mode") == "enforcing"
    if getattr(settings, "tls.enable") != "true" and not is_enforced:
        return None
    try:
        return client_tls(settings).context()
    except ValueError as error:
        raise ConfigError(f"tls.client: {error}") from None
