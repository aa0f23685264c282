"""Account servers: the servers whose accounts `rmq user` and `rmq acl` show and change.

-n HOST:PORT            all brokers and name servers of the clusters there
--controller HOST:PORT  these controllers alone: each has accounts of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from rmq.cli.options import ADDRESSES, namesrv_option
from rmq.client.blocking.accounts import Accounts
from rmq.client.blocking.cluster import Cluster
from rmq.client.connection.routes import NO_NAME_SERVER
from rmq.errors import NoControllerError, RemoteError, UnreachableError

Command = TypeVar("Command", bound=Callable[..., Any])


def account_servers_option(command: Command) -> Command:
    """Adds the parameters `namesrv` and `controller`, for accounts_of() and asked_servers()."""
    option = click.option(
        "--controller", type=ADDRESSES, metavar="HOST:PORT[;...]",
        help="Use the accounts of these controllers instead of those of brokers and name servers.",
    )  # fmt: skip
    return namesrv_option(option(command))


@contextmanager
def accounts_of(namesrv: str, controller: str | None) -> Iterator[Accounts]:
    with asked_servers(namesrv, controller) as (cluster, controllers):
        yield Accounts(cluster, controllers)


@contextmanager
def asked_servers(namesrv: str, controller: str | None) -> Iterator[tuple[Cluster, list[str]]]:
    """Yields the cluster, and the controllers that were named."""
    with Cluster(namesrv) as cluster:
        try:
            yield cluster, controller.split(";") if controller else []
        except UnreachableError as error:
            if controller is None:
                raise
            raise NoControllerError(str(error)) from None
        except RemoteError as error:
            if not error.remark.endswith(NO_NAME_SERVER):
                raise
            hint = (f"-n takes name servers. If {namesrv} is a controller, which has its own "
                    f"accounts, use --controller {namesrv}")  # fmt: skip
            raise RemoteError(error.code, f"{error.remark}\n  {hint}") from None
