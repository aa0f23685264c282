"""Client TLS: whom a client trusts that speaks TLS, and what it shows servers that ask for it.

    ClientTls(ca_file="authority.pem", cert_file="client.pem").context()

Example: a server with tls.server.need.client.auth=require closes a client without cert_file.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import NoReturn


@dataclass(frozen=True)
class ClientTls:
    """PEM files. A certificate that holds its key, too, needs no key_file."""

    ca_file: str | None = None  # None: the system's authorities
    verify: bool = True  # false: any certificate will do
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify_name: bool = True  # the server is one that its certificate names

    def context(self) -> ssl.SSLContext:
        """ValueError, which names the file, for what cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify and self.verify_name
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        if self.verify and not self.ca_file:
            context.load_default_certs()
        if self.verify and self.ca_file:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:
                _refuse(f"authorities {self.ca_file}", error)
        if self.cert_file:
            try:
                # A function, or OpenSSL would ask at the terminal for one that is missing.
                context.load_cert_chain(
                    self.cert_file, self.key_file or None, lambda: self.key_password or ""
                )
            except OSError as error:
                key = f", key {self.key_file}" if self.key_file else ""
                _refuse(f"certificate {self.cert_file}{key}", error)
        return context


def _refuse(what: str, error: OSError) -> NoReturn:
    told = getattr(error, "reason", None)  # by OpenSSL
    reason = told.replace("_", " ").lower() if told else error.strerror or error
    raise ValueError(f"{what}: {reason}") from None
