"""Encryption: whether the command line and tools speak TLS, and whom they trust.

    RMQ_TLS=1 RMQ_TLS_CA=authority.pem rmq topic list      the environment's
    use(RMQ_TLS="1", RMQ_TLS_CA="authority.pem")           what was said otherwise
    RMQ_TLS_VERIFY=0                                       any certificate will do
    RMQ_TLS_CERT, RMQ_TLS_KEY, RMQ_TLS_KEY_PASSWORD        what servers are shown that ask for it

Every blocking connection of the process is made by it.
"""

from __future__ import annotations

import os
import socket
import ssl

from rmq.errors import UnreachableError
from rmq.format.client_tls import ClientTls

ON, AUTHORITY, VERIFY = "RMQ_TLS", "RMQ_TLS_CA", "RMQ_TLS_VERIFY"
CERTIFICATE, KEY, PASSWORD = "RMQ_TLS_CERT", "RMQ_TLS_KEY", "RMQ_TLS_KEY_PASSWORD"
_REMEDY = "give one by --tls-cert FILE or RMQ_TLS_CERT"
_STRANGE = "it does not accept the certificate that it was shown (--tls-cert, RMQ_TLS_CERT)"
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")

_given: dict[str, str] = {}  # by the name in the environment


def use(**given: str) -> None:
    """RMQ_TLS="1" and others, from now on, whatever the environment says."""
    _given.update(given)


def forget() -> None:
    """What use() said."""
    _given.clear()


def _said(name: str) -> str:
    return _given.get(name) or os.environ.get(name) or ""


def _key() -> str:
    """Of the certificate that is used: the environment's belongs to the environment's."""
    return _given.get(KEY, "") if _given.get(CERTIFICATE) else _said(KEY)


def is_on() -> bool:
    return _said(ON).lower() in _YES


def client_tls() -> ClientTls:
    return ClientTls(
        _said(AUTHORITY) or None,
        _said(VERIFY).lower() not in _NO,
        _said(CERTIFICATE) or None,
        _key() or None,
        _said(PASSWORD) or None,
    )


def secured(plain: socket.socket, host: str, address: str) -> socket.socket:
    """The connection, by TLS where that is asked for; UnreachableError with the remedy."""
    if not is_on():
        return plain
    try:
        return client_tls().context().wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise UnreachableError(
            f"{address}: its certificate is not trusted ({error.verify_message}): give the "
            "authority that has signed it by --tls-ca FILE or RMQ_TLS_CA, ask the server by a name "
            "that its certificate has, or do without the check by RMQ_TLS_VERIFY=0"
        ) from None
    except ValueError as error:
        plain.close()
        raise UnreachableError(f"{address}: TLS is not possible: {error}") from None
    except OSError as error:
        plain.close()
        why = refusal(error) or f"{error}; does it speak TLS?"
        raise UnreachableError(f"{address}: TLS failed ({why})") from None


def refusal(error: Exception) -> str | None:
    """Where the server says by an alert that it does not like our certificate: why, and the
    remedy."""
    alert = getattr(error, "reason", None) or ""
    if not isinstance(error, ssl.SSLError) or "ALERT" not in alert:
        return None
    if "CERTIFICATE_REQUIRED" in alert or "HANDSHAKE_FAILURE" in alert:
        return f"it asks for a certificate: {_REMEDY}"
    if "UNKNOWN_CA" in alert or "CERTIFICATE" in alert:
        return _STRANGE
    return None


def hint(connection: socket.socket) -> str:
    """What may be the cause where a server closes a connection before its first answer: an alert
    that says it does not always arrive."""
    if not isinstance(connection, ssl.SSLSocket):
        return ""
    if client_tls().cert_file:
        return f"; it may be that {_STRANGE}"
    return f"; if it asks for a certificate, {_REMEDY}"
