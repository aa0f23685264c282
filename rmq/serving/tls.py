"""TLS: what settings say of certificates, for servers and for what they ask of others.

    tls.server.mode          disabled, permissive (plain clients, too), enforcing
    tls.server.certPath ..   PEM files; looked at each second, and read anew when they have changed;
                             where none is named the server makes one that nobody can check
    tls.enable               what this process asks of other servers goes by TLS, too; with
                             enforcing in any case

RocketMQ's names and meanings, but for three: a certificate is read anew also where its key stays,
one that is not the key's is refused, and what is named is used whatever tls.test.mode.enable says.

Example: TlsFiles.of(settings).context() is what asyncio shows clients.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    """Of a server that speaks TLS."""

    certificate: str
    key: str
    password: str = field(repr=False)
    trusted: str
    asks: str  # for clients' certificates: none, optional, require
    is_permissive: bool
    is_own: bool  # made by this process

    @classmethod
    def of(cls, settings: Settings) -> TlsFiles | None:
        """None: it speaks none."""
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
        """For a setting, `what`, that is of no use without. ConfigError: there is none."""
        found = cls.of(settings)
        if found is None:
            raise ConfigError(
                f"{what}: there is no certificate; give tls.server.certPath and "
                "tls.server.keyPath, and leave out tls.server.mode=disabled"
            )
        return found

    def stamp(self) -> Stamp:
        """Another one where a file is another one."""
        return tuple(_stamp(path) for path in (self.certificate, self.key, self.trusted) if path)

    def context(self) -> ssl.SSLContext:
        """ConfigError, which names the file, for what cannot be used."""
        context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A handshake within a connection would be one that nobody has counted.
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # A function, or OpenSSL would ask at the terminal for one that is missing.
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
    """Whom a certificate names that was believed, as ssl tells it; empty where it names nobody, or
    several, or has ended (of a session that goes on it was looked at when the first one began).
    cext/net/tls.pyx is the same for the reactor."""
    if not certificate or ssl.cert_time_to_seconds(certificate["notAfter"]) <= time.time():
        return ""
    subject = certificate.get("subject", ())
    found = [value for part in subject for key, value in part if key == "commonName"]
    name = str(found[0]) if len(found) == 1 else ""
    is_plain = not any(letter < " " or letter == "\x7f" for letter in name)
    return name if is_plain and len(name.encode()) <= PROVED_BYTES_MAX else ""


def client_tls(settings: Settings) -> ClientTls:
    """What tls.client.* says."""

    def of(key: str) -> str | None:
        return getattr(settings, f"tls.client.{key}") or None

    return ClientTls(
        of("trustCertPath"), of("authServer") == "true", of("certPath"), of("keyPath"),
        of("keyPassword"), verify_name=False,  # servers are known by address
    )  # fmt: skip


def client_context(settings: Settings) -> ssl.SSLContext | None:
    """For what this process asks of other servers; None: plain."""
    is_enforced = getattr(settings, "tls.server.mode") == "enforcing"
    if getattr(settings, "tls.enable") != "true" and not is_enforced:
        return None
    try:
        return client_tls(settings).context()
    except ValueError as error:
        raise ConfigError(f"tls.client: {error}") from None
