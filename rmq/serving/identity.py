"""Identity: by which account this process signs what it asks of other servers.

    use(guard.credentials)          at the start of the process; asked for each request anew
    encode(signed(command))

One for the process: whatever it asks of name servers, controllers and brokers, it asks as itself.
Without one nothing is signed.
"""

from __future__ import annotations

from collections.abc import Callable

from rmq.format.remoting import Command
from rmq.format.signature import Credentials

Source = Callable[[], Credentials | None]


class _Identity:
    source: Source = staticmethod(lambda: None)


def use(source: Source) -> None:
    _Identity.source = staticmethod(source)


def signed(command: Command) -> Command:
    """The command, which now says who sends it."""
    credentials = _Identity.source()
    if credentials is not None:
        command.fields = credentials.sign(command.fields, command.body)
    return command
