"""Askers: whether servers know the account that asks, and whether they ask for accounts at all.

    is_let_in(Cluster(namesrv, account=alice))          True: her password is right
    is_let_in(Cluster(namesrv, account=STRANGER))       True: servers do not ask for accounts

Only the server's answer about the signature counts, not whether the account may send the request.
"""

from __future__ import annotations

import secrets

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, ClusterView
from rmq.errors import RemoteError, RmqError, UnreachableError
from rmq.format.signature import Credentials

# How refusals of unknown accounts end, among the texts of rmq.errors.ACCESS_REMEDIES.
_NOT_KNOWN = dict.fromkeys(
    ("username cannot be null.", "is not found.", "is disabled.", "check signature failed."), ""
)
STRANGER = Credentials("no-account-of-this-name", secrets.token_urlsafe(16))


def is_unknown_asker(error: RmqError) -> bool:
    """Whether the error says that a server does not know the account that asked."""
    return isinstance(error, RemoteError) and error.of_access(_NOT_KNOWN) is not None


def is_let_in(cluster: ClusterView) -> bool:
    """Asks a name server, and the first broker that answers. UnreachableError: no broker does."""
    try:
        entries = cluster.brokers()
    except RemoteError as error:
        return not is_unknown_asker(error)
    missed: UnreachableError | None = None
    for entry in entries:
        for address in entry.addresses.values():
            try:
                admin.runtime_info(cluster, BrokerEntry(entry.name, entry.cluster, {0: address}))
                return True
            except UnreachableError as error:
                missed = error
            except RemoteError as error:
                return not is_unknown_asker(error)
    raise missed or UnreachableError("no broker is registered that could check the account")
