"""Encryption: whether the command line and tools speak TLS, and whom they trust.

    RMQ_TLS=1 RMQ_TLS_CA=authority.pem rmq topic list      the environment's
    use(True, "authority.pem")                             what was said otherwise
    RMQ_TLS_VERIFY=0                                       any certificate will do

Every blocking connection of the process is made by it.
"""

from __future__ import annotations

import os
import socket
import ssl

from rmq.errors import UnreachableError

ON, AUTHORITY, VERIFY = "RMQ_TLS", "RMQ_TLS_CA", "RMQ_TLS_VERIFY"
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")


class _Given:
    is_on: bool | None = None
    authority: str | None = None
    verifies: bool | None = None


def use(is_on: bool | None, trusted: str | None = None, checks: bool | None = None) -> None:
    """From now on; None: as the environment says."""
    _Given.is_on, _Given.authority, _Given.verifies = is_on, trusted, checks


def given_authority() -> str | None:
    """By use(), whatever the environment says."""
    return _Given.authority


def authority() -> str | None:
    """A PEM file; None: the system's."""
    return _Given.authority or os.environ.get(AUTHORITY) or None


def verifies() -> bool:
    if _Given.verifies is not None:
        return _Given.verifies
    return os.environ.get(VERIFY, "").lower() not in _NO


def is_on() -> bool:
    if _Given.is_on is not None:
        return _Given.is_on
    return os.environ.get(ON, "").lower() in _YES


def secured(plain: socket.socket, host: str, address: str) -> socket.socket:
    """The connection, by TLS where that is asked for; UnreachableError with the remedy."""
    if not is_on():
        return plain
    try:
        context = ssl.create_default_context(cafile=authority())
        if not verifies():
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise UnreachableError(
            f"{address}: its certificate is not trusted ({error.verify_message}): give the "
            "authority that has signed it by --tls-ca FILE or RMQ_TLS_CA, ask the server by a name "
            "that its certificate has, or do without the check by RMQ_TLS_VERIFY=0"
        ) from None
    except (OSError, ValueError) as error:
        plain.close()
        raise UnreachableError(f"{address}: TLS failed ({error}); does it speak TLS?") from None
