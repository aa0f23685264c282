"""Identity: as whom, and how hidden, this process asks other servers.

    use(guard.credentials)          at the start of the process; asked for each request anew
    use_tls(client_context(settings))
    encode(signed(command)); create_connection(.., ssl=tls())

One for the process: whatever it asks of name servers, controllers and brokers, it asks as itself.
Without an account nothing is signed, and without a context nothing is encrypted.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from rmq.format.remoting import Command
from rmq.format.signature import Credentials

Source = Callable[[], Credentials | None]


class _Identity:
    source: Source = staticmethod(lambda: None)
    tls: ssl.SSLContext | None = None


def use(source: Source) -> None:
    _Identity.source = staticmethod(source)


def use_tls(context: ssl.SSLContext | None) -> None:
    _Identity.tls = context


def tls() -> ssl.SSLContext | None:
    """For a connection to another server; None: plain."""
    return _Identity.tls


def signed(command: Command) -> Command:
    """The command, which now says who sends it."""
    credentials = _Identity.source()
    if credentials is not None:
        command.fields = credentials.sign(command.fields, command.body)
    return command
