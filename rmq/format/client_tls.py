"""Client TLS: which servers a TLS client trusts, and the certificate that it shows on request.

    tls = ClientTls(ca_file="authority.pem", cert_file="client.pem")
    connection = tls.secured(plain, host, f"{host}:{port}", PARAMETERS)

Example: a server with tls.server.need.client.auth=require closes a client without cert_file.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field

from rmq.errors import UnreachableError


@dataclass(frozen=True)
class TlsOptions:
    """The names of the settings, as the reader of an error knows them."""

    tls: str
    authority: str
    certificate: str
    any_certificate: str

    def refusal(self, error: Exception) -> str | None:
        """Cause and remedy, if the server has sent an alert that it does not accept the client's
        certificate."""
        alert = getattr(error, "reason", None) or ""
        if not isinstance(error, ssl.SSLError) or "ALERT" not in alert:
            return None
        if "CERTIFICATE_REQUIRED" in alert or "HANDSHAKE_FAILURE" in alert:
            return f"it asks for a certificate: give one by {self.certificate}"
        if "UNKNOWN_CA" in alert or "CERTIFICATE" in alert:
            return self.disliked
        return None

    @property
    def disliked(self) -> str:
        return f"it does not accept the certificate that it was shown ({self.certificate})"

    def hint(self, tls: ClientTls | None) -> str:
        """What may be the cause when a server closes a connection before its first answer: the
        alert that says why does not always arrive."""
        if tls is None:
            return f"; if it speaks TLS alone, ask by {self.tls}"
        if tls.cert_file:
            return f"; it may be that {self.disliked}"
        return f"; if it asks for a certificate, give one by {self.certificate}"


PARAMETERS = TlsOptions("use_tls=True", "tls_ca_file", "tls_cert_file", "tls_verify=False")


class FileError(ValueError):
    """A file that cannot be used. `what`: the authorities, or the certificate."""

    def __init__(self, what: str, files: str, reason: str) -> None:
        super().__init__(what, files, reason)
        self.what = what
        self.files = f"{files}: {reason}"

    def __str__(self) -> str:
        return f"{self.what} {self.files}"


def _reason(error: OSError) -> str:
    told: str | None = getattr(error, "reason", None)  # by OpenSSL
    return told.replace("_", " ").lower() if told else error.strerror or str(error)


@dataclass(frozen=True)
class ClientTls:
    """PEM files. A certificate that holds its key, too, needs no key_file."""

    ca_file: str | None = None  # None: the system's authorities
    verify: bool = True  # false: any certificate will do
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify_name: bool = True  # the certificate must name the server

    def context(self) -> ssl.SSLContext:
        """The context. FileError for a file that cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify and self.verify_name
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        if self.verify and not self.ca_file:
            context.load_default_certs()
        if self.verify and self.ca_file:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:
                raise FileError("authorities", self.ca_file, _reason(error)) from None
        if self.cert_file:
            try:
                # A function, because otherwise OpenSSL asks at the terminal for a missing password.
                context.load_cert_chain(
                    self.cert_file, self.key_file or None, lambda: self.key_password or ""
                )
            except OSError as error:
                key = f", key {self.key_file}" if self.key_file else ""
                files = f"{self.cert_file}{key}"
                raise FileError("certificate", files, _reason(error)) from None
        return context

    def secured(
        self, plain: socket.socket, host: str, address: str, options: TlsOptions
    ) -> ssl.SSLSocket:
        """The connection with TLS; UnreachableError with cause and remedy, and `plain` is closed,
        if the handshake fails."""
        try:
            return self.context().wrap_socket(plain, server_hostname=host)
        except (OSError, ValueError) as error:
            plain.close()
            raise UnreachableError(f"{address}: TLS failed ({_why(error, options)})") from None


def _why(error: OSError | ValueError, options: TlsOptions) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted, {error.verify_message}: give the authority that has "
            f"signed it by {options.authority}, ask the server by a name that its certificate has, "
            f"or do without the check by {options.any_certificate}"
        )
    if isinstance(error, OSError):
        return options.refusal(error) or f"{error}; does it speak TLS?"
    return str(error)  # files that cannot be used
