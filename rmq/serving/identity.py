"""Identity: the account and the TLS context with which this process asks other servers.

    take(guard.credentials, settings)       at the start of the process; guard.credentials is called
                                            anew for each request
    encode(signed(command)); create_connection(.., ssl=tls())

There is one identity per process, for all its requests to name servers, controllers and brokers.
Without an account nothing is signed, and without a context nothing is encrypted.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from rmq.config import Settings
from rmq.format.remoting import Command
from rmq.format.signature import Credentials
from rmq.serving.tls import client_context

Source = Callable[[], Credentials | None]


class _Identity:
    source: Source = staticmethod(lambda: None)
    tls: ssl.SSLContext | None = None


def take(source: Source, settings: Settings) -> None:
    """Sets the identity. ConfigError: the settings of TLS cannot be used."""
    _Identity.source = staticmethod(source)
    _Identity.tls = client_context(settings)


def tls() -> ssl.SSLContext | None:
    """The context for a connection to another server; None: plain."""
    return _Identity.tls


def signed(command: Command) -> Command:
    """The command, signed with this process's account."""
    credentials = _Identity.source()
    if credentials is not None:
        command.fields = credentials.sign(command.fields, command.body)
    return command
